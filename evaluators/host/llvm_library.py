"""One loaded libLLVM: its targets, options and target machines.

Imports the standard library only, as every compile worker loads it. LLVM may end the process at any call: only
processes that can be lost use this module.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_uint, c_void_p
from dataclasses import dataclass, fields
from typing import Any

from tuner.evaluators.host.llvm_prototypes import PROTOTYPES

__all__ = ["LLVMError", "Library", "MachineOptions", "PassOptions", "setter_of"]

_X86_PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
_CODE_MODELS = {"default": 0, "small": 3, "kernel": 4, "medium": 5, "large": 6}
_RELOCATION_PIC = 2


class LLVMError(Exception):
    """LLVM refused something and lives on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassOptions:
    """What clang sets in the pass builder; the defaults are those of ``clang -O3``.

    The two vectorisers are missing on purpose: reading the text ``default<O3>`` overrides what is set for them.
    """

    loop_interleaving: bool = True
    loop_unrolling: bool = True
    call_graph_profile: bool = True
    debug_logging: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """A target machine. An empty ``cpu`` is this machine's; ``level`` is the code generator's ``-O``, 0 to 3."""

    cpu: str = ""
    level: int = 3
    code_model: str = "default"


class Library:
    """One loaded libLLVM with the x86 target.

    Args:
        path: the shared library.

    Raises:
        OSError: when it cannot be loaded.
        AttributeError: when a function is missing: not a libLLVM of version 17 or newer with the x86 target.
    """

    def __init__(self, path: str) -> None:
        self._handle = ctypes.CDLL(path)
        self._calls: dict[str, Any] = {}
        for name, (result, arguments) in PROTOTYPES.items():
            call = getattr(self._handle, "LLVM" + name)
            call.restype, call.argtypes = result, arguments
            self._calls[name] = call
        for option in fields(PassOptions):
            name = setter_of(option.name)
            call = getattr(self._handle, "LLVM" + name)
            call.restype, call.argtypes = None, (c_void_p, c_int)
            self._calls[name] = call
        # Found as plain attributes: features take thousands of calls, and a detour costs more than the call.
        self.__dict__.update(self._calls)
        for part in _X86_PARTS:
            getattr(self._handle, "LLVMInitializeX86" + part)()
        self._machines: dict[MachineOptions, int] = {}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._calls[name]
        except KeyError:
            raise AttributeError(name) from None

    def add_target(self, name: str) -> bool:
        """Makes a further target ready for :meth:`machine`; false where this library was built without it."""
        parts = ("TargetInfo", "Target", "TargetMC", "AsmPrinter")
        try:
            calls = [self._handle[f"LLVMInitialize{name}{part}"] for part in parts]
        except AttributeError:
            return False
        for call in calls:
            call()
        return True

    @property
    def version(self) -> str:
        """For example ``23.1.4``."""
        parts = (c_uint(), c_uint(), c_uint())
        self.GetVersion(*(byref(p) for p in parts))
        return ".".join(str(p.value) for p in parts)

    def host(self) -> dict[str, str]:
        """This machine as LLVM sees it: ``triple``, ``cpu``, ``features``."""
        return {
            "triple": self.take(self.GetDefaultTargetTriple()),
            "cpu": self.take(self.GetHostCPUName()),
            "features": self.take(self.GetHostCPUFeatures()),
        }

    def take(self, message: int | None) -> str:
        """Text that LLVM allocated; frees it."""
        if not message:
            return ""
        text = ctypes.string_at(message).decode("utf-8", "replace")
        self.DisposeMessage(message)
        return text

    def take_buffer(self, buffer: int | None) -> bytes:
        """Bytes of a memory buffer; frees it."""
        data = ctypes.string_at(self.GetBufferStart(buffer), self.GetBufferSize(buffer))
        self.DisposeMemoryBuffer(buffer)
        return data

    def set_globals(self, options: Sequence[str]) -> None:
        """Sets LLVM's process-wide options. Unknown ones are ignored by LLVM: check them first."""
        words = [b"tuner", *(option.encode() for option in options)]
        self.ParseCommandLineOptions(len(words), (c_char_p * len(words))(*words), None)

    def machine(self, options: MachineOptions, triple: str) -> int:
        """A target machine, made once for each set of options.

        Raises:
            LLVMError: for a triple that this library has no target for.
        """
        if options not in self._machines:
            self._machines[options] = self.fresh_machine(options, triple)
        return self._machines[options]

    def fresh_machine(self, options: MachineOptions, triple: str) -> int:
        """One that nothing was emitted with; ``DisposeTargetMachine`` frees it. Raises as :meth:`machine`."""
        target, message = c_void_p(), c_void_p()
        if self.GetTargetFromTriple(triple.encode(), byref(target), byref(message)):
            raise LLVMError(self.take(message.value))
        host = self.host() if not options.cpu else {"cpu": options.cpu, "features": ""}
        made: int = self.CreateTargetMachine(
            target,
            triple.encode(),
            host["cpu"].encode(),
            host["features"].encode(),
            options.level,
            _RELOCATION_PIC,
            _CODE_MODELS[options.code_model],
        )
        if not made:
            raise LLVMError(f"no target machine for {options.cpu or 'this CPU'}")
        return made

    def print_pass_names(self) -> bool:
        """Prints the passes on standard output; false where this build of LLVM hides the functions for it."""
        try:
            out = self._handle["_ZN4llvm4outsEv"]
            listing = self._handle["_ZN4llvm11PassBuilder14printPassNamesERNS_11raw_ostreamE"]
            flush = self._handle["_ZN4llvm11raw_ostream14flush_nonemptyEv"]
        except AttributeError:
            return False
        out.restype, out.argtypes = c_void_p, ()
        listing.restype, listing.argtypes = None, (c_void_p, c_void_p)
        flush.restype, flush.argtypes = None, (c_void_p,)
        stream = out()
        listing(None, stream)
        flush(stream)
        return True


def setter_of(option: str) -> str:
    """The function of libLLVM that sets an option of the pass builder."""
    return "PassBuilderOptionsSet" + "".join(part.capitalize() for part in option.split("_"))
