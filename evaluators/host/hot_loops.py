"""The innermost loops of a function's machine code as text, for people and models who ask what the compiler made.

Which loop takes most of the time is not known without running it: the one that lies in most others is taken for it, and
of equals the longest. May not run or change code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import MachineError
from tuner.evaluators.host.disassembly import Instruction, disassemble
from tuner.evaluators.host.objects import Object

__all__ = ["innermost_loops"]

MOST_LINES = 60
_MOST_LOOPS = 3
_JUMP = re.compile(r"j[a-z]+ (-?\d+|-?0x[0-9a-f]+)$")
_WIDTHS = {"zmm": 512, "ymm": 256, "xmm": 128}
_SCALAR = re.compile(r"v?(?:add|sub|mul|div|sqrt|min|max|mov|fn?m(?:add|sub)\d*)s[sd]\b")


@dataclass(frozen=True, slots=True)
class _Loop:
    """Instructions from a backward jump's target to the jump, by number, and in how many others they lie."""

    first: int
    last: int
    depth: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def innermost_loops(code: bytes) -> str:
    """The innermost loops of an object's code, the deepest first, at most 60 lines; empty where there is none.

    Args:
        code: a relocatable object for x86-64.
    """
    try:
        functions = [disassemble(text) for text in Object(code).functions()]
    except (MachineError, ValueError):
        return ""
    found = [(loop, lines) for lines in functions for loop in _innermost(lines)]
    found.sort(key=lambda pair: (-pair[0].depth, -pair[0].length))
    texts: list[str] = []
    for loop, lines in found[:_MOST_LOOPS]:
        shown = _shown(loop, lines)
        if texts and len(texts) + len(shown) > MOST_LINES:
            break
        texts += shown
    return "\n".join(texts[:MOST_LINES])


def _innermost(instructions: Sequence[Instruction]) -> list[_Loop]:
    """Loops without a loop in them; the depth counts those around, itself included."""
    numbers = {one.at: number for number, one in enumerate(instructions)}
    spans: dict[int, int] = {}
    for number, one in enumerate(instructions):
        jump = _JUMP.match(one.text)
        target = None if jump is None else numbers.get(one.at + len(one.code) + int(jump[1], 0))
        if target is not None and target <= number:
            # Several jumps back to one place are one loop.
            spans[target] = max(number, spans.get(target, number))
    loops = []
    for first, last in spans.items():
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans.items()):
            depth = sum(a <= first and last <= b for a, b in spans.items())
            loops.append(_Loop(first, last, depth))
    return loops


def _shown(loop: _Loop, instructions: Sequence[Instruction]) -> list[str]:
    own = instructions[loop.first : loop.last + 1]
    lines = [f"    {one.text}" for one in own]
    if len(lines) > MOST_LINES - 2:
        half = (MOST_LINES - 3) // 2
        lines = [*lines[:half], f"    ... {len(lines) - 2 * half} more ...", *lines[-half:]]
    return [f"loop at depth {loop.depth}, {loop.length} instructions{_widths(own)}:", *lines]


def _widths(instructions: Sequence[Instruction]) -> str:
    """How many instructions use vector registers of each width, and how many do one number at a time in them."""
    counts: dict[str, int] = {}
    for one in instructions:
        if _SCALAR.match(one.text):
            counts["scalar floating-point"] = counts.get("scalar floating-point", 0) + 1
            continue
        wide = next((width for name, width in _WIDTHS.items() if f"%{name}" in one.text), 0)
        if wide:
            key = f"{wide}-bit vector"
            counts[key] = counts.get(key, 0) + 1
    return "".join(f", {count} {kind}" for kind, count in counts.items())
