"""First values for scalars of which nothing is known. Guesses for a first spec only."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from tuner.core.expressions import parse
from tuner.spec.reading.c_types import CType

__all__ = ["first_value", "floating_scalars", "holds", "settled", "whole_numbers"]

_NAME = re.compile(r"\b[A-Za-z_]\w*")


def first_value(dtype: str, before: int = 0) -> str:
    """A number for a scalar of which nothing is known.

    With a factor of one, or ``1 - x`` of one, wrong code gives right results; with two that are alike, code that
    takes one for the other, or that clamps everything between them.

    Args:
        dtype: its type.
        before: how many floating scalars come before it.
    """
    return str(0.75 + 0.5 * before) if dtype.startswith("float") else "1"


def floating_scalars(parameters: Iterable[tuple[str, CType]]) -> int:
    """How many of some parameters are floating numbers."""
    return sum(not t.pointer and any(d.startswith("float") for d in t.dtypes) for _, t in parameters)


def holds(dtype: str, value: str) -> bool:
    """Whether a number can be of a type; what is no number by itself is not judged.

    >>> holds("int32", "3735928559"), holds("uint32", "3735928559"), holds("int8", "n * n")
    (False, True, True)
    """
    bits = re.fullmatch(r"(u?)int(\d+)", dtype)
    if bits is None or not re.fullmatch(r"-?\d+", value):
        return True
    size = int(bits[2])
    low, high = (0, 1 << size) if bits[1] else (-(1 << (size - 1)), 1 << (size - 1))
    return low <= int(value) < high


def whole_numbers(values: Mapping[str, str]) -> dict[str, int]:
    """Those of some values that are whole numbers."""
    return {name: int(text) for name, text in values.items() if re.fullmatch(r"-?\d+", text)}


def settled(values: Mapping[str, str], sizes: Collection[str], whole: Collection[str]) -> dict[str, str]:
    """First values, those that are expressions in sizes alone; without what has other names.

    Args:
        values: by the names of arguments.
        sizes: names that a spec's expressions may have.
        whole: other arguments that are whole numbers.

    >>> settled({"k": "2 * step + n", "j": "step", "at": "-2.5", "i": "x"}, ["n"], ["step"])
    {'k': '2 * 1 + n', 'j': '1', 'at': '-2.5'}
    """
    known = whole_numbers(values)
    numbers = {name: str(known.get(name, 1)) for name in whole}
    found = {}
    for name, text in values.items():
        names = set(_NAME.findall(text))
        if not names:
            found[name] = text
        elif names <= {*sizes, *numbers}:
            written = _NAME.sub(lambda word: numbers.get(word[0], word[0]), text)
            found[name] = written if names - numbers.keys() else str(parse(written).evaluate({}))
    return found
