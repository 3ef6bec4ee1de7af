"""Device IR for NVPTX in a compile worker: which kernel is the entry, and libdevice's questions answered.

Loaded by :mod:`tuner.evaluators.cuda.pass_worker` only. May not execute what it makes; LLVM may end the process at any
call.

Source: NVVM IR specification and libdevice user's guide (``__nvvm_reflect``); LLVM, user guide for NVPTX.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_size_t, string_at

from tuner.evaluators.device_code.generators import DeviceModule
from tuner.evaluators.host.llvm_library import LLVMError, PassOptions

__all__ = ["MARK", "TRIPLE", "NvptxModule"]

TRIPLE = "nvptx64-nvidia-cuda"
MARK = "tuner_names"
"""The namespace of the variable that the front end adds: it holds the kernel's address."""

_REFLECT = "__nvvm_reflect"
_MARKED = f"_ZN{len(MARK)}{MARK}5entryE"
_PROVIDED = ("vprintf", "malloc", "free", "__assertfail")


class NvptxModule(DeviceModule):
    """One module of CUDA device code."""

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
        return [name for name in DeviceModule.undefined(self) if name not in _PROVIDED]

    def _text_of(self, value: int) -> str:
        if not self._lib.IsAGlobalVariable(value):
            return ""
        size = c_size_t()
        start = self._lib.GetAsString(self._lib.GetInitializer(value), byref(size))
        return string_at(start, size.value).rstrip(b"\0").decode("ascii", "replace")
