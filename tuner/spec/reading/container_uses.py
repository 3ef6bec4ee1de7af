"""Which containers and objects of C++ a loop uses by elements and numbers alone, and where.

``u[i]`` and ``u.size()`` of ``std::vector`` and its like, and what methods give that are accessors. Read from clang's
syntax tree. May not write anything in their place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from tuner.core.errors import BaselineError
from tuner.spec.reading.accessors import Accessor, Accessors
from tuner.spec.reading.known_calls import KEEP_NOTHING, known_name
from tuner.spec.reading.methods import THIS
from tuner.spec.reading.nodes import Node, paths, plain_type, text_of, walk
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import changes, inner_nodes, peeled

__all__ = ["CONTAINER", "ROWS", "Use", "Uses", "uses_of"]

CONTAINER = re.compile(r"(?:const )?std::(?:__\w+::)?(vector|array|span|unique_ptr)<")
_ROWS = re.compile(r"(?:const )?std::(?:__\w+::)?(vector|array|span)<")
ROWS = Accessor((1, 1))
"""What subscripts of a container of containers give."""
_METHOD = "<bound member function type>"
_LOOKS = frozenset({"operator[]", "size", "data", "get", "empty", "begin", "end", "front", "back", "at"})
"""Methods of containers that leave them as they are."""
_PLAIN = re.compile(r"[A-Za-z_][\w.]*")
"""What is there whether the loop comes to it or not."""
_NUMBER = re.compile(r"(?:const |unsigned |signed )*(?:bool|char|short|int|long|float|double)(?: \w+)*")
_POINTER = re.compile(r"[^*<]*\*.*")
_CALLS = ("CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr")
_MOST_CALLS = 4
"""In how many calls of one another a function is looked into."""


@dataclass(slots=True)
class Use:
    """A use of a container or an object.

    Attributes:
        node: what stands for the element or the number.
        base: what stands for the container.
        arguments: of a subscript or an accessor; none for a number.
    """

    node: Node
    base: Node
    arguments: Sequence[Node] = ()


@dataclass(slots=True)
class Uses:
    """Those of one container, or by one accessor of one object.

    Attributes:
        root: the variable that its name begins with.
        kind: its type.
        text: as it is written; empty for the object that the function belongs to.
        method: the accessor; empty for a container's subscripts and for a member that is a number.
        given: what that gives.
        values: whether all of them give values of elements, not their places.
        found: where.
    """

    root: Node
    kind: str
    text: str
    method: str
    given: Accessor
    values: bool = False
    found: list[Use] = field(default_factory=list)


def uses_of(reader: SourceReader, function: Function, loop: Node, data: bytes) -> list[Uses]:
    """Those for which plain arrays and numbers may stand.

    A container stays one where the loop does anything else with it or with another of its type, or calls what may
    change its size.

    Args:
        reader: of the file.
        function: around the loop.
        loop: of its tree.
        data: the file's bytes.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    return _Looking(reader, function, loop, data).uses()


def _bare(kind: str) -> str:
    """A type without ``const`` before it and what is made of it."""
    return re.sub(r"^const |[ &*]+$", "", kind)


