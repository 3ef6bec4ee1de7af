"""Methods of C++ classes that give an element of an array of their object, its address, an index, or a number.

``double &x(int i) { return m_x[i]; }`` and ``T &operator()(int i, int j) { return data[i * cols + j]; }``: what a loop
reads and writes through them are elements of plain arrays. Read from clang's syntax tree. May not say what else is done
with the object.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tuner.core.errors import BaselineError
from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.reading.methods import with_this
from tuner.spec.reading.nodes import Node, body_of, parameter_nodes, plain_type
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.trees import THROUGH, inner_nodes, member_path, peeled, referenced

__all__ = ["Accessor", "Accessors"]

_NUMBER = re.compile(r"(?:const |unsigned |signed )*(?:bool|char|short|int|long|float|double)(?: \w+)*")
_INDEX = re.compile(r"(?:unsigned )?long(?: long)?|int")
"""Smaller ones without a sign begin again at 0."""
_INTEGER = re.compile(r"(?:const |unsigned |signed )*(?:bool|char|short|int|long)(?: \w+)*")
_WHOLE = re.compile(r"(?:const )?(?:unsigned )?(?:int|long(?: long)?)")
_SUBSCRIPT = "operator[]"


@dataclass(frozen=True, slots=True)
class Accessor:
    """What a method gives.

    Attributes:
        strides: by how many elements each argument moves the element; ``None`` where a number of the object says so.
        address: whether it gives the element's address.
        array: the member that has the elements; empty for a number of the object, and for an index, which has strides.
        offset: of an index, where all arguments are 0; ``None`` where numbers of the object say so.
        place: the method that gives the place of the same element of an object that is not ``const``; empty where none
            does.
    """

    strides: tuple[int | None, ...] = ()
    address: bool = False
    array: str = ""
    offset: int | None = 0
    place: str = ""


@dataclass(slots=True)
class Accessors:
    """Those of the classes of a file."""

    reader: SourceReader
    _methods: dict[str, list[Node]] = field(default_factory=dict)

    def find(self, kind: str, method: str, count: int) -> Accessor | None:
        """What a method gives where that is an element or a number of its object; without arguments it is a number.

        Args:
            kind: the class, as clang writes types.
            method: its name.
            count: of its arguments; all methods of the class with that name and as many have to do the same.

        Returns:
            ``None`` for any other method.

        Raises:
            MachineError: there is no clang, or it does not answer.
        """
        methods = [tree for tree in self._of(_class_name(kind)) if len(parameter_nodes(tree)) == count + 1]
        found = {_given(tree) for tree in methods if tree.get("name") == method}
        given = found.pop() if len(found) == 1 else None
        if given is None or not given.array:
            return given
        names = [str(tree.get("name")) for tree in methods if _gives_place(tree) and _given(tree) == given]
        alike = (name for name in names if (name == _SUBSCRIPT) == (method == _SUBSCRIPT))
        return replace(given, place=next(alike, ""))

    def _of(self, name: str) -> list[Node]:
        """Definitions of methods, of a template's too, that have a parameter for their object."""
        if name not in self._methods:
            try:
                trees = [with_this(tree, name) for tree in self.reader.trees(f"{name}::")]
            except BaselineError:
                trees = []
            self._methods[name] = [
                tree
                for tree in trees
                if body_of(tree)
                and parameter_nodes(tree)
                and _class_name(plain_type(parameter_nodes(tree)[0])) == name
            ]
        return self._methods[name]


def _class_name(kind: str) -> str:
    """Without namespaces, arguments of a template, and what is made of it."""
    return re.sub(r"^const |<.*|[ &*]+$", "", kind).rpartition("::")[2]


