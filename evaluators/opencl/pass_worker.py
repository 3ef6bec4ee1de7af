"""The process that runs pass pipelines over OpenCL's IR and makes SPIR-V: LLVM and llvmlite loaded once, then forked.

Started as ``python -m tuner.evaluators.opencl.pass_worker LLVM``; the talk is that of
:mod:`tuner.evaluators.host.compile_worker`. May not load pyopencl or a driver: those bring an LLVM of their own. Of
SPIR-V it looks at one thing that a faulty code generator gets wrong, and drivers die of; validation is the device's.

Source: SPIR-V specification, binary form (Khronos).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from tuner.evaluators.device_code.generators import DeviceModule, Generator, make_generator
from tuner.evaluators.host.compile_worker import Answer, JobFailed, Work, run_zygote
from tuner.evaluators.host.llvm_library import Library, PassOptions

__all__ = ["main", "number_given_twice"]

_LOCAL_SPACE = 3
_GOOD, _BAD = b"+", b"-"
_ASK, _NO_RANDOM_ADDRESSES = 0xFFFFFFFF, 0x0040000
_KIND_POINTER = 12
_INLINE = "always-inline,globaldce"
"""Clang splits each kernel into an entry and a body that is always inlined; a pipeline need not do that."""
_HEADER_WORDS = 5
_RESULT_FIRST = frozenset({7, 11, 73, 248, *range(19, 39)})
"""Instructions whose first operand is their result: strings, imports, groups, labels, types."""
_RESULT_SECOND = frozenset(
    {
        *(1, 12, 54, 55, 57, 59, 60, 61, 227, 245),
        *range(41, 47),
        *range(48, 53),
        *range(65, 71),
        *range(77, 85),
        *range(109, 125),
        *range(126, 153),
        *range(154, 192),
        *range(194, 206),
        *range(229, 243),
    }
)
"""Instructions whose second operand is their result, behind its type."""


class _KernelModule(DeviceModule):
    def local_parameters(self, symbol: str) -> list[bool]:
        """For each parameter of a kernel whether it is a pointer into local memory."""
        lib = self._lib
        kernel = lib.GetNamedFunction(self._module, symbol.encode())
        types = [lib.TypeOf(lib.GetParam(kernel, i)) for i in range(lib.CountParams(kernel))]
        return [
            lib.GetTypeKind(t) == _KIND_POINTER and lib.GetPointerAddressSpace(t) == _LOCAL_SPACE
            for t in types
        ]


class _Worker:
    """What is done for each ``op``.

    Args:
        library: runs the passes.
        generator: makes SPIR-V.
    """

    def __init__(self, library: Library, generator: Generator) -> None:
        self._library = library
        self._generator = generator
        self.work: dict[str, Work] = {"prepare": self._prepare, "compile": self._compile}

    def _prepare(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """The front end's module everything but the kernel hidden; what its parameters are."""
        module = _KernelModule(self._library, modules[0])
        symbol = str(header["entry"])
        try:
            if symbol not in module.names():
                listed = ", ".join(n for n in module.names() if not n.startswith("__clang_")) or "none"
                raise JobFailed(f"the program has no kernel {symbol!r}; it has {listed}")
            local = module.local_parameters(symbol)
            module.keep_only(symbol)
            module.run_passes(_INLINE, 0, PassOptions())
            module.verify()
            return {"symbol": symbol, "local": local}, [module.bitcode()]
        finally:
            module.close()

    def _compile(self, header: dict[str, Any], modules: Sequence[bytes]) -> Answer:
        """One pipeline, then SPIR-V."""
        started = time.perf_counter()
        triple, symbol = header["triple"], header["symbol"]
        module = _KernelModule(self._library, modules[0])
        try:
            machine = self._generator.machine(triple, "")
            module.run_passes(header["pipeline"], machine, PassOptions(**header["passes"]))
            if symbol not in module.names():
                raise JobFailed("the pass pipeline removed the kernel")
            passed = time.perf_counter()
            code = self._code(module, triple)
        finally:
            module.close()
        seconds = {"passes": passed - started, "codegen": time.perf_counter() - passed}
        return {"seconds": seconds}, [code]

    def _code(self, module: _KernelModule, triple: str) -> bytes:
        """SPIR-V, made by a process that has made none before.

        LLVM 22's code generator remembers what it has seen: after some modules it gives two values of the next one
        number, which no device takes.
        """
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self._emit(module, triple, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as file:
            answer = file.read()
        os.waitpid(child, 0)
        if answer[:1] != _GOOD:
            raise JobFailed(
                answer[1:].decode("utf-8", "replace") or f"{self._generator.name} ended in a crash"
            )
        code = answer[1:]
        if number_given_twice(code) is not None:
            raise JobFailed(f"{self._generator.name} gives two values of its SPIR-V one number")
        return code

    def _emit(self, module: _KernelModule, triple: str, writer: int) -> NoReturn:
        try:
            answer = _GOOD + self._generator.object_code(module, triple, "")
        except Exception as error:
            answer = _BAD + str(error).encode()
        with os.fdopen(writer, "wb") as file:
            file.write(answer)
        os._exit(0)


def _at_fixed_addresses() -> None:
    """Starts the process again without random addresses.

    Code of LLVM's may depend on the order of pointers, and equal work has to give equal code, in a resumed run too.
    """
    libc = ctypes.CDLL(None)
    now = libc.personality(_ASK)
    if now != -1 and not now & _NO_RANDOM_ADDRESSES and libc.personality(now | _NO_RANDOM_ADDRESSES) != -1:
        os.execv(sys.executable, sys.orig_argv)


def main(arguments: Sequence[str]) -> int:
    """The zygote; its only argument is the path of libLLVM."""
    _at_fixed_addresses()

    def load() -> tuple[dict[str, Any], Any]:
        library = Library(arguments[0])
        generator = make_generator(library, "SPIRV")
        greeting = {"llvm": library.version, "generator": generator.name}
        return greeting, lambda options, log: _Worker(library, generator).work

    return run_zygote(load)


def number_given_twice(module: bytes) -> int | None:
    """The first number that two instructions give to their results; ``None`` where there is none.

    Args:
        module: in the byte order of this machine, as a code generator here makes it.
    """
    words: tuple[int, ...] = struct.unpack(f"<{len(module) // 4}I", module[: len(module) // 4 * 4])
    seen: set[int] = set()
    at = _HEADER_WORDS
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        place = 1 if opcode in _RESULT_FIRST else 2 if opcode in _RESULT_SECOND else 0
        if length == 0 or at + length > len(words):
            return None
        if place and place < length:
            number = words[at + place]
            if number in seen:
                return number
            seen.add(number)
        at += length
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
