"""Numbers that a function takes by their address, as Fortran passes all of them: specs, runs, recordings, put back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import needs
import numpy as np
import pytest
from applications import with_library
from spec_files import spec_in

import tuner
from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.recording import RecordReport, record_spec
from tuner.driver.applications.winners import function_winner
from tuner.driver.check import check_spec
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_spec

KERNEL = """
void axpy_(const int *n, double *a, const float *x, float *y) {
    for (int i = 0; i < *n; i++) y[i] = (float)*a * x[i] + y[i];
}
"""
SPEC = """\
kernel: {source: axpy.c, entry: axpy_}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n, by: pointer}
  - {name: a, dtype: float64, value: 1.5, by: pointer}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: inout}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
APPLICATION = """
int printf(const char *, ...);
void axpy_(const int *, double *, const float *, float *);
float x[64], y[64];
static void axpy(int n, double a) { axpy_(&n, &a, x, y); }
int main(void) { for (int i = 0; i < 64; i++) x[i] = i; BODY printf("%g", y[9]); return 0; }
"""


def spec_of(folder: Path, text: str = SPEC, kernel: str = KERNEL) -> LoadedSpec:
    return spec_in(folder, "axpy.c", kernel, text)


def baseline_of(loaded: LoadedSpec, kernel: str | None = None) -> Status:
    """What becomes of the kernel as given, or of another text in its place."""
    task = loaded.task
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        space = loaded.space(None)
        resolved = space.resolve(space.default())
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)])
        report = evaluation.set_baseline(build, resolved)
    finally:
        evaluation.close()
    return report.status


@pytest.fixture
def application(tmp_path: Path) -> Callable[[str], list[str]]:
    """An application that calls the function in a library."""

    def make(body: str) -> list[str]:
        (tmp_path / "axpy.c").write_text(KERNEL)
        (tmp_path / "main.c").write_text(APPLICATION.replace("BODY", body))
        return with_library(tmp_path, "axpy.c")

    return make


@pytest.fixture
def record(tmp_path: Path, application: Callable[[str], list[str]]) -> Callable[[str], RecordReport]:
    """Records calls of an application with a body of its own."""
    return lambda body: record_spec(application(body), spec_of(tmp_path), instances=4)


@pytest.mark.integration
def test_the_kernel_gets_the_size_of_every_problem(tmp_path: Path) -> None:
    (tmp_path / "reference.py").write_text(
        "def axpy(n, a, x, y):\n    assert n == len(x) and a == 1.5\n    return {'y': a * x + y}\n"
    )
    verify = (
        'verify: {reference: {python: "reference.py:axpy"}, problems: [{n: 37}], assume: ["n >= 1"], '
        "rtol: 1.0e-4, atol: 1.0e-4}\n"
    )
    assert baseline_of(spec_of(tmp_path, SPEC + verify)) is Status.OK
    # The second problem is what finds a kernel for one size out.
    wrong = KERNEL.replace("i < *n", "i < 37")
    assert baseline_of(spec_of(tmp_path, SPEC + verify, wrong)) is Status.WRONG_RESULT


def test_a_kernel_that_writes_its_number_is_found_out(tmp_path: Path) -> None:
    kernel = KERNEL.replace("void axpy_", "void axpy_").replace("y[i];\n}", "y[i];\n    *a = 2;\n}")
    assert baseline_of(spec_of(tmp_path, kernel=kernel)) is not Status.OK


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("shape: [n]}", "shape: [n], by: pointer}", "array 'x' is passed by pointer"),
        ("value: n, by: pointer", "value: n", "a pointer, but the spec gives a value"),
        ("value: n, by: pointer", "value: TILE, by: pointer", "'TILE' is a parameter"),
        ("by: pointer", "by: reference", "arguments"),
        ("value: n, by: pointer", "value: 3000000000, by: pointer", "does not fit int32"),
        ("value: n, by: pointer", "value: m, by: pointer", "unknown name 'm'"),
        ("value: 1.5, by: pointer", "value: 1.5, by: pointer, role: inout", "cannot have role"),
    ],
)
def test_mistakes_are_one_line_with_a_place(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = SPEC.replace(old, new, 1).replace(
        "passes: off", "passes: off, parameters: {TILE: {values: [1, 2], macro: false}}"
    )
    with pytest.raises(SpecError, match=says) as caught:
        spec_of(tmp_path, text)
    assert caught.value.place is not None
    assert caught.value.place.line in (4, 5, 6)


def test_a_number_that_the_function_takes_by_value(tmp_path: Path) -> None:
    kernel = KERNEL.replace("const int *n", "int n").replace("*n;", "n;")
    with pytest.raises(SpecError, match="no pointer") as caught:
        spec_of(tmp_path, kernel=kernel)
    assert caught.value.hint == "remove by"


@pytest.mark.integration
def test_calls_are_recorded_with_their_sizes_and_tuned_on(
    tmp_path: Path, record: Callable[[str], RecordReport]
) -> None:
    report = record("axpy(64, 2); axpy(64, 2); axpy(10, 0.5);")
    found = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            n, a, x, _ = file.recording.arguments
            assert (n.kind, a.kind) == ("scalar", "scalar")
            found.append((int.from_bytes(n.value, "little"), np.frombuffer(a.value)[0], x.size_bytes))
    assert sorted(found) == [(10, 0.5, 40), (64, 2.0, 256), (64, 2.0, 256)]
    loaded = spec_of(tmp_path, SPEC + "workload: recordings/*.rec\nverify: {reference: recording}\n")
    assert sorted(p.sizes["n"] for p in loaded.task.problems) == [10, 64]
    assert baseline_of(loaded) is Status.OK
    wrong = KERNEL.replace("(float)*a", "1.5f")
    assert baseline_of(spec_of(tmp_path, loaded.text, wrong)) is Status.WRONG_RESULT


def test_a_number_behind_a_null_pointer_is_refused_by_name(
    record: Callable[[str], RecordReport],
) -> None:
    with pytest.raises(UsageError, match="null pointer"):
        record("int n = 0; axpy_(&n, (double *)0, x, y);")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("axpy(64, 2);", "118"),
        ("axpy(32, 2);", "18"),
        ("int n = 0; axpy_(&n, (double *)0, x, y);", "0"),
    ],
    ids=["verified", "another size", "null"],
)
def test_calls_of_the_verified_size_go_to_the_winner(
    tmp_path: Path,
    application: Callable[[str], list[str]],
    capfd: pytest.CaptureFixture[str],
    body: str,
    expected: str,
) -> None:
    command = application(body)
    winner = spec_of(tmp_path, kernel=KERNEL.replace("+ y[i]", "+ y[i] + 100"))
    evaluation = HostBackend().prepare(winner.task, workers=1)
    try:
        space = winner.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=winner.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
    finally:
        evaluation.close()
    found = HostBackend().replacement(winner.task, build.code, resolved)
    run_with([function_winner(found, spec_of(tmp_path))], command)
    assert capfd.readouterr().out.strip() == expected


