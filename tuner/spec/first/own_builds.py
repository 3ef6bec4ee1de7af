"""What a first spec says of the project's own build: its compiler, macros and dialect.

Asks the compiler what it is. May not run a build.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from tuner.core.compilers import CLANG
from tuner.core.errors import SpecError, TunerError, UsageError
from tuner.evaluators.host.build_compiler import asked_compiler
from tuner.spec.first.compile_commands import Compiled

__all__ = ["build_compiler", "doubts_of", "macro_flags", "path_from"]


def build_compiler(
    given: str | None, compiled: Compiled | None, language: str | None, *, openmp: bool
) -> tuple[tuple[str, ...], list[str]]:
    """The compiler that a first spec names, and what is said of one that it does not name.

    None is named where a list of commands has clang, whose passes can be tuned then, or a compiler that cannot be asked
    here, unless a person gives one; nor for kernels with OpenMP, whose threads only clang's code can have. A build that
    was watched is to have the winner's source, so that its clang is named too.

    Args:
        given: the command line's, with flags.
        compiled: how the build compiles the file.
        language: of the file.
        openmp: whether the kernel has threads of its own.

    Raises:
        UsageError: what is given is no compiler with flags, or the kernel cannot have one.
    """
    if given is not None:
        if language not in ("c", "c++"):
            raise UsageError("--compiler is for C and C++", "leave it out")
        if openmp:
            raise UsageError("--compiler is not for kernels with OpenMP pragmas", "leave it out")
        return _given(given), []
    if openmp or compiled is None or not compiled.command:
        return (), []
    command = compiled.command
    try:
        listed_clang = asked_compiler(command).family == CLANG and compiled.list is not None
        return (() if listed_clang else command), []
    except TunerError as error:
        return (), [
            f"the build's compiler is left out, {shlex.join(command)}: {' '.join(error.message.split())}"
        ]


def _given(text: str) -> tuple[str, ...]:
    example = "for example --compiler 'gcc -O3 -march=native'"
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--compiler {text!r} cannot be split into words: {error}", "check quotes") from None
    if not words:
        raise UsageError("--compiler is empty", example)
    try:
        asked_compiler(words)
    except SpecError as error:
        raise UsageError(f"--compiler {text!r}: {error.message}", error.hint or example) from None
    return words


def doubts_of(compiled: Compiled | None, folder: Path) -> list[str]:
    """What is said of flags that a project's build has."""
    if compiled is None or compiled.list is None:
        return []
    ways = f", of {compiled.ways} ways there the first" if compiled.ways > 1 else ""
    return [f"macros, folders and dialect are those of {path_from(folder, compiled.list)}{ways}"]


def macro_flags(define: Sequence[str], language: str | None) -> tuple[str, ...]:
    """Macros of the command line as the compiler's flags.

    Raises:
        UsageError: one is no macro, or the language has none.
    """
    if define and language not in ("c", "c++"):
        raise UsageError("-D is for C and C++", "write the macros into the spec: flags under space")
    for each in define:
        if not re.fullmatch(r"[A-Za-z_]\w*(=\S*)?", each):
            raise UsageError(f"-D {each} is no macro", "give NAME or NAME=value, without blanks")
    return tuple(f"-D{each}" for each in define)


def path_from(folder: Path, path: Path) -> str:
    """The path as a spec in the folder names it."""
    return os.path.relpath(path.resolve(), folder.resolve())
