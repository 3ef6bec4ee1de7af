"""What the pointers of a function may lead to, and which objects others may reach, in whatever order it runs.

Whatever a part of the tree does that this module does not know counts as made known to others. Read from clang's
syntax tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.errors import BaselineError
from tuner.core.reaching import reachable
from tuner.spec.reading import known_calls
from tuner.spec.reading.address_sources import (
    UNKNOWN,
    Sources,
    is_plain_new,
    is_pointer,
    is_reference,
)
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.loop_variables import Variable
from tuner.spec.reading.nodes import Node, named_in, parameter_nodes, paths, plain_type, walk
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.trees import CASTS, WRAPPERS, inner_nodes, peeled, referenced

__all__ = ["Callees", "Flows"]

_MOST_CALLEES = 24
"""As many functions that a function calls are read."""
_PASSING = {
    "BitCast",
    "NoOp",
    "ToVoid",
    "NullToPointer",
    "FunctionToPointerDecay",
    "PointerToBoolean",
    "IntegralCast",
    "IntegralToPointer",
    "LValueToRValue",
    "ArrayToPointerDecay",
    "BuiltinFnToFnPtr",
}
"""Conversions that :meth:`Sources.value` follows, or behind which there is no address."""
_FOLLOWED = WRAPPERS | {
    *("ArraySubscriptExpr", "MemberExpr", "ConditionalOperator", "CompoundAssignOperator", "BinaryOperator"),
    *("CompoundStmt", "IfStmt", "ForStmt", "WhileStmt", "DoStmt", "SwitchStmt", "CaseStmt", "DefaultStmt"),
    *(
        "LabelStmt",
        "AttributedStmt",
        "DeclStmt",
        "CXXForRangeStmt",
        "UnaryExprOrTypeTraitExpr",
        "CXXDeleteExpr",
    ),
}
"""What may have an address in it that goes no further than :class:`Flows` follows it."""
_REPLACED = {"WeakAttr", "IFuncAttr", "AliasAttr", "TargetClonesAttr"}
_OPERATORS = {"&", "*", "++", "--", "!"}
_HIDDEN = {
    *("CXXOperatorCallExpr", "CXXMemberCallExpr", "UserDefinedLiteral", "CXXConstructExpr", "CXXDeleteExpr"),
    *("CXXTemporaryObjectExpr", "CXXInheritedCtorInitExpr", "AtomicExpr", "VAArgExpr", "CXXThrowExpr"),
    *("LambdaExpr", "BlockExpr", "CXXNewExpr", "CXXDynamicCastExpr", "CoawaitExpr", "CoyieldExpr"),
}
"""What may run code that is not to be seen."""


class Callees:
    """The functions of a file, as others of it call them.

    Args:
        reader: of the file.
    """

    def __init__(self, reader: SourceReader) -> None:
        self._reader = reader
        self.language = reader.language
        self._read: dict[tuple[str, str], Flows | None] = {}
        self.names = frozenset(functions_of(reader.files[0].text))

    def flows(self, name: str, kind: str) -> Flows | None:
        """Those in one function; ``None`` where its body is not known.

        Args:
            name: without namespaces.
            kind: its type, as clang writes it.
        """
        key = name, kind
        if key not in self._read and name in self.names:
            # One that calls itself is not known while it is read.
            self._read[key] = None
            if len(self._read) <= _MOST_CALLEES:
                self._read[key] = self._flows(name, kind)
        return self._read.get(key)

    def _flows(self, name: str, kind: str) -> Flows | None:
        try:
            declared = self._reader.functions(name, included=True)
        except BaselineError:
            return None
        named = [f for f in declared if f.tree.get("type", {}).get("qualType") == kind]
        found = [f for f in named if f.defined and f.tree["kind"] == "FunctionDecl"]
        # Another namespace may have one of that name and type too.
        several = len({f.tree.get("mangledName") for f in named}) > 1
        if len(found) != 1 or several or any(f.template for f in declared):
            return None
        if any(child.get("kind") in _REPLACED for child in found[0].tree["inner"]):
            return None
        flows = Flows(found[0].tree, self)
        flows.touches = flows.touched(flows.tree)
        return flows


class Flows(Sources):
    """Of one function.

    Args:
        tree: the function's.
        callees: functions of its file.

    Attributes:
        returned: what it returns.
        touches: what it may access otherwise than by its parameters, for one that is called.
    """

    def __init__(self, tree: Node, callees: Callees) -> None:
        super().__init__(callees.language)
        self._callees = callees
        self.tree = tree
        self.returned: set[str] = set()
        self.touches: set[str] = {UNKNOWN}
        self._holds: dict[str, set[str]] = {}
        self._escaped: set[str] = set()
        for node in walk(tree):
            kind, stored = node.get("kind"), node.get("storageClass")
            if (
                kind in ("VarDecl", "ParmVarDecl")
                and stored not in ("static", "extern")
                and "tls" not in node
            ):
                self.variables[node["id"]] = node
        for parameter in parameter_nodes(tree):
            letter = "p" if Variable(parameter, "").restrict else "i"
            self._holds[parameter["id"]] = {f"{letter}:{parameter['id']}"}
        for node, parents in paths(tree):
            self._follow(node, parents)
        self._spoil()
        self.escaped = self.reach(self._escaped)

    def reach(self, sources: set[str]) -> set[str]:
        """The objects that addresses from these lead to."""
        held = reachable(sources, lambda s: self._holds.get(s[2:], ()) if s.startswith("v:") else ())
        return {source for source in held if not source.startswith("v:")}

    def touched(self, part: Node) -> set[str]:
        """What a part of the function may access otherwise than by the function's variables.

        Variables of the file by their names, and ``?`` for what is not known.
        """
        found = set[str]()
        for node, _ in paths(part):
            kind, inner = str(node.get("kind")), inner_nodes(node)
            if kind == "CallExpr":
                found |= self._touched_by(node)
            elif kind == "CXXNewExpr" and is_plain_new(node):
                continue
            elif kind in _HIDDEN or kind.endswith("AsmStmt") or kind.startswith("OMP"):
                found.add(UNKNOWN)
            elif kind == "DeclRefExpr":
                named = self.named(node.get("referencedDecl", {}))
                found |= {each for each in named if each.startswith("g:")}
                found |= self.reach(named | {f"v:{referenced(node)}"}) & {UNKNOWN}
            elif kind == "ArraySubscriptExpr" or node.get("opcode") == "*" or node.get("isArrow"):
                found |= self.reach(set().union(*map(self.value, inner))) & {UNKNOWN}
        return found

    def _follow(self, node: Node, parents: Sequence[Node]) -> None:
        """Notes where one node's parts go."""
        kind = str(node.get("kind"))
        children = [child for child in inner_nodes(node) if "valueCategory" in child]
        if kind == "VarDecl":
            self._begin(node, children)
            if parents and parents[0].get("kind") == "CXXCatchStmt":
                self._holds.setdefault(node["id"], set()).add(UNKNOWN)
        elif kind == "BinaryOperator" and node.get("opcode") == "=" and "*" in plain_type(node):
            self._assign(*children)
        elif kind == "ReturnStmt":
            self.returned |= set().union(*map(self.given, children))
        elif kind == "CallExpr":
            self._call(node, children[1:])
        elif kind in ("LambdaExpr", "BlockExpr") or kind.startswith("OMP"):
            for meant in named_in(node):
                self._escaped |= {f"v:{meant.get('id', '')}"}
                self._escaped |= self.named(meant) if kind.endswith("Expr") else set()
        elif not self._is_followed(node, parents):
            self._escaped |= set().union(*map(self.given, children))
        if kind == "CXXNewExpr" and any(n.get("kind") == "CXXConstructExpr" for n in inner_nodes(node)):
            self._escaped.add(f"h:{node['id']}")

    def _is_followed(self, node: Node, parents: Sequence[Node]) -> bool:
        kind = str(node.get("kind"))
        if kind == "CompoundStmt":
            return not parents or parents[0].get("kind") != "StmtExpr"
        if kind in CASTS:
            return node.get("castKind") in _PASSING
        if kind == "BinaryOperator" and node.get("opcode") in (".*", "->*"):
            return False
        return kind in _FOLLOWED or (kind == "UnaryOperator" and node.get("opcode") in _OPERATORS)

    def _begin(self, node: Node, children: list[Node]) -> None:
        """Follows the first value of a variable."""
        key, given = node["id"], set[str]().union(*map(self.given, children))
        inside = key in self.variables
        if inside and is_reference(node):
            self._holds.setdefault(key, set()).update(given or {UNKNOWN})
        elif inside and is_pointer(node):
            self._holds.setdefault(key, set()).update(given)
        else:
            self._escaped |= given
        kinds = [child.get("kind") for child in inner_nodes(node)]
        if "CleanupAttr" in kinds or "CXXConstructExpr" in kinds:
            self._escaped |= {f"o:{key}", f"v:{key}"}

    def _assign(self, left: Node, right: Node) -> None:
        target, given = peeled(left), self.given(right)
        variable = self.variables.get(referenced(target)) if target.get("kind") == "DeclRefExpr" else None
        if variable is not None and is_pointer(variable):
            self._holds.setdefault(variable["id"], set()).update(given)
        else:
            self._escaped |= given

    def _call(self, node: Node, arguments: list[Node]) -> None:
        name, callee = self.known(node), self._callee(node)
        for number, argument in enumerate(arguments):
            given = self.given(argument)
            if name == "posix_memalign" and number == 0:
                target = peeled(argument)
                key = referenced(peeled(inner_nodes(target)[0])) if target.get("opcode") == "&" else ""
                if key in self._holds or key in self.variables:
                    self._holds.setdefault(key, set()).add(f"h:{node['id']}")
                    continue
            kept = name not in known_calls.KEEP_NOTHING
            if callee is not None:
                kept = callee.keeps(number)
            # Whoever knows where a pointer is may change it.
            self._escaped |= given if kept else {each for each in given if self.is_pointer(each)}

    def keeps(self, number: int) -> bool:
        """Whether others may know what a parameter leads to when the function has returned."""
        found = parameter_nodes(self.tree)
        if number >= len(found):
            return True
        return not self.reach({f"v:{found[number]['id']}"}).isdisjoint(self.escaped)

    def _spoil(self) -> None:
        """Notes that a pointer whose own address is known may hold anything, and others what it holds."""
        named = set[str]().union(self._escaped, self.returned, *self._holds.values())
        for each in filter(self.is_pointer, named):
            self._holds.setdefault(each[2:], set()).add(UNKNOWN)
            self._escaped.add(f"v:{each[2:]}")

    def answer(self, call: Node) -> set[str]:
        """What a call returns."""
        name, arguments, callee = self.known(call), inner_nodes(call)[1:], self._callee(call)
        if name in known_calls.ALLOCATING:
            return {f"h:{call['id']}"}
        if name in known_calls.RETURN_FIRST and arguments:
            return self.value(arguments[0])
        if callee is None:
            return {UNKNOWN}
        found = set[str]()
        places = {parameter["id"]: number for number, parameter in enumerate(parameter_nodes(callee.tree))}
        for each in callee.reach(callee.returned):
            number = places.get(each[2:], len(arguments)) if each[:2] in ("i:", "p:") else len(arguments)
            if number < len(arguments):
                found |= self.given(arguments[number])
            elif each.startswith("h:") and each not in callee.escaped:
                found.add(f"h:{call['id']}")
            else:
                found |= {each} if each.startswith("g:") else {UNKNOWN}
        return found

    def _touched_by(self, call: Node) -> set[str]:
        name, callee = self.known(call), self._callee(call)
        given = [a for a in inner_nodes(call)[1:] if "valueCategory" in a]
        handed = self.reach(set().union(*map(self.given, given))) & {UNKNOWN}
        if name in known_calls.TOUCH_NOTHING:
            return handed
        return {UNKNOWN} if callee is None else handed | callee.touches

    def known(self, call: Node) -> str:
        """The name of a function of the standard library that is called; empty for any other."""
        meant = peeled(inner_nodes(call)[0]).get("referencedDecl", {})
        name, kind = str(meant.get("name", "")), str(meant.get("type", {}).get("qualType", ""))
        if meant.get("kind") != "FunctionDecl" or name in self._callees.names:
            return ""
        return known_calls.known_name(name, kind)

    def _callee(self, call: Node) -> Flows | None:
        meant = peeled(inner_nodes(call)[0]).get("referencedDecl", {})
        if meant.get("kind") != "FunctionDecl":
            return None
        return self._callees.flows(str(meant["name"]), str(meant["type"]["qualType"]))
