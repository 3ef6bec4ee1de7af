"""How a function of an executable, which is called without the dynamic linker, can be stood before all the same.

Its first bytes become a jump; what they were is moved elsewhere, and the function is called there. This module finds
out whether and how, from the code alone; the jump is made in the application's own process before its ``main``. What
cannot be moved for certain is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.evaluators.host.disassembly import Instruction, disassemble

__all__ = ["Head", "movable_head"]

JUMP_BYTES = 5
"""A jump to anywhere within 2 GiB."""

_HINT = "build it as a shared library that the program is linked with"
_PREFIXES = b"\x2e\x3e\xf2"
_RELATIVE = re.compile(r"(-?(?:0x)?[0-9a-f]+)?\(%rip\)")
_SHORT_ONLY = range(0xE0, 0xE4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first instructions of a function as they run elsewhere.

    Attributes:
        size: bytes that they take in the function.
        moved: their bytes elsewhere.
        targets: what is relative in them: where four bytes stand, where the instruction that holds them ends, and the
            address that is meant, counted from the start of the function.
    """

    size: int
    moved: bytes
    targets: tuple[tuple[int, int, int], ...]


def movable_head(code: bytes, name: str) -> Head:
    """The instructions that a jump at the start of a function would write over.

    Args:
        code: the whole function.
        name: for messages.

    Raises:
        UsageError: they cannot be moved, or something jumps between them.
        MachineError: there is no LLVM to read the code with.
    """
    found = disassemble(code)
    if sum(len(i.code) for i in found) != len(code):
        raise _refusal(name, "LLVM cannot read all of its code")
    head: list[Instruction] = []
    for instruction in found:
        if sum(len(i.code) for i in head) >= JUMP_BYTES:
            break
        head.append(instruction)
    size = sum(len(i.code) for i in head)
    if size < JUMP_BYTES:
        raise _refusal(name, "it is too short")
    for instruction in found:
        if instruction.text.startswith("jmpq *"):
            raise _refusal(name, "it jumps through a table")
        target = _target(instruction)
        called = instruction.text.startswith("call")
        if target is not None and (0 < target < size or (target == 0 and not called)):
            raise _refusal(name, "it jumps to its own start")
    return _moved(head, size, name)


def _moved(head: Sequence[Instruction], size: int, name: str) -> Head:
    moved = b""
    targets: list[tuple[int, int, int]] = []
    for instruction in head:
        target = _target(instruction)
        if target is not None:
            moved += _long_form(instruction, name)
            targets.append((len(moved) - 4, len(moved), target))
            continue
        relative = _RELATIVE.search(instruction.text)
        if relative:
            value = int(relative[1] or "0", 0)
            place = instruction.code.find(value.to_bytes(4, "little", signed=True), 1)
            if place < 0 or instruction.code.count(value.to_bytes(4, "little", signed=True)) != 1:
                raise _refusal(name, f"its first bytes hold `{instruction.text}`")
            end = instruction.at + len(instruction.code)
            targets.append((len(moved) + place, len(moved) + len(instruction.code), end + value))
        moved += instruction.code
    return Head(size=size, moved=moved, targets=tuple(targets))


def _operation(instruction: Instruction) -> bytes:
    return instruction.code.lstrip(_PREFIXES)


def _target(instruction: Instruction) -> int | None:
    """Where a direct branch or call leads, counted from the start of the function; ``None`` for anything else."""
    code = _operation(instruction)
    end = instruction.at + len(instruction.code)
    if len(code) == 2 and (0x70 <= code[0] <= 0x7F or code[0] == 0xEB or code[0] in _SHORT_ONLY):
        return end + int.from_bytes(code[1:], "little", signed=True)
    if len(code) == 5 and code[0] in (0xE8, 0xE9):
        return end + int.from_bytes(code[1:], "little", signed=True)
    if len(code) == 6 and code[0] == 0x0F and 0x80 <= code[1] <= 0x8F:
        return end + int.from_bytes(code[2:], "little", signed=True)
    return None


def _long_form(instruction: Instruction, name: str) -> bytes:
    """The branch with a displacement of four bytes, left zero."""
    code = _operation(instruction)
    if code[0] in _SHORT_ONLY:
        raise _refusal(name, f"its first bytes hold `{instruction.text}`")
    if len(code) == 2:
        start = b"\xe9" if code[0] == 0xEB else bytes([0x0F, code[0] + 0x10])
        return start + bytes(4)
    return code[:-4] + bytes(4)


def _refusal(name: str, why: str) -> UsageError:
    return UsageError(
        f"{name} is in the executable itself, and its first bytes cannot be moved: {why}", _HINT
    )
