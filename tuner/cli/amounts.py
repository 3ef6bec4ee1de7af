"""Budgets as the command line has them: ``5``, or ``+5`` for so much more than a run has taken."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from tuner.core.errors import UsageError
from tuner.driver.options import Further

__all__ = ["Amount", "amount", "further_of", "whole_amount"]


@dataclass(frozen=True, slots=True)
class Amount:
    """A number, and whether it is one more than there was."""

    value: float
    more: bool

    @property
    def whole(self) -> int:
        """As a count."""
        return int(self.value)


def amount(text: str) -> Amount:
    """One as it is written; whether there can be such a budget is looked at with the run's others.

    Raises:
        BadParameter: it is no number.
    """
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no number") from None
    return Amount(value, text.strip().startswith("+"))


def whole_amount(text: str) -> Amount:
    """As :func:`amount`, of what is counted.

    Raises:
        BadParameter: it is no whole number.
    """
    found = amount(text)
    if not found.value.is_integer():
        raise typer.BadParameter(f"{text!r} is no whole number")
    return found


def further_of(evaluations: Amount | None, minutes: Amount | None, *, go_on: bool) -> Further | None:
    """How much further a run is to go; ``None`` where nobody said.

    Raises:
        UsageError: more is asked for than a run of before had, and none is gone on with.
    """
    more = [one for one in (evaluations, minutes) if one is not None and one.more]
    if not more:
        return None
    if not go_on:
        raise UsageError("a budget with + is more for a run that there is", "add --resume, or leave + out")
    if any(one is not None and not one.more for one in (evaluations, minutes)):
        raise UsageError("one budget has a + and the other none", "give both with +, or the one that has it")
    return Further(
        evaluations=None if evaluations is None else evaluations.whole,
        minutes=None if minutes is None else minutes.value,
    )
