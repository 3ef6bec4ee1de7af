"""One tunable: its name, its values and the one that the baseline has. May not know of other tunables."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from tuner.core.errors import SpecError
from tuner.core.expressions import RESERVED
from tuner.core.types import Value

__all__ = ["Kind", "Parameter"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Kind(StrEnum):
    """How a parameter's values hang together."""

    INTEGER = "integer"
    LOG_INTEGER = "log_integer"
    CATEGORICAL = "categorical"
    BOOLEAN = "boolean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A tunable parameter; made by :meth:`integer`, :meth:`log_integer` or :meth:`choice`.

    Attributes:
        name: also the macro's name and a name in expressions.
        kind: see :class:`Kind`.
        values: all values, ascending when they are ordered, else as given. A ``range`` for integers, so that
            a wide one costs nothing.
        default: the baseline's value.
        macro: whether it is ``-DNAME=value`` at the build; else a run-time scalar.
    """

    name: str
    kind: Kind
    values: Sequence[Value]
    default: Value
    macro: bool = True
    _positions: Mapping[Value, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        table = {} if isinstance(self.values, range) else {v: i for i, v in enumerate(self.values)}
        object.__setattr__(self, "_positions", table)

    @classmethod
    def integer(
        cls,
        name: str,
        *,
        low: int,
        high: int,
        step: int = 1,
        default: Value | None = None,
        macro: bool = True,
    ) -> Parameter:
        """Whole numbers ``low``, ``low + step``, … up to ``high`` (included).

        Raises:
            SpecError: an empty range, a step below 1, a default that is not among the values.
        """
        _check_bounds(name, low, high)
        if _not_whole(step) or step < 1:
            raise SpecError(f"parameter {name!r}: step is {step!r}", "a whole number from 1")
        return _make(name, Kind.INTEGER, range(low, high + 1, step), default, macro)

    @classmethod
    def log_integer(
        cls, name: str, *, low: int, high: int, default: Value | None = None, macro: bool = True
    ) -> Parameter:
        """The powers of two from ``low`` to ``high`` (both included).

        Raises:
            SpecError: ``low`` below 1, no power of two in between, a default that is not among the values.
        """
        _check_bounds(name, low, high)
        if low < 1:
            raise SpecError(f"parameter {name!r}: low is {low} with log: true", "a whole number from 1")
        values = tuple(1 << e for e in range((low - 1).bit_length(), high.bit_length()))
        if not values:
            raise SpecError(
                f"parameter {name!r}: no power of two lies between {low} and {high}", "widen the range"
            )
        return _make(name, Kind.LOG_INTEGER, values, default, macro)

    @classmethod
    def choice(
        cls, name: str, values: Sequence[Value], *, default: Value | None = None, macro: bool = True
    ) -> Parameter:
        """A list of values: boolean when all are true or false, ordered when all are numbers.

        The default is the first of the list.

        Raises:
            SpecError: an empty list, values that repeat or are no plain values, an unknown default.
        """
        if not values:
            raise SpecError(f"parameter {name!r} has no values", "list at least one")
        for value in values:
            if not isinstance(value, int | float | str):
                raise SpecError(
                    f"parameter {name!r}: {value!r} is no value", "numbers, text, true and false are"
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise SpecError(f"parameter {name!r}: {value!r} is no value", "finite numbers are")
        if len(set(values)) != len(values):
            repeated = next(v for i, v in enumerate(values) if v in values[:i])
            raise SpecError(f"parameter {name!r}: {repeated!r} is listed twice", "values must differ")
        if default is None:
            default = values[0]
        if all(isinstance(v, bool) for v in values):
            return _make(name, Kind.BOOLEAN, tuple(values), default, macro)
        if _all_numbers(values):
            values = sorted(cast("Sequence[float]", values))
        return _make(name, Kind.CATEGORICAL, tuple(values), default, macro)

    @property
    def ordered(self) -> bool:
        """Whether neighbouring values are alike: all values are numbers."""
        return self.kind in (Kind.INTEGER, Kind.LOG_INTEGER) or (
            self.kind is Kind.CATEGORICAL and _all_numbers(self.values)
        )

    def find(self, value: object) -> int | None:
        """The position of a value in :attr:`values`, or ``None``; true and 1 are different values."""
        if isinstance(self.values, range):
            if type(value) is int:
                return self.values.index(value) if value in self.values else None
            if isinstance(value, bool):
                return None
            if isinstance(value, float) and value.is_integer():
                value = int(value)
            if not isinstance(value, numbers.Integral):
                return None
            whole = int(value)
            return self.values.index(whole) if whole in self.values else None
        try:
            position = self._positions.get(value)  # type: ignore[call-overload]
        except TypeError:
            return None
        if position is None:
            return None
        # A search asks this a million times, nearly always with one of the values themselves.
        found = self.values[position]
        if type(found) is not type(value) and isinstance(found, bool) != _is_bool(value):
            return None
        return position  # type: ignore[no-any-return]

    def position(self, value: object) -> int:
        """The position of a value in :attr:`values`.

        Raises:
            SpecError: it is none of the values.
        """
        position = self.find(value)
        if position is None:
            raise SpecError(f"{self.name} = {value!r} is out of range", f"allowed: {self.describe()}")
        return position

    def describe(self) -> str:
        """The values in one short line."""
        if isinstance(self.values, range):
            step = f" in steps of {self.values.step}" if self.values.step != 1 else ""
            return f"{self.values[0]} to {self.values[-1]}{step}"
        shown = ", ".join(repr(v) for v in self.values[:12])
        return shown if len(self.values) <= 12 else f"{shown}, … ({len(self.values)} values)"


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ == "bool"


def _not_whole(value: object) -> bool:
    return isinstance(value, bool) or not isinstance(value, int)


def _all_numbers(values: Sequence[Value]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _check_bounds(name: str, low: int, high: int) -> None:
    for word, value in (("low", low), ("high", high)):
        if _not_whole(value):
            raise SpecError(f"parameter {name!r}: {word} is {value!r}", "a whole number, or list the values")
        if abs(value) >= 1 << 62:
            raise SpecError(f"parameter {name!r}: {word} is {value}", "at most 62 bits are allowed")
    if low > high:
        raise SpecError(f"parameter {name!r}: low {low} is above high {high}", "swap them")


def _make(name: str, kind: Kind, values: Sequence[Value], default: Value | None, macro: bool) -> Parameter:
    if not _NAME.fullmatch(name):
        raise SpecError(f"{name!r} cannot name a parameter", "letters, digits and _, no digit first")
    if name in RESERVED:
        raise SpecError(f"{name!r} cannot name a parameter", "it is a word of the expression language")
    made = Parameter(name=name, kind=kind, values=values, default=values[0], macro=macro)
    if default is None:
        return made
    position = made.find(default)
    if position is None:
        raise SpecError(
            f"parameter {name!r}: default {default!r} is out of range", f"allowed: {made.describe()}"
        )
    return Parameter(name=name, kind=kind, values=values, default=values[position], macro=macro)
