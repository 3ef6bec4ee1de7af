"""How a project's own build compiles a file: its macros, folders of headers, dialect, and its compiler.

Reads the list that build systems write for clang's tools. May not run a build or a compiler.

Source: https://clang.llvm.org/docs/JSONCompilationDatabase.html.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.spec.first.compile_words import sorted_words, without_launchers

__all__ = ["LIST_FILE", "Compiled", "compiled_as", "compiled_by", "with_responses"]

_THREADS = re.compile(r"-(?:fopenmp(?:=.*)?|f?iopenmp|qopenmp|mp(?:=.*)?|xopenmp(?:=.*)?)")
LIST_FILE = "compile_commands.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How a file is compiled.

    Attributes:
        list: the file that says so; ``None`` where the build was watched.
        include: folders of headers.
        flags: macros, dialect and what changes a source's meaning.
        command: the compiler, and the flags that say what code is made.
        ways: in how many that differ; this is the first.
    """

    list: Path | None
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    command: tuple[str, ...] = ()
    ways: int = 1

    @property
    def openmp(self) -> bool:
        """Whether directives of OpenMP have threads in it."""
        return any(_THREADS.fullmatch(word) for word in self.command)


def compiled_by(commands: Sequence[tuple[Sequence[str], Path]], listed: Path | None) -> Compiled | None:
    """How a file is compiled by the first of several commands; ``None`` where there is none.

    Args:
        commands: words, with the compiler first, and the folder that each runs in.
        listed: the file that says so.
    """
    made = list(dict.fromkeys(sorted_words(words, folder) for words, folder in commands))
    if not made:
        return None
    include, flags, command = made[0]
    return Compiled(list=listed, include=include, flags=flags, command=command, ways=len(made))


def compiled_as(source: Path, given: Path | None = None) -> Compiled | None:
    """How a source is compiled by what a build wrote down; ``None`` where nothing was found that has it.

    Args:
        source: the file.
        given: the list or its folder; else it is looked for in the folders around the source, and in ``build`` there.

    Raises:
        UsageError: the list that is named cannot be read, or does not have the file.
    """
    source = source.resolve()
    if given is not None and given.is_dir():
        given /= LIST_FILE
    for path in [given] if given is not None else _around(source):
        entries = _entries(path)
        found = [_words(e) for e in entries if Path(e["directory"], e["file"]).resolve() == source]
        if found:
            return compiled_by(found, path)
        if given is not None:
            raise UsageError(f"{path} does not have {source.name}", "build the target that compiles it")
    return None


def _around(source: Path) -> Iterator[Path]:
    for folder in source.parents:
        yield from (path for path in (folder / LIST_FILE, folder / "build" / LIST_FILE) if path.is_file())


def _entries(path: Path) -> list[Mapping[str, Any]]:
    try:
        entries = json.loads(path.read_bytes())
        if not isinstance(entries, list) or not all(
            isinstance(e, dict) and isinstance(e.get("file"), str) and isinstance(e.get("directory"), str)
            for e in entries
        ):
            raise ValueError("no list of entries with file and directory")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", "name it, or its folder") from None
    except ValueError as error:
        raise UsageError(f"{path} is no list of compile commands: {error}", "write it anew") from None
    return entries


def _words(entry: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The command's words, those of response files in their place, and the folder that it runs in."""
    folder = Path(entry["directory"])
    try:
        words = [str(word) for word in entry.get("arguments") or shlex.split(entry.get("command", ""))]
        made = with_responses(words, (Path(folder, w[1:]).read_text() for w in words if w.startswith("@")))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the command for {entry['file']} cannot be read: {error}", "build it first"
        ) from None
    return without_launchers(made), folder


def with_responses(words: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Words with those of response files in the place of the files.

    Args:
        words: of a command.
        texts: of its response files, in order.

    Raises:
        ValueError: a text that is none of words.
    """
    made: list[str] = []
    rest = iter(texts)
    for word in words:
        made += shlex.split(next(rest, "")) if word.startswith("@") else [word]
    return made
