"""A changed function in the author's spelling, as far as no edit touched it: for patches that are read.

The preprocessor leaves as many lines as there were (:mod:`tuner.spec.reading.preprocessing`), so statements that fill
lines of its text are the author's lines at the same place: macros, comments, layout and all. Where such statements
stand in a changed function, printed as before, those lines stand there again. May not change what a text means.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from tuner.spaces.source.expressions import OPERATORS_AS_WORDS
from tuner.spaces.source.number_types import without_names
from tuner.spaces.source.parse import parse_file, statement_nodes
from tuner.spaces.source.printer import statement_text
from tuner.spaces.source.reading import parse_statements

__all__ = ["respelled", "unsteady_macros"]

_PIECE = re.compile(
    r'R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<comment>/\*.*?\*/|//[^\n]*)|\w+|\+\+|--|&&|\|\||->|::|<<=?|>>=?|[-+*/%&|^=!<>]=|[^\w\s]",
    re.DOTALL,
)
_PLACES = frozenset({"__LINE__", "__COUNTER__", "__INCLUDE_LEVEL__"})
"""Macros of the language that stand for something else elsewhere."""
_WORD = re.compile(r"\w+")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
_REDEFINES = re.compile(r"^[ \t]*#[ \t]*(?:define|undef|include)\b", re.MULTILINE)
_GOES_ON = re.compile(r"\\[ \t]*$")
_DIRECTIVE = re.compile(r"[ \t]*#(?![ \t]*pragma\b)")
_LANGUAGE = "c++"
"""In which statements are read: it has all of C's."""

_Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Spelling:
    """What the author wrote in one place, without the indentation that all of its lines have."""

    lines: tuple[str, ...]

    def indented(self, pad: str) -> str:
        lines = (line if line.startswith("#") else f"{pad}{line}".rstrip() for line in self.lines)
        return "".join(f"{line}\n" for line in lines)

    def begins(self, token: str) -> bool:
        """Whether the author's text has the token first: a loop that a pragma may stand above is still a loop."""
        return _tokens("\n".join(self.lines)).tokens[:1] == [token]

    @property
    def comments(self) -> frozenset[str]:
        return frozenset(_comments("\n".join(self.lines)))


@dataclass(slots=True)
class _Text:
    """A text's tokens without comments, and the line that each is on."""

    tokens: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    @property
    def key(self) -> _Key:
        return tuple(self.tokens)

    def starts(self) -> dict[int, int]:
        """The first token of each line that has one."""
        return {line: place for place, line in reversed(list(enumerate(self.lines)))}


def unsteady_macros(texts: Collection[str]) -> frozenset[str]:
    """Macros that come to something else elsewhere: those of the language, and what files define by them."""
    defined = [
        (d[1], set(_WORD.findall(d[2]))) for t in texts for d in _DEFINED.finditer(t.replace("\\\n", " "))
    ]
    found, before = set(_PLACES), set[str]()
    while found != before:
        before = set(found)
        found |= {name for name, named in defined if named & before}
    return frozenset(found)


