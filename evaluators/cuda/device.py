"""The tuner's side of device workers: starting, asking, and replacing one whose context a candidate has broken.

Knows nothing of workloads or verdicts beyond naming how a worker or a call ended.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.cuda.driver import LIBRARY
from tuner.evaluators.cuda.limits import Architecture
from tuner.evaluators.host.compile_worker import decode, encode
from tuner.evaluators.host.runner import CandidateFailed

__all__ = ["Device", "DeviceWorker", "WorkerPool", "describe_device"]

_START_S = 60.0
_DEVICE = 0
_MOST_IDLE = 2
"""A candidate's, and the one in which the baseline meanwhile says what further inputs have to give."""
_NO_DEVICE_HINT = "tuner check works without one where the spec names an architecture: target: sm_90"

_CRASHES: Mapping[int, str] = {
    700: "reads or writes memory that is not its own",
    710: "an assertion in the kernel failed",
    714: "stack overflow or corrupted stack",
    715: "illegal instruction",
    716: "misaligned address",
    717: "wrong address space",
    718: "jumps to an invalid address",
    719: "the kernel failed",
}
_RESOURCES: Mapping[int, str] = {
    1: "the launch is not possible",
    2: "the device is out of memory",
    701: "too many resources for a launch",
    720: "too many blocks for a cooperative launch",
}
_NOT_LOADABLE = (200, 209, 218, 222)
_NOT_FOUND = 500
_TIMEOUT = 702


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What a device says of itself; ``facts`` is plain JSON."""

    name: str
    uuid: str
    arch: str
    l2_bytes: int
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def limits(self) -> Architecture:
        """For limits and occupancy."""
        facts = self.facts
        return Architecture(
            name=self.arch,
            shared_sm_bytes=facts["shared_multiprocessor_bytes"],
            shared_block_bytes=facts["shared_block_bytes"],
            shared_reserved_bytes=facts["shared_reserved_bytes"],
            warps=facts["threads_per_multiprocessor"] // max(1, facts["warp"]),
            blocks=facts["blocks_per_multiprocessor"],
        )


class DeviceWorker:
    """One process with one context.

    Args:
        library: of the driver.

    Raises:
        MachineError: there is no driver or no device.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._buffer = bytearray()
        self.broken = False
        """Whether the context is lost, or the process."""
        with theirs:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-m", "tuner.evaluators.cuda.device_worker", library, str(_DEVICE)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=0,
                env=_environment(),
            )
        try:
            greeting, _ = self._receive(time.monotonic() + _START_S, "its start")
        except CandidateFailed as failed:
            self.close()
            raise MachineError(f"the CUDA worker does not start: {failed}", "see tuner doctor") from None
        if "missing" in greeting:
            self.close()
            raise MachineError(f"there is no NVIDIA driver ({greeting['missing']})", _NO_DEVICE_HINT)
        if "error" in greeting:
            self.close()
            raise MachineError(f"there is no CUDA device ({greeting['name']})", _NO_DEVICE_HINT)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether another request may be sent."""
        return not self.broken and self._process.poll() is None

    def ask(
        self,
        header: Mapping[str, Any],
        blobs: Sequence[bytes] = (),
        *,
        handle: int | None = None,
        timeout_s: float = _START_S,
        during: str = "a request",
    ) -> dict[str, Any]:
        """One request and its answer.

        Args:
            header: what :mod:`~tuner.evaluators.cuda.device_worker` takes.
            blobs: bytes beside it.
            handle: a descriptor that goes along.
            timeout_s: wall time; afterwards the process is ended.
            during: for messages.

        Raises:
            CandidateFailed: what the driver says means that the candidate failed, or the worker is gone.
            MachineError: the driver does not take the code at all.
        """
        try:
            data = encode(dict(header), blobs)
            if handle is None:
                self._connection.sendall(data)
            else:
                sent = socket.send_fds(self._connection, [data], [handle])
                self._connection.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError):
            raise self._gone(during) from None
        answer, _ = self._receive(time.monotonic() + timeout_s, during)
        if "error" in answer:
            raise self._failed(answer, during)
        return answer

    def close(self) -> None:
        """Ends the process, with whatever runs on the device for it; safe to call twice."""
        self.broken = True
        self._connection.close()
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _receive(self, deadline: float, during: str) -> tuple[dict[str, Any], list[bytes]]:
        while True:
            message = decode(self._buffer)
            if message is not None:
                return message
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._connection], [], [], left)[0]:
                self.close()
                raise CandidateFailed(Status.TIMED_OUT, f"took too long in {during}")
            try:
                data = self._connection.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise self._gone(during)
            self._buffer += data

    def _gone(self, during: str) -> CandidateFailed:
        self.close()
        return CandidateFailed(Status.LOST, f"the device worker has ended in {during}")

    def _failed(self, answer: Mapping[str, Any], during: str) -> CandidateFailed:
        code, name = int(answer["error"]), str(answer["name"])
        # Whether a context survives an error depends on the error and on the driver; a new one is a second.
        self.broken = True
        if code in _CRASHES:
            return CandidateFailed(Status.CRASHED, f"{_CRASHES[code]} ({name}) in {during}")
        if code in _RESOURCES:
            return CandidateFailed(Status.OUT_OF_RESOURCES, f"{_RESOURCES[code]} ({name}) in {during}")
        if code == _TIMEOUT:
            return CandidateFailed(Status.TIMED_OUT, f"the system ended the kernel ({name}) in {during}")
        if code == _NOT_FOUND:
            return CandidateFailed(Status.REFUSED, f"a variable of the module is gone ({name}) in {during}")
        if code in _NOT_LOADABLE:
            raise MachineError(
                f"the driver does not take NVRTC's code ({name})",
                "use an NVRTC no newer than the driver: pip install 'remix-tuner[cuda12]', or a newer driver",
            )
        return CandidateFailed(Status.LOST, f"{name} in {during} ({answer['call']})")


class WorkerPool:
    """Device workers, one for each open session; a sound one is used again in the search.

    Args:
        library: of the driver.
    """

    def __init__(self, library: str = LIBRARY) -> None:
        self._library = library
        self._idle: list[DeviceWorker] = []
        self.started = 0
        """How many there have been."""

    def take(self, *, fresh: bool) -> DeviceWorker:
        """A worker with an open context and nothing loaded.

        Args:
            fresh: a new process, whatever there is.

        Raises:
            MachineError: there is no driver or no device any more.
        """
        while self._idle and not fresh:
            worker = self._idle.pop()
            if worker.alive:
                return worker
            worker.close()
        worker = DeviceWorker(self._library)
        self.started += 1
        try:
            worker.ask({"op": "open"}, during="opening the device")
        except CandidateFailed as failed:
            worker.close()
            raise MachineError(
                f"the device cannot be opened: {failed}", "see nvidia-smi for who uses it"
            ) from None
        return worker

    def give_back(self, worker: DeviceWorker, *, keep: bool) -> None:
        """Ends a worker, or empties it for the next session where it is sound."""
        if keep and worker.alive and len(self._idle) < _MOST_IDLE:
            try:
                worker.ask({"op": "unload"}, during="unloading")
            except (CandidateFailed, MachineError):
                worker.close()
                return
            self._idle.append(worker)
            return
        worker.close()

    def close(self) -> None:
        """Ends the idle ones; safe to call twice."""
        for worker in self._idle:
            worker.close()
        self._idle.clear()


def describe_device(library: str = LIBRARY) -> Device:
    """The device that runs use: the first that the driver shows (``CUDA_VISIBLE_DEVICES`` chooses).

    Raises:
        MachineError: there is no driver or no device.
    """
    worker = DeviceWorker(library)
    try:
        facts = worker.ask({"op": "describe"}, during="describing the device")
    except CandidateFailed as failed:
        raise MachineError(f"the CUDA device does not answer: {failed}", "see nvidia-smi") from None
    finally:
        worker.close()
    facts.pop("sizes", None)
    return Device(
        name=facts["name"],
        uuid=facts["uuid"],
        arch=f"sm_{facts['major']}{facts['minor']}",
        l2_bytes=facts["l2_bytes"],
        facts=facts,
    )


def _environment() -> dict[str, str]:
    # Code is on the device when it is loaded, not at its first launch; the driver compiles nothing and keeps nothing.
    own = {"CUDA_MODULE_LOADING": "EAGER", "CUDA_CACHE_DISABLE": "1"}
    return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