def _given(tree: Node) -> Accessor | None:
    """What a method gives that has one statement, and that no other class may have in its place."""
    if tree.get("virtual") or any(n.get("kind") in ("OverrideAttr", "FinalAttr") for n in inner_nodes(tree)):
        return None
    this, *others = parameter_nodes(tree)
    statements = inner_nodes(body_of(tree))
    if len(statements) != 1 or statements[0].get("kind") != "ReturnStmt" or not inner_nodes(statements[0]):
        return None
    value = peeled(inner_nodes(statements[0])[0])
    if not others:
        number = _is_member(value, this) and _NUMBER.fullmatch(plain_type(value))
        return Accessor() if number else None
    address = value.get("opcode") == "&" or (value.get("opcode") == "+" and "*" in plain_type(value))
    if value.get("opcode") == "&":
        value = peeled(inner_nodes(value)[0])
    array, index = _subscripted(value)
    if not _is_member(array, this):
        array, index = {}, value
        if address or not _INDEX.fullmatch(plain_type(value)):
            return None
    names = [str(parameter["id"]) for parameter in others]
    summed = _sum(index, names, this)
    if summed is None:
        return None
    # Numbers of the object are names as well, of which no value is known.
    factors = [summed.factor_of(name) for name in names]
    strides = tuple(None if factor is None else factor.value for factor in factors)
    if any(stride is not None and stride < 1 for stride in strides):
        return None
    rest = Polynomial.of({product: n for product, n in summed.items() if not set(product) & set(names)})
    return Accessor(strides, address, ".".join(member_path(array)[1]), 0 if array else rest.value)


def _subscripted(value: Node) -> tuple[Node, Node]:
    """The array and the index of an element, or of a pointer that something is added to; empty for anything else."""
    inner = inner_nodes(value)
    if value.get("kind") == "CXXOperatorCallExpr" and len(inner) == 3:
        callee = peeled(inner[0]).get("referencedDecl", {}).get("name")
        return (peeled(inner[1]), inner[2]) if callee == "operator[]" else ({}, {})
    if value.get("kind") == "ArraySubscriptExpr" or value.get("opcode") == "+":
        return peeled(inner[0]), inner[1]
    return {}, {}


def _is_member(node: Node, this: Node) -> bool:
    """Whether a node is a member of the object, or of a member of it."""
    root, names = member_path(node)
    return bool(names) and referenced(root) == this["id"]


def _gives_place(tree: Node) -> bool:
    """Whether a method gives a reference through which the element can be changed."""
    kind = str(tree["type"]["qualType"])
    given = kind.partition("(")[0].strip()
    return given.endswith("&") and not given.startswith("const ") and not kind.endswith("const")


def _sum(index: Node, names: Collection[str], this: Node) -> Polynomial | None:
    """An index as a sum over parameters, each at most once in a product; ``None`` where it is none."""
    node = _kept_number(index)
    kind, operator = node.get("kind"), node.get("opcode")
    if kind == "IntegerLiteral":
        return constant(int(node["value"]))
    if not _INTEGER.fullmatch(plain_type(node)):
        return None
    if kind == "DeclRefExpr" and (referenced(node) in names or plain_type(node).startswith("const ")):
        return variable(referenced(node))
    if _is_member(node, this):
        return variable(".".join(("this", *member_path(node)[1])))
    if kind != "BinaryOperator" or not _WHOLE.fullmatch(plain_type(node)):
        return None
    left, right = (_sum(each, names, this) for each in inner_nodes(node))
    if left is None or right is None or operator not in ("+", "-", "*"):
        return None
    if operator == "*" and not left.names.isdisjoint(names) and not right.names.isdisjoint(names):
        return None
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def _kept_number(node: Node) -> Node:
    """What parentheses and conversions hold that keep its value; one that may round or cut it stays around it."""
    while node.get("kind") in THROUGH and inner_nodes(node):
        cast = node.get("castKind", "NoOp")
        if cast not in ("NoOp", "LValueToRValue") and (
            cast != "IntegralCast" or not _WHOLE.fullmatch(plain_type(node))
        ):
            break
        node = inner_nodes(node)[0]
    return node
