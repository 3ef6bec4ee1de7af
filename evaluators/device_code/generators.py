"""Device IR in a compile worker: one kernel kept, and a target's code, by the LLVM in use or else by llvmlite's.

Loaded by compile workers only. May not execute what it makes; LLVM may end the process at any call. Every module gets a
target machine of its own: that of SPIR-V keeps what it has seen of one module, and ends the process at another.
"""

from __future__ import annotations

from typing import Any, Protocol

from tuner.evaluators.host.llvm import Module
from tuner.evaluators.host.llvm_library import Library, LLVMError, MachineOptions

__all__ = ["DeviceModule", "Generator", "LlvmliteGenerator", "make_generator"]

_FUNCTION_INDEX = 0xFFFFFFFF
_FOR_PASSES = (b"flatten", b"noipa", b"nooutline")
_FLUSHES = b"denormal_fpenv"
_FLUSHES_BEFORE, _FLUSHED = b"denormal-fp-math-f32", b"preserve-sign,preserve-sign"
_LEVEL = 3
_ANY = "generic"


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


class Generator(Protocol):
    """Makes code of optimised modules, which change.

    Attributes:
        name: for people and records.
    """

    name: str

    def machine(self, triple: str, cpu: str) -> int:
        """What passes ask about costs; 0 for none."""
        ...

    def assembly(self, module: DeviceModule, triple: str, cpu: str) -> str:
        """Assembly text; raises ``LLVMError`` where the code generator refuses."""
        ...

    def object_code(self, module: DeviceModule, triple: str, cpu: str) -> bytes:
        """The target's binary form; raises as :meth:`assembly`."""
        ...


def make_generator(library: Library, target: str) -> Generator:
    """The best one for a target as LLVM spells it, ``NVPTX`` or ``SPIRV``.

    Raises:
        ImportError: this LLVM was built without the target, and llvmlite is not installed.
    """
    return LibraryGenerator(library) if library.add_target(target) else LlvmliteGenerator()


class LibraryGenerator:
    """Code from the LLVM that also runs the passes, which it tells what things cost on the target."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self.name = f"LLVM {library.version}"

    def machine(self, triple: str, cpu: str) -> int:
        """A target machine."""
        return self._library.machine(MachineOptions(cpu=cpu or _ANY, level=_LEVEL), triple)

    def assembly(self, module: DeviceModule, triple: str, cpu: str) -> str:
        """See :class:`Generator`."""
        return self._emit(module, triple, cpu, assembly=True).rstrip(b"\0").decode("utf-8", "replace")

    def object_code(self, module: DeviceModule, triple: str, cpu: str) -> bytes:
        """See :class:`Generator`."""
        return self._emit(module, triple, cpu, assembly=False)

    def _emit(self, module: DeviceModule, triple: str, cpu: str, *, assembly: bool) -> bytes:
        module.verify()
        machine = self._library.fresh_machine(MachineOptions(cpu=cpu or _ANY, level=_LEVEL), triple)
        try:
            return module.emit(machine, assembly=assembly)
        finally:
            self._library.DisposeTargetMachine(machine)


class LlvmliteGenerator:
    """Code from llvmlite's LLVM, which is another than the one that wrote the IR and may be older.

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

    def machine(self, triple: str, cpu: str) -> int:
        """0: passes run without knowing the target's costs."""
        return 0

    def assembly(self, module: DeviceModule, triple: str, cpu: str) -> str:
        """See :class:`Generator`."""
        text: str = self._target(triple, cpu).emit_assembly(self._read(module))
        return text

    def object_code(self, module: DeviceModule, triple: str, cpu: str) -> bytes:
        """See :class:`Generator`."""
        code: bytes = self._target(triple, cpu).emit_object(self._read(module))
        return code

    def _read(self, module: DeviceModule) -> Any:
        module.verify()
        try:
            module.write_for_older()
            taken = self._binding.parse_bitcode(module.bitcode())
            taken.verify()
        except RuntimeError as error:
            raise LLVMError(f"{self.name} does not read the optimised IR: {_line(error)}") from None
        return taken

    def _target(self, triple: str, cpu: str) -> Any:
        try:
            target = self._binding.Target.from_triple(triple)
            return target.create_target_machine(cpu=cpu, opt=_LEVEL)
        except RuntimeError as error:
            raise LLVMError(f"{self.name} has no {cpu or triple}: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
