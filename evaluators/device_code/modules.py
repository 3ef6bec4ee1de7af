"""Device IR in a compile worker: one kernel kept, and written so that an older LLVM reads it.

Loaded by compile workers only. May not execute what it makes; LLVM may end the process at any call.
"""

from __future__ import annotations

from tuner.evaluators.host.llvm import Module

__all__ = ["DeviceModule"]

_FUNCTION_INDEX = 0xFFFFFFFF
_FOR_PASSES = (b"flatten", b"noipa", b"nooutline")
_FLUSHES = b"denormal_fpenv"
_FLUSHES_BEFORE, _FLUSHED = b"denormal-fp-math-f32", b"preserve-sign,preserve-sign"


class DeviceModule(Module):
    """One module of device code; see :class:`tuner.evaluators.host.llvm.Module`."""

    def names(self) -> list[str]:
        """All functions with a body, the ones that nobody outside sees among them."""
        return [self.name(f) for f in self.functions() if not self._lib.IsDeclaration(f)]

    def undefined(self) -> list[str]:
        """Functions that are called and have no body, but LLVM's own."""
        lib = self._lib
        found = [f for f in self.functions() if lib.IsDeclaration(f) and lib.GetFirstUse(f)]
        return [n for n in (self.name(f) for f in found) if not n.startswith("llvm.")]

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
