"""A small clean process that forks one child for each candidate; ``python -m tuner.evaluators.host.zygote FD``.

It holds LLVM's loader, the harness and the libraries that kernels link with; never NumPy, inputs or expected
values. Standard library only. It speaks JSON on one socket, one request at a time, with descriptors attached.

It reaps a child only when told to, so that the tuner may use the child's number (its CPU clock, signals) without
fear that another process has taken it. When the tuner goes away, so do all children and the zygote.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from tuner.evaluators.host.child import Harness, run_child
from tuner.evaluators.host.loader import Loader, LoadError
from tuner.evaluators.sandbox.confine import confine_builder, isolate_network, prepare

__all__ = ["ForkServer", "serve"]

MESSAGE_BYTES = 1 << 16
_PR_SET_CHILD_SUBREAPER = 36
_CHECK_S = 1.0
_ROUNDS = 200


class ForkServer:
    """Serves one tuner.

    Args:
        channel: to it.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._tuner = os.getppid()
        self._harness: Harness | None = None
        self._children: set[int] = set()

    def serve(self) -> None:
        """Until the tuner hangs up or dies."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        while True:
            if not poll.poll(_CHECK_S * 1000):
                # A forked copy of the tuner may hold the other end of the socket open.
                if os.getppid() != self._tuner:
                    return
                continue
            message, files, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, 8)
            if not message:
                return
            request = json.loads(message)
            answer = getattr(self, f"_do_{request['op']}")(request, files)
            for file in files:
                os.close(file)
            self._channel.send(json.dumps(answer).encode())

    def _do_load(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        try:
            loader = Loader(request["llvm"], request["libraries"])
            with mmap.mmap(files[0], 0, prot=mmap.PROT_READ) as view:
                loader.add_trusted(bytes(view))
            self._harness = Harness(loader, team=request["team"], virtual=request["virtual"])
            # Once for all children, who then give up the rest. /proc: to find what a candidate has left.
            confine_builder(read=["/proc"])
        except (LoadError, OSError) as error:
            return {"error": str(error)}
        gc.collect()
        gc.freeze()
        return {}

    def _do_fork(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        self.ready(request)
        try:
            pid = os.fork()
        except OSError as error:
            return {"error": f"no process can be made: {error.strerror}"}
        if pid == 0:
            try:
                self._channel.close()
                channel = socket.socket(fileno=files[0])
                self.become(channel, files, request)
            finally:
                os._exit(4)
        self._children.add(pid)
        return {"pid": pid}

    def ready(self, request: dict[str, Any]) -> None:
        """Before each fork: what the child would otherwise have to make itself."""
        assert self._harness is not None
        prepare(threads=request["threads"], team=self._harness.team is not None)

    def become(self, channel: socket.socket, files: list[int], request: dict[str, Any]) -> None:
        """What a forked process does: the life of a candidate."""
        assert self._harness is not None
        run_child(self._harness, channel, files[1], files[2], request)

    def _do_reap(self, request: dict[str, Any], files: list[int]) -> dict[str, Any]:
        pid = int(request["pid"])
        _kill(pid)
        _, status = os.waitpid(pid, 0)
        self._children.discard(pid)
        self._sweep()
        return {"status": status}

    def _sweep(self) -> None:
        """Ends what a candidate left behind; orphans become this process's children."""
        for _ in range(_ROUNDS):
            strays = _children_of(os.getpid()) - self._children
            if not strays:
                break
            for stray in strays:
                _kill(stray)
            for stray in strays:
                try:
                    os.waitpid(stray, 0)
                except ChildProcessError:
                    continue

    def end(self) -> None:
        """Ends every child."""
        for pid in self._children:
            _kill(pid)
        for pid in self._children:
            os.waitpid(pid, 0)
        self._children.clear()
        self._sweep()


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _children_of(parent: int) -> set[int]:
    try:
        with open(f"/proc/{parent}/task/{parent}/children", "rb") as file:
            return {int(word) for word in file.read().split()}
    except OSError:
        return _scan(parent)


def _scan(parent: int) -> set[int]:
    """The same without the kernel's list, which some kernels leave out."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.add(int(name))
    return found


def serve(make: Callable[[socket.socket], ForkServer]) -> None:
    """Serves on the socket whose descriptor is the first argument."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    isolate_network()
    zygote = make(socket.socket(fileno=int(sys.argv[1])))
    try:
        zygote.serve()
    except ConnectionError:
        # The tuner is gone: what is left to do is the same as for a hang-up.
        pass
    finally:
        zygote.end()


if __name__ == "__main__":
    serve(ForkServer)
