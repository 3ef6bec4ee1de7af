"""The part of a program's text that one of its kernels can reach, read without a compiler.

Says too much rather than too little: where the text cannot be followed, all of it. May not run anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["reached_text"]

_SKIPPED = re.compile(r"//(?:\\\n|[^\n])*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_DEFINED = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
_WORD = re.compile(r"\w+")
_LAST_WORD = re.compile(r"(\w+)\s*$")
_ATTRIBUTES = ("__attribute__", "__launch_bounds__")


def reached_text(text: str, entry: str) -> str:
    """What a kernel is made of: its own text, that of every function and macro it names, and all other declarations.

    Args:
        text: C, OpenCL C or CUDA, its headers in it.
        entry: the kernel.

    Returns:
        Text without comments and literals; all of it where the kernel is not found as a plain function, or braces do
        not match.
    """
    plain = _SKIPPED.sub(" ", text)
    parts: list[tuple[str, str]] = []
    for directive in _DIRECTIVE.findall(plain):
        match = _DEFINED.match(directive)
        parts.append((match[1] if match else "", directive))
    code = _DIRECTIVE.sub("", plain)
    if code.count("{") != code.count("}"):
        return plain
    parts += [(_function(chunk), chunk) for chunk in _chunks(code)]
    if entry not in (name for name, _ in parts):
        return plain
    reached, seen = [], set[str]()
    wanted = ["", entry]
    while wanted:
        name = wanted.pop()
        for chunk in (chunk for other, chunk in parts if other == name):
            reached.append(chunk)
            new = set(_WORD.findall(chunk)) - seen
            seen |= new
            wanted += sorted(new - {entry})
    return "\n".join(reached)


def _chunks(code: str) -> Iterator[str]:
    """Definitions and declarations, one after the other."""
    depth = start = 0
    for match in re.finditer(r"[{};]", code):
        depth += {"{": 1, "}": -1, ";": 0}[match[0]]
        if depth == 0 and match[0] != "{":
            yield code[start : match.end()]
            start = match.end()
    yield code[start:]


def _function(chunk: str) -> str:
    """The name of the function that is defined here; empty where none is."""
    head, brace, _ = chunk.partition("{")
    while brace and head.rstrip().endswith(")"):
        head = head.rstrip()
        depth = 0
        for at in range(len(head) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(head[at], 0)
            if depth == 0:
                break
        match = _LAST_WORD.search(head[:at])
        if match is None:
            return ""
        if match[1] not in _ATTRIBUTES:
            return match[1]
        head = head[: match.start()]
    return ""
