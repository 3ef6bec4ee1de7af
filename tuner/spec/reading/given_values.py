"""Which variables of a function are given a value before any that they have is used, and which keep theirs.

In a loop and behind it, of functions without labels; from call to call. Read from clang's syntax tree. May not say what
the values are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tuner.core.source_text import source_bytes, source_text
from tuner.spec.reading.nodes import LOOPS, Node, body_of, location_of, named_in, paths, plain_type, walk
from tuner.spec.reading.signature import Function

__all__ = ["given_first", "kept_values", "lost_behind"]

_LEAVES = ("BreakStmt", "ContinueStmt")
_EXTENT = re.compile(r"\[([^\]]*)\]")
_WORD = re.compile(r"[A-Za-z_]\w*")


def lost_behind(function: Function, loop: Node) -> set[str]:
    """Identities of variables whose values at the end of a loop nothing in its function uses.

    Args:
        function: around the loop, without labels.
        loop: of its tree.
    """
    extents = set(_WORD.findall(" ".join(_EXTENT.findall(" ".join(_types(function.tree))))))
    (around,) = (parents for node, parents in paths(function.tree) if node is loop)
    lost, given, inside = _names(function.tree), set[str](), loop
    # Extents of variables are no nodes of the tree.
    lost -= {meant["id"] for meant in named_in(function.tree) if meant.get("name", "") in extents}
    for block in around:
        own = _names(block) - given
        kind = block.get("kind")
        if kind == "CompoundStmt":
            place = next(i for i, child in enumerate(block["inner"]) if child is inside)
            rest: Node = {"kind": "CompoundStmt", "inner": block["inner"][place + 1 :]}
            lost -= (_names(rest) - given) - given_first(rest)
            if not any(node.get("kind") in _LEAVES for node in walk(rest)):
                given |= _given_always(rest["inner"])
        elif kind in LOOPS:
            # It begins again, and comes to the given one again.
            lost -= own - _given_in_round(block)
        elif kind not in ("IfStmt", "FunctionDecl"):
            lost -= own
        inside = block
    return lost


def _given_always(statements: Sequence[Node]) -> set[str]:
    """Variables that one of some statements gives a value, and that none before it uses."""
    found, asked = set[str](), set[str]()
    for part in _steps(statements):
        if part.get("kind") == "BinaryOperator":
            found |= given_first(part) - asked
        asked |= _names(part)
    return found


def _steps(statements: Sequence[Node]) -> Iterator[Node]:
    """Statements, each loop behind what it begins with."""
    for part in statements:
        if part.get("kind") == "ForStmt" and part["inner"][0]:
            yield part["inner"][0]
        yield part


def given_first(statement: Node) -> set[str]:
    """Variables, by identity, that a statement gives a value before any use in it, each time that it comes to one."""
    kind, inner = statement.get("kind"), [child for child in statement.get("inner", []) if child]
    if kind == "BinaryOperator" and statement.get("opcode") == "=" and inner[0].get("kind") == "DeclRefExpr":
        return {inner[0]["referencedDecl"]["id"]} - _names(inner[1])
    if kind == "BinaryOperator" and statement.get("opcode") == ",":
        return given_first(inner[0]) | (given_first(inner[1]) - _names(inner[0]))
    if kind in LOOPS and inner:
        first = next(_steps([statement]))
        begun = set[str]() if first is statement else given_first(first)
        return begun | _given_in_round(statement)
    if kind == "IfStmt":
        # What is asked, and what is done.
        head, branches = (inner[:-2], inner[-2:]) if statement.get("hasElse") else (inner[:-1], inner[-1:])
        given = [(given_first(branch), _names(branch)) for branch in branches]
        found = set[str]().union(*(own for own, _ in given)).difference(*map(_names, head))
        return {key for key in found if all(key in own or key not in names for own, names in given)}
    found, asked = set[str](), set[str]()
    for part in _steps(inner) if kind == "CompoundStmt" else ():
        own, always = given_first(part), part.get("kind") == "BinaryOperator"
        for key in _names(part) - (found & asked):
            # In ``found`` alone: so far given anew wherever it is used; in both: given for all that follows.
            if key in own and (key in found or key not in asked):
                found.add(key)
                asked |= {key} if always else set()
            else:
                found.discard(key)
                asked.add(key)
    return found


def _given_in_round(loop: Node) -> set[str]:
    """Variables that each round of a loop gives a value before any use in it."""
    inner = [child for child in loop.get("inner", []) if child]
    *others, body = inner if loop.get("kind") != "DoStmt" else reversed(inner)
    return given_first(body).difference(*map(_names, others))


def _names(node: Node) -> set[str]:
    return {meant["id"] for meant in named_in(node)}


def _types(tree: Node) -> Iterator[str]:
    """Types of what a function declares, and of what it asks for."""
    for each in walk(tree):
        for kind in (each.get("type"), each.get("argType")):
            yield str((kind or {}).get("qualType", ""))


def kept_values(function: Function, text: str) -> Iterator[str]:
    """What is kept, a sentence for each variable, with its type and its line in the file.

    Args:
        function: with its tree.
        text: of the file that it is probably in.
    """
    data = source_bytes(text)
    for node in walk(body_of(function.tree)):
        kind = plain_type(node)
        if (node.get("kind"), node.get("storageClass")) != ("VarDecl", "static") or _is_constant(kind):
            continue
        name, place = str(node["name"]), location_of(node.get("loc", {}))
        at = int(place.get("offset", 0))
        line = data.count(b"\n", 0, at) + 1
        where = f"line {line}, " if source_text(data[at : at + len(name)]) == name else ""
        yield (
            f"the static variable {name} of {function.name} ({where}`{kind}`) keeps its value from call to call, "
            "and no argument stands for it"
        )


def _is_constant(kind: str) -> bool:
    element = kind.partition("[")[0].rstrip()
    return element.endswith("const") or (element.startswith("const ") and "*" not in element)
