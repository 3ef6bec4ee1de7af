"""The life of one candidate's process once it is confined: context, program, buffers, launches, device times.

Knows nothing of what is expected; the parent takes its word for nothing that matters. Where the device is the host's
processor, buffers are the parent's own pages (inputs sealed, guard pages around each), so that a kernel that writes to
an input or beyond an end faults; on other devices they are copied there and back.
"""

from __future__ import annotations

import array
import ctypes
import json
import mmap
import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from tuner.evaluators.opencl import front_end
from tuner.evaluators.opencl.device import POCL
from tuner.evaluators.opencl.faults import Guard
from tuner.evaluators.opencl.worker import MESSAGE_BYTES, find_device
from tuner.evaluators.sandbox import seccomp

__all__ = ["ATTACH", "DONE", "FAILED", "FINISHED", "LOADED", "MAPPED", "PROGRESS", "READY", "RUN", "SETTLED"]
__all__ += ["WINDOW", "serve_candidate"]

ATTACH, RUN, WINDOW = 11, 12, 13
READY, DONE, PROGRESS = 1, 2, 3
LOADED, MAPPED, FINISHED, FAILED, SETTLED = 21, 23, 24, 26, 27

_MAP_FIXED, _MAP_NORESERVE, _MAP_FIXED_NOREPLACE = 0x10, 0x4000, 0x100000
_LINE = 64
_PASSES = 3
"""Over what is touched, in turn: some last-level caches take a line only when it was used again."""


def serve_candidate(channel: socket.socket, binary: bytes, job: Mapping[str, Any], guard: Guard) -> None:
    """Loads a program and serves requests until the parent hangs up.

    Args:
        channel: to the parent.
        binary: the program.
        job: ``device``, ``entry``, ``cache`` (its folder), ``shared`` (whether buffers are the parent's pages).
        guard: notes faults.
    """
    try:
        child = _Child(channel, binary, job)
        guard.install()
        child.answer(LOADED, len(os.listdir("/proc/self/task")))
        child.serve()
    except cl.Error as error:
        text = " ".join(f"{error.routine}: {error}".split())[:500]
        channel.send(array.array("q", [FAILED, int(error.code)]).tobytes() + text.encode())


class _Child:
    def __init__(self, channel: socket.socket, binary: bytes, job: Mapping[str, Any]) -> None:
        self._channel = channel
        self._shared = bool(job["shared"])
        device = find_device(job)
        self._context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, device, properties=profiling)
        self._program = _loaded(self._context, device, binary, Path(str(job["cache"])))
        self._entry = str(job["entry"])
        self._sets: list[_Set] = []
        self._cache: Any = None
        # Its threads are there once a kernel has run; others' drivers may start some whenever they like.
        self._settled = not (job["device"]["platform"].lower() == POCL and seccomp.available())

    def answer(self, *words: int) -> None:
        """Sends words to the parent."""
        self._channel.send(array.array("q", words).tobytes())

    def serve(self) -> None:
        """Answers requests until the parent hangs up."""
        while True:
            message, files, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, 3)
            if not message:
                return
            words = array.array("q")
            words.frombytes(message)
            if words[0] == ATTACH:
                self._attach(files)
            elif words[0] == RUN:
                self._run(words)
            elif words[0] == WINDOW:
                self._window(words)
            else:
                raise ValueError("unknown request")

    def _attach(self, files: Sequence[int]) -> None:
        with mmap.mmap(files[2], 0, prot=mmap.PROT_READ) as view:
            plan = json.loads(bytes(view).rstrip(b"\0"))
        failed = _map(plan, files)
        for file in files:
            os.close(file)
        if not failed:
            self._sets.append(
                _Set(self._context, self._queue, self._program, self._entry, plan, self._shared)
            )
        self.answer(MAPPED, failed)

    def _run(self, words: array.array[int]) -> None:
        data = self._sets[words[1]]
        for place, number in enumerate(words[3 : 3 + words[2]]):
            data.bring([number])
            event = data.launch(number)
            data.settle([number])
            self.answer(PROGRESS, place, _took_ns(event))
        self.answer(FINISHED)

    def _window(self, words: array.array[int]) -> None:
        """One timed stretch between the parent's "go" and its next word."""
        which, flush_bytes, calls, poisons = words[1:5]
        order, poison = words[5 : 5 + calls], words[5 + calls :]
        data, times = self._sets[which], []
        if not self._settled:
            # Everything that is timed was compiled and run before: what a kernel leaves to a thread is not timed.
            seccomp.install(seccomp.starts_nothing(), everywhere=True)
            self._settled = True
        data.bring(sorted(set(order)))
        if not flush_bytes:
            data.touch(sorted(set(order)))
        self.answer(READY)
        self._wait()
        begin = time.monotonic_ns()
        for call, number in enumerate(order):
            if flush_bytes:
                self._flush(flush_bytes)
            for at in range(2 * call * poisons, 2 * (call + 1) * poisons, 2):
                data.poison(poison[at], poison[at + 1])
            event = data.launch(number)
            times.append(_took_ns(event))
        took = time.monotonic_ns() - begin
        self.answer(DONE, sum(times), took, calls, *times)
        data.settle(sorted(set(order)))
        self.answer(SETTLED)
        self._wait()

    def _wait(self) -> None:
        if len(self._channel.recv(8)) != 8:
            raise OSError("the parent is gone")

    def _flush(self, size: int) -> None:
        if self._shared:
            if self._cache is None:
                self._cache = np.zeros(size, np.uint8)
            self._cache[::_LINE] += 1
            return
        if self._cache is None:
            self._cache = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size=size)
        cl.enqueue_fill_buffer(self._queue, self._cache, np.ones(1, np.uint8), 0, size).wait()


