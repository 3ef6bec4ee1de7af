"""Pass pipelines of LLVM's new pass manager as trees: text to tree and back, unchanged.

May not know any pass; which ones there are is the catalogue's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.core.errors import SpecError

__all__ = ["Leaf", "Node", "Path", "Pipeline"]

Path = tuple[int, ...]
"""Where a node stands: its number at the top, then among that node's children, and so on."""

CONTAINERS = {
    "module": "module",
    "cgscc": "cgscc",
    "devirt": "cgscc",
    "function": "function",
    "loop": "loop",
    "loop-mssa": "loop-mssa",
    "repeat": "",
}
"""Names that hold other passes, with the level of what they hold (``repeat``: as around it)."""

_MAX_TEXT = 100_000
_MAX_DEPTH = 20
_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


@dataclass(frozen=True, slots=True)
class Node:
    """A pass, or a container with the passes in it.

    Attributes:
        name: without parameters.
        params: what follows the name in angle brackets, brackets included; may be empty.
        children: ``None`` for a pass.
    """

    name: str
    params: str = ""
    children: tuple[Node, ...] | None = None

    @property
    def head(self) -> str:
        """Name and parameters."""
        return self.name + self.params

    @property
    def text(self) -> str:
        """As LLVM reads it."""
        if self.children is None:
            return self.head
        return f"{self.head}({','.join(child.text for child in self.children)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A pass in its place: ``containers`` are the heads of what is around it, outermost first."""

    path: Path
    node: Node
    containers: tuple[str, ...]
    level: str


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole pipeline. Equal pipelines have equal texts."""

    nodes: tuple[Node, ...]

    @classmethod
    def parse(cls, text: str) -> Pipeline:
        """Reads a pipeline; ``Pipeline.parse(text).text == text`` for every text without white space.

        Raises:
            SpecError: brackets that do not match, an empty name, or a text beyond all reason.

        >>> Pipeline.parse("function(loop-mssa(licm<allowspeculation>),gvn<>)").text
        'function(loop-mssa(licm<allowspeculation>),gvn<>)'
        """
        if len(text) > _MAX_TEXT:
            raise SpecError(f"a pass pipeline has {len(text)} characters", f"at most {_MAX_TEXT} are allowed")
        reader = _Reader(re.sub(r"\s+", "", text))
        nodes = reader.sequence(0)
        reader.end()
        return cls(nodes)

    @property
    def text(self) -> str:
        """As LLVM reads it."""
        return ",".join(node.text for node in self.nodes)

    def leaves(self) -> list[Leaf]:
        """All passes in the order of the text."""
        return list(_walk(self.nodes, (), (), "module"))

    def node(self, path: Path) -> Node:
        """The node at a path.

        Raises:
            SpecError: nothing stands there.
        """
        nodes, found = self.nodes, None
        for index in path:
            if not 0 <= index < len(nodes):
                raise _no_place(path)
            found = nodes[index]
            nodes = found.children or ()
        if found is None:
            raise _no_place(path)
        return found

    def level(self, path: Path) -> str:
        """The level of the container at a path; the empty path is the module."""
        level = "module"
        for end in range(1, len(path) + 1):
            node = self.node(path[:end])
            if node.children is None:
                raise _no_place(path)
            level = CONTAINERS.get(node.name, "") or level
        return level

    def splice(self, path: Path, remove: int, nodes: Sequence[Node]) -> Pipeline:
        """Takes ``remove`` nodes out at a path and puts others in; containers left empty disappear.

        Raises:
            SpecError: there is no such place.
        """
        if not path:
            raise _no_place(path)
        return Pipeline(_splice(self.nodes, path, path, remove, tuple(nodes)))

    @classmethod
    def build(cls, leaves: Sequence[tuple[tuple[str, ...], Node]]) -> Pipeline:
        """A pipeline from passes with the heads of their containers; neighbours share containers."""
        return cls(_build(list(leaves), 0))


def _no_place(path: Path) -> SpecError:
    return SpecError(f"no place {list(path)} in the pipeline", "paths count from 0 at each level")


def _walk(nodes: Sequence[Node], path: Path, containers: tuple[str, ...], level: str) -> Iterator[Leaf]:
    for i, node in enumerate(nodes):
        if node.children is None:
            yield Leaf(path=(*path, i), node=node, containers=containers, level=level)
        else:
            inner = CONTAINERS.get(node.name, "") or level
            yield from _walk(node.children, (*path, i), (*containers, node.head), inner)


def _splice(
    nodes: tuple[Node, ...], path: Path, whole: Path, remove: int, new: tuple[Node, ...]
) -> tuple[Node, ...]:
    index = path[0]
    if len(path) == 1:
        if not 0 <= index <= len(nodes) or index + remove > len(nodes):
            raise _no_place(whole)
        return (*nodes[:index], *new, *nodes[index + remove :])
    if not 0 <= index < len(nodes):
        raise _no_place(whole)
    node = nodes[index]
    if node.children is None:
        raise _no_place(whole)
    children = _splice(node.children, path[1:], whole, remove, new)
    kept = (Node(node.name, node.params, children),) if children else ()
    return (*nodes[:index], *kept, *nodes[index + 1 :])


def _build(leaves: list[tuple[tuple[str, ...], Node]], depth: int) -> tuple[Node, ...]:
    nodes: list[Node] = []
    start = 0
    while start < len(leaves):
        containers, node = leaves[start]
        stop = start + 1
        if len(containers) == depth:
            nodes.append(node)
        else:
            head = containers[depth]
            while stop < len(leaves) and leaves[stop][0][depth : depth + 1] == (head,):
                stop += 1
            name, _, params = head.partition("<")
            params = "<" + params if params else ""
            nodes.append(Node(name, params, _build(leaves[start:stop], depth + 1)))
        start = stop
    return tuple(nodes)


class _Reader:
    """Recursive descent over ``name<params>(children),…``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def sequence(self, depth: int) -> tuple[Node, ...]:
        if depth > _MAX_DEPTH:
            raise self._wrong(f"more than {_MAX_DEPTH} levels")
        nodes = [self._node(depth)]
        while self._peek() == ",":
            self._at += 1
            nodes.append(self._node(depth))
        return tuple(nodes)

    def end(self) -> None:
        if self._at != len(self._text):
            raise self._wrong(f"unexpected {self._peek()!r}")

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _node(self, depth: int) -> Node:
        match = _NAME.match(self._text, self._at)
        if match is None:
            raise self._wrong("a pass name is missing")
        self._at = match.end()
        start = self._at
        while self._peek() == "<":
            self._angle()
        params = self._text[start : self._at]
        if self._peek() != "(":
            return Node(match[0], params)
        if match[0] not in CONTAINERS:
            raise self._wrong(f"{match[0]!r} holds no other passes")
        self._at += 1
        children = self.sequence(depth + 1)
        if self._peek() != ")":
            raise self._wrong("a closing ) is missing")
        self._at += 1
        return Node(match[0], params, children)

    def _angle(self) -> None:
        depth = 0
        while self._at < len(self._text):
            char = self._peek()
            self._at += 1
            depth += (char == "<") - (char == ">")
            if depth == 0:
                return
            if char in "()":
                break
        raise self._wrong("a closing > is missing")

    def _wrong(self, reason: str) -> SpecError:
        shown = self._text[max(0, self._at - 20) : self._at + 20]
        return SpecError(
            f"not a pass pipeline: {reason} at character {self._at + 1} (near {shown!r})",
            "write it as for `opt -passes=…`, for example function(loop-mssa(licm),gvn)",
        )
