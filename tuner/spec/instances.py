"""``entry: "axpy<float, TILE>"`` of C++: one instance of a template, as a function that calls it.

A template has no symbol of its own. What is compiled is the source as given, followed by an ``extern "C"`` function
with the spec's arguments; parameters of the space are macros in it as anywhere. May not read files or compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.core.dtypes import C_TYPES
from tuner.core.source_text import free_name
from tuner.core.types import Argument, Source
from tuner.spec.wrapping import Wrapper
from tuner.spec.yaml_places import Path, View

__all__ = ["HINT", "instance_named"]

HINT = 'write an extern "C" function that calls it, and name that'

_ENTRY = re.compile(r"\s*([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*<([\w\s,:<>*&+\-/%()]*)>\s*")
_PATH: Path = ("kernel", "entry")
_TYPES = {dtype: kind for dtype, kind in C_TYPES.items() if not dtype.startswith("complex")} | {
    "bool": "bool"
}
"""C++ writes complex numbers in several ways."""


def instance_named(
    entry: str, arguments: Sequence[Argument], returns: str | None, files: Sequence[Source], view: View
) -> Wrapper:
    """The instance that an entry names.

    Args:
        entry: ``name<arguments>``.
        arguments: of the spec, in call order.
        returns: dtype of what it returns.
        files: the sources, for a name that is free.

    Raises:
        SpecError: it is none, or has an argument of a type that is written in several ways in C++.
    """
    found = _ENTRY.fullmatch(entry)
    if (
        found is None
        or found[2].count("<") != found[2].count(">")
        or found[2].count("(") != found[2].count(")")
    ):
        hint = 'a name with its template arguments, for example "axpy<float, TILE>"'
        raise view.error(_PATH, f"{entry!r} is no instance of a template", hint)
    if any(a.passing != "argument" for a in arguments):
        raise view.error(_PATH, f"{entry!r} is a template, and is given what was recorded", HINT)
    types = [_type(argument.name, argument.dtype, view) for argument in arguments]
    result = "void" if returns is None else _type("what it returns", returns, view)
    symbol = free_name(f"{found[1].rpartition('::')[2]}_instance", [f.text for f in files])
    parameters = ", ".join(
        f"{kind} {'*' if a.is_array else ''}a{i}"
        for i, (a, kind) in enumerate(zip(arguments, types, strict=True))
    )
    given = ", ".join(f"a{i}" for i in range(len(arguments)))
    call = f"{found[1]}<{found[2].strip()}>({given})"
    text = f'\nextern "C" {result} {symbol}({parameters})\n{{\n    {"" if returns is None else "return "}{call};\n}}\n'
    return Wrapper(wrapped=found[1], symbol=symbol, text=text)


def _type(what: str, dtype: str, view: View) -> str:
    if dtype not in _TYPES:
        raise view.error(_PATH, f"{what} is {dtype}, which C++ writes in several ways", HINT)
    return _TYPES[dtype]
