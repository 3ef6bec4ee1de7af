"""``tuner apply`` and ``tuner ab``: an unmodified application with a run's winner in the place of its own kernel.

May not tune, and may not measure anything but whole runs of the application.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core import statistics
from tuner.core.errors import MachineError, UsageError
from tuner.driver.applications.winners import WinnerInPlace
from tuner.evaluators.lane import TimingLane
from tuner.recorders.recordings.capture import Application, Ran

__all__ = ["Comparison", "check_applied", "compare", "run_with"]

LEAST_PAIRS = statistics.MIN_PROCESSES
_HINT = "record the application as it is now, and tune that"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both ways of running an application.

    Attributes:
        plain_s, applied_s: wall time of each run, in pairs.
        speedup: of the application, plain over applied, with its 95% interval.
        replaced, left: launches of one run with the winner in place, and those left as they were.
    """

    plain_s: tuple[float, ...]
    applied_s: tuple[float, ...]
    speedup: tuple[float, float, float]
    replaced: int
    left: int

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
        }


def run_with(winner: WinnerInPlace, command: Sequence[str], *, silent: bool = False) -> Ran:
    """Runs a command with a winner in place.

    Raises:
        UsageError: there is no such command.
        MachineError: the library cannot be made.
    """
    if not command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    with tempfile.TemporaryDirectory(prefix="tuner-apply-") as name:
        out, plan = Path(name, "out"), Path(name, "plan")
        out.mkdir()
        plan.mkdir()
        winner.write(plan)
        application = Application(command=tuple(command), library=winner.library(command), silent=silent)
        return application.run(out, {"TUNER_RECORD_MODE": "apply", "TUNER_RECORD_PLAN": str(plan)})


def compare(
    winner: WinnerInPlace,
    command: Sequence[str],
    *,
    pairs: int,
    seed: int = 0,
    note: Callable[[str], None] | None = None,
) -> Comparison:
    """Runs a command both ways, interleaved in random order, after one run of each that does not count.

    Args:
        winner: what is put in place.
        command: the application; its standard output is thrown away.
        pairs: how many runs of each.
        seed: of the order.
        note: told of the progress.

    Raises:
        UsageError: too few pairs, no such command, or a run that ends badly or does not launch the winner.
        MachineError: the library cannot be made.
    """
    if pairs < LEAST_PAIRS:
        raise UsageError(f"{pairs} pairs of runs say nothing", f"at least {LEAST_PAIRS}")
    plain = Application(command=tuple(command), silent=True)
    ran = run_with(winner, command, silent=True)
    if not ran.replaced:
        raise UsageError(f"the winner was not put in place: {_why(winner, ran)}", _HINT)
    times: dict[bool, list[float]] = {False: [], True: []}
    order = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="tuner-ab-") as scratch, TimingLane("cpu", note=note):
        status = plain.run(Path(scratch), {}).status
        for number in range(pairs):
            for applied in order.sample((False, True), 2):
                one = run_with(winner, command, silent=True) if applied else plain.run(Path(scratch), {})
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
        replaced=ran.replaced,
        left=ran.left,
    )


def _speedup(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean of the pairs' ratios with its t interval: what slows a pair as a whole cancels."""
    interval = statistics.mean_interval(ratios)
    return interval.value, interval.low, interval.high


def check_applied(winner: WinnerInPlace, ran: Ran) -> None:
    """Raises ``MachineError`` where nothing was put in place."""
    if not ran.replaced:
        raise MachineError(f"the winner was not put in place: {_why(winner, ran)}", _HINT)


def _why(winner: WinnerInPlace, ran: Ran) -> str:
    if ran.problems:
        return ran.problems[0]
    if ran.left:
        return f"all {ran.left} calls of {winner.kernel} are such as it was not verified on"
    return winner.absent
