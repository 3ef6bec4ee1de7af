"""Pickles values that are sent by the thousand by the places of their fields.

What :mod:`dataclasses` makes for frozen classes with slots looks the fields up by name for each object, in Python and
both ways: that was most of what a message to a device took.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

__all__ = ["by_place"]

_Class = TypeVar("_Class", bound=type)


def by_place(made: _Class) -> _Class:
    """Decorates a dataclass with slots and at least one field, outside of ``@dataclass``.

    Only for what is read by the same version that wrote it: a field more or less is another format.
    """
    names = [field.name for field in fields(made)]
    look = attrgetter(*names)
    # A slot's own setter, since the class's refuses.
    setters = [getattr(made, name).__set__ for name in names]

    def state(self: Any) -> tuple[Any, ...]:
        found = look(self)
        return found if len(names) > 1 else (found,)

    def restore(self: Any, values: tuple[Any, ...]) -> None:
        for put, value in zip(setters, values, strict=True):
            put(self, value)

    for name, method in (("__getstate__", state), ("__setstate__", restore)):
        setattr(made, name, method)
    return made
