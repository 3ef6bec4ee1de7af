"""The process that compiles: a parent with libLLVM loaded that forks workers, each of which serves one socket.

Started as ``python -m tuner.evaluators.host.compile_worker LIBRARY`` with a Unix socket as standard input. Imports
the standard library, :mod:`tuner.evaluators.host.llvm` with its features, the neighbour ``symbols`` and the sandbox
only, as its start is paid for at every run. May not execute what it makes. LLVM may end or block a worker at any time:
the pool in the parent sees to that, so nothing here defends against it.

A message is two big-endian 32-bit lengths, a JSON header and one run of bytes; the header's ``sizes`` cut the
bytes into blobs.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tuner.evaluators.host.ir_features import module_features
from tuner.evaluators.host.llvm import Module
from tuner.evaluators.host.llvm_library import Library, LLVMError, MachineOptions, PassOptions
from tuner.evaluators.host.symbols import entry_symbol
from tuner.evaluators.host.unrelated import drop_unrelated
from tuner.evaluators.sandbox import landlock
from tuner.evaluators.sandbox.confine import confine_builder, isolate_network, set_limits

__all__ = ["Answer", "JobFailed", "Server", "Work", "decode", "encode", "main", "run_zygote"]

_LENGTHS = struct.Struct("!II")
_PR_SET_PDEATHSIG = 1
_MODULES_KEPT = 256
_OBJECTS_KEPT = 128
_LOG_LIMIT_BYTES = 16 << 20
_ORPHAN_CHECK_S = 5.0
_OBJECT_LIMIT_BYTES = 64 << 20
_ASSEMBLER_ERROR = re.compile(r"error: (<inline asm>:\d+:\d+: .*)")
_SAMPLE = """
define void @sample(ptr %a, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %p, align 4
  %y = fmul fast float %x, 2.0
  store float %y, ptr %p, align 4
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %loop
exit:
  ret void
}
"""


def encode(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One message as bytes."""
    text = json.dumps({**header, "sizes": [len(b) for b in blobs]}).encode()
    return b"".join((_LENGTHS.pack(len(text), sum(map(len, blobs))), text, *blobs))


def decode(buffer: bytearray) -> tuple[dict[str, Any], list[bytes]] | None:
    """Takes the first message off a buffer; ``None`` while it is incomplete.

    Raises:
        ValueError: when this is no message.
    """
    if len(buffer) < _LENGTHS.size:
        return None
    text_size, data_size = _LENGTHS.unpack_from(buffer)
    end = _LENGTHS.size + text_size + data_size
    if len(buffer) < end:
        return None
    at = _LENGTHS.size + text_size
    header = json.loads(bytes(buffer[_LENGTHS.size : at]))
    blobs = []
    for size in header["sizes"]:
        blobs.append(bytes(buffer[at : at + size]))
        at += size
    del buffer[:end]
    return header, blobs


