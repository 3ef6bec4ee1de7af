"""Structures of a host function as a first spec can write them: no members that none fills, names known outside.

Asks the compiler whether names are types. May not run anything.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tuner.core.errors import BaselineError
from tuner.spec.reading.c_types import POINTERS_INSIDE
from tuner.spec.reading.flattening import Flat, Member, Structure
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.trees import inner_nodes

__all__ = ["named_from_outside", "without_what_none_fills"]

_WHOLE = r"(?:unsigned|signed|int|char|short|long|bool|_Bool|u?int\w*_t|:\s*\w+\s*,)"


def without_what_none_fills(flat: Flat, text: str) -> tuple[Flat, tuple[str, ...]]:
    """The function without members that no wrapper fills, bit-fields and arrays of pointers, and a remark on each.

    Args:
        flat: the function with members in the place of structures.
        text: the source with what it includes.
    """
    kinds = {name: _unfilled(member, text) for name, member in flat.members.items()}
    names = {name for name, kind in kinds.items() if kind}
    if not names:
        return flat, ()
    function = flat.function
    parameters = tuple((name, kind) for name, kind in function.parameters if name not in names)
    nodes = [
        node
        for node in inner_nodes(function.tree)
        if node.get("kind") != "ParmVarDecl" or node.get("name") not in names
    ]
    members = {name: member for name, member in flat.members.items() if name not in names}
    remarks = sorted(f"{'.'.join(flat.members[name].trail)} is {kinds[name]}" for name in names)
    function = replace(function, parameters=parameters, tree={**function.tree, "inner": nodes})
    return replace(flat, function=function, members=members), tuple(remarks)


def _unfilled(member: Member, text: str) -> str:
    """What a member is that no spec fills; empty for what one does."""
    if re.search(rf"{_WHOLE}\s*\b{re.escape(member.trail[-1])}\s*:\s*\w+\s*[,;]", text):
        return "a bit-field, which no spec fills: it is zero"
    if POINTERS_INSIDE.search(member.kind.text):
        return "an array of pointers, which no spec fills: they are null"
    return ""


def named_from_outside(flat: Flat, reader: SourceReader) -> Flat:
    """Structures by names that are known outside of the function.

    With the namespaces that it is in, where one is needed, and without ``struct`` where a ``typedef`` gives the name.
    """
    scope = flat.function.qualified.split("::")[:-1]
    structures = {trail: replace(s, type=_known(s, scope, reader)) for trail, s in flat.structures.items()}
    return replace(flat, structures=structures)


def _known(structure: Structure, scope: list[str], reader: SourceReader) -> str:
    plain = structure.type.removeprefix("struct ")
    outer = ["::".join([*scope[:depth], plain]) for depth in range(len(scope), 0, -1)]
    names = dict.fromkeys((structure.type, *outer, plain))
    for name in names if len(names) > 1 and structure.type else ():
        try:
            reader.types([f"sizeof({name})"])
        except BaselineError:
            continue
        return name
    return structure.type
