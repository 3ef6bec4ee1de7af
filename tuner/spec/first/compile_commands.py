"""How a project's own build compiles a file: its macros, folders of headers and dialect, for a first spec.

Reads the list that build systems write for clang's tools. May not run a build or a compiler.

Source: https://clang.llvm.org/docs/JSONCompilationDatabase.html.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.evaluators.host.flags import MEANING

__all__ = ["LIST_FILE", "Compiled", "compiled_as"]

LIST_FILE = "compile_commands.json"
_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter")
_NAMED = ("-include", "-imacros")
_TAKEN = ("-D", "-U")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """How a file is compiled.

    Attributes:
        list: the file that says so.
        include: folders of headers.
        flags: macros, dialect and what changes a source's meaning.
        ways: in how many that differ; this is the first.
    """

    list: Path
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    ways: int = 1


def compiled_as(source: Path, given: Path | None = None) -> Compiled | None:
    """How a source is compiled by what a build wrote down; ``None`` where nothing was found that has it.

    Args:
        source: the file.
        given: the list or its folder; else it is looked for in the folders around the source, and in ``build`` there.

    Raises:
        UsageError: the list that is named cannot be read, or does not have the file.
    """
    source = source.resolve()
    for path in [_listed(given)] if given is not None else _around(source):
        found = [_words(entry) for entry in _entries(path) if _file(entry) == source]
        if found:
            made = list(dict.fromkeys(_sorted(words, folder) for words, folder in found))
            include, flags = made[0]
            return Compiled(list=path, include=include, flags=flags, ways=len(made))
        if given is not None:
            raise UsageError(f"{path} does not have {source.name}", "build the target that compiles it")
    return None


def _listed(given: Path) -> Path:
    return given / LIST_FILE if given.is_dir() else given


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


def _file(entry: Mapping[str, Any]) -> Path:
    return Path(entry["directory"], entry["file"]).resolve()


def _words(entry: Mapping[str, Any]) -> tuple[list[str], Path]:
    """The command's words, those of response files in their place, and the folder that it runs in."""
    folder = Path(entry["directory"])
    try:
        words = [str(word) for word in entry.get("arguments") or shlex.split(entry.get("command", ""))]
        made: list[str] = []
        for word in words:
            made += shlex.split((folder / word[1:]).read_text()) if word.startswith("@") else [word]
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the command for {entry['file']} cannot be read: {error}", "build it first"
        ) from None
    return made, folder


def _sorted(words: Sequence[str], folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Folders of headers, and flags that stay."""
    include: list[Path] = []
    flags: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        option = next((o for o in (*_FOLDERS, *_NAMED, *_TAKEN) if word.startswith(o)), None)
        if word.startswith("-std=") or word in MEANING:
            flags.append(word)
        elif option is not None:
            value = word[len(option) :] or next(rest, "")
            if option in _TAKEN:
                flags.append(option + value)
            elif option in _FOLDERS:
                include.append(Path(os.path.normpath(folder / value)))
            else:
                header = Path(os.path.normpath(folder / value))
                include.append(header.parent)
                flags += [option, header.name]
    return tuple(dict.fromkeys(include)), tuple(flags)
