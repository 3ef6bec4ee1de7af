"""Loops over the elements of a container of C++ (``for (auto &p : points)``) as loops that count them.

``p`` is ``points[p_at]`` in them. Made of clang's syntax tree; the file's text follows by edits.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tuner.core.source_text import source_bytes, source_text
from tuner.spec.reading.c_types import DTYPES, bare
from tuner.spec.reading.made_nodes import binary, integer, named, read, rebuilt
from tuner.spec.reading.nodes import Node, begin_of, location_of, plain_type, span_of, text_of, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import inner_nodes, peeled, referenced

__all__ = ["Counted", "counted"]

_KIND = "CXXForRangeStmt"
_COUNTER = {"qualType": "unsigned long"}
_END = re.compile(r"\s*;")
_METHOD = {"qualType": "<bound member function type>"}


@dataclass(frozen=True, slots=True)
class Counted:
    """A function with loops that count.

    Attributes:
        function, loop: its tree, and the loop of it that is looked at.
        edits: bytes of the file, and what is written there; what stands for the container is missing.
        containers: over which loops count, as they are written.
    """

    function: Function
    loop: Node
    edits: tuple[tuple[int, int, str], ...] = ()
    containers: frozenset[str] = frozenset()


def counted(function: Function, loop: Node, data: bytes, *, but: Collection[str] = ()) -> Counted:
    """With the loops of a loop, and itself, over a container with a name: those that give references, or numbers.

    Args:
        function: around the loop.
        loop: of its tree.
        data: the file's bytes.
        but: containers over which loops stay as they are.
    """
    making = _Making(data)
    for node in walk(loop):
        if node.get("kind") == _KIND:
            making.take(node, but)
    if not making.made:
        return Counted(function, loop)
    tree = rebuilt(function.tree, making.counted)
    new = next(node for node in walk(tree) if node.get("id") == loop["id"])
    return Counted(replace(function, tree=tree), new, tuple(making.edits), frozenset(making.containers))


@dataclass(slots=True)
class _Making:
    """Collects what stands for nodes."""

    data: bytes
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    containers: set[str] = field(default_factory=set)
    made: dict[int, Node] = field(default_factory=dict)
    elements: dict[str, tuple[Node, Node]] = field(default_factory=dict)

    def take(self, node: Node, but: Collection[str]) -> None:
        """A loop, where its parts are as they have to be."""
        parts = node.get("inner", [])
        if len(parts) != 8 or parts[0]:
            return
        (over,), (variable,) = (inner_nodes(parts[at]) for at in (1, 6))
        container = peeled(inner_nodes(over)[0]) if inner_nodes(over) else {}
        text, reference = text_of(container, self.data), str(variable.get("type", {}).get("qualType", ""))
        if variable.get("kind") != "VarDecl" or "&&" in reference:
            return
        spans = [span_of(each) for each in (node, container, parts[7])]
        # Bits are no elements that lie in memory.
        if not text or text in but or None in spans or "vector<bool" in plain_type(container):
            return
        (begin, end), (first, last), (body, _) = (span for span in spans if span is not None)
        name = self._unused(f"{variable['name']}_at")
        dropped = "\n" * (self.data[begin:first] + self.data[last:body]).count(b"\n")
        counter = {"id": f"counter {name}", "kind": "VarDecl", "name": name, "type": _COUNTER}
        container = {**container, "text": text}
        made, statement, declares = node, parts[7], ""
        if reference.endswith("&"):
            self.edits.append((last, body, f"; {name}++) {dropped}"))
            self.elements[str(variable["id"])] = counter, container
        else:
            ends = self._end(parts[7], end)
            bracket, declares = self.data.find(b")", last, body), self._declared(variable)
            if not ends or not declares or self.data[last:bracket].strip():
                return
            where = {key: {"offset": bracket, "tokLen": 1} for key in ("begin", "end")}
            statement = _declaring(variable, counter, {**container, "range": where}, parts[7])
            made = {**node, "range": {**node["range"], "end": {"offset": ends - 1, "tokLen": 1}}}
            opens = parts[7].get("kind") == "CompoundStmt"
            # The element stands in the place of the bracket.
            self.edits += [
                (last, bracket, f"; {name}++) {{ {declares} = "),
                (bracket + 1, body + opens, f"[{name}];{dropped}{'' if opens else ' '}"),
                *([] if opens else [(ends, ends, " }")]),
            ]
        self.edits.append((begin, first, f"for (unsigned long {name} = 0; {name} < "))
        self.containers.add(text)
        self.made[id(node)] = _loop(made, counter, container, statement)

    def _declared(self, variable: Node) -> str:
        """A number as it is declared; empty for anything else, and where a macro declares it."""
        begin, end = begin_of(variable), location_of(variable["loc"]).get("offset")
        if begin is None or end is None or bare(plain_type(variable)) not in DTYPES:
            return ""
        return source_text(self.data[begin:end]) + str(variable["name"])

    def _end(self, body: Node, end: int) -> int:
        """The byte behind a loop, its semicolon included; 0 where something else ends it."""
        ends = _END.match(source_text(self.data[end:]))
        if body.get("kind") == "CompoundStmt" or self.data[end - 1 : end] == b"}":
            return end
        return 0 if ends is None else end + len(source_bytes(ends[0]))

    def counted(self, node: Node) -> Node:
        """What stands for a node."""
        if node.get("kind") != "DeclRefExpr" or referenced(node) not in self.elements:
            return self.made.get(id(node), node)
        counter, container = self.elements[referenced(node)]
        end = span_of(node)
        assert end is not None
        self.edits.append((end[1], end[1], f"[{counter['name']}]"))
        return _element(node, counter, container)

    def _unused(self, name: str) -> str:
        taken = {counter["name"] for counter, _ in self.elements.values()}
        while name in taken or re.search(rf"\b{name}\b", source_text(self.data)):
            name += "_"
        return name


def _loop(node: Node, counter: Node, container: Node, body: Node) -> Node:
    where = {"range": container["range"]}
    declared = {**counter, **where, "loc": {}, "init": "c", "inner": [integer("0", container)]}
    method = {
        "kind": "MemberExpr",
        "name": "size",
        "type": _METHOD,
        "isArrow": False,
        **where,
        "inner": [container],
    }
    size = {
        "kind": "CXXMemberCallExpr",
        "type": _COUNTER,
        "valueCategory": "prvalue",
        **where,
        "inner": [method],
    }
    step = {"kind": "UnaryOperator", "opcode": "++", "isPostfix": True, "type": _COUNTER, **where}
    return {
        **{key: value for key, value in node.items() if key not in ("kind", "inner")},
        "kind": "ForStmt",
        "inner": [
            {"kind": "DeclStmt", **where, "inner": [declared]},
            {},
            binary("<", read(named(counter, container)), size, "bool"),
            {**step, "inner": [named(counter, container)]},
            body,
        ],
    }


def _declaring(variable: Node, counter: Node, container: Node, body: Node) -> Node:
    """The body with a variable for the element's value."""
    kind = plain_type(variable).removeprefix("const ")
    const = "const " if plain_type(container).startswith("const ") else ""
    element = {"type": {"qualType": const + kind}, "range": container["range"]}
    made = {**variable, "init": "c", "inner": [read(_element(element, counter, container))]}
    declared = {"kind": "DeclStmt", "range": body["range"], "inner": [made]}
    inner = inner_nodes(body) if body.get("kind") == "CompoundStmt" else [body]
    return {"id": body.get("id"), "kind": "CompoundStmt", "range": body["range"], "inner": [declared, *inner]}


def _element(node: Node, counter: Node, container: Node) -> Node:
    """The element where its reference stands."""
    where = {"range": node["range"]}
    operator = {
        "kind": "DeclRefExpr",
        "referencedDecl": {"name": "operator[]"},
        "type": {"qualType": "()"},
        **where,
    }
    inner = [operator, {**container, **where}, read(named(counter, node))]
    element = {key: node[key] for key in ("type", "range")}
    return {**element, "kind": "CXXOperatorCallExpr", "valueCategory": "lvalue", "inner": inner}
