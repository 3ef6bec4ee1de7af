"""A kernel that is ``static`` in its file, made callable for the time of its measuring.

Hot loops are often static functions. For compilers alone the word becomes blanks, with ``inline`` beside it, which in
C would leave no code to call. The files themselves, which are edited and handed back, keep both.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from tuner.core.types import Source, Variant

__all__ = ["exposed", "is_static"]

_WORDS = re.compile(r"\b(?:static|inline|__inline__|__inline)\b")
_STATIC = re.compile(r"\bstatic\b")
_CLASS = re.compile(r"\b(?:class|struct|union)\b")
_NOT_READ = re.compile(
    r"""
    /\*.*?\*/ | //[^\n]*                                  # comments
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'         # texts
    | \b__attribute__\s*\(\(.*?\)\)
    | ^[ \t]*\#(?:[^\n\\]|\\.)*                         # directives
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def exposed(variant: Variant, entry: str, language: str) -> Variant:
    """The variant with an entry that others can call; itself where they can anyway.

    Args:
        variant: the files; only the first one is changed.
        entry: name of a function, with its namespaces where it has some.
        language: of the files; in C a function that is ``inline`` alone has no code of its own either.
    """
    first, *others = variant.files
    text = _exposed(first.text, entry.rpartition("::")[2], _WORDS if language == "c" else _STATIC)
    return (
        variant
        if text == first.text
        else replace(variant, files=(Source(name=first.name, text=text), *others))
    )


def is_static(variant: Variant, entry: str, language: str) -> bool:
    """Whether only its own file can call the entry, by the looks of the text."""
    return exposed(variant, entry, language) is not variant


@lru_cache(maxsize=256)
def _exposed(text: str, name: str, hiding: re.Pattern[str]) -> str:
    if name not in text or not hiding.search(text):
        return text
    # Blanks keep the places of everything else.
    read = _NOT_READ.sub(lambda found: " " * len(found[0]), text)
    made = list(text)
    for place in re.finditer(rf"\b{re.escape(name)}\s*\(", read):
        # What stands between the declaration before and the name.
        begin = max(read.rfind(end, 0, place.start()) for end in ";{}") + 1
        head = read[begin : place.start()]
        word = hiding.search(head)
        if word and not re.search(r"[=()]", head[word.end() :]) and not _in_a_class(read, begin):
            for each in _WORDS.finditer(head):
                made[begin + each.start() : begin + each.end()] = " " * len(each[0])
    return "".join(made)


def _in_a_class(text: str, end: int) -> bool:
    """Whether a place lies right in the body of a class, where the words mean something else."""
    heads, last = list[str](), 0
    for found in re.finditer(r"[{};]", text[:end]):
        if found[0] == "{":
            heads.append(text[last : found.start()])
        elif found[0] == "}":
            heads[-1:] = []
        last = found.end()
    return bool(heads) and "(" not in heads[-1] and _CLASS.search(heads[-1]) is not None
