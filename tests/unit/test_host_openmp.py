"""Kernels with OpenMP on the host: built, verified and timed by a team of real threads; what is said where it fails."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import needs
import pytest
import two_arrays
from two_arrays import task_of

from tuner.core.errors import MachineError, SpecError
from tuner.core.types import (
    Build,
    BuildCompiler,
    BuildRequest,
    Measurement,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    Verdict,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.openmp import as_if_openmp, find_openmp, team_variables
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

RESOLVED = Resolved(macros={}, scalars={}, flags=(), pipeline="default<O3>")
MEAN = """
#include <omp.h>
void f(const float *src, float *dst, int n) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 64)
    for (int i = 0; i < n; i++) sum += src[i];
    const float mean = sum / n;
#pragma omp parallel for simd
    for (int i = 0; i < n; i++) dst[i] = src[i] - mean;
}
"""


BY_GCC = ("gcc", "-O3", "-fopenmp")


def asked(command: Sequence[str]) -> BuildCompiler | None:
    """The compiler of a spec that names it."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "f.c").write_text("void f(float *x) { x[0] = 1; }\n")
        spec = Path(folder) / "f.yaml"
        spec.write_text(
            f"kernel: {{source: f.c, entry: f}}\ncompiler: {' '.join(command)}\nproblem: {{n: 1}}\n"
            "arguments:\n  - {name: x, dtype: float32, shape: [n], role: output}\n"
            'space: {flags: {vector: ["", "-O2"]}, passes: off}\n'
        )
        return load_spec(spec)[0].task.kernel.compiler


def make_task(
    text: str = MEAN, *, threads: int = 2, n: int = 20_000, name: str = "f.c", compiler: Sequence[str] = ()
) -> Task:
    return task_of(
        Variant(files=(Source(name=name, text=text),)),
        n=n,
        language="c++" if name.endswith(".cc") else "c",
        threads=threads,
        openmp=True,
        compiler=asked(compiler) if compiler else None,
    )


def prepared(task: Task) -> tuple[HostEvaluation, Build]:
    return two_arrays.prepared(HostBackend(), task, RESOLVED)


def timed(evaluation: HostEvaluation, build: Build, calls: int = 20) -> tuple[Verdict, Measurement]:
    session = evaluation.open(build, RESOLVED, purpose="search", number=1)
    try:
        return session.verify(), session.measure(problem=0, calls=calls)
    finally:
        session.close()


def candidate(evaluation: HostEvaluation, text: str) -> Build:
    variant = Variant(files=(Source(name="f.c", text=text),))
    (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=RESOLVED)])
    return build


@pytest.fixture(scope="module")
def mean() -> Iterator[HostEvaluation]:
    evaluation, _ = prepared(make_task())
    yield evaluation
    evaluation.close()


HEAD = "#include <omp.h>\n"
SUM = "static double total(const float *src, int n) {{ double s = 0; {} return s; }}\n"
REST = """
void f(const float *src, float *dst, int n) {
    const float mean = total(src, n) / n;
#pragma omp parallel for
    for (int i = 0; i < n; i++) dst[i] = src[i] - mean;
}
"""
SUMS = {
    "static": """
#pragma omp parallel for reduction(+ : s)
for (int i = 0; i < n; i++) s += src[i];
""",
    "guided": """
#pragma omp parallel for reduction(+ : s) schedule(guided, 8)
for (int i = 0; i < n; i++) s += src[i];
""",
    "runtime": """
#pragma omp parallel for reduction(+ : s) schedule(runtime)
for (int i = 0; i < n; i++) s += src[i];
""",
    "a team too large": """
#pragma omp parallel for reduction(+ : s) num_threads(64)
for (int i = 0; i < n; i++) s += src[i];
""",
    "nested": """
#pragma omp parallel reduction(+ : s)
{
#pragma omp for
for (int k = 0; k < 4; k++) {
#pragma omp parallel for reduction(+ : s)
for (int i = k * n / 4; i < (k + 1) * n / 4; i++) s += src[i]; } }
""",
    "critical": """
#pragma omp parallel
{ double own = 0;
#pragma omp for nowait
for (int i = 0; i < n; i++) own += src[i];
#pragma omp critical(one)
s += own; }
""",
    "atomic": """
#pragma omp parallel
{ double own = 0;
#pragma omp for nowait
for (int i = 0; i < n; i++) own += src[i];
#pragma omp atomic
s += own; }
""",
    "tasks": """
#pragma omp parallel
#pragma omp single
for (int k = 0; k < 8; k++)
#pragma omp task firstprivate(k) shared(s)
{ double own = 0; for (int i = k * n / 8; i < (k + 1) * n / 8; i++) own += src[i];
#pragma omp atomic
s += own; }
""",
    "taskloop": """
#pragma omp parallel
#pragma omp single
#pragma omp taskloop reduction(+ : s) num_tasks(4)
for (int i = 0; i < n; i++) s += src[i];
""",
    "sections": """
double t = 0;
#pragma omp parallel sections
{
#pragma omp section
for (int i = 0; i < n / 2; i++) s += src[i];
#pragma omp section
for (int i = n / 2; i < n; i++) t += src[i];
}
s += t;
""",
    "own numbers": """
double parts[64] = {0};
#pragma omp parallel
{ int me = omp_get_thread_num(), all = omp_get_num_threads();
for (int i = me; i < n; i += all) parts[me] += src[i]; }
for (int k = 0; k < 64; k++) s += parts[k];
""",
    "locks": """
omp_lock_t lock; omp_init_lock(&lock);
#pragma omp parallel
{ double own = 0;
#pragma omp for
for (int i = 0; i < n; i++) own += src[i];
omp_set_lock(&lock); s += own; omp_unset_lock(&lock); }
omp_destroy_lock(&lock);
""",
    "ordered": """
#pragma omp parallel for ordered schedule(static, 4096)
for (int i = 0; i < n; i++)
#pragma omp ordered
s += src[i];
""",
}


