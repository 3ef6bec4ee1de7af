"""Which of the trials that have not ended a decision may be about.

A decision is looked for after every event, with hundreds of trials in the queue of a run over many devices, and each
event changes one of them. So what changes is noted as it changes, and nothing has to be looked through. All of it
follows from the trials and the queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

__all__ = ["Turns"]


@dataclass(slots=True)
class Turns:
    """Trials of the queue by what may come next for them.

    Attributes:
        unbuilt: not built; nothing but the budget or the cost model can end one, and who was judged is also in `open`.
        waiting: built and on no device, with the key of their code.
        away: on a device that has not said anything of them yet; of no concern until it has.
        open: those that a decision may end: whoever else is in the queue has nothing but its turn before it.
        seated: how many are on a device.
    """

    unbuilt: set[int] = field(default_factory=set)
    waiting: dict[int, str] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    seated: int = 0

    def begin(self, numbers: Iterable[int]) -> None:
        """Trials are proposed, or start over."""
        for number in numbers:
            self.unbuilt.add(number)
            self.waiting.pop(number, None)
            self.open.discard(number)

    def built(self, number: int, key: str, *, plain: bool) -> None:
        """A trial is built, or set back to where it is; ``plain``: nothing is before it but its turn on a device."""
        self.unbuilt.discard(number)
        self.waiting[number] = key
        if not plain:
            self.open.add(number)

    def judged(self, numbers: Iterable[int]) -> None:
        """The cost model has said something of them."""
        self.open.update(numbers)

    def known(self, key: str) -> None:
        """A trial of such code has ended: another of the same has nothing to do any more."""
        self.open.update([number for number, own in self.waiting.items() if own == key])

    def placed(self, number: int, *, heard: bool) -> None:
        """A trial is on a device from now on; ``heard``: all the same something may be decided of it before it ran."""
        self.waiting.pop(number, None)
        self.seated += 1
        if not heard:
            self.away.add(number)
            self.open.discard(number)

    def answered(self, number: int) -> None:
        """Its device has said something."""
        self.away.discard(number)
        self.open.add(number)

    def back(self, number: int) -> None:
        """A trial is on its device no longer."""
        self.away.discard(number)
        self.seated -= 1

    def ended(self, number: int) -> None:
        """A trial has ended."""
        self.unbuilt.discard(number)
        self.waiting.pop(number, None)
        self.open.discard(number)
