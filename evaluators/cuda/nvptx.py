"""Device IR for NVPTX in a compile worker: which kernel is the entry, and libdevice's questions answered.

Loaded by :mod:`tuner.evaluators.cuda.pass_worker` only. May not execute what it makes; LLVM may end the process at any
call.

Source: NVVM IR specification and libdevice user's guide (``__nvvm_reflect``); LLVM, user guide for NVPTX.
"""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import byref, c_size_t, string_at

from tuner.evaluators.device_code.generators import DeviceModule
from tuner.evaluators.host.llvm import EXTERNAL_LINKAGE
from tuner.evaluators.host.llvm_library import LLVMError, PassOptions

__all__ = ["MARK", "TRIPLE", "NvptxModule"]

TRIPLE = "nvptx64-nvidia-cuda"
MARK = "tuner_names"
"""The namespace of the variable that the front end adds: it holds the kernel's address."""

_REFLECT = "__nvvm_reflect"
_MARKED = f"_ZN{len(MARK)}{MARK}{{}}E"
_PROVIDED = ("vprintf", "malloc", "free", "__assertfail")


class NvptxModule(DeviceModule):
    """One module of CUDA device code."""

    def take_entry(self) -> str:
        """The symbol of the kernel whose address the front end's mark holds; the mark is gone afterwards.

        Raises:
            LLVMError: there is no mark, or it holds no kernel.
        """
        value = self._taken("entry")
        if value and self._lib.IsAFunction(value) and not self._lib.IsDeclaration(value):
            return self.name(value)
        raise LLVMError("the entry is no kernel that clang has compiled")

    def take_variable(self, number: int) -> str:
        """The symbol of the variable whose address the mark of a number holds, from now on one that others may find.

        Raises:
            LLVMError: there is no mark, or it holds no variable.
        """
        value = self._taken(f"variable{number}_")
        if value and not self._lib.IsAGlobalVariable(value):
            # Constant memory has addresses of its own.
            value = self._lib.GetOperand(value, 0)
        if not value or not self._lib.IsAGlobalVariable(value):
            raise LLVMError("an argument is to fill what is no variable")
        self._lib.SetLinkage(value, EXTERNAL_LINKAGE)
        return self.name(value)

    def _taken(self, name: str) -> int | None:
        """What a mark holds; the mark is gone afterwards, as what the host may read would stay."""
        mark = self._lib.GetNamedGlobal(self._module, _MARKED.format(f"{len(name)}{name}").encode())
        value: int | None = self._lib.GetInitializer(mark) if mark else None
        if mark:
            self._lib.DeleteGlobal(mark)
        return value

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
