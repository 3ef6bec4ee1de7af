"""What clang's tree says of a program's host code: where a function stands, what variables are set to, who calls what.

Knows no values. Conditions and loops are not followed: what counts is what stands last before a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tuner.spec.reading.nodes import Node, body_of, parameter_nodes, plain_type, walk
from tuner.spec.reading.source_trees import SourceTree
from tuner.spec.reading.trees import THROUGH, changes, inner_nodes

__all__ = ["THIS", "Frame", "HostCode", "Place", "bare_expression", "called_name", "first_value", "place_of"]

_FUNCTIONS = ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "LambdaExpr")
_HOLDING = THROUGH | {
    "CXXBindTemporaryExpr",
    "CXXDefaultArgExpr",
    "CXXDynamicCastExpr",
    "MaterializeTemporaryExpr",
    "SubstNonTypeTemplateParmExpr",
}
_OUTERMOST = 6
THIS = "this"
"""Stands for the identity of the object that a method is called for."""
Trail = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in a function; what stands before it has been done.

    Attributes:
        function: around it; empty outside of functions.
        at: the place.
        given: its parameters where it is looked at for one call; else any caller's.
        depth: calls between this and the launch.
    """

    function: Node
    at: Node
    given: Mapping[str, tuple[Node, Frame]] | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A variable, or a member of one."""

    name: str
    identity: str
    members: Trail = ()


@dataclass(slots=True)
class HostCode:
    """The functions of a source and its headers."""

    tree: SourceTree
    number_macros: Mapping[int, str] = field(init=False)
    _inside: dict[str, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number_macros = self.tree.number_macros()

    def uses(self, part: str, *kinds: str) -> Iterator[tuple[Node, Frame]]:
        """Nodes of those kinds in declarations that have a text somewhere; of templates the uses before themselves."""
        for root, _ in self.tree.declarations(part):
            found = list(_with_functions(root))
            for node, function, _ in sorted(found, key=lambda each: each[2]):
                if node.get("kind") in kinds:
                    yield node, Frame(function, node)

    def nodes_of(self, function: Node) -> list[Node]:
        """All nodes of a function in order."""
        identity = str(function.get("id", ""))
        if identity not in self._inside:
            self._inside[identity] = list(walk(function))
        return self._inside[identity]

    def source(self, place: Place, frame: Frame) -> tuple[Node, Frame] | None:
        """What a variable or a member was set to last before a place, or what a caller gives for it."""
        found = self._before(place, frame) or self._elsewhere(place, frame)
        if found is not None or not place.members:
            return found or self._passed(place.identity, frame)
        *outer, member = place.members
        whole = self.source(Place(place.name, place.identity, tuple(outer)), frame)
        if whole is None:
            return None
        node, there = bare_expression(whole[0]), whole[1]
        if node.get("kind") == "InitListExpr":
            values = dict(zip(self._members_of(node), inner_nodes(node), strict=False))
            return (values[member], there) if member in values else None
        other = place_of(node)
        if other is None or (other == place and there is frame):
            return None
        return self.source(Place(other.name, other.identity, (*other.members, member)), there)

    def _before(self, place: Place, frame: Frame) -> tuple[Node, Frame] | None:
        found = None
        for node in self.nodes_of(frame.function) if frame.function else ():
            if node is frame.at:
                break
            begun = first_value(node) if node.get("id") == place.identity and not place.members else None
            value = _set_value(node) if _assigned(node) == place else begun
            if value is not None:
                found = value, Frame(frame.function, node, frame.given, frame.depth)
        return found

    def _elsewhere(self, place: Place, frame: Frame) -> tuple[Node, Frame] | None:
        """Where another function sets what this one uses."""
        own = any(node.get("id") == place.identity for node in self.nodes_of(frame.function))
        if own or (place.identity == THIS and not place.members):
            return None
        part = f'"name": "{place.members[-1]}"' if place.identity == THIS else f'"{place.identity}"'
        for node, there in self.uses(part, "BinaryOperator", "CXXOperatorCallExpr"):
            if _assigned(node) == place and there.function is not frame.function:
                return _set_value(node), there
        return None

    def _passed(self, identity: str, frame: Frame) -> tuple[Node, Frame] | None:
        """What a function is given for a parameter where it is called."""
        if frame.given is not None:
            return frame.given.get(identity)
        parameters = [str(n["id"]) for n in parameter_nodes(frame.function)]
        if identity not in parameters or frame.depth >= _OUTERMOST:
            return None
        place = parameters.index(identity)
        for each in self._identities(frame.function):
            for call, other in self.uses(f'"{each}"', "CallExpr", "CXXMemberCallExpr"):
                callee, *arguments = inner_nodes(call)
                callee = bare_expression(callee)
                called = callee.get("referencedDecl", {}).get("id", callee.get("referencedMemberDecl"))
                if called == each and place < len(arguments) and other.function is not frame.function:
                    return arguments[place], Frame(other.function, call, None, frame.depth + 1)
        return None

    def _identities(self, function: Node) -> list[str]:
        """What calls of a function name: of a template its uses too."""
        own = [str(function[key]) for key in ("id", "previousDecl") if key in function]
        for root, _ in self.tree.declarations(f'"{own[0]}"'):
            for node in self.nodes_of(root):
                if node.get("kind") == "FunctionTemplateDecl" and any(
                    c is function for c in inner_nodes(node)
                ):
                    own += [str(c["id"]) for c in inner_nodes(node) if c.get("kind") == "FunctionDecl"]
        return list(dict.fromkeys(own))

    def returned(self, call: Node, frame: Frame) -> tuple[Node, Frame] | None:
        """What a call of one of the project's functions gives."""
        callee, *arguments = inner_nodes(call)
        function = self.definition(str(bare_expression(callee).get("referencedDecl", {}).get("id", "")))
        nodes = self.nodes_of(function) if function else []
        value = next((n for n in reversed(nodes) if n.get("kind") == "ReturnStmt" and inner_nodes(n)), None)
        if value is None or frame.depth >= _OUTERMOST:
            return None
        parameters = zip(parameter_nodes(function), arguments, strict=False)
        given = {str(parameter["id"]): (node, frame) for parameter, node in parameters}
        return inner_nodes(value)[0], Frame(function, value, given, frame.depth + 1)

    def definition(self, identity: str) -> Node:
        """A function with its body; empty where the project has none."""
        found = [self.tree.node(identity), *(root for root, _ in self.tree.declarations(f'"{identity}"'))]
        return next(
            (
                each
                for each in found
                if identity in (each.get("id"), each.get("previousDecl")) and body_of(each)
            ),
            {},
        )

    def _members_of(self, value: Node) -> list[str]:
        """The names of a structure's members in order."""
        name = re.sub(r"<.*", "", plain_type(value)).split()[-1].rpartition("::")[2]
        for root, _ in self.tree.declarations(f'"name": "{name}"'):
            for node in walk(root):
                fields = [n for n in inner_nodes(node) if n.get("kind") == "FieldDecl"]
                if "Record" in str(node.get("kind")) and node.get("name") == name and fields:
                    return [str(each.get("name", "")) for each in fields]
        return []


