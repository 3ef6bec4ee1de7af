"""The tuner's side of the zygote and of its children: starting, talking, stopping, reading clocks, ending.

Knows nothing of workloads or verdicts beyond naming how a process ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.errors import MachineError
from tuner.evaluators.host.child import FAULT_PAGE_BYTES, MESSAGE_BYTES
from tuner.evaluators.host.sealed import sealed_file
from tuner.evaluators.sandbox.environment import worker_environment

__all__ = ["Child", "Ended", "Exit", "Fault", "TimedOut", "Zygote"]

_LOAD_S = 30.0
_ANSWER_S = 20.0
_USED, _WAITED = 0, 1
"""Fields of ``schedstat``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What the child's signal handler noted; a hint for messages, as the candidate can write it too."""

    signal: int
    address: int
    stack: int
    no_memory: bool
    writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a child ended.

    Attributes:
        status: as ``waitpid`` gives it.
        fault: the first fatal signal that it noted.
        lost: the zygote is gone and this child with it, so that nothing is known.
    """

    status: int
    fault: Fault | None
    lost: bool = False


class Ended(Exception):
    """The child is gone, or has hung up, where an answer was due."""


class TimedOut(Exception):
    """The child gave no answer in time."""


class Zygote:
    """The clean process that children are forked from; see :mod:`tuner.evaluators.host.zygote`.

    Args:
        llvm: path of ``libLLVM``.
        libraries: shared libraries that kernels link with.
        harness: object code of the harness and thunks.
        team: it is one for kernels with OpenMP, whose library is among the others.
        virtual: it has a clock that kernels advance.

    Raises:
        MachineError: it does not start, or a library cannot be loaded.
        Ended: it was killed from outside.
    """

    def __init__(
        self,
        *,
        llvm: str,
        libraries: Sequence[str],
        harness: bytes,
        team: bool = False,
        virtual: bool = False,
    ) -> None:
        environment = {
            **worker_environment("PYTHONPATH", "LD_LIBRARY_PATH"),
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._start("tuner.evaluators.host.zygote", env=environment)
        code = sealed_file("harness", [harness])
        try:
            request = {"op": "load", "llvm": llvm, "libraries": list(libraries), "team": team}
            answer = self._ask({**request, "virtual": virtual}, [code])
        except MachineError as error:
            self.close()
            if self._process.returncode == -signal.SIGKILL:
                raise Ended from error
            raise
        finally:
            os.close(code)
        if "error" in answer:
            self.close()
            raise MachineError(
                f"the run worker cannot load what kernels need: {answer['error']}", "check `link` in the spec"
            )

    def _start(self, module: str, *arguments: str, **options: Any) -> None:
        """Starts the process, with a channel to it.

        Args:
            module: that is run; it is given the channel's descriptor.
            arguments: that it is given besides.
            options: of :class:`subprocess.Popen`.
        """
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_LOAD_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", module, str(theirs.fileno()), *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
                **options,
            )

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._process.poll() is None

    def fork(self, code: bytes, request: Mapping[str, Any]) -> Child:
        """A child that loads ``code``.

        Args:
            code: object code of the candidate.
            request: ``symbol``, ``thunk``, ``uid``, ``cpu_s``, ``memory_bytes``, ``processes``, ``threads``,
                and ``openmp`` (variables for its library) where there is a team.

        Raises:
            MachineError: the zygote is gone or the machine refuses another process.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        page = os.memfd_create("fault", os.MFD_CLOEXEC)
        os.ftruncate(page, FAULT_PAGE_BYTES)
        file = sealed_file("candidate", [code])
        try:
            answer = self._ask({"op": "fork", **request}, [theirs.fileno(), page, file])
            if "error" in answer:
                raise MachineError(str(answer["error"]), "tuner doctor says what this machine lacks")
            return Child(zygote=self, pid=int(answer["pid"]), channel=ours, page=page)
        except (MachineError, OSError):
            ours.close()
            os.close(page)
            raise
        finally:
            theirs.close()
            os.close(file)

    def reap(self, pid: int) -> Mapping[str, Any]:
        """Ends a child with its group and everything that it left; its number is free afterwards."""
        return self._ask({"op": "reap", "pid": pid}, [])

    def close(self) -> None:
        """Ends it and all its children; safe to call twice."""
        self._channel.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: Mapping[str, Any], files: list[int]) -> dict[str, Any]:
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], files)
            message = self._channel.recv(1 << 16)
        except OSError as error:
            raise MachineError(
                f"the run worker's zygote does not answer: {error}",
                "try again; tuner doctor says what this machine lacks",
            ) from error
        if not message:
            raise MachineError("the run worker's zygote has ended", "try again; if it stays, report it")
        answer: dict[str, Any] = json.loads(message)
        return answer