@needs.openmp
@needs.gcc
@pytest.mark.parametrize("compiler", [(), BY_GCC], ids=["clang", "gcc"])
def test_pragmas_are_built_verified_and_timed(compiler: Sequence[str]) -> None:
    """All of them in one kernel, of which each makes the same sum: a wrong one is a wrong result."""
    mean, _ = prepared(make_task(compiler=compiler))
    ways = [SUM.format(text).replace("total(", f"total_{i}(") for i, text in enumerate(SUMS.values())]
    every = " + ".join(f"total_{i}(src, n)" for i in range(len(ways)))
    rest = REST.replace("total(src, n)", f"({every}) / {len(ways)}")
    try:
        build = candidate(mean, HEAD + "".join(ways) + rest)
        assert build.status is Status.OK, build.message
        verdict, measured = timed(mean, build)
        assert verdict.status is Status.OK, verdict.message
        assert measured.status is Status.OK, measured.message
    finally:
        mean.close()


@needs.openmp
@needs.gcc
@pytest.mark.parametrize(
    ("threads", "compiler"), [(1, ()), (3, ()), (3, BY_GCC)], ids=["one", "three", "by gcc"]
)
def test_a_kernel_sees_as_many_threads_as_the_spec_says(threads: int, compiler: Sequence[str]) -> None:
    count = (
        "#include <omp.h>\nvoid f(const float *src, float *dst, int n) { int all = 0;\n"
        "#pragma omp parallel\n#pragma omp single\nall = omp_get_num_threads();\n"
        "for (int i = 0; i < n; i++) dst[i] = all; }"
    )
    evaluation, _ = prepared(make_task(count, threads=threads, compiler=compiler))
    try:
        same = f"void f(const float *src, float *dst, int n) {{ for (int i = 0; i < n; i++) dst[i] = {threads}; }}"
        verdict, _ = timed(evaluation, candidate(evaluation, same))
        assert verdict.status is Status.OK, verdict.message
        other = same.replace(f"= {threads};", f"= {threads + 1};")
        assert timed(evaluation, candidate(evaluation, other))[0].status is Status.WRONG_RESULT
    finally:
        evaluation.close()


@needs.openmp
def test_a_kernel_in_cpp_is_timed_too() -> None:
    text = (
        '#include <omp.h>\nextern "C" void f(const float *src, float *dst, int n) {\n'
        "#pragma omp parallel for\nfor (int i = 0; i < n; i++) dst[i] = [](float x) { return 2 * x; }(src[i]); }"
    )
    evaluation, build = prepared(make_task(text, name="f.cc"))
    try:
        verdict, measured = timed(evaluation, build)
        assert verdict.status is Status.OK, verdict.message
        assert measured.status is Status.OK, measured.message
    finally:
        evaluation.close()


@needs.openmp
def test_a_race_that_shows_is_a_wrong_result(mean: HostEvaluation) -> None:
    racing = (
        "\n#pragma omp parallel\n{ double own = 0;\n#pragma omp for\nfor (int i = 0; i < n; i++) own += src[i];\n"
        "const double seen = s;\n#pragma omp barrier\ns = seen + own; }"
    )
    verdict, _ = timed(mean, candidate(mean, HEAD + SUM.format(racing) + REST))
    assert verdict.status is Status.WRONG_RESULT


