"""Containers of C++ that a loop uses by subscripts alone, as the pointers and sizes that stand behind them.

A loop over ``std::vector`` becomes one over plain arrays where it is a function of its own: each ``u[i]`` is one of
``u_data``, each ``u.size()`` is ``u_size``. Read from clang's syntax tree. May not write the function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tuner.core.errors import BaselineError
from tuner.core.source_text import source_bytes, source_text
from tuner.spaces.source.outlined import View
from tuner.spec.reading.declarators import declaration
from tuner.spec.reading.known_calls import KEEP_NOTHING, known_name
from tuner.spec.reading.nodes import Node, body_of, paths, plain_type, walk
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import inner_nodes, peeled

__all__ = ["Viewed", "viewed"]

_CONTAINER = re.compile(r"(?:const )?std::(?:__\w+::)?(vector|array|span|unique_ptr)<")
_POINTER = {"vector": "data()", "array": "data()", "span": "data()", "unique_ptr": "get()"}
_METHOD = "<bound member function type>"
_LOOKS = frozenset({"operator[]", "size", "data", "get", "empty", "begin", "end", "front", "back", "at"})
"""Methods of containers that leave them as they are."""
_PLAIN = re.compile(r"[A-Za-z_][\w.]*")
"""What is there whether the loop comes to it or not; a pointer may lead nowhere."""
_NO_CLASS = re.compile(
    r"[^*<]*\*.*|(?:const |unsigned |signed )*(?:bool|char|short|int|long|float|double)(?: \w+)*"
)
_CALLS = ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr")
_MOST_CALLS = 4
"""In how many calls of one another a function is looked into."""


@dataclass(frozen=True, slots=True)
class Viewed:
    """A function whose loop uses pointers and sizes.

    Attributes:
        function: around the loop, with variables for these.
        loop: of its tree.
        edits: bytes of the file, and the variables' names that go there.
        views: what stands behind the variables where the loop is.
    """

    function: Function
    loop: Node
    edits: tuple[tuple[int, int, str], ...]
    views: tuple[View, ...]

    def text(self, data: bytes, begin: int, end: int) -> str:
        """A part of the file that has the loop, with the variables in it."""
        made, at = b"", begin
        for first, last, name in sorted(self.edits):
            made += data[at:first] + name.encode()
            at = last
        return source_text(made + data[at:end])


@dataclass(slots=True)
class _Use:
    """A use of a container: its node, what stands for that, and where its text is."""

    node: Node
    base: Node
    size: bool


@dataclass(slots=True)
class _Uses:
    """Those of the containers that one name or member of it is."""

    root: Node
    kind: str
    text: str
    found: list[_Use] = field(default_factory=list)


def viewed(reader: SourceReader, function: Function, loop: Node, text: str) -> Viewed | None:
    """The loop with plain arrays in the place of containers; ``None`` where it uses none that way.

    A container stays one where the loop does anything else with it or with another of its type, or calls what may
    change its size.

    Args:
        reader: of the file.
        function: around the loop.
        loop: of its tree.
        text: of the file.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    if reader.language != "c++":
        return None
    uses = _Looking(reader, function, loop, source_bytes(text)).uses()
    if not uses:
        return None
    return _Writing(function, loop, text, uses).viewed()


