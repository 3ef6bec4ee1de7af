"""Runs of clang that begin where it is loaded already: forks of one that waits, half the time of a new process.

Where the machine has no linker, or clang does not load what is put before it (a static one), each run is a process of
its own. Must not know what is asked.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import struct
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.evaluators.host.shared import shared_library

__all__ = ["Said", "run_clang"]

_TIMEOUT_S = 30.0
_ENVIRONMENT = {"LC_ALL": "C"}
_MOST_WAITING = 4
_LENGTH = struct.Struct("i")

Said = tuple[int, bytes, bytes]
"""Exit status, standard output, standard error."""


class _Waiting:
    """A clang that is loaded and waits, with whatever has to be known to end it.

    Raises:
        OSError: it does not start, or does not load what is put before it.
    """

    def __init__(self, clang: str, library: Path) -> None:
        self._socket, theirs = socket.socketpair()
        self._said = [os.memfd_create(name) for name in ("output", "errors")]
        self._socket.settimeout(_TIMEOUT_S)
        output, errors = self._said
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [clang],
                    env={**_ENVIRONMENT, "LD_PRELOAD": str(library)},
                    stdin=theirs.fileno(),
                    stdout=output,
                    stderr=errors,
                    process_group=0,
                )
            except BaseException:
                self._close()
                raise
        try:
            self._received(1)
        except BaseException:
            self.end()
            raise

    def run(self, words: Sequence[str], folder: str) -> Said:
        """How a run ended, and what it said.

        Raises:
            OSError: the process is gone.
            TimeoutError: the run takes too long.
        """
        request = b"".join(os.fsencode(each) + b"\0" for each in (folder, *words))
        self._socket.sendall(_LENGTH.pack(len(request)) + request)
        (ended,) = _LENGTH.unpack(self._received(_LENGTH.size))
        output, errors = map(_taken, self._said)
        return os.waitstatus_to_exitcode(ended), output, errors

    def _received(self, size: int) -> bytes:
        got = b""
        while len(got) < size:
            more = self._socket.recv(size - len(got))
            if not more:
                raise OSError("it has ended")
            got += more
        return got

    def end(self) -> None:
        """Kills it and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def forget(self) -> None:
        """In a fork: it is the parent's child."""
        self._process.returncode = 0
        self._close()

    def _close(self) -> None:
        self._socket.close()
        for descriptor in self._said:
            os.close(descriptor)


def _taken(descriptor: int) -> bytes:
    """What a file in memory holds, which is empty then."""
    data = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return data


class _Clangs:
    """Those of this process that wait, and those that run something."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, list[_Waiting]] = defaultdict(list)
        self._all: set[_Waiting] = set()
        self._not_loading: set[str] = set()

    def run(self, clang: str, words: Sequence[str], folder: str) -> Said | None:
        """As :func:`run_clang`; nothing where it has to be a process of its own."""
        chosen = self._chosen(clang)
        if chosen is None:
            return None
        try:
            said = chosen.run(words, folder)
        except TimeoutError:
            self._drop(chosen)
            raise
        except OSError:
            # Killed from outside.
            self._drop(chosen)
            return None
        except BaseException:
            self._drop(chosen)
            raise
        if len(self._waiting[clang]) < _MOST_WAITING:
            self._waiting[clang].append(chosen)
        else:
            self._drop(chosen)
        return said

    def _chosen(self, clang: str) -> _Waiting | None:
        with contextlib.suppress(IndexError):
            return self._waiting[clang].pop()
        if clang in self._not_loading:
            return None
        try:
            chosen = _Waiting(clang, _library())
        except OSError:
            self._not_loading.add(clang)
            return None
        self._all.add(chosen)
        return chosen

    def _drop(self, waiting: _Waiting) -> None:
        self._all.discard(waiting)
        waiting.end()

    def end(self) -> None:
        """Ends all."""
        self._waiting.clear()
        for each in list(self._all):
            self._drop(each)

    def forget(self) -> None:
        """In a fork: they are its parent's."""
        self._waiting.clear()
        for each in self._all:
            each.forget()
        self._all.clear()


@lru_cache(maxsize=1)
def _library() -> Path:
    """What is put before clang.

    Raises:
        MachineError: the machine has no linker.
    """
    text = resources.files(__package__).joinpath("clang_forks.c").read_text(encoding="utf-8")
    return shared_library(text, "clang-forks")


_CLANGS = _Clangs()
atexit.register(_CLANGS.end)
os.register_at_fork(after_in_child=_CLANGS.forget)


def run_clang(clang: str, words: Sequence[str], folder: str) -> Said:
    """Runs clang in a folder: its exit status, standard output and standard error.

    Args:
        clang: its path.
        words: of the command.
        folder: with the sources.

    Raises:
        MachineError: it does not run, or takes too long.
    """
    try:
        said = _CLANGS.run(clang, words, folder)
        if said is not None:
            return said
        done = subprocess.run(
            [clang, *words],
            cwd=folder,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env=_ENVIRONMENT,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"clang does not answer: {error}", "run tuner doctor") from error
    return done.returncode, done.stdout, done.stderr