def respelled(
    text: str,
    preprocessed: str,
    given: str,
    types: Mapping[str, str],
    *,
    unsteady: Collection[str] = _PLACES,
) -> str:
    """A text in which what the preprocessor made of lines of the author's, and no edit touched, is those lines again.

    Args:
        text: of a region as it is now.
        preprocessed: of the region as the preprocessor left it.
        given: of the region as the author wrote it.
        types: of numbers by the author's names for them.
        unsteady: macros that come to something else elsewhere: a line that names one is left as it was built.
    """
    made, wrote = preprocessed.splitlines(), given.splitlines()
    if _REDEFINES.search(given) or len(made) != len(wrote):
        # What a macro stands for depends on the line.
        return text
    region = _Region(made=made, wrote=wrote, types=types, unsteady=frozenset(unsteady))
    return _with_lines(_with_statements(text, region), region)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Region:
    """The author's lines and what they came to, a line each."""

    made: Sequence[str]
    wrote: Sequence[str]
    types: Mapping[str, str]
    unsteady: frozenset[str]

    def key(self, text: str) -> _Key:
        return _tokens(without_names(text, self.types)).key

    def whole(self, begin: int, end: int) -> bool:
        """Whether these lines are the author's in full: no directive among them, nothing that goes on behind them."""
        lines = self.wrote[begin:end]
        before = self.wrote[begin - 1] if begin else ""
        if any(map(_DIRECTIVE.match, lines)) or any(map(_GOES_ON.search, (before, *lines))):
            return False
        text = "\n".join(lines)
        return _closed(text) and self.unsteady.isdisjoint(_tokens(text).tokens)

    def end(self, end: int) -> int:
        """The line behind the last one of what a macro took, of which the preprocessor left nothing where it stood."""
        last = end
        for at in range(end, len(self.made)):
            if self.made[at].strip() or self.wrote[at].lstrip().startswith("#"):
                break
            last = at + 1 if _tokens(self.wrote[at]).tokens else last
        return last

    def spelling(self, begin: int, end: int) -> _Spelling:
        lines = [line.rstrip() for line in self.wrote[begin:end]]
        shared = min((_blank(line) for line in lines if line and line[0] != "#"), key=len, default="")
        return _Spelling(tuple(line.removeprefix(shared) for line in lines))


def _with_statements(text: str, region: _Region) -> str:
    """The text with whole statements as the author wrote them, the largest first."""
    known: dict[_Key, _Spelling] = {}
    lengths: dict[str, set[int]] = defaultdict(set)
    for begin, end, key in _statements(region):
        if key not in known:
            known[key] = region.spelling(begin, end)
            lengths[key[0]].add(len(key))
    lines, shown = text.splitlines(keepends=True), _tokens(without_names(text, region.types))
    starts, made, at = shown.starts(), [], 0
    while at < len(lines):
        found = _longest(shown, starts.get(at), lengths, known)
        pragma = at > 0 and lines[at - 1].lstrip().startswith("#pragma")
        if found is None or (pragma and not found[0].begins(shown.tokens[starts[at]])):
            made.append(lines[at])
            at += 1
            continue
        spelling, end = found
        made.append(spelling.indented(_blank(lines[at])))
        at = end + 1
        while at < len(lines) and at not in starts and _is_comment_of(lines[at], spelling):
            at += 1
    return "".join(made)


def _longest(
    shown: _Text, start: int | None, lengths: Mapping[str, set[int]], known: Mapping[_Key, _Spelling]
) -> tuple[_Spelling, int] | None:
    """The largest known statements that begin with a line and end with one, and that last line."""
    if start is None:
        return None
    for length in sorted(lengths.get(shown.tokens[start], ()), reverse=True):
        end = start + length
        if end > len(shown.tokens) or (end < len(shown.tokens) and shown.lines[end] == shown.lines[end - 1]):
            continue
        spelling = known.get(tuple(shown.tokens[start:end]))
        if spelling is not None:
            return spelling, shown.lines[end - 1]
    return None


def _is_comment_of(line: str, spelling: _Spelling) -> bool:
    found = _comments(line)
    return bool(found) and set(found) <= spelling.comments


def _statements(region: _Region) -> Iterator[tuple[int, int, _Key]]:
    """Lines that statements fill, the first and the one behind the last, with what is printed of them."""
    text = "\n".join(region.made)
    stack = [parse_file(text.encode(), _LANGUAGE)]
    while stack:
        node = stack.pop()
        stack.extend(node.named_children)
        for begin, end in _groups(node.named_children):
            # A line of its own, for a comment may end it.
            filled = "\n".join(region.made[begin:end]) + "\n"
            if not _fills(region.made, begin, end, node):
                continue
            end = region.end(end)
            if not region.whole(begin, end) or _depth(_tokens("\n".join(region.wrote[begin:end])).key):
                continue
            read = parse_statements(statement_nodes(filled, _LANGUAGE))
            key = region.key("".join(map(statement_text, read)))
            if key:
                yield begin, end, key


