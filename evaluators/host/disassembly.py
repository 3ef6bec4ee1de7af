"""Machine code as instructions, by libLLVM in a process of its own: ``python -m`` this module with the library's path.

The process reads an address and bytes and writes lengths and texts; it runs none of them. Standard library only but for
the toolchain.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import MachineError
from tuner.evaluators.host.toolchain import find_toolchain

__all__ = ["Instruction", "disassemble"]

_TRIPLE = b"x86_64-unknown-linux-gnu"
_TIMEOUT_S = 60.0
_PARTS = ("TargetInfo", "TargetMC", "Disassembler")
_TEXT_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One instruction.

    Attributes:
        at: its first byte, counted from the start of the code.
        code: its bytes.
        text: in AT&T syntax; branches with their displacement.
    """

    at: int
    code: bytes
    text: str


def disassemble(code: bytes) -> list[Instruction]:
    """The instructions of a function from its first byte on; it ends before what is none.

    Raises:
        MachineError: there is no LLVM, or it does not answer.
    """
    command = [sys.executable, "-m", __name__, find_toolchain().library]
    try:
        done = subprocess.run(command, input=code, capture_output=True, timeout=_TIMEOUT_S, check=True)
        parts = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise MachineError(f"LLVM cannot read machine code here: {error}", "run tuner doctor") from None
    return [Instruction(at=at, code=code[at : at + size], text=text) for at, size, text in parts]


def _serve(library: str, code: bytes) -> list[tuple[int, int, str]]:
    llvm = ctypes.CDLL(library)
    for part in _PARTS:
        getattr(llvm, f"LLVMInitializeX86{part}")()
    create, step = llvm.LLVMCreateDisasm, llvm.LLVMDisasmInstruction
    create.restype = ctypes.c_void_p
    create.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    step.restype = ctypes.c_size_t
    word = ctypes.c_uint64
    step.argtypes = [ctypes.c_void_p, ctypes.c_char_p, word, word, ctypes.c_char_p, ctypes.c_size_t]
    context = create(_TRIPLE, None, 0, None, None)
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(code):
        # No instruction is longer than 15 bytes.
        window = code[at : at + 16]
        size = step(context, window, len(window), at, text, _TEXT_BYTES)
        if not size:
            break
        found.append((at, size, text.value.decode("ascii", "replace").strip().replace("\t", " ")))
        at += size
    return found


def main(arguments: Sequence[str]) -> None:
    """Reads code from standard input and writes its instructions as JSON."""
    json.dump(_serve(arguments[0], sys.stdin.buffer.read()), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
