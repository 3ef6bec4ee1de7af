"""Functions of an executable whose callers know which registers they leave alone, as gcc's do."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.recording import record_spec
from tuner.driver.applications.winners import function_winner
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.load import load_spec

# Seven whole numbers and nine real ones: one of each, and the arrays behind them, come on the stack.
KERNEL = """
double mix(const double *x, double *y, long n, long a, long b, long c, long d, double e, double f, double g,
           double h, double i, double j, double k, double l, double m) {
    for (long at = 0; at < n; at++) y[at] += x[at] + d + m;
    return a + b + c + e + f + g + h + i + j + k + l;
}
void quiet(int n, double *y) {
    for (int at = 0; at < n; at++) y[at] += 1;
}
"""
MAIN = """
int printf(const char *, ...);
double mix(const double *, double *, long, long, long, long, long, double, double, double, double, double, double,
           double, double, double);
double x[64], y[64];
int main(void) {
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
QUIET = """\
kernel: {source: kernel.c, entry: quiet}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: y, dtype: float64, shape: [n], role: inout}
"""


def test_registers_and_arguments_on_the_stack_are_what_they_were(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.c").write_text(KERNEL)
    (tmp_path / "main.c").write_text(MAIN)
    words = [find_toolchain().clang, "-w", "-O1", "-fno-vectorize", "-fno-unroll-loops", "-fno-builtin"]
    program = tmp_path / "own"
    words += ["-o", str(program), str(tmp_path / "main.c"), str(tmp_path / "kernel.c")]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no C library to link an application with")
    winners = []
    for name, text in {"mix": MIX, "quiet": QUIET}.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text + 'space: {flags: {vector: ["", -fno-vectorize]}, passes: off}\n')
        (loaded,) = load_spec(path)
        if name == "mix":
            record_spec([str(program)], loaded, instances=1)
            assert capfd.readouterr().out == "42 42 7 8 9 8 10 20\n"
        evaluation = HostBackend().prepare(loaded.task, workers=1)
        try:
            resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
            variant = loaded.task.kernel.variant
            (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved)])
        finally:
            evaluation.close()
        assert build.status is Status.OK, build.message
        winners.append(function_winner(HostBackend().replacement(loaded.task, build.code, resolved), loaded))
    _, ran = run_with(winners, [str(program)])
    assert [(one.replaced, one.left) for one in ran] == [(1, 1), (1, 0)]
    assert capfd.readouterr().out == "42 42 7 8 9 8 10 20\n"
