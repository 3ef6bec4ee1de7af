"""How far the clocks of a child and of its parent may be apart, and what a team of threads may take beside its calls.

Reads no clock itself.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TOLERANCE", "Clocks", "Team"]

TOLERANCE = 0.03
"""Share of a time by which two accounts of it may differ."""

_SLACK_S = 100e-6
_LEAST_S = 0.02
_WAKING_S, _MEETING_S, _MEMBER_S = 200e-6, 100e-6, 3e-6
"""A thread that sleeps is woken through the kernel, and by a hypervisor where its processor sleeps too. One that is
awake may have to be taken into the team again, where the last region had a smaller one."""


@dataclass(slots=True)
class Clocks:
    """Consecutive windows of one child, summed until there is enough of them to judge its clock by.

    ``slack_s`` is what a window's clocks may be apart in any case.
    """

    windows: int = 0
    claimed_s: float = 0.0
    observed_s: float = 0.0
    slack_s: float = _SLACK_S

    def add(self, claimed_s: float, observed_s: float) -> str:
        """Takes one window.

        Returns:
            What is wrong with the child's clock; empty while nothing is.
        """
        self.windows += 1
        self.claimed_s += claimed_s
        self.observed_s += observed_s
        if max(self.observed_s, self.claimed_s) < _LEAST_S:
            return ""
        apart = abs(self.observed_s - self.claimed_s)
        allowed = TOLERANCE * self.observed_s + self.slack_s * self.windows
        claimed, observed = self.claimed_s, self.observed_s
        self.windows, self.claimed_s, self.observed_s = 0, 0.0, 0.0
        if apart <= allowed:
            return ""
        return f"its clock says {claimed:.6f} s where the kernel's says {observed:.6f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """What the threads of an OpenMP team may take beside the calls of a window, in seconds.

    Attributes:
        waking_s: until all of them are awake.
        meeting_s: until those that are awake have met.
    """

    waking_s: float
    meeting_s: float

    @classmethod
    def of(cls, threads: int, *, spins: bool) -> Team:
        """Of a team whose members look for work, or sleep, between one region and the next."""
        waking_s = _WAKING_S + _MEMBER_S * threads
        return cls(waking_s=waking_s, meeting_s=_MEETING_S + _MEMBER_S * threads if spins else waking_s)