def _groups(nodes: Sequence[Node]) -> Iterator[tuple[int, int]]:
    """Lines of statements side by side; of those that share a line together."""
    open_: tuple[int, int] | None = None
    for node in nodes:
        if not (node.type.endswith("_statement") or node.type in ("declaration", "comment")):
            continue
        begin, end = node.start_point[0], node.end_point[0] + 1
        if open_ is not None and begin < open_[1]:
            open_ = (open_[0], max(end, open_[1]))
            continue
        if open_ is not None:
            yield open_
        open_ = (begin, end)
    if open_ is not None:
        yield open_


def _fills(lines: Sequence[str], begin: int, end: int, around: Node) -> bool:
    """Whether nothing but the statements of one node stands in these lines."""
    inside = [n for n in around.named_children if begin <= n.start_point[0] < end]
    first, last = min(inside, key=lambda n: n.start_byte), max(inside, key=lambda n: n.end_byte)
    before = lines[begin].encode()[: first.start_point[1]]
    after = lines[end - 1].encode()[last.end_point[1] :]
    return last.end_point[0] == end - 1 and not before.strip() and not after.strip()


def _with_lines(text: str, region: _Region) -> str:
    """The text with single lines as the author wrote them: heads of loops and of functions."""
    known: dict[_Key, str] = {}
    for number, (after, before) in enumerate(zip(region.made, region.wrote, strict=True)):
        key, plain = region.key(after), _without_comments(before).rstrip()
        alone = region.end(number + 1) == number + 1 and region.whole(number, number + 1)
        if key and alone and _depth(key) == _depth(_tokens(plain).key):
            known.setdefault(key, plain)
    head, brace, body = text.partition("{")
    # What stands before the body is as far indented as it was.
    lines = [_line(line, known, region, indented=False) for line in head.splitlines(keepends=True)]
    lines += [_line(line, known, region, indented=True) for line in (brace + body).splitlines(keepends=True)]
    return "".join(lines)


def _line(line: str, known: Mapping[_Key, str], region: _Region, *, indented: bool) -> str:
    own, key = _tokens(line).key, region.key(line)
    brace = ""
    if key not in known and key[-1:] == ("{",):
        # The printer gives every loop and branch its braces.
        key, own, brace = key[:-1], own[:-1], " {"
    spelling = known.get(key)
    if spelling is None or (indented and _tokens(spelling).key == own):
        return line
    end = line[len(line.rstrip()) :]
    if not indented:
        return f"{spelling}{brace}{end}"
    return f"{_blank(line)}{spelling.lstrip()}{brace}{end}"


def _tokens(text: str) -> _Text:
    """Tokens, without parentheses around one of them, which the printer does not keep."""
    found = _Text()
    line = place = 0
    for piece in _PIECE.finditer(text):
        line += text.count("\n", place, piece.start())
        place = piece.start()
        if piece["comment"]:
            continue
        token = piece[0]
        found.tokens.append(OPERATORS_AS_WORDS.get(token, token))
        found.lines.append(line)
        if token == ")":
            _unwrap(found)
    return found


def _unwrap(found: _Text) -> None:
    tokens = found.tokens
    if len(tokens) > 2 and tokens[-3] == "(" and _WORD.fullmatch(tokens[-2]):
        before = tokens[-4] if len(tokens) > 3 else ""
        if before not in (")", "]") and not _WORD.fullmatch(before):
            del tokens[-3], tokens[-1]
            del found.lines[-3], found.lines[-1]


def _without_comments(text: str) -> str:
    return _PIECE.sub(lambda piece: "" if piece["comment"] else piece[0], text)


def _comments(text: str) -> list[str]:
    return [" ".join(piece["comment"].split()) for piece in _PIECE.finditer(text) if piece["comment"]]


def _closed(text: str) -> bool:
    """Whether every comment that begins in a text ends there, and none ends that began before it."""
    return not re.search(
        r"/\*|\*/", _PIECE.sub(lambda p: "" if p[0][0] in "/\"'" and len(p[0]) > 1 else p[0], text)
    )


def _blank(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _depth(key: _Key) -> int:
    return sum((t in "([{") - (t in ")]}") for t in key if len(t) == 1)
