"""How host code launches a kernel: `<<<grid, block, shared>>>` with what its variables stand for, read from the text.

Follows variables, macros and parameters of functions back to numbers, as far as their looks tell. Guesses, for first
specs; may not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.spec.first.host_arithmetic import Node
from tuner.spec.first.host_expressions import parsed, sizeof, split

__all__ = ["HostLaunch", "host_launches"]

_CHEVRONS = r"(?:<(?P<template>[^;{}<>]*(?:<[^<>]*>[^;{}<>]*)*)>)?\s*<<<"
_FUNCTION = re.compile(r"(\w+)\s*\(((?:[^(){};]|\([^()]*\))*)\)\s*(?:const|noexcept|\s)*$")
_CONTROL = ("if", "for", "while", "switch", "catch")
_OUTERMOST = 4
_DEEPEST = 12
_ALLOCATED = r"\b\w*[mM]alloc\w*\s*(?:<[^<>]*>\s*)?\(\s*(?:\(\s*void\s*\*\s*\*\s*\)\s*)?&?\s*{name}\s*,"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLaunch:
    """One launch; an axis, a value or a number of bytes that is not known is ``None``.

    Attributes:
        template: arguments of the kernel's template, as they are written.
        grid: blocks by axis, x first; empty where the text does not tell.
        block: threads by axis.
        shared: dynamic shared memory, bytes.
        values: of each argument in order.
        sizes_bytes: of the allocation that each argument points to.
        variables: the host's variables that these name, with their values where a number is assigned.
    """

    template: tuple[str, ...]
    grid: tuple[Node, ...]
    block: tuple[Node, ...]
    shared: Node | None
    values: tuple[Node | None, ...]
    sizes_bytes: tuple[Node | None, ...]
    variables: Mapping[str, int | None] = field(default_factory=dict)


def host_launches(
    text: str, kernel: str, *, kept: Sequence[str] = (), elements: Sequence[int | None] = ()
) -> Iterator[HostLaunch]:
    """The launches of a kernel in a text, in order.

    Args:
        text: host code; without comments.
        kernel: its name.
        kept: macros that stay as they are, because the spec tunes them.
        elements: bytes of what each argument points to, where ``sizeof`` is of a type that is not known.
    """
    for found in re.finditer(rf"\b{re.escape(kernel)}\s*{_CHEVRONS}", text):
        end = text.find(">>>", found.end())
        opened = re.match(r"\s*\(", text[end + 3 :]) if end > 0 else None
        if opened is None:
            continue
        given = _inside(text, end + 3 + opened.end() - 1)
        host = _Host(text, kept)
        scope = host.scope(found.start())
        geometry = split(text[found.end() : end])
        if len(geometry) < 2 or given is None:
            continue
        arguments = split(given)
        sizes = [*elements, *([None] * len(arguments))]
        yield HostLaunch(
            template=tuple(split(found["template"] or "")),
            grid=scope.dimensions(geometry[0]),
            block=scope.dimensions(geometry[1]),
            shared=scope.value(geometry[2]) if len(geometry) > 2 else 0,
            values=tuple(scope.value(a) for a in arguments),
            sizes_bytes=tuple(host.bytes_of(a, scope, sizes[i]) for i, a in enumerate(arguments)),
            variables=host.variables,
        )


class _Host:
    """A text, and the variables that were met in it."""

    def __init__(self, text: str, kept: Sequence[str]) -> None:
        self.text = text
        self.kept = frozenset(kept)
        self.variables: dict[str, int | None] = {}

    def scope(self, at: int, depth: int = 0) -> _Scope:
        """What holds at a place: the function around it up to there."""
        level, opening, header = 0, 0, None
        for i in range(at - 1, -1, -1):
            if self.text[i] == "}":
                level += 1
            elif self.text[i] == "{" and level:
                level -= 1
            elif self.text[i] == "{":
                before = self.text[max(0, i - 2000) : i]
                found = _FUNCTION.search(before)
                if found and found[1] not in _CONTROL:
                    opening, header = i - len(before) + found.start(), found
        names = [_declared(p) for p in split(header[2])] if header else []
        return _Scope(self, opening, at, header[1] if header else "", names, depth)

    def bytes_of(self, argument: str, scope: _Scope, element: int | None) -> Node | None:
        """Of the allocation that a pointer came from."""
        name = argument.split(")")[-1].strip().lstrip("&")
        if not name.isidentifier():
            return None
        for text, start in ((self.text[scope.start :], scope.start), (self.text, 0)):
            found = re.search(_ALLOCATED.format(name=re.escape(name)), text)
            if found:
                opened = found[0].index("(")
                given = _inside(text, found.start() + opened)
                parts = split(given) if given else []
                inner = self.scope(start + found.start())
                return inner.value(parts[1], element) if len(parts) > 1 else None
        passed = scope.passed(name)
        return self.bytes_of(passed[1], passed[0], element) if passed else None


class _Scope:
    """A function's text from ``start`` to ``end``, and its parameters."""

    def __init__(
        self, host: _Host, start: int, end: int, name: str, names: Sequence[str], depth: int
    ) -> None:
        self._host = host
        self.start = start
        self._before = host.text[start:end]
        self._name = name
        self._names = names
        self._depth = depth

    def value(self, text: str, element: int | None = None) -> Node | None:
        """An expression at the end of this text."""
        if self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return parsed(text, self._named, lambda kind: self._size(kind, element), self._called)
        finally:
            self._depth -= 1

    def dimensions(self, text: str) -> tuple[Node, ...]:
        """A ``dim3`` or a number, without ones at its end; empty where it is not known."""
        text = text.strip()
        made = re.fullmatch(r"dim3\s*[({](.*)[)}]", text, re.DOTALL)
        parts = split(made[1]) if made else [text]
        if not made and text.isidentifier():
            parts = self._dimensions_of(text) or parts
        nodes = [self.value(part) for part in parts]
        known = [node for node in nodes if node is not None]
        if len(known) < len(nodes):
            return ()
        while len(known) > 1 and known[-1] == 1:
            known.pop()
        return tuple(known)

    def passed(self, name: str) -> tuple[_Scope, str] | None:
        """Where this function is called, and what it is given there for a parameter."""
        if name not in self._names or self._depth > _OUTERMOST:
            return None
        text = self._host.text
        for found in re.finditer(rf"\b{re.escape(self._name)}\s*(?:<[^;{{}}<>]*>\s*)?\(", text):
            given = _inside(text, found.end() - 1)
            parts = split(given) if given is not None else []
            after = text[found.end() + len(given or "") + 1 :].lstrip()[:1]
            if (
                len(parts) == len(self._names)
                and after != "{"
                and not self.start <= found.start() < self.start + 3
            ):
                return self._host.scope(found.start(), self._depth + 1), parts[self._names.index(name)]
        return None

    def _named(self, name: str, member: str) -> Node | None:
        if member:
            parts = self._dimensions_of(name)
            place = "xyz".find(member)
            if not parts or place < 0:
                return None
            return self.value(parts[place]) if place < len(parts) else 1
        if name in self._host.kept:
            return name
        if name in ("true", "false"):
            return int(name == "true")
        own = self._assigned(name, self._before)
        if own is not None:
            return self._variable(name, self.value(own))
        passed = self.passed(name)
        if passed is not None:
            return self._variable(name, passed[0].value(passed[1]))
        if name in self._names:
            return self._variable(name, None)
        return self._common(name)

    def _variable(self, name: str, node: Node | None) -> Node | None:
        """A number that is assigned may be a size of the problem, so its name stays."""
        if isinstance(node, float):
            return node
        if node is None or isinstance(node, int):
            known = self._host.variables.setdefault(name, node)
            if known != node and known is not None and node is not None:
                # Two functions that each have one of this name.
                return node
            if known is None:
                self._host.variables[name] = node
            return name
        return node

    def _common(self, name: str) -> Node | None:
        """What stands outside of functions: a macro, a constant, a variable."""
        text = self._host.text
        macro = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+([^\n]+)", text, re.MULTILINE)
        if macro:
            return self.value(macro[1])
        constant = re.search(rf"\b(?:const|constexpr|enum)\b[^;(){{}}]*[\s{{,]{name}\s*=\s*([^,;}}]+)", text)
        if constant:
            return self.value(constant[1])
        found = re.search(
            rf"^(?:static\s+)?(?:unsigned\s+|long\s+)*(?:int|size_t)\s+{name}\s*=\s*([^,;]+);", text, re.M
        )
        return self._variable(name, self.value(found[1])) if found else None

    def _assigned(self, name: str, text: str) -> str | None:
        """The right side of the last assignment, or what a declaration has in brackets."""
        declared = rf"(?:int|size_t|unsigned|long|float|double|uint)\s+{name}\s*(?=[({{])"
        found = _last(rf"(?<![\w.>])(?:{name}\s*=(?!=)\s*|{declared})", text)
        if found is None:
            return None
        depth = 0
        for i in range(found.end(), len(text)):
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
            if (text[i] in ",;" and depth == 0) or depth < 0:
                return text[found.end() : i].strip().strip("{}")
        return None

    def _dimensions_of(self, name: str) -> list[str]:
        """What a ``dim3`` is made of."""
        before = self._before
        found = _last(rf"(?:\bdim3\s+|,\s*|\b){name}\s*(?:=\s*(?:dim3\s*)?)?([({{])", before)
        parts = []
        if found is not None:
            inner = _inside(before, found.end() - 1)
            parts = split(inner) if inner is not None else []
        members = dict(re.findall(rf"\b{name}\s*\.\s*([xyz])\s*=(?!=)\s*([^;]+);", before))
        for place, axis in enumerate("xyz"):
            if axis in members:
                parts += ["1"] * (place + 1 - len(parts))
                parts[place] = members[axis]
        if not parts and (passed := self.passed(name)) is not None:
            return [] if not isinstance(passed[0].value(passed[1]), int) else [passed[1]]
        return parts

    def _called(self, name: str, given: tuple[str, ...]) -> Node | None:
        """A macro with arguments, put in."""
        found = re.search(
            rf"^[ \t]*#[ \t]*define[ \t]+{name}\(([^)]*)\)[ \t]*([^\n]+)", self._host.text, re.MULTILINE
        )
        if found is None:
            return None
        names = [part.strip() for part in found[1].split(",")]
        if len(names) != len(given):
            return None
        put = dict(zip(names, given, strict=True))
        return self.value(re.sub(r"\b\w+\b", lambda m: f"({put[m[0]]})" if m[0] in put else m[0], found[2]))

    def _size(self, kind: str, element: int | None) -> int | None:
        known = sizeof(kind)
        if known is None or kind.strip() in self._host.variables:
            alias = re.search(rf"\btypedef\s+([\w\s]+?)\s+{re.escape(kind)}\s*;", self._host.text)
            return sizeof(alias[1]) if alias and sizeof(alias[1]) else element
        return known


def _last(pattern: str, text: str) -> re.Match[str] | None:
    found = list(re.finditer(pattern, text))
    return found[-1] if found else None


def _inside(text: str, opened: int) -> str | None:
    """What a bracket holds."""
    depth = 0
    for i in range(opened, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[opened + 1 : i]
    return None


def _declared(parameter: str) -> str:
    words = re.findall(r"\w+", parameter.split("=")[0].split("[")[0])
    return words[-1] if words else ""
