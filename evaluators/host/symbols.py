"""Names of functions in object code. Standard library only: compile workers import it."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["entry_symbol"]


def entry_symbol(names: Collection[str], entry: str) -> str | None:
    """The symbol of the entry: the name itself, else the one C++ function of that name.

    Mangled by the Itanium ABI: ``_Z`` length name parameters, or ``_ZN`` with the parts of a qualified name.
    """
    if entry in names:
        return entry
    parts = "".join(f"{len(p)}{p}" for p in entry.split("::"))
    starts = (f"_ZN{parts}E", f"_ZN{parts}I") if "::" in entry else (f"_Z{parts}", f"_ZL{parts}")
    found = [n for n in names if n.startswith(starts)]
    return found[0] if len(found) == 1 else None
