"""Compile workers for OpenCL: programs in, binaries and what the driver says of their kernels out.

Workers never execute a kernel. One that dies or takes too long costs the program that it was at. What a driver has
compiled is kept between runs by everything that it was made of: PoCL needs a second for a process's first program and a
fifth of one for each further. What drivers keep themselves lies in folders of candidates here and goes with them. Only
the tuner's own process may write there.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError
from tuner.core.files import write_atomically
from tuner.core.types import Status
from tuner.evaluators.host.process import Child, Ended, TimedOut
from tuner.evaluators.host.sealed import sealed_file
from tuner.evaluators.host.toolchain import cache_folder
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.process import OpenClZygote, driver_environment, read_all
from tuner.evaluators.opencl.program import Program

__all__ = ["Compiled", "CompiledCache", "Compiler", "lacking_extension"]

_KEPT = 512
_MEMORY_BYTES = 8 << 30
_FIRST_S = 60.0
_ERROR = re.compile(r"^.*\berror: .*$", re.MULTILINE)
_OF_EXTENSIONS = {
    "cl_khr_subgroups": re.compile(r"\b(?:get_)?sub_group_\w+|\bget_\w*sub_group\w*"),
    "cl_khr_fp16": re.compile(r"'half'|\bcl_khr_fp16\b"),
    "cl_khr_fp64": re.compile(r"'double'|\bcl_khr_fp64\b"),
}
_TEMPORARY = re.compile(r"\S*/tempfile_\w+(?:\.cl)?")
_FORMAT = 1
_MOST = 1024
_MOST_BYTES = 1 << 20
_READS_MORE = re.compile(r"include|import|embed|__(?:DATE|TIME|TIMESTAMP)__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """A program in the driver's own form, or why there is none.

    Attributes:
        status: ``ok``, ``build_error``, ``crashed``, ``timed_out`` or ``out_of_resources``.
        message: one line.
        binary: what the driver loads.
        kernels: by name what the driver says of each: ``arguments``, ``max_threads``, ``block``, ``local_bytes``,
            ``private_bytes``, ``preferred_multiple``.
        log: what the compiler printed.
        seconds: wall time.
    """

    status: Status
    message: str = ""
    binary: bytes = b""
    kernels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    log: str = ""
    seconds: float = 0.0


@dataclass(slots=True)
class _Busy:
    index: int
    job: Mapping[str, Any]
    child: Child
    answer: int
    started: float
    deadline: float


class Compiler:
    """Up to ``workers`` processes that compile for one device.

    Args:
        zygote: to fork from.
        device: to compile for.
        workers: how many at once.
        timeout_s: wall time for one program.
    """

    def __init__(
        self, zygote: OpenClZygote, device: Device, *, workers: int, timeout_s: float = 60.0
    ) -> None:
        self._zygote = zygote
        self._device = device
        self._limit = max(1, workers)
        self._timeout_s = timeout_s
        self._idle: list[Child] = []
        self._made = 0
        self._known: OrderedDict[bytes, Compiled] = OrderedDict()
        self._cache = CompiledCache(device)

    def compile(self, programs: Sequence[Program]) -> list[Compiled]:
        """One result for each, in order; equal programs are compiled once, also those of earlier runs.

        Raises:
            MachineError: no worker can be started.
        """
        codes = [p.code() for p in programs]
        # A job that ended or blocked a worker is not tried again; neither is any other.
        todo: deque[tuple[int, Mapping[str, Any]]] = deque()
        busy: list[_Busy] = []
        found: dict[int, Compiled] = {}
        for index, program in enumerate(programs):
            if codes[index] in self._known or codes.index(codes[index]) != index:
                continue
            job = program.job()
            kept = self._kept(job)
            if kept is None:
                todo.append((index, job))
            else:
                found[index] = kept
        try:
            while todo or busy:
                while todo and len(busy) < self._limit:
                    busy.append(self._begin(*todo.popleft()))
                for work in self._finished(busy):
                    busy.remove(work)
                    found[work.index] = self._result(work)
        finally:
            for work in busy:
                work.child.end()
                os.close(work.answer)
        for index, compiled in found.items():
            self._known[codes[index]] = compiled
        results = [self._known[code] for code in codes]
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return results

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        for child in self._idle:
            child.end()
        self._idle.clear()

    def _kept(self, job: Mapping[str, Any]) -> Compiled | None:
        """What an earlier run was answered, which takes no worker."""
        started = time.monotonic()
        found = self._cache.get(job)
        return None if found is None else _sound(*found, seconds=time.monotonic() - started)

    def _begin(self, index: int, job: Mapping[str, Any]) -> _Busy:
        fresh = not self._idle
        child = self._start() if fresh else self._idle.pop()
        answer = os.memfd_create("binary", os.MFD_CLOEXEC)
        file = sealed_file("program", [json.dumps(job).encode()])
        try:
            child.send(b"compile", [file, answer])
        except Ended:
            # Seen as its end when the answer is awaited.
            pass
        finally:
            os.close(file)
        started = time.monotonic()
        limit_s = self._timeout_s + (_FIRST_S if fresh else 0.0)
        return _Busy(index, job, child, answer, started, started + limit_s)

    def _start(self) -> Child:
        self._made += 1
        cache = self._zygote.folder(f"compile-{self._made}", owner=None)
        job = {"role": "compile", "device": self._device.to_json(), "cache": str(cache)}
        return self._zygote.worker(job, memory_bytes=_MEMORY_BYTES)

    @staticmethod
    def _finished(busy: Sequence[_Busy]) -> list[_Busy]:
        """Those with an answer, an end, or no time left; waits for at least one."""
        poll = select.poll()
        for work in busy:
            for descriptor in work.child.waitable:
                poll.register(descriptor, select.POLLIN)
        soonest = min(work.deadline for work in busy)
        events = {d for d, _ in poll.poll(max(0.0, soonest - time.monotonic()) * 1000)}
        now = time.monotonic()
        return [w for w in busy if events & set(w.child.waitable) or w.deadline <= now]

    def _result(self, work: _Busy) -> Compiled:
        took = time.monotonic() - work.started
        try:
            work.child.receive(0.0)
            data = read_all(work.answer)
            length = int.from_bytes(data[:8], "little")
            header, binary = json.loads(data[8 : 8 + length]), data[8 + length :]
        except TimedOut:
            work.child.end()
            text = f"the compiler took longer than {work.deadline - work.started:g} s"
            return Compiled(status=Status.TIMED_OUT, message=text, seconds=took)
        except (Ended, ValueError):
            ended = work.child.end()
            if ended.lost:
                raise MachineError(
                    "the OpenCL workers' zygote has ended", "try again; if it stays, report it"
                ) from None
            text = f"the driver's compiler ended without an answer (wait status {ended.status})"
            return Compiled(status=Status.CRASHED, message=text, seconds=took)
        finally:
            os.close(work.answer)
        self._idle.append(work.child)
        log = str(header.get("log", ""))
        if header["status"] != "ok":
            message = _why(log) + lacking_extension(_why(log), self._device.extensions)
            return Compiled(status=Status(header["status"]), message=message, log=log, seconds=took)
        self._cache.put(work.job, header, binary)
        return _sound(header, binary, seconds=took)


def _sound(header: Mapping[str, Any], binary: bytes, *, seconds: float) -> Compiled:
    return Compiled(
        status=Status.OK,
        binary=binary,
        kernels=dict(header["kernels"]),
        log=str(header.get("log", "")),
        seconds=seconds,
    )


def _why(log: str) -> str:
    """The first error of a compiler's output in one line."""
    found = _ERROR.search(log)
    text = found[0] if found else log
    return " ".join(_TEMPORARY.sub("the program", text).split())[:300] or "the driver gives no reason"