def _with_functions(node: Node) -> Iterator[tuple[Node, Node, bool]]:
    """A node and all below it, each with the function around it, and whether that is a template itself."""
    stack: list[tuple[Node, Node, bool]] = [(node, {}, False)]
    while stack:
        top, around, inside = stack.pop()
        yield top, around, inside
        if top.get("kind") in _FUNCTIONS:
            around = top
        below = [child for child in inner_nodes(top) if child]
        of_template = str(top.get("kind")).endswith("TemplateDecl")
        first = next((c for c in below if c.get("kind") in ("FunctionDecl", "CXXRecordDecl")), None)
        stack.extend((child, around, inside or (of_template and child is first)) for child in reversed(below))


def place_of(node: Node) -> Place | None:
    """The variable that an expression is, or its member; of a pointer what it points to."""
    members: list[str] = []
    node = bare_expression(node)
    while node.get("kind") == "MemberExpr" or node.get("opcode") in ("&", "*"):
        if node.get("kind") == "MemberExpr":
            members.insert(0, str(node.get("name", "")))
        node = bare_expression(inner_nodes(node)[0])
    if node.get("kind") == "CXXThisExpr":
        return Place("", THIS, tuple(members))
    named = node.get("referencedDecl", {})
    if named.get("kind") not in ("VarDecl", "ParmVarDecl", "BindingDecl"):
        return None
    return Place(str(named.get("name", "")), str(named["id"]), tuple(members))


def _assigned(node: Node) -> Place | None:
    """What a node sets."""
    if changes(node) and node["kind"] != "UnaryOperator":
        return place_of(inner_nodes(node)[0])
    if node.get("kind") == "CXXOperatorCallExpr" and len(inner_nodes(node)) == 3:
        operator, target, _ = inner_nodes(node)
        return place_of(target) if called_name(operator) == "operator=" else None
    return None


def _set_value(node: Node) -> Node:
    """What is assigned, of `n *= 2` the product."""
    if node.get("kind") == "CompoundAssignOperator":
        return {**node, "kind": "BinaryOperator", "opcode": str(node["opcode"]).removesuffix("=")}
    return inner_nodes(node)[-1]


def first_value(variable: Node) -> Node | None:
    """What a variable begins with."""
    if variable.get("kind") != "VarDecl" or "init" not in variable:
        return None
    return next((n for n in inner_nodes(variable) if n and not str(n["kind"]).endswith("Attr")), None)


def bare_expression(node: Node) -> Node:
    """What parentheses, conversions, temporaries and copies hold."""
    while (node.get("kind") in _HOLDING or _is_copy(node)) and inner_nodes(node):
        node = inner_nodes(node)[-1]
    return node


def _is_copy(node: Node) -> bool:
    inner = inner_nodes(node)
    if node.get("kind") != "CXXConstructExpr" or len(inner) != 1:
        return False
    made, given = (
        each.get("type", {}).get("qualType", "").removeprefix("const ") for each in (node, inner[0])
    )
    return bool(made == given)


def called_name(callee: Node) -> str:
    """The name of a function, of one too whose overload is not settled."""
    callee = bare_expression(callee)
    while callee.get("kind") == "RecoveryExpr" and inner_nodes(callee):
        callee = bare_expression(inner_nodes(callee)[0])
    return str(callee.get("referencedDecl", callee).get("name", ""))
