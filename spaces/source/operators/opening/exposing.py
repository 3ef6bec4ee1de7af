"""Structures that a function may write otherwise than by the name of a member: as a whole, or by another pointer.

Knows types, not objects: what is said of one structure holds for all of its type. May not change a tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.structures import Structures
from tuner.spaces.source.syntax import (
    Assign,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Opaque,
    Unary,
)
from tuner.spaces.source.walks import subtrees

__all__ = ["exposed"]

_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\s*(?:->|\.)\s*[A-Za-z_]\w*)+")
_WORD = re.compile(r"[A-Za-z_]\w*")


def exposed(function: Function, types: Structures) -> frozenset[str]:
    """The types of structures of which any member may be written unseen.

    Raises:
        Refused: any structure may be.
    """
    kinds = {param.name: param.base for param in function.params}
    leading = {p.name for p in function.params if p.is_array or "&" in p.text}
    for node in subtrees(function.body):
        if isinstance(node, Decl):
            kinds[node.name] = node.type
            leading |= {node.name} if node.dims or set("*&") & set(node.type) else set()
    _require_known_targets(function, kinds, types)
    safe = {
        id(node.init) for node in subtrees(function.body) if isinstance(node, Decl) and _keeps(node, types)
    }
    found = set[str]()
    for node in subtrees(function.body):
        match node:
            case Name(id=name) if name in leading:
                found.add(kinds[name])
            case Opaque(text=text) if id(node) not in safe:
                words = _WORD.findall(text)
                found |= {
                    kinds[word] for word in words if word in leading and not _CHAIN.fullmatch(text.strip())
                }
                for word in words if text.startswith("{") else words[-1:]:
                    found |= types.held_by(word)
            case Field(name=name) if id(node) not in safe:
                found |= types.held_by(name)
    return frozenset(part for kind in found for part in types.parts(kind))


def _keeps(decl: Decl, types: Structures) -> bool:
    """Whether a local is a copy of a structure, or a pointer that is known to point to one."""
    words = [_WORD.findall(decl.init.text)[-1]] if isinstance(decl.init, Opaque) else []
    words += [decl.init.name] if isinstance(decl.init, Field) else []
    return "&" not in decl.type and any(types.held_by(word) <= {types.held(decl.type)} for word in words)


def _require_known_targets(function: Function, kinds: dict[str, str], types: Structures) -> None:
    """What is written through a pointer is of a type that says what lies there."""
    for target in _targets(function):
        place = target
        while isinstance(place, Index | Unary):
            place = place.base if isinstance(place, Index) else place.operand
        if place is not target and isinstance(place, Name) and not types.meant(kinds.get(place.id, "?")):
            raise Refused(f"what {place.id} points to is not known")


def _targets(function: Function) -> Iterator[Expr]:
    for node in subtrees(function.body):
        if isinstance(node, Assign):
            yield node.target
        elif isinstance(node, Unary) and node.op not in ("-", "+", "!", "~", "*", "&"):
            yield node.operand
