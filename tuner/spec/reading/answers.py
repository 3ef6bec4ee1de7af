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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tuner.core.errors import BaselineError
from tuner.core.scratch import ScratchFolder
from tuner.core.source_text import source_bytes
from tuner.core.types import Source
from tuner.spaces.source.memo import Kept
from tuner.spec.reading.clang_forks import Said, run_clang
from tuner.spec.reading.nodes import Node

__all__ = ["EMPTY", "Question", "length_of_beginning", "not_accepted", "trees_of"]

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
_PREPROCESSES, _TRANSLATES = "-E", "-S"
_PRECOMPILED = "headers.pch"
_NOT_BLANK = re.compile(rb"[^\n]")

_BEGIN = re.compile(r"\S")
_ERROR = re.compile(r"^(?P<where>[^:\n]+:\d+)(:\d+)?: (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)

State = tuple[tuple[str, int, int], ...]
"""Path, time of the last change and size of headers and their folders; of what is not there the size is -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Headers:
    """What clang has made of the headers that sources begin with: it parses them once for all that begin alike.

    Source: https://clang.llvm.org/docs/PCHInternals.html

    Attributes:
        folder: with that.
        made: whether it accepts them alone.
        state: of all that was read.
    """

    folder: ScratchFolder
    made: bool
    state: State

    @property
    def place(self) -> str:
        """The file that it made."""
        return f"{self.folder.name}/{_PRECOMPILED}"


_KNOWN: Kept[tuple[int, bytes, bytes, State]] = Kept(64)
"""Answers with their output packed."""
_HEADERS: Kept[_Headers] = Kept(4)
"""Of some megabytes each."""


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
        if _LISTS in self.asks or any(_CHANGES.search(f.text.replace("\\\n", "")) for f in self.files):
            return self._asked()[0]
        found = _KNOWN.get(self)
        if found is not None and _is_current(found[3]):
            return found[0], zlib.decompress(found[1]), found[2]
        answer, state = self._asked_of_rest() or self._asked()
        packed = zlib.compress(answer[1], level=1)
        if len(packed) + len(answer[2]) <= _KEPT_BYTES:
            _KNOWN.put(self, (answer[0], packed, answer[2], state))
        return answer

    def _asked(self) -> tuple[Said, State]:
        """The answer, and the state of what it is made of."""
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            return self._run(scratch, self.files[0].data)

    def _asked_of_rest(self) -> tuple[Said, State] | None:
        """The same by a parse of what stands behind the headers, where those can be precompiled."""
        data = self.files[0].data
        end = length_of_beginning(data)
        asked = end and _PREPROCESSES not in self.asks and self.words[-1] in ("c", "c++")
        headers = self._headers(data[:end]) if asked else None
        if headers is None:
            return None
        # Blanks in the place of the beginning: what stands behind it keeps its place.
        rest = _NOT_BLANK.sub(b" ", data[:end]) + data[end:]
        with tempfile.TemporaryDirectory(prefix="tuner-spec-") as scratch:
            options = ("-Xclang", "-fno-validate-pch", "-include-pch", headers.place)
            (status, output, errors), state = self._run(scratch, rest, options)
        # In a fork they are gone once its parent is.
        if status < 0 or headers.place.encode() in errors:
            return None
        # Names of files in the folder of the headers are told, and read, as of the source's own.
        own = f"{headers.folder.name}/"
        said = status, output.replace(own.encode(), b""), errors.replace(own.encode(), b"")
        return said, tuple(each for each in state if not f"{each[0]}/".startswith(own))

    def _headers(self, beginning: bytes) -> _Headers | None:
        """What the source begins with, precompiled now where it was not or has changed; nothing where it cannot be."""
        key = (beginning, self.clang, self.words, self.folders, self.empty, self._first, self.files[1:])
        found = _HEADERS.get(key)
        if found is None and _TRANSLATES in self.asks:
            # As it is asked of all sources of a project, and of most nothing else is.
            return None
        if found is None or not _is_current(found.state):
            folder = ScratchFolder("precompiled")
            header = replace(self, asks=(), words=(*self.words[:-1], f"{self.words[-1]}-header"), extra="")
            said, state = header._run(folder.name, beginning, ("-o", _PRECOMPILED))
            found = _Headers(folder=folder, made=said[0] == 0, state=state)
            _HEADERS.put(key, found)
        return found if found.made else None

    @property
    def _first(self) -> str:
        return PurePath(self.files[0].name).name

    def _run(self, folder: str, data: bytes, options: Sequence[str] = ()) -> tuple[Said, State]:
        """What clang says in a folder of a text in the place of the first file's, and the state of what it read."""
        for file in self.files:
            Path(folder, PurePath(file.name).name).write_bytes(file.data)
        for name in self.empty:
            header = Path(folder, EMPTY, name)
            header.parent.mkdir(parents=True, exist_ok=True)
            header.touch()
        Path(folder, self._first).write_bytes(data + source_bytes(self.extra))
        listing = () if _LISTS in self.asks else _LISTING
        words = [*self.asks, *self.words[:-2], *listing, *self.folders, *options, *self.words[-2:]]
        said = run_clang(self.clang, [*words, self._first], folder)
        return said, self._read(folder)

    def _read(self, folder: str) -> State:
        """The state of the headers that a run in a folder has read."""
        listed = Path(folder, _READ)
        read = _listed_headers(listed.read_text("utf-8", "replace")) if listed.exists() else []
        # A header that appears beside the others, or in a folder before theirs, may be the one that is meant then.
        folders = (word for word in self.folders if Path(word).is_absolute())
        return _state_of([*read, *{str(Path(each).parent) for each in read}, *folders])


def _state_of(paths: Iterable[str]) -> State:
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            found.append((path, 0, -1))
        else:
            found.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


def _is_current(state: State) -> bool:
    return _state_of(path for path, *_ in state) == state


def _listed_headers(listed: str) -> list[str]:
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


_COMMENT = rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/"
_STEP = re.compile(
    rb"\s+|%b|#[ \t]*(?P<word>\w*)(?:%b|\"(?:\\.|[^\"\\\n])*\"|\\\r?\n|[^\n])*" % (_COMMENT, _COMMENT),
    re.DOTALL,
)
_DEPTHS = {b"if": 1, b"ifdef": 1, b"ifndef": 1, b"endif": -1}
_WORDS = {*_DEPTHS, b"elif", b"else", b"include", b"define", b"undef"}
"""Of directives that clang keeps with what it has precompiled; not all pragmas are."""


def length_of_beginning(text: bytes) -> int:
    r"""The bytes up to the end of the last ``#include``, or of the condition that it is under; 0 where there is none.

    >>> length_of_beginning(b"#include <a.h>\nint n;\n#include <b.h>\n"), length_of_beginning(b"int n;\n")
    (14, 0)
    """
    at = end = depth = 0
    pending = False
    while step := _STEP.match(text, at):
        at, word = step.end(), step["word"]
        if word and word not in _WORDS:
            break
        depth += _DEPTHS.get(word or b"", 0)
        pending |= word == b"include"
        if pending and depth == 0:
            end, pending = at, False
    return end
