"""Modules of LLVM through its C API: read, link, optimise and emit them.

Imports the standard library only, as every compile worker loads it. May not execute what it makes. LLVM may end
the process at any call: only processes that can be lost use this module.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_size_t, c_void_p
from dataclasses import dataclass, fields

from tuner.evaluators.host.layout import VARIABLE_ALIGN
from tuner.evaluators.host.llvm_library import Library, LLVMError, PassOptions, setter_of
from tuner.evaluators.host.symbols import variable_symbol

__all__ = ["EXTERNAL_LINKAGE", "Block", "Module"]

EXTERNAL_LINKAGE, _HIDDEN = 0, 1
_POINTER_BYTES = 8
_APPENDING_LINKAGE, _AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE = 7, 1, 8, 9
_OF_CPP = re.compile(r"_ZNK?S|_ZS|__gxx_|__cxa_|_Zn|_Zd")
"""The C++ library's names, its operators new and delete and what throws (Itanium C++ ABI, 5.1)."""
_AT_LOAD = re.compile(r"__cxx_global_|_GLOBAL__")
"""Clang's functions that give variables their first values."""
_FUNCTION_INDEX = 0xFFFFFFFF
_RETURN_STATUS = 2
_ASSEMBLY, _OBJECT = 0, 1
_STORE, _CALL = 28, 45
_KIND_BITS = {1: 16, 2: 32, 3: 64, 4: 80, 5: 128, 18: 16}
_KIND_INTEGER, _KIND_POINTER, _KIND_VECTOR = 8, 12, 13
_VARIANT = re.compile(r"_ZGV_LLVM_N(\d+)(v+)_[^()]+\(([^()]+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One basic block.

    Attributes:
        successors: numbers of the blocks that may follow.
        lines: of each instruction its handle, opcode, bits of the value (of the stored one for a store), lanes (1 for
            a scalar), and the callee's name of a call.
    """

    successors: list[int]
    lines: list[tuple[int, int, int, int, str]]


class Module:
    """One module in a context of its own, so that nothing of an earlier job can influence it.

    Args:
        library: who reads it.
        bitcode: the first module's bitcode; further ones are linked in by :meth:`link`.

    Raises:
        LLVMError: when the bitcode cannot be read.
    """

    def __init__(self, library: Library, bitcode: bytes) -> None:
        self._lib = library
        self._context = library.ContextCreate()
        self._types: dict[int, tuple[int, int]] = {}
        self._module: int | None = self._parse(bitcode)

    @classmethod
    def from_text(cls, library: Library, text: str) -> Module:
        """A module from IR text.

        Raises:
            LLVMError: when the text cannot be read.
        """
        made = cls.__new__(cls)
        made._lib, made._context, made._types = library, library.ContextCreate(), {}
        data = text.encode()
        buffer = library.CreateMemoryBufferWithMemoryRangeCopy(data, len(data), b"module")
        module, message = c_void_p(), c_void_p()
        # The buffer belongs to the parser from here on.
        if library.ParseIRInContext(made._context, buffer, byref(module), byref(message)):
            raise LLVMError(library.take(message.value))
        made._module = module.value
        return made

    def _parse(self, bitcode: bytes) -> int:
        buffer = self._lib.CreateMemoryBufferWithMemoryRangeCopy(bitcode, len(bitcode), b"module")
        module = c_void_p()
        failed = self._lib.ParseBitcodeInContext2(self._context, buffer, byref(module))
        self._lib.DisposeMemoryBuffer(buffer)
        if failed or not module.value:
            raise LLVMError("this bitcode cannot be read")
        return module.value

    def close(self) -> None:
        """Frees the module with its context."""
        if self._module is not None:
            self._lib.DisposeModule(self._module)
            self._lib.ContextDispose(self._context)
            self._module = None

    def link(self, bitcode: bytes) -> None:
        """Links a further module in.

        Raises:
            LLVMError: for example when both define the same function.
        """
        if self._lib.LinkModules2(self._module, self._parse(bitcode)):
            raise LLVMError("the source files do not link into one module: is something defined twice?")

    def verify(self) -> None:
        """Raises ``LLVMError`` when the module is malformed."""
        message = c_void_p()
        failed = self._lib.VerifyModule(self._module, _RETURN_STATUS, byref(message))
        text = self._lib.take(message.value)
        if failed:
            raise LLVMError(
                f"malformed module: {text.strip().splitlines()[0] if text.strip() else 'unknown'}"
            )

    @property
    def triple(self) -> str:
        """The target triple that the front end wrote."""
        return bytes(self._lib.GetTarget(self._module)).decode()

    def functions(self) -> Iterator[int]:
        """All functions, declarations too."""
        function = self._lib.GetFirstFunction(self._module)
        while function:
            yield function
            function = self._lib.GetNextFunction(function)

    def variables(self) -> Iterator[int]:
        """All global variables."""
        variable = self._lib.GetFirstGlobal(self._module)
        while variable:
            yield variable
            variable = self._lib.GetNextGlobal(variable)

    def function(self, name: str) -> int:
        """A function by name; 0 for none."""
        return self._lib.GetNamedFunction(self._module, name.encode()) or 0

    def name(self, value: int) -> str:
        """A value's name."""
        size = c_size_t()
        start = self._lib.GetValueName2(value, byref(size))
        return ctypes.string_at(start, size.value).decode("utf-8", "replace")

    def defined(self) -> list[str]:
        """Names of the functions that the object will export."""
        hidden = (_AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE)
        return [
            self.name(f)
            for f in self.functions()
            if not self._lib.IsDeclaration(f) and self._lib.GetLinkage(f) not in hidden
        ]

    def rename(self, old: str, new: str) -> None:
        """Gives a function another symbol."""
        self._lib.SetValueName2(self.function(old), new.encode(), len(new.encode()))

    def import_variable(self, name: str, size_bytes: int) -> None:
        """Leaves a variable to whoever loads the code, under its own name; nothing where the module has none of it.

        It is hidden, so that code reaches it as it does one that is defined here.

        Args:
            name: in the source, with its namespaces; one that only its file sees is found too.
            size_bytes: that there will be; 0 for a pointer.

        Raises:
            LLVMError: it cannot be left to others, or is of another size.
        """
        lib = self._lib
        symbol = variable_symbol([self.name(v) for v in self.variables()], name)
        if symbol is None:
            return
        found, size_bytes = lib.GetNamedGlobal(self._module, symbol.encode()), size_bytes or _POINTER_BYTES
        if lib.IsGlobalConstant(found) or lib.IsThreadLocal(found):
            raise LLVMError(f"the global {name} is constant, or every thread has its own")
        size = lib.ABISizeOfType(lib.GetModuleDataLayout(self._module), lib.GlobalGetValueType(found))
        if size not in (0, size_bytes):
            raise LLVMError(f"the global {name} has {size} bytes in the source, and {size_bytes} in the spec")
        if lib.GetAlignment(found) > VARIABLE_ALIGN:
            raise LLVMError(f"the global {name} begins at a multiple of more than {VARIABLE_ALIGN} bytes")
        lib.SetComdat(found, None)
        lib.SetInitializer(found, None)
        lib.SetLinkage(found, EXTERNAL_LINKAGE)
        lib.SetVisibility(found, _HIDDEN)
        lib.SetValueName2(found, name.encode(), len(name.encode()))

    def drop_load_time(self) -> None:
        """Drops what would run when the code is loaded or left, which nobody runs."""
        for name in (b"llvm.global_ctors", b"llvm.global_dtors"):
            found = self._lib.GetNamedGlobal(self._module, name)
            if found:
                self._lib.DeleteGlobal(found)

    @property
    def needs_cpp_library(self) -> bool:
        """Whether something in it uses the C++ library or its exceptions, as a program around a kernel does."""
        declared = (
            self.name(f) for f in self.functions() if self._lib.IsDeclaration(f) and self._lib.GetFirstUse(f)
        )
        return any(map(_OF_CPP.match, declared))

    def keep_only(self, *symbols: str) -> None:
        """Hides everything but some functions and variables; drops what nothing needs."""
        kept = ";".join(f"preserve-gv={symbol}" for symbol in symbols)
        self.run_passes(f"internalize<{kept}>,globaldce", 0, PassOptions())

    def computed_at_load(self) -> set[str]:
        """Names that what runs when the code is loaded works with."""
        return {
            self.name(operand)
            for function in self.functions()
            if _AT_LOAD.match(self.name(function))
            for instruction in self.instructions(function)
            for operand in self.operands(instruction)
        }

    def has_variable(self, name: str) -> bool:
        """Whether it defines a variable."""
        found = self._lib.GetNamedGlobal(self._module, name.encode())
        return bool(found) and not self._lib.IsDeclaration(found)

    def run_passes(self, pipeline: str, machine: int, options: PassOptions) -> None:
        """Runs a pipeline in the new pass manager's syntax; ``machine`` 0 is none, and passes know no target.

        Raises:
            LLVMError: for a pipeline that LLVM does not understand.
        """
        handle = self._lib.CreatePassBuilderOptions()
        for option in fields(options):
            getattr(self._lib, setter_of(option.name))(handle, int(getattr(options, option.name)))
        error = self._lib.RunPasses(self._module, pipeline.encode(), machine, handle)
        self._lib.DisposePassBuilderOptions(handle)
        if error:
            message = self._lib.GetErrorMessage(error)
            text = ctypes.string_at(message).decode("utf-8", "replace")
            self._lib.DisposeErrorMessage(message)
            raise LLVMError(text)

    def emit(self, machine: int, *, assembly: bool = False) -> bytes:
        """Object code, or assembly text. Changes the module.

        Raises:
            LLVMError: when the code generator refuses.
        """
        message, buffer = c_void_p(), c_void_p()
        kind = _ASSEMBLY if assembly else _OBJECT
        if self._lib.TargetMachineEmitToMemoryBuffer(
            machine, self._module, kind, byref(message), byref(buffer)
        ):
            raise LLVMError(self._lib.take(message.value))
        return self._lib.take_buffer(buffer.value)

    def bitcode(self) -> bytes:
        """The module as bitcode."""
        return self._lib.take_buffer(self._lib.WriteBitcodeToMemoryBuffer(self._module))

    def text(self) -> str:
        """The module as IR text."""
        return self._lib.take(self._lib.PrintModuleToString(self._module))

    def instructions(self, function: int) -> Iterator[int]:
        """All instructions of one function."""
        lib = self._lib
        next_instruction = lib.GetNextInstruction
        block = lib.GetFirstBasicBlock(function)
        while block:
            instruction = lib.GetFirstInstruction(block)
            while instruction:
                yield instruction
                instruction = next_instruction(instruction)
            block = lib.GetNextBasicBlock(block)

    def blocks(self, function: int) -> list[Block]:
        """The basic blocks of a function in order, the entry first; none for a declaration."""
        lib = self._lib
        handles = []
        handle = lib.GetFirstBasicBlock(function)
        while handle:
            handles.append(handle)
            handle = lib.GetNextBasicBlock(handle)
        numbers = {handle: i for i, handle in enumerate(handles)}
        callees: dict[int, str] = {}
        made = []
        for handle in handles:
            last = lib.GetBasicBlockTerminator(handle)
            ways = lib.GetNumSuccessors(last) if last else 0
            successors = [numbers[lib.GetSuccessor(last, i)] for i in range(ways)]
            made.append(Block(successors=successors, lines=self._lines(handle, callees)))
        return made

    def _lines(self, block: int, callees: dict[int, str]) -> list[tuple[int, int, int, int, str]]:
        lib, known = self._lib, self._types
        opcode_of, type_of, following = lib.GetInstructionOpcode, lib.TypeOf, lib.GetNextInstruction
        lines = []
        instruction = lib.GetFirstInstruction(block)
        while instruction:
            opcode, callee = opcode_of(instruction), ""
            if opcode == _CALL:
                value = lib.GetCalledValue(instruction)
                callee = callees.get(value) or callees.setdefault(value, self.name(value))
            type_ = type_of(lib.GetOperand(instruction, 0) if opcode == _STORE else instruction)
            shape = known.get(type_)
            if shape is None:
                shape = known[type_] = self._measure(type_)
            lines.append((instruction, opcode, *shape, callee))
            instruction = following(instruction)
        return lines

    def operand(self, instruction: int, number: int) -> int:
        """An operand's handle."""
        return int(self._lib.GetOperand(instruction, int(number)) or 0)

    def last_operand(self, instruction: int) -> int:
        """The last operand's handle."""
        return int(self._lib.GetOperand(instruction, self._lib.GetNumOperands(instruction) - 1) or 0)

    def operands(self, instruction: int) -> list[int]:
        """All operands' handles."""
        get = self._lib.GetOperand
        return [get(instruction, i) for i in range(self._lib.GetNumOperands(instruction))]

    def _measure(self, type_: int) -> tuple[int, int]:
        kind = self._lib.GetTypeKind(type_)
        if kind == _KIND_VECTOR:
            lanes = self._lib.GetVectorSize(type_)
            return lanes * self._measure(self._lib.GetElementType(type_))[0], lanes
        if kind == _KIND_INTEGER:
            return self._lib.GetIntTypeWidth(type_), 1
        return (64 if kind == _KIND_POINTER else _KIND_BITS.get(kind, 0)), 1

    def offer_vector_variants(self, variants: Mapping[str, str]) -> int:
        """Marks calls of mathematical functions with their vector variants, as ``-fveclib`` makes the optimiser do.

        The C API gives no way to hand a vector library to the optimiser, and LLVM 23 has no global option for it
        either; the ``vector-function-abi-variant`` attribute is what the optimiser itself would add.

        Args:
            variants: by function name, the attribute's text.

        Returns:
            How many calls were marked.
        """
        key, marked = b"vector-function-abi-variant", 0
        declared: dict[str, int] = {}
        for function in list(self.functions()):
            for call in self._calls(function):
                callee = self._lib.GetCalledValue(call)
                text = variants.get(self.name(callee)) if self._lib.IsAFunction(callee) else None
                if not text or self._lib.GetCallSiteStringAttribute(call, _FUNCTION_INDEX, key, len(key)):
                    continue
                self._declare_variants(callee, text, declared)
                attribute = self._lib.CreateStringAttribute(
                    self._context, key, len(key), text.encode(), len(text.encode())
                )
                self._lib.AddCallSiteAttribute(call, _FUNCTION_INDEX, attribute)
                marked += 1
        if declared:
            self._keep(list(declared.values()))
        return marked

    def _calls(self, function: int) -> list[int]:
        return [i for i in self.instructions(function) if self._lib.GetInstructionOpcode(i) == _CALL]

    def _declare_variants(self, callee: int, text: str, declared: dict[str, int]) -> None:
        lib = self._lib
        scalar = lib.GlobalGetValueType(callee)
        count = lib.CountParamTypes(scalar)
        for lanes, shape, name in _VARIANT.findall(text):
            if name in declared or len(shape) != count:
                continue
            parameters = (c_void_p * count)()
            lib.GetParamTypes(scalar, parameters)
            wide = (c_void_p * count)(*(lib.VectorType(p, int(lanes)) for p in parameters))
            result = lib.VectorType(lib.GetReturnType(scalar), int(lanes))
            found = lib.GetNamedFunction(self._module, name.encode())
            declared[name] = found or lib.AddFunction(
                self._module, name.encode(), lib.FunctionType(result, wide, count, 0)
            )

    def _keep(self, functions: Sequence[int]) -> None:
        # Without this the optimiser drops the unused declarations before the vectoriser asks for them.
        lib = self._lib
        name = b"llvm.compiler.used"
        if lib.GetNamedGlobal(self._module, name):
            raise LLVMError("a vector library and __attribute__((used)) cannot be had together")
        pointer = lib.PointerTypeInContext(self._context, 0)
        values = (c_void_p * len(functions))(*functions)
        variable = lib.AddGlobal(self._module, lib.ArrayType2(pointer, len(functions)), name)
        lib.SetInitializer(variable, lib.ConstArray2(pointer, values, len(functions)))
        lib.SetLinkage(variable, _APPENDING_LINKAGE)
        lib.SetSection(variable, b"llvm.metadata")
