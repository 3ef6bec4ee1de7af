"""Faults to plant in a kernel's source, to learn whether a verification would notice them: single small edits.

Reads C-like text (C, C++, OpenCL C, CUDA) by tokens, without a grammar: an edit that makes no sense does not compile
and is not counted. Only the bodies of functions are edited; preprocessor lines, comments and texts are left alone.
Knows neither compiler nor device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.types import Source, Variant

__all__ = ["ADVICE", "Fault", "faults_of", "find_faults", "planted", "sample"]

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
    |(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlLuU]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)""",
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_NUMBER = re.compile(r"(?P<digits>[\d.]+(?:[eE][+-]?\d+)?)(?P<suffix>[fFlLuU]*)$")
_REVERSED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "!=": "<"}
_OPERATOR = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&&": "||", "||": "&&", "==": "!=", "!=": "=="}
_ASSIGNED = {"+=": ("-=", "="), "-=": ("+=", "="), "*=": ("+=", "="), "/=": ("*=", "=")}
_FUNCTION = {
    "max": "min",
    "min": "max",
    "fmax": "fmin",
    "fmin": "fmax",
    "sin": "cos",
    "cos": "sin",
    "floor": "ceil",
}
_OPEN, _CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
_BEFORE_BODY = {")", "const", "noexcept", "override", "final"}
_KEYWORDS = {"return", "sizeof", "case", "else", "do", "goto"}
_TYPES = {"int", "float", "double", "char", "long", "short", "unsigned", "signed", "void", "half", "bool"}

ADVICE = {
    "bound": "a size that no tile divides under verify.problems, or bounds for the sizes under verify.assume",
    "edge": "small and odd sizes under verify.problems",
    "operator": "inputs with spread under arguments[].init",
    "operands": "inputs with spread under arguments[].init",
    "term": "a smaller verify.rtol and verify.atol, or inputs in which every term counts",
    "constant": "a smaller verify.rtol and verify.atol",
    "comparison": "inputs that take both branches under arguments[].init",
}
"""What would catch the faults of a kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int
    body: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One edit.

    Attributes:
        kind: a key of :data:`ADVICE`.
        file: which of the variant's files, by name.
        start, end: what is replaced, characters from the file's beginning.
        line: counting from 1.
        before, after: the text at that place.
    """

    kind: str
    file: str
    start: int
    end: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        before, after = (" ".join(t.split()) for t in (self.before, self.after))
        return f"{self.file}:{self.line}: {before} {f'made {after}' if after else 'left out'}"


def find_faults(source: Source) -> list[Fault]:
    """All faults that can be planted in one file, in the order of their places."""
    tokens = _scan(source.text)
    edits: Iterable[tuple[str, int, int, str]] = (
        edit for i, token in enumerate(tokens) if token.body for edit in _edits(tokens, i, source.text)
    )
    found = []
    for kind, start, end, after in edits:
        before = source.text[start:end]
        if before != after:
            line = source.text.count("\n", 0, start) + 1
            found.append(
                Fault(
                    kind=kind,
                    file=source.name,
                    start=start,
                    end=end,
                    line=line,
                    before=before,
                    after=after,
                )
            )
    return found


