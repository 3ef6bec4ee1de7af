"""What clang answers about sources: each question is put once in a process while the files that clang reads stay.

The same kernel is read again by every command of a run, by each of its parts, and with one flag more. Must not know
what is asked.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tuner.core.errors import BaselineError
from tuner.core.types import Source
from tuner.spaces.source.memo import Kept
from tuner.spec.reading.clang_forks import Said, run_clang
from tuner.spec.reading.nodes import Node

__all__ = ["EMPTY", "Question", "not_accepted", "trees_of"]

EMPTY = "empty/of/headers/there"
"""Folder of headers with nothing in them, deep enough for names that begin with ``..``."""

_KEPT_BYTES = 2 << 20
_CHANGES = re.compile(r"embed|__(?:DATE|TIME|TIMESTAMP)__|pragma\s+GCC\s+dependency")
"""In a source: its answer may be another one when the clock is, or a file that clang does not name."""
_LISTS = "-M"
"""A question for the headers themselves."""
_READ = "files.that.were.read"
"""Where clang writes which files those are (``-MF``)."""

_BEGIN = re.compile(r"\S")
_ERROR = re.compile(r"^(?P<where>[^:\n]+:\d+)(:\d+)?: (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)

_State = tuple[tuple[str, int, int], ...]
"""Path, time of the last change and size of headers and their folders."""

_KNOWN: Kept[tuple[int, bytes, bytes, _State]] = Kept(64)
"""Answers with their output packed."""


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

    def answer(self) -> Said:
        """What clang says.

        Raises:
            MachineError: it does not answer.
        """
        changes = any(_CHANGES.search(file.text.replace("\\\n", "")) for file in self.files)
        if changes or _LISTS in self.words:
            return self._asked()[0]
        key = (self.clang, self.words, self.folders, self.empty, *((f.name, f.text) for f in self.files))
        found = _KNOWN.get(key)
        if found is not None and _state(path for path, *_ in found[3]) == found[3]:
            return found[0], zlib.decompress(found[1]), found[2]
        answer, read = self._asked()
        packed = zlib.compress(answer[1], level=1)
        if len(packed) + len(answer[2]) <= _KEPT_BYTES:
            # A header that appears beside the others, or in a folder before theirs, may be the one that is meant then.
            folders = (word for word in self.folders if Path(word).is_absolute())
            state = _state((*read, *{str(Path(each).parent) for each in read}, *folders))
            _KNOWN.put(key, (answer[0], packed, answer[2], state))
        return answer

    def _asked(self) -> tuple[Said, list[str]]:
        """The answer, and the headers that it is made of."""
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            for file in self.files:
                (Path(scratch) / PurePath(file.name).name).write_bytes(file.data)
            for name in self.empty:
                header = Path(scratch, EMPTY, name)
                header.parent.mkdir(parents=True, exist_ok=True)
                header.touch()
            listing = () if _LISTS in self.words else ("-MD", "-MF", _READ, "-MT", "all")
            words = [*self.words[:-1], *listing, *self.folders, self.words[-1]]
            said = run_clang(self.clang, words, scratch)
            read = Path(scratch, _READ)
            listed = read.read_text("utf-8", "replace") if read.exists() else ""
        return said, _headers(listed)


def _headers(listed: str) -> list[str]:
    """The paths of a rule of make; what is relative lies beside the source, and is part of the question."""
    names = re.findall(r"(?:\\.|\$\$|[^\s\\$])+", listed.partition(":")[2].replace("\\\n", " "))
    plain = (re.sub(r"\\(.)|\$(\$)", r"\1\2", name) for name in names)
    return [name for name in plain if Path(name).is_absolute()]


def _state(paths: Iterable[str]) -> _State:
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            found.append((path, 0, -1))
        else:
            found.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


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
