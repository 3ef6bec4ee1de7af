"""``tuner app tune`` behind its options: one region after the other, within the minutes. Call and print.

What is known of a region from earlier stays where nothing better is confirmed.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.cli.process import ended_at_once, stop_cleanly
from tuner.cli.region_table import slower_apart
from tuner.cli.text import resume_command, seconds_text
from tuner.cli.tuning import tune_all
from tuner.core.errors import TunerError
from tuner.cost_models.library import library_folder
from tuner.driver.applications.region_specs import RegionSpec
from tuner.driver.applications.tuned_regions import (
    Tuned,
    TunedRegion,
    digest_of,
    earlier_regions,
    region_name,
    runs_folder,
)
from tuner.driver.options import Options
from tuner.driver.work.engine import Interruption
from tuner.spec.applications import ApplicationFile
from tuner.spec.load import load_spec

__all__ = [
    "RegionTuning",
    "in_order",
    "minutes_left",
    "print_tuned",
    "too_few",
    "too_few_to_record",
    "unlike",
    "what_gained",
]

_WORTH = 0.3
"""Of a region's minutes, for a loop further in to be tuned where the first one gained nothing."""
_LEAST_PART = 0.5
"""Of the minutes, for tuning, whatever building and recording take."""
_FEW_CALLS = 200
"""Of a loop: what verifying and timing it as given, a few candidates and confirming one take at least."""
_LEAST_CALLS = 20
"""Of a loop: what verifying and timing it as given takes at least."""
_ALIKE = 1.1
"""Times that a call may take as long in a replay as in the application before it is told of."""


