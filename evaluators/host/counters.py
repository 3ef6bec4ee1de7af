"""Hardware counters of another process, through Linux's ``perf_event_open``.

Counts user-space events of one process only, so that ``perf_event_paranoid`` up to 2 allows it. Many virtual machines
have no such counters, and containers may forbid the call: then there are none, and nothing else changes. Decides
nothing.

Source: ``perf_event_open(2)``.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["HARDWARE", "Event", "counted", "missing", "ratios"]

_SYSCALLS = {"x86_64": 298, "aarch64": 241}
_ATTR_BYTES = 128
# Bits of the flags word: what the kernel and a hypervisor do is not the candidate's.
_EXCLUDE = (1 << 5) | (1 << 6)
_INHERIT = 1 << 1
_CLOSE_ON_EXEC = 8
_TIMES = 3
"""``read_format``: the time that the event was wanted and the time that it was counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event by its numbers in ``linux/perf_event.h``."""

    name: str
    type: int
    config: int


HARDWARE: Sequence[Event] = (
    Event(name="cycles", type=0, config=0),
    Event(name="instructions", type=0, config=1),
    Event(name="cache_misses", type=0, config=3),
    Event(name="branch_misses", type=0, config=5),
    Event(name="l1d_misses", type=3, config=0x10000),
)
"""Cycles, instructions, misses of the last cache, branches mispredicted, loads that miss the first cache."""


_WHY = {
    errno.ENOENT: "the processor shows none, as in many virtual machines",
    errno.EOPNOTSUPP: "the processor shows none, as in many virtual machines",
    errno.EACCES: "they are forbidden here",
    errno.EPERM: "they are forbidden here",
    errno.ENOSYS: "the kernel has no perf events",
}


class _Counter:
    def __init__(self, event: Event, pid: int) -> None:
        number = _SYSCALLS.get(platform.machine())
        if number is None:
            raise OSError(f"perf_event_open has no known number on {platform.machine()}")
        attributes = ctypes.create_string_buffer(_ATTR_BYTES)
        flags = _EXCLUDE | _INHERIT
        struct.pack_into(
            "=IIQQQQQ", attributes, 0, event.type, _ATTR_BYTES, event.config, 0, 0, _TIMES, flags
        )
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.syscall(number, attributes, pid, -1, -1, _CLOSE_ON_EXEC)
        if self.fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def value(self) -> float | None:
        """Its count, scaled where the processor had to share its registers; ``None`` where it never counted."""
        count, wanted, counted_ns = struct.unpack("=QQQ", os.read(self.fd, 24))
        return None if not counted_ns else count * wanted / counted_ns


@contextlib.contextmanager
def counted(pid: int, events: Sequence[Event] = HARDWARE) -> Iterator[dict[str, float]]:
    """Counts what a process does inside the block; the result is filled in when it is left.

    Args:
        pid: of a process of this user.
        events: to count; those that there are not are left out.
    """
    open_: dict[str, _Counter] = {}
    found: dict[str, float] = {}
    wanted = events if events is not HARDWARE or not missing() else ()
    try:
        for event in wanted:
            # One event less, or a process that has just ended, is no reason to stop timing.
            with contextlib.suppress(OSError):
                open_[event.name] = _Counter(event, pid)
        yield found
        values = {name: counter.value() for name, counter in open_.items()}
        found.update({name: value for name, value in values.items() if value is not None})
    finally:
        for counter in open_.values():
            os.close(counter.fd)


@lru_cache(maxsize=1)
def missing() -> str:
    """Why there are no hardware counters here; empty where there are."""
    try:
        counter = _Counter(HARDWARE[1], 0)
    except OSError as error:
        return _WHY.get(error.errno or 0) or error.strerror or str(error)
    os.close(counter.fd)
    return ""


def ratios(counts: Mapping[str, float]) -> dict[str, float]:
    """Counts as numbers that do not depend on how long was counted.

    Returns:
        ``instructions_per_cycle``, and misses for each thousand instructions by the event's name; only those that
        follow from what was counted.
    """
    instructions, cycles = counts.get("instructions", 0.0), counts.get("cycles", 0.0)
    found = {}
    if instructions and cycles:
        found["instructions_per_cycle"] = round(instructions / cycles, 3)
    for name, count in counts.items():
        if instructions and name.endswith("_misses"):
            found[f"{name}_per_1000_instructions"] = round(1000 * count / instructions, 3)
    return found
