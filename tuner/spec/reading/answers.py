"""What clang answers about sources: each question is put once in a process where nothing but its words can matter.

The same kernel is read again by every command of a run, by each of its parts, and with one flag more. Must not know
what is asked.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tuner.core.errors import BaselineError, MachineError
from tuner.core.types import Source
from tuner.spaces.source.memo import Kept
from tuner.spec.reading.nodes import Node

__all__ = ["EMPTY", "Question", "not_accepted", "trees_of"]

EMPTY = "empty/of/headers/there"
"""Folder of headers with nothing in them, deep enough for names that begin with ``..``."""

_TIMEOUT_S = 30.0
_KEPT_BYTES = 1 << 20
_READS_MORE = re.compile(r"include|import|embed|__(?:DATE|TIME|TIMESTAMP)__|pragma\s+GCC\s+dependency")
"""In a source or a flag: its answer may be another one when a file or the clock is."""

_BEGIN = re.compile(r"\S")
_ERROR = re.compile(r"^(?P<where>[^:\n]+:\d+)(:\d+)?: (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)

Answer = tuple[int, bytes, bytes]
"""Exit status, standard output, standard error."""

_KNOWN: Kept[Answer] = Kept(128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One run of clang.

    Attributes:
        clang: its path.
        words: of the command; the first file's name comes last.
        folders: words that name folders of headers, put before the last one.
        files: written to the folder that it runs in.
        empty: headers with nothing in them, written to :data:`EMPTY` there.
    """

    clang: str
    words: tuple[str, ...]
    folders: tuple[str, ...]
    files: tuple[Source, ...]
    empty: tuple[str, ...] = ()

    def answer(self) -> Answer:
        """What clang says.

        Raises:
            MachineError: it does not answer.
        """
        if not self._stands_alone():
            return self._asked()
        key = (self.clang, self.words, *((f.name, f.text) for f in self.files))
        found = _KNOWN.get(key)
        if found is None:
            found = self._asked()
            if sum(map(len, found[1:])) <= _KEPT_BYTES:
                _KNOWN.put(key, found)
        return found

    def _stands_alone(self) -> bool:
        texts = (file.text.replace("\\\n", "") for file in self.files)
        return not any(map(_READS_MORE.search, texts)) and not any(
            "/" in word or word.startswith(("-I", "-i", "--", "@")) for word in self.words[:-1]
        )

    def _asked(self) -> Answer:
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            for file in self.files:
                (Path(scratch) / PurePath(file.name).name).write_bytes(file.data)
            for name in self.empty:
                header = Path(scratch, EMPTY, name)
                header.parent.mkdir(parents=True, exist_ok=True)
                header.touch()
            try:
                done = subprocess.run(
                    [self.clang, *self.words[:-1], *self.folders, self.words[-1]],
                    cwd=scratch,
                    capture_output=True,
                    timeout=_TIMEOUT_S,
                    check=False,
                    env={"LC_ALL": "C"},
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise MachineError(f"clang does not answer: {error}", "run tuner doctor") from error
        return done.returncode, done.stdout, done.stderr


def trees_of(output: str) -> Iterator[Node]:
    """The syntax trees that clang prints one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while begin := _BEGIN.search(output, at):
        tree, at = decoder.raw_decode(output, begin.start())
        yield tree


def not_accepted(errors: str, first: str) -> BaselineError:
    """That clang does not accept a source.

    Args:
        errors: what it prints.
        first: name of the source.
    """
    found = _ERROR.search(errors)
    what = f"{found['where']}: {found['what']}" if found else " ".join(errors.split())[:200] or first
    hint = "clang must accept it with the default parameters"
    if what.endswith("file not found"):
        hint = "name its folder: include under kernel in the spec, or tuner init -I"
    if "'mpi.h'" in what:
        hint = (
            "name its folder, which `mpicc -show` tells: include under kernel in the spec, or tuner init -I"
        )
    if "'omp.h'" in what:
        hint = "write openmp: true under kernel, or put it between #ifdef _OPENMP and #endif"
    return BaselineError(f"the kernel does not compile: {what}", hint)
