"""Headers in the folders that a spec names, read beforehand: the process that compiles sees no folder of the user's.

May not preprocess: what is included under a condition is read as well.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from tuner.core.source_text import text_of_file

__all__ = ["included"]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)
_MOST = 500
"""Headers of one program; far more are none of a kernel's own."""


def included(texts: Iterable[str], folders: Sequence[Path]) -> list[tuple[int, str, str]]:
    """The headers that texts include from folders, and that those include.

    Args:
        texts: of sources and headers elsewhere.
        folders: in the order in which they are searched.

    Returns:
        The number of the folder, the name below it and the text of each, in the order in which they are met.
    """
    waiting: list[tuple[int | None, str, str]] = [(None, "", text) for text in texts]
    found: dict[tuple[int, str], str] = {}
    while waiting and len(found) < _MOST:
        own, current, text = waiting.pop(0)
        for name in _INCLUDE.findall(text):
            places = [(i, posixpath.normpath(name)) for i in range(len(folders))]
            if own is not None:
                places.insert(0, (own, posixpath.normpath(posixpath.join(posixpath.dirname(current), name))))
            for place in places:
                if place in found:
                    break
                header = _text(folders[place[0]], place[1])
                if header is not None:
                    found[place] = header
                    waiting.append((*place, header))
                    break
    return [(number, name, text) for (number, name), text in found.items()]


def _text(folder: Path, name: str) -> str | None:
    """``None`` for what is not there, lies outside the folder or is no text: the compiler says what it misses."""
    if name.startswith(("..", "/")):
        return None
    try:
        return text_of_file(folder / name)
    except (OSError, ValueError):
        return None
