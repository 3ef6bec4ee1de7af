"""How many new codes are found for each that is timed, where what is built is timed in the cost model's order.

Only what events said: what finding a code and what timing one took in this run, and whether the model's last word on
its own order was that it may be followed. Decides nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MOST_LOOKS", "PAYS", "WORTH", "Order"]

MOST_LOOKS = 4.0
"""Codes found for each that is timed, at most."""

WORTH: tuple[tuple[float, float, float], ...] = (
    (MOST_LOOKS, 0.57, 1.15),
    (3.0, 0.60, 1.05),
)
"""Codes found for each that is timed; evaluations to a good one and codes found by then, over those in plain order.

Means over recorded pools of six kernels of the host (``benchmarks/cost_model.py --parts pools``).
"""

PAYS = 0.8
"""Part of the time in plain order that a good code has to be expected in. Those pools are of codes drawn at random. A
search that moves hears of fewer codes, and of the best alone, and gains less: where by them a tenth or two was to be
saved, whole runs saved nothing."""

MEMORY = 32
"""Codes, and runs, after which what they took counts a third."""


@dataclass(slots=True, kw_only=True)
class Order:
    """What an order of built candidates needs to know of its run.

    Attributes:
        follows: whether the model's order is followed.
        doubt: why it is not; one line.
        spare: codes found beyond those that were due for what was timed since.
        beside: devices that are timed while codes are found; 0 where one waits for the other.
        codes: keys of all code found so far.
        led: trials that were chosen of several, since code is found ahead or while devices are timed.
    """

    follows: bool = False
    doubt: str = ""
    spare: float = 0.0
    beside: int = 0
    codes: set[str] = field(default_factory=set)
    led: int = 0
    _found: float = 0.0
    _find_s: float = 0.0
    _sought_s: float = 0.0
    _ran: float = 0.0
    _run_s: float = 0.0

    @property
    def code_s(self) -> float:
        """What finding a new code took lately, builds to known code included."""
        return (self._find_s + self._sought_s) / self._found if self._found else 0.0

    @property
    def run_s(self) -> float:
        """What a run took lately."""
        return self._run_s / self._ran if self._ran else 0.0

    def sought(self, seconds: float) -> None:
        """Proposing, building or asking the model took so long."""
        self._sought_s += seconds

    def built(self, key: str) -> None:
        """A build has led to this code."""
        if key in self.codes:
            return
        self.codes.add(key)
        self.spare += 1.0
        self._found = self._found * _FADING + 1.0
        self._find_s = self._find_s * _FADING + self._sought_s
        self._sought_s = 0.0

    def ran(self, seconds: float) -> None:
        """A trial ran for so long."""
        self._ran, self._run_s = self._ran * _FADING + 1.0, self._run_s * _FADING + seconds

    def taken(self) -> None:
        """One of those that wait is timed."""
        looks = self.looks
        self.spare = max(0.0, self.spare - looks) if self.follows else 0.0
        self.led += looks > 1.0 or (self.follows and self.beside > 0)

    @property
    def looks(self) -> float:
        """How many new codes to find for each that is timed: the most that are expected to save time."""
        if not self.follows or not self._found or not self._ran:
            return 1.0
        if self.beside:
            # Devices go on while codes are found: as many as are found in that time cost none.
            return min(MOST_LOOKS, max(1.0, self.run_s / self.beside / max(self.code_s, 1e-9)))
        most_s = PAYS * (self.code_s + self.run_s)
        pays = (n for n, runs, codes in WORTH if codes * self.code_s + runs * self.run_s <= most_s)
        return next(pays, 1.0)


_FADING = 1.0 - 1.0 / MEMORY
