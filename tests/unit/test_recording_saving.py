"""What recording tells a person beforehand: whether replay saves anything over running the application again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.driver.applications.recorded_specs import RecordReport, notes_of
from tuner.recorders.recordings.capture import KernelUse, Ran


def report(wall_s: float, *, launches: int = 10, seconds: float = 0.1, recorded: bool = True) -> RecordReport:
    """Of an application with one kernel."""
    use = KernelUse(name="work", program="0", launches=launches, seconds=seconds)
    ran = Ran(status=0, wall_s=wall_s, seen=True, kernels=(use,))
    return RecordReport(ran=ran, recordings=(Path("work.rec"),) if recorded else ())


def test_a_short_run_is_said_to_save_little() -> None:
    assert report(0.6).saving == (
        "the run took 0.6 s, and a candidate by replay takes about 0.6 s (a build and 5 launches): "
        "this saves little; a longer run gains more"
    )


@pytest.mark.parametrize("one", [report(60.0), report(0.6, recorded=False)], ids=["long", "nothing recorded"])
def test_nothing_is_said_where_there_is_nothing_to_say(one: RecordReport) -> None:
    assert one.saving == ""


def test_a_run_of_one_long_launch_saves_little_however_long() -> None:
    assert report(120.0, launches=1, seconds=110.0).saving


@pytest.mark.parametrize(("count", "words"), [(1, "1 launch of work"), (2, "2 launches of work")])
def test_refused_launches_are_counted_in_words(count: int, words: str) -> None:
    use = KernelUse(name="work", program="0", launches=2, seconds=0.1, refused={"an image": count})
    ran = Ran(status=0, wall_s=1.0, seen=True, kernels=(use,))
    assert notes_of(ran) == [f"{words} cannot be recorded: an image"]