def lacking_extension(message: str, extensions: Sequence[str]) -> str:
    """The extension that an error is about where the device does not have it; empty elsewhere."""
    for name, about in _OF_EXTENSIONS.items():
        if name not in extensions and about.search(message):
            return f"; this device has no {name}"
    return ""


class CompiledCache:
    """Of one device.

    Args:
        device: that programs are compiled for.
        folder: where they are kept; below the user's folder of caches where left out.
        most: programs at most; the half that was not used for longest goes when there are more.
    """

    def __init__(self, device: Device, *, folder: Path | None = None, most: int = _MOST) -> None:
        self._folder = folder or cache_folder() / "opencl"
        self._most = most
        self._about = {
            "format": _FORMAT,
            "device": device.to_json(),
            "drivers": driver_environment(),
            "pyopencl": metadata.version("pyopencl"),
        }

    def get(self, job: Mapping[str, Any]) -> tuple[dict[str, Any], bytes] | None:
        """What a compile worker answered to this job before: its header and the binary.

        Args:
            job: as :meth:`tuner.evaluators.opencl.program.Program.job` has it.
        """
        path = self._path(job)
        if path is None:
            return None
        try:
            data = path.read_bytes()
            length = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + length])
            if header["status"] != "ok" or header["bytes"] != len(data) - 8 - length:
                return None
            os.utime(path)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return header, data[8 + length :]

    def put(self, job: Mapping[str, Any], header: Mapping[str, Any], binary: bytes) -> None:
        """Keeps an answer; a folder that cannot be written costs the cache, nothing else."""
        path = self._path(job)
        if path is None or header["status"] != "ok" or len(binary) > _MOST_BYTES:
            return
        head = json.dumps({**header, "bytes": len(binary)}).encode()
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, len(head).to_bytes(8, "little") + head + binary)
            self._thin()

    def _path(self, job: Mapping[str, Any]) -> Path | None:
        """The file of a job; ``None`` where the compiler may read further files or the time."""
        source = str(job.get("source", "")).replace("\\\n", "")
        if _READS_MORE.search(source) or any(o.startswith("-I") for o in job["options"]):
            return None
        return self._folder / f"{digest_json({**self._about, 'job': job})}.program"

    def _thin(self) -> None:
        kept = list(self._folder.glob("*.program"))
        if len(kept) <= self._most:
            return
        used: list[tuple[float, Path]] = []
        for path in kept:
            # Another process may thin it out as well.
            with suppress(OSError):
                used.append((path.stat().st_mtime, path))
        for _, path in sorted(used)[: len(used) - self._most // 2]:
            path.unlink(missing_ok=True)
