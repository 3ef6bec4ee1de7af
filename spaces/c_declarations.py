"""The declarations of a C, C++ or CUDA source: what each is, what it names, and whether device code may use it.

Works by the text's looks, without a preprocessor: macros that are tunables are not defined yet, and of a conditional
both sides are read. May not decide what is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, takewhile

from tuner.spaces.c_tokens import Token, closing, scan

__all__ = ["Declaration", "declarations", "marks_of"]

_CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?P<word>if|ifdef|ifndef|elif|else|endif)\b[^\n]*", re.MULTILINE)
_MACRO_LIKE = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_FOR_DEVICE = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_CALLABLE = frozenset({"constexpr", "consteval", "__attribute__"})
_CONSTANT = _CALLABLE | {"const"}
_TYPES = frozenset({"class", "struct", "union", "enum"})
_ATTRIBUTES = frozenset({"__align__", "alignas", "__attribute__", "__declspec__", "__builtin_align__"})
_STAYS = frozenset({"virtual", "override", "default", "delete"})
_ACCESS = frozenset({"public", "private", "protected"})


@dataclass(frozen=True, slots=True, eq=False)
class Declaration:
    """One declaration outside of functions and types.

    Attributes:
        start, end: characters.
        device: it is marked to be for the device.
        usable: device code may use it without a mark: a type, a constant, a ``constexpr`` function.
        declares: names that it gives a meaning; none for what has no name of its own.
        names: all names in it.
        host: where functions for the host stand within a type.
    """

    start: int
    end: int
    device: bool
    usable: bool
    declares: frozenset[str]
    names: frozenset[str]
    host: tuple[tuple[int, int], ...]


def marks_of(macros: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The words that mark something as the device's: CUDA's, and macros that stand for them."""
    marks = _FOR_DEVICE
    while True:
        more = marks | {name for name, words in macros.items() if words & marks}
        if more == marks:
            return marks
        marks = more


def declarations(text: str, marks: frozenset[str], macros: Mapping[str, frozenset[str]]) -> list[Declaration]:
    """What a text declares outside of functions and types, in order; namespaces are gone through.

    Args:
        text: C, C++ or CUDA, not preprocessed.
        marks: words that mark what is for the device, see :func:`marks_of`.
        macros: that are known, with the names in their definitions.
    """
    tokens = scan(text)
    torn = [places for places in _conditionals(text) if any(map(partial(_excess, tokens), pairwise(places)))]
    first = [t for t in tokens if not any(places[1] <= t.start < places[-1] for places in torn)]
    return [
        # What ends in the first branch ends in the others as well.
        replace(found, end=max([found.end, *(p[-1] for p in torn if p[0] <= found.end <= p[1])]))
        for found in _declarations(first, marks, macros)
    ]


def _conditionals(text: str) -> Iterator[list[int]]:
    """Where the branches of each conditional begin, and where the last one ends.

    One whose branches do not close the brackets that they open (``#if`` with one head of a function, ``#else`` with
    another) is read by its first branch alone.
    """
    opened: list[list[int]] = []
    for found in _CONDITIONAL.finditer(text):
        if found["word"].startswith("if"):
            opened.append([found.end()])
        elif opened and found["word"] != "endif":
            opened[-1].append(found.end())
        elif opened:
            yield [*opened.pop(), found.start()]


def _excess(tokens: Sequence[Token], branch: tuple[int, int]) -> int:
    within = (t.text for t in tokens if branch[0] <= t.start < branch[1])
    return sum((text == "{") - (text == "}") for text in within)


def _declarations(
    tokens: Sequence[Token], marks: frozenset[str], macros: Mapping[str, frozenset[str]]
) -> Iterator[Declaration]:
    at = 0
    while at < len(tokens):
        inner = _opened(tokens, at)
        if inner is not None:
            end = closing(tokens, inner)
            last = len(tokens) if end is None else end
            yield from _declarations(tokens[inner + 1 : last], marks, macros)
            at = last + 1
            continue
        end = _end(tokens, at)
        yield _item(tokens[at:end], marks, macros)
        at = end


def _opened(tokens: Sequence[Token], at: int) -> int | None:
    """Where a namespace or ``extern "C"`` opens, whose declarations stand one by one."""
    first = tokens[at].text
    if first == "inline" and at + 1 < len(tokens) and tokens[at + 1].text == "namespace":
        at, first = at + 1, "namespace"
    if first == "extern" and at + 2 < len(tokens) and tokens[at + 1].kind == "text":
        return at + 2 if tokens[at + 2].text == "{" else None
    if first != "namespace":
        return None
    at += 1
    while at < len(tokens) and (tokens[at].kind == "name" or tokens[at].text == ":"):
        at += 1
    return at if at < len(tokens) and tokens[at].text == "{" else None


def _end(tokens: Sequence[Token], at: int) -> int:
    """Behind the last token of the declaration that begins at ``at``."""
    begun = at
    function = False
    while at < len(tokens):
        text = tokens[at].text
        if text == ";":
            return at + 1
        if text in ("(", "[", "{"):
            if text == "{":
                function = _is_function(tokens[begun:at])
            end = closing(tokens, at)
            if end is None:
                return len(tokens)
            following = tokens[end + 1].text if end + 1 < len(tokens) else ""
            if text == "{" and function and following not in ("{", ","):
                return end + 1 + (following == ";")
            at = end
        at += 1
    return len(tokens)


def _is_function(head: Sequence[Token]) -> bool:
    """Whether a body follows these words, and not the members of a type or values."""
    words = _outside(_without_template(head))
    if any(t.text == "=" for t in words) and not any(t.text == "operator" for t in words):
        return False
    return not _is_type(words) and any(t.text == "(" for t in words)


