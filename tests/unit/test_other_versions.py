"""Records that another version wrote: shown as far as they can be, never called forged, and not derived again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

from tuner.api import load
from tuner.cli.main import main
from tuner.core.errors import RecordError, UsageError
from tuner.driver.audit import audit
from tuner.driver.ensure import ensure
from tuner.driver.opening import state_of
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.recorders.record import Event, RunRecord
from tuner.report.page import report_page
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

KEY, VERSION = "version", 1
"""Where a record says it, and what this one's say."""
SAYS = (
    f"a record of version {VERSION + 1} by remix-tuner 9.1, and only records of this one's version, {VERSION}"
)


def seconds(resolved: Any) -> float:
    return 1e-3 / int(resolved.macros["WIDTH"])


@pytest.fixture
def run(scale_spec: Callable[..., Path], tmp_path: Path) -> Path:
    (spec,) = load_spec(scale_spec(evaluations=20))
    begin(spec, tmp_path / "own.run", Options(seed=1), backend=SimulatedBackend(seconds=seconds))
    return tmp_path / "own.run"


def by_another(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """An event as another version would write it: with settings of its own, and without some of this one's."""
    if kind != "start":
        return body
    settings = {k: v for k, v in body["settings"].items() if k not in ("simpler", "stocked")} | {"zeal": 3}
    return {**body, KEY: VERSION + 1, "tool": "9.1", "settings": settings}


@pytest.fixture
def other(run: Path) -> Path:
    made.rewritten(run, run.parent / "other.run", by_another)
    return run.parent / "other.run"


def test_a_run_says_of_which_version_its_record_is(run: Path) -> None:
    with RunRecord.read(run) as record:
        assert next(iter(record.events())).body[KEY] == VERSION
    assert audit(run).clean


@pytest.mark.integration
def test_it_is_shown_and_not_audited(
    run: Path, other: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that nobody has checked is no success."""
    assert load(other).to_json() | {"run": ""} == load(run).to_json() | {"run": ""}
    report = audit(other)
    assert (report.clean, report.differences, report.decisions) == (False, [], 0)
    (line,) = report.not_rederived
    assert SAYS in line
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(other)])
    assert ended.value.code == 2
    printed = capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["show", str(other)])
    assert printed.out == capsys.readouterr().out
    (error,) = printed.err.strip().splitlines()
    assert SAYS in error
    assert "audit it with the version that wrote it" in error
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(other), "--json"])
    assert ended.value.code == 2
    assert json.loads(capsys.readouterr().out)["not_rederived"] == [line]
    assert "every decision stands" not in report_page(other).partition("<script")[0]
    assert SAYS in report_page(other)


@pytest.mark.parametrize("more", [{"rebuild": True}, {"remeasure": True}, {"sign": Path("key.pem")}])
def test_nothing_of_it_is_built_timed_or_signed(other: Path, more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="version that wrote it"):
        audit(other, backend=SimulatedBackend(seconds=seconds), **more)


def test_only_a_run_that_has_ended_is_resumed(run: Path, other: Path) -> None:
    """That is, it is returned as it is."""
    backend = SimulatedBackend(seconds=seconds)
    assert resume(other, backend=backend).to_json()["speedup"] == load(other).to_json()["speedup"]
    cut = run.parent / "cut.run"
    made.rewritten(run, cut, by_another, first=30)
    with pytest.raises(UsageError, match=SAYS) as refused:
        resume(cut, backend=backend)
    assert refused.value.hint == f"tuner show {cut} shows it; start a run of its own"
    assert load(cut).to_json()["trials"]["total"] > 1
    made.rewritten(run, run.parent / "own-cut.run", lambda _, body: body, first=30)
    assert not resume(run.parent / "own-cut.run", backend=backend).interrupted


def test_a_build_begins_anew_where_it_has_not_ended(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    """Nobody is there to remove it."""
    (spec,) = load_spec(scale_spec(evaluations=20))
    out, backend = tmp_path / "scale.o", SimulatedBackend(seconds=seconds)
    record = Path(f"{out}.run")
    ensure(spec, out, Options(seed=1), backend=backend)
    code = out.read_bytes()
    whole = record.rename(tmp_path / "whole.run")
    out.unlink()
    made.rewritten(whole, record, by_another, first=30)
    assert ensure(spec, out, Options(seed=1), backend=backend).read_bytes() == code
    with RunRecord.read(record) as found:
        assert next(iter(found.events())).body[KEY] == VERSION


def test_kinds_of_events_that_it_alone_has_say_nothing(run: Path, other: Path) -> None:
    """In a record of this version they cannot be."""
    for path, change in ((run.parent / "a.run", by_another), (run.parent / "b.run", lambda _, body: body)):
        record = made.rewritten(run, path, change, first=12, close=False)
        record.append([Event(kind="ponder", body={"clock_s": 1e6})], {})
        record.close()
    with RunRecord.read(run.parent / "a.run") as record:
        assert state_of(record).clock_s < 1e6
    with RunRecord.read(run.parent / "b.run") as record, pytest.raises(RecordError, match="ponder"):
        state_of(record)
