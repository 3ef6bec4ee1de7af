"""Among candidates that cannot be told apart the simplest wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from instants import InterruptAt

from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin, resume
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SpecWriter = Callable[..., Path]


def seconds(resolved: Resolved) -> float:
    """STEP is worth a factor of two, WIDTH, the flags and the passes nothing."""
    return 1e-3 * (1.0 if int(resolved.macros["STEP"]) == 1 else 0.5)


def flagged(spec: Path, **search: Any) -> Path:
    document = yaml.safe_load(spec.read_text())
    document["space"]["flags"] = {"vector": ["", "-fno-vectorize"], "math": ["", "-ffast-math"]}
    document["search"] = {**document.get("search", {}), "cost_model": "off", "ablate": "off", **search}
    spec.write_text(yaml.safe_dump(document))
    return spec


def run_of(spec: Path, path: Path, *, time: Callable[[Resolved], float] = seconds, **more: Any) -> Outcome:
    (loaded,) = load_spec(spec)
    settings = more.pop("settings", {})
    return begin(
        loaded,
        path,
        Options(seed=3, workers=1, settings=settings),
        backend=SimulatedBackend(seconds=time),
        **more,
    )


def bodies(path: Path, kind: str) -> list[Mapping[str, Any]]:
    with RunRecord.read(path) as record:
        return [event.body for event in record.events() if event.kind == kind]


def test_worthless_settings_are_removed(scale_spec: SpecWriter, tmp_path: Path) -> None:
    found = run_of(flagged(scale_spec(evaluations=60)), tmp_path / "a.run")
    assert found.summary.improved
    assert set(found.summary.changes) == {"STEP"}
    (tried,) = bodies(tmp_path / "a.run", "simplify")
    assert len(tried["proposals"]) == 3
    assert {p["origin"] for p in tried["proposals"]} == {"simpler"}
    assert audit(tmp_path / "a.run", backend=SimulatedBackend(seconds=seconds)).clean
    # The budget is kept, and what was passed over is said.
    assert found.summary.stopped_by == "evaluations"
    counted = Counter(found.summary.trials)
    assert counted["total"] - counted["duplicate"] - counted["pruned"] <= 60
    (choice,) = bodies(tmp_path / "a.run", "choice")
    told = found.to_json().get("simplest")
    if told is not None:
        assert told["trial"] == choice["fastest"] != choice["chosen"]
        assert told["changes"]["best"] < told["changes"]["fastest"]


def test_useful_settings_stay(scale_spec: SpecWriter, tmp_path: Path) -> None:
    """A twentieth is more than two processes differ by."""

    def dearer(resolved: Resolved) -> float:
        fast = any("fast-math" in flag for flag in resolved.flags)
        return (
            seconds(resolved) * (0.95 if fast else 1.0) * (0.9 if int(resolved.macros["WIDTH"]) > 1 else 1.0)
        )

    found = run_of(flagged(scale_spec(evaluations=60)), tmp_path / "a.run", time=dearer)
    assert {"STEP", "WIDTH", "math"} <= set(found.summary.changes)


def test_small_budgets_keep_nothing_for_it(scale_spec: SpecWriter, tmp_path: Path) -> None:
    run_of(flagged(scale_spec(evaluations=19)), tmp_path / "a.run")
    assert not bodies(tmp_path / "a.run", "simplify")


@pytest.mark.integration
def test_interrupted_it_goes_on_and_ends_the_same(scale_spec: SpecWriter, tmp_path: Path) -> None:
    spec = flagged(scale_spec(evaluations=40))
    stop = InterruptAt("simplify")
    whole = run_of(spec, tmp_path / "whole.run")
    cut = run_of(spec, tmp_path / "cut.run", observers=[stop], interruption=stop.interruption)
    assert cut.interrupted
    backend = SimulatedBackend(seconds=seconds)
    resumed = resume(tmp_path / "cut.run", backend=backend)
    assert resumed.summary.best.number == whole.summary.best.number
    assert resumed.to_json()["best"]["configuration"] == whole.to_json()["best"]["configuration"]
    assert audit(tmp_path / "cut.run", backend=backend).clean
