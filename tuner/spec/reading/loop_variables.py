"""What a loop uses of the function that it stands in: which variables, and what is done with each.

Read from clang's syntax tree. May not write anything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.spec.reading.signature import Function, Node, walk

__all__ = ["HINT", "LOOPS", "Variable", "declaration", "first_value", "pointer", "variables_of"]

HINT = "choose a loop around it, or write the loop into a function of its own"
"""What helps where a loop cannot be a function."""
LOOPS = ("ForStmt", "WhileStmt", "DoStmt", "CXXForRangeStmt")
_NAMED_TYPES = ("TypedefDecl", "TypeAliasDecl")
_WORD = re.compile(r"[A-Za-z_]\w*")
_ARRAY = re.compile(r"[^\[]*\[")
_REACHED = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.floordiv}
_WHOLE = re.compile(r"-?\d+")
_EXTENT = re.compile(r"\[([^\]]*)\]")
_NUMBER = re.compile(
    r"(?:(?:const|signed|unsigned|char|short|int|long|float|double|bool|wchar_t|char\d+_t|__int128|_Float\d+)\s*)+"
)
_UNNAMED = re.compile(r"\bvolatile\b|\(unnamed|\(anonymous|\(lambda")


@dataclass(slots=True)
class Variable:
    """A variable of the function that a loop uses.

    Attributes:
        node: its declaration.
        written: its text, where it is a parameter.
        around: loops of the function that its declaration stands in.
        own_types: names of types that are known in the function alone.
        inside: whether the loop changes it, or hands its address on.
        brought: whether the loop may use a value that it had before.
        outside: whether what is outside of the loop uses it.
    """

    node: Node
    written: str
    around: frozenset[int] = frozenset()
    own_types: frozenset[str] = frozenset()
    inside: bool = False
    brought: bool = False
    outside: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.node["name"])

    @property
    def type(self) -> str:
        """As it can be written outside of the function."""
        kind = self.node["type"]
        written = str(kind["qualType"])
        unknown = self.own_types.intersection(_WORD.findall(written))
        return str(kind.get("desugaredQualType", written)) if unknown else written

    @property
    def declared(self) -> str:
        """As a parameter that is the variable."""
        return self.written or declaration(self.type, self.name)

    @property
    def extents(self) -> set[str]:
        """Names in the extents of an array."""
        return {word for each in _EXTENT.findall(self.declared) for word in _WORD.findall(each)}

    @property
    def itself(self) -> bool:
        """Whether a parameter declared like it is the variable, not its value."""
        return "[" in self.type or self.type.endswith("&")

    def is_object(self, language: str) -> bool:
        """Whether it is an object of C++, for which no copy may stand."""
        kind = self.node["type"]
        plain = str(kind.get("desugaredQualType", kind["qualType"]))
        return language == "c++" and not self.itself and not _NUMBER.fullmatch(plain) and "*" not in plain


def variables_of(function: Function, loop: Node, text: bytes) -> list[Variable]:
    """Variables of the function that a loop uses, and those that extents of them name, in order of declaration.

    Args:
        function: around the loop.
        loop: of its tree.
        text: of the file.

    Raises:
        UsageError: one of them cannot be handed to another function.
    """
    inside = {id(node) for node in walk(loop)}
    known: dict[str, Variable] = {}
    named = {n["name"] for n in walk(function.tree) if n.get("kind") in _NAMED_TYPES}
    own_types = frozenset({"auto", "decltype", *named})
    for node, parents in _paths(function.tree):
        if node.get("kind") in ("VarDecl", "ParmVarDecl") and id(node) not in inside and "name" in node:
            known[node["id"]] = Variable(
                node, _written(node, text), around=_loops(parents), own_types=own_types
            )
    used, changed = _look(function, loop, known, inside)
    by_name = {variable.name: key for key, variable in known.items()}
    for key in list(used):
        variable = known[key]
        if _UNNAMED.search(variable.type):
            raise UsageError(f"it uses {variable.name}, `{variable.type}`", HINT)
        for name in variable.extents & by_name.keys():
            if by_name[name] in changed:
                raise UsageError(f"an extent of {variable.name} is {name}, which changes", HINT)
            used.add(by_name[name])
    return [variable for key, variable in known.items() if key in used]


def first_value(function: Function, loop: Node, variable: Variable) -> str:
    """The number that a variable has where the loop begins the first time, as text; empty where it is not plain to see.

    It is what the nearest statement before the loop says that names the variable.
    """
    key = variable.node["id"]
    around = next(parents for node, parents in _paths(function.tree) if node is loop)
    inside = loop
    for block in around:
        if block.get("kind") == "CompoundStmt":
            before = block["inner"][: next(i for i, child in enumerate(block["inner"]) if child is inside)]
            for statement in reversed(before):
                named = [
                    n for n in walk(statement) if key in (n.get("id"), n.get("referencedDecl", {}).get("id"))
                ]
                if named:
                    return _number(_given(statement, key))
        inside = block
    return ""


def _given(statement: Node, key: str) -> Node:
    """What a statement gives a variable, where it does nothing else with it."""
    inner = statement.get("inner", [])
    if statement.get("kind") == "DeclStmt":
        return next((n["inner"][-1] for n in inner if n.get("id") == key and n.get("init")), {})
    if statement.get("opcode") == "=" and inner[0].get("referencedDecl", {}).get("id") == key:
        value: Node = inner[1]
        return value
    return {}


def _number(node: Node) -> str:
    """The text of a constant, or empty."""
    inner = [child for child in node.get("inner", []) if child]
    kind = node.get("kind")
    if kind in ("IntegerLiteral", "FloatingLiteral"):
        return str(node["value"])
    if kind in ("ImplicitCastExpr", "CStyleCastExpr", "ParenExpr", "ConstantExpr") and len(inner) == 1:
        return _number(inner[0])
    if kind == "UnaryOperator" and node.get("opcode") == "-":
        value = _number(inner[0])
        return f"-{value}" if value and not value.startswith("-") else ""
    if kind == "BinaryOperator" and node.get("opcode") in _REACHED:
        left, right = map(_number, inner)
        if (
            _WHOLE.fullmatch(left)
            and _WHOLE.fullmatch(right)
            and (node["opcode"] != "/" or int(right) > 0 <= int(left))
        ):
            return str(_REACHED[node["opcode"]](int(left), int(right)))
    return ""


def _written(node: Node, text: bytes) -> str:
    """A parameter's declaration where no macro writes it and nothing stands for what is left out."""
    begin, end = node["range"]["begin"], node["range"]["end"]
    if node["kind"] != "ParmVarDecl" or "offset" not in begin or "offset" not in end:
        return ""
    found = text[begin["offset"] : end["offset"] + end["tokLen"]].decode()
    return found if "=" not in found and node["name"] in _WORD.findall(found) else ""


