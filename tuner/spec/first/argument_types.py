"""The types of a kernel's arguments as a spec can have them, for first specs."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.errors import UsageError
from tuner.spec.reading.c_types import ROWS
from tuner.spec.reading.flattening import Flat
from tuner.spec.reading.record_layouts import element_type, record_layout
from tuner.spec.reading.signature import Function, SourceReader

__all__ = ["described"]


def described(function: Function, reader: SourceReader, flat: Flat | None = None) -> Function:
    """The function with arrays of structures as arrays of numbers or dtypes, and rows as what they are rows of.

    Args:
        function: the kernel.
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
        if flat is not None and kind.odd == ROWS and kind.depth == 2 and kind.dtypes:
            parameters.append((name, replace(kind, odd="", rows=True)))
            continue
        shown = f"argument {name}" if member is None else f"member {'.'.join(member.trail)}"
        plain = not (kind.odd or kind.dtypes or kind.base in ("void", ""))
        layout = record_layout(reader, element_type(kind)) if plain else None
        numbers = None if layout is None else layout.uniform()
        unused = flat is not None and (name,) in flat.structures
        if unused and layout is not None and not (numbers and kind.pointer):
            raise UsageError(
                f"argument {name} of {function.name} is a structure of which no member is used here: `{kind.text}`",
                "write a spec with `struct` and the `members` that other files use",
            )
        if kind.odd or not (kind.dtypes or kind.pointer):
            what = kind.odd or "a type that no spec can describe"
            raise UsageError(f"{shown} of {function.name} is {what}: `{kind.text}`", hint)
        if numbers is not None:
            base, count = numbers
            kind = replace(kind, base=base, members=count)
        elif plain:
            dtype = None if layout is None else layout.dtype()
            if dtype is None:
                types = () if layout is None else dict.fromkeys(member.type for member in layout.members)
                members = f" ({', '.join(types)})" if types else ""
                raise UsageError(
                    f"{shown} of {function.name} points to structures{members}, "
                    f"and a spec has arrays of numbers, or of structures of numbers: `{kind.text}`",
                    "write a function that takes an array for each member and calls it",
                )
            kind = replace(kind, structure=dtype)
        parameters.append((name, kind))
    return replace(function, parameters=tuple(parameters))
