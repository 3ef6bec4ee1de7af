"""Static variables of a file that are only ever scratch: every function gives them a value before it asks for it.

Fortran's common blocks became such in C. No argument of a kernel is one: compilers keep them in registers where nothing
reads what is stored. Read from clang's syntax tree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.spec.reading.given_values import given_first
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.nodes import Node, body_of, named_in, paths, walk
from tuner.spec.reading.signature import Function, SourceReader

__all__ = ["file_temporaries"]


def file_temporaries(function: Function, names: Collection[str], reader: SourceReader) -> set[str]:
    """Those of some variables whose values no function of the file gets from another one.

    Args:
        function: the kernel, with its tree; of other functions none is read unless this one needs no value before.
        names: of numbers that are declared outside of functions.
        reader: of the sources.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    left = {name for name in names if re.search(rf"\bstatic\b[^;{{}}()]*\b{name}\b", reader.files[0].text)}
    left &= _given(function.tree, left)
    trees: dict[str, list[Node]] = {}
    for other in functions_of(reader.files[0].text) if left else ():
        try:
            trees[other] = [f.tree for f in reader.named(other) if f.defined]
        except BaselineError:
            return set()
    named = {other: set[str]().union(*map(_named, own)) for other, own in trees.items()}
    for own in trees.values():
        for tree in own:
            left &= _given(tree, left) | (left - _named(tree))
    # One that calls another may ask for what that one leaves.
    calls = {other: names & named.keys() for other, names in named.items()}
    below = {other: reachable(called, calls.__getitem__) for other, called in calls.items()}
    return {x for x in left if not any(x in named[f] and any(x in named[g] for g in below[f]) for f in trees)}


def _given(tree: Node, names: Collection[str]) -> set[str]:
    """Variables that a function gives a value before any use, and whose address it does not take."""
    body = body_of(tree)
    if any(node.get("kind") in ("LabelStmt", "LambdaExpr") for node in walk(body)):
        return set()
    first = given_first(body)
    found = {str(meant.get("name")) for meant in named_in(body) if meant["id"] in first}
    kept = {
        str(node["referencedDecl"].get("name"))
        for node, parents in paths(body)
        if node.get("kind") == "DeclRefExpr" and not _is_value(node, parents)
    }
    return (found & set(names)) - kept


def _is_value(node: Node, parents: Sequence[Node]) -> bool:
    """Whether a variable is read, or assigned to."""
    around = next((p for p in parents if p.get("kind") != "ParenExpr"), {})
    if around.get("castKind") == "LValueToRValue" or around.get("kind") == "CompoundAssignOperator":
        return True
    steps = around.get("opcode") in ("++", "--")
    return steps or (around.get("opcode") == "=" and around["inner"][0] is node)


def _named(tree: Node) -> set[str]:
    return {str(meant.get("name")) for meant in named_in(tree)}
