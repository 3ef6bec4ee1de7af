"""Records made anew with a good chain around events that are no run's: one line wherever they are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs
import pytest
from spec_files import spec_in

import tuner
from tuner.core.errors import RecordError, SpecError, TunerError
from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.report.page import report_page
from tuner.testing import SimulatedBackend

SPEC = """
kernel: {source: scale.c, entry: scale}
problem: {n: 256}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {parameters: {STEP: {low: 1, high: 64}}, passes: off}
search: {strategy: random, budget: {evaluations: 12}}
"""

Change = Callable[[dict[str, Any]], Any]


def seconds(resolved: Resolved) -> float:
    return 1e-3 / int(resolved.macros["STEP"])


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a run."""
    folder = tmp_path_factory.mktemp("good")
    spec = spec_in(
        folder, "scale.c", "void scale(const float *a, float *b, int n) { b[0] = a[0] * STEP; }\n", SPEC
    )
    backend = SimulatedBackend(seconds=seconds)
    begin(spec, folder / "good.run", Options(seed=1, workers=1), backend=backend)
    return folder / "good.run"


@pytest.fixture
def forge(good: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a run's record with one kind of event changed, the chain and the digest made anew."""

    def make(kind: str, change: Change, *, twice: bool = False, name: str = "forged.run") -> Path:
        path = tmp_path / name
        changed = 0

        def each(found: str, body: dict[str, Any]) -> dict[str, Any]:
            nonlocal changed
            if found != kind:
                return body
            changed += 1
            return change(body) or body

        made_runs.rewritten(good, path, each, twice=kind if twice else "")
        assert changed, kind
        return path

    return make


CHANGES: dict[str, tuple[str, Change]] = {
    "a trial without a status": ("trial", lambda b: b.pop("status") and None),
    "a trial of a status that there is not": ("trial", lambda b: b.update(status="splendid")),
    "times that are words": ("samples", lambda b: b["measurements"][0].update(times_s=["x", "y"])),
    "no measurements": ("samples", lambda b: b.update(measurements=7)),
    "a clock that is a list": ("build", lambda b: b.update(clock_s=[])),
    "a final of nothing": ("final", lambda b: {"clock_s": 1.0}),
    "intervals of words": ("verdict", lambda b: b.update(speedup="much")),
    "a choice of what is not there": ("choice", lambda b: dict.fromkeys(b, 10**9)),
    "a baseline without a status": ("baseline", lambda b: b.pop("status") and None),
    "final times that are words": ("final", lambda b: b["measurements"][0].update(times_s=["x", "y"])),
    "final times below nothing": ("final", lambda b: b["measurements"][0].update(times_s=[-1.0, -2.0])),
    "a tunable's value that is a list": (
        "ask",
        lambda b: b["proposals"][0].update(configuration={"STEP": [1]}),
    ),
    "a start without settings": ("start", lambda b: b.pop("settings") and None),
    "a start with settings of words": ("start", lambda b: b.update(settings="fast")),
    "a start of files that are none": ("start", lambda b: b.update(files=[1])),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.integration
def test_events_that_no_run_has_are_one_line(forge: Callable[..., Path], name: str) -> None:
    path = forge(*CHANGES[name])
    readers: list[Callable[[], Any]] = [
        lambda: audit(path),
        lambda: tuner.load(path).to_json(),
        lambda: tuner.load(path).rows,
        lambda: report_page(path, audit=False),
    ]
    for read in readers:
        complaint, report = "", None
        try:
            report = read()
        except TunerError as error:
            complaint = str(error)
        assert "\n" not in complaint
        # Whoever only looks may see less than the audit, which has to find it.
        assert not getattr(report, "clean", False), name


def test_a_second_start_is_found(forge: Callable[..., Path]) -> None:
    report = audit(forge("start", lambda b: None, twice=True))
    assert not report.clean
    assert "a run begins once" in report.differences[0]


def test_messages_for_strangers(forge: Callable[..., Path]) -> None:
    report = audit(forge("samples", CHANGES["no measurements"][1]))
    assert "does not hold together" in report.differences[0]
    path = forge("trial", CHANGES["a trial without a status"][1], name="other.run")
    with pytest.raises(RecordError, match="does not hold together") as found:
        tuner.load(path)
    assert "tuner replay" in found.value.hint


def test_mistakes_that_have_a_message_of_their_own_keep_it(forge: Callable[..., Path]) -> None:
    path = forge("start", lambda b: b.update(files={"other.c": b["files"]["scale.c"]}))
    with pytest.raises(SpecError, match=r"there is no file 'scale\.c'"):
        audit(path)
