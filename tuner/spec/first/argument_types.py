"""The types of a kernel's arguments as a spec can have them, for first specs."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.errors import UsageError
from tuner.spec.reading.c_types import ROWS
from tuner.spec.reading.element_members import element_type, structured_type
from tuner.spec.reading.flattening import Flat
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.structures import structure

__all__ = ["described"]


def described(function: Function, text: str, reader: SourceReader, flat: Flat | None = None) -> Function:
    """The function with arrays of structures as arrays of numbers or dtypes, and rows as what they are rows of.

    Args:
        function: the kernel.
        text: of its sources and what they include.
        reader: of them.
        flat: the kernel with members in the place of structures, where it is one of a processor.

    Raises:
        UsageError: an argument is of a type that no spec can describe.
    """
    hint = "write a function that takes numbers and pointers to numbers and calls it"
    made = function.returns
    if flat is not None and made is not None and not (made.dtypes or made.pointer or made.odd):
        raise UsageError(
            f"{function.name} returns `{made.text}`, and a spec has numbers", hint + ", and stores that"
        )
    parameters = []
    for name, kind in function.parameters:
        member = None if flat is None else flat.members.get(name)
        if flat is not None and kind.odd == ROWS and kind.text.count("*") == 2 and kind.dtypes:
            parameters.append((name, replace(kind, odd="", rows=True)))
            continue
        shown = f"argument {name}" if member is None else f"member {'.'.join(member.trail)}"
        found = None if kind.odd or kind.dtypes else structure(kind.base, text, reader.language)
        unused = flat is not None and (name,) in flat.structures
        if unused and found is not None and not (found.element and kind.pointer):
            raise UsageError(
                f"argument {name} of {function.name} is a structure of which no member is used here: `{kind.text}`",
                "write a spec with `struct` and the `members` that other files use",
            )
        if kind.odd or not (kind.dtypes or kind.pointer):
            what = kind.odd or "a type that no spec can describe"
            raise UsageError(f"{shown} of {function.name} is {what}: `{kind.text}`", hint)
        if not kind.dtypes and kind.base not in ("void", ""):
            plain = found is not None and found.element
            dtype = None if plain else structured_type(reader, element_type(kind))
            if dtype is not None:
                parameters.append((name, replace(kind, structure=dtype)))
                continue
            if not plain:
                members = "" if found is None or not found.types else f" ({', '.join(found.types)})"
                raise UsageError(
                    f"{shown} of {function.name} points to structures{members}, and a spec has arrays of "
                    f"numbers, or of structures of numbers: `{kind.text}`",
                    "write a function that takes an array for each member and calls it",
                )
            assert found is not None
            kind = replace(kind, base=found.element, members=found.count)
        parameters.append((name, kind))
    return replace(function, parameters=tuple(parameters))
