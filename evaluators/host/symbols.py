"""Names of functions in object code. Standard library only: compile workers import it."""

from __future__ import annotations

import re
from collections.abc import Collection

__all__ = ["entry_symbol"]


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
