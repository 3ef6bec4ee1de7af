"""Names of functions and variables in object code. Standard library only: compile workers import it."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["entry_symbol", "variable_symbol"]

_NAMELESS = "(?:12_GLOBAL__N_1)?"  # a namespace without a name


def entry_symbol(names: Collection[str], entry: str) -> str | None:
    """The symbol of the entry: the name itself, else the one C++ function of that name.

    Mangled by the Itanium ABI: ``_Z`` length name parameters, or ``_ZN`` with the parts of a qualified name; an ``L``
    stands before the name of what other files cannot call. Parts that a compiler cut off (``.cold``) do not count.
    """
    if entry in names:
        return entry
    *outer, own = (f"{len(p)}{p}" for p in entry.split("::"))
    like = re.compile(f"_ZN{''.join(outer)}L?{own}[EI][^.]*" if outer else f"_ZL?{own}[^.]*")
    found = [name for name in names if like.fullmatch(name)]
    return found[0] if len(found) == 1 else None


def variable_symbol(names: Collection[str], variable: str) -> str | None:
    """The symbol of a variable outside of functions: the name itself, else the one C++ variable of that name.

    Args:
        names: of all variables.
        variable: with the namespaces and classes that it is in, but for namespaces without a name.

    >>> variable_symbol(["_ZN2nsL4gridE", "_ZN2ns12_GLOBAL__N_14sizeE", "_ZL4grid"], "ns::grid")
    '_ZN2nsL4gridE'
    >>> variable_symbol(["_ZN2nsL4gridE", "_ZN2ns12_GLOBAL__N_14sizeE", "_ZL4grid"], "ns::size")
    '_ZN2ns12_GLOBAL__N_14sizeE'
    """
    if variable in names:
        return variable
    *outer, own = (f"{len(p)}{p}" for p in variable.split("::"))
    inside = _NAMELESS + "".join(part + _NAMELESS for part in outer)
    like = re.compile(f"_ZN{inside}L?{own}E" if outer else f"_ZL{own}|_ZN{inside}L?{own}E")
    found = [name for name in names if like.fullmatch(name)]
    return found[0] if len(found) == 1 else None
