"""The life of one candidate's process after its fork: confined, loaded, then serving the parent's requests.

Standard library only, and nothing of the tuner's knowledge: neither expected values nor the record nor any key is
in this process's memory. It answers on one channel; the parent takes its word for nothing that matters.
"""

from __future__ import annotations

import array
import ctypes
import mmap
import os
import resource
import signal
import socket
from collections.abc import Mapping
from typing import Any, NoReturn

from tuner.evaluators.host.loader import Loader, LoadError

__all__ = [
    "ATTACH",
    "FAULT_PAGE_BYTES",
    "LOADED",
    "MESSAGE_BYTES",
    "REFUSED",
    "RUN",
    "WINDOW",
    "Harness",
    "run_child",
]

ATTACH, RUN, WINDOW = 11, 12, 13
LOADED, REFUSED, MAPPED, FINISHED = 21, 22, 23, 24
MESSAGE_BYTES = 1 << 17
"""Longest message either way."""
FAULT_PAGE_BYTES = mmap.PAGESIZE

_SIGNAL_STACK_BYTES = 1 << 16
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


class _Window(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "rows",
            "words",
            "copies",
            "segments",
            "per_segment",
            "clock",
            "poisons",
            "spans",
            "flush_bytes",
        )
    ]


def confine(request: Mapping[str, Any], keep: set[int]) -> None:
    """Takes from this process what a kernel has no use for. The one place for more (Landlock, seccomp).

    Args:
        request: ``uid`` to become (``None``: stay), and limits ``cpu_s``, ``memory_bytes`` (beyond what is
            mapped now), ``processes`` (``None``: as they are).
        keep: file descriptors that stay open.
    """
    os.setsid()
    libc = ctypes.CDLL(None, use_errno=True)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    at = 3
    for descriptor in sorted(keep):
        os.closerange(at, descriptor)
        at = descriptor + 1
    os.closerange(at, 1 << 16)
    libc.clearenv()
    if request["uid"] is not None:
        _become(request["uid"])
    # After the change of user, which clears it.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: max(keep) + 4,
        resource.RLIMIT_CPU: request["cpu_s"],
        resource.RLIMIT_AS: _mapped_bytes() + request["memory_bytes"],
        resource.RLIMIT_MEMLOCK: 0,
    }
    if request["processes"] is not None:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    for which, value in limits.items():
        _, hard = resource.getrlimit(which)
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (limit, limit))


def _become(uid: int) -> None:
    """Another user where that is allowed: then limits on processes hold for root too."""
    for candidate in (uid, 65534):
        try:
            os.setgroups([])
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
        except OSError:
            continue
        return


def _mapped_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * mmap.PAGESIZE


class Harness:
    """The harness's functions, made callable once in the zygote.

    Args:
        loader: with the harness linked.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.guard = _function(loader, "tuner_guard")
        self.attach = _function(loader, "tuner_attach")
        self.run = _function(loader, "tuner_run")
        self.window = _function(loader, "tuner_window")


def run_child(
    harness: Harness, channel: socket.socket, page: int, code: int, request: Mapping[str, Any]
) -> NoReturn:
    """Never returns; ends the process when the parent hangs up.

    Args:
        harness: made by the zygote.
        channel: to the parent.
        page: descriptor of the fault page.
        code: descriptor of the object code, sealed.
        request: the zygote's request: symbol, thunk, limits.
    """
    status = 1
    try:
        child = _Child(harness, channel, page, code, request)
        child.serve()
        status = 0
    except (OSError, ValueError, MemoryError):
        status = 3
    finally:
        os._exit(status)


class _Child:
    def __init__(
        self, harness: Harness, channel: socket.socket, page: int, code: int, request: Mapping[str, Any]
    ) -> None:
        self._channel = channel
        self._fd = channel.fileno()
        self._page = mmap.mmap(page, FAULT_PAGE_BYTES)
        with mmap.mmap(code, 0, prot=mmap.PROT_READ) as view:
            text = bytes(view)
        os.close(page)
        os.close(code)
        self._harness = harness
        self._thunk = harness.loader.trusted(request["thunk"])
        self._cache: ctypes.Array[Any] | None = None
        self._stack = ctypes.create_string_buffer(_SIGNAL_STACK_BYTES)
        confine(request, {self._fd})
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        harness.guard(ctypes.c_void_p(address), ctypes.addressof(self._stack), _SIGNAL_STACK_BYTES)
        try:
            self._entry = harness.loader.load(text, request["symbol"])
        except LoadError as error:
            self._channel.send(array.array("q", [REFUSED]).tobytes() + str(error).encode()[:2000])
            raise OSError("not loaded") from error
        self._answer(LOADED, len(os.listdir("/proc/self/task")))

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
        count, width, copies = words[1:4]
        rows = ctypes.c_void_p(words.buffer_info()[0] + 8 * 4)
        if self._harness.run(
            self._pointer(self._thunk), self._pointer(self._entry), self._fd, rows, count, width, copies
        ):
            raise OSError("the channel is closed")
        self._answer(FINISHED)

    def _do_window(self, words: array.array[int]) -> None:
        window = _Window(*words[1:10])
        table = ctypes.c_void_p(words.buffer_info()[0] + 8 * 10)
        if window.flush_bytes and self._cache is None:
            self._cache = (ctypes.c_char * window.flush_bytes)()
        answer = (ctypes.c_int64 * (4 + window.segments))()
        thunk, entry = self._pointer(self._thunk), self._pointer(self._entry)
        if self._harness.window(thunk, entry, self._fd, ctypes.byref(window), table, self._cache, answer):
            raise OSError("the channel is closed")

    @staticmethod
    def _pointer(address: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(address)


_PROTOTYPES: dict[str, list[Any]] = {
    "tuner_guard": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64],
    "tuner_attach": [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p],
    "tuner_run": [ctypes.c_void_p] * 2 + [ctypes.c_int, ctypes.c_void_p] + [ctypes.c_int64] * 3,
    "tuner_window": [ctypes.c_void_p] * 2 + [ctypes.c_int] + [ctypes.c_void_p] * 4,
}


def _function(loader: Loader, name: str) -> Any:
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *_PROTOTYPES[name], use_errno=True)
    return kind(loader.trusted(name))
