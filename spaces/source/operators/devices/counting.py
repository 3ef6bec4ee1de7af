"""Whether what a kernel computes may hang on how many items a group has, read without a compiler.

Says so too often rather than too seldom: what numbers items over the whole launch, and how many there are of them, is
all that is known not to. May not change a tree.
"""

from __future__ import annotations

from dataclasses import replace

from tuner.spaces.source.directives import macro_words
from tuner.spaces.source.operators.devices.threads import (
    coordinate,
    is_barrier,
    is_shared,
    over_launch,
    word_of_place,
)
from tuner.spaces.source.operators.naming import behind
from tuner.spaces.source.syntax import Binary, Cast, Decl, Expr, Function, Name, Stmt
from tuner.spaces.source.walks import (
    assigned_names,
    map_expressions,
    names_in,
    opaque_words,
    statements,
    substitute,
    subtrees,
    transform,
)

__all__ = ["counts_on_group"]

_AXES = range(3)
_PARTS = ("group", "item", "items", "groups")
_WHOLE = {"get_global_id", "get_global_size", "get_global_offset", "get_work_dim"}
_PLAIN = Name("plain")
"""Stands for what hangs on no group's size along the axis in question."""


def counts_on_group(function: Function, axis: int) -> str:
    """Why a kernel's results may hang on the items of a group along an axis: one clause; empty where they do not.

    Args:
        function: a whole kernel.
        axis: of the launch.
    """
    shared = [s.name for s in statements(function.body) if isinstance(s, Decl) and is_shared(s.type)]
    shared += [p.name for p in function.params if is_shared(p.base)]
    if shared:
        return f"the items of a group share {shared[0]}"
    if any(is_barrier(node) for node in subtrees(function.body)):
        return "the items of a group wait for one another"
    whole: set[Expr] = set()
    for a in _AXES:
        items, groups = (coordinate(function.language, part, a) for part in ("items", "groups"))
        whole |= over_launch(function.language, a, items)
        whole |= {Binary("*", groups, items), Binary("*", items, groups)}
    aside = {coordinate(function.language, part, a) for part in _PARTS for a in _AXES if a != axis}
    body = map_expressions(_with_places(function), lambda e: _PLAIN if e in whole else e)
    body = map_expressions(body, lambda e: _PLAIN if e in aside else e)
    words = names_in(body) | opaque_words(body) | behind(function, body) | macro_words(function.source)
    word = word_of_place(words - _WHOLE)
    return f"{word} is used for more than the number of an item" if word else ""


def _with_places(function: Function) -> tuple[Stmt, ...]:
    """The body with variables that are nothing but a coordinate written out, and coordinates without casts."""
    places = {coordinate(function.language, part, a) for part in _PARTS for a in _AXES}
    body = map_expressions(
        function.body, lambda e: e.operand if isinstance(e, Cast) and e.operand in places else e
    )
    changed = assigned_names(body)
    holders = [
        s for s in statements(body) if isinstance(s, Decl) and s.init in places and s.name not in changed
    ]
    for holder in holders:
        assert holder.init is not None
        body = substitute(body, holder.name, holder.init)
    held = {s.name for s in holders}
    return transform(body, lambda n: replace(n, init=None) if isinstance(n, Decl) and n.name in held else n)
