"""Watches a build in a copy of an application's folder: by which commands it compiles the files that are asked about.

A small library notes how each program of the build is called (``build_notes.c``): the dynamic linker loads it before
the program and puts it away again. Programs that are linked statically, and those that get none of the build's
environment, are not seen; then nothing is known of a file, which is no error. May not change what a build does.

Source: man rtld-audit(7), ld.so(8): ``LD_AUDIT``; GCC manual, "Overall Options".
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from tuner.core.errors import MachineError, UsageError
from tuner.driver.applications.builds import Rebuilt, build_in
from tuner.driver.applications.included_files import Inclusions, is_source, with_included
from tuner.driver.applications.trees import Tree
from tuner.evaluators.host.shared import shared_library
from tuner.spec.first.compile_commands import (
    CACHES,
    Compiled,
    compiled_by,
    is_compiler,
    makes_code,
    with_responses,
    without_launchers,
)

__all__ = ["build_watched"]

_LIBRARY = "build_notes.c"
_END = "end"
_HEAD = 5
_SCRIPT_WORDS = 3
"""The interpreter of a script, one option of it, and the script: how the kernel calls one."""
_MOST_GENERATIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Called:
    """A program as it was called.

    Attributes:
        process, parent: by number.
        folder: that it ran in.
        program: as the kernel was given it.
        words: with those of response files in their place.
    """

    process: int
    parent: int
    folder: Path
    program: str
    words: tuple[str, ...]


def build_watched(
    tree: Tree, application: Rebuilt, way: str, sources: Sequence[Path], scratch: Path, **more: str
) -> dict[Path, Compiled]:
    """Builds an application in a copy, as :func:`tuner.driver.applications.builds.build_in` does.

    Args:
        tree: the copy.
        application: how it is built.
        way: what is different there, for messages.
        sources: files below the original folder; also such as others include.
        scratch: a folder for what is noted.
        more: as ``build_in`` takes it.

    Returns:
        How each source is compiled, by its path in the original folder; without those of which nothing was seen.

    Raises:
        UsageError: the build fails, or writes what it compiles outside of the folder.
    """
    notes = scratch / "notes"
    notes.mkdir()
    program = Path(os.path.normpath(application.here.resolve() / application.command[0]))
    inclusions = Inclusions(tree.original)
    compiled = {one: None for each in sources for one in (each, *inclusions.sources(each)) if is_source(one)}
    around = _around(tree, notes, (*(source.name for source in compiled), program.name))
    build_in(tree, application, way, around=around, **more)
    called = [one for one in map(_read, sorted(notes.glob("*"))) if one is not None]
    commands = {source: _compiling(called, tree, source) for source in compiled}
    _require_inside([one for of_source in commands.values() for one in of_source], tree)
    parts = _parts(called, program)
    found = {}
    for source, made in commands.items():
        # Of several the one that the program has.
        found[source] = compiled_by(sorted(made, key=lambda each: _output(*each) not in parts), None)
    seen = {source: how for source, how in found.items() if how is not None}
    return {path: how for path, how in with_included(seen, sources, inclusions).items() if path in sources}


def _around(tree: Tree, notes: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Words that run a command with the library; none where it cannot be made, or programs do not run with it."""
    text = package_files("tuner.recorders.recordings").joinpath(_LIBRARY).read_text(encoding="utf-8")
    try:
        library = tree.readable(shared_library(text, "build-notes"))
    except MachineError:
        return ()
    before = os.environ.get("LD_AUDIT", "")
    variables = {
        "LD_AUDIT": f"{library}:{before}" if before else str(library),
        "TUNER_BUILD_NOTES": str(notes.resolve()),
        "TUNER_BUILD_FILES": "/".join(dict.fromkeys(names)),
    }
    words = ("env", *(f"{name}={value}" for name, value in variables.items()))
    return words if _works(words, notes, names[0]) else ()


def _works(words: Sequence[str], notes: Path, name: str) -> bool:
    """Whether a program runs with the library as without, and is noted.

    Old versions of glibc may fail where an auditor wants to be left out; other C libraries load none.
    """
    done = subprocess.run([*words, "true", name], capture_output=True, check=False)
    found = list(notes.glob("*"))
    for note in found:
        note.unlink()
    return bool(found) and not (done.returncode or done.stdout or done.stderr)


