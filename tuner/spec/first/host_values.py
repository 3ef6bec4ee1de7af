"""What expressions of host code stand for in a first spec: sizes, launch geometry, bytes of allocations.

Follows variables, members and parameters as far as :mod:`tuner.spec.first.host_code` tells. May not compile anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import numpy as np

from tuner.spec.first.host_arithmetic import Call, Op, UnknownPart, ceiling, folded, operation, real, whole
from tuner.spec.first.host_arithmetic import Node as Value
from tuner.spec.first.host_code import (
    THIS,
    Frame,
    HostCode,
    Place,
    bare_expression,
    called_name,
    first_value,
    place_of,
)
from tuner.spec.reading.nodes import Node, plain_type
from tuner.spec.reading.trees import CASTS, inner_nodes

__all__ = ["HostValues"]

_ARITHMETIC = ("+", "-", "*", "/", "%", "<<", ">>")
_ALLOCATES = re.compile(r"[mM]alloc|MALLOC")
_CONSTRUCTED = ("CXXConstructExpr", "CXXTemporaryObjectExpr", "CXXUnresolvedConstructExpr", "ParenListExpr")
_WHOLE = re.compile(r"(?:const |static |volatile )*(?:u?int\w*|unsigned|long|short|size_t|std::size_t)\b")
_MEMBERS = ("x", "y", "z")


@dataclass(slots=True)
class HostValues:
    """The values of one source's expressions, and the variables that were met in them.

    Attributes:
        code: of the source.
        kept: macros that stay as they are, because the spec tunes them.
        fixed: constants that are numbers, because the kernel itself uses them; others may be sizes of the problem.
        size_of: bytes of a type.
        variables: those met, with their values where a number is assigned.
    """

    code: HostCode
    kept: Collection[str]
    fixed: Collection[str]
    size_of: Callable[[str], int | None]
    variables: dict[str, int | None] = field(default_factory=dict)

    def value(self, node: Node, frame: Frame) -> Value | None:
        """What an expression stands for; ``None`` where it has a part that is not known."""
        try:
            return self._value(node, frame)
        except (UnknownPart, RecursionError):
            return None

    def dimensions(self, node: Node, frame: Frame) -> tuple[Value, ...]:
        """A ``dim3`` or a number, without ones at its end; empty where it is not known."""
        known: list[Value] = []
        for part, there in self._axes(node, frame):
            value = self.value(part, there)
            if value is None:
                return ()
            known.append(value)
        while len(known) > 1 and known[-1] == 1:
            known.pop()
        return tuple(known)

    def member(self, node: Node, members: tuple[str, ...], frame: Frame) -> Value | None:
        """A structure's member; where it is set to a number it is a variable of its own."""
        place = place_of(node)
        if place is None:
            return None
        return self._at(replace(place, members=(*place.members, *members)), frame)

    def bytes_of(self, node: Node, frame: Frame, members: tuple[str, ...] = ()) -> Value | None:
        """Of the allocation that a pointer, or one in a structure, came from."""
        try:
            return self._bytes_of(node, frame, members)
        except RecursionError:
            return None

    def _value(self, node: Node, frame: Frame) -> Value:
        kind, inner = node.get("kind"), inner_nodes(node)
        if kind in CASTS and inner:
            made = self._value(inner[-1], frame)
            to = node.get("type", {}).get("qualType", "")
            cast = node.get("castKind")
            if cast == "IntegralToFloating" or (cast == "Dependent" and to in ("float", "double")):
                return real(made)
            return whole(made) if cast == "FloatingToIntegral" else made
        bare = bare_expression(node)
        if bare is not node:
            return self._value(bare, frame)
        if kind in ("IntegerLiteral", "CharacterLiteral", "CXXBoolLiteralExpr"):
            macro = self._macro(node)
            return self._variable(macro, int(node["value"])) if macro else int(node["value"])
        if kind == "FloatingLiteral":
            # As it is written: what it is rounded to in `float` has more digits.
            return float(str(np.float32(node["value"])) if plain_type(node) == "float" else node["value"])
        if kind in ("UnaryOperator", "BinaryOperator", "ConditionalOperator"):
            return self._operation(node, frame)
        if kind == "UnaryExprOrTypeTraitExpr" and node.get("name") == "sizeof":
            asked = {"type": node["argType"]} if "argType" in node else bare_expression(inner[0])
            return _known(self.size_of(plain_type(asked)))
        if kind == "DeclRefExpr":
            return self._named(node, frame)
        if kind in ("MemberExpr", "CXXDependentScopeMemberExpr"):
            return self._member(node, frame)
        if kind in ("CallExpr", "CXXMemberCallExpr"):
            return self._called(node, frame)
        if kind in ("InitListExpr", *_CONSTRUCTED) and len(inner) == 1:
            return self._value(inner[0], frame)
        raise UnknownPart

    def _operation(self, node: Node, frame: Frame) -> Value:
        sign, inner = str(node.get("opcode", "")), inner_nodes(node)
        if node["kind"] == "ConditionalOperator":
            return self._chosen(inner, frame)
        if node["kind"] == "UnaryOperator" and sign in ("+", "-"):
            return operation(sign, 0, self._value(inner[0], frame))
        if node["kind"] == "UnaryOperator" or sign not in _ARITHMETIC:
            raise UnknownPart
        return operation(sign, self._value(inner[0], frame), self._value(inner[1], frame))

    def _chosen(self, inner: list[Node], frame: Frame) -> Value:
        """``a < b ? a : b``, and ``n % b ? n / b + 1 : n / b``."""
        condition, *ways = inner
        condition = bare_expression(condition)
        first, second = (self._value(way, frame) for way in ways)
        for rest, more in ((first, second), (second, first)):
            if isinstance(rest, Op) and rest.sign == "//" and more == Op("+", rest, 1):
                return ceiling(Op("/", rest.left, rest.right))
        sides = [self._value(side, frame) for side in inner_nodes(condition)]
        name = {"<": "min", ">": "max"}.get(str(condition.get("opcode"))[:1])
        if name is None or sides not in ([first, second], [second, first]):
            raise UnknownPart
        if sides != [first, second]:
            name = "max" if name == "min" else "min"
        return folded(Call(name, (first, second)))

    def _named(self, node: Node, frame: Frame) -> Value:
        declared = node["referencedDecl"]
        name, identity = str(declared.get("name", "")), str(declared["id"])
        if name in self.kept:
            return name
        if declared["kind"] == "EnumConstantDecl":
            return self._enumerator(identity)
        if declared["kind"] not in ("VarDecl", "ParmVarDecl"):
            raise UnknownPart
        place = Place(name, identity)
        if declared["kind"] == "VarDecl" and self.code.source(place, frame) is None:
            return self._outside(name, self.code.tree.node(identity))
        return self._at(place, frame)

    def _at(self, place: Place, frame: Frame) -> Value:
        """What a variable or a member stands for."""
        name = "_".join((place.name, *place.members) if place.name else place.members)
        met = name in self.variables
        found = self.code.source(place, frame)
        value = self.value(*found) if found else None
        if frame.given and place.identity in frame.given:
            return _known(value)
        if value is None and not met:
            # What it was before it changed does not count.
            self.variables[name] = None
        return self._variable(name, value)

    def _outside(self, name: str, variable: Node) -> Value:
        """A variable that stands outside of functions, or has no value where it stands."""
        kind = str(variable.get("type", {}).get("qualType", ""))
        value = first_value(variable)
        node = None if value is None else self.value(value, Frame({}, value))
        if (variable.get("constexpr") or kind.startswith("const ")) and name in self.fixed:
            return _known(node)
        if not _WHOLE.match(kind):
            raise UnknownPart
        return self._variable(name, node)

    def _macro(self, literal: Node) -> str:
        """The macro that is this number and no more; empty for one that the kernel uses."""
        spelt = literal.get("range", {}).get("begin", {}).get("spellingLoc", {})
        own = "offset" in spelt and "includedFrom" not in spelt
        name = self.code.number_macros.get(spelt["offset"], "") if own else ""
        return "" if name in self.fixed else name

    def _variable(self, name: str, value: Value | None) -> Value:
        """A number that is assigned may be a size of the problem, so its name stays."""
        if value is not None and not isinstance(value, int):
            return value
        known = self.variables.setdefault(name, value)
        if known != value and known is not None and value is not None:
            # Two functions that each have one of this name.
            return value
        if known is None:
            self.variables[name] = value
        return name

    def _enumerator(self, identity: str) -> int:
        self.code.tree.node(identity)
        for root, _ in self.code.tree.declarations(f'"{identity}"'):
            for listed in self.code.nodes_of(root):
                value = -1
                for each in inner_nodes(listed) if listed.get("kind") == "EnumDecl" else ():
                    said = next((n["value"] for n in inner_nodes(each) if "value" in n), None)
                    value = value + 1 if said is None else int(said)
                    if each.get("id") == identity:
                        return value
        raise UnknownPart

    def _member(self, node: Node, frame: Frame) -> Value:
        place = place_of(node)
        if place is None:
            raise UnknownPart
        if (
            place.members[-1:]
            and place.members[-1] in _MEMBERS
            and "dim3" in plain_type(inner_nodes(node)[0])
        ):
            axes = self._axes(inner_nodes(node)[0], frame)
            axis = _MEMBERS.index(place.members[-1])
            return self._value(*axes[axis]) if axis < len(axes) else 1 if axes else _known(None)
        return self._at(place, frame)

    def _called(self, node: Node, frame: Frame) -> Value:
        callee, *arguments = inner_nodes(node)
        name = called_name(callee)
        if name in ("ceil", "ceilf") and len(arguments) == 1:
            return ceiling(self._value(arguments[0], frame))
        if name in ("min", "max", "fmin", "fmax", "fminf", "fmaxf") and len(arguments) == 2:
            parts = tuple(self._value(each, frame) for each in arguments)
            return folded(Call(name[1:4] if name.startswith("f") else name, parts))
        if name == "size" and node["kind"] == "CXXMemberCallExpr":
            place = place_of(inner_nodes(callee)[0])
            made = self.code.source(place, frame) if place else None
            if made and made[0].get("kind") == "CXXConstructExpr" and inner_nodes(made[0]):
                return self._value(inner_nodes(made[0])[0], made[1])
        returned = self.code.returned(node, frame)
        if returned is None:
            raise UnknownPart
        return self._value(*returned)

    def _axes(self, node: Node, frame: Frame) -> list[tuple[Node, Frame]]:
        """What a ``dim3`` is made of, x first; empty where that is not told."""
        node = bare_expression(node)
        inner = [n for n in inner_nodes(node) if n.get("kind") != "CXXDefaultArgExpr"]
        if node.get("kind") == "CallExpr" and called_name(inner[0]) == "make_uint3":
            return [(each, frame) for each in inner[1:]]
        if node.get("kind") in (*_CONSTRUCTED, "InitListExpr"):
            copied = len(inner) == 1 and re.search(r"\b(?:dim3|uint3)\b", plain_type(inner[0]))
            return self._axes(inner[0], frame) if copied else [(each, frame) for each in inner]
        place = place_of(node)
        if place is None or "dim3" not in plain_type(node):
            made = self.code.returned(node, frame) if node.get("kind") == "CallExpr" else None
            return self._axes(*made) if made and "dim3" in plain_type(node) else [(node, frame)]
        begun = self.code.source(place, frame)
        axes = self._axes(*begun) if begun else []
        for axis, member in enumerate(_MEMBERS):
            own = self.code.source(replace(place, members=(*place.members, member)), frame)
            if own is not None:
                one = {"kind": "IntegerLiteral", "value": "1"}
                axes += [(one, frame)] * (axis + 1 - len(axes))
                axes[axis] = own
        return axes

    def _bytes_of(self, node: Node, frame: Frame, members: tuple[str, ...]) -> Value | None:
        node = bare_expression(node)
        if node.get("kind") == "BinaryOperator" and node.get("opcode") in ("+", "-"):
            return self._bytes_of(inner_nodes(node)[0], frame, members)
        place = place_of(node)
        if place is None:
            source = self.code.returned(node, frame) if node.get("kind") == "CallExpr" else None
        else:
            place = replace(place, members=(*place.members, *members))
            if (found := self._filled(place, frame)) is not None:
                return self.value(*found)
            source = self.code.source(place, frame)
        return None if source is None else self._bytes_of(*source, ())

    def _filled(self, place: Place, frame: Frame) -> tuple[Node, Frame] | None:
        """How much a function allocates that is handed the pointer's address: the nearest one."""
        own = [(node, replace(frame, at=node)) for node in self.code.nodes_of(frame.function)]
        others = self.code.uses(f'"{place.identity}"', "CallExpr", "RecoveryExpr")
        for node, there in (*own, *(others if place.identity != THIS else ())):
            if node.get("kind") not in ("CallExpr", "RecoveryExpr") or len(inner_nodes(node)) < 3:
                continue
            callee, target, size, *_ = inner_nodes(node)
            if _ALLOCATES.search(called_name(callee)) and place_of(target) == place:
                return size, there
        return None


def _known(value: Value | None) -> Value:
    if value is None:
        raise UnknownPart
    return value