def test_calls_through_ctypes(tmp_path: Path, application: Callable[[str], list[str]]) -> None:
    application("")
    spec_of(tmp_path)
    library = ctypes.CDLL(str(tmp_path / "libaxpy.so"))
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    a = ctypes.c_double(2)
    floats = np.ctypeslib.ndpointer(np.float32)
    library.axpy_.argtypes = [ctypes.POINTER(ctypes.c_int), ctypes.c_void_p, floats, floats]
    with tuner.record(tmp_path / "axpy.yaml", library=library) as live:
        library.axpy_(ctypes.byref(ctypes.c_int(12)), ctypes.addressof(a), x, y)
    with RecordingFile(live.recordings[0]) as file:
        n, a_recorded, x_recorded, _ = file.recording.arguments
        assert (n.value, a_recorded.value) == (b"\x0c\0\0\0", bytes(a))
        assert x_recorded.size_bytes == 48


def test_first_specs_find_numbers_behind_pointers(tmp_path: Path) -> None:
    (tmp_path / "gemv.c").write_text(
        """
void gemv_(const int *m, const int *n_, const double *a, const int *lda, double *y, int *k, int *count) {
    int n = *n_;
    for (int j = 0; j < n; j++) {
        double s = 0;
        for (int i = 0; i < *m; i++) s += a[i + j * *lda];
        y[j] = s + k[0] + k[1];
    }
    *count = 1;
}
"""
    )
    lines = init_spec(tmp_path / "gemv.c").splitlines()
    found = {line.split("name: ")[1].split(",")[0]: line for line in lines if "name: " in line}
    assert {n for n, line in found.items() if "by: pointer" in line} == {"m", "n_", "lda"}
    assert "shape: [n_, lda]" in found["a"]
    assert any(line.startswith("problem: {m: 2048, n_: 2048, lda: 2048}") for line in lines)


@pytest.mark.integration
@pytest.mark.usefixtures("no_oclgrind")
@pytest.mark.parametrize(
    "language", [pytest.param("cuda", marks=needs.nvrtc), pytest.param("opencl", marks=needs.pocl)]
)
def test_kernels_of_devices_take_them_too(tmp_path: Path, language: str) -> None:
    name, head = {
        "cuda": ("k.cu", 'extern "C" __global__ void k(const int *n, float *y) { int i = threadIdx.x;'),
        "opencl": (
            "k.cl",
            "__kernel void k(__global const int *n, __global float *y) { int i = get_local_id(0);",
        ),
    }[language]
    (tmp_path / name).write_text(head + " if (i < *n) y[i] = i; }\n")
    (tmp_path / "k.yaml").write_text(
        f"kernel: {{source: {name}, entry: k}}\nproblem: {{n: 32}}\narguments:\n"
        "  - {name: n, dtype: int32, value: n, by: pointer}\n"
        "  - {name: y, dtype: float32, shape: [64], role: inout}\n"
        "launch: {grid: [1], block: [BLOCK]}\nspace: {parameters: {BLOCK: [64, 128]}, passes: off}\n"
        "verify: {problems: [{n: 7}]}\n" + ("target: sm_90\n" if language == "cuda" else "")
    )
    (loaded,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(loaded, faults=False)
    assert report.ok, report.lines
