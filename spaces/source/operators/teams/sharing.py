"""Whether threads may share what a loop names: variables that are there once, of types whose operations are plain.

The analysis of dependences tells places in memory apart. It does not see that a name means another variable in each
thread, that a declaration is no new variable, or that ``+=`` is a function. May not look at dependences.

Source: the OpenMP specification 5.2, sections 5.2 (threadprivate) and 5.5.5 (reduction identifiers).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from tuner.spaces.source.directives import plain_text, unread
from tuner.spaces.source.kinds import Refused, all_types_of, is_integer, is_number, plain_type, types_of
from tuner.spaces.source.lexical import words
from tuner.spaces.source.number_types import number_types, without_names
from tuner.spaces.source.syntax import Assign, Cast, Decl, For, Function, Name
from tuner.spaces.source.walks import names_in, statements, subtrees
from tuner.spaces.source.widths import is_whole

__all__ = ["require_plain_sums", "require_same_for_all"]

_THREADS_OWN = frozenset({"_Thread_local", "thread_local", "__thread"})
_UNSTEADY = _THREADS_OWN | {"volatile", "_Atomic", "atomic"}
_THREADPRIVATE = re.compile(r"\bthreadprivate\s*\(([^)]*)\)")
_OF_THE_LIBRARY = frozenset({"errno", "signgam"})
"""Variables of the C library that each thread has its own of, or that functions change unseen."""


def require_same_for_all(function: Function, loop: For) -> None:
    """Refuses a loop that names what each thread has its own of, or whose operations may be functions.

    Raises:
        Refused: with the name.
    """
    hidden = unread(function.source)
    if hidden:
        raise Refused(f"what loop {loop.key} uses is not known behind {hidden}")
    names = names_in(loop)
    own = names & (_unsteady(function.source) | _OF_THE_LIBRARY)
    kinds = all_types_of(function)
    own |= {n for n in names if any(not _UNSTEADY.isdisjoint(words(k)) for k in kinds.get(n, ()))}
    if own:
        raise Refused(
            f"{min(own)} is not one steady variable for all threads that would share loop {loop.key}"
        )
    declared = [s for s in statements(loop.body) if isinstance(s, Decl)]
    # Of values that are plain numbers: all else in the loop is looked at.
    guessed = {s.type for s in declared if plain_type(s.type) == "auto"}
    again = [s.name for s in declared if "extern" in s.type.split()]
    if again:
        raise Refused(f"threads that share loop {loop.key} would all have the one {again[0]}")
    if function.language == "c++":
        used = {p.base for p in function.params if p.name in names}
        used |= {kind for name in names for kind in kinds.get(name, ()) if kind != "*"}
        used |= {s.type for s in declared} | {n.type for n in subtrees(loop.body) if isinstance(n, Cast)}
        used |= _kinds_outside(function.source, frozenset(names - set(kinds)))
        _require_plain(function, loop, sorted(used - guessed))


def require_plain_sums(function: Function, loop: For, sums: Iterable[str]) -> None:
    """Refuses sums that come out otherwise where parts of them are added up.

    A pointer is no sum; a whole number to which fractions are added is cut off at each step, a truth value stays true.
    """
    types = types_of(function)
    for name in sums:
        kind = without_names(types.get(name, ""), number_types(function.source))
        values = [
            n.value
            for n in subtrees(loop.body)
            if isinstance(n, Assign) and isinstance(n.target, Name) and n.target.id == name
        ]
        cut = is_integer(kind) and not all(is_whole(value, types) for value in values)
        if "*" in types.get(name, "") or cut or not is_number(kind) or "ool" in kind:
            raise Refused(
                f"parts of {name}, that threads which share loop {loop.key} would have, do not add up to it"
            )


def _require_plain(function: Function, loop: For, used: Iterable[str]) -> None:
    """In C++ an operator, a declaration and a conversion of a class may do anything."""
    given = set(re.findall(r"\b(?:typename|class)\s+(\w+)\s*[,>=]", function.source))
    for kind in used:
        meant = plain_type(without_names(kind, number_types(function.source)).replace("&", " "))
        if meant not in given and not is_number(meant) and not meant.startswith("std::complex<"):
            raise Refused(f"loop {loop.key} has values of {meant}, whose operations may be functions")


@lru_cache(maxsize=64)
def _kinds_outside(source: str, names: frozenset[str]) -> frozenset[str]:
    """Those classes of the source of which a variable of the file may be that has one of these names."""
    plain = plain_text(source)
    classes = re.findall(r"\b(?:struct|class|union)\s+(\w+)", plain)
    return frozenset(
        kind
        for kind in classes
        if any(re.search(rf"\b{kind}\b[\s*&]+(?:\w+\s*,\s*)*{name}\b", plain) for name in names)
    )


@lru_cache(maxsize=64)
def _unsteady(source: str) -> frozenset[str]:
    """Words of declarations of which each thread has its own, or that change by themselves; and some more words."""
    plain = plain_text(source)
    lists = _THREADPRIVATE.findall(plain)
    lists += re.findall(rf"\b(?:{'|'.join(sorted(_UNSTEADY))})\b([^;]*)", plain)
    return frozenset().union(*map(words, lists))
