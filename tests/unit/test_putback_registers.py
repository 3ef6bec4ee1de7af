"""Functions of an executable whose callers know which registers they leave alone, as gcc's do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from applications import compiled, with_library

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.in_place import FunctionWinner
from tuner.driver.applications.recording import record_spec
from tuner.driver.applications.winners import function_winner
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import LoadedSpec, load_spec

# Seven whole numbers and nine real ones: one of each, and the arrays behind them, come on the stack.
KERNEL = """
double mix(const double *x, double *y, long n, long a, long b, long c, long d, double e, double f, double g,
           double h, double i, double j, double k, double l, double m) {
    for (long at = 0; at < n; at++) y[at] += x[at] + d + m;
    return a + b + c + e + f + g + h + i + j + k + l;
}
struct pair { double a; long b; char c[5]; };
double copied(int n, struct pair p, double *y) { return p.a + p.b + y[n - 1]; }
void quiet(int n, double *y) {
    for (int at = 0; at < n; at++) y[at] += 1;
}
"""
MAIN = """
int printf(const char *, ...);
double mix(const double *, double *, long, long, long, long, long, double, double, double, double, double, double,
           double, double, double);
struct pair { double a; long b; char c[5]; };
double copied(int, struct pair, double *);
double x[64], y[64];
int main(void) {
    struct pair p = {40, 2, ""};
    printf("%g ", copied(64, p, y));
    for (int i = 0; i < 64; i++) x[i] = i;
    printf("%g ", mix(x, y, 64, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0.5));
    printf("%g ", mix(x, y, 63, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0.5));
    long kept[5] = {64, 0, 0, 0, 0};
    __asm__ volatile(
        "movq %%rsp, %%rbx\\n subq $256, %%rsp\\n andq $-16, %%rsp\\n"
        "movl $64, %%edi\\n movq %1, %%rsi\\n"
        "movl $7, %%r8d\\n movl $8, %%r10d\\n movl $9, %%r11d\\n movq %%r11, %%xmm0\\n movq %%r10, %%xmm13\\n"
        "call quiet\\n"
        "movq %%rbx, %%rsp\\n"
        "movq %%r8, 8(%0)\\n movq %%r10, 16(%0)\\n movq %%r11, 24(%0)\\n movq %%xmm13, 32(%0)\\n"
        : : "r"(kept), "r"(y) : "memory", "cc", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11",
          "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm13");
    printf("%ld %ld %ld %ld %g %g\\n", kept[1], kept[2], kept[3], kept[4], y[0], y[5]);
    return 0;
}
"""
MIX = """\
kernel: {source: kernel.c, entry: mix, returns: float64}
problem: {n: 64}
arguments:
  - {name: x, dtype: float64, shape: [n]}
  - {name: y, dtype: float64, shape: [n], role: inout}
  - {name: n, dtype: int64, value: n}
""" + "".join(
    f"  - {{name: {n}, dtype: {'int64' if n < 'e' else 'float64'}, value: 2}}\n" for n in "abcdefghijklm"
)
COPIED = """\
kernel: {source: kernel.c, entry: copied, returns: float64}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - name: p
    struct: struct pair
    by: value
    members:
      - {name: a, dtype: float64, value: 1}
      - {name: b, dtype: int64, value: 1}
  - {name: y, dtype: float64, shape: [n], role: inout}
"""
QUIET = """\
kernel: {source: kernel.c, entry: quiet}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: y, dtype: float64, shape: [n], role: inout}
"""


def as_given(loaded: LoadedSpec) -> FunctionWinner:
    """The kernel as its source has it, to be put in place."""
    backend, resolved = HostBackend(), Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    evaluation = backend.prepare(loaded.task, workers=1)
    try:
        request = BuildRequest(trial=1, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
    finally:
        evaluation.close()
    assert build.status is Status.OK, build.message
    return function_winner(backend.replacement(loaded.task, build.code, resolved), loaded)


@pytest.mark.integration
def test_registers_and_arguments_on_the_stack_are_what_they_were(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "main.c").write_text(MAIN)
    program = tmp_path / "own"
    plain = ["-fno-vectorize", "-fno-unroll-loops"]
    compiled(*plain, "-o", program, tmp_path / "main.c", tmp_path / "kernel.c")
    winners = []
    for name, text in {"mix": MIX, "copied": COPIED, "quiet": QUIET}.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text + 'space: {flags: {vector: ["", -fno-vectorize]}, passes: off}\n')
        (loaded,) = load_spec(path)
        if name == "mix":
            record_spec([str(program)], loaded, instances=1)
            assert capfd.readouterr().out == "42 42 42 7 8 9 8 10 20\n"
        winners.append(as_given(loaded))
    _, ran = run_with(winners, [str(program)])
    assert [(one.replaced, one.left) for one in ran] == [(1, 1), (1, 0), (1, 0)]
    assert capfd.readouterr().out == "42 42 42 7 8 9 8 10 20\n"


# All of each goes in registers, or, where there are too few left, on the stack; what follows may find one yet.
SMALL_TYPES = """
struct a { float x, y; }; struct b { double re, im; }; struct c { int a, b; double d; }; struct d { float x, y, z; };
struct e { signed char c[3]; }; struct f { double *p; long n; }; struct j { int i; float f; };
double small(struct a, struct b, long, struct c, struct d, struct e, struct f, struct j, double, struct b, double, long,
             struct c);
