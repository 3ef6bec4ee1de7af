"""A method's tree with variables in the place of its object's members: so that a loop of it can be a plain function.

Only members that the source names alone (``size``, not ``this->size``) mean the same where there is no object.
"""

from __future__ import annotations

import re

from tuner.core.errors import UsageError
from tuner.core.source_text import source_text
from tuner.spec.reading.methods import THIS, scopes_of
from tuner.spec.reading.nodes import Node, location_of, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import referenced

__all__ = ["scope_of", "with_own_members"]

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
    changed = _changed(tree, variables)
    inner = (child for child in changed.get("inner", []) if child.get("id") != THIS)
    return changed | {"inner": [*variables.values(), *inner]}


def scope_of(function: Function, data: bytes, name: str) -> str:
    """The namespaces that a function behind another, or behind a method, is in, each with ``::``.

    Args:
        function: the other one.
        data: its file.
        name: of what is to be a function, for messages.

    Raises:
        UsageError: it would be a method as well, or in another namespace than the method's own class.
    """
    tree = function.tree
    if tree.get("kind") != "CXXMethodDecl":
        scope, double, _ = function.qualified.rpartition("::")
        return scope + double
    scopes, place = scopes_of(tree), location_of(tree.get("loc", {})).get("offset", 0)
    if "previousDecl" not in tree or len(scopes) < 2:
        raise UsageError(f"{name} stands in the body of a class", f"define its method behind it, or {_CURE}")
    text, around = source_text(data[:place]), list[str]()
    while found := _QUALIFIER.search(text):
        around.insert(0, found[1])
        text = text[: found.start()]
    if around != scopes[-2:-1]:
        what = f"stands in a method that is defined outside of the namespace or class of {scopes[-2]}"
        raise UsageError(f"{name} {what}", f"define it there, or {_CURE}")
    return "".join(f"{each}::" for each in scopes[:-2])


def _changed(node: Node, variables: dict[str, Node]) -> Node:
    """A node with names of variables, which are added to those that are known."""
    if node.get("kind") == "MemberExpr" and _is_of_own_object(node):
        key, kind = str(node["referencedMemberDecl"]), node["type"]
        meant = {"id": key, "kind": "VarDecl", "name": node["name"], "type": kind}
        nowhere = {"offset": 0, "tokLen": 0}
        place = {"loc": nowhere, "range": {"begin": nowhere, "end": nowhere}}
        variables.setdefault(key, {**meant, **place, "storageClass": "static"})
        rest = {name: value for name, value in node.items() if name not in ("inner", "name", "isArrow")}
        return {**rest, "kind": "DeclRefExpr", "referencedDecl": meant}
    inner = node.get("inner")
    changed = [_changed(child, variables) if child else child for child in inner or ()]
    return {**node, "inner": changed} if inner else node


def _is_of_own_object(node: Node) -> bool:
    """Whether a member is a variable of the object that the source does not name."""
    if "bound member function" in str(node["type"]["qualType"]) or not node.get("name"):
        return False
    below: Node = node["inner"][0]
    while below.get("kind") == "ImplicitCastExpr" and not below.get("implicit"):
        below = below["inner"][0]
    return bool(below.get("implicit")) and any(referenced(each) == THIS for each in walk(below))
