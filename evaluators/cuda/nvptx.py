"""Device IR in a compile worker: one kernel kept, libdevice's questions answered, optimised IR to PTX.

Loaded by :mod:`tuner.evaluators.cuda.pass_worker` only. May not execute what it makes; LLVM may end the process at any
call. PTX comes from the LLVM in use where that was built for NVPTX, else from llvmlite's.

Source: NVVM IR specification and libdevice user's guide (``__nvvm_reflect``); LLVM, user guide for NVPTX.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_size_t, string_at
from typing import Any

from tuner.evaluators.host.llvm import Library, LLVMError, MachineOptions, Module, PassOptions

__all__ = ["MARK", "DeviceModule", "Generator", "LibraryGenerator", "LlvmliteGenerator"]

TRIPLE = "nvptx64-nvidia-cuda"
MARK = "tuner_names"
"""The namespace of the variable that the front end adds: it holds the kernel's address."""

_REFLECT = "__nvvm_reflect"
_LEVEL = 3
_MARKED = f"_ZN{len(MARK)}{MARK}5entryE"
_FUNCTION_INDEX = 0xFFFFFFFF
_FOR_PASSES = (b"flatten", b"noipa", b"nooutline")
_FLUSHES = b"denormal_fpenv"
_FLUSHES_BEFORE, _FLUSHED = b"denormal-fp-math-f32", b"preserve-sign,preserve-sign"


class DeviceModule(Module):
    """One module of device code; see :class:`tuner.evaluators.host.llvm.Module`."""

    def names(self) -> list[str]:
        """All functions with a body, the ones that nobody outside sees among them."""
        return [self.name(f) for f in self.functions() if not self._lib.IsDeclaration(f)]

    def take_entry(self) -> str:
        """The symbol of the kernel whose address the front end's mark holds; the mark is gone afterwards.

        Raises:
            LLVMError: there is no mark, or it holds no kernel.
        """
        mark = self._lib.GetNamedGlobal(self._module, _MARKED.encode())
        value = self._lib.GetInitializer(mark) if mark else None
        if value and self._lib.IsAFunction(value) and not self._lib.IsDeclaration(value):
            # Nothing else would take it out: what the host may read stays.
            self._lib.DeleteGlobal(mark)
            return self.name(value)
        raise LLVMError("the entry is no kernel that clang has compiled")

    def keep_only(self, symbol: str) -> None:
        """Hides everything but one kernel, and drops what it does not need."""
        self.run_passes(f"internalize<preserve-gv={symbol}>,globaldce", 0, PassOptions())

    def resolve_reflection(self, answers: Mapping[str, int]) -> None:
        """Puts numbers in the place of libdevice's questions about the target; an unknown question is answered 0.

        Unanswered, they would stand in the way of every pass: only the code generator for NVPTX answers them.
        """
        lib = self._lib
        function = lib.GetNamedFunction(self._module, _REFLECT.encode())
        while function and (use := lib.GetFirstUse(function)):
            call = lib.GetUser(use)
            answer = answers.get(self._text_of(lib.GetOperand(call, 0)), 0)
            lib.ReplaceAllUsesWith(call, lib.ConstInt(lib.TypeOf(call), answer, 0))
            lib.InstructionEraseFromParent(call)
        self.run_passes("globaldce", 0, PassOptions())

    def undefined(self) -> list[str]:
        """Functions that are called and have no body, but LLVM's own and the ones that the driver provides."""
        lib = self._lib
        found = [f for f in self.functions() if lib.IsDeclaration(f) and lib.GetFirstUse(f)]
        names = (self.name(f) for f in found)
        return [n for n in names if not n.startswith("llvm.") and n not in _PROVIDED]

    def write_for_older(self) -> None:
        """Takes out attributes that LLVM 22 and older cannot read; what they say to a code generator is said as there.

        The front end writes "subnormals are zero" for single precision only.
        """
        lib = self._lib
        for name in _FOR_PASSES:
            self._drop(lib.GetEnumAttributeKindForName(name, len(name)))
        kind = lib.GetEnumAttributeKindForName(_FLUSHES, len(_FLUSHES))
        attribute = lib.CreateStringAttribute(
            self._context, _FLUSHES_BEFORE, len(_FLUSHES_BEFORE), _FLUSHED, len(_FLUSHED)
        )
        for function in self._drop(kind):
            lib.AddAttributeAtIndex(function, _FUNCTION_INDEX, attribute)

    def _drop(self, kind: int) -> list[int]:
        """The functions that had an attribute, which they lose; 0 is one that this LLVM does not have."""
        if not kind:
            return []
        lib = self._lib
        found = [f for f in self.functions() if lib.GetEnumAttributeAtIndex(f, _FUNCTION_INDEX, kind)]
        for function in found:
            lib.RemoveEnumAttributeAtIndex(function, _FUNCTION_INDEX, kind)
        return found

    def _text_of(self, value: int) -> str:
        if not self._lib.IsAGlobalVariable(value):
            return ""
        size = c_size_t()
        start = self._lib.GetAsString(self._lib.GetInitializer(value), byref(size))
        return string_at(start, size.value).rstrip(b"\0").decode("ascii", "replace")


_PROVIDED = ("vprintf", "malloc", "free", "__assertfail")


class LibraryGenerator:
    """PTX from the LLVM that also runs the passes, which it tells what things cost on the target."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.name = f"LLVM {library.version}"

    def machine(self, arch: str) -> int:
        """What passes ask about costs."""
        return self._library.machine(MachineOptions(cpu=arch, level=_LEVEL), TRIPLE)

    def ptx(self, module: DeviceModule, arch: str) -> str:
        """PTX of an optimised module, which changes.

        Raises:
            LLVMError: the code generator refuses.
        """
        module.verify()
        made = module.emit(self.machine(arch), assembly=True)
        return made.rstrip(b"\0").decode("utf-8", "replace")


class LlvmliteGenerator:
    """PTX from llvmlite's LLVM, which is another than the one that wrote the IR and may be older.

    Raises:
        ImportError: llvmlite is not installed.
    """

    def __init__(self) -> None:
        import llvmlite
        from llvmlite import binding

        self._binding: Any = binding
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        version = ".".join(map(str, binding.llvm_version_info))
        self.name = f"llvmlite {llvmlite.__version__} (LLVM {version})"
        self._machines: dict[str, Any] = {}

    def machine(self, arch: str) -> int:
        """None: passes run without knowing the target's costs."""
        return 0

    def ptx(self, module: DeviceModule, arch: str) -> str:
        """PTX of an optimised module.

        Raises:
            LLVMError: the other LLVM does not read the IR, or has no such architecture.
        """
        module.verify()
        try:
            module.write_for_older()
            taken = self._binding.parse_bitcode(module.bitcode())
            taken.verify()
        except RuntimeError as error:
            raise LLVMError(f"{self.name} does not read the optimised IR: {_line(error)}") from None
        text: str = self._target(arch).emit_assembly(taken)
        return text

    def _target(self, arch: str) -> Any:
        if arch not in self._machines:
            target = self._binding.Target.from_triple(TRIPLE)
            try:
                self._machines[arch] = target.create_target_machine(cpu=arch, opt=_LEVEL)
            except RuntimeError as error:
                raise LLVMError(f"{self.name} has no {arch}: {_line(error)}") from None
        return self._machines[arch]


Generator = LibraryGenerator | LlvmliteGenerator


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