@dataclass(kw_only=True)
class RegionTuning:
    """Tunes the regions of an application.

    Attributes:
        application: its file.
        interruption: ends it.
        begin_s: when the minutes began, by the monotonic clock.
        seed: of every random stream.
        quiet: whether nothing goes to stdout.
        runs: that were made.
    """

    application: ApplicationFile
    interruption: Interruption
    begin_s: float = field(default_factory=time.monotonic)
    seed: int = 0
    quiet: bool = False
    runs: list[str] = field(default_factory=list)
    _said: set[str] = field(default_factory=set)

    def all(self, regions: Sequence[Iterator[RegionSpec]], *, minutes: float) -> Tuned:
        """Tunes one after the other, and writes down after each loop what is known of all.

        Args:
            regions: the specs of each region of the file.
            minutes: for all together, with what was done since they began.

        Raises:
            UsageError: what is known from earlier cannot be read.
        """
        known, earlier = earlier_regions(self.application)
        first = [next(of_region) for of_region in regions]
        stop_cleanly(self.interruption)
        minutes = minutes_left(minutes, time.monotonic() - self.begin_s)
        shares = sum(one.region.share for one in first if one.path is not None)
        names = [region_name(self.application, one) for one in self.application.regions]
        blank = [
            replace(_recorded(TunedRegion(name="", share=0, region=name), one), refused=one.refused)
            for name, one in zip(names, first, strict=True)
        ]
        found = [one.or_earlier(known.get(one.region)) for one in blank]
        for number, (one, others) in enumerate(zip(first, regions, strict=True)):
            given = minutes * one.region.share / max(shares, 1e-9)
            for tuned in self._region(blank[number], one, others, minutes=given):
                found[number] = tuned.or_earlier(known.get(tuned.region))
                Tuned(regions=tuple(found), compared=earlier.compared).write(self.application)
        return Tuned(regions=tuple(found), compared=earlier.compared)

    def _region(
        self, region: TunedRegion, one: RegionSpec, others: Iterator[RegionSpec], *, minutes: float
    ) -> Iterator[TunedRegion]:
        """The loop of a region that saves most so far; further ones come while none gains and minutes are left."""
        end_s, best = time.monotonic() + minutes * 60, region
        for loop in in_order(one, self._recording(others), minutes * 60, self._note):
            left = max(_WORTH * minutes, (end_s - time.monotonic()) / 60)
            tuned = self._tuned(_recorded(region, loop), loop, minutes=left)
            best = tuned if best is region else best.or_earlier(tuned)
            yield best
            over = end_s - time.monotonic() <= _WORTH * minutes * 60
            if not tuned.run or best.speedup > 1 or over or self.interruption.wanted:
                break

    def _recording(self, specs: Iterator[RegionSpec]) -> Iterator[RegionSpec]:
        """Further specs until Ctrl-C: unlike a run, a recording leaves nothing that would be worth an orderly end."""
        while not self.interruption.wanted:
            try:
                with ended_at_once():
                    found = next(specs, None)
            except KeyboardInterrupt:
                self.interruption.set()
                return
            if found is None:
                return
            yield found

    def _note(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            print(f"note: {line}", file=sys.stderr)

    def _tuned(self, region: TunedRegion, one: RegionSpec, *, minutes: float) -> TunedRegion:
        """Tunes a loop, and says what its source gained; what fails is why it is not tuned."""
        region = replace(region, refused=one.refused)
        for line in (*one.refused, *slower_apart(one)):
            self._note(line)
        if one.path is None or self.interruption.wanted:
            return region
        why = too_few(one, minutes)
        if why:
            return replace(region, refused=(*one.refused, f"{one.name}: {why}"))
        region = replace(region, spec=str(one.path), tuned=digest_of(one.region.source, one.path))
        options = Options(minutes=minutes, seed=self.seed, library=library_folder())
        try:
            (result,) = tune_all(
                load_spec(one.path),
                options,
                out=runs_folder(self.application),
                interruption=self.interruption,
                quiet=self.quiet,
            )
            if result.outcome.path is None:
                return region
            different = unlike(one, result.outcome.summary.baseline_s[0])
            if different:
                self._note(different)
            self.runs.append(str(result.outcome.path))
            return region.with_run(result.outcome.path)
        except TunerError as error:
            return replace(region, refused=(*one.refused, f"{one.name}: {error}"))


def _recorded(region: TunedRegion, loop: RegionSpec) -> TunedRegion:
    """With what is known of the loop that is tuned of it."""
    share, calls, call_s = loop.region.share, loop.calls, loop.call_s
    return replace(region, name=loop.name, share=share, calls=calls, call_s=call_s, apart=loop.apart)


def minutes_left(minutes: float, spent_s: float) -> float:
    """Of all minutes those for tuning: what building and recording have left, a part of them at least."""
    return max(minutes - spent_s / 60, _LEAST_PART * minutes)


def too_few_to_record(minutes: float, once_s: float, regions: int) -> str:
    """That recording alone takes more than its part of the minutes; empty where it does not.

    Args:
        minutes: for all.
        once_s: of building and running the application once, as each region needs it again.
        regions: how many there are.
    """
    least_s = once_s * (1 + regions)
    part_s = (1 - _LEAST_PART) * minutes * 60
    if least_s <= part_s:
        return ""
    enough = math.ceil(2 * least_s / (1 - _LEAST_PART) / 60)
    return (
        f"{minutes:g} minutes are few: to build and run it takes {seconds_text(once_s)}, once and for each of"
        f" {regions} regions, and to check each takes more; tuning gets {minutes * 60 - part_s:.0f} s all the same;"
        f" give --minutes {enough}, or leave out regions"
    )


def in_order(
    first: RegionSpec, others: Iterator[RegionSpec], given_s: float, note: Callable[[str], None]
) -> Iterator[RegionSpec]:
    """A region's loops from outside, but first the one inside where the minutes hold too few calls of the outer."""
    if first.path is not None and first.call_s * _FEW_CALLS > given_s:
        inner = next(others, None)
        if inner is not None:
            took = f"a call takes {seconds_text(first.call_s)}, too long for candidates in {given_s:.0f} s"
            note(
                f"{first.name}: {took}: {inner.name} inside it comes first; more --minutes tune {first.name}"
            )
            yield inner
    yield first
    yield from others


def too_few(one: RegionSpec, minutes: float) -> str:
    """Why minutes are too few for a region to be timed as given and with one candidate; empty where they are not."""
    least_s = one.call_s * _LEAST_CALLS
    if minutes * 60 >= least_s:
        return ""
    took, times = seconds_text(one.call_s), math.ceil(2 * least_s / max(minutes * 60, 1e-9))
    return (
        f"its {minutes * 60:.2g} s are too few: a call takes {took}, and timing it as given {_LEAST_CALLS} and more;"
        f" give {times} times the --minutes, or leave out other regions"
    )


def unlike(one: RegionSpec, replay_s: float) -> str:
    """That calls take another time in the replay than in the application; empty where they do not."""
    low, high = one.recorded_s
    if low / _ALIKE <= replay_s <= high * _ALIKE:
        return ""
    took = seconds_text(low) if high <= low * _ALIKE else f"{seconds_text(low)} to {seconds_text(high)}"
    return (
        f"{one.name}: a call took {took} in the application, {seconds_text(replay_s)} in its replay: caches hold other"
        " data there, or one of them was disturbed; what it gains in place may differ, which tuner app ab tells"
    )


def what_gained(region: TunedRegion, file: Path) -> str:
    """What became of a region, for people."""
    if not region.run:
        return "not tuned: " + (region.refused[-1] if region.refused else "interrupted")
    if region.speedup > 1.0:
        known = f", {region.in_place:.2f}x of it where the loop stands" if region.apart > 1 else ""
        return f"{region.speedup:.2f}x{known}"
    seen = f"{region.seen:.2f}x in its search, which nothing confirms" if region.seen > 1.0 else "none"
    if region.unfinished:
        goes_on = resume_command(region.spec, Path(region.run).parent)
        return f"{seen} yet: interrupted; {goes_on} goes on"
    if region.seen > 1.0:
        return f"{seen} yet: tuner app tune {file} with more --minutes"
    return "none by a change of its source" + (f"; refused: {region.hindered}" if region.hindered else "")


def print_tuned(found: Tuned, now: Collection[str], file: Path) -> None:
    """What is known of all regions.

    Args:
        found: the regions.
        now: the runs that were made this time; what others claim is of an earlier one.
        file: of the application.
    """
    width = max(len(one.name) for one in found.regions)
    print(f"{'region':<{width}} {'share':>6} {'calls':>9} {'a call':>8}  gain alone")
    for one in found.regions:
        earlier = " (kept from earlier)" if one.run and one.run not in now else ""
        calls, took = (one.calls, seconds_text(one.call_s)) if one.calls else ("-", "-")
        print(
            f"{one.name:<{width}} {100 * one.share:>5.1f}% {calls:>9} {took:>8}  {what_gained(one, file)}{earlier}"
        )
    if found.predicted > 1.0:
        print(f"predicted for the whole: {found.predicted:.2f} times; next: tuner app ab {file}")