@needs.openmp
def test_the_record_says_which_library_and_how_many_threads() -> None:
    said = HostBackend().environment_of(make_task(threads=2))["openmp"]
    assert said["digest"] == find_openmp(find_toolchain()).digest
    assert said["threads"] == 2
    assert "openmp" not in HostBackend().environment_of(make_task_without())


def make_task_without() -> Task:
    task = make_task()
    return replace(task, kernel=replace(task.kernel, openmp=False))


def test_a_library_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"names .*nowhere, which is no file") as raised:
        find_openmp(find_toolchain(), {"TUNER_OPENMP": str(tmp_path / "nowhere")})
    assert "pip install" in raised.value.hint


def test_a_library_that_is_too_old_says_what_it_lacks(tmp_path: Path) -> None:
    old = tmp_path / "libomp.so.5"
    old.write_bytes(b"\x7fELF\0__kmpc_fork_call\0__kmpc_push_num_threads\0__kmpc_global_thread_num\0")
    with pytest.raises(MachineError, match="lacks __kmpc_for_static_init_4, which clang"):
        find_openmp(find_toolchain(), {"TUNER_OPENMP": str(old)})


@needs.openmp
def test_a_library_that_is_cut_off_is_not_loaded(tmp_path: Path) -> None:
    # The loader would fault on what is missing, and with it the process that all candidates come from.
    whole = Path(find_openmp(find_toolchain()).library).read_bytes()
    for number, part in enumerate((whole[: len(whole) * 3 // 4], whole[64:])):
        cut = tmp_path / f"libomp-{number}.so"
        cut.write_bytes(part)
        with pytest.raises(MachineError, match="is no whole shared library for this machine"):
            find_openmp(find_toolchain(), {"TUNER_OPENMP": str(cut)})


def test_the_flag_alone_is_refused_with_the_key() -> None:
    with pytest.raises(SpecError) as raised:
        HostBackend().check_flags(["-fopenmp"])
    assert "openmp: true" in raised.value.hint


def test_threads_stay_on_cores_of_their_own_where_there_are_enough() -> None:
    there = len(os.sched_getaffinity(0))
    assert team_variables(there)["OMP_PROC_BIND"] == "spread"
    assert team_variables(there + 1)["OMP_PROC_BIND"] == "false"


@needs.openmp
def test_code_right_for_one_team_size_only_is_wrong(mean: HostEvaluation) -> None:
    halves = """
#pragma omp parallel reduction(+ : s)
{ int me = omp_get_thread_num(); for (int i = me * n / 2; i < (me + 1) * n / 2; i++) s += src[i]; }
"""
    verdict, _ = timed(mean, candidate(mean, HEAD + SUM.format(halves) + REST))
    assert verdict.status is Status.WRONG_RESULT
    assert "what needs a certain number asks for it by num_threads" in verdict.message


@needs.openmp
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("if (i == n - 1) dst[n] = 1;", "out of bounds: writes byte 1 past the end of dst"),
        ("if (i == n - 1) *(volatile int *)0 = 1;", "SIGSEGV: writes through a null pointer"),
        ("if (i == n - 1) dst[i] = deep(i);", "stack overflow"),
    ],
)
def test_a_fault_of_any_thread_is_named(mean: HostEvaluation, body: str, words: str) -> None:
    deep = (
        "static int deep(volatile int n) { volatile int b[64]; b[n & 63] = n; "
        "return n == -7 ? b[3] : deep(n + 1) + b[n & 63]; }\n"
    )
    loop = f"\n#pragma omp parallel for schedule(static)\nfor (int i = 0; i < n; i++) {{ dst[i] = src[i]; {body} }}"
    text = f"{deep}void f(const float *src, float *dst, int n) {{ {loop} }}"
    verdict, _ = timed(mean, candidate(mean, text))
    assert verdict.status is Status.CRASHED
    assert words in verdict.message


@needs.openmp
def test_teams_of_several_processes_do_not_count_as_one(mean: HostEvaluation) -> None:
    # Where the tuner is root, equal candidates run as the same made-up user, for whom the kernel counts threads.
    build = candidate(mean, MEAN)
    sessions = [mean.open(build, RESOLVED, purpose="search", number=1) for _ in range(4)]
    try:
        assert [session.verify().status for session in sessions] == [Status.OK] * 4
    finally:
        for session in sessions:
            session.close()


@needs.openmp
def test_the_own_header_declares_what_the_library_has(tmp_path: Path) -> None:
    own = Path(as_if_openmp()[-1])
    declared = re.findall(r"\b(omp_\w+)\(", (own / "omp.h").read_text())
    assert len(declared) > 40
    code = Path(find_openmp(find_toolchain()).library).read_bytes()
    assert [name for name in declared if b"\0%s\0" % name.encode() not in code] == []
    for suffix in ("c", "cc"):
        (tmp_path / f"k.{suffix}").write_text(
            "#include <omp.h>\nint f(void) { return omp_get_max_threads(); }"
        )
        command = [find_toolchain().clang, "-fopenmp", "-fsyntax-only", "-Wall", "-Werror", "-I", str(own)]
        subprocess.run([*command, str(tmp_path / f"k.{suffix}")], check=True)


@needs.openmp
def test_loops_that_were_made_shared_give_the_same() -> None:
    plain = """void f(const float *src, float *dst, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) {
        float x = src[i];
        for (int k = 0; k < 4; k++)
            x = x * 0.5f + 1.0f;
        dst[i] = x;
        sum += x;
    }
    for (int i = 0; i < n; i++)
        dst[i] -= sum / n;
}
"""
    task = make_task(plain)
    evaluation, _ = prepared(replace(task, verify=replace(task.verify, rtol=1e-3, atol=1e-3)))
    chunks = {"parameters": [{"name": "CHUNK", "values": [1, 8], "default": 8}]}
    first = {"op": "parallelise", "function": "f", "loop": "i", "schedule": "dynamic", "reassociate": True}
    second = {"op": "parallelise", "function": "f", "loop": "i#2", "schedule": "static"}
    try:
        made = apply_edits(read_program(task.kernel), [first | chunks, second])
        text = made.variant.files[0].text
        assert text.count("#pragma omp parallel for") == 2
        build = candidate(evaluation, text)
        assert build.status is Status.OK, build.message
        verdict, measured = timed(evaluation, build)
        assert verdict.status is Status.OK, verdict.message
        assert measured.status is Status.OK, measured.message
    finally:
        evaluation.close()


@needs.openmp
@needs.gcc
@pytest.mark.parametrize("compiler", [(), BY_GCC], ids=["clang", "gcc"])
def test_blocks_of_shared_loops_give_the_same(compiler: Sequence[str]) -> None:
    """Each over whole blocks and over what they leave over, both shared by the team."""
    given = """void f(const float *src, float *dst, int n)
{
#pragma omp parallel for schedule(dynamic, 3)
    for (int i = 0; i < n; i++) {
        float x = 0;
        for (int k = 0; k < n; k++)
            x += src[k] * src[i];
        dst[i] = x;
    }
}
"""
    task = make_task(given, n=1_003, compiler=compiler)
    evaluation, _ = prepared(task)
    program = read_program(task.kernel)
    sizes = {"parameters": [{"name": "SIZE", "values": [1, 8], "default": 8}]}
    try:
        for op in ("unroll_and_jam", "strip_mine"):
            text = (
                apply_edits(program, [{"op": op, "function": "f", "loops": ["i"], **sizes}])
                .variant.files[0]
                .text
            )
            assert "schedule(dynamic, 3)" in text
            build = candidate(evaluation, text)
            assert build.status is Status.OK, build.message
            verdict, _ = timed(evaluation, build, calls=1)
            assert verdict.status is Status.OK, verdict.message
    finally:
        evaluation.close()


@needs.openmp
def test_private_variables_as_locals_give_the_same() -> None:
    given = """void f(const float *src, float *dst, int n)
{
    int i, k;
    float x, y;
#pragma omp parallel for private(k, x, y) schedule(dynamic, 5)
    for (i = 0; i < n; i++) {
        x = 0;
        for (k = 0; k < 9; k++) {
            y = src[(i + k) % n];
            x += y * y;
        }
        dst[i] = x;
    }
    k = n - 1;
    dst[k] += 1.0f;
}
"""
    task = make_task(given, n=1_003)
    evaluation, _ = prepared(task)
    edit = {"op": "declare_privates", "function": "f"}
    try:
        text = apply_edits(read_program(task.kernel), [edit]).variant.files[0].text
        assert "float y_2 = src[" in text
        build = candidate(evaluation, text)
        assert build.status is Status.OK, build.message
        verdict, _ = timed(evaluation, build, calls=1)
        assert verdict.status is Status.OK, verdict.message
    finally:
        evaluation.close()