class _Looking:
    """Finds the containers that are used by subscripts and sizes alone."""

    def __init__(self, reader: SourceReader, function: Function, loop: Node, data: bytes) -> None:
        self._reader = reader
        self._loop = loop
        self._data = data
        self._inside = {n["id"] for n in walk(loop) if n.get("kind") == "VarDecl"}
        self._declared = {
            n["id"]: n for n in walk(function.tree) if n.get("kind") in ("VarDecl", "ParmVarDecl")
        }
        self._used: dict[str, _Uses] = {}
        self._others = set[str]()
        """Types of objects that are used in other ways, and identities of variables that change."""

    def uses(self) -> list[_Uses]:
        """Those that may be views."""
        accessed = set[int]()
        for node, parents in paths(self._loop):
            if node.get("kind") in ("DeclRefExpr", "CXXThisExpr"):
                accessed |= self._look(node, parents)
        kept = [
            u
            for u in self._used.values()
            if not self._others & {u.kind, u.root["id"], _bare(plain_type(u.root))}
        ]
        calls = [n for n in walk(self._loop) if n.get("kind") in _CALLS and id(n) not in accessed]
        local = all(map(self._is_local, calls)) if kept else True
        return [u for u in kept if local or _is_own(self._declared.get(u.root["id"], {}))]

    def _look(self, node: Node, parents: Sequence[Node]) -> set[int]:
        """Notes what is done with the object that a name begins; gives the nodes that access its elements."""
        top, at = node, 0
        while at < len(parents):
            step = parents[at]
            arrow = step.get("castKind") == "LValueToRValue" and parents[at + 1].get("isArrow")
            if not arrow and (step.get("kind") != "MemberExpr" or plain_type(step) == _METHOD):
                break
            top, at = step, at + 1
        around = [parent for parent in parents[at:] if parent.get("castKind") != "NoOp"]
        root, kind, text = node.get("referencedDecl", {}), plain_type(top), self._text(top)
        use = (
            self._use(top, around) if _CONTAINER.match(kind) and root.get("id") not in self._inside else None
        )
        if use is not None:
            if _PLAIN.fullmatch(text):
                self._used.setdefault(text, _Uses(root, _bare(kind), text)).found.append(use)
            return {id(use.node)}
        if _is_class(kind):
            self._others.add(_bare(kind))
        elif around[:1] and around[0].get("castKind") != "LValueToRValue":
            self._others.add(str(root.get("id")))
        return set()

    def _use(self, top: Node, parents: Sequence[Node]) -> _Use | None:
        """What an access to an element or the number of them is; ``None`` for any other use."""
        first = parents[0] if parents else {}
        inner = inner_nodes(first)
        if first.get("kind") == "CXXOperatorCallExpr" and len(inner) == 3 and peeled(inner[1]) is top:
            named = peeled(inner[0]).get("referencedDecl", {}).get("name")
            # Bits are no elements that lie in memory, and rows lie in containers of their own.
            plain = first.get("valueCategory") == "lvalue" and not _CONTAINER.match(plain_type(first))
            return _Use(first, top, False) if named == "operator[]" and plain else None
        if first.get("name") == "size" and len(parents) > 1 and len(inner_nodes(parents[1])) == 1:
            return _Use(parents[1], top, True)
        return None

    def _text(self, node: Node) -> str:
        """As it is written in the file; empty where a macro writes it."""
        begin, end = node["range"]["begin"], node["range"]["end"]
        if "offset" not in begin or "offset" not in end or "includedFrom" in begin:
            return ""
        return source_text(self._data[begin["offset"] : end["offset"] + end["tokLen"]])

    def _is_local(self, call: Node, within: tuple[str, ...] = ()) -> bool:
        """Whether a call changes the size of no container, as far as its body is known."""
        callee = peeled(inner_nodes(call)[0]) if inner_nodes(call) else {}
        meant = callee.get("referencedDecl", {})
        name = str(meant.get("name") or callee.get("name", ""))
        if name in _LOOKS and any(_CONTAINER.match(plain_type(peeled(n))) for n in _objects(call)):
            return True
        if known_name(name, str(meant.get("type", {}).get("qualType"))) in KEEP_NOTHING:
            return True
        if not name.isidentifier() or name in within or len(within) >= _MOST_CALLS:
            return name in within
        try:
            functions = self._reader.named(name, included=True)
        except BaselineError:
            return False
        bodies = [f.tree for f in functions if f.defined]
        inner = [n for body in bodies for n in walk(body) if n.get("kind") in _CALLS]
        return bool(bodies) and all(self._is_local(each, (*within, name)) for each in inner)


