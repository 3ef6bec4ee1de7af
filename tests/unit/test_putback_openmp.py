"""Winners with OpenMP in an unmodified application, which may have been linked with another library of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from applications import compiled

from tuner.core.errors import MachineError
from tuner.core.types import BuildRequest, Resolved, Status
from tuner.driver.applications.applying import Applied, check_applied, run_with
from tuner.driver.applications.in_place import FunctionWinner
from tuner.driver.applications.listing import list_launches
from tuner.driver.applications.recording import record_spec
from tuner.driver.applications.winners import function_winner
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.openmp import find_openmp
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.load import LoadedSpec, load_spec

pytestmark = needs.openmp

KERNEL = """
int omp_get_num_threads(void);
void fill(int n, float *y) {
#pragma omp parallel for
    for (int i = 0; i < n; i++) y[i] = omp_get_num_threads();
}
"""
SPEC = """\
kernel: {source: fill.c, entry: fill, openmp: true}
problem: {n: 64}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: y, dtype: float32, shape: [n], role: output}
space: {passes: off, flags: {vector: ["", "-fno-vectorize"]}}
verify: {rtol: 1.0e-5}
measure: {threads: 2}
"""
MAIN = """
#include <stdio.h>
void fill(int, float *);
int omp_get_thread_num(void);
float y[2][64];
int main(int count, char **words) {
    fill(64, y[0]);
    if (count > 1) {
#pragma omp parallel num_threads(2)
        fill(64, y[omp_get_thread_num()]);
    }
    printf("%g\\n", y[0][63]);
    return 0;
}
"""


@pytest.fixture(params=["clang", pytest.param("gcc", marks=needs.gcc)])
def application(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """An application with OpenMP in a library and in itself, of two compilers with a run-time library each."""
    library = find_openmp(find_toolchain()).library
    compiler, links = {"clang": (find_toolchain().clang, [library]), "gcc": ("gcc", ["-lgomp"])}[
        request.param
    ]
    for name, text in (("fill.c", KERNEL), ("main.c", MAIN)):
        (tmp_path / name).write_text(text)
    rpath = [f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath,{Path(library).parent}"]
    for words in (
        [*("-c", "-fopenmp", "-fPIC", "-O1"), "fill.c", "main.c"],
        ["-shared", "-o", "libfill.so", "fill.o", *links],
        ["-o", "app", "main.o", "libfill.so", *links, *rpath],
    ):
        compiled(*words, compiler=compiler, flags=[], folder=tmp_path)
    return str(tmp_path / "app")


@pytest.fixture
def winner(application: str, tmp_path: Path) -> FunctionWinner:
    """One that can be told from the application's own function."""
    (tmp_path / "fill.yaml").write_text(SPEC)
    spec = loaded(tmp_path)
    variant = spec.task.kernel.variant
    text = KERNEL.replace("= omp_get", "= 100 + omp_get")
    evaluation = HostBackend().prepare(spec.task, workers=1)
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    try:
        made = replace(variant, files=(replace(variant.files[0], text=text),))
        (build,) = evaluation.build([BuildRequest(trial=0, variant=made, resolved=resolved)])
    finally:
        evaluation.close()
    assert build.status is Status.OK, build.message
    return function_winner(HostBackend().replacement(spec.task, build.code, resolved), spec)


def loaded(folder: Path) -> LoadedSpec:
    (spec,) = load_spec(folder / "fill.yaml")
    return spec


@pytest.fixture
def applied(
    application: str,
    winner: FunctionWinner,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Callable[..., tuple[str, Applied]]:
    """Runs the application with the winner in place: what it prints, and what became of the calls."""

    def run(threads: int, *words: str) -> tuple[str, Applied]:
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        ran, (placed,) = run_with([winner], [application, *words])
        assert ran.status == 0
        return capfd.readouterr().out.strip(), placed

    return run


def test_it_takes_calls_with_the_threads_that_it_was_tuned_with(
    applied: Callable[..., tuple[str, Applied]], application: str, tmp_path: Path
) -> None:
    printed, placed = applied(2)
    assert (printed, placed.replaced, placed.left) == ("102", 1, 0)
    printed, placed = applied(3)
    assert (printed, placed.replaced, placed.left) == ("3", 0, 1)
    with pytest.raises(MachineError, match="called with 3 OpenMP threads and was tuned with 2"):
        check_applied([placed])
    report = record_spec([application], loaded(tmp_path), instances=1)
    assert len(report.recordings) == 1
    assert "fill" in {function.symbol for function in list_launches([application]).own.listed}


def test_calls_of_threads_of_a_team_stay_as_they_are(applied: Callable[..., tuple[str, Applied]]) -> None:
    printed, placed = applied(2, "team")
    assert (printed, placed.replaced, placed.left) == ("1", 1, 2)
