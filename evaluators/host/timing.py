"""Timed batches: how calls are grouped into windows, the talk with the child, and whether its times are believed.

The parent reads the child's processor clock and its own clock at both ends of every window, through
:mod:`tuner.evaluators.host.readings`. It compares no outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import numbers_in
from tuner.core.types import Status
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.child import MESSAGE_BYTES, WINDOW
from tuner.evaluators.host.clocks import TOLERANCE, Clocks, Team
from tuner.evaluators.host.process import Ended
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.host.runner import FILLED_BYTES_PER_S, Attached, CandidateFailed, Runner, words_of

__all__ = [
    "Batch",
    "Setting",
    "Sizes",
    "Unbelieved",
    "Window",
    "poison_places",
    "run_once",
    "run_windows",
    "sizes_for",
    "windows_for",
]

_READY, _DONE = 1, 2
_SEGMENT_S = 40e-6
_SINGLE_S = 20e-6
_MAX_PER_SEGMENT = 1000
_MAX_CALLS = 6000
_MAX_SEGMENTS = 1000
_MAX_WINDOW_S = 2.0
_MAX_WINDOWS = 64
"""Of one batch. A window costs some milliseconds of talk, stops and comparisons: where buffers are restored and few of
them fit the cache, or caches are flushed, it has one call, and hundreds of them would take a hundred times as long as
the calls themselves. The median of so many is steadier than what differs between processes."""
_POISONS = 4
_CLOCK_MONOTONIC, _CLOCK_THREAD = 1, 3
_PREPARE_S = 30.0
_BETWEEN_S = 5e-6
_ASLEEP_S = 100e-6
"""What each member of a team may use of a processor between two windows: it is stopped, let go on and sleeps again."""
_TRIES = 6
"""Of a window or a batch that cannot be believed: on a machine that others disturb several in a row may be such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How a batch is cut up: calls of one reading of the clock, and readings of one window."""

    per_segment: int
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One stretch of calls: entries in order, ``per_segment`` of them for each reading."""

    order: tuple[int, ...]
    per_segment: int
    flush_bytes: int = 0

    @property
    def segments(self) -> int:
        """Readings."""
        return len(self.order) // self.per_segment


@dataclass(slots=True, kw_only=True)
class Batch:
    """What the windows of one batch took, in seconds.

    Attributes:
        times_s: for each reading the time of one call.
        claimed_s: by the child's clock; ``observed_s``: by the parent's reading of it; ``wall_s``: by the parent's.
    """

    times_s: list[float] = field(default_factory=list)
    claimed_s: float = 0.0
    observed_s: float = 0.0
    wall_s: float = 0.0

    def add(self, other: Batch) -> None:
        """Takes what other windows took."""
        self.times_s += other.times_s
        self.claimed_s += other.claimed_s
        self.observed_s += other.observed_s
        self.wall_s += other.wall_s


