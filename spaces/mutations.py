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
from tuner.spaces.c_tokens import KEYWORDS, Token, closing, operand_after, operand_before, scan

__all__ = ["ADVICE", "Fault", "faults_of", "find_faults", "planted", "sample"]

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
_BARRIERS = {
    *("__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or", "__syncwarp"),
    *("barrier", "work_group_barrier", "sub_group_barrier"),
}
_ADDED = {"atomicAdd": "+=", "atomicSub": "-=", "atomic_add": "+=", "atomic_sub": "-="}
_PLACES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
_PLACE_CALLS = re.compile(r"get_(global|local|group)_(id|size)$|get_num_groups$")
_AXES = {"x": "y", "y": "x", "z": "x"}
_OTHER_AXIS = {"0": "1", "1": "0", "2": "0"}
_TYPES = {"int", "float", "double", "char", "long", "short", "unsigned", "signed", "void", "half", "bool"}

ADVICE = {
    "bound": "a size that no tile divides under verify.problems, or bounds for the sizes under verify.assume",
    "edge": "small and odd sizes under verify.problems",
    "operator": "inputs with spread under arguments[].init",
    "operands": "inputs with spread under arguments[].init",
    "term": "a smaller verify.rtol and verify.atol, or inputs in which every term counts",
    "constant": "a smaller verify.rtol and verify.atol",
    "comparison": "inputs that take both branches under arguments[].init",
    "index": "sizes that differ from dimension to dimension under verify.problems, and inputs with spread",
    "order": "sizes of several tiles under verify.problems, and a look for races: Oclgrind (OpenCL), emulation (CUDA, "
    "`CUDA_VISIBLE_DEVICES= tuner check`)",
}
"""What would catch the faults of a kind."""


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
    tokens = scan(source.text)
    indices = _index_names(tokens)
    edits: Iterable[tuple[str, int, int, str]] = (
        edit
        for i, token in enumerate(tokens)
        if token.body and token.place != "extent"
        for edit in _edits(tokens, i, source.text, indices)
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
    tokens = scan(file.text)
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


def _named(tokens: Sequence[Token], brace: int) -> str:
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


def _edits(
    tokens: Sequence[Token], i: int, text: str, indices: frozenset[str]
) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    if token.kind == "number":
        yield from _constant(tokens, i)
    elif token.kind == "name":
        yield from _function(tokens, i)
        yield from _axis(tokens, i)
        yield from _order(tokens, i, text)
    elif token.text == "[":
        yield from _subscript(tokens, i, text)
    elif token.kind == "mark":
        if token.text in _ASSIGNED:
            kinds = ("operator", "term")
            for kind, after in zip(kinds, _ASSIGNED[token.text], strict=True):
                if token.place != "step":
                    yield kind, token.start, token.end, after
        elif _is_binary(tokens, i):
            yield from _binary(tokens, i, text)
            if _guards(tokens, i, indices):
                yield from _guard(tokens, i, text)


def _index_names(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that stand between the brackets of a subscript, which a guard is likely to be about."""
    names: set[str] = set()
    for i, token in enumerate(tokens):
        if token.text == "[" and token.body and i + 1 < len(tokens) and tokens[i + 1].place != "extent":
            end = closing(tokens, i)
            names |= {t.text for t in tokens[i:end] if t.kind == "name"}
    return frozenset(names)


def _guards(tokens: Sequence[Token], i: int, indices: frozenset[str]) -> bool:
    """Whether a comparison outside of a loop's head is of an index, not of values."""
    left, right = operand_before(tokens, i), operand_after(tokens, i)
    if tokens[i].text not in _REVERSED or tokens[i].place == "bound" or left is None or right is None:
        return False
    sides = [*tokens[left:i], *tokens[i + 1 : right + 1]]
    if any(t.text == "[" or (t.kind == "number" and not t.text.isdigit()) for t in sides):
        return False
    return any(t.text in indices | _PLACES or _PLACE_CALLS.match(t.text) for t in sides)


def _guard(tokens: Sequence[Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    """Off by one: an element more is let through, or the last one is left out."""
    token, last = tokens[i], operand_after(tokens, i)
    yield "bound", token.start, token.end, _BOUND[token.text]
    if last is not None and tokens[last].kind != "number":
        end = tokens[last].end
        yield "edge", token.end, end, f" ({text[token.end : end].strip()}) - 1"


def _subscript(tokens: Sequence[Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    """The element beside the one that is meant; a number alone is changed as any constant is."""
    end = closing(tokens, i)
    if end is None or i == 0 or tokens[i - 1].text in ("[", ",", "=", "("):
        return
    inside = tokens[i + 1 : end]
    if not inside or inside[0].place == "extent" or (len(inside) == 1 and inside[0].kind != "name"):
        return
    start, stop = inside[0].start, inside[-1].end
    index = text[start:stop]
    yield "index", start, stop, f"{index} + 1" if len(inside) == 1 else f"({index}) + 1"


def _axis(tokens: Sequence[Token], i: int) -> Iterator[tuple[str, int, int, str]]:
    """Another dimension of a thread's place."""
    token = tokens[i]
    if token.text in _AXES and i >= 2 and tokens[i - 1].text == "." and tokens[i - 2].text in _PLACES:
        yield "index", token.start, token.end, _AXES[token.text]


def _order(tokens: Sequence[Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    """What orders threads: a barrier left out, an atomic addition made a plain one."""
    token = tokens[i]
    if i + 1 >= len(tokens) or tokens[i + 1].text != "(":
        return
    end = closing(tokens, i + 1)
    if end is None or end + 1 >= len(tokens) or tokens[end + 1].text != ";":
        return
    if token.text in _BARRIERS:
        yield "order", token.start, tokens[end].end, ""
    elif token.text in _ADDED:
        comma = _only_comma(tokens, i + 2, end)
        if comma is not None:
            target = text[tokens[i + 2].start : tokens[comma].start].strip()
            value = text[tokens[comma].end : tokens[end].start].strip()
            yield "order", token.start, tokens[end].end, f"*({target}) {_ADDED[token.text]} {value}"
    elif token.text == "sync" and end == i + 2 and tokens[i - 1].text in (".", "->") and i >= 2:
        yield "order", tokens[i - 2].start, tokens[end].end, ""


def _only_comma(tokens: Sequence[Token], start: int, end: int) -> int | None:
    """Where two arguments part; ``None`` where there are more or fewer."""
    found: list[int] = []
    depth = 0
    for j in range(start, end):
        depth += (tokens[j].text in ("(", "[", "{")) - (tokens[j].text in (")", "]", "}"))
        if tokens[j].text == "," and depth == 0:
            found.append(j)
    return found[0] if len(found) == 1 else None


def _binary(tokens: Sequence[Token], i: int, text: str) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    operator = token.text
    left, right = operand_before(tokens, i), operand_after(tokens, i)
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


def _constant(tokens: Sequence[Token], i: int) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    found = _NUMBER.match(token.text)
    if found is None:
        return
    if _PLACE_CALLS.match(tokens[i - 2].text) and tokens[i - 1].text == "(" and token.text in _OTHER_AXIS:
        yield "index", token.start, token.end, _OTHER_AXIS[token.text]
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


def _function(tokens: Sequence[Token], i: int) -> Iterator[tuple[str, int, int, str]]:
    token = tokens[i]
    if i + 1 < len(tokens) and tokens[i + 1].text == "(":
        name = token.text
        for suffix in ("", "f"):
            stem = name[: len(name) - len(suffix)] if name.endswith(suffix) else name
            if stem in _FUNCTION:
                yield "operator", token.start, token.end, _FUNCTION[stem] + name[len(stem) :]
                return


def _is_binary(tokens: Sequence[Token], i: int) -> bool:
    if i == 0 or i + 1 >= len(tokens):
        return False
    before = tokens[i - 1]
    if before.kind == "name":
        return before.text not in KEYWORDS | _TYPES
    return before.kind == "number" or before.text in (")", "]")