class _Looking:
    """Looks at all that a loop names."""

    def __init__(self, reader: SourceReader, function: Function, loop: Node, data: bytes) -> None:
        self._reader = reader
        self._accessors = Accessors(reader)
        self._loop = loop
        self._data = data
        self._inside = {n["id"] for n in walk(loop) if n.get("kind") == "VarDecl"}
        self._declared = {
            n["id"]: n for n in walk(function.tree) if n.get("kind") in ("VarDecl", "ParmVarDecl")
        }
        self._used: dict[tuple[str, str, int], Uses] = {}
        self._others = set[str]()
        """Types of objects that are used in other ways, and identities of variables that change."""
        self._shared = {self._text(each) for node in walk(function.tree) for each in _known_otherwise(node)}
        """Members that have another name or whose address is taken."""
        self._changing = False
        """Whether a function that the loop calls changes members of objects."""

    def uses(self) -> list[Uses]:
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
        kept = [u for u in kept if not (_is_member_number(u) and u.text in self._shared)]
        own = [u for u in kept if _is_own(self._declared.get(u.root["id"], {}))]
        return [u for u in kept if u in own or (local and not (self._changing and _is_member_number(u)))]

    def _look(self, node: Node, parents: Sequence[Node]) -> set[int]:
        """Notes what is done with the object that a name begins; gives the nodes that access its elements."""
        root = node.get("referencedDecl", {})
        top, at, text = self._object(node, parents, own=root.get("id") == THIS)
        around = [parent for parent in parents[at:] if parent.get("castKind") != "NoOp"]
        kind = plain_type(top)
        found = self._use(top, around) if root.get("id") not in self._inside else None
        if found is not None:
            use, method, accessor = found
            if text and use.base is not top:
                text = self._text(use.base) or None
            if text is not None and (not method or all(map(self._text, use.arguments))):
                key = text, accessor.place or method, len(use.arguments)
                value = bool(method and accessor.array) and not accessor.address and not _is_place(use.node)
                made = Uses(root, _bare(kind), text, method, accessor, value)
                uses = self._used.setdefault(key, made)
                if uses.values and not value:
                    uses.method, uses.values = method, False
                uses.found.append(use)
            return {id(use.node)}
        if _is_class(kind):
            self._others.add(_bare(kind))
        elif around[:1] and around[0].get("castKind") != "LValueToRValue":
            self._others.add(str(root.get("id")))
        return set()

    def _object(self, node: Node, parents: Sequence[Node], *, own: bool) -> tuple[Node, int, str | None]:
        """The object that a name begins, how many nodes around the name are of it, and its text.

        The text is ``None`` for what need not be there where the loop does not come to it.
        """
        if own:
            # The address is read, and it may be followed.
            wrapped = [parents[0], *takewhile(_follows, parents[1:])]
            found = [each for each in wrapped if each.get("opcode") == "*"]
            if found or parents[len(wrapped)].get("isArrow"):
                return (found or wrapped)[0], len(wrapped), ""
        top, at = node, 0
        while at < len(parents):
            step = parents[at]
            arrow = step.get("castKind") == "LValueToRValue" and parents[at + 1].get("isArrow")
            if not arrow and (step.get("kind") != "MemberExpr" or plain_type(step) == _METHOD):
                break
            top, at = step, at + 1
        text = self._text(top)
        return top, at, text if _PLAIN.fullmatch(text) and not plain_type(top).endswith("*") else None

    def _use(self, top: Node, parents: Sequence[Node]) -> tuple[Use, str, Accessor] | None:
        """A use of an object for an element or a number, by which method, and what that gives; ``None`` for others."""
        first, kind = parents[0] if parents else {}, plain_type(top)
        inner = inner_nodes(first)
        if first.get("kind") == "CXXOperatorCallExpr" and len(inner) > 1 and peeled(inner[1]) is top:
            method = str(peeled(inner[0]).get("referencedDecl", {}).get("name"))
            call, arguments, around = first, inner[2:], parents[1:]
        elif first.get("kind") == "MemberExpr" and plain_type(first) == _METHOD and len(parents) > 1:
            method = str(first.get("name"))
            call, arguments, around = parents[1], inner_nodes(parents[1])[1:], parents[2:]
        else:
            read = first.get("castKind") == "LValueToRValue" and top.get("kind") == "MemberExpr"
            return (Use(top, top), "", Accessor()) if read and _NUMBER.fullmatch(kind) else None
        if not CONTAINER.match(kind):
            given = self._accessors.find(kind, method, len(arguments))
            lvalue = _is_place(call)
            if given is None:
                return None
            if given.array and lvalue == given.address and (lvalue or not given.place):
                return None
            # A number is read alone, and what is no place has no address.
            read = not lvalue or (around[:1] and around[0].get("castKind") == "LValueToRValue")
            return (Use(call, top, arguments), method, given) if given.strides or read else None
        if method == "size" and not arguments:
            return Use(call, top), "size", Accessor()
        if method != "operator[]" or len(arguments) != 1:
            return None
        if CONTAINER.match(plain_type(call)):
            return _of_row(top, call, arguments[0], around)
        # Bits are no elements that lie in memory.
        return (Use(call, top, arguments), "", Accessor((1,))) if _is_place(call) else None

    def _text(self, node: Node) -> str:
        """As it is written in the file; empty where a macro writes it."""
        return str(node["text"]) if "text" in node else text_of(node, self._data)

    def _is_local(self, call: Node, within: tuple[str, ...] = ()) -> bool:
        """Whether a call changes the size of no container, as far as its body is known."""
        callee = peeled(inner_nodes(call)[0]) if inner_nodes(call) else {}
        meant = callee.get("referencedDecl", {})
        name = str(meant.get("name") or callee.get("name", ""))
        if name in _LOOKS and any(CONTAINER.match(plain_type(peeled(n))) for n in _objects(call)):
            return True
        if known_name(name, str(meant.get("type", {}).get("qualType"))) in KEEP_NOTHING:
            return True
        if name in within or len(within) >= _MOST_CALLS or not re.match(r"[A-Za-z_]", name):
            return name in within
        try:
            # Operators of the standard's own headers are many.
            functions = self._reader.named(name, included=name.isidentifier())
        except BaselineError:
            return False
        bodies = [f.tree for f in functions if f.defined]
        self._changing |= any(_changes_member(n) for body in bodies for n in walk(body))
        inner = [n for body in bodies for n in walk(body) if n.get("kind") in _CALLS]
        return bool(bodies) and all(self._is_local(each, (*within, name)) for each in inner)


