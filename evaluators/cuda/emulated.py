"""Verification with no device in reach: candidates run on the host under emulation, and nothing is timed.

Emulated time is no time of a GPU, so every request for one is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.core.errors import MachineError, UsageError
from tuner.core.protocols import BaselineReport
from tuner.core.types import Build, Measurement, Resolved, Status, Task, Variant, Verdict

if TYPE_CHECKING:
    from tuner.evaluators.emulation import Emulator

__all__ = ["EmulatedRuns"]

_KNOWN = 4096


class EmulatedRuns:
    """What an evaluation does without a device.

    Args:
        task: what is tuned.
    """

    def __init__(self, task: Task) -> None:
        # Needs a host compiler, which a machine with a device may do without.
        from tuner.evaluators.emulation import Emulator

        self._emulator = Emulator(task)
        self._task = task
        self._variants: OrderedDict[str, Variant] = OrderedDict()
        self._ready = False

    def know(self, build: Build, variant: Variant) -> None:
        """Emulation starts from the source, which a build does not hold."""
        self._variants[build.digest] = variant
        while len(self._variants) > _KNOWN:
            self._variants.popitem(last=False)

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference under emulation."""
        report = self._emulator.set_baseline(resolved, self._variant(build))
        self._ready = report.status is Status.OK
        status, message = _own_lack(report.status, report.message)
        return replace(report, status=status, message=message)

    def open(
        self, build: Build, resolved: Resolved, *, purpose: str, number: int, rng: np.random.Generator
    ) -> EmulatedSession:
        """A session that can be verified; raises ``UsageError`` where there is no baseline yet."""
        if not self._ready:
            raise UsageError("there is no baseline to compare with", "call set_baseline() first")
        return EmulatedSession(
            emulator=self._emulator,
            variant=self._variant(build),
            resolved=resolved,
            purpose=purpose,
            number=number,
        )

    def close(self) -> None:
        """Ends what the emulator has started; safe to call twice."""
        self._emulator.close()

    def _variant(self, build: Build) -> Variant:
        return self._variants.get(build.digest, self._task.kernel.variant)


@dataclass(slots=True, kw_only=True)
class EmulatedSession:
    """A :class:`tuner.core.protocols.Session` that verifies and cannot be timed."""

    emulator: Emulator
    variant: Variant
    resolved: Resolved
    purpose: str
    number: int

    def verify(self) -> Verdict:
        """Runs every workload under emulation and compares."""
        verdict = self.emulator.verify(self.resolved, self.variant, purpose=self.purpose, number=self.number)
        status, message = _own_lack(verdict.status, verdict.message)
        return replace(verdict, status=status, message=message)

    def measure(self, *, problem: int, calls: int) -> Measurement:
        """Raises ``MachineError``: there is nothing to time on."""
        raise MachineError("there is no GPU to time on", "tuner check verifies; tune where there is one")

    def close(self) -> None:
        """Nothing is held."""


def _own_lack(status: Status, message: str) -> tuple[Status, str]:
    """What NVRTC has compiled and emulation cannot is no fault of the kernel."""
    if status is not Status.BUILD_ERROR:
        return status, message
    return Status.REFUSED, f"emulation lacks something that NVRTC compiles: {message}"
