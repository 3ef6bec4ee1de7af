"""What clang answers about sources: each question is put once in a process while the files that clang reads stay.

The same kernel is read again by every command of a run, by each of its parts, and with one flag more. Must not know
what is asked.
"""

from __future__ import annotations

import json
import re
import tempfile
import zlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from tuner.core.errors import BaselineError
from tuner.core.source_text import source_bytes
from tuner.core.types import Source
from tuner.spaces.source.memo import Kept
from tuner.spec.reading.clang_forks import Said, run_clang
from tuner.spec.reading.nodes import Node
from tuner.spec.reading.precompiled_sources import PRECOMPILED, State, state_of

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
_LISTING = ("-MD", "-MF", _READ, "-MT", "all")
_NAMED = "-ast-dump-filter="
"""A question for some declarations."""

_BEGIN = re.compile(r"\S")
_ERROR = re.compile(r"^(?P<where>[^:\n]+:\d+)(:\d+)?: (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)

_KNOWN: Kept[tuple[int, bytes, bytes, State]] = Kept(64)
"""Answers with their output packed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One run of clang.

    Attributes:
        clang: its path.
        asks: words of the command that say what is asked.
        words: those by which the source is read, ``-x`` and the language last.
        folders: words that name folders of headers.
        files: written to the folder that it runs in; the first one is read.
        empty: headers with nothing in them, written to :data:`EMPTY` there.
        extra: text behind the first file's.
    """

    clang: str
    asks: tuple[str, ...]
    words: tuple[str, ...]
    folders: tuple[str, ...]
    files: tuple[Source, ...]
    empty: tuple[str, ...] = ()
    extra: str = ""

    def answer(self) -> Said:
        """What clang says.

        Raises:
            MachineError: it does not answer.
        """
        changes = any(_CHANGES.search(file.text.replace("\\\n", "")) for file in self.files)
        if changes or _LISTS in self.asks:
            return self._asked()[0]
        key = (self._parse, self.asks, self.extra)
        found = _KNOWN.get(key)
        if found is not None and state_of([path for path, *_ in found[3]]) == found[3]:
            return found[0], zlib.decompress(found[1]), found[2]
        answer, state = self._of_precompiled() or self._asked()
        packed = zlib.compress(answer[1], level=1)
        if len(packed) + len(answer[2]) <= _KEPT_BYTES:
            _KNOWN.put(key, (answer[0], packed, answer[2], state))
        return answer

    @property
    def _parse(self) -> Hashable:
        """What a parse of the source depends on."""
        files = tuple((file.name, file.text) for file in self.files)
        return self.clang, self.words, self.folders, self.empty, files

    @property
    def _first(self) -> str:
        return PurePath(self.files[0].name).name

    def _of_precompiled(self) -> tuple[Said, State] | None:
        """The answer of a source that was parsed before, to what asks for some of its declarations."""
        if not any(word.startswith(_NAMED) for word in self.asks) or self.words[-1] not in ("c", "c++"):
            return None

        def written(folder: str) -> tuple[str, Callable[[], State]]:
            self._write(folder)
            return self._first, lambda: self._read(folder)

        words = [*self.words[:-2], *_LISTING, *self.folders, *self.words[-2:]]
        source = PRECOMPILED.found(self._parse, self.clang, words, written)
        if source is None:
            return None
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            self._write(scratch)
            asks = [*self.asks, *self.words[:-2], *self.folders, *self.words[-2:]]
            said = source.ask(self.clang, asks, source_bytes(self.extra), scratch)
        return None if said is None else (said, source.state)

    def _asked(self) -> tuple[Said, State]:
        """The answer, and the state of what it is made of."""
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            self._write(scratch)
            with Path(scratch, self._first).open("ab") as first:
                first.write(source_bytes(self.extra))
            listing = () if _LISTS in self.asks else _LISTING
            words = [*self.asks, *self.words[:-2], *listing, *self.folders, *self.words[-2:], self._first]
            said = run_clang(self.clang, words, scratch)
            state = self._read(scratch)
        PRECOMPILED.parsed(self._parse, len(self.files[0].text) + sum(size for *_, size in state))
        return said, state

    def _write(self, folder: str) -> None:
        for file in self.files:
            Path(folder, PurePath(file.name).name).write_bytes(file.data)
        for name in self.empty:
            header = Path(folder, EMPTY, name)
            header.parent.mkdir(parents=True, exist_ok=True)
            header.touch()

    def _read(self, folder: str) -> State:
        """The state of the headers that a run in a folder has read."""
        listed = Path(folder, _READ)
        read = _headers(listed.read_text("utf-8", "replace")) if listed.exists() else []
        # A header that appears beside the others, or in a folder before theirs, may be the one that is meant then.
        folders = (word for word in self.folders if Path(word).is_absolute())
        return state_of([*read, *{str(Path(each).parent) for each in read}, *folders])


def _headers(listed: str) -> list[str]:
    """The paths of a rule of make; what is relative lies beside the source, and is part of the question."""
    names = re.findall(r"(?:\\.|\$\$|[^\s\\$])+", listed.partition(":")[2].replace("\\\n", " "))
    plain = (re.sub(r"\\(.)|\$(\$)", r"\1\2", name) for name in names)
    return [name for name in plain if Path(name).is_absolute()]


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