def _loaded(context: Any, device: Any, binary: bytes, cache: Path) -> Any:
    made = front_end.put(cache, binary)
    if made is None:
        return cl.Program(context, [device], [binary]).build()
    source, options = made
    return cl.Program(context, source).build(options=list(options), devices=[device])


class _Set:
    """The buffers and kernels of one attached bundle, made for those of its entries that are called.

    Of a small kernel there may be hundreds of entries, and a driver takes half a millisecond to make a kernel.
    """

    def __init__(
        self, context: Any, queue: Any, program: Any, entry: str, plan: Mapping[str, Any], shared: bool
    ) -> None:
        self._context = context
        self._queue = queue
        self._program = program
        self._entry = entry
        self._shared = shared
        self._entries = plan["entries"]
        self._buffers: dict[int, Any] = {}
        self._pages: dict[int, Any] = {}
        self._kernels: dict[int, Any] = {}
        self._uploaded: set[int] = set()

    def _made(self, number: int) -> Any:
        """The kernel of an entry with its arguments."""
        if number not in self._kernels:
            kernel = cl.Kernel(self._program, self._entry)
            for place, argument in enumerate(self._entries[number]["arguments"]):
                kernel.set_arg(place, self._value(argument))
            self._kernels[number] = kernel
        return self._kernels[number]

    def _value(self, argument: Sequence[Any]) -> Any:
        kind = argument[0]
        if kind == "scalar":
            return np.frombuffer(bytes.fromhex(argument[2]), dtype=argument[1])[0]
        if kind == "bytes":
            return bytes.fromhex(argument[1])
        if kind == "local":
            return cl.LocalMemory(argument[1])
        _, at, size, writable = argument
        if at not in self._buffers:
            self._pages[at] = (ctypes.c_char * size).from_address(at)
            access = cl.mem_flags.READ_WRITE if writable else cl.mem_flags.READ_ONLY
            if self._shared:
                flags = access | cl.mem_flags.USE_HOST_PTR
                self._buffers[at] = cl.Buffer(self._context, flags, hostbuf=self._pages[at])
            else:
                self._buffers[at] = cl.Buffer(self._context, access, size=size)
        return self._buffers[at]

    def bring(self, numbers: Sequence[int]) -> None:
        """Inputs, what the parent filled outputs with, and what is restored before a call, go to the device.

        Nothing is left to be made when a kernel of these entries is timed.
        """
        for number in numbers:
            self._made(number)
            for to, source, size in self._entries[number]["restore"]:
                ctypes.memmove(to, source, size)
            for kind, *rest in self._entries[number]["arguments"]:
                if kind != "buffer" or self._shared or (not rest[2] and rest[0] in self._uploaded):
                    continue
                cl.enqueue_copy(self._queue, self._buffers[rest[0]], self._pages[rest[0]])
                self._uploaded.add(rest[0])
        self._queue.finish()

    def settle(self, numbers: Sequence[int]) -> None:
        """What kernels wrote becomes visible to the parent."""
        self._queue.finish()
        if self._shared:
            return
        for number in numbers:
            for kind, *rest in self._entries[number]["arguments"]:
                if kind == "buffer" and rest[2]:
                    cl.enqueue_copy(self._queue, self._pages[rest[0]], self._buffers[rest[0]])
        self._queue.finish()

    def touch(self, numbers: Sequence[int]) -> None:
        """Reads every buffer of some entries; where they were copied to the device they are warm already."""
        if not self._shared:
            return
        places = {a[1] for n in numbers for a in self._entries[n]["arguments"] if a[0] == "buffer"}
        for _ in range(_PASSES):
            for at in places:
                np.frombuffer(self._pages[at], np.uint8)[::_LINE].max()

    def poison(self, at: int, size: int) -> None:
        """Spoils one element, so that a call that does nothing is seen."""
        if not size:
            return
        if self._shared:
            ctypes.memset(at, 0xFF, size)
            return
        first = max(a for a in self._buffers if a <= at)
        pattern = np.full(1, 0xFF, np.uint8)
        cl.enqueue_fill_buffer(self._queue, self._buffers[first], pattern, at - first, size).wait()

    def launch(self, number: int) -> Any:
        """Runs the kernel once; its event, with times."""
        entry, kernel = self._entries[number], self._made(number)
        event = cl.enqueue_nd_range_kernel(
            self._queue, kernel, entry["global"], entry["local"], entry["offset"]
        )
        event.wait()
        return event


def _took_ns(event: Any) -> int:
    """Of a launch, with what it has launched itself where the driver tells.

    Source: OpenCL 2.0 API, ``CL_PROFILING_COMMAND_COMPLETE``.
    """
    end = event.profile.end
    try:
        end = max(end, event.get_profiling_info(cl.profiling_info.COMPLETE))
    except cl.Error:
        # A driver of OpenCL 1.2, in which kernels launch nothing.
        pass
    return int(end - event.profile.start)


def _map(plan: Mapping[str, Any], files: Sequence[int]) -> int:
    """Maps the spans of a bundle at their places; 0, or the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    reserve = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
    if libc.mmap(plan["base"], plan["space"], 0, reserve, -1, 0) != plan["base"]:
        return ctypes.get_errno() or 1
    rows = plan["rows"]
    for start in range(0, len(rows), 6):
        at, size, protection, flags, file, offset = rows[start : start + 6]
        descriptor = -1 if file < 0 else files[file]
        if libc.mmap(at, size, protection, flags | _MAP_FIXED, descriptor, offset) != at:
            return ctypes.get_errno() or 1
    return 0
