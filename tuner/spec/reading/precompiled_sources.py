"""Sources that clang has parsed once, for questions that ask for some declarations: large headers are not parsed again.

Of the source's own declarations the answer is what a parse of the whole gives, but for addresses. Must not know what is
asked.

Source: https://clang.llvm.org/docs/PCHInternals.html
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.scratch import ScratchFolder
from tuner.spaces.source.memo import Kept
from tuner.spec.reading.clang_forks import Said, run_clang

__all__ = ["PRECOMPILED", "State", "state_of"]

_MOST = 8
"""Precompiled sources, of some megabytes each."""
_LARGE_BYTES = 200_000
"""Of source and headers: below, parsing them again takes no longer than starting clang."""
_HEADER = "source.pch"
_NOT_BLANK = re.compile(rb"[^\n]")

State = tuple[tuple[str, int, int], ...]
"""Path, time of the last change and size of headers and their folders."""

Written = Callable[[str], tuple[str, Callable[[], State]]]
"""Puts all files of a question into a folder."""


def state_of(paths: Sequence[str]) -> State:
    """As :data:`State`; of what is not there the size is -1."""
    found = []
    for path in paths:
        try:
            stat = os.stat(path)
        except OSError:
            found.append((path, 0, -1))
        else:
            found.append((path, stat.st_mtime_ns, stat.st_size))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Source:
    """A precompiled source.

    Attributes:
        folder: with the sources and what clang made of the first.
        first: its file's name.
        text: of that file.
        state: of all that was read.
    """

    folder: ScratchFolder
    first: str
    text: bytes
    state: State

    def ask(self, clang: str, words: Sequence[str], extra: bytes, folder: str) -> Said | None:
        """What clang says of the source with text behind it; nothing where it cannot use what was precompiled.

        Args:
            clang: its path.
            words: of the command, the file apart.
            extra: text behind the first file's.
            folder: to run in, with a copy of all files.
        """
        # Blank lines in the place of the text: what stands behind it keeps its place.
        Path(folder, self.first).write_bytes(_NOT_BLANK.sub(b" ", self.text) + extra)
        own = f"{self.folder.name}/"
        options = ("-Xclang", "-fno-validate-pch", "-include-pch", own + _HEADER)
        status, output, errors = run_clang(clang, [*words[:-2], *options, *words[-2:], self.first], folder)
        unusable = b"PCH" in errors or (own + _HEADER).encode() in errors
        if unusable or status < 0 or (status != 0 and not extra.strip()):
            return None
        # Types of what was precompiled say so, and its first file is one that is included here.
        apart = rb',\n\s*(?:"isImported": true|"includedFrom": \{\n\s*"file": "%b"\n\s*\})'
        here = re.compile(apart % re.escape(self.first.encode()))
        output = here.sub(b"", output).replace(own.encode(), b"")
        return status, output, errors.replace(own.encode(), b"")


class PrecompiledSources:
    """Those of this process. Threads that ask while another one does get none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes: Kept[int] = Kept(8 * _MOST)
        self._found: OrderedDict[Hashable, _Source | None] = OrderedDict()

    def parsed(self, key: Hashable, size: int) -> None:
        """Says that a source was parsed.

        Args:
            key: what the parse depends on.
            size: of source and headers in bytes.
        """
        self._bytes.put(key, size)

    def found(self, key: Hashable, clang: str, words: Sequence[str], written: Written) -> _Source | None:
        """A source that clang has parsed before: precompiled now where it is large, nothing where it is not.

        Args:
            key: what the parse depends on.
            clang: its path.
            words: of the command, ``-x`` and the language last.
            written: puts all files into a folder: the first one's name, and reads there what clang has read.
        """
        if (self._bytes.get(key) or 0) < _LARGE_BYTES or not self._lock.acquire(blocking=False):
            return None
        try:
            if key not in self._found:
                self._found[key] = _made(clang, words, written)
                while len(self._found) > _MOST:
                    self._drop(next(iter(self._found)))
            source = self._found[key]
            if source is None or state_of([path for path, *_ in source.state]) == source.state:
                self._found.move_to_end(key)
                return source
            self._drop(key)
            return None
        finally:
            self._lock.release()

    def _drop(self, key: Hashable) -> None:
        source = self._found.pop(key)
        if source is not None:
            source.folder.cleanup()

    def forget(self) -> None:
        """In a fork: the folders are its parent's."""
        self._lock, self._found = threading.Lock(), OrderedDict()


def _made(clang: str, words: Sequence[str], written: Written) -> _Source | None:
    folder = ScratchFolder("precompiled")
    first, state = written(folder.name)
    header = [*words[:-1], f"{words[-1]}-header", first, "-o", _HEADER]
    if run_clang(clang, header, folder.name)[0] == 0:
        text = Path(folder.name, first).read_bytes()
        return _Source(folder=folder, first=first, text=text, state=state())
    folder.cleanup()
    return None


PRECOMPILED = PrecompiledSources()
os.register_at_fork(after_in_child=PRECOMPILED.forget)
