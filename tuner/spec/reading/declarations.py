"""What declarations say of what a function uses: extents of arrays, types behind a `void *`, values of enumerators.

Clang is asked, about extents in the function itself, as other declarations may have other extents. May not judge
accesses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tuner.core.source_text import source_text
from tuner.spec.reading.c_types import CType, c_type
from tuner.spec.reading.made_nodes import rebuilt
from tuner.spec.reading.nodes import Node, body_of, parameter_nodes, plain_type, walk
from tuner.spec.reading.record_layouts import element_type
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import THROUGH, callee_name, inner_nodes, peeled, referenced

__all__ = ["declared", "enumerators", "with_numbers"]

Lookup = Callable[[str], Function | None]

_PROBE = "tuner_extents_probe_"
_MAX_CALLS = 3
_ENUMERATOR = "tuner_enumerator_probe_"
_ARRAY = re.compile(r"(?P<element>[^\[\]]+?) ?(?P<extents>(?:\[\d+\])*)")


def declared(function: Function, reader: SourceReader, lookup: Lookup) -> Function:
    """A function of the first file whose parameters and pointers to arrays have their types in their nodes.

    An array's is the one that it is declared with. A parameter of the type `void *` gets the type that it is used as.
    Without what stands in a macro.

    Args:
        function: with its tree.
        reader: of the source.
        lookup: gives other functions by name.
    """
    asked = dict(_asked(function.tree, reader.files[0].data))
    kinds = _answers(asked, function.tree, reader)

    def changed(node: Node) -> Node:
        found = kinds.get(node.get("id", "")) if str(node.get("kind")).endswith("VarDecl") else None
        return {**node, "inner": found + node.get("inner", [])} if found else node

    def behind_void(node: Node, kind: CType) -> CType | None:
        void = kind.pointer and kind.base == "void" and not kind.odd
        return type_behind(node["id"], function, lookup) if void else None

    tree = rebuilt(function.tree, changed)
    parameters = tuple(
        (name, behind_void(node, kind) or kind)
        for node, (name, kind) in zip(parameter_nodes(tree), function.parameters, strict=True)
    )
    return replace(function, tree=tree, parameters=parameters)


def _asked(tree: Node, text: bytes) -> Iterator[tuple[str, tuple[str, int]]]:
    """Declarations' names by their identities, and the byte of the source behind which their types are asked for."""
    body = body_of(tree)
    at = body.get("range", {}).get("begin", {}).get("offset", 0)
    if text[at : at + 1] != b"{":
        return
    for node in parameter_nodes(tree):
        if "name" in node:
            yield node["id"], (node["name"], at + 1)
    for block in (node for node in walk(body) if node.get("kind") == "CompoundStmt"):
        for statement in (s for s in inner_nodes(block) if s.get("kind") == "DeclStmt"):
            end = statement.get("range", {}).get("end", {}).get("offset", 0)
            for node in inner_nodes(statement) if text[end : end + 1] == b";" else ():
                if node.get("kind") == "VarDecl" and "init" in node and "(*" in plain_type(node):
                    yield node["id"], (node["name"], end + 1)


def _answers(asked: dict[str, tuple[str, int]], tree: Node, reader: SourceReader) -> dict[str, list[Node]]:
    """Nodes of types by the declarations that have them."""
    text, at = b"", 0
    source = reader.files[0].data
    numbered = sorted(enumerate(asked.values()), key=lambda each: each[1][1])
    for number, (name, end) in numbered:
        probe = f" typedef __typeof__({name}) {_PROBE}{number}_;".encode()
        text, at = text + source[at:end] + probe, end
    text += source[at:]
    if not asked:
        return {}
    trees = reader.with_text(source_text(text)).trees(_PROBE, extra="\n")
    ids = list(asked)
    # What is asked stands before the answer.
    kinds = {ids[int(t["name"].removeprefix(_PROBE)[:-1])]: t["inner"][0]["inner"][1:] for t in trees}
    own = _own_names(tree)
    for meant in (n.get("referencedDecl", {}) for inner in kinds.values() for k in inner for n in walk(k)):
        # Identities are of one run of clang.
        meant["id"] = own.get(meant.get("name"), "")
    return kinds


def _own_names(tree: Node) -> dict[str, str]:
    """Identities of parameters and variables by their names; of variables that share one, none."""
    found: dict[str, str] = {}
    for node in walk(tree):
        if node.get("kind") == "VarDecl":
            found[node["name"]] = "" if node["name"] in found else node["id"]
    return {**found, **{node["name"]: node["id"] for node in parameter_nodes(tree) if "name" in node}}


