"""The life of one candidate's process after its fork: confined, loaded, then serving the parent's requests.

Standard library only, and nothing of the tuner's knowledge: neither expected values nor the record nor any key is
in this process's memory. It answers on one channel; the parent takes its word for nothing that matters.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import mmap
import os
import resource
import socket
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tuner.evaluators.host.loader import Loader, LoadError
from tuner.evaluators.sandbox.confine import confine_kernel, mapped_bytes, set_limits, shed_privileges

__all__ = [
    "ALONE",
    "ATTACH",
    "FAULT_PAGE_BYTES",
    "LEFT",
    "LOADED",
    "MESSAGE_BYTES",
    "MISSING",
    "OPEN",
    "REFUSED",
    "RUN",
    "WINDOW",
    "Harness",
    "run_child",
]

ATTACH, RUN, WINDOW = 11, 12, 13
LOADED, REFUSED, MAPPED, FINISHED, OPEN, ALONE = 21, 22, 23, 24, 25, 26
LEFT = 9
"""Exit status where a member of the team does not come back to it."""
MISSING = 10
"""Exit status where a function was called that nothing defines; the harness has it too."""
MESSAGE_BYTES = 1 << 17
"""Longest message either way."""
FAULT_PAGE_BYTES = mmap.PAGESIZE

_SIGNAL_STACK_BYTES = 1 << 16
_LOST = -2


class _Window(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "rows",
            "words",
            "copies",
            "moves",
            "segments",
            "per_segment",
            "clock",
            "poisons",
            "spans",
            "flush_bytes",
        )
    ]


def confine(request: Mapping[str, Any], channel: int) -> int:
    """Takes from this process what a kernel has no use for, but for system calls, which loading still needs.

    Args:
        request: ``uid`` to become (``None``: stay), and limits ``cpu_s``, ``memory_bytes`` (beyond what is
            mapped now), ``processes`` (``None``: as they are).
        channel: the one descriptor that stays open.

    Returns:
        The channel's number from now on.

    Raises:
        OSError: the kernel has a protection and refuses it.
    """
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    # Clear of the standard ones, from which the filter of system calls tells it apart.
    kept = fcntl.fcntl(channel, fcntl.F_DUPFD_CLOEXEC, 4)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, 1 << 16)
    mapped = mapped_bytes()
    shed_privileges(request["uid"])
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: kept + 4,
        resource.RLIMIT_CPU: request["cpu_s"],
        resource.RLIMIT_AS: mapped + request["memory_bytes"],
        resource.RLIMIT_MEMLOCK: 0,
    }
    if request["processes"] is not None:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    set_limits(limits)
    return kept


class Harness:
    """The harness's functions, made callable once in the zygote.

    Args:
        loader: with the harness linked.
        team: whether it is one for kernels with OpenMP.
        virtual: whether it has a clock that kernels advance.
    """

    def __init__(self, loader: Loader, *, team: bool = False, virtual: bool = False) -> None:
        self.loader = loader
        self.guard = _function(loader, "tuner_guard")
        self.attach = _function(loader, "tuner_attach")
        self.reserve = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(
            loader.trusted("tuner_reserve")
        )
        self.run = _function(loader, "tuner_run")
        self.window = _function(loader, "tuner_window")
        self.team = _function(loader, "tuner_team") if team else None
        self.missing = loader.trusted("tuner_missing")
        self.provided = {name: loader.trusted(name) for name in ("tuner_work",) if virtual}


def run_child(
    harness: Harness, channel: socket.socket, page: int, code: int, request: Mapping[str, Any]
) -> NoReturn:
    """Never returns; ends the process when the parent hangs up.

    Args:
        harness: made by the zygote.
        channel: to the parent.
        page: descriptor of the fault page.
        code: descriptor of the object code, sealed.
        request: the zygote's request: symbol, thunk, limits, ``calls``: functions that may be missing,
            ``openmp``: variables for its library, where there is one; ``variables``: name, bytes of pages and offset
            in them of each that the candidate imports; no bytes for a pointer; ``memory``: address and bytes of what
            lies where it lay.
    """
    status = 1
    try:
        child = _Child(harness, channel, page, code, request)
        child.serve()
        status = 0
    except _Left:
        status = LEFT
    except (OSError, ValueError, MemoryError):
        status = 3
    finally:
        os._exit(status)


class _Left(Exception):
    """A member of the team has not come back to it."""


class _Child:
    def __init__(
        self, harness: Harness, channel: socket.socket, page: int, code: int, request: Mapping[str, Any]
    ) -> None:
        self._channel = channel
        self._page = mmap.mmap(page, FAULT_PAGE_BYTES)
        with mmap.mmap(code, 0, prot=mmap.PROT_READ) as view:
            text = bytes(view)
        os.close(page)
        os.close(code)
        self._harness = harness
        self._thunk = harness.loader.trusted(request["thunk"])
        self._cache: ctypes.Array[Any] | None = None
        self._stack = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
        self._fd = self._confine(channel, lambda: confine(request, channel.fileno()))
        channel.detach()
        self._channel = socket.socket(fileno=self._fd)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        harness.guard(ctypes.c_void_p(address), ctypes.addressof(self._stack), _SIGNAL_STACK_BYTES)
        threads = int(request["threads"])
        if harness.team is not None:
            self._make_team(harness.team, threads, request["openmp"])
        try:
            calls = {name: harness.provided.get(name, harness.missing) for name in request["calls"]}
            for at, size in request["memory"]:
                if not harness.reserve(at, size, 0):
                    raise LoadError(f"memory is taken here that was recorded at {at:#x}; run it again")
            places = [self._reserved(size) for _, size, _ in request["variables"]]
            variables = {
                name: place + skip
                for place, (name, _, skip) in zip(places, request["variables"], strict=True)
            }
            self._entry = harness.loader.load(text, request["symbol"], calls, variables)
        except LoadError as error:
            self._channel.send(array.array("q", [REFUSED]).tobytes() + str(error).encode()[:2000])
            raise OSError("not loaded") from error
        team = harness.team is not None
        self._confine(self._channel, lambda: confine_kernel(channel=self._fd, threads=threads, team=team))
        self._answer(LOADED, *places)

    def _reserved(self, size: int) -> int:
        """The start of that many bytes of address space, a page out of reach on either side; of 0: of a page."""
        place = int(self._harness.reserve(0, size + 2 * mmap.PAGESIZE, int(not size)))
        if not place:
            raise LoadError(f"no room for a variable of {size} bytes")
        return place + (mmap.PAGESIZE if size else 0)

    def _make_team(self, make: Callable[[int, int], int], threads: int, variables: Mapping[str, str]) -> None:
        """Before any line of the candidate is there, and after what the members inherit: user, files, limits.

        Afterwards no thread can be made, so the members are all there will be.
        """
        # Not `os.environ`, whose copy the library does not read.
        for name, value in variables.items():
            os.putenv(name, value)
        there = make(threads, int(variables["KMP_BLOCKTIME"]))
        set_limits({resource.RLIMIT_NPROC: 0})
        if there != threads:
            why = f"the OpenMP library made a team of {there} threads where {threads} are asked for"
            self._channel.send(array.array("q", [ALONE]).tobytes() + why.encode())
            raise OSError(why)

    @staticmethod
    def _confine(channel: socket.socket, step: Callable[[], Any]) -> Any:
        """A protection that the kernel has and refuses is told; without it no candidate runs."""
        try:
            return step()
        except OSError as error:
            channel.send(array.array("q", [OPEN]).tobytes() + str(error).encode())
            raise

    def _answer(self, *words: int) -> None:
        self._channel.send(array.array("q", words).tobytes())

    def serve(self) -> None:
        """Answers requests until the parent hangs up."""
        while True:
            message, files, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, 2)
            if not message:
                return
            words = array.array("q")
            words.frombytes(message)
            operation = words[0]
            if operation == ATTACH:
                self._do_attach(words, files)
            elif operation == RUN:
                self._do_run(words)
            elif operation == WINDOW:
                self._do_window(words)
            else:
                raise ValueError("unknown request")

    def _do_attach(self, words: array.array[int], files: list[int]) -> None:
        rows = words.buffer_info()[0] + 8 * 4
        numbers = (ctypes.c_int * len(files))(*files)
        failed = self._harness.attach(words[1], words[2], ctypes.c_void_p(rows), words[3], numbers)
        for file in files:
            os.close(file)
        self._answer(MAPPED, ctypes.get_errno() if failed else 0)

    def _do_run(self, words: array.array[int]) -> None:
        rows = ctypes.c_void_p(words.buffer_info()[0] + 8 * 6)
        thunk, entry = self._pointer(self._thunk), self._pointer(self._entry)
        self._require(self._harness.run(thunk, entry, self._fd, rows, *words[1:6]))
        self._answer(FINISHED)

    def _do_window(self, words: array.array[int]) -> None:
        window = _Window(*words[1:11])
        table = ctypes.c_void_p(words.buffer_info()[0] + 8 * 11)
        if window.flush_bytes and self._cache is None:
            self._cache = (ctypes.c_char * window.flush_bytes)()
        answer = (ctypes.c_int64 * (4 + window.segments))()
        thunk, entry = self._pointer(self._thunk), self._pointer(self._entry)
        self._require(
            self._harness.window(thunk, entry, self._fd, ctypes.byref(window), table, self._cache, answer)
        )

    @staticmethod
    def _require(result: int) -> None:
        if result == _LOST:
            raise _Left
        if result:
            raise OSError("the channel is closed")

    @staticmethod
    def _pointer(address: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(address)


_PROTOTYPES: dict[str, list[Any]] = {
    "tuner_team": [ctypes.c_int, ctypes.c_int],
    "tuner_guard": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64],
    "tuner_attach": [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p],
    "tuner_run": [ctypes.c_void_p] * 2 + [ctypes.c_int, ctypes.c_void_p] + [ctypes.c_int64] * 5,
    "tuner_window": [ctypes.c_void_p] * 2 + [ctypes.c_int] + [ctypes.c_void_p] * 4,
}


def _function(loader: Loader, name: str) -> Any:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *_PROTOTYPES[name], use_errno=True)
    return kind(loader.trusted(name))
