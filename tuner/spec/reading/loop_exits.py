"""How a loop in a function of its own is left: behind it, by a `goto` to a label outside, or by a `return`.

A `return` needs no other text in the loop: the function says through one more parameter whether it came by one. What
the function stores behind the loop it does not store then, so that nothing may see this afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import UsageError
from tuner.spec.reading.c_types import ROWS
from tuner.spec.reading.declarators import declaration, separate
from tuner.spec.reading.kept_addresses import is_kept
from tuner.spec.reading.loop_variables import HINT, Variable
from tuner.spec.reading.nodes import LOOPS, Node, below, paths, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import peeled

__all__ = ["Exits", "exits_of"]

_RESTRICT = re.compile(r"\s*\b(?:__)?restrict(?:__)?\b")
_UNWRITTEN = ("auto", "decltype")
_OWN_BODIES = ("LambdaExpr", "CXXRecordDecl", "BlockExpr")
"""What has a `return` of its own."""
_CHANGES = ("UnaryOperator", "BinaryOperator", "CompoundAssignOperator")


@dataclass(slots=True, kw_only=True)
class Exits:
    """What a loop's function returns, and what its call does after it.

    Attributes:
        unused: makes a name that nothing of the file has.
        labels: outside of the loop that it jumps to.
        returned: type of what the function around the loop returns, where the loop returns from it; else empty.
        parameter, at: the parameter that says whether the loop returned, as declared and by name; none where it always
            does.
        flag: the variable behind it where the function is called.
    """

    unused: Callable[[str], str]
    labels: Sequence[str] = ()
    returned: str = ""
    parameter: str = ""
    at: str = ""
    flag: str = ""
    _before: list[str] = field(default_factory=list)
    _behind: list[str] = field(default_factory=list)

    @property
    def type(self) -> str:
        """What the loop's function returns."""
        return self.returned or ("int" if self.labels else "void")

    def closing(self, behind: str) -> str:
        """Lines behind the loop.

        Args:
            behind: those that store what the loop changed.
        """
        if self.returned and not self.at:
            return ""
        if self.at:
            behind += f"    *{self.at} = 0;\n"
            # What is returned without a `return` in the loop is asked for by nothing, and has to be something.
            return behind + ("" if self.returned == "void" else "    return 0;\n")
        made = behind + ("    return 0;\n" if self.labels else "")
        for number, label in enumerate(self.labels, 1):
            made += f"{label}:\n{behind}    return {number};\n"
        return made

    def address(self, variable: Variable, *, back: bool) -> str:
        """The address of a variable in the call; of one in a register that of a copy.

        Args:
            variable: that is handed by its address.
            back: whether the loop changes it.
        """
        name = variable.name
        if variable.node.get("storageClass") != "register":
            return f"&{name}"
        kept = self.unused(f"{name}_kept")
        self._before.append(f"{declaration(_RESTRICT.sub('', variable.type), kept)} = {name};")
        self._behind += [f"{name} = {kept};"] if back else []
        return f"&{kept}"

    def call(self, symbol: str, values: str) -> str:
        """The statements that stand in the loop's place.

        Args:
            symbol: of the loop's function.
            values: that it is handed.
        """
        called, before, behind = f"{symbol}({values})", list(self._before), list(self._behind)
        if self.returned:
            value = "" if self.returned == "void" else self.unused("returned_value")
            before += [f"int {self.flag} = 0;"] if self.at else []
            called = f"{declaration(self.returned, value)} = {called}" if value else called
            asked = f"if ({self.flag}) " if self.at else ""
            behind.append(f"{asked}return{' ' if value else ''}{value};")
        elif self.labels:
            left = self.unused("left")
            called = f"int {left} = {called}"
            cases = " ".join(f"case {n}: goto {label};" for n, label in enumerate(self.labels, 1))
            behind.append(f"switch ({left}) {{ {cases} }}")
        return " ".join([*before, f"{called};", *behind])


