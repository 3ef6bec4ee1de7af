"""A changed function as a person would write it into the file: for patches that are read, never for what is built.

What a run builds, hashes and records is the printer's text; this one says the same in the file's own layout, without
functions that nothing names any more and no other file can know of. May not change what a function does.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.core.types import Source
from tuner.spaces.source.affine import plus, written
from tuner.spaces.source.kinds import is_integer
from tuner.spaces.source.lexical import tokens
from tuner.spaces.source.parse import definition_start, function_nodes, node_slice, parse_file
from tuner.spaces.source.printer import UNIT, WIDTH, function_text, param_text, preamble_text
from tuner.spaces.source.syntax import Binary, Expr, For, Function, Number
from tuner.spaces.source.walks import map_expressions, transform

__all__ = ["ABOVE", "presented", "without_leftovers"]

ABOVE = re.compile(
    r"(?:(?:^|(?<=\n))[ \t]*//[^\n]*\n)+\Z|(?:^|(?<=\n))[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n\Z", re.DOTALL
)
"""A comment that ends right where a function begins."""

_MOST_ALIGNED = 40


def presented(
    function: Function, given: Function, text: str, above: str, wrote: str, lines: str = ""
) -> tuple[str, str]:
    """The text above a function and its own.

    Tunables and types stand above the function's comment; the head stays as it is given but for what changed of a
    parameter; sums of numbers in bounds of loops are added up; lines are indented as the function's were.

    Args:
        function: as it is now.
        given: as it was in the file.
        text: of the function, or of the region's statements, in the file.
        above: what stands before it.
        wrote: the region as the author has it: the preprocessor makes a blank of a tab.
        lines: that stand above all.
    """
    pad, unit = _indentation(
        wrote if wrote.count("\n") == text.count("\n") else text, above, whole=function.whole
    )
    body = transform(function.body, _added_up)
    function = replace(function, body=body)
    if not function.whole:
        return above, lines + function_text(function, pad=pad, unit=unit)
    lead = lines + preamble_text(function)
    bare = replace(function, defines=(), preamble=(), signature=_signature(function, given))
    shown = function_text(bare, pad=pad, unit=unit)
    if not lead:
        return above, shown
    found = ABOVE.search(above)
    place = len(above) if found is None else found.start()
    first = above[:place]
    gap = "" if not first or first.endswith("\n\n") else "\n" if first.endswith("\n") else "\n\n"
    return f"{first}{gap}{lead}\n{above[place:]}", shown


def _indentation(text: str, above: str, *, whole: bool) -> tuple[str, str]:
    """What stands before a function's or region's statements, and one level more, as they are in the file."""
    before = above.rpartition("\n")[2]
    outer = before if not before.strip() else ""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if whole:
        body = text.partition("{")[2].splitlines()[1:]
        inner = next((_blank(line) for line in body if line.strip()), "")
        unit = inner.removeprefix(outer) if inner.startswith(outer) else ""
        return (outer + unit, unit) if unit else (outer + UNIT, UNIT)
    pad = _blank(lines[0]) or outer
    deeper = [_blank(line).removeprefix(pad) for line in lines if _blank(line).startswith(pad)]
    unit = min((d for d in deeper if d), key=len, default="\t" if "\t" in pad else UNIT)
    return pad, unit


def _blank(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _signature(function: Function, given: Function) -> str:
    """The head as given with what changed of its parameters; in lines of its own where that makes it too long."""
    # Where directives stood the preprocessor leaves empty lines.
    text = re.sub(r"\n\s*\n", "\n", function.signature or given.signature)
    end = text[len(text.rstrip()) :] or "\n"
    if not text or len(given.params) != len(function.params):
        return f"{_filled(function)}{end}"
    for before, after in zip(given.params, function.params, strict=True):
        if before != after:
            if text.count(before.text) != 1:
                return f"{_filled(function)}{end}"
            text = text.replace(before.text, param_text(after))
    long = {line for line in text.splitlines() if len(line) > WIDTH} - set(given.signature.splitlines())
    return f"{_filled(function)}{end}" if long else text


def _filled(function: Function) -> str:
    """The head with as many parameters to a line as fit."""
    line = f"{_head(function.head)}{function.name}("
    column = len(line.rpartition("\n")[2])
    pad = " " * (column if column <= _MOST_ALIGNED else 8)
    lines: list[str] = []
    params = [param_text(p) for p in function.params] or ["void"]
    for number, param in enumerate(params):
        piece = param + (")" if number == len(params) - 1 else ",")
        start = line.rpartition("\n")[2]
        if number and len(start) + 1 + len(piece) > WIDTH:
            lines.append(line)
            line = f"{pad}{piece}"
        else:
            line = f"{line}{' ' if number else ''}{piece}"
    return "\n".join([*lines, line])


def _head(text: str) -> str:
    """What stands before a function's name; in a line of its own where the words with brackets are long."""
    end = text.rfind(")") + 1
    last = text.rpartition("\n")[2]
    return text if not end or len(last) <= _MOST_ALIGNED else f"{text[:end]}\n{text[end:].lstrip()}"