def _read(path: Path) -> _Called | None:
    """What a note says; ``None`` where it is not whole or has words that none can read."""
    try:
        parts = path.read_bytes().decode().split("\0")
        if parts[-2:] != [_END, ""]:
            return None
        last = _HEAD + int(parts[_HEAD - 1])
        # The first word is the program, whatever it begins with.
        words = [parts[_HEAD], *with_responses(parts[_HEAD + 1 : last], parts[last:-2])]
    except (ValueError, IndexError):
        return None
    if parts[3] in words[1:_SCRIPT_WORDS]:
        # By what name it was called is lost.
        words = [os.path.basename(parts[3]), *words[words.index(parts[3], 1) + 1 :]]
    return _Called(
        process=int(parts[0]),
        parent=int(parts[1]),
        folder=Path(parts[2]),
        program=parts[3],
        words=tuple(words),
    )


def _compiling(called: Sequence[_Called], tree: Tree, source: Path) -> list[tuple[Sequence[str], Path]]:
    """The commands that compile a file, in order: of a compiler that calls another the outer one alone."""
    parents = {one.process: one.parent for one in called}
    found: list[tuple[Sequence[str], Path]] = []
    busy: set[int] = set()
    for one in called:
        words = _compiler_words(one)
        if not words or not makes_code(words) or not _has(words, one.folder, tree, source):
            continue
        if busy.isdisjoint(_line(one.process, parents)):
            found.append((words, one.folder))
        busy.add(one.process)
    return found


def _require_inside(commands: Sequence[tuple[Sequence[str], Path]], tree: Tree) -> None:
    """Refuses a build that leaves objects where no copy is, such as in ``../build``, or behind a link that leads there.

    Raises:
        UsageError: it is one.
    """
    for words, folder in commands:
        place = _output(words, folder)
        found = {path for path in (place.resolve(), tree.in_copy(place).resolve()) if path.exists()}
        if not all(any(map(path.is_relative_to, (tree.copy.resolve(), tree.original))) for path in found):
            raise UsageError(
                f"the build has written {place}, outside of {tree.original}, of which a copy is made",
                "name a folder that holds both with --tree (tree: in the file), and build anew what lies there",
            )


def _output(words: Sequence[str], folder: Path) -> Path:
    """What a compiler's command makes; the folder that it runs in where it does not say."""
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o"]
    return Path(os.path.normpath(folder / (named[-1] if named else ".")))


def _parts(called: Sequence[_Called], program: Path) -> set[Path]:
    """A program, and the files that it is linked of."""
    found = {program}
    for one in called:
        words = _compiler_words(one)
        if words and _output(words, one.folder) == program:
            found.update(Path(os.path.normpath(one.folder / w)) for w in words[1:] if not w.startswith("-"))
    return found


def _line(process: int, parents: Mapping[int, int]) -> Iterator[int]:
    """A process and those that it comes from."""
    for _ in range(_MOST_GENERATIONS):
        yield process
        if process not in parents:
            return
        process = parents[process]


def _compiler_words(one: _Called) -> list[str]:
    """The command with its compiler first, as it can be called from anywhere; empty for another program."""
    first = one.words[0] if one.words else ""
    if os.path.basename(first) in CACHES:
        words = without_launchers(one.words)
        return words if is_compiler(words[0]) else []
    if not is_compiler(first):
        return []
    program = os.path.normpath(one.folder / one.program)
    known = None if os.sep in first else shutil.which(first)
    as_called = os.path.isabs(first) or (known is not None and _same(known, program))
    return [first if as_called else program, *one.words[1:]]


def _same(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _has(words: Sequence[str], folder: Path, tree: Tree, source: Path) -> bool:
    """Whether a file is among words; the build may have made links to it."""
    same = {source.resolve(), tree.in_copy(source).resolve()}
    for word in words[1:]:
        if not word.startswith("-"):
            path = Path(os.path.normpath(folder / word))
            if {path.resolve(), tree.in_copy(path).resolve()} & same:
                return True
    return False