def _is_type(words: Sequence[Token]) -> bool:
    """Whether a type is defined or declared alone: no parameters follow its name."""
    key = next((i for i, t in enumerate(words) if t.text in _TYPES), None)
    if key is None or any(t.text not in ("typedef", "static", "const", "constexpr") for t in words[:key]):
        return False
    return not any(
        t.text == "(" and i and words[i - 1].text not in _ATTRIBUTES for i, t in enumerate(words) if i > key
    )


def _without_template(head: Sequence[Token]) -> Sequence[Token]:
    while head and head[0].text == "template":
        depth, at = 0, 1
        while at < len(head):
            text = head[at].text
            depth += {"<": 1, "<<": 2, ">": -1, ">>": -2}.get(text, 0)
            at += 1
            if depth <= 0:
                break
        head = head[at:]
    return head


def _outside(tokens: Sequence[Token]) -> list[Token]:
    """The tokens outside of brackets, with the opening ones."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        found.append(tokens[at])
        if tokens[at].text in ("(", "[", "{"):
            end = closing(tokens, at)
            if end is None:
                break
            at = end
        at += 1
    return found


def _item(
    tokens: Sequence[Token], marks: frozenset[str], macros: Mapping[str, frozenset[str]]
) -> Declaration:
    body = next((i for i, t in enumerate(tokens) if t.text == "{"), len(tokens))
    # What ends within its own head is nothing, but is looked at like everything.
    words = _outside(_without_template(tokens) or tokens)
    texts = [t.text for t in words]
    is_type = _is_type(words) and texts[0] != "typedef"
    named = is_type or texts[0] in ("typedef", "using", "namespace", "static_assert")
    function = not named and _has_parameters(words)
    constant = _CALLABLE if function else _CONSTANT
    return Declaration(
        start=tokens[0].start,
        end=tokens[-1].end,
        device=not is_type and any(t.text in marks for t in tokens[:body]),
        usable=named or any(t.text in constant or _unknown(t, macros) for t in _head(words)),
        declares=frozenset(_declared(tokens, words, is_type=is_type, function=function)),
        names=frozenset(t.text for t in tokens if t.kind == "name"),
        host=tuple(_host_members(tokens[body:], marks, macros)) if is_type else (),
    )


def _host_members(
    members: Sequence[Token], marks: frozenset[str], macros: Mapping[str, frozenset[str]]
) -> Iterator[tuple[int, int]]:
    """Functions within a type that are the host's; virtual ones stay, as they are a part of its layout."""
    end = closing(members, 0) if members else None
    at = 1
    while end is not None and at < end:
        if members[at].text in _ACCESS and members[at + 1].text == ":":
            at += 2
            continue
        last = min(_end(members, at), end)
        item = _item(members[at:last], marks, macros)
        words = {t.text for t in members[at:last]}
        if not item.device and not item.usable and "(" in words and not words & _STAYS:
            yield item.start, item.end
        yield from item.host
        at = last


def _head(words: Sequence[Token]) -> list[Token]:
    """What stands before parameters, values and bodies: a type and what is said of it."""
    head = list(takewhile(lambda token: token.text not in ("(", "=", "{", "[", ";", ","), words))
    # Behind others stands the declared name itself, which is no macro.
    return head[:-1] if len(head) > 1 and head[-1].kind == "name" else head


def _unknown(token: Token, macros: Mapping[str, frozenset[str]]) -> bool:
    """Whether a word looks like a macro of another file, which may be a mark."""
    return token.kind == "name" and _MACRO_LIKE.fullmatch(token.text) is not None and token.text not in macros


def _has_parameters(words: Sequence[Token]) -> bool:
    for i, token in enumerate(words):
        if token.text in ("=", "{"):
            return False
        if token.text == "(" and i and words[i - 1].text not in _ATTRIBUTES:
            return True
    return False


def _declared(
    tokens: Sequence[Token], words: Sequence[Token], *, is_type: bool, function: bool
) -> Iterator[str]:
    texts = [t.text for t in words]
    if texts[0] in ("using", "namespace"):
        # `using namespace` and `using a::b` give no name that is not there already.
        if "=" in texts:
            yield texts[1]
        return
    if function:
        named = (texts[i - 1] for i, t in enumerate(texts) if t == "(" and i)
        yield next((name for name in named if name not in _ATTRIBUTES), "")
        return
    if texts[0] == "typedef":
        yield from _typedef_names(tokens)
        if not any(t in _TYPES for t in texts):
            return
    if is_type or texts[0] == "typedef":
        key = next(i for i, t in enumerate(texts) if t in _TYPES)
        named = (t.text for t in words[key + 1 :] if t.kind == "name" and t.text not in _TYPES | _ATTRIBUTES)
        yield next(named, "")
        if "enum" in texts:
            yield from (t.text for t in tokens if t.kind == "name")
        if "{" in texts:
            yield from (t.text for t in words[texts.index("{") + 1 :] if t.kind == "name")
        return
    for i, text in enumerate(texts):
        if text in ("=", "[", ",", ";", "{") and i and words[i - 1].kind == "name":
            yield texts[i - 1]


def _typedef_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Names that a ``typedef`` gives: before commas and the end, or pointers to functions."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {"{": 1, "}": -1}.get(token.text, 0)
        if depth:
            # Members.
            continue
        following = tokens[i + 1].text if i + 1 < len(tokens) else ""
        before = tokens[i - 1].text if i else ""
        if token.kind == "name" and (following in (";", ",", "[") or (before == "*" and following == ")")):
            yield token.text