class Child:
    """One candidate's process. Made by :meth:`Zygote.fork`; end it with :meth:`end`."""

    def __init__(self, *, zygote: Zygote, pid: int, channel: socket.socket, page: int) -> None:
        self.pid = pid
        self._zygote = zygote
        self._channel = channel
        self._page = page
        self._exit: Exit | None = None
        # The number belongs to this child until the zygote is told to reap it.
        self._handle = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._handle, select.POLLIN)
        self._clock = (~pid << 3) | 2

    @property
    def waitable(self) -> tuple[int, int]:
        """Descriptors that become readable when it answers, and when it ends."""
        return self._channel.fileno(), self._handle

    def send(self, words: bytes | memoryview, files: Sequence[int] = ()) -> None:
        """Sends one request.

        Raises:
            Ended: the child is gone.
        """
        try:
            if files:
                socket.send_fds(self._channel, [words], list(files))
            else:
                self._channel.send(words)
        except OSError as error:
            raise Ended from error

    def receive(self, timeout_s: float) -> bytes:
        """Waits for one message.

        Raises:
            Ended: the child is gone or has hung up.
            TimedOut: nothing came within ``timeout_s``.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            events = dict(self._poll.poll(max(0.0, left) * 1000))
            if events.get(self._channel.fileno(), 0) & select.POLLIN:
                try:
                    message = self._channel.recv(MESSAGE_BYTES)
                except OSError as error:
                    raise Ended from error
                if message:
                    return message
                raise Ended
            if events:
                raise Ended
            if left <= 0:
                raise TimedOut

    def unexpected(self) -> bool:
        """Whether a message waits that nobody asked for."""
        events = dict(self._poll.poll(0))
        return bool(events.get(self._channel.fileno(), 0) & select.POLLIN)

    def cpu_s(self) -> float:
        """Processor time that the process has used with all its threads, by the kernel's scheduler.

        Raises:
            Ended: the child is gone.
        """
        try:
            return time.clock_gettime_ns(self._clock) * 1e-9
        except OSError as error:
            raise Ended from error

    def noted(self, place: int) -> int:
        """A word of the page that it shares with its parent, which the candidate can write too.

        Raises:
            Ended: the child was reaped.
        """
        if self._exit is not None:
            raise Ended
        return memoryview(os.pread(self._page, 8, 8 * place)).cast("q")[0]

    def threads(self) -> int:
        """How many threads the process has."""
        try:
            return len(os.listdir(f"/proc/{self.pid}/task"))
        except OSError as error:
            raise Ended from error

    def others_s(self) -> float:
        """Processor time that its threads have used but for the first; 0 where the kernel does not say.

        Of a thread that runs the last tick may be missing; of one that sleeps or was stopped nothing is.

        Raises:
            Ended: the child is gone.
        """
        total = 0
        try:
            for task in os.listdir(f"/proc/{self.pid}/task"):
                if int(task) != self.pid:
                    total += _account_ns(f"/proc/{self.pid}/task/{task}/schedstat", _USED)
        except OSError as error:
            raise Ended from error
        return total * 1e-9

    def waited_s(self) -> float:
        """How long its first thread, and the thread that asks, were ready to run and had no processor.

        0 where nothing says. Its other threads do not count: what they wait for is within its own clock, and a kernel
        that has them wait for one another could make it as long as it likes.
        """
        own = _account_ns("/proc/thread-self/schedstat", _WAITED)
        return (own + _account_ns(f"/proc/{self.pid}/task/{self.pid}/schedstat", _WAITED)) * 1e-9

    def stop(self) -> None:
        """Stops all its threads and returns when they stand still.

        Raises:
            Ended: the child is gone.
            TimedOut: it does not stop.
        """
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + _ANSWER_S
        while not all(state in "Tt" for state in self._states()):
            if time.monotonic() > deadline:
                raise TimedOut
            time.sleep(0)
            # Whoever lets a whole machine or a group of processes go on may do so just after the first one.
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it run again."""
        self._signal(signal.SIGCONT)

    def end(self) -> Exit:
        """Kills and reaps it; the same answer every time."""
        if self._exit is not None:
            return self._exit
        fault = self._fault()
        self._channel.close()
        os.close(self._handle)
        os.close(self._page)
        try:
            answer = self._zygote.reap(self.pid)
        except MachineError:
            self._exit = Exit(status=signal.SIGKILL, fault=fault, lost=True)
            return self._exit
        self._exit = Exit(status=answer["status"], fault=fault)
        return self._exit

    def _signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._handle, number)
        except OSError as error:
            raise Ended from error

    def _states(self) -> list[str]:
        states = []
        try:
            for task in os.listdir(f"/proc/{self.pid}/task"):
                with open(f"/proc/{self.pid}/task/{task}/stat", "rb") as file:
                    states.append(chr(file.read().rpartition(b")")[2].split()[0][0]))
        except OSError:
            pass
        if not states or any(state in "ZX" for state in states):
            raise Ended
        return states

    def _fault(self) -> Fault | None:
        words = memoryview(os.pread(self._page, 48, 0)).cast("q")
        if words[0] == 0:
            return None
        return Fault(
            signal=words[0],
            address=words[2],
            stack=words[3],
            no_memory=bool(words[4]),
            writes=bool(words[5]),
        )


def _account_ns(path: str, field: int) -> int:
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[field])
    except (OSError, ValueError, IndexError):
        return 0
