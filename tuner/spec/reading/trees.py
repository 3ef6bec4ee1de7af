"""Steps through clang's syntax trees: what parentheses hold, what names refer to, where variables change.

Knows single nodes only; what they stand for is :mod:`tuner.spec.reading.frames`'s.
"""

from __future__ import annotations

from collections import Counter

from tuner.spec.reading.nodes import Node, below, parameter_nodes, paths, plain_type, walk

__all__ = [
    "CASTS",
    "THROUGH",
    "WRAPPERS",
    "assigned_only",
    "callee_name",
    "changed_in",
    "changes",
    "conjuncts",
    "first_values",
    "inner_nodes",
    "member_path",
    "only_read_whole",
    "peeled",
    "pointer_of",
    "referenced",
    "walked",
]

CASTS = {
    "ImplicitCastExpr",
    "CStyleCastExpr",
    "CXXConstCastExpr",
    "CXXReinterpretCastExpr",
    "CXXStaticCastExpr",
    "CXXFunctionalCastExpr",
}
_REPEATING = ("ForStmt", "WhileStmt", "DoStmt")
WRAPPERS = {"ParenExpr", "ConstantExpr", "ExprWithCleanups"}
THROUGH = CASTS | WRAPPERS


def only_read_whole(tree: Node) -> set[str]:
    """The parameters of a function that occur as ``*name``, which is never written to, and in no other way."""
    occurring, read = Counter[str](), Counter[str]()
    for node in walk(tree):
        if node.get("kind") == "DeclRefExpr":
            occurring[referenced(node)] += 1
        elif node.get("kind") == "UnaryOperator" and node.get("opcode") == "*":
            read[referenced(peeled(inner_nodes(node)[0]))] += 1
        elif changes(node) or (node.get("kind") == "UnaryOperator" and node.get("opcode") == "&"):
            target = peeled(inner_nodes(node)[0])
            if target.get("opcode") == "*":
                read[referenced(peeled(inner_nodes(target)[0]))] -= 1
    return {p["id"] for p in parameter_nodes(tree) if occurring.get(p["id"], 0) == read.get(p["id"], -1)}


def inner_nodes(node: Node) -> list[Node]:
    """A node's children; those that are left out are empty."""
    return [child if child else {} for child in below(node)]


def peeled(node: Node) -> Node:
    """What parentheses and conversions hold."""
    while node.get("kind") in THROUGH and inner_nodes(node):
        node = inner_nodes(node)[0]
    return node


def member_path(node: Node) -> tuple[Node, list[str]]:
    """What a member is a part of, and the names from there; anything else itself."""
    names: list[str] = []
    while node.get("kind") == "MemberExpr" and inner_nodes(node):
        names.insert(0, str(node.get("name")))
        node = peeled(inner_nodes(node)[0])
    return node, names


def callee_name(callee: Node) -> str:
    """The name of what a call calls; empty where it is no function's name."""
    return str(peeled(callee).get("referencedDecl", {}).get("name", ""))


def referenced(node: Node) -> str:
    """The identity of what a name refers to."""
    return str(node.get("referencedDecl", {}).get("id", ""))


def changes(node: Node) -> bool:
    """Whether something is assigned to."""
    kind, operator = node.get("kind"), node.get("opcode")
    if kind == "CompoundAssignOperator":
        return True
    return (kind == "BinaryOperator" and operator == "=") or (
        kind == "UnaryOperator" and operator in ("++", "--")
    )


def changed_in(tree: Node) -> set[str]:
    """The identities of the variables that change in a part of a tree."""
    targets = (peeled(inner_nodes(node)[0]) for node in walk(tree) if changes(node))
    return {referenced(target) for target in targets}


def pointer_of(element: Node) -> Node:
    """The pointer that an element's subscripts, however many, or star begin with."""
    while element.get("kind") == "ArraySubscriptExpr" or element.get("opcode") == "*":
        element = peeled(inner_nodes(element)[0])
    return element


def conjuncts(condition: Node) -> list[Node]:
    """What holds where a condition does."""
    condition = peeled(condition)
    if condition.get("kind") == "BinaryOperator" and condition.get("opcode") == "&&":
        return [part for side in inner_nodes(condition) for part in conjuncts(side)]
    return [condition]


def assigned_only(tree: Node) -> dict[str, list[Node]]:
    """What the local variables are set to that begin without a value and change in no other way."""
    begun = {n["id"] for n in walk(tree) if n.get("kind") == "VarDecl" and not n.get("inner")}
    found: dict[str, list[Node]] = {}
    for node in walk(tree):
        target = referenced(peeled(inner_nodes(node)[0])) if inner_nodes(node) else ""
        if node.get("kind") == "BinaryOperator" and node.get("opcode") == "=" and target in begun:
            found.setdefault(target, []).append(inner_nodes(node)[1])
        elif changes(node) or node.get("opcode") == "&":
            begun.discard(target)
    return {name: values for name, values in found.items() if name in begun}


def walked(tree: Node) -> dict[str, list[tuple[tuple[str, ...], Node]]]:
    """Pointers that something is added to within one loop, and that change in no other way: loops and place of each.

    Loops are meant in which the pointer is not declared, the innermost last.
    """
    declared: dict[str, tuple[str, ...]] = {}
    found: dict[str, list[tuple[tuple[str, ...], Node]]] = {}
    for node, parents in paths(tree):
        loops = tuple(p["id"] for p in reversed(parents) if p.get("kind") in _REPEATING)
        if node.get("kind") == "VarDecl":
            declared[node["id"]] = loops
        elif changes(node):
            name = referenced(peeled(inner_nodes(node)[0]))
            adds = node["opcode"] in ("++", "+=") and "*" in plain_type(node)
            around = tuple(each for each in loops if each not in declared.get(name, ()))
            found.setdefault(name, []).append((around if adds else (), node))
    outermost = {name: {loops[:1] for loops, _ in places} for name, places in found.items()}
    return {n: places for n, places in found.items() if len(outermost[n]) == 1 and () not in outermost[n]}


def first_values(tree: Node) -> dict[str, Node]:
    """What local variables are declared with that change at one place alone."""
    times = Counter(referenced(peeled(inner_nodes(node)[0])) for node in walk(tree) if changes(node))
    declared = (node for node in walk(tree) if node.get("kind") == "VarDecl" and inner_nodes(node))
    return {node["id"]: inner_nodes(node)[-1] for node in declared if times[node["id"]] == 1}