"""
SMALL = """
double small(struct a a, struct b b, long n, struct c c, struct d d, struct e e, struct f f, struct j j, double s,
             struct b last, double t, long r, struct c late) {
    for (long i = 0; i < n; i++)
        f.p[i] = f.p[i] * b.re + a.x - a.y + b.im * c.a + c.b * c.d + d.x * d.y - d.z + e.c[0] + 2 * e.c[2] + f.n
            + j.i * j.f + s + last.re * 3 - last.im + t + r + late.a * late.b + late.d;
    return f.p[n - 1] + last.im;
}
"""
SMALL_MAIN = """
int printf(const char *, ...);
double u[64];
int main(void) {
    for (int i = 0; i < 64; i++) u[i] = i;
    double r = small((struct a){1.5f, 2.25f}, (struct b){0.5, 3}, 64, (struct c){2, 5, 0.125}, (struct d){1, 2, 4},
                     (struct e){{1, 2, 3}}, (struct f){u, 7}, (struct j){3, 0.5f}, 11, (struct b){13, 17}, 19, 23,
                     (struct c){29, 31, 37});
    printf("%g %g\\n", r, u[5]);
    return 0;
}
"""
SMALL_MEMBERS = {
    "a": ("a", {"x": "float32", "y": "float32"}),
    "b": ("b", {"re": "float64", "im": "float64"}),
    "c": ("c", {"a": "int32", "b": "int32", "d": "float64"}),
    "d": ("d", {"x": "float32", "y": "float32", "z": "float32"}),
    "e": ("e", {"c": "int8, shape: [3], by: value, init: {randint: [0, 9]}"}),
    "f": ("f", {"p": "float64, shape: [n], role: inout", "n": "int64"}),
    "j": ("j", {"i": "int32", "f": "float32"}),
    "last": ("b", {"re": "float64", "im": "float64"}),
    "late": ("c", {"a": "int32", "b": "int32", "d": "float64"}),
}
SMALL_ORDER = {
    "n": "int64, value: n",
    "s": "float64, value: 1",
    "t": "float64, value: 1",
    "r": "int64, value: 1",
}


def small_spec() -> str:
    """The spec of the function above."""
    lines = ["kernel: {source: kernel.c, entry: small, returns: float64}", "problem: {n: 64}", "arguments:"]
    for name in ("a", "b", "n", "c", "d", "e", "f", "j", "s", "last", "t", "r", "late"):
        if name in SMALL_ORDER:
            lines.append(f"  - {{name: {name}, dtype: {SMALL_ORDER[name]}}}")
            continue
        kind, members = SMALL_MEMBERS[name]
        lines += [f"  - name: {name}", f"    struct: struct {kind}", "    by: value", "    members:"]
        for member, dtype in members.items():
            lines.append(
                f"      - {{name: {member}, dtype: {dtype}{'' if 'shape' in dtype else ', value: 1'}}}"
            )
    return "\n".join([*lines, 'space: {flags: {vector: ["", -fno-vectorize]}, passes: off}', ""])


@pytest.mark.integration
@pytest.mark.parametrize("where", ["executable", "library"])
def test_small_structures_are_passed_as_the_application_passes_them(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], where: str
) -> None:
    (tmp_path / "kernel.c").write_text(SMALL_TYPES + SMALL)
    (tmp_path / "main.c").write_text(SMALL_TYPES + SMALL_MAIN)
    program = tmp_path / "app"
    if where == "library":
        with_library(tmp_path, "kernel.c")
    else:
        compiled("-o", program, tmp_path / "main.c", tmp_path / "kernel.c")
    (tmp_path / "small.yaml").write_text(small_spec())
    (loaded,) = load_spec(tmp_path / "small.yaml")
    (path,) = record_spec([str(program)], loaded, instances=1).recordings
    printed = capfd.readouterr().out
    assert printed == "1078.88 1032.88\n"
    with RecordingFile(path) as file:
        names = [argument.name for argument in loaded.task.own_arguments]
        held = {n: file.recording.arguments[i].value for i, n in enumerate(names)}
    assert np.frombuffer(held["a.y"] + held["d.z"], "f4").tolist() == [2.25, 4]
    assert np.frombuffer(held["last.im"] + held["late.d"], "f8").tolist() == [17, 37]
    assert np.frombuffer(held["c.b"] + held["late.b"], "i4").tolist() == [5, 31]
    _, (ran,) = run_with([as_given(loaded)], [str(program)])
    assert (ran.replaced, ran.left) == (1, 0)
    assert capfd.readouterr().out == printed
