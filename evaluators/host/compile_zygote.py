"""Forks compile workers from a clean process that has loaded the compiler, and ends them.

The clean process, the zygote, alone reaps them; it is started again when it is killed. It never compiles anything of a
candidate, so pools share one for as long as any of them is open: its start costs more than a small compilation. Knows
nothing of jobs. May not load libLLVM itself: the process of the tuner must survive whatever LLVM does.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.scratch import ScratchFolder
from tuner.evaluators.host.compile_worker import decode, encode

__all__ = ["TRIES", "Forked", "borrowed", "given_back"]

TRIES = 3
"""How often in a row something is begun again that was killed from outside."""


@dataclass(slots=True, eq=False, kw_only=True)
class Forked:
    """One forked process.

    Attributes:
        pid: of it.
        zygote: whose child it is; another one cannot reap it.
        connection: to it; jobs go in, answers come out.
        log: descriptor of a file in memory with all that it printed.
        buffer: what has come and is no whole answer yet.
    """

    pid: int
    zygote: subprocess.Popen[bytes]
    connection: socket.socket
    log: int
    buffer: bytearray = field(default_factory=bytearray)

    def cpu_s(self) -> float:
        """Processor time that it has used with all its threads; endless once it is gone."""
        try:
            # The kernel's number for the processor clock of another process.
            return time.clock_gettime_ns((~self.pid << 3) | 2) * 1e-9
        except OSError:
            return math.inf

    def printed(self, most_bytes: int) -> str:
        """The end of what it printed."""
        size = os.fstat(self.log).st_size
        return os.pread(self.log, most_bytes, max(0, size - most_bytes)).decode("utf-8", "replace")

    def close(self) -> None:
        """Gives its descriptors back; ends nothing."""
        self.connection.close()
        os.close(self.log)


class CompileZygote:
    """The clean process. :func:`borrowed` hands out one that is shared; threads may use it at once.

    Args:
        library: path of libLLVM, or of what ``program`` loads.
        program: the module that is started; it speaks as :mod:`~tuner.evaluators.host.compile_worker` does.
        read: further arguments of that module: folders that its workers may read.

    Attributes:
        host: what the program says of itself and of the machine.
        users: how many pools have borrowed it.

    Raises:
        MachineError: when the library cannot be loaded.
    """

    def __init__(self, library: str, *, program: str, read: Sequence[str] = ()) -> None:
        self._library, self._program, self._readable = library, program, tuple(read)
        self._scratch = ScratchFolder("compile")
        self._buffer = bytearray()
        self._lock = threading.RLock()
        self._asked = False
        self.users = 0
        self._process, self._control, self.host = self._begin()

    def spawn(self, options: tuple[str, ...], *, memory_bytes: int) -> Forked:
        """Another worker, started with LLVM's global options.

        Args:
            options: of LLVM.
            memory_bytes: address space of the worker.

        Raises:
            MachineError: the zygote is killed again and again.
        """
        request = {"op": "spawn", "globals": options, "memory_bytes": memory_bytes}
        for _ in range(TRIES):
            ours, theirs = socket.socketpair()
            log = os.memfd_create("tuner-compile-log")
            with self._lock:
                try:
                    with theirs:
                        pid = self._ask(request, [theirs.fileno(), log])["pid"]
                except OSError:
                    ours.close()
                    os.close(log)
                    self._revive()
                    continue
                return Forked(pid=pid, zygote=self._process, connection=ours, log=log)
        raise MachineError("the compile process is killed again and again", "see what ends it")

    def send_signal(self, worker: Forked, number: signal.Signals) -> None:
        """Sends a worker a signal, if it is still there."""
        # The zygote alone reaps, and as long as it lives a worker's number cannot belong to another process.
        if worker.zygote is self._process and self._process.poll() is None:
            os.kill(worker.pid, number)

    def end(self, worker: Forked) -> int:
        """Ends a worker; its exit status, negative for a signal."""
        status = -signal.SIGKILL
        with self._lock:
            try:
                # What is left of a zygote that has ended has ended with it; the next spawn begins another one.
                if worker.zygote is self._process and self._process.poll() is None:
                    # Killing a process that has ended by itself changes nothing of its status.
                    self.send_signal(worker, signal.SIGKILL)
                    status = int(self._ask({"op": "reap", "pid": worker.pid})["status"])
            except OSError:
                self._revive()
            finally:
                worker.close()
        return status

    def close(self) -> None:
        """Ends it; its workers have been ended before. Safe to call twice."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._scratch.cleanup()

    def _begin(self) -> tuple[subprocess.Popen[bytes], socket.socket, Mapping[str, str]]:
        """One that is ready to fork; started again when it is killed before."""
        for _ in range(TRIES):
            self._buffer.clear()
            self._asked = False
            self._process, self._control = self._start()
            try:
                return self._process, self._control, self._read_control()
            except MachineError:
                self._control.close()
                if self._process.wait() != -signal.SIGKILL:
                    break
        self._scratch.cleanup()
        raise MachineError(
            f"libLLVM cannot be used: {self._library}", "LLVM 17 or newer with the x86 target is needed"
        )

    def _revive(self) -> None:
        """After it was killed: its workers ended with it."""
        self._control.close()
        self._process.kill()
        self._process.wait()
        self._begin()

    def _start(self) -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        with theirs:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", self._program, self._library, *self._readable],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self._scratch.name,
                # Ctrl-C is for the tuner, which then ends its workers in order.
                process_group=0,
                env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "LC_ALL": "C"},
            )
        return process, ours

    def _ask(self, request: Mapping[str, Any], handles: Sequence[int] = ()) -> dict[str, Any]:
        """Its answer to one request.

        Raises:
            OSError: it is gone, or an answer is still on its way that nobody waits for any more.
        """
        if self._asked:
            raise ConnectionResetError
        self._asked = True
        socket.send_fds(self._control, [encode(dict(request))], handles)
        answer = self._read_control()
        self._asked = False
        return answer

    def _read_control(self) -> dict[str, Any]:
        while True:
            message = decode(self._buffer)
            if message is not None:
                return message[0]
            try:
                data = self._control.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise MachineError("the compile process ended", "run again; if it stays so, check libLLVM")
            self._buffer += data


_lent: dict[tuple[Any, ...], CompileZygote] = {}
_lent_guard = threading.Lock()


def borrowed(library: str, *, program: str, read: Sequence[str] = ()) -> CompileZygote:
    """A zygote as :class:`CompileZygote` makes it, or one that another pool has; :func:`given_back` ends it."""
    with _lent_guard:
        # A forked process has none of its parent's children.
        key = (os.getpid(), library, program, tuple(read), tuple(sys.path))
        if key not in _lent:
            _lent[key] = CompileZygote(library, program=program, read=read)
        _lent[key].users += 1
        return _lent[key]


def given_back(zygote: CompileZygote) -> None:
    """Ends a borrowed zygote once nobody has it any more."""
    with _lent_guard:
        zygote.users -= 1
        if zygote.users:
            return
        for key in [k for k, one in _lent.items() if one is zygote]:
            del _lent[key]
    zygote.close()