def faults_of(files: Sequence[Source], entry: str) -> list[Fault]:
    """The faults of the entry and of all functions that it may call, by name; of all where the entry is not seen.

    Args:
        files: of one variant.
        entry: the kernel's; template arguments and namespaces do not count.
    """
    bodies = [body for file in files for body in _functions(file)]
    wanted = {entry.partition("<")[0].rpartition("::")[2]}
    if not any(body.function in wanted for body in bodies):
        return [fault for file in files for fault in find_faults(file)]
    # A function that is called through a macro is called as well.
    wanted |= {name for file in files for line in _MACRO.findall(file.text) for name in _NAME.findall(line)}
    while True:
        more = {name for body in bodies if body.function in wanted for name in body.names} - wanted
        if not more:
            break
        wanted |= more
    kept = [body for body in bodies if body.function in wanted]
    return [
        fault
        for file in files
        for fault in find_faults(file)
        if any(b.file == file.name and b.start <= fault.start < b.end for b in kept)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    file: str
    function: str
    start: int
    end: int
    names: frozenset[str]


def _functions(file: Source) -> list[_Body]:
    """Outermost bodies with the name before their parameters; what stands in no body is in none of them."""
    tokens = _scan(file.text)
    found = []
    for i, token in enumerate(tokens):
        if token.text != "{" or token.body or i + 1 >= len(tokens) or not tokens[i + 1].body:
            continue
        end = next((j for j in range(i + 1, len(tokens)) if not tokens[j].body), len(tokens))
        names = frozenset(t.text for t in tokens[i:end] if t.kind == "name")
        found.append(
            _Body(
                file=file.name,
                function=_named(tokens, i),
                start=token.start,
                end=tokens[end - 1].end,
                names=names,
            )
        )
    return found


def _named(tokens: Sequence[_Token], brace: int) -> str:
    """The name before the last parameter list that stands before a body."""
    depth = 0
    for j in range(brace - 1, 0, -1):
        depth += (tokens[j].text == ")") - (tokens[j].text == "(")
        if tokens[j].text == "(" and depth == 0:
            return tokens[j - 1].text
    return ""


def planted(variant: Variant, fault: Fault) -> Variant:
    """The variant with one fault in it."""
    files = tuple(
        replace(f, text=f.text[: fault.start] + fault.after + f.text[fault.end :])
        if f.name == fault.file
        else f
        for f in variant.files
    )
    return replace(variant, files=files, edits=(*variant.edits, {"fault": str(fault)}))


def sample(faults: Sequence[Fault], count: int, rng: np.random.Generator) -> list[Fault]:
    """At most ``count`` faults, every kind in turn, in the order of their places."""
    left: dict[str, list[Fault]] = {}
    for fault in faults:
        left.setdefault(fault.kind, []).append(fault)
    for kind in left.values():
        rng.shuffle(kind)
    chosen: list[Fault] = []
    while len(chosen) < count and any(left.values()):
        for kind in left.values():
            if kind and len(chosen) < count:
                chosen.append(kind.pop())
    return sorted(chosen, key=lambda f: (f.file, f.start, f.after))


def _scan(text: str) -> list[_Token]:
    raw = [
        _Token(kind=m.lastgroup or "", text=m[0], start=m.start(), end=m.end())
        for m in _TOKEN.finditer(text)
        if m.lastgroup != "skip"
    ]
    return _place(_mark_bodies(raw))


def _mark_bodies(tokens: list[_Token]) -> list[_Token]:
    stack: list[bool] = []
    marked = []
    for i, token in enumerate(tokens):
        inside = any(stack)
        marked.append(replace(token, body=inside))
        if token.text == "{":
            stack.append(inside or (i > 0 and tokens[i - 1].text in _BEFORE_BODY))
        elif token.text == "}" and stack:
            stack.pop()
    return marked


def _place(tokens: list[_Token]) -> list[_Token]:
    """Says of each token whether it stands in a loop's ``start``, ``bound`` or ``step``."""
    placed = list(tokens)
    for i, token in enumerate(tokens[:-1]):
        if token.text not in ("for", "while") or tokens[i + 1].text != "(":
            continue
        parts = ["start", "bound", "step"] if token.text == "for" else ["bound"]
        depth, part = 0, 0
        for j in range(i + 1, len(tokens)):
            text = tokens[j].text
            depth += (text in _OPEN) - (text in _CLOSE)
            if depth == 0:
                break
            if text == ";" and depth == 1:
                part += 1
            elif part < len(parts):
                placed[j] = replace(placed[j], place=parts[part])
    return placed


def _edits(tokens: Sequence[_Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    if token.kind == "number":
        yield from _constant(tokens, i)
    elif token.kind == "name":
        yield from _function(tokens, i)
    elif token.kind == "mark":
        if token.text in _ASSIGNED:
            kinds = ("operator", "term")
            for kind, after in zip(kinds, _ASSIGNED[token.text], strict=True):
                if token.place != "step":
                    yield kind, token.start, token.end, after
        elif _is_binary(tokens, i):
            yield from _binary(tokens, i, text)


def _binary(tokens: Sequence[_Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    operator = token.text
    left, right = _before(tokens, i), _after(tokens, i)
    if operator in _REVERSED and token.place == "bound":
        yield "bound", token.start, token.end, _BOUND[operator]
        if right is not None:
            end = tokens[right].end
            sign = "-" if operator in ("<", "<=") else "+"
            yield "edge", token.end, end, f" ({text[token.end : end].strip()}) {sign} 1"
    elif operator in _REVERSED:
        yield "comparison", token.start, token.end, _REVERSED[operator]
    elif operator in _OPERATOR:
        yield "operator", token.start, token.end, _OPERATOR[operator]
    if left is None or right is None:
        return
    first, last = tokens[left].start, tokens[right].end
    one, other = text[first : tokens[i - 1].end], text[tokens[i + 1].start : last]
    if operator in ("-", "/", "%"):
        yield "operands", first, last, f"{other} {operator} {one}"
    if operator in ("+", "-", "*") and token.place == "":
        yield "term", token.start, last, ""


def _constant(tokens: Sequence[_Token], i: int) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    found = _NUMBER.match(token.text)
    if found is None or (
        i and tokens[i - 1].text == "[" and tokens[i - 2].kind == "name" and _declares(tokens, i)
    ):
        return
    digits, suffix = found["digits"], found["suffix"]
    kind = "edge" if token.place == "start" else "constant"
    if "." in digits or "e" in digits.lower() or suffix in ("f", "F"):
        value = float(digits)
        changed = 1.0 if value == 0 else value * 1.01
        text = repr(changed)
        yield kind, token.start, token.end, f"{text}{suffix}"
    elif digits.isdigit() and not (len(digits) > 1 and digits.startswith("0")) and token.place != "step":
        yield kind, token.start, token.end, f"{int(digits) + 1}{suffix}"


def _declares(tokens: Sequence[_Token], i: int) -> bool:
    """Whether a number stands for the extent of an array that is declared: another one only costs memory."""
    return i >= 3 and tokens[i - 3].kind == "name" and tokens[i - 3].text not in _KEYWORDS


def _function(tokens: Sequence[_Token], i: int) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    if i + 1 < len(tokens) and tokens[i + 1].text == "(":
        name = token.text
        for suffix in ("", "f"):
            stem = name[: len(name) - len(suffix)] if name.endswith(suffix) else name
            if stem in _FUNCTION:
                yield "operator", token.start, token.end, _FUNCTION[stem] + name[len(stem) :]
                return


def _is_binary(tokens: Sequence[_Token], i: int) -> bool:
    if i == 0 or i + 1 >= len(tokens):
        return False
    before = tokens[i - 1]
    if before.kind == "name":
        return before.text not in _KEYWORDS | _TYPES
    return before.kind == "number" or before.text in (")", "]")


def _after(tokens: Sequence[_Token], i: int) -> int | None:
    """Index of the last token of the operand that follows."""
    j = i + 1
    while j < len(tokens) and tokens[j].text in ("-", "+", "!", "~", "*", "&"):
        j += 1
    if j >= len(tokens):
        return None
    if tokens[j].text == "(":
        end = _closing(tokens, j)
    elif tokens[j].kind in ("name", "number"):
        end = j
    else:
        return None
    while end is not None and end + 1 < len(tokens):
        following = tokens[end + 1].text
        if following in ("(", "["):
            end = _closing(tokens, end + 1)
        elif following in (".", "->") and end + 2 < len(tokens):
            end += 2
        else:
            break
    return end


def _before(tokens: Sequence[_Token], i: int) -> int | None:
    """Index of the first token of the operand that ends before ``i``."""
    j = i - 1
    while j >= 0:
        if tokens[j].text in (")", "]"):
            opening = _opening(tokens, j)
            if opening is None:
                return None
            j = opening
            if j > 0 and (tokens[j - 1].kind == "name" or tokens[j - 1].text in (")", "]")):
                if tokens[j - 1].text in _KEYWORDS | {"if", "for", "while", "switch"}:
                    return j
                j -= 1
                continue
            return j
        if tokens[j].kind not in ("name", "number"):
            return None
        if j >= 2 and tokens[j - 1].text in (".", "->"):
            j -= 2
            continue
        return j
    return None


def _closing(tokens: Sequence[_Token], i: int) -> int | None:
    return _match(tokens, range(i, len(tokens)), _OPEN, _CLOSE)


def _opening(tokens: Sequence[_Token], i: int) -> int | None:
    return _match(tokens, range(i, -1, -1), _CLOSE, _OPEN)


def _match(tokens: Sequence[_Token], where: range, more: Iterable[str], less: Iterable[str]) -> int | None:
    more, less = set(more), set(less)
    depth = 0
    for j in where:
        depth += (tokens[j].text in more) - (tokens[j].text in less)
        if depth == 0:
            return j
    return None
