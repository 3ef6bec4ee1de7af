"""The source of a recorded program with its application's headers in it, so that it builds anywhere.

Reads headers where the application's own build found them; may not run anything.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from tuner.core.errors import SpecError
from tuner.core.source_text import text_of_file

__all__ = ["include_folders", "with_headers"]

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]+)[>\"][^\n]*$", re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b[^\n]*$", re.MULTILINE)
_OPTION = re.compile(r"-I|--include-path")
_DEEPEST = 64
_LONGEST = 4 << 20


def include_folders(options: str, base: Path) -> tuple[Path, ...]:
    """Folders that build options name for headers, in order.

    Args:
        options: of one build; ``-I DIR``, ``-IDIR``, ``--include-path DIR`` and ``--include-path=DIR``.
        base: what relative folders start from: where the application ran.
    """
    found: list[str] = []
    words = iter(shlex.split(options))
    for word in words:
        match = _OPTION.match(word)
        if match:
            found.append(word[match.end() :].removeprefix("=") or next(words, ""))
    return tuple(base / folder for folder in found if folder)


def with_headers(
    text: str, folders: Sequence[Path], *, base: Path, entry: str, left: Callable[[str], bool]
) -> str:
    """The source with each header in the place of its ``#include``, which is what a preprocessor makes of it.

    Args:
        text: of the program.
        folders: for headers.
        base: where the application ran; a header in quotes is looked for there first, one that another header
            includes beside that one.
        entry: the kernel, for messages.
        left: headers that the compiler brings itself stay as they are.

    Raises:
        SpecError: a header that is not there, that is no text, or that includes itself without end.
    """

    def filled(text: str, beside: Path, depth: int) -> str:
        def header(match: re.Match[str]) -> str:
            quoted, name = match[1] == '"', match[2]
            if left(name):
                return match[0]
            places = [beside, base, *folders] if quoted else list(folders)
            path = next((place / name for place in places if (place / name).is_file()), None)
            if path is None:
                raise _refused(entry, name, "which is not captured")
            if depth == _DEEPEST:
                raise _refused(entry, name, "which includes itself without end")
            try:
                inner = text_of_file(path)
            except (OSError, ValueError):
                raise _refused(entry, name, "which cannot be read") from None
            inner = _guarded(filled(inner, path.parent, depth + 1))
            return f"/* {name}, as it was when this was recorded */\n{inner.rstrip()}\n/* end of {name} */"

        result = _INCLUDE.sub(header, text)
        if len(result) > _LONGEST:
            raise _refused(entry, "headers", f"of more than {_LONGEST >> 20} MiB")
        return result

    return filled(text, base, 0)


def _guarded(text: str) -> str:
    """``#pragma once`` means nothing where the header is no file of its own."""
    if not _ONCE.search(text):
        return text
    name = f"RECORDED_{hashlib.sha256(text.encode()).hexdigest()[:16].upper()}"
    return f"#ifndef {name}\n#define {name}\n{_ONCE.sub('', text)}\n#endif"


def _refused(entry: str, name: str, why: str) -> SpecError:
    return SpecError(
        f"the source of {entry} includes {name}, {why}", "put the file into the source, and record again"
    )