def _follows(node: Node) -> bool:
    """Whether a node is an address or what it leads to."""
    return node.get("kind") == "ParenExpr" or node.get("opcode") == "*" or node.get("castKind") == "NoOp"


def _of_row(top: Node, row: Node, at: Node, parents: Sequence[Node]) -> tuple[Use, str, Accessor] | None:
    """A use of one container in another for an element, or of a certain one for its size; ``None`` for others."""
    around = parents[0] if parents else {}
    inner = inner_nodes(around)
    if not _ROWS.match(plain_type(top)):
        return None
    if around.get("kind") == "CXXOperatorCallExpr" and len(inner) == 3 and peeled(inner[1]) is row:
        method = peeled(inner[0]).get("referencedDecl", {}).get("name")
        plain = _is_place(around) and not CONTAINER.match(plain_type(around))
        return (Use(around, top, (at, inner[2])), "", ROWS) if method == "operator[]" and plain else None
    size = around.get("name") == "size" and plain_type(around) == _METHOD and len(parents) > 1
    if size and peeled(at).get("kind") == "IntegerLiteral":
        return Use(parents[1], row), "size", Accessor()
    return None


def _is_place(node: Node) -> bool:
    return bool(node.get("valueCategory") == "lvalue")


def _is_member_number(uses: Uses) -> bool:
    """Whether it is a number of an object that anything may change, unlike the size of a container."""
    return not uses.given.strides and not (uses.method == "size" and CONTAINER.match(uses.kind))


def _changes_member(node: Node) -> bool:
    return changes(node) and peeled(inner_nodes(node)[0]).get("kind") == "MemberExpr"


def _known_otherwise(node: Node) -> list[Node]:
    """The member that a reference names from here on, or whose address is taken."""
    reference = node.get("kind") == "VarDecl" and plain_type(node).endswith("&")
    if not reference and not (node.get("kind") == "UnaryOperator" and node.get("opcode") == "&"):
        return []
    return [each for each in map(peeled, inner_nodes(node)[:1]) if each.get("kind") == "MemberExpr"]


def _is_class(kind: str) -> bool:
    """Whether a type may have members: no number and no pointer."""
    return not _POINTER.fullmatch(kind) and not _NUMBER.fullmatch(kind)


def _objects(call: Node) -> list[Node]:
    """What a method or an operator may be called on."""
    inner = inner_nodes(call)
    return inner_nodes(inner[0])[:1] if call["kind"] == "CXXMemberCallExpr" else inner[1:2]


def _is_own(root: Node) -> bool:
    """Whether a variable is an object of the function itself."""
    kept = root.get("storageClass") in ("static", "extern") or root.get("kind") != "VarDecl"
    return not kept and not re.search(r"[&*]$", plain_type(root))
