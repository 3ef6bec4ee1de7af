"""The process that owns a device context: loads cubins, copies, launches and reads events, on request.

Started as ``python -m tuner.evaluators.cuda.device_worker LIBRARY INDEX`` with a Unix socket as standard input. A
candidate's fault may break the context for good; then this process says so and is replaced. Nothing here knows what
is expected, and its clock is checked by the parent's. Standard library only.

Messages are those of :mod:`tuner.evaluators.host.compile_worker`; descriptors of memory files travel beside them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.evaluators.cuda.driver import Driver, DriverError, Function
from tuner.evaluators.cuda.pinned import Pinned, PinnedMemory
from tuner.evaluators.host.compile_worker import decode, encode

__all__ = ["main"]

_POISON = 0xFF
_PR_SET_PDEATHSIG = 1

Header = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Set:
    """One slab on the device: in one piece, or with stretches at recorded addresses."""

    device: int
    pinned: Pinned | None
    size: int
    host: int
    memory: mmap.mmap
    values: list[Any]
    arguments: ctypes.Array[ctypes.c_void_p]
    poison: list[list[int]]
    touch: list[list[int]]
    restore: list[tuple[int, int, int]]
    golden: int
    variables: list[tuple[str, int, int, bool]]

    def at(self, offset: int) -> int:
        """Where a byte of the slab lies."""
        return self.device + offset if self.pinned is None else self.pinned.address(offset)


class _Worker:
    """Does what is asked for, one request after the other."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pinned = PinnedMemory(driver)
        self._function: Function | None = None
        self._sets: dict[int, _Set] = {}
        self._flush: tuple[int, int] = (0, 0)
        self._scratch: tuple[int, int] = (0, 0)
        self._events: tuple[ctypes.c_void_p, ctypes.c_void_p] | None = None
        self.work: dict[str, Callable[[Header, Sequence[bytes], list[int]], Header]] = {
            "describe": lambda header, blobs, handles: self._driver.describe(),
            "open": self._open,
            "load": self._load,
            "unload": self._unload,
            "place": self._place,
            "run": self._run,
            "time": self._time,
            "burst": self._burst,
            "drop": self._drop,
        }

    def _open(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        self._driver.open()
        self._events = (self._driver.event(), self._driver.event())
        return {}

    def _load(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        self._function = self._driver.load(
            blobs[0], header["symbol"], header["shared_bytes"], header["variables"]
        )
        return {"rooms": {name: size for name, (_, size) in self._function.variables.items()}}

    def _unload(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        pinned = any(slab.pinned for slab in self._sets.values())
        for number in list(self._sets):
            self._free(number)
        for name in ("_flush", "_scratch") if pinned else ():
            # They may lie where the next recording has to.
            self._driver.free(getattr(self, name)[0])
            setattr(self, name, (0, 0))
        if self._function is not None:
            self._driver.unload(self._function)
            self._function = None
        self._driver.reset_persisting_cache()
        self._driver.wait()
        return {}

    def _place(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        number, size = header["set"], header["size"]
        if number in self._sets:
            self._free(number)
        memory = mmap.mmap(handles[0], size)
        host = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        pinned = None
        if header.get("stretches"):
            pinned = self._pinned.make(header["stretches"], size, self._function)
        device = 0 if pinned is not None else self._driver.allocate(size)
        base = pinned.address if pinned is not None else device.__add__
        values = [_value(p, base) for p in header["parameters"]]
        arguments = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        spans = [(at, length) for at, length in header["restore"]]
        golden, inside = 0, 0
        restore = []
        if pinned is None and spans:
            golden = self._driver.allocate(sum(length for _, length in spans))
        for at, length in spans:
            restore.append((at, golden + inside, length))
            inside += length
        self._sets[number] = _Set(
            device=device,
            pinned=pinned,
            size=size,
            host=host,
            memory=memory,
            values=values,
            arguments=arguments,
            poison=header["poison"],
            touch=header["touch"],
            restore=restore,
            golden=golden,
            variables=[(name, device + at, *rest) for name, at, *rest in header["variables"]],
        )
        self._upload(self._sets[number])
        return {}

    def _upload(self, slab: _Set) -> None:
        self._driver.upload(slab.pinned.golden if slab.pinned else slab.device, slab.host, slab.size)
        # A copy from pageable memory may still be under way, and our stream waits for no other.
        self._driver.wait()
        if slab.pinned:
            # The gaps between stretches are on no device: they come back as they were sent.
            self._driver.copy(slab.pinned.result, slab.pinned.golden, slab.size)
        else:
            for at, golden, length in slab.restore:
                self._driver.copy(golden, slab.at(at), length)
        self._driver.wait()

    def _run(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        """One call on buffers as they were placed, and the whole slab back."""
        slab = self._sets[header["set"]]
        if slab.pinned:
            self._pinned.enter(slab.pinned, [(at, length) for at, _, length in slab.restore])
        seconds = self._call(slab, header)
        self._keep(slab)
        self._download(slab)
        return {"seconds": seconds}

    def _time(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        """Timed calls of the sets in the order given; afterwards every set that was used comes back."""
        times = []
        flush = self._buffer("_flush", header["flush_bytes"])
        for number in header["order"]:
            slab = self._sets[number]
            self._driver.wait()
            self._driver.reset_persisting_cache()
            # Keeps the device busy while the calls below are queued, so that the first event does not pass before
            # the kernel is in the queue behind it.
            if slab.pinned:
                self._prepare(slab)
                self._driver.fill(flush, 0, header["flush_bytes"])
            else:
                self._driver.fill(flush, 0, header["flush_bytes"])
                self._prepare(slab)
            if header["warm"]:
                self._touch(slab)
            times.append(self._call(slab, header))
            self._keep(slab)
        for number in sorted(set(header["order"])):
            self._download(self._sets[number])
        return {"times": times}

    def _burst(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        """Calls without events between them, or only what is done before each: the parent holds the clock."""
        assert self._function is not None
        for number in header["order"]:
            slab = self._sets[number]
            self._prepare(slab)
            self._fill_variables(slab)
            if header["calls"]:
                self._driver.launch(
                    self._function, header["grid"], header["block"], header["shared_bytes"], slab.arguments
                )
        self._driver.wait()
        return {}

    def _drop(self, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
        for number in header["sets"]:
            self._free(number)
        return {}

    def _prepare(self, slab: _Set) -> None:
        if slab.pinned:
            self._pinned.enter(slab.pinned, [(at, length) for at, _, length in slab.restore])
        else:
            for to, source, length in slab.restore:
                self._driver.copy(slab.at(to), source, length)
        for at, length in slab.poison:
            self._driver.fill(slab.at(at), _POISON, length)

    def _keep(self, slab: _Set) -> None:
        """Another set at the same addresses may come next."""
        if slab.pinned:
            self._pinned.keep(slab.pinned)

    def _download(self, slab: _Set) -> None:
        self._driver.wait()
        self._driver.download(slab.host, slab.pinned.result if slab.pinned else slab.device, slab.size)

    def _fill_variables(self, slab: _Set) -> None:
        assert self._function is not None
        for name, at, length, _ in slab.variables:
            self._driver.copy(self._function.variables[name][0], at, length)

    def _keep_variables(self, slab: _Set) -> None:
        """What a call has left in variables that it may write to, into the slab."""
        assert self._function is not None
        for name, at, length, writable in slab.variables:
            if writable:
                self._driver.copy(at, self._function.variables[name][0], length)

    def _touch(self, slab: _Set) -> None:
        """Brings inputs into the second-level cache by copying them elsewhere."""
        longest = max((length for _, length in slab.touch), default=0)
        scratch = self._buffer("_scratch", longest) if longest else 0
        for at, length in slab.touch:
            self._driver.copy(scratch, slab.at(at), length)

    def _call(self, slab: _Set, header: Header) -> float:
        assert self._function is not None
        assert self._events is not None
        start, end = self._events
        self._fill_variables(slab)
        self._driver.record(start)
        self._driver.launch(
            self._function, header["grid"], header["block"], header["shared_bytes"], slab.arguments
        )
        self._driver.record(end)
        # The whole context: work that a candidate put into another stream counts as well.
        self._driver.wait()
        self._keep_variables(slab)
        return self._driver.elapsed_s(start, end)

    def _buffer(self, name: str, size: int) -> int:
        at, room = getattr(self, name)
        if room < size:
            if at:
                self._driver.free(at)
            at = self._driver.allocate(size)
            setattr(self, name, (at, size))
        return int(at)

    def _free(self, number: int) -> None:
        slab = self._sets.pop(number)
        if slab.pinned:
            self._pinned.free(slab.pinned)
            return
        self._driver.free(slab.device)
        if slab.golden:
            self._driver.free(slab.golden)


def _value(parameter: Header, base: Callable[[int], int]) -> Any:
    if "at" in parameter:
        return ctypes.c_uint64(base(parameter["at"]))
    data = bytearray.fromhex(parameter["hex"])
    for place, offset in parameter.get("pointers", ()):
        struct.pack_into("<Q", data, place, base(offset))
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


def _answer(worker: _Worker, header: Header, blobs: Sequence[bytes], handles: list[int]) -> Header:
    try:
        return worker.work[header["op"]](header, blobs, handles)
    except DriverError as error:
        return {"error": error.code, "name": error.name, "call": error.call}
    finally:
        for handle in handles:
            os.close(handle)


def main(arguments: Sequence[str]) -> int:
    """Serves standard input until it closes."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    try:
        worker = _Worker(Driver(arguments[0], int(arguments[1])))
    except OSError as error:
        connection.sendall(encode({"missing": str(error)}))
        return 0
    except DriverError as error:
        connection.sendall(encode({"error": error.code, "name": error.name, "call": error.call}))
        return 0
    connection.sendall(encode({}))
    buffer, handles = bytearray(), list[int]()
    while True:
        message = decode(buffer)
        if message is None:
            data, received, _, _ = socket.recv_fds(connection, 1 << 20, 4)
            if not data:
                return 0
            buffer += data
            handles += received
            continue
        header, blobs = message
        taken, handles = handles, []
        connection.sendall(encode(_answer(worker, header, blobs, taken)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