def sizes_for(bundle: Bundle, call_s: float, *, cold: bool, near_bytes: int = 0) -> Sizes:
    """How to cut a batch of calls that take about ``call_s`` seconds each.

    Calls under 20 us are read several at a time, so that the clock costs less than a hundredth. Where buffers are
    restored before a call, a window holds each entry once at most, and no more of them than stay in cache from the
    touch to the call; with a cold cache it holds one call.

    Args:
        bundle: whose entries are called.
        call_s: as far as is known.
        cold: whether the cache is flushed before each call.
        near_bytes: of the cache that a core has for itself; 0 where that does not count.
    """
    if cold:
        return Sizes(per_segment=1, segments=1)
    call_s = max(call_s, 1e-9)
    per_segment = 1 if call_s >= _SINGLE_S else min(_MAX_PER_SEGMENT, int(_SEGMENT_S / call_s) + 1)
    # All calls of a window find the candidate's variables in one place.
    entries = 1 if bundle.variables else len(bundle.layout.entries)
    segments = min(_MAX_SEGMENTS, int(_MAX_WINDOW_S / (call_s * per_segment)) + 1)
    if bundle.copies:
        per_segment = min(per_segment, entries)
        segments = min(segments, entries // per_segment)
        if near_bytes:
            # Copies of a set come to many times what fits, and then the first ones are gone before their turn.
            touched = sum(r.buffer.size_bytes for r in bundle.layout.entries[0].regions)
            segments = min(segments, near_bytes // max(1, per_segment * touched))
    return Sizes(per_segment=per_segment, segments=max(1, min(segments, _MAX_CALLS // per_segment)))


def windows_for(
    bundle: Bundle, calls: int, sizes: Sizes, *, rng: np.random.Generator, flush_bytes: int
) -> list[Window]:
    """Windows with ``calls`` readings, or as many as :data:`_MAX_WINDOWS` of them hold.

    Their entries are in random order, none twice before all were once.
    """
    entries, windows = len(bundle.layout.entries), list[Window]()
    left = min(calls, _MAX_WINDOWS * sizes.segments)
    order: list[int] = []
    while left > 0:
        segments = min(sizes.segments, left)
        count = segments * sizes.per_segment
        if bundle.variables:
            order = [int(rng.integers(entries))] * count
        if bundle.copies and count > 1:
            # What one window restores once may be called once.
            order.clear()
        if len(order) < count:
            rounds = -((len(order) - count) // entries)
            order += rng.permuted(np.tile(np.arange(entries), (rounds, 1)), axis=1).ravel().tolist()
        chosen, order = tuple(order[:count]), order[count:]
        windows.append(Window(order=chosen, per_segment=sizes.per_segment, flush_bytes=flush_bytes))
        left -= segments
    return windows


@dataclass(slots=True, kw_only=True)
class Setting:
    """What stays the same over the windows of a batch.

    Attributes:
        runner: the child.
        attached: the bundle; its outputs are poisoned.
        readings: of this child and of the machine.
        clocks: of this child.
        call_s: rough seconds of one call, for the time limit.
        rng: for the places that are poisoned between calls.
        threads: with more than one the wall clock is read.
        team: what OpenMP's threads, asleep between windows and all there at the end of each, may take for that;
            ``None`` where there is no team.
    """

    runner: Runner
    attached: Attached
    readings: Readings
    clocks: Clocks
    call_s: float
    rng: np.random.Generator
    threads: int
    team: Team | None = None

    @property
    def by_wall(self) -> bool:
        """Whether the wall clock decides."""
        return self.threads > 1

    @property
    def meeting_s(self) -> float:
        """What it may take in a window until the whole team has met."""
        return 0.0 if self.team is None else self.team.meeting_s


class Unbelieved(Exception):
    """A try that counts nothing: the child's clock says other than the kernel's, or time passed between calls."""


def run_windows(
    setting: Setting, windows: Sequence[Window], batch: Batch, *, check: Callable[[Window], None]
) -> None:
    """Runs windows and adds what they took; all of them once more where the two clocks are apart.

    A hypervisor that takes the processor while the child is outside its own readings is not there again; hidden work
    is. Of a try in which they are apart nothing counts.

    Args:
        setting: child and bundle.
        windows: what to call.
        batch: is added to.
        check: called with each window while the child stands still after its calls.

    Raises:
        CandidateFailed: the child died, took too long or cannot be believed.
    """
    for _ in range(_TRIES):
        found = Batch()
        try:
            for window in windows:
                _run_window(setting, window, found, check)
        except Unbelieved as apart:
            why = str(apart)
            continue
        batch.add(found)
        return
    setting.runner.close()
    raise CandidateFailed(Status.REFUSED, f"the measurement cannot be believed: {why}")


def run_once(
    setting: Setting, windows: Sequence[Window], batch: Batch, *, check: Callable[[Window], None]
) -> None:
    """Runs windows with no second try, for sets that a candidate may not meet twice; arguments as :func:`run_windows`.

    Raises:
        Unbelieved: the try counts nothing.
        CandidateFailed: the child died or took too long.
    """
    for window in windows:
        why = _try_window(setting, window, batch, check)
        if why:
            raise Unbelieved(why)


def _run_window(setting: Setting, window: Window, batch: Batch, check: Callable[[Window], None]) -> None:
    """One window, and what it took; once more where too much of its time has passed between calls.

    That may be hidden work, which is there again, or what the machine did, which is not: such a window counts nothing.
    """
    for _ in range(_TRIES):
        why = _try_window(setting, window, batch, check)
        if not why:
            return
    setting.runner.close()
    raise CandidateFailed(Status.REFUSED, f"the measurement cannot be believed: {why}")


def _try_window(setting: Setting, window: Window, batch: Batch, check: Callable[[Window], None]) -> str:
    """One try; what is wrong with the time between its calls, in which case nothing was added."""
    runner, attached, readings = setting.runner, setting.attached, setting.readings
    attached.tried += len(window.order)
    message = _request(attached, window, setting.rng, by_wall=setting.by_wall)
    label = attached.bundle.labels[attached.bundle.layout.entries[window.order[0]].inputs]
    runner.send(message, label)
    runner.expect(runner.receive(_PREPARE_S, f"the preparation of {label}"), _READY, 1)
    restored = sum(r.buffer.size_bytes for r in attached.bundle.layout.entries[0].regions if r.golden)
    limit = max(readings.least_limit_s, 20.0 * max(setting.call_s, readings.least_call_s) * len(window.order))
    limit += len(window.order) * restored / FILLED_BYTES_PER_S
    ahead_s = runner.worked_s(readings)
    waited = readings.waited_s(runner.child) if setting.by_wall else 0.0
    cpu, wall = _cpu(setting, label), readings.wall_s(runner.child)
    runner.send(b"\0" * 8, label)
    answer = runner.receive(limit, label)
    wall = readings.wall_s(runner.child) - wall
    claimed, cost, times = _read(runner, answer, window)
    runner.stop(readings)
    # Only now, when outputs cannot change any more: what is computed after the answer counts as well.
    cpu = _cpu(setting, label) - cpu
    if runner.child.unexpected():
        runner.close()
        raise CandidateFailed(Status.REFUSED, "the process sent something that only a tampered one would")
    observed = wall if setting.by_wall else cpu
    # Who is kept from a processor, also this process, is late with its reading: that hides no work.
    late_s = readings.waited_s(runner.child) - waited if setting.by_wall else 0.0
    between = claimed - float(times.sum())
    apart, why = setting.clocks.add(claimed, max(min(observed, claimed), observed - late_s)), ""
    works_ahead = ahead_s > _ASLEEP_S * (setting.threads - 1)
    if works_ahead:
        why = f"threads of its team worked {ahead_s:.6f} s before the clock was started"
    elif not -1e-6 <= between <= TOLERANCE * claimed + _BETWEEN_S * len(times) + setting.meeting_s:
        why = f"its clock says that {between:.6f} s of {claimed:.6f} s passed between calls"
    else:
        batch.times_s += np.maximum((times - cost) / window.per_segment, 1e-10).tolist()
        batch.claimed_s += claimed
        batch.observed_s += observed
        batch.wall_s += wall
    check(window)
    runner.resume()
    runner.send(b"\0" * 8, label)
    if apart and not works_ahead:
        raise Unbelieved(apart)
    return why


def _cpu(setting: Setting, during: str) -> float:
    try:
        return setting.readings.cpu_s(setting.runner.child)
    except Ended:
        raise setting.runner.failure(during) from None


def _read(runner: Runner, answer: bytes, window: Window) -> tuple[float, float, NDArray[np.float64]]:
    words = runner.expect(answer, _DONE, 4 + window.segments)
    times = np.array(words[4:], dtype=np.float64) * 1e-9
    return words[1] * 1e-9, words[2] * 1e-9, times


def _request(attached: Attached, window: Window, rng: np.random.Generator, *, by_wall: bool) -> bytes:
    bundle, base = attached.bundle, attached.base
    used = sorted(set(window.order))
    place = {number: i for i, number in enumerate(used)}
    rows = [word for number in used for word in attached.row(number)]
    spans = _spans(bundle, used, base) if not window.flush_bytes else []
    poison = poison_places(bundle, window, base, rng)
    poisons = len(poison) // (2 * window.segments)
    header = [
        WINDOW,
        len(used),
        bundle.signature.words,
        bundle.copies,
        bundle.variables,
        window.segments,
        window.per_segment,
        _CLOCK_MONOTONIC if by_wall else _CLOCK_THREAD,
        poisons,
        len(spans) // 3,
        window.flush_bytes,
    ]
    message = words_of([*header, *rows, *spans, *(place[n] for n in window.order), *poison])
    if len(message) > MESSAGE_BYTES:
        raise ValueError(f"a window of {len(window.order)} calls is too long to send")
    return message


def _spans(bundle: Bundle, used: list[int], base: int) -> list[int]:
    """What to touch: (address, bytes, whether to write) of each buffer once."""
    found: dict[int, tuple[int, int]] = {}
    for number in used:
        for region in bundle.layout.entries[number].regions:
            found[base + region.at] = (region.buffer.size_bytes, int(region.span.writable))
    return [word for at, (size, writable) in found.items() for word in (at, size, writable)]


def poison_places(bundle: Bundle, window: Window, base: int, rng: np.random.Generator) -> list[int]:
    """(address, bytes) of elements to spoil before each reading, so that a call that does nothing is seen."""
    entries = bundle.layout.entries
    kinds = bundle.outputs[entries[0].inputs]
    names = [r.buffer.name for r in entries[0].regions if r.buffer.role in ("output", "return")]
    outputs = [(name, numbers) for name in names for numbers in numbers_in(name, kinds[name][0])]
    if not outputs:
        return []
    # Thousands of places for a kernel of microseconds: drawn one by one they take longer than its calls.
    count = window.segments * _POISONS
    calls = np.repeat(np.arange(window.segments) * window.per_segment, _POISONS)
    calls += rng.integers(window.per_segment, size=count)
    numbers = np.array(window.order)[calls]
    buffers = rng.integers(len(outputs), size=count)
    words = np.zeros((count, 2), dtype=np.int64)
    for number in np.unique(numbers).tolist():
        entry = entries[number]
        for at, (name, inside) in enumerate(outputs):
            chosen = (numbers == number) & (buffers == at)
            region = entry.region(name)
            elements = _written(
                bundle.expected[entry.inputs][inside.name].untouched,
                region.buffer.size_bytes // inside.element_bytes * inside.count,
                int(chosen.sum()),
                rng,
            )
            words[chosen, 0] = base + region.at + inside.places(elements)
            words[chosen, 1] = np.where(elements >= 0, inside.item_bytes, 0)
    return words.ravel().tolist()


def _written(
    untouched: NDArray[np.bool_] | None, size: int, wanted: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Random elements of ``size`` that the kernel writes; -1 for each that none was found for."""
    found = rng.integers(size, size=wanted)
    if untouched is None:
        return found
    left = untouched.flat[found]
    for _ in range(15):
        if not left.any():
            return found
        found[left] = rng.integers(size, size=int(left.sum()))
        left = untouched.flat[found]
    found[left] = -1
    return found
