"""Optimised IR to a target's code: by the LLVM in use where that was built for the target, else by llvmlite's.

Loaded by compile workers only. May not execute what it makes; LLVM may end the process at any call. Every module gets a
target machine of its own: that of SPIR-V keeps what it has seen of one module, and ends the process at another.
"""

from __future__ import annotations

from typing import Any, Protocol

from tuner.evaluators.device_code.modules import DeviceModule
from tuner.evaluators.host.llvm_library import Library, LLVMError, MachineOptions

__all__ = ["Generator", "LibraryGenerator", "LlvmliteGenerator", "make_generator"]

_LEVEL = 3
_ANY = "generic"


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