def type_behind(identity: str, function: Function, lookup: Lookup, depth: int = 0) -> CType | None:
    """The type that a `void *` is converted to first, in the function or one that it is handed to; ``None`` for none.

    Args:
        identity: of the pointer's declaration.
        function: with its tree.
        lookup: gives other functions by name.
        depth: of calls that were followed.
    """
    for node in walk(function.tree):
        inner = inner_nodes(node)
        if node.get("kind") == "CallExpr" and depth < _MAX_CALLS:
            called = lookup(callee_name(inner[0])) if any(_is(each, identity) for each in inner[1:]) else None
            nodes = parameter_nodes(called.tree) if called is not None else []
            for parameter, argument in zip(nodes, inner[1:], strict=False):
                if called is not None and _is(argument, identity):
                    found = type_behind(parameter["id"], called, lookup, depth + 1)
                    if found is not None:
                        return found
        elif node.get("kind") in THROUGH and _is(node, identity):
            kind = c_type(node.get("type", {}))
            if (
                kind.pointer
                and not kind.odd
                and kind.base not in ("void", "char", "unsigned char", "signed char")
            ):
                return kind
    return None


def _is(node: Node, identity: str) -> bool:
    return referenced(peeled(node)) == identity


def with_numbers(function: Function, reader: SourceReader) -> Function:
    """The function with the values of those enumerators that the end of the source can name, and counts of elements.

    Args:
        function: with its tree.
        reader: of the source that it is from.
    """
    own = {node["id"] for node in walk(function.tree) if node.get("kind") == "EnumConstantDecl"}
    meant = [_enumerator(node) for node in walk(function.tree)]
    names = sorted({str(each["name"]) for each in meant if each and each["id"] not in own})
    # The sum makes clang say the value, of C and of C++ alike.
    lines = [f"enum {{ {_ENUMERATOR}{i}_ = {name} + 0LL }};" for i, name in enumerate(names)]
    found = reader.probed(_ENUMERATOR, lines)[0]
    numbers = {names[i]: value for i, tree in found.items() if (value := _value(tree))}

    def number(node: Node) -> Node:
        meant = _enumerator(node)
        value = numbers.get(meant["name"]) if meant and meant["id"] not in own else _elements(node)
        return node if value is None else _number(node, value)

    return replace(function, tree=rebuilt(function.tree, number))


def _elements(node: Node) -> str | None:
    """Of ``sizeof taps / sizeof taps[0]`` how often the one goes into the other."""
    if node.get("kind") != "BinaryOperator" or node.get("opcode") != "/":
        return None
    parts = [_ARRAY.fullmatch(_measured(peeled(part))) for part in inner_nodes(node)]
    (whole, one), alike = parts, {part and part["element"] for part in parts}
    if whole is None or one is None or len(alike) > 1:
        return None
    counts = [math.prod(map(int, re.findall(r"\d+", part["extents"]))) for part in (whole, one)]
    return str(counts[0] // counts[1])


def _measured(node: Node) -> str:
    """The type that ``sizeof`` is asked of; empty for anything else."""
    asked = [{"type": node["argType"]}] if "argType" in node else inner_nodes(node)
    return plain_type(asked[0]) if node.get("name") == "sizeof" and asked else ""


def enumerators(kind: CType, reader: SourceReader) -> tuple[int, ...]:
    """The values of an enumeration's names, in their order; none of any other type, or where they are not known.

    Args:
        kind: of it, or of a pointer to it.
        reader: of the source.
    """
    if not (kind.enumeration or kind.base == "enum"):
        return ()
    name = re.findall(r"\w+", element_type(kind))[-1]
    found = set()
    for tree in reader.trees(name):
        # One that a typedef alone names has no name there.
        if tree.get("kind") == "EnumDecl" and tree.get("name", name) == name and inner_nodes(tree):
            values: list[int] = []
            for each in inner_nodes(tree):
                values.append(int(_value(each) or (values[-1] + 1 if values else 0)))
            found.add(tuple(values))
    return found.pop() if len(found) == 1 else ()


def _enumerator(node: Node) -> Node:
    """What a name stands for, where that is one."""
    meant: Node = node.get("referencedDecl", {}) if node.get("kind") == "DeclRefExpr" else {}
    return meant if meant.get("kind") == "EnumConstantDecl" else {}


def _value(probe: Node) -> str:
    whole = (n["value"] for n in walk(probe) if n.get("kind") == "ConstantExpr" and "value" in n)
    return next(whole, "")


def _number(node: Node, value: str) -> Node:
    plain: Node = {key: node[key] for key in ("id", "range", "type", "valueCategory") if key in node}
    literal: Node = {**plain, "kind": "IntegerLiteral", "value": value.removeprefix("-")}
    negative = value.startswith("-")
    return {**plain, "kind": "UnaryOperator", "opcode": "-", "inner": [literal]} if negative else literal
