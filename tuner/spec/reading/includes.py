"""The headers that sources include, as far as they can be read: in quotes, in angle brackets, by a macro's name.

Reads through a function that it is handed. May not preprocess: what stands under a condition is followed as well.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["read_headers"]

_MOST = 500
_INCLUDE = re.compile(
    r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]\w*)[^\n]*)', re.MULTILINE
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_NAMED = re.compile(r'"([^"\n]+)"$|<([^>\n]+)>$')
_DEEPEST = 8


def read_headers(
    files: dict[str, str],
    include: Sequence[str],
    read: Callable[[str], str],
    *,
    macros: Mapping[str, Sequence[str]],
) -> tuple[list[str], list[str]]:
    """Adds what is included and can be read; clang says what it misses.

    In angle brackets stands what lies in a folder of ``include``, without which a changed header would go unseen, or
    what the compiler and the system bring, which is not read.

    Args:
        files: texts by name; headers are added.
        include: folders of headers.
        read: gives a text by its name; raises ``OSError`` or ``ValueError``.
        macros: values that the spec gives to names.

    Returns:
        Names of the headers that were found by an include in quotes, or by a macro that stands for one; includes whose
        macro stands for nothing that could be told: ``file: NAME``.
    """
    named, quoted = set(files), list[str]()
    waiting, followed = list(files), set[tuple[str, str]]()

    def follow(current: str, written: str) -> list[str]:
        """The name of what was read for an include, if it was not known."""
        in_quotes, target = written[0] == '"', written[1:-1]
        for folder in (posixpath.dirname(current), "", *include) if in_quotes else include:
            name, new = posixpath.normpath(posixpath.join(folder, target)), []
            if name not in files:
                try:
                    files[name] = read(name)
                except (OSError, ValueError):
                    continue
                new = [name]
            if in_quotes and name not in named:
                named.add(name)
                quoted.append(name)
            return new
        return []

    while waiting:
        while waiting and len(files) < _MOST:
            current = waiting.pop()
            for written in _written(files[current]):
                waiting += follow(current, written)
        waiting.clear()
        # Only now are all definitions known that the names may have; what they bring may bring others.
        defined = {**_defined(files), **{n: list(v) for n, v in macros.items()}}
        named_by = [(name, macro) for name, text in files.items() for macro in _by_macro(text)]
        for name, written in [(n, w) for n, macro in named_by for w in _values(macro, defined)]:
            if (name, written) not in followed:
                followed.add((name, written))
                waiting += follow(name, written)
    return quoted, [f"{name}: {macro}" for name, macro in named_by if not any(_values(macro, defined))]


def _written(text: str) -> Iterator[str]:
    """What a text includes by itself, as it is written in quotes or brackets."""
    for found in _INCLUDE.finditer(text):
        if not found[3]:
            yield f'"{found[1]}"' if found[1] else f"<{found[2]}>"


def _by_macro(text: str) -> Iterator[str]:
    yield from dict.fromkeys(found[3] for found in _INCLUDE.finditer(text) if found[3])


def _values(macro: str, defined: Mapping[str, Sequence[str]], depth: int = 0) -> Iterator[str]:
    """Every file that a macro may stand for; nothing where it is made of others by more than their names."""
    for value in defined.get(macro, ()) if depth < _DEEPEST else ():
        if _NAMED.match(value):
            yield value
        elif value.isidentifier():
            yield from _values(value, defined, depth + 1)


def _defined(files: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in files.values():
        for name, value in _DEFINE.findall(text):
            found.setdefault(name, []).append(re.sub(r"[ \t]*(?://.*|/\*.*\*/[ \t]*)$", "", value))
    return found
