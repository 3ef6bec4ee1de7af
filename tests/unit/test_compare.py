"""``compare:``: other compilers' code of the same source, timed beside the baseline."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from instants import InterruptAt

import tuner
from tuner.api import tune_spec
from tuner.core.errors import SpecError
from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]
FEW = {"choose_processes": 2, "confirm_processes": 4}


def with_compare(path: Path, *commands: str) -> Path:
    path.write_text(path.read_text() + f"compare: {list(commands)!r}\n")
    return path


COSTS = """
void tuner_work(long long ns);
#ifdef __OPTIMIZE__
#define COST_NS 1000
#else
#define COST_NS 50000
#endif
"""
"""What a kernel takes with and without optimisation, on the virtual clock."""


@pytest.mark.integration
def test_another_compiler_is_timed_and_the_record_stands(scale_spec: SpecWriter, tmp_path: Path) -> None:
    commands = ("clang -O0", "nosuch-compiler -O3", "clang --no-such-option")
    path = scale_spec(few=True)
    text = (tmp_path / "scale.c").read_text()
    (tmp_path / "scale.c").write_text(COSTS + text.replace("int n) {", "int n) { tuner_work(COST_NS);"))
    (spec,) = load_spec(with_compare(path, *commands))
    result = tune_spec(spec, Options(evaluations=3, settings=FEW), out=tmp_path / "runs")
    slow, missing, wrong = result.to_json()["compare"]
    assert slow["command"] == "clang -O0"
    assert slow["status"] == "ok"
    assert slow["speedup"]["ci95"][1] < 1.0
    assert (missing["status"], missing["speedup"]) == ("build_error", None)
    assert "nosuch-compiler is not installed" in missing["message"]
    assert "no-such-option" in wrong["message"]
    assert tuner.replay(result.path).clean


@pytest.mark.integration
def test_check_refuses_a_compiler_that_is_not_there_before_a_run_finds_out(scale_spec: SpecWriter) -> None:
    (spec,) = load_spec(with_compare(scale_spec(), "clang -O1", "nocc -O3"))
    with pytest.raises(SpecError) as caught:
        check_spec(spec, faults=False)
    said = str(caught.value)
    line = 1 + spec.text[: spec.text.index("nocc")].count("\n")
    assert f"{spec.path}:{line}:" in said
    assert "compare: 'nocc -O3' cannot be timed beside the baseline: nocc is not installed" in said
    assert "take it out of compare" in said
    (spec,) = load_spec(with_compare(scale_spec(), "clang -O1"))
    lines = dict(check_spec(spec, faults=False).lines)
    assert lines["compare"].startswith("clang -O1 builds, ")


@pytest.mark.integration
def test_code_that_computes_something_else_is_not_timed(scale_spec: SpecWriter, tmp_path: Path) -> None:
    (spec,) = load_spec(with_compare(scale_spec(few=True), "clang -O2 -Dfloat=double"))
    result = tune_spec(spec, Options(evaluations=2, settings=FEW), out=tmp_path / "runs")
    (other,) = result.to_json()["compare"]
    assert other["status"] in ("wrong_result", "crashed")
    assert other["speedup"] is None


@pytest.mark.parametrize("kind", ["other", "compared"])
def test_interrupted_while_comparing_it_goes_on(scale_spec: SpecWriter, tmp_path: Path, kind: str) -> None:
    (spec,) = load_spec(with_compare(scale_spec(), "cc -O1", "cc -O2"))
    backend, path = SimulatedBackend(seconds=lambda _: 1e-3), tmp_path / "whole.run"
    watch = InterruptAt(kind, 1)
    outcome = begin(
        spec,
        path,
        Options(evaluations=6),
        backend=backend,
        observers=[watch],
        interruption=watch.interruption,
    )
    assert outcome.interrupted
    outcome = resume(path, backend=backend)
    assert [c.status for c in outcome.summary.compared] == ["ok", "ok"]
    assert all(c.speedup and 0.9 < c.speedup[0] < 1.1 for c in outcome.summary.compared)
    assert audit(path).clean
    with RunRecord.read(path) as record:
        kinds = [event.kind for event in record.events()]
    assert kinds.count("other") == 2
    assert kinds.count("compared") == 3 * 8
    assert kinds[-1] == "end"


def test_an_object_without_the_entry_is_explained(scale_spec: SpecWriter) -> None:
    (spec,) = load_spec(scale_spec())
    resolved = Resolved(macros={"STEP": 1, "WIDTH": 1}, scalars={}, flags=(), pipeline=None)
    with closing(HostBackend().prepare(spec.task, workers=1)) as evaluation:
        build = evaluation.build_with(["clang", "-O1", "-Dscale=another"], resolved)
    assert build.status == "build_error"
    assert "defines no function scale" in build.message


def test_a_command_that_is_none_is_a_spec_error(scale_spec: SpecWriter) -> None:
    path = with_compare(scale_spec(), "gcc 'unbalanced")
    with pytest.raises(SpecError, match="cannot be split"):
        load_spec(path)
