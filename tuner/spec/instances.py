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

__all__ = ["HINT", "instance_named", "is_instance"]

HINT = 'write an extern "C" function that calls it, and name that'

_CALLED = """\
namespace tuner_called {
template <class tuner_t, class tuner_u> struct tuner_of {};
template <class tuner_t> struct tuner_of<tuner_t, tuner_t> { typedef tuner_t tuner_is; };
template <class tuner_t> struct tuner_of<tuner_t, const tuner_t> { typedef tuner_t tuner_is; };
template <class tuner_t, class tuner_u, unsigned long tuner_n>
struct tuner_of<tuner_t, tuner_u[tuner_n]> : tuner_of<tuner_t, tuner_u> {};
template <class tuner_t> struct tuner_led {
    tuner_t *tuner_at;
    template <class tuner_u, class = typename tuner_of<tuner_t, tuner_u>::tuner_is>
    operator tuner_u *() const { return (tuner_u *)tuner_at; }
    template <class tuner_u, class = typename tuner_of<tuner_t, tuner_u>::tuner_is>
    operator tuner_u &() const { return *(tuner_u *)tuner_at; }
};
template <class tuner_t> inline tuner_led<tuner_t> tuner_to(tuner_t *tuner_a) { return {tuner_a}; }
template <class tuner_t> inline tuner_t tuner_to(tuner_t tuner_a) { return tuner_a; }
template <class... tuner_t> __attribute__((__always_inline__)) inline auto
NAME(int, tuner_t... tuner_a) -> decltype(INSTANCE(tuner_a...)) { return INSTANCE(tuner_a...); }
template <class... tuner_t> __attribute__((__always_inline__)) inline auto
NAME(long, tuner_t... tuner_a) -> decltype(INSTANCE(tuner_to(tuner_a)...)) { return INSTANCE(tuner_to(tuner_a)...); }
}
"""
"""Passes pointers as they are or, where no instance takes them, as references and pointers to arrays; no macro's names.
"""

_ENTRY = re.compile(r"\s*([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*<([\w\s,:<>*&+\-/%()]*)>\s*")
_PATH: Path = ("kernel", "entry")
_TYPES = {dtype: kind for dtype, kind in C_TYPES.items() if not dtype.startswith("complex")} | {
    "bool": "bool"
}
"""C++ writes complex numbers in several ways."""


def is_instance(entry: str) -> bool:
    """Whether an entry is an instance of a function template, and not a method of one of a class.

    >>> is_instance("ns::axpy<float, A<int>::width>"), is_instance("ns::Stencil<pair<int, 3>>::apply")
    (True, False)
    """
    depth = last = 0
    for at, sign in enumerate(entry):
        depth += (sign == "<") - (sign == ">")
        last = at if depth == 0 and sign == ":" else last
    return "<" in entry[last:]


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
    name, called, before = found[1].rpartition("::")[2], f"{found[1]}<{found[2].strip()}>", ""
    if any(a.shape and not any(extent.names for extent in a.shape) for a in arguments):
        before = _CALLED.replace("NAME", name).replace("INSTANCE", f"::{called}")
        called, given = f"tuner_called::{name}", f"0, {given}"
    call = f"{'' if returns is None else 'return '}{called}({given});"
    text = f'\n{before}extern "C" {result} {symbol}({parameters})\n{{\n    {call}\n}}\n'
    return Wrapper(wrapped=found[1], symbol=symbol, text=text)


def _type(what: str, dtype: str, view: View) -> str:
    if dtype not in _TYPES:
        raise view.error(_PATH, f"{what} is {dtype}, which C++ writes in several ways", HINT)
    return _TYPES[dtype]