def _look(
    function: Function, loop: Node, known: dict[str, Variable], inside: set[int]
) -> tuple[set[str], set[str]]:
    """Which variables the loop uses, and which change anywhere behind their declaration."""
    used, changed, again = set[str](), set[str](), frozenset[int]()
    for node, parents in _paths(function.tree):
        if node is loop:
            again = _loops(parents)
        key = node.get("referencedDecl", {}).get("id", "") if node.get("kind") == "DeclRefExpr" else ""
        variable = known.get(key)
        if variable is None:
            continue
        read, within = _only_read(node, parents), id(node) in inside
        changed |= set() if read else {key}
        around = [parent for parent in parents if within == (id(parent) in inside)]
        counted = _counted_anew(key, around, loop)
        if not within:
            variable.outside |= not counted
            continue
        used.add(key)
        variable.inside |= not read
        variable.brought |= not counted
        if "[" in variable.type and any(p.get("kind") == "UnaryExprOrTypeTraitExpr" for p in parents):
            raise UsageError(f"it asks for the size of {variable.name}", HINT)
    jumps = any(node.get("kind") == "LabelStmt" for node in walk(function.tree))
    for variable in known.values():
        node = variable.node
        began = node.get("init") or node.get("storageClass") == "static" or node["kind"] == "ParmVarDecl"
        variable.outside |= variable.brought and bool(began or jumps or again - variable.around)
    return used, changed


def _loops(parents: Sequence[Node]) -> frozenset[int]:
    return frozenset(id(parent) for parent in parents if parent.get("kind") in LOOPS)


def _paths(node: Node) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """A node and all below it, each with those around it, the innermost first."""
    stack: list[tuple[Node, tuple[Node, ...]]] = [(node, ())]
    while stack:
        top, around = stack.pop()
        yield top, around
        stack.extend((child, (top, *around)) for child in reversed(top.get("inner", [])) if child)


def _only_read(node: Node, parents: Sequence[Node]) -> bool:
    """Whether a variable's value is all that is asked for."""
    for parent in parents:
        kind = parent.get("kind")
        if kind == "UnaryExprOrTypeTraitExpr":
            return True
        if kind == "ImplicitCastExpr":
            return bool(parent.get("castKind") == "LValueToRValue")
        if kind == "ParenExpr" or (kind == "MemberExpr" and not parent.get("isArrow")):
            continue
        return False
    return False


def _counted_anew(key: str, parents: Sequence[Node], loop: Node) -> bool:
    """Whether a variable stands in a loop that gives it a first value; not one around the given."""
    for parent in parents:
        if parent.get("kind") != "ForStmt" or (parent is not loop and any(n is loop for n in walk(parent))):
            continue
        first = (parent.get("inner") or [{}])[0]
        while first.get("opcode") == ",":
            first = first["inner"][0]
        if first.get("opcode") != "=":
            continue
        given, value = first["inner"]
        if given.get("referencedDecl", {}).get("id") == key and not any(
            n.get("referencedDecl", {}).get("id") == key for n in walk(value)
        ):
            return True
    return False


def declaration(kind: str, name: str) -> str:
    """A variable of a type as clang writes types."""
    found = re.search(r"\((\*+)[^()]*\)", kind)
    if found is not None:
        end = found.end() - 1
        return f"{kind[:end]}{name}{kind[end:]}"
    array = _ARRAY.match(kind)
    if array is not None:
        end = array.end() - 1
        return f"{kind[:end].rstrip()} {name}{kind[end:]}"
    return f"{kind}{'' if kind.endswith(('*', '&')) else ' '}{name}"


def pointer(kind: str) -> str:
    """The type of a variable's address."""
    found = re.search(r"\(\*", kind)
    if found is not None:
        return f"{kind[: found.end()]}*{kind[found.end() :]}"
    return f"{kind}*" if kind.endswith("*") else f"{kind} *"
