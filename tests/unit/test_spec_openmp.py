"""Specs of kernels with OpenMP: first ones, what is said of them, runs with their records, a library that is gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import needs
import pytest
from commands import finding
from run_events import events

from tuner.core.errors import MachineError, SpecError
from tuner.driver.audit import audit
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

KERNEL = """#include <omp.h>
#ifndef CHUNK
#define CHUNK 64
#endif
void scale(const float *src, float *dst, int n)
{
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int i = 0; i < n; i++)
        dst[i] = 2.0f * src[i] + omp_get_thread_num() * 0.0f;
}
"""
SPEC = """kernel: {source: k.c, entry: scale, openmp: true}
problem: {n: 20000}
arguments:
  - {name: src, dtype: float32, shape: [n], init: {uniform: [-1, 1]}}
  - {name: dst, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {CHUNK: [64, 16, 256]}
  passes: off
verify: {rtol: 1.0e-5, problems: [{n: 67}]}
measure: {threads: 2}
search: {budget: {evaluations: 3}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_it(*changes: tuple[str, str]) -> Path:
        text = SPEC
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "k.c").write_text(KERNEL)
        (tmp_path / "k.yaml").write_text(text)
        return tmp_path / "k.yaml"

    return write_it


def one(path: Path) -> LoadedSpec:
    (spec,) = load_spec(path)
    return spec


@needs.openmp
def test_a_first_spec_asks_for_openmp_and_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    (tmp_path / "k.c").write_text(KERNEL)
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / "k.c"))
    task = one(tmp_path / "k.yaml").task
    assert task.kernel.openmp
    assert task.measure.threads == 3
    assert [a.name for a in task.arguments] == ["src", "dst", "n"]


def test_a_first_spec_of_plain_loops_does_not(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void k(float *x, int n) {\n#pragma omp simd\nfor (int i = 0; i < n; i++) x[i] *= 2; }"
    )
    assert "openmp" not in init_spec(tmp_path / "k.c")


def test_a_library_that_is_missing_is_told_where_the_spec_asks_for_it(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_OPENMP", "/nowhere/libomp.so")
    with pytest.raises(SpecError, match=r"k.yaml:1:\d+: TUNER_OPENMP names /nowhere/libomp.so") as raised:
        load_spec(write())
    assert "remix-tuner[openmp]" in str(raised.value)


@needs.openmp
@pytest.mark.integration
def test_the_doctor_says_where_it_is_or_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = finding("openmp")
    assert found["ok"]
    assert ".so" in found["text"]
    monkeypatch.setenv("TUNER_OPENMP", "/nowhere/libomp.so")
    found = finding("openmp")
    assert not found["ok"]
    assert "remix-tuner[openmp]" in found["cure"]


def test_it_is_for_functions_of_the_processor(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text('extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }')
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: k.cu, entry: k, openmp: true}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [64], role: output}\nlaunch: {grid: [1], block: [64]}\n"
        "space: {passes: off, flags: {math: ['', '--use_fast_math']}}\n"
    )
    with pytest.raises(SpecError, match=r"kernel\.openmp is for C and C"):
        load_spec(tmp_path / "k.yaml")


@needs.openmp
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("threads: 2", "threads: 1"), "1 thread is a team of one"),
        (("threads: 2", "threads: 4000"), "4000 threads share"),
        (("rtol: 1.0e-5", "rtol: 0, atol: 0"), "differs in its last bits from run to run"),
    ],
)
def test_openmp_settings_hardly_meant_are_noted(
    write: Callable[..., Path], change: tuple[str, str], words: str
) -> None:
    assert any(words in notice for notice in one(write(change)).notices)


@needs.openmp
def test_a_check_names_library_and_threads(write: Callable[..., Path]) -> None:
    report = check_spec(one(write()), faults=False)
    assert report.ok, report.lines
    told = dict(report.lines)["openmp"]
    assert "library lib" in told
    assert "threads 2" in told


@needs.openmp
def test_a_run_says_what_it_ran_with_and_an_audit_elsewhere_tells_it(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere the library may be missing, or the machine may be another."""
    spec = one(write())
    result = begin(spec, tmp_path / "a.run", Options(seed=3))
    said = events(result.path)[0][2]["environment"]["backend"]["openmp"]
    assert said["threads"] == 2
    assert said["version"]
    assert len(said["digest"]) == 64
    report = audit(result.path, rebuild=True)
    assert report.clean
    assert not report.notes
    assert load_recorded(spec.text, spec.files, folder=str(tmp_path)).task.kernel.openmp
    with monkeypatch.context() as without:
        without.setenv("TUNER_OPENMP", "/nowhere/libomp.so")
        assert audit(result.path).clean
        with pytest.raises(MachineError, match="TUNER_OPENMP names"):
            audit(result.path, rebuild=True)
    there = os.sched_getaffinity(0)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(len(there) + 64)))
    monkeypatch.setattr("tuner.evaluators.host.openmp._SPIN_MS", 5)
    (note,) = audit(result.path, rebuild=True).notes
    assert "not as in the run: cores, openmp.spin_ms;" in note
