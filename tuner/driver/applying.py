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
from tuner.core.protocols import Replacement, Replaces
from tuner.driver.export import best_object
from tuner.driver.opening import open_lineup
from tuner.driver.recording import interposer
from tuner.driver.runs import outcome
from tuner.evaluators import registry as backends
from tuner.evaluators.lane import TimingLane
from tuner.recorders.record import RunRecord
from tuner.recorders.recordings.capture import Application, Ran
from tuner.recorders.recordings.format import Recording
from tuner.spec.load import LoadedSpec
from tuner.spec.workload import DERIVED, from_text

__all__ = ["Comparison", "Winner", "check_applied", "compare", "run_with", "winner_of"]

LEAST_PAIRS = statistics.MIN_PROCESSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """What is put in place.

    Attributes:
        kernel: its name.
        recording: of the kernel that it replaces; its program has to be the application's to the last byte.
        source, options: of the winner.
        local: its work-group along each axis; empty where it stays as the application has it.
    """

    kernel: str
    recording: Recording
    source: str
    options: str
    local: tuple[int, ...]

    def write(self, folder: Path) -> None:
        """Writes what the library reads."""
        texts = {
            "kernel": self.kernel,
            "original.cl": self.recording.text,
            "original.options": self.recording.options,
            "winner.cl": self.source,
            "winner.options": self.options,
            "winner.local": " ".join(map(str, (*self.local, 1, 1, 1)[:3] if self.local else (0, 0, 0))),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="")


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


def winner_of(path: Path) -> Winner:
    """What a run's record puts in place.

    Raises:
        UsageError: nothing better was found, it was not tuned on recordings, or what won cannot be put in place.
        RecordError: the record cannot be read.
    """
    with RunRecord.read(path) as record:
        state, spec, lineup = open_lineup(record)
        result = outcome(path, state)
        if not result.summary.improved:
            raise UsageError(
                f"{path} claims nothing better than the kernel as given", "there is nothing to apply"
            )
        code = best_object(record, state, result)
    recordings = _recordings(spec, path)
    backend = backends.create(spec.task.backend)
    if not isinstance(backend, Replaces):
        raise UsageError(
            f"winners of the {backend.name} backend cannot be put in place yet", "use tuner export"
        )
    found = backend.replacement(spec.task, code, lineup.of_trial(result.summary.best.number)[1])
    return Winner(
        kernel=spec.task.kernel.entry,
        recording=recordings[0],
        source=found.source,
        options=found.options,
        local=_local(found, recordings, path),
    )


def _recordings(spec: LoadedSpec, path: Path) -> tuple[Recording, ...]:
    if DERIVED not in spec.files:
        raise UsageError(
            f"{path} was not tuned on recordings, so nothing says what it replaces",
            "record the application first",
        )
    recordings = from_text(spec.files[DERIVED], origin=str(path)).recordings
    if len({(r.text, r.options) for r in recordings}) > 1:
        raise UsageError(f"{path} was tuned on recordings of several programs", "tune each by itself")
    return recordings


def _local(found: Replacement, recordings: Sequence[Recording], path: Path) -> tuple[int, ...]:
    """The winner's work-group, which has to make the same grid of work-items as the application."""
    blocks = set()
    for geometry, recording in zip(found.geometries, recordings, strict=True):
        items = tuple(g * b for g, b in zip(geometry.grid, geometry.block, strict=True))
        if items != (*recording.global_size, 1, 1)[:3]:
            raise UsageError(
                f"the winner of {path} launches {' x '.join(map(str, items))} work-items, the application "
                f"{' x '.join(map(str, recording.global_size))}",
                "only work-groups of another size can be put in place, not another grid",
            )
        local = sum(a.size_bytes for a in recording.arguments if a.kind == "local")
        if geometry.shared_bytes != local:
            raise UsageError(
                f"the winner of {path} takes {geometry.shared_bytes} bytes of local memory, the application gives "
                f"{local}",
                "such a winner cannot be put in place yet",
            )
        kept = (*recording.local_size, 1, 1)[:3] if recording.local_size else ()
        blocks.add(() if geometry.block == kept else geometry.block)
    if len(blocks) > 1:
        raise UsageError(
            f"the winner of {path} has several work-group sizes", "tune each recording by itself"
        )
    return blocks.pop()


def run_with(winner: Winner, command: Sequence[str], *, silent: bool = False) -> Ran:
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
        application = Application(command=tuple(command), library=interposer(), silent=silent)
        return application.run(out, {"TUNER_RECORD_MODE": "apply", "TUNER_RECORD_PLAN": str(plan)})


def compare(
    winner: Winner,
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
        why = (
            ran.problems[0] if ran.problems else "the application launches no kernel of the recorded program"
        )
        raise UsageError(f"the winner was not launched: {why}", "record the application as it is now")
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


def check_applied(ran: Ran) -> None:
    """Raises ``MachineError`` where nothing was put in place."""
    if ran.replaced:
        return
    why = ran.problems[0] if ran.problems else "the application launches no kernel of the recorded program"
    raise MachineError(
        f"the winner was not launched: {why}", "record the application as it is now, and tune that"
    )