class _Cache:
    """Bytes by key, the oldest dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[str, bytes] = OrderedDict()

    def get(self, key: str) -> bytes | None:
        found = self._items.get(key)
        if found is not None:
            self._items.move_to_end(key)
        return found

    def put(self, key: str, data: bytes) -> None:
        self._items[key] = data
        if len(self._items) > self._limit:
            self._items.popitem(last=False)


class JobFailed(Exception):
    """A job that cannot be done for a reason in itself; the text goes to the pool as it is."""


Answer = tuple[dict[str, Any], list[bytes]]
Work = Callable[[dict[str, Any], Sequence[bytes]], Answer]
"""One kind of job: a header and the bytes of its modules in, a header and blobs out."""


class Server:
    """Serves one socket until it closes: jobs in, answers out, the bytes of modules kept by their digests.

    Args:
        connection: to the pool.
        log: file descriptor of what this process prints; emptied before each job.
        work: what is done for each ``op``.
    """

    def __init__(self, connection: socket.socket, log: int, work: Mapping[str, Work]) -> None:
        self._connection = connection
        self._log = log
        self._modules = _Cache(_MODULES_KEPT)
        self._work = work

    def serve(self) -> None:
        """Returns when the pool closes its end."""
        buffer = bytearray()
        while True:
            message = decode(buffer)
            if message is None:
                data = self._connection.recv(1 << 20)
                if not data:
                    return
                buffer += data
                continue
            header, blobs = message
            for data in blobs:
                self._modules.put(hashlib.sha256(data).hexdigest(), data)
            self._connection.sendall(encode(*self._answer(header)))

    def _answer(self, header: dict[str, Any]) -> Answer:
        digests = header.get("modules", ())
        missing = [d for d in digests if self._modules.get(d) is None]
        if missing:
            return {"missing": missing}, []
        os.lseek(self._log, 0, os.SEEK_SET)
        os.ftruncate(self._log, 0)
        try:
            return self._work[header["op"]](header, [self._modules.get(d) or b"" for d in digests])
        except (JobFailed, LLVMError) as error:
            return {"error": str(error)}, []


class _Worker:
    """What LLVM does for the host."""

    def __init__(self, library: Library, log: int) -> None:
        self._library = library
        self._log = log
        self._objects = _Cache(_OBJECTS_KEPT)
        self.work: dict[str, Work] = {
            "link": self._link,
            "compile": self._compile,
            "list": self._list,
            "host": self._host,
        }

    def _module(self, modules: Sequence[bytes]) -> Module:
        first, *others = modules
        module = Module(self._library, first)
        for data in others:
            module.link(data)
        return module

    def _link(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """One module of several, the entry under its own name, variables of the harness's, vector variants offered.

        Without what has no part in the entry where that is all that is wanted.
        """
        module = self._module(modules)
        try:
            names = module.defined()
            symbol = entry_symbol(names, header["entry"])
            if symbol is None:
                return {"defined": names, "entry": None}, []
            if symbol != header["entry"]:
                module.rename(symbol, header["entry"])
            self._reduce(module, header)
            if header["variants"]:
                module.offer_vector_variants(header["variants"])
            module.verify()
            return {"defined": names, "entry": symbol}, [module.bitcode()]
        finally:
            module.close()

    def _reduce(self, module: Module, header: dict[str, Any]) -> None:
        """Leaves variables of the harness's to it, and drops what has no part in the entry where that is wanted."""
        variables, program = header["variables"], module.needs_cpp_library
        computed = module.computed_at_load() if program else set()
        if program or variables:
            # Nobody runs what a program does when it begins; it would write to what is imported.
            module.drop_load_time()
        for name, size_bytes in variables.items():
            module.import_variable(name, size_bytes)
        if program or header["alone"]:
            # What needs the C++ library cannot be loaded, and goes even if it calls what the entry calls.
            drop_unrelated(self._library, module, header["entry"], callers=not program)
        for name in sorted(computed):
            if module.has_variable(name):
                raise LLVMError(f"{name} gets its value when a program is loaded, which none does here")

    def _compile(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        started = time.perf_counter()
        module = self._module(modules)
        try:
            options = MachineOptions(**header["machine"])
            machine = self._library.machine(options, module.triple)
            parsed = time.perf_counter()
            module.run_passes(header["pipeline"], machine, PassOptions(**header["passes"]))
            passed = time.perf_counter()
            features = module_features(module)
            texts = {"ir": module.text()} if header["texts"] else {}
            counted = time.perf_counter()
            # Many pipelines end in the same IR; the code generator then need not run again.
            key = hashlib.sha256(module.bitcode() + repr(options).encode()).hexdigest()
            code = self._objects.get(key)
            if code is None or header["texts"]:
                if header["texts"]:
                    texts["assembly"] = self._assembly(module.bitcode(), machine)
                code = module.emit(machine)
                self._complain()
                if len(code) > _OBJECT_LIMIT_BYTES:
                    raise LLVMError(
                        f"the object has {len(code) >> 20} MiB; {_OBJECT_LIMIT_BYTES >> 20} are allowed"
                    )
                self._objects.put(key, code)
        finally:
            module.close()
        seconds = {
            "parse": parsed - started,
            "passes": passed - parsed,
            "features": counted - passed,
            "codegen": time.perf_counter() - counted,
        }
        return {"features": features, "texts": texts, "seconds": seconds}, [code]

    def _complain(self) -> None:
        """The assembler only prints what it could not take of inline assembly, and leaves it out of the object."""
        said = os.pread(self._log, _LOG_LIMIT_BYTES, 0).decode("utf-8", "replace")
        found = _ASSEMBLER_ERROR.search(said)
        if found is not None:
            raise LLVMError(found[1])

    def _assembly(self, bitcode: bytes, machine: int) -> str:
        # Emitting changes the module, so the text is made from a copy.
        copy = Module(self._library, bitcode)
        try:
            return copy.emit(machine, assembly=True).decode("utf-8", "replace")
        finally:
            copy.close()

    def _list(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """The passes (``what`` is ``passes``) or the global options (``options``, which ends this process)."""
        if header["what"] == "options":
            self._library.set_globals(["--help-hidden"])
        found = self._library.print_pass_names()
        return {"found": found}, [os.pread(self._log, _LOG_LIMIT_BYTES, 0)]

    def _host(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        return {**self._library.host(), "version": self._library.version}, []


def _limit(memory_bytes: int) -> None:
    set_limits(
        {
            resource.RLIMIT_AS: memory_bytes,
            resource.RLIMIT_FSIZE: _LOG_LIMIT_BYTES,
            resource.RLIMIT_CORE: 0,
        }
    )


Begin = Callable[[Sequence[str], int], Mapping[str, Work]]
"""Makes a forked worker ready: its global options and its log in, what it does for each ``op`` out."""


def _spawn(begin: Begin, control: socket.socket, request: dict[str, Any], handles: Sequence[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # Ends with the zygote, which ends with the pool: a blocked worker must not outlive them.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != request["parent"]:
            os._exit(1)
        control.close()
        connection, log = socket.socket(fileno=handles[0]), handles[1]
        os.dup2(log, 1)
        os.dup2(log, 2)
        _limit(request["memory_bytes"])
        Server(connection, log, begin(request["globals"], log)).serve()
        status = 0
    except Exception as error:
        # Ends up in the log, which the pool reads when a worker is gone.
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def _warm_up(library: Library) -> None:
    """Compiles a little once, so that forked workers find LLVM's code and tables in memory."""
    module = Module.from_text(library, _SAMPLE)
    try:
        machine = library.machine(MachineOptions(), library.host()["triple"])
        module.run_passes("default<O3>", machine, PassOptions())
        module.emit(machine)
    except LLVMError:
        return
    finally:
        module.close()


def run_zygote(load: Callable[[], tuple[dict[str, Any], Begin]], *, read: Sequence[str] = ()) -> int:
    """Answers ``spawn`` and ``reap`` on standard input until it closes.

    Args:
        load: loads what all workers share; gives the greeting, and what makes a forked worker ready.
        read: folders that workers read from, beside those of programs and libraries.
    """
    parent = os.getppid()
    control = socket.socket(fileno=os.dup(0))
    control.settimeout(_ORPHAN_CHECK_S)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    isolate_network()
    greeting, begin = load()
    confine_builder(read=read)
    control.sendall(encode(greeting))
    gc.freeze()
    buffer = bytearray()
    handles: list[int] = []
    while True:
        try:
            data, received, _, _ = socket.recv_fds(control, 1 << 16, 2)
        except TimeoutError:
            # Another process may hold the other end open after the pool's was killed.
            if os.getppid() != parent:
                return 0
            continue
        if not data:
            return 0
        buffer += data
        handles += received
        message = decode(buffer)
        if message is None:
            continue
        request, _ = message
        if request["op"] == "spawn":
            pid = _spawn(begin, control, {**request, "parent": os.getpid()}, handles)
            for handle in handles:
                os.close(handle)
            handles.clear()
            control.sendall(encode({"pid": pid}))
        else:
            _, status = os.waitpid(request["pid"], 0)
            control.sendall(encode({"status": os.waitstatus_to_exitcode(status)}))


def main(arguments: Sequence[str]) -> int:
    """The zygote of libLLVM, whose path is the only argument."""

    def load() -> tuple[dict[str, Any], Begin]:
        library = Library(arguments[0])
        _warm_up(library)

        def begin(options: Sequence[str], log: int) -> Mapping[str, Work]:
            # LLVM works on memory alone.
            landlock.restrict(landlock.Access())
            if options:
                library.set_globals(options)
            return _Worker(library, log).work

        return {**library.host(), "version": library.version}, begin

    return run_zygote(load)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