def _added_up(node: Any) -> Any:
    """A loop over integers whose bounds say ``n - 2`` where they said ``n - 1 - 1``."""
    if not isinstance(node, For) or not is_integer(node.type):
        return node
    start, limit = (map_expressions(e, _sum) for e in (node.start, node.limit))
    return replace(node, start=start, limit=limit)


def _sum(expr: Expr) -> Expr:
    match expr:
        case Binary(op="+" | "-" as op, left=Binary(right=Number()) as left, right=right):
            value = written(right)
            return expr if value is None else plus(left, value if op == "+" else -value)
    return expr


_OWN = {
    "opencl": re.compile(r"\A(?!.*\b(?:__kernel|kernel)\b)", re.DOTALL),
    "cuda": re.compile(r"\A(?!.*\b(?:__global__|extern)\b).*\b(?:static|__device__)\b", re.DOTALL),
}
"""Heads of functions that only their own program knows, by language; elsewhere those that are ``static``."""
_ENDED = re.compile(r"(?:\A|[;}]|\*/|^[ \t]*(?:#|//)[^\n]*\n)\s*\Z", re.MULTILINE)
_INCLUDED = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">\n]+)", re.MULTILINE)
_STATIC = re.compile(r"\bstatic\b")


def without_leftovers(made: Sequence[Source], given: Sequence[Source], language: str) -> tuple[Source, ...]:
    """Files without the functions that were used in the files as given and are not any more.

    Args:
        made: changed files.
        given: the files before.
        language: of the kernel.
    """
    files = list(made)
    if any("##" in f.text for f in given):
        # A macro may make the name of what is called.
        return tuple(files)
    used = _names(given)
    # Other programs may include a header.
    headers = {posixpath.basename(n) for f in given for n in _INCLUDED.findall(f.text)}
    while True:
        left = _names(files)
        shorter = [
            f if f.name in headers else replace(f, text=_without(f.text, language, used, left)) for f in files
        ]
        if shorter == files:
            return tuple(files)
        files = shorter


def _names(files: Sequence[Source]) -> Counter[str]:
    return Counter(token for file in files for token in tokens(file.text))


def _without(text: str, language: str, used: Counter[str], left: Counter[str]) -> str:
    """A text without one function that is only defined, and the comment right above it."""
    data = text.encode()
    for name, node in function_nodes(parse_file(data, language)):
        start, body = definition_start(node), node.child_by_field_name("body")
        if left[name] != 1 or used[name] < 2 or body is None or body.has_error:
            continue
        head = node_slice(node, node.start_byte, body.start_byte)
        if not _OWN.get(language, _STATIC).search(head) or start != node.start_byte:
            continue
        before, after = data[:start].decode(), data[node.end_byte :].decode()
        comment = ABOVE.search(before)
        before = before if comment is None else before[: comment.start()]
        if not _ENDED.search(before) or after.partition("\n")[0].strip():
            # Something else stands on its lines, or a word before it that is not known is part of it.
            continue
        after = after.partition("\n")[2]
        return before.rstrip(" \t") + (after.lstrip("\n") if before.endswith("\n\n") or not before else after)
    return text
