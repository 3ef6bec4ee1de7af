"""Arguments of a first spec of which nothing is said but their addresses: what they lead to is recorded as it is.

For functions that take what no spec can describe: structures that lead to one another, pointers to pointers, objects of
classes. May not compile; clang is asked for types.
"""

from __future__ import annotations

from tuner.core.errors import UsageError
from tuner.spec.first.global_variables import used_variables
from tuner.spec.first.members import Line, quoted
from tuner.spec.first.uses import Lookup
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.written_types import written_dtype

__all__ = ["address_lines"]

_HINT = "write a function that takes its address"


def address_lines(function: Function, lookup: Lookup, reader: SourceReader) -> list[Line]:
    """A line for each parameter, and for each global variable that the function, or what it calls, uses.

    Args:
        function: with a name for every parameter.
        lookup: gives other functions by name.
        reader: of the sources, for types.

    Raises:
        UsageError: a structure that is a global variable, or the address of a function.
    """
    dtype = written_dtype(function, lookup)
    says = f", dtype: {dtype}" if dtype else ""
    lines = [_parameter(name, kind, function.name, says) for name, kind in function.parameters]
    for short, variable in used_variables(function, lookup, reader).items():
        if variable is None:
            raise UsageError(f"{short} is a variable that the end of the file cannot name", _HINT)
        kind, itself = variable.kind, variable.itself
        name = quoted(variable.name)
        if itself.is_address and not kind.inner:
            lines.append(Line(f"  - {{name: {name}, global: pointer, by: address}}"))
        elif kind.odd or not kind.dtypes:
            what = kind.text.replace(" (*)", "").removesuffix("*").strip()
            raise UsageError(f"{name} is a global variable of the type `{what}`", _HINT)
        elif not kind.constant:
            extents = ", ".join(map(str, kind.inner))
            # A spec needs first values of whole numbers, though the recording has them all.
            first = "" if kind.usual.startswith("float") else ", init: {constant: 0}"
            size = f"shape: [{extents}]{first}" if extents else "value: 0"
            parts = f"name: {name}, global: true, dtype: {kind.usual}, {size}, role: inout"
            lines.append(Line(f"  - {{{parts}}}"))
    return lines


def _parameter(name: str, kind: CType, function: str, says: str) -> Line:
    if kind.is_address:
        return Line(f"  - {{name: {name}, by: address{says}}}")
    if kind.odd:
        raise UsageError(f"argument {name} of {function} is {kind.odd}: `{kind.text}`", _HINT)
    if not kind.dtypes:
        return Line(f"  - {{name: {name}, struct: {quoted(kind.text)}, by: address{says}}}")
    return Line(f"  - {{name: {name}, dtype: {kind.usual}, value: 0}}")
