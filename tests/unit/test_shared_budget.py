"""Several kernels that share one budget by expected gain: who gets it, records, resume, replay, the command line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from instants import InterruptAt

from tuner.cli.main import main
from tuner.core.errors import UsageError
from tuner.core.executors import Executor
from tuner.core.types import Status, Task
from tuner.driver.audit import audit
from tuner.driver.imports import import_file
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.plan.sharing import chosen
from tuner.driver.together import Member, find_together, share_of, tune_together
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.evaluators.recorded.backend import RecordedBackend
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec


def space_file(folder: Path, name: str, side: int, *, room: bool) -> Path:
    """A recorded space: with room, times fall slowly towards a corner; without, all are equal."""
    rows, axis = {}, tuple(range(side))
    for x in axis:
        for y in axis:
            time_s = 1e-3 * (1.0 + 0.03 * ((x - 19) ** 2 + (y - 5) ** 2) ** 0.5) if room else 1e-3
            rows[key_of((x, y))] = Row(status=Status.OK, times_s=(time_s,) * 8, compile_s=0.1, run_s=0.01)
    space = RecordedSpace(
        kernel=name, device="A card", parameters={"X": axis, "Y": axis}, rows=rows, restrictions=()
    )
    data = folder / f"{name}.json.gz"
    data.write_bytes(gzip.compress(space.to_text().encode()))
    return import_file(data, folder).spec


def members(
    folder: Path, shares: Sequence[tuple[str, float, bool]], side: int = 24, **options: Any
) -> list[Member]:
    paths = [space_file(folder, name, side, room=room) for name, _, room in shares]
    kernels = [
        {"name": name, "spec": path.name, "share": share}
        for path, (name, share, _) in zip(paths, shares, strict=True)
    ]
    (folder / "kernels.json").write_text(json.dumps({"schema_version": 1, "kernels": kernels}))
    specs: list[LoadedSpec] = [spec for path in paths for spec in load_spec(path)]
    given = Options(**{"evaluations": 40, "seed": 2, "workers": 1, **options})
    return [Member(spec=spec, options=given) for spec in specs]


def tune(own: list[Member], out: Path, **more: Any) -> list[Outcome]:
    shares = share_of(own)
    assert shares is not None
    return tune_together(own, shares, out=out, **more)


def evaluations(one: Outcome) -> int:
    counts = one.summary.trials
    return counts["total"] - counts.get("duplicate", 0) - counts.get("pruned", 0)


def standings(path: Path) -> list[Any]:
    with RunRecord.read(path) as record:
        return [(e.body["evaluations"], e.body["last"]) for e in record.events(kind="share")]


HOT_AND_COLD = (("hot", 0.9, True), ("cold", 0.1, False))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Runs of both that nothing disturbed, which tests only read."""
    folder = tmp_path_factory.mktemp("whole")
    return tune(members(folder, HOT_AND_COLD), folder / "runs")


@pytest.mark.integration
def test_the_kernel_with_most_of_the_time_and_room_for_gain_gets_more(whole: list[Outcome]) -> None:
    hot, cold = results = whole
    assert evaluations(hot) + evaluations(cold) == 80
    assert evaluations(hot) > 2 * evaluations(cold)
    assert evaluations(cold) >= 4
    assert hot.summary.improved
    assert not cold.summary.improved
    for one in results:
        assert one.path is not None
        report = audit(one.path)
        assert report.clean, report.differences
        assert one.summary.to_json(run="", kernel="", backend="", device="")["stopped_by"] == "evaluations"


@pytest.mark.integration
def test_room_counts_where_shares_are_equal(tmp_path: Path) -> None:
    """A random search of a landscape finds something better again and again; on a plain it never does."""
    shares = (("flat", 0.5, False), ("steep", 0.5, True))
    own = members(tmp_path, shares, strategy="random", evaluations=24)
    low, high = tune(own, tmp_path / "runs")
    assert evaluations(high) > evaluations(low)


@pytest.mark.integration
def test_an_interrupted_group_goes_on_as_it_would_have(whole: list[Outcome], tmp_path: Path) -> None:
    own = members(tmp_path, HOT_AND_COLD)
    stop = InterruptAt("trial", 33)
    watched = [Member(spec=m.spec, options=m.options, observers=(stop,)) for m in own]
    cut = tune(watched, tmp_path / "cut", interruption=stop.interruption)
    assert all(one.interrupted for one in cut)
    found = find_together(tmp_path / "cut", [m.spec for m in own])
    assert found is not None
    again = [
        Member(spec=m.spec, options=m.options, record=path) for m, (path, _) in zip(own, found, strict=True)
    ]
    resumed = tune_together(again, [shared for _, shared in found], out=tmp_path / "cut")
    for one, other in zip(resumed, whole, strict=True):
        assert one.path is not None
        assert other.path is not None
        assert evaluations(one) == evaluations(other)
        assert one.summary.configuration == other.summary.configuration
        assert standings(one.path) == standings(other.path)
        report = audit(one.path)
        assert report.clean, report.differences
    with pytest.raises(UsageError, match="have ended"):
        find_together(tmp_path / "cut", [m.spec for m in own])
    with pytest.raises(UsageError, match="shares its budget with hot, cold"):
        find_together(tmp_path / "cut", [own[1].spec, own[0].spec])


