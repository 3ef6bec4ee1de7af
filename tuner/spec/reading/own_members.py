"""A method's tree with variables in the place of its object's members: so that a loop of it can be a plain function.

Only members that the source names alone (``size``, not ``this->size``) mean the same where there is no object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.core.source_text import source_bytes, source_text
from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.methods import THIS, scopes_of
from tuner.spec.reading.nodes import Node, begin_of, location_of, stop_of, walk
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import referenced

__all__ = ["Around", "around_function", "with_own_members"]

_SEMICOLON = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*;", re.DOTALL)
_QUALIFIER = re.compile(r"(\w+)\s*::\s*\Z")
_CURE = "write the loop into a function of its own"


def with_own_members(tree: Node) -> Node:
    """The tree with a variable that outlives the function for each member that it names alone.

    Args:
        tree: of a method, as :func:`tuner.spec.reading.methods.with_this` gives it; others stay as they are.
    """
    if tree.get("kind") != "CXXMethodDecl":
        return tree
    variables: dict[str, Node] = {}
    changed = rebuilt(tree, lambda node: _variable(node, variables))
    inner = (child for child in changed.get("inner", []) if child.get("id") != THIS)
    return changed | {"inner": [*variables.values(), *inner]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a function that is put behind another one, or behind the class of a method, has around it.

    Attributes:
        scope: the namespaces that it is in, each with ``::``.
        start, after: bytes of the file at which the other one, or the class, begins and ends.
    """

    scope: str
    start: int
    after: int


def around_function(reader: SourceReader, function: Function, name: str) -> Around:
    """Where a loop's function may stand: behind the function around it.

    Args:
        reader: of the sources.
        function: the one around the loop, with a body in the first file.
        name: of what is to be a function, for messages.

    Raises:
        UsageError: it would be a method as well, or in another namespace than the method's own class.
    """
    tree, data = function.tree, reader.files[0].data
    begin = begin_of(tree)
    assert begin is not None
    if tree.get("kind") != "CXXMethodDecl":
        scope, double, _ = function.qualified.rpartition("::")
        return Around(scope=scope + double, start=begin, after=stop_of(tree))
    scopes, place = scopes_of(tree), location_of(tree.get("loc", {})).get("offset", 0)
    if "previousDecl" not in tree or len(scopes) < 2:
        return _around_class(reader, scopes[:-1], begin, name)
    text, qualifiers = source_text(data[:place]), list[str]()
    while found := _QUALIFIER.search(text):
        qualifiers.insert(0, found[1])
        text = text[: found.start()]
    if qualifiers != scopes[-2:-1]:
        what = f"stands in a method that is defined outside of the namespace or class of {scopes[-2]}"
        raise UsageError(f"{name} {what}", f"define it there, or {_CURE}")
    return Around(scope="".join(f"{each}::" for each in scopes[:-2]), start=begin, after=stop_of(tree))


def _around_class(reader: SourceReader, scopes: list[str], place: int, name: str) -> Around:
    """The outermost class that has a place of the file in its body."""
    data = reader.files[0].data
    for index, scope in enumerate(scopes):
        for node in (node for tree in reader.trees(scope) for node in walk(tree)):
            begin = begin_of(node) if node.get("completeDefinition") and node.get("name") == scope else None
            whole = begin is not None and "offset" in location_of(node["range"]["end"])
            if begin is not None and whole and begin <= place < stop_of(node):
                end = _SEMICOLON.match(source_text(data[stop_of(node) :]))
                if end is not None:
                    after = stop_of(node) + len(source_bytes(end[0]))
                    return Around(scope="".join(f"{s}::" for s in scopes[:index]), start=begin, after=after)
    raise UsageError(f"{name} stands in the body of a class", f"define its method behind it, or {_CURE}")


def _variable(node: Node, variables: dict[str, Node]) -> Node:
    """The name of a variable in the place of a member; it is added to those that are known."""
    if node.get("kind") != "MemberExpr" or not _is_of_own_object(node):
        return node
    key, kind = str(node["referencedMemberDecl"]), node["type"]
    meant = {"id": key, "kind": "VarDecl", "name": node["name"], "type": kind}
    nowhere = {"offset": 0, "tokLen": 0}
    place = {"loc": nowhere, "range": {"begin": nowhere, "end": nowhere}}
    variables.setdefault(key, {**meant, **place, "storageClass": "static"})
    rest = {name: value for name, value in node.items() if name not in ("inner", "name", "isArrow")}
    return {**rest, "kind": "DeclRefExpr", "referencedDecl": meant}


def _is_of_own_object(node: Node) -> bool:
    """Whether a member is a variable of the object that the source does not name."""
    if "bound member function" in str(node["type"]["qualType"]) or not node.get("name"):
        return False
    below: Node = node["inner"][0]
    while below.get("kind") == "ImplicitCastExpr" and not below.get("implicit"):
        below = below["inner"][0]
    return bool(below.get("implicit")) and any(referenced(each) == THIS for each in walk(below))
