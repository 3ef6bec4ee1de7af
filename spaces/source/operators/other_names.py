"""Bounds of loops that have other names: through pointers, as members, by references.

May not reason about dependences.
"""

from __future__ import annotations

import re

from tuner.spaces.source.kinds import Refused, is_floating, is_pure, types_of
from tuner.spaces.source.lexical import words
from tuner.spaces.source.memo import kept_by_identity
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Field,
    For,
    Function,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Unary,
)
from tuner.spaces.source.walks import names_in, root_of, subtrees

__all__ = ["require_steady_bounds"]

_REFERENCE = re.compile(r"&\s*([A-Za-z_]\w*)\s*[={(]")


def require_steady_bounds(function: Function, loop: For) -> None:
    """Refuses a loop that may change, by a call or by another name, what its bounds are made of."""
    bounds = (loop.start, loop.limit)
    pointed, referring = _other_names(function)
    types = types_of(function)
    # What a parameter points to is taken to be its own, unless it is made to point elsewhere.
    given = _given(function)
    followed = {root_of(n) for n in subtrees(bounds) if isinstance(n, Index | Field)}
    elsewhere = any(
        not isinstance(n, Name) or (n.id not in given and "*" in types.get(n.id, "*")) for n in followed
    )
    elsewhere |= not names_in(bounds).isdisjoint(referring)
    if not (
        elsewhere
        or any(isinstance(n, Field) for n in subtrees(bounds))
        or not pointed.isdisjoint(names_in(bounds))
    ):
        return
    if any(isinstance(n, Call) and not is_pure(n) for n in subtrees(loop.body)):
        raise Refused(f"a call in loop {loop.key} may change what a bound is made of")
    for node in subtrees(loop.body):
        if not isinstance(node, Assign):
            continue
        target = root_of(node.target)
        # A name that is not known may be a pointer too, or stand for something else.
        if not isinstance(target, Name) or (target.id not in given and "*" in types.get(target.id, "*")):
            raise Refused(f"a pointer in loop {loop.key} may lead to what a bound is made of")
        kind = node.target.type if isinstance(node.target, Field) else types.get(target.id, "")
        if elsewhere and not is_floating(kind):
            raise Refused(f"loop {loop.key} may change what a bound points or refers to")


@kept_by_identity(1 << 10)
def _given(function: Function) -> set[str]:
    """Parameters that nothing is assigned to."""
    moved = {n.target for n in subtrees(function.body) if isinstance(n, Assign)}
    return {p.name for p in function.params if Name(p.name) not in moved}


@kept_by_identity(1 << 10)
def _other_names(function: Function) -> tuple[set[str], set[str]]:
    """Variables whose address is taken or that are referred to, and local references that are known as text."""
    pointed: set[str] = set()
    referring: set[str] = set()
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&":
            pointed |= names_in(node.operand)
        elif isinstance(node, Opaque | OpaqueStmt) and "&" in node.text:
            pointed |= words(node.text)
            referring |= set(_REFERENCE.findall(node.text))
    return pointed, referring