@pytest.mark.integration
def test_over_several_devices(tmp_path: Path) -> None:
    def fleet(task: Task) -> Executor:
        return ThreadExecutor(
            lambda: RecordedBackend().prepare(task, workers=1), ["recorded"] * 3, builders=1
        )

    given = members(tmp_path, HOT_AND_COLD, evaluations=30)
    own = [Member(spec=m.spec, options=m.options, executor=fleet) for m in given]
    hot, cold = tune(own, tmp_path / "runs")
    assert evaluations(hot) + evaluations(cold) == 60
    assert evaluations(hot) > 2 * evaluations(cold)
    for one in (hot, cold):
        assert one.path is not None
        report = audit(one.path)
        assert report.clean, report.differences


@pytest.mark.integration
def test_a_budget_in_time_is_shared_as_a_whole(tmp_path: Path) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.02
        return now

    own = members(tmp_path, HOT_AND_COLD, evaluations=None, minutes=0.2)
    shares = share_of(own)
    assert shares is not None
    assert shares[0].evaluations is None
    # Of each run's 12 s, 15% are kept for confirming and 5% for taking the winner apart.
    assert shares[0].search_s == pytest.approx(2 * 0.8 * 12)
    hot, cold = tune_together(own, shares, out=tmp_path / "runs", clock=clock)
    searched = []
    for one in (hot, cold):
        assert one.path is not None
        report = audit(one.path)
        assert report.clean, report.differences
        with RunRecord.read(one.path) as record:
            searched.append(open_state(record)[0].searched_s)
    assert searched[0] > 2 * searched[1]
    assert sum(searched) < 2 * 0.8 * 12 + 6


def test_a_small_space_that_is_used_up_leaves_its_part_to_the_other(tmp_path: Path) -> None:
    small = members(tmp_path, (("small", 0.9, True),), side=3)
    large = members(tmp_path, (("large", 0.1, False),), evaluations=20)
    own = [replace(m, options=large[0].options) for m in (*small, *large)]
    tiny, rest = tune(own, tmp_path / "runs")
    assert tiny.path is not None
    with RunRecord.read(tiny.path) as record:
        assert open_state(record)[0].search_stop == "exhausted"
    assert evaluations(tiny) == 9
    assert evaluations(rest) == 31


def test_whose_turn_it_is() -> None:
    new = {"weight": 0.1, "ratio": 1.0, "expected": 0.1, "slices": 0}
    rich = {"weight": 0.9, "ratio": 1.0, "expected": 0.2, "slices": 3}
    poor = {"weight": 0.9, "ratio": 1.0, "expected": 0.02, "slices": 3}
    assert chosen([rich, new]) == 1
    assert chosen([poor, rich]) == 1
    assert chosen([rich, rich]) == 0
    assert chosen([None, poor]) == 1
    assert chosen([None, None]) is None


def test_the_record_of_another_turn_is_found_out(tmp_path: Path) -> None:
    """Whose turn it was follows from what is written beside it."""
    own = members(tmp_path, HOT_AND_COLD, evaluations=12)
    hot, _ = tune(own, tmp_path / "runs")
    assert hot.path is not None
    with RunRecord.read(hot.path) as record:
        events = [e.body for e in record.events(kind="share") if not e.body["last"]]
    assert events
    for body in events:
        assert chosen(body["standings"]) == 0


@pytest.mark.integration
def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = members(tmp_path, HOT_AND_COLD)
    paths = [str(m.spec.path) for m in own]
    common = ["--evaluations", "30", "--seed", "2", "--workers", "1", "--no-library", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(["tune", *paths, *common, "--out", str(tmp_path / "runs")])
    assert ended.value.code == 0
    printed = capsys.readouterr()
    hot, cold = json.loads(printed.out)["runs"]
    assert "parts of the time: hot 90%, cold 10%" in printed.err
    assert hot["trials"]["total"] > 2 * cold["trials"]["total"]
    common[1] = "12"
    with pytest.raises(SystemExit) as ended:
        main(["tune", *paths, *common, "--out", str(tmp_path / "own"), "--no-share"])
    assert ended.value.code == 0
    hot, cold = json.loads(capsys.readouterr().out)["runs"]
    assert hot["trials"]["total"] - cold["trials"]["total"] < 5
