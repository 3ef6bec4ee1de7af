"""A changed function as a person would write it into the file: for patches that are read, never for what is built.

What a run builds, hashes and records is the printer's text; this one says the same in the file's own layout. And lines
of it in the author's spelling, where the preprocessor says that they are equal: preprocessed text has as many lines as
what it was made of (:mod:`tuner.spec.reading.preprocessing`), so a line that an edit left as it was goes back to what
the author wrote, with the names of macros. May not change what a function does, or what a text means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tuner.spaces.source.expressions import OPERATORS_AS_WORDS
from tuner.spaces.source.kinds import is_integer
from tuner.spaces.source.number_types import without_names
from tuner.spaces.source.parse import statement_nodes
from tuner.spaces.source.printer import UNIT, WIDTH, function_text, param_text, preamble_text, statement_text
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import Binary, Expr, For, Function, Number
from tuner.spaces.source.walks import map_expressions, transform

__all__ = ["ABOVE", "presented", "respelled"]

ABOVE = re.compile(
    r"(?:(?:^|(?<=\n))[ \t]*//[^\n]*\n)+\Z|(?:^|(?<=\n))[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n\Z", re.DOTALL
)
"""A comment that ends right where a function begins."""

_MOST_ALIGNED = 40
_COMMENT = re.compile(r"/\*.*?\*/|//.*")
_OPEN_COMMENT = re.compile(r"/\*|\*/")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|[^\w\s]')
_STEPS = re.compile(r"\+\+|--|=.*,")
_WORD = re.compile(r"\w+")
_REDEFINES = re.compile(r"^[ \t]*#[ \t]*(?:define|undef|include)\b", re.MULTILINE)

_Key = tuple[str, ...]


def presented(function: Function, given: Function, text: str, above: str) -> tuple[str, str]:
    """The text above a function and its own.

    Tunables and types stand above the function's comment; the head stays as it is given but for what changed of a
    parameter; sums of numbers in bounds of loops are added up; lines are indented as the function's were.

    Args:
        function: as it is now.
        given: as it was in the file.
        text: of the function, or of the region's statements, in the file.
        above: what stands before it.
    """
    pad, unit = _indentation(text, above, whole=function.whole)
    body = transform(function.body, _added_up)
    function = replace(function, body=body)
    if not function.whole:
        return above, function_text(function, pad=pad, unit=unit)
    lead = preamble_text(function)
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
    text = function.signature or given.signature
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
        case Binary(
            op="+" | "-" as outer,
            left=Binary(op="+" | "-" as inner, left=rest, right=Number(text=a)),
            right=Number(text=b),
        ) if a.isdigit() and b.isdigit():
            total = (int(a) if inner == "+" else -int(a)) + (int(b) if outer == "+" else -int(b))
            return rest if not total else Binary("+" if total > 0 else "-", rest, Number(str(abs(total))))
    return expr


def respelled(text: str, preprocessed: str, given: str, types: Mapping[str, str]) -> str:
    """A text in which lines that the preprocessor made of a line of the author's are that line again.

    Args:
        text: of a region as it is now.
        preprocessed: of the region as the preprocessor left it.
        given: of the region as the author wrote it.
        types: of numbers by the author's names for them.
    """
    if _REDEFINES.search(given):
        # What a macro stands for depends on the line.
        return text
    known = _spellings(preprocessed.splitlines(), given.splitlines(), types)
    head, brace, body = _with_whole_statements(text, preprocessed, known, types).partition("{")
    # What stands before the body is as far indented as it was.
    lines = [_line(line, known, types, indented=False) for line in head.splitlines(keepends=True)]
    lines += [_line(line, known, types, indented=True) for line in (brace + body).splitlines(keepends=True)]
    return "".join(lines)


def _with_whole_statements(
    text: str, preprocessed: str, known: Mapping[_Key, str], types: Mapping[str, str]
) -> str:
    """A text in which what the author wrote in one line, and is several here, is that line again: ``*p++ = x;``."""
    whole: dict[tuple[_Key, ...], str] = {}
    for line in _COMMENT.sub("", preprocessed).splitlines():
        spelling = known.get(_key(without_names(line, types)))
        if spelling is not None and _STEPS.search(line) and line.rstrip().endswith(";"):
            parts = parse_statements(statement_nodes(line, "c++"))
            printed = tuple(_key(each) for part in parts for each in statement_text(part).splitlines())
            if len(printed) > 1:
                whole[printed] = spelling.strip()
    lines = text.splitlines(keepends=True) if whole else []
    keys = [_key(line) for line in lines]
    for at in range(len(lines)):
        for printed, spelling in whole.items():
            if tuple(keys[at : at + len(printed)]) == printed:
                lines[at : at + len(printed)] = [
                    f"{_blank(lines[at])}{spelling}\n",
                    *[""] * (len(printed) - 1),
                ]
    return "".join(lines) or text


def _spellings(made: list[str], given: list[str], types: Mapping[str, str]) -> dict[_Key, str]:
    """The author's lines by what they come to."""
    found: dict[_Key, str] = {}
    if len(made) != len(given):
        return found
    for number, (after, before) in enumerate(zip(made, given, strict=True)):
        key, plain = _key(without_names(after, types)), _COMMENT.sub("", before).rstrip()
        if not key or _OPEN_COMMENT.search(_COMMENT.sub("", before)):
            continue
        following = given[number + 1].strip() if number + 1 < len(given) else ""
        goes_on = following and not following.startswith("#") and not made[number + 1].strip()
        if plain.endswith("\\") or goes_on or _depth(key) != _depth(_key(plain)):
            # It is a part of what a macro takes, or of a directive.
            continue
        found.setdefault(key, plain)
    return found


def _line(line: str, known: dict[_Key, str], types: Mapping[str, str], *, indented: bool) -> str:
    own, key = _key(line), _key(without_names(line, types))
    brace = ""
    if key not in known and key[-1:] == ("{",):
        # The printer gives every loop and branch its braces.
        key, own, brace = key[:-1], own[:-1], " {"
    spelling = known.get(key)
    if spelling is None or (indented and _key(spelling) == own):
        return line
    end = line[len(line.rstrip()) :]
    if not indented:
        return f"{spelling}{brace}{end}"
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}{spelling.lstrip()}{brace}{end}"


def _key(line: str) -> _Key:
    """A line's tokens, without parentheses around one of them, which the printer does not keep."""
    found: list[str] = []
    for token in _TOKEN.findall(_COMMENT.sub("", line)):
        found.append(OPERATORS_AS_WORDS.get(token, token))
        if token == ")" and len(found) > 2 and found[-3] == "(" and _WORD.fullmatch(found[-2]):
            before = found[-4] if len(found) > 3 else ""
            if before not in (")", "]") and not _WORD.fullmatch(before):
                found[-3:] = [found[-2]]
    return tuple(found)


def _depth(key: _Key) -> int:
    return sum((t in "([{") - (t in ")]}") for t in key if len(t) == 1)
