"""How ``tuner app tune`` shares its minutes among loops, what it keeps of earlier runs, and what it says of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from instants import InterruptAt
from loops_with_winners import LINES, PROGRAM, cost, run_of

from tuner.cli.app_tuning import (
    RegionTuning,
    in_order,
    minutes_left,
    too_few,
    too_few_to_record,
    unlike,
    what_gained,
)
from tuner.cli.region_table import slower_apart
from tuner.core.errors import FullDiskError, UsageError
from tuner.core.types import Resolved, Variant
from tuner.driver.applications.region_specs import RegionSpec, share_of
from tuner.driver.applications.tuned_regions import (
    Compared,
    Tuned,
    TunedRegion,
    patch_of,
    read_tuned,
    winning_runs,
)
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.driver.work.engine import Interruption
from tuner.recorders.recordings.capture import SEVERAL_THREADS, KernelUse, Ran
from tuner.spec.applications import ApplicationFile, Region
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


def loop(line: int, call_s: float, **more: Any) -> RegionSpec:
    region = Region(source=Path("/a/app.c"), loops=(6, 7), share=0.5)
    return RegionSpec(region=region, path=Path(f"{line}.yaml"), line=line, call_s=call_s, **more)


@pytest.mark.parametrize(("call_s", "lines"), [(0.07, [6, 7, 9]), (2.0, [7, 6, 9])])
def test_the_outermost_loop_comes_first_unless_its_calls_fill_the_minutes(
    call_s: float, lines: list[int]
) -> None:
    said: list[str] = []
    found = in_order(loop(6, call_s), iter([loop(7, 1e-3), loop(9, 1e-5)]), 60.0, said.append)
    assert [one.line for one in found] == lines
    assert said == (
        []
        if lines[0] == 6
        else [
            "app.c:6: a call takes 2 s, too long for candidates in 60 s: app.c:7 inside it comes first; "
            "more --minutes tune app.c:6"
        ]
    )
    assert [one.line for one in in_order(loop(6, 2.0), iter([]), 60.0, said.append)] == [6]


def test_minutes_that_do_not_hold_the_kernel_as_given_are_refused_before_the_work() -> None:
    assert too_few(loop(6, 0.01), 0.1) == ""
    assert too_few(loop(6, 1.5), 0.1) == (
        "its 6 s are too few: a call takes 1.5 s, and timing it as given 20 and more; give 10 times the --minutes, "
        "or leave out other regions"
    )


def test_the_minutes_are_for_building_and_recording_too_and_half_of_them_for_tuning() -> None:
    assert [minutes_left(2.0, spent_s) for spent_s in (0.0, 30.0, 300.0)] == [2.0, 1.5, 1.0]
    assert too_few_to_record(2.0, 10.0, 5) == ""
    assert too_few_to_record(0.8, 10.0, 3) == (
        "0.8 minutes are few: to build and run it takes 10 s, once and for each of 3 regions, and to check each takes "
        "more; tuning gets 24 s all the same; give --minutes 3, or leave out regions"
    )


def test_what_a_search_saw_stays_known_until_another_saw_more() -> None:
    seen = TunedRegion(name="a", share=0.5, run="r/1.run", seen=1.8)
    nothing, more = replace(seen, run="r/2.run", seen=1.0), replace(seen, run="r/3.run", seen=1.9)
    confirmed = replace(seen, run="r/4.run", speedup=1.1, seen=1.0)
    assert [one.or_earlier(seen) for one in (nothing, more, confirmed)] == [seen, more, confirmed]
    assert more.or_earlier(confirmed) == confirmed


def test_a_patch_needs_results_that_were_compared(two: Tuning) -> None:
    winner = TunedRegion(name="app.c:6", share=0.5, run="r/1.run", speedup=2.0)
    compared = Compared(runs=("r/1.run",), speedup=(1.3, 1.2, 1.4), results=False)
    with pytest.raises(
        UsageError, match=r"no results of \./app could be compared, .* check: COMMAND into .*--anyway"
    ):
        patch_of(two.application, Tuned(regions=(winner,), compared=compared))


def test_a_replay_that_takes_another_time_than_the_application_is_told_of() -> None:
    one = loop(6, 3e-3, recorded_s=(2.9e-3, 3e-3))
    assert unlike(one, 3.2e-3) == unlike(one, 2.7e-3) == ""
    assert unlike(one, 8.29e-3).startswith(
        "app.c:6: a call took 2.9 ms in the application, 8.29 ms in its replay: caches hold other data there"
    )
    assert "took 2.9 ms to 5 ms in the" in unlike(replace(one, recorded_s=(2.9e-3, 5e-3)), 1e-3)


def test_shares_and_times_of_calls_are_those_of_the_run_as_it_is() -> None:
    """Whatever the recorded run took; calls that were not timed last as long as those that were."""
    use = KernelUse(name="work", program="")
    ran = Ran(status=0, wall_s=2.0, processor_s=2.0, seen=True, kernels=(use,))
    use.count("1", 0.4, "", 4)
    assert share_of(ran, 0.9, 1.0) == pytest.approx((0.4, 0.1, 1))
    assert share_of(ran, 0.3, 1.0) == pytest.approx((0.3, 0.075, 0.1 / 0.075))
    assert share_of(replace(ran, processor_s=1.0), 0.9, 1.0) == pytest.approx((0.2, 0.05, 1))
    use.count("0", 0.0, "too short", 4)
    assert share_of(ran, 0.9, 1.0) == pytest.approx((0.8, 0.1, 1))
    use.count("0", 0.0, SEVERAL_THREADS, 8)
    assert share_of(ran, 0.9, 1.0) == pytest.approx((0.9, 0.9 / 16, 1))


def test_what_a_loop_loses_as_a_function_of_its_own_is_no_gain_of_the_application() -> None:
    """Compilers know more of a loop where it stands: the winner may only get back what calling it apart cost."""
    one = replace(loop(6, 1e-3), apart=5.0)
    assert [*slower_apart(one)] == [
        "app.c:6: a call takes 1 ms, as a function of its own 5.0 times as long: where it stands the compiler knows "
        "more of it, and a gain may be none there"
    ]
    assert [*slower_apart(loop(6, 1e-3))] == []
    region = TunedRegion(name="app.c:6", share=0.9, apart=5.0, run="a.run", speedup=10.0)
    assert region.in_place == pytest.approx(2)
    assert Tuned(regions=(region,)).predicted == pytest.approx(1 / 0.55)
    assert what_gained(region, Path("app.yaml")) == "10.00x, 2.00x of it where the loop stands"
    assert Tuned(regions=(replace(region, speedup=4.0),)).predicted == 1


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({}, "not tuned: interrupted"),
        ({"refused": ("a", "b")}, "not tuned: b"),
        ({"run": "r/a.run", "speedup": 2.0}, "2.00x"),
        ({"run": "r/a.run"}, "none by a change of its source"),
        (
            {
                "run": "r/a.run",
                "hindered": "9 of 20 edits of the source as given, most often: it waits (5, loop j)",
            },
            "none by a change of its source; refused: 9 of 20 edits of the source as given, most often: it waits"
            " (5, loop j)",
        ),
        (
            {"run": "r/a.run", "seen": 2.1},
            "2.10x in its search, which nothing confirms yet: tuner app tune app.yaml with more --minutes",
        ),
        (
            {"run": "r/a.run", "spec": "s.yaml", "seen": 2.1, "unfinished": True},
            "2.10x in its search, which nothing confirms yet: interrupted; "
            "tuner tune s.yaml --resume --out r goes on",
        ),
    ],
)
def test_what_is_not_confirmed_is_said_with_how_to_confirm_it(more: dict[str, Any], wanted: str) -> None:
    assert what_gained(TunedRegion(name="a", share=0.5, **more), Path("app.yaml")) == wanted


OPTIONS = Options(seed=1, workers=1, evaluations=16, settings={"choose_processes": 2, "confirm_processes": 4})


def backend(made: Callable[[Variant, Resolved], float] = cost) -> SimulatedBackend:
    return SimulatedBackend(seconds=lambda _: 1e-3, of_variant=made)


def interrupted_run(folder: Path, line: int) -> Path:
    """Of the loop at a line, after its search."""
    stop = InterruptAt("stop")
    (spec,) = load_spec(folder / f"line{line}.yaml")
    place = folder.parent / f"cut{line}.run"
    begin(spec, place, OPTIONS, backend=backend(), observers=[stop], interruption=stop.interruption)
    return place


@dataclass(frozen=True)
class Made:
    path: Path

    baseline_s = (1e-3, 1e-3, 1e-3)

    @property
    def outcome(self) -> Made:
        return self

    @property
    def summary(self) -> Made:
        return self


@dataclass(frozen=True)
class Tuning:
    """``tuner app tune`` of an application of two loops, whose runs are given."""

    folder: Path
    application: ApplicationFile
    monkeypatch: pytest.MonkeyPatch

    def tuned(self, *runs: Path, interrupted: bool = False) -> list[TunedRegion]:
        interruption = Interruption()
        interruption.wanted = interrupted
        left = iter(runs)
        for name, value in (
            ("stop_cleanly", lambda interruption: None),
            ("tune_all", lambda *a, **b: [Made(next(left))]),
        ):
            self.monkeypatch.setattr(f"tuner.cli.app_tuning.{name}", value)
        made = RegionTuning(application=self.application, interruption=interruption, quiet=True)
        regions = [iter([self.spec(one)]) for one in self.application.regions]
        found = made.all(regions, minutes=10.0)
        assert read_tuned(self.application) == found
        return list(found.regions)

    def spec(self, region: Region) -> RegionSpec:
        (line,) = region.loops
        return RegionSpec(region=region, path=self.folder / f"line{line}.yaml", line=line, call_s=1e-3)


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tuning:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.c").write_text(PROGRAM)
    regions = tuple(Region(source=folder / "app.c", loops=(line,), share=0.4) for line in LINES)
    application = ApplicationFile(
        path=folder / "app.yaml",
        tree=folder,
        build="make",
        command=("./app",),
        folder=folder,
        regions=regions,
    )
    return Tuning(folder=folder, application=application, monkeypatch=monkeypatch)


def test_a_recording_that_is_interrupted_leaves_what_is_known(
    two: Tuning, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier loop of the region gave is kept; a full disk ends everything, and keeps it too."""
    for error, known in ((KeyboardInterrupt(), None), (FullDiskError("full"), FullDiskError)):
        tuning = RegionTuning(application=two.application, interruption=Interruption(), quiet=True)
        monkeypatch.setattr("tuner.cli.app_tuning.stop_cleanly", lambda interruption: None)
        run = TunedRegion(
            name="app.c:6", region="app.c:6", share=0.4, run=str(two.folder / "a.run"), seen=1.2
        )
        monkeypatch.setattr(tuning, "_tuned", lambda region, one, *, minutes, run=run: run)

        def specs(error: BaseException = error) -> Iterator[RegionSpec]:
            yield two.spec(two.application.regions[0])
            raise error

        regions = [specs(), iter([two.spec(two.application.regions[1])])]
        with nullcontext() if known is None else pytest.raises(known):
            tuning.all(regions, minutes=10.0)
        assert read_tuned(two.application).regions[0] == run
        assert tuning.interruption.wanted == (known is None)


