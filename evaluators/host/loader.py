"""Links object code into this process through LLVM's ORC, by ctypes. Standard library only.

Used by the zygote for the harness and by its children for one candidate each; never by the tuner's own process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["LoadError", "Loader"]

_MISSING = re.compile(r"Symbols not found: \[ (.*?) \]")


_EXPORTED, _CALLABLE = 1, 4


class _Pair(ctypes.Structure):
    """``LLVMOrcCSymbolMapPair``: a name of the pool, an address, flags of the generic and of the target's kind."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("address", ctypes.c_uint64),
        ("flags", ctypes.c_uint8),
        ("target_flags", ctypes.c_uint8),
    ]


class LoadError(Exception):
    """Object code that cannot be linked, or a library that cannot be loaded."""


class Loader:
    """Two empty JITs, one for what is trusted and one for a candidate, made before any fork.

    Args:
        llvm: path of ``libLLVM``.
        libraries: shared libraries whose functions object code may call, besides the C library's.

    Raises:
        LoadError: a library is missing.
    """

    def __init__(self, llvm: str, libraries: Iterable[str] = ()) -> None:
        try:
            self._llvm = ctypes.CDLL(llvm)
            for name in libraries:
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise LoadError(str(error)) from error
        # The last has what compilers call for products of complex numbers and for integers of 128 bits.
        for optional in ("libm.so.6", "libmvec.so.1", "libgcc_s.so.1"):
            with contextlib.suppress(OSError):
                ctypes.CDLL(optional, mode=ctypes.RTLD_GLOBAL)
        machine = os.uname().machine
        target = {"x86_64": "X86", "aarch64": "AArch64"}.get(machine)
        if target is None:
            raise LoadError(f"no loader for {machine}")
        for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter"):
            getattr(self._llvm, f"LLVMInitialize{target}{part}")()
        self._reported: list[str] = []
        self._declare()
        self._trusted = self._make()
        self._candidate = self._make()

    def add_trusted(self, code: bytes) -> None:
        """Links object code of the project's own."""
        self._add(self._trusted, code)

    def trusted(self, symbol: str) -> int:
        """The address of a symbol of the trusted objects."""
        return self._lookup(self._trusted, symbol)

    def load(self, code: bytes, symbol: str, calls: Mapping[str, int], variables: Mapping[str, int]) -> int:
        """Links a candidate and gives the address of one of its symbols; once in a process.

        Args:
            code: of the candidate.
            symbol: the one that is wanted.
            calls: functions that it calls, each with the address of what stands for it where this process has none.
            variables: addresses of those that it imports.

        Raises:
            LoadError: it does not link: a bad object, an undefined or a duplicate symbol.
        """
        process = ctypes.CDLL(None)
        for name, address in calls.items():
            if not hasattr(process, name):
                self._define(self._candidate, name, address, _EXPORTED | _CALLABLE)
        for name, address in variables.items():
            self._define(self._candidate, name, address, _EXPORTED)
        self._add(self._candidate, code)
        return self._lookup(self._candidate, symbol)

    def _declare(self) -> None:
        pointer = ctypes.c_void_p

        def declare(name: str, result: Any, *arguments: Any) -> Any:
            function = getattr(self._llvm, name)
            function.restype = result
            function.argtypes = arguments
            return function

        self._create = declare("LLVMOrcCreateLLJIT", pointer, ctypes.POINTER(pointer), pointer)
        self._add_object = declare("LLVMOrcLLJITAddObjectFile", pointer, pointer, pointer, pointer)
        self._find = declare(
            "LLVMOrcLLJITLookup", pointer, pointer, ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p
        )
        self._library = declare("LLVMOrcLLJITGetMainJITDylib", pointer, pointer)
        self._generator = declare(
            "LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess",
            pointer,
            ctypes.POINTER(pointer),
            ctypes.c_char,
            pointer,
            pointer,
        )
        self._add_generator = declare("LLVMOrcJITDylibAddGenerator", None, pointer, pointer)
        self._prefix = declare("LLVMOrcLLJITGetGlobalPrefix", ctypes.c_char, pointer)
        self._buffer = declare(
            "LLVMCreateMemoryBufferWithMemoryRangeCopy",
            pointer,
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
        )
        self._intern = declare("LLVMOrcLLJITMangleAndIntern", pointer, pointer, ctypes.c_char_p)
        self._absolute = declare("LLVMOrcAbsoluteSymbols", pointer, ctypes.POINTER(_Pair), ctypes.c_size_t)
        self._define_unit = declare("LLVMOrcJITDylibDefine", pointer, pointer, pointer)
        self._message = declare("LLVMGetErrorMessage", ctypes.c_char_p, pointer)
        self._session = declare("LLVMOrcLLJITGetExecutionSession", pointer, pointer)
        reporter = ctypes.CFUNCTYPE(None, pointer, pointer)
        self._set_reporter = declare(
            "LLVMOrcExecutionSessionSetErrorReporter", None, pointer, reporter, pointer
        )
        # Kept for as long as LLVM may call it.
        self._reporter = reporter(lambda _, error: self._reported.append(self._text(error)))

    def _make(self) -> ctypes.c_void_p:
        jit = ctypes.c_void_p()
        self._check(self._create(ctypes.byref(jit), None))
        # What a lookup misses is told to the reporter only, by default on stderr.
        self._set_reporter(self._session(jit), self._reporter, None)
        generator = ctypes.c_void_p()
        self._check(self._generator(ctypes.byref(generator), self._prefix(jit), None, None))
        self._add_generator(self._library(jit), generator)
        return jit

    def _add(self, jit: ctypes.c_void_p, code: bytes) -> None:
        buffer = self._buffer(code, len(code), b"object")
        self._check(self._add_object(jit, self._library(jit), buffer))

    def _define(self, jit: ctypes.c_void_p, name: str, address: int, flags: int) -> None:
        pair = _Pair(name=self._intern(jit, name.encode()), address=address, flags=flags)
        unit = self._absolute(ctypes.byref(pair), 1)
        self._check(self._define_unit(self._library(jit), unit))

    def _lookup(self, jit: ctypes.c_void_p, symbol: str) -> int:
        address = ctypes.c_uint64()
        self._check(self._find(jit, ctypes.byref(address), symbol.encode()))
        return address.value

    def _check(self, error: int | None) -> None:
        if error:
            told, self._reported = self._reported, []
            text = "; ".join([*told, self._text(error)])
            missing = _MISSING.search(text)
            if missing is not None:
                text = (
                    f"{missing[1]}: defined neither in kernel.sources nor in C's and the mathematical library"
                )
            raise LoadError(text)

    def _text(self, error: int) -> str:
        text: bytes = self._message(error)
        return " ".join(text.decode(errors="replace").split())
