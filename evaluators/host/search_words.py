"""Where a compiler looks for files to include. May not read files or run anything."""

from __future__ import annotations

import os
from collections.abc import Sequence

__all__ = ["search_words", "without_paths"]

_NAMING = ("-I", "-include", "-isystem", "-iquote", "-idirafter")


def search_words(folders: Sequence[str], own: str) -> list[str]:
    """Options for a compiler that runs where a kernel's files were written.

    Those come before the same files in the folder that they are from: a header elsewhere that includes one of them
    must not bring in a second copy, which ``#pragma once`` does not recognise and which edits do not reach.

    Args:
        folders: where files to include are looked up, in order.
        own: the one that the files are from; empty for none.
    """
    same = [os.path.normpath(folder) == os.path.normpath(own) for folder in folders if own]
    first = same.index(True) if True in same else len(folders)
    where = (*folders[:first], ".", *folders[first:])
    return [word for folder in where for word in ("-I", folder)]


def without_paths(flags: Sequence[str]) -> tuple[str, ...]:
    """Options of a compiler but those that name a file to include or a folder to look in."""
    pairs = zip(("", *flags), flags, strict=False)
    return tuple(word for head, word in pairs if head not in _NAMING and not word.startswith(_NAMING))
