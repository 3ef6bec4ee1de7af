"""Lines of a changed function in the author's spelling, where the preprocessor says that they are equal.

Preprocessed text has as many lines as what it was made of (:mod:`tuner.spec.reading.preprocessing`), so a line that an
edit left as it was goes back to what the author wrote: with the names of macros. Must not change what a text means.
"""

from __future__ import annotations

import re

__all__ = ["respelled"]

_COMMENT = re.compile(r"/\*.*?\*/|//.*")
_OPEN_COMMENT = re.compile(r"/\*|\*/")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|[^\w\s]')
_WORD = re.compile(r"\w+")
_REDEFINES = re.compile(r"^[ \t]*#[ \t]*(?:define|undef|include)\b", re.MULTILINE)

_Key = tuple[str, ...]


def respelled(text: str, preprocessed: str, given: str) -> str:
    """A text in which lines that the preprocessor made of a line of the author's are that line again.

    Args:
        text: of a region as it is now.
        preprocessed: of the region as the preprocessor left it.
        given: of the region as the author wrote it.
    """
    if _REDEFINES.search(given):
        # What a macro stands for depends on the line.
        return text
    known = _spellings(preprocessed.splitlines(), given.splitlines())
    head, brace, body = text.partition("{")
    # What stands before the body is as far indented as it was.
    lines = [_line(line, known, indented=False) for line in head.splitlines(keepends=True)]
    lines += [_line(line, known, indented=True) for line in (brace + body).splitlines(keepends=True)]
    return "".join(lines)


def _spellings(made: list[str], given: list[str]) -> dict[_Key, str]:
    """The author's lines by what they come to."""
    found: dict[_Key, str] = {}
    if len(made) != len(given):
        return found
    for number, (after, before) in enumerate(zip(made, given, strict=True)):
        key, plain = _key(after), _COMMENT.sub("", before).rstrip()
        if not key or _OPEN_COMMENT.search(_COMMENT.sub("", before)):
            continue
        following = given[number + 1].strip() if number + 1 < len(given) else ""
        goes_on = following and not following.startswith("#") and not made[number + 1].strip()
        if plain.endswith("\\") or goes_on or _depth(key) != _depth(_key(plain)):
            # It is a part of what a macro takes, or of a directive.
            continue
        found.setdefault(key, plain)
    return found


def _line(line: str, known: dict[_Key, str], *, indented: bool) -> str:
    key = _key(line)
    brace = ""
    if key not in known and key[-1:] == ("{",):
        # The printer gives every loop and branch its braces.
        key, brace = key[:-1], " {"
    spelling = known.get(key)
    if spelling is None or (indented and _key(spelling) == key):
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
        found.append(token)
        if token == ")" and len(found) > 2 and found[-3] == "(" and _WORD.fullmatch(found[-2]):
            before = found[-4] if len(found) > 3 else ""
            if before not in (")", "]") and not _WORD.fullmatch(before):
                found[-3:] = [found[-2]]
    return tuple(found)


def _depth(key: _Key) -> int:
    return sum((t in "([{") - (t in ")]}") for t in key if len(t) == 1)
