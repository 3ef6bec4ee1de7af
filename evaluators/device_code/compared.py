"""``compare: ["clang -O3"]`` for device code: what the words mean to clang and LLVM. Text only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from tuner.core.errors import SpecError

__all__ = ["clang_words", "is_clang"]

_LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")


def is_clang(command: Sequence[str]) -> bool:
    """Whether a command names clang; the one in use is taken, with the LLVM that passes are run by."""
    return PurePath(command[0]).name in ("clang", "clang++")


def clang_words(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The pipeline of clang's level, the last one written, and the other flags.

    >>> clang_words(["clang", "-O3", "-DN=4"])
    ('default<O3>', ('-DN=4',))

    Raises:
        SpecError: no level, or one that LLVM does not have.
    """
    levels = [word for word in command[1:] if word.startswith("-O")]
    if not levels or levels[-1] not in _LEVELS:
        said = levels[-1] if levels else "none"
        raise SpecError(f"{' '.join(command)}: the level is {said}", f"one of {', '.join(_LEVELS)}")
    others = tuple(word for word in command[1:] if not word.startswith("-O"))
    return f"default<{levels[-1][1:]}>", others