def exits_of(
    function: Function,
    loop: Node,
    variables: Sequence[Variable],
    *,
    language: str,
    unused: Callable[[str], str],
) -> Exits:
    """How a loop is left.

    Where a loop of C++ returns, variables that objects may use when they end are marked as shared.

    Args:
        function: around the loop.
        loop: of its tree.
        variables: that the loop uses.
        language: ``c`` or ``c++``.
        unused: makes a name that nothing of the file has.

    Raises:
        UsageError: it returns in a way that a function of its own cannot pass on.
    """
    labels = _labels(function, loop)
    returns = [node for node in walk(loop, _OWN_BODIES) if node.get("kind") == "ReturnStmt"]
    if not returns:
        return Exits(unused=unused, labels=labels)
    if labels:
        raise UsageError(f"it returns, and goes to {labels[0]} outside of it as well", HINT)
    returned = _returned(function)
    if returned != "void" and any(not below(node) for node in returns):
        raise UsageError(f"it returns nothing from a function that returns `{returned}`", HINT)
    if language == "c++":
        held = _held_outside(function, loop)
        for variable in variables:
            variable.shared |= variable.inside and variable.node["id"] in held
    _require_unseen(function, loop, [v for v in variables if v.handed(language) == "address"])
    if _never_ends(loop):
        return Exits(unused=unused, returned=returned)
    at, flag = unused("returned_at"), unused("returned")
    declared = separate("int *", at, language)
    return Exits(unused=unused, returned=returned, parameter=declared, at=at, flag=flag)


def _held_outside(function: Function, loop: Node) -> set[str]:
    """Identities of variables whose address or name what is outside of a loop hands to something else.

    Objects of C++ may keep it, and use it when they end: behind a `return`.
    """
    inside = {id(node) for node in walk(loop)}
    found = set[str]()
    for node, parents in paths(function.tree):
        if node.get("kind") == "DeclRefExpr" and id(node) not in inside and _is_handed(parents):
            found.add(str(node["referencedDecl"]["id"]))
    return found


def _is_handed(parents: Sequence[Node]) -> bool:
    """Whether a name that stands in these, innermost first, stands for more than a value, and is no target."""
    if is_kept(parents, ()):
        return True
    for parent in parents:
        kind = str(parent.get("kind"))
        if parent.get("castKind") == "LValueToRValue" or kind.endswith("Stmt"):
            return False
        if kind in _CHANGES and parent.get("opcode") not in ("&", "*", ","):
            return False
        if kind.startswith("CXX") or kind == "CallExpr":
            return True
    return False


def _never_ends(loop: Node) -> bool:
    """Whether what stands behind a loop is plainly never reached from it."""
    inner = loop.get("inner", [])
    place = {"ForStmt": -3, "WhileStmt": -2, "DoStmt": -1}.get(str(loop["kind"]))
    if place is None:
        return False
    asked = peeled(inner[place]) if inner[place] else {}
    value = asked.get("value", "") if asked.get("kind") in ("IntegerLiteral", "CXXBoolLiteralExpr") else ""
    if asked and str(value) in ("", "0", "False"):
        return False
    return all(node.get("kind") != "BreakStmt" for node in walk(loop, (*LOOPS, "SwitchStmt")))


def _labels(function: Function, loop: Node) -> list[str]:
    """Labels outside that the loop jumps to."""
    own = {n["declId"] for n in walk(loop) if n.get("kind") == "LabelStmt"}
    names = {n["declId"]: n["name"] for n in walk(function.tree) if n.get("kind") == "LabelStmt"}
    targets = (n.get("targetLabelDeclId") for n in walk(loop) if n.get("kind") == "GotoStmt")
    return list(dict.fromkeys(str(names[each]) for each in targets if each not in own))


def _returned(function: Function) -> str:
    """The type that a function returns.

    Raises:
        UsageError: nothing says it, or it is one of which a number is no value.
    """
    kind = function.returns
    if kind is None:
        written = str(function.tree.get("type", {}).get("qualType", ""))
        if re.match(r"void ?\(", written) and not written.startswith("void (*"):
            return "void"
        raise UsageError("it returns from a function of a type that cannot be written before a name", HINT)
    if kind.text in _UNWRITTEN:
        raise UsageError(f"it returns from a function that returns `{kind.text}`", "write the type")
    if kind.odd not in ("", ROWS) or not (kind.dtypes or kind.pointer):
        cure = "write a function that takes numbers and pointers to numbers and calls it"
        raise UsageError(f"it returns `{kind.text}` from its function, which no spec can describe", cure)
    return kind.text


def _require_unseen(function: Function, loop: Node, stored: Sequence[Variable]) -> None:
    """Refuses variables that something may ask for after a `return`, when what the loop makes of them is not stored."""
    for variable in stored:
        if variable.static:
            raise UsageError(
                f"it returns, and {variable.name}, which it changes, outlives its function", HINT
            )
    own = {id(node) for node in walk(loop)}
    cleaned = [
        node
        for node in walk(function.tree)
        if id(node) not in own and any(c.get("kind") == "CleanupAttr" for c in node.get("inner", []))
    ]
    if cleaned and stored:
        what = f"the end of {cleaned[0].get('name')} may ask for {stored[0].name}"
        raise UsageError(f"it returns, and {what}, which it changes", HINT)