def none_of(folder: Path, line: int) -> Path:
    """A run that finds nothing."""
    (spec,) = load_spec(folder / f"line{line}.yaml")
    place = folder.parent / f"none{line}.run"
    begin(spec, place, replace(OPTIONS, evaluations=6), backend=backend(lambda *_: 1.0))
    return place


@pytest.mark.integration
def test_what_is_confirmed_stays_until_something_better_is_or_the_source_changes(two: Tuning) -> None:
    gains = [run_of(two.folder, line) for line in LINES]
    first = two.tuned(*gains)
    assert [one.speedup for one in first] == pytest.approx([2.0, 2.0], rel=0.1)
    compared = Compared(runs=tuple(map(str, gains)), speedup=(1.3, 1.2, 1.4))
    Tuned(regions=tuple(first), compared=compared).write(two.application)
    nothing = none_of(two.folder, LINES[0])
    assert two.tuned(nothing, none_of(two.folder, LINES[1])) == first
    assert two.tuned(interrupted=True) == first
    assert read_tuned(two.application).compared == compared
    spec = two.folder / f"line{LINES[1]}.yaml"
    spec.write_text(spec.read_text() + "# of other tolerances\n")
    assert [one.run for one in two.tuned(interrupted=True)] == [str(gains[0]), ""]
    (two.folder / "app.c").write_text(PROGRAM.replace("Twice", "2 times"))
    assert [one.run for one in two.tuned(interrupted=True)] == ["", ""]


@pytest.mark.integration
def test_an_interrupted_run_that_went_on_is_found(two: Tuning) -> None:
    run_of(two.folder, LINES[0])
    run_of(two.folder, LINES[1])
    cut = interrupted_run(two.folder, LINES[0])
    first, second = two.tuned(cut, none_of(two.folder, LINES[1]))
    assert (first.speedup, first.seen, first.unfinished) == (1.0, pytest.approx(2.0, rel=0.1), True)
    assert (second.speedup, second.seen, second.unfinished) == (1.0, 1.0, False)
    with pytest.raises(UsageError, match=r"app\.c:13 2\.\d\dx in the search alone, which is not confirmed"):
        winning_runs(two.application, read_tuned(two.application))
    resume(cut, backend=backend())
    first, _ = read_tuned(two.application).regions
    assert (first.speedup, first.seen, first.unfinished) == (pytest.approx(2.0, rel=0.1), 1.0, False)
