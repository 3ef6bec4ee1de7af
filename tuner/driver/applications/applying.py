"""``tuner apply`` and ``tuner ab``: an unmodified application with runs' winners in the place of its own kernels.

May not tune, and may not measure anything but whole runs of the application.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.core import claims, statistics
from tuner.core.errors import MachineError, UsageError
from tuner.driver.applications.in_place import Origin, WinnerInPlace
from tuner.evaluators.lane import TimingLane
from tuner.recorders.recordings.capture import Application, InPlace, Ran
from tuner.recorders.recordings.points import Point

__all__ = ["Applied", "Comparison", "applied_json", "check_applied", "compare", "run_with"]

LEAST_PAIRS = claims.MIN_PROCESSES
_HINT = "record the application as it is now, and tune that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One winner in one run of an application.

    Attributes:
        kernel: its name.
        replaced, left: launches with the winner in place, and those left as they were.
        why: why there are none with it; empty where there are some.
        sizes, device: of several winners for one kernel: by what it is told from the others.
        origin: the run that it comes from.
    """

    kernel: str
    replaced: int
    left: int
    why: str = ""
    sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    device: str = ""
    origin: Origin | None = None

    @property
    def name(self) -> str:
        """The kernel, with what tells the winner from others for it."""
        told = [f"{name} = {', '.join(map(str, sizes))}" for name, sizes in self.sizes.items()]
        told += [self.device] if self.device else []
        return f"{self.kernel} ({'; '.join(told)})" if told else self.kernel

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "sizes": {name: list(sizes) for name, sizes in self.sizes.items()},
            "replaced": self.replaced,
            "left": self.left,
            "why": self.why,
            **({} if self.origin is None else self.origin.to_json()),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both ways of running an application.

    Attributes:
        plain_s, applied_s: wall time of each run, in pairs.
        speedup: of the application, plain over applied, with its 95% interval.
        winners: what became of each winner in one run with all of them in place.
    """

    plain_s: tuple[float, ...]
    applied_s: tuple[float, ...]
    speedup: tuple[float, float, float]
    winners: tuple[Applied, ...]

    @property
    def replaced(self) -> int:
        """Launches of one run with a winner in place."""
        return sum(one.replaced for one in self.winners)

    @property
    def left(self) -> int:
        """Launches of one run that were left as they were."""
        return sum(one.left for one in self.winners)

    def to_json(self) -> dict[str, Any]:
        """The object behind ``--json``."""
        value, low, high = self.speedup
        return {
            "schema_version": 1,
            "plain_s": list(self.plain_s),
            "applied_s": list(self.applied_s),
            "speedup": {"value": value, "ci95": [low, high]},
            "faster": low > 1.0,
            "replaced": self.replaced,
            "left": self.left,
            "winners": [one.to_json() for one in self.winners],
        }


def run_with(
    winners: Sequence[WinnerInPlace], command: Sequence[str], *, silent: bool = False, aside: bool = False
) -> tuple[Ran, tuple[Applied, ...]]:
    """Runs a command with winners in place; also what became of each.

    Args:
        winners: what is put in place.
        command: the application.
        silent: whether its standard output is thrown away.
        aside: whether its standard output goes to standard error.

    Raises:
        UsageError: there is no such command.
        MachineError: a library cannot be made.
    """
    if not command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    with tempfile.TemporaryDirectory(prefix="tuner-apply-") as name:
        out, plan = Path(name, "out"), Path(name, "plan")
        out.mkdir()
        plan.mkdir()
        libraries = [winner.library(command) for winner in winners]
        libraries += [library for winner in winners for library in winner.needed]
        counters, number = [], 0
        for winner in winners:
            counters.append(winner.write(plan, number))
            # Those that one library holds are numbered from 0 without a gap.
            number += counters[-1] == str(number)
        application = Application(
            command=tuple(command), libraries=tuple(dict.fromkeys(libraries)), silent=silent, aside=aside
        )
        ran = application.run(out, {"TUNER_RECORD_MODE": "apply", "TUNER_RECORD_PLAN": str(plan)})
    return ran, tuple(_applied(w, ran, name) for w, name in zip(winners, counters, strict=True))


def _applied(winner: WinnerInPlace, ran: Ran, counters: str) -> Applied:
    counted = ran.in_place.get(counters, InPlace())
    why = ""
    if not counted.replaced:
        said = [text for kernel, text in ran.problems if kernel == winner.kernel]
        unknown = f"all {counted.left} calls of {winner.kernel} are such as it was not verified on"
        if not any(point.taken for point in winner.points or (Point(sizes={}),)):
            said, unknown = [], f"the run claims no gain there, and {counted.left} calls stay as they are"
        why = said[0] if said else unknown if counted.left else winner.absent
    return Applied(
        kernel=winner.kernel,
        replaced=counted.replaced,
        left=counted.left,
        why=why,
        sizes=winner.sizes,
        device=winner.device,
        origin=winner.origin,
    )


def compare(
    winners: Sequence[WinnerInPlace],
    command: Sequence[str],
    *,
    pairs: int,
    seed: int = 0,
    note: Callable[[str], None] | None = None,
) -> Comparison:
    """Runs a command both ways, interleaved in random order, after one run of each that does not count.

    Args:
        winners: what is put in place, all at once.
        command: the application; its standard output is thrown away.
        pairs: how many runs of each.
        seed: of the order.
        note: told of the progress.

    Raises:
        UsageError: too few pairs, no such command, a run that ends badly, or one that launches no winner.
        MachineError: the library cannot be made.
    """
    if pairs < LEAST_PAIRS:
        raise UsageError(f"{pairs} pairs of runs say nothing", f"at least {LEAST_PAIRS}")
    plain = Application(command=tuple(command), silent=True)
    _, placed = run_with(winners, command, silent=True)
    if not any(one.replaced for one in placed):
        raise UsageError(_nothing(placed), _HINT)
    times: dict[bool, list[float]] = {False: [], True: []}
    order = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tuner-ab-") as scratch, TimingLane("cpu", note=note):
        status = plain.run(Path(scratch), {}).status
        for number in range(pairs):
            for applied in order.sample((False, True), 2):
                one = run_with(winners, command, silent=True)[0] if applied else plain.run(Path(scratch), {})
                if one.status != status:
                    way = "with the winner" if applied else "as it is"
                    raise UsageError(
                        f"the application {way} {one.ended_badly or 'ended well'}, its first run not so",
                        "it has to end alike each time to be compared",
                    )
                times[applied].append(one.wall_s)
            if note is not None:
                note(
                    f"pair {number + 1} of {pairs}: {times[False][-1]:.3f} s, {times[True][-1]:.3f} s with the winner"
                )
    ratios = [a / b for a, b in zip(times[False], times[True], strict=True)]
    return Comparison(
        plain_s=tuple(times[False]),
        applied_s=tuple(times[True]),
        speedup=_speedup(ratios),
        winners=placed,
    )


def _speedup(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of the pairs' ratios with its t interval: what slows a pair as a whole cancels."""
    interval = statistics.mean_interval(ratios)
    return interval.value, interval.low, interval.high


def applied_json(ran: Ran, placed: Sequence[Applied]) -> dict[str, Any]:
    """The object behind ``tuner apply --json``."""
    return {
        "schema_version": 1,
        "status": ran.status,
        "wall_s": ran.wall_s,
        "replaced": sum(one.replaced for one in placed),
        "left": sum(one.left for one in placed),
        "winners": [one.to_json() for one in placed],
        "problems": [{"kernel": kernel, "message": text} for kernel, text in ran.problems],
    }


def check_applied(placed: Sequence[Applied]) -> None:
    """Raises ``MachineError`` where nothing was put in place."""
    if not any(one.replaced for one in placed):
        raise MachineError(_nothing(placed), _HINT)


def _nothing(placed: Sequence[Applied]) -> str:
    if len(placed) == 1:
        return f"the winner was not put in place: {placed[0].why}"
    return "no winner was put in place: " + "; ".join(f"{one.name}: {one.why}" for one in placed)