@dataclass(slots=True)
class _Writing:
    """Puts variables in the place of what containers give."""

    function: Function
    loop: Node
    text: str
    uses: Sequence[_Uses]
    _taken: set[str] = field(default_factory=set)
    _replaced: dict[int, Node] = field(default_factory=dict)
    _new: Node = field(default_factory=dict)

    def viewed(self) -> Viewed:
        """The function, its loop, and the variables."""
        views, declared, edits = [], [], []
        for use in self.uses:
            for sized in (False, True):
                found = [each for each in use.found if each.size == sized]
                if found:
                    view, variable = self._view(use, found[0], sized)
                    views.append(view)
                    declared.append(variable)
                    edits += [self._edit(each, view, variable) for each in found]
        tree = self._rebuilt(self.function.tree)
        # Declared where every loop of the function sees them.
        body = body_of(tree)
        begun = {"kind": "DeclStmt", "inner": declared}
        whole = {**body, "inner": [begun, *body["inner"]]}
        inner = [whole if child is body else child for child in tree["inner"]]
        return Viewed(
            replace(self.function, tree={**tree, "inner": inner}), self._new, tuple(edits), tuple(views)
        )

    def _view(self, use: _Uses, first: _Use, sized: bool) -> tuple[View, Node]:
        name = re.sub(r"\W+", "_", use.text) + ("_size" if sized else "_data")
        while name in self._taken or re.search(rf"\b{name}\b", self.text):
            name += "_"
        self._taken.add(name)
        element = plain_type(first.node)
        kind = element if sized else f"{element}{'' if element.endswith('*') else ' '}*"
        found = _CONTAINER.match(use.kind)
        assert found is not None
        given = f"{use.text}.{'size()' if sized else _POINTER[found[1]]}"
        view = View(name, f"{declaration(kind, name)} = {given};", given if sized else use.text, not sized)
        value = {"kind": "CXXMemberCallExpr", "valueCategory": "prvalue", "type": {"qualType": kind}}
        variable = {
            "id": f"view {name}",
            "kind": "VarDecl",
            "name": name,
            "type": {"qualType": kind},
            "range": {"begin": {}, "end": {}},
            "loc": {},
            "init": "c",
            "inner": [value],
        }
        return view, variable

    def _edit(self, use: _Use, view: View, variable: Node) -> tuple[int, int, str]:
        """Notes what stands for a node, and gives the place of its text with the variable's name."""
        named = {
            "kind": "DeclRefExpr",
            "type": variable["type"],
            "valueCategory": "lvalue",
            "referencedDecl": {key: variable[key] for key in ("id", "kind", "name", "type")},
            "range": use.base["range"],
        }
        value = {
            "kind": "ImplicitCastExpr",
            "castKind": "LValueToRValue",
            "type": variable["type"],
            "inner": [named],
        }
        span = use.node["range"] if use.size else use.base["range"]
        if use.size:
            self._replaced[id(use.node)] = value
        else:
            index = inner_nodes(use.node)[2]
            self._replaced[id(use.node)] = {
                **{key: part for key, part in use.node.items() if key != "inner"},
                "kind": "ArraySubscriptExpr",
                "inner": [value, index],
            }
        return (
            int(span["begin"]["offset"]),
            int(span["end"]["offset"]) + int(span["end"]["tokLen"]),
            view.name,
        )

    def _rebuilt(self, node: Node) -> Node:
        made = self._replaced.get(id(node), node)
        inner = made.get("inner")
        if inner:
            rebuilt = [self._rebuilt(child) if child else child for child in inner]
            if made is not node or any(a is not b for a, b in zip(inner, rebuilt, strict=True)):
                made = {**made, "inner": rebuilt}
        if node is self.loop:
            self._new = made
        return made


def _bare(kind: str) -> str:
    return re.sub(r"^const |[ &*]+$", "", kind)


def _is_class(kind: str) -> bool:
    """Whether a type may have members: no number and no pointer."""
    return not _NO_CLASS.fullmatch(kind)


def _objects(call: Node) -> list[Node]:
    """What a method or an operator may be called on."""
    inner = inner_nodes(call)
    return inner_nodes(inner[0])[:1] if call["kind"] == "CXXMemberCallExpr" else inner[1:2]


def _is_own(root: Node) -> bool:
    """Whether a variable is an object of the function itself."""
    kept = root.get("storageClass") in ("static", "extern") or root.get("kind") != "VarDecl"
    return not kept and not re.search(r"[&*]$", plain_type(root))
