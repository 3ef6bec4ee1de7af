"""The innermost loops of a function's machine code as text, for people and models who ask what the compiler made.

Which loop takes most of the time is not known without running it. What works on the widest vectors is shown first: cold
paths and remainders are scalar as a rule. Of equals the one that lies in most others. May not run or change code.
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
_MOST_NAMED = 6
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
    """The innermost loops of an object's code, with most vector work first; empty where there is none.

    The first are written out, up to 60 lines in all; a line is left of the others.

    Args:
        code: a relocatable object for x86-64.
    """
    try:
        functions = [disassemble(text) for text in Object(code).functions()]
    except (MachineError, ValueError):
        return ""
    found = [(loop, lines[loop.first : loop.last + 1]) for lines in functions for loop in _innermost(lines)]
    found.sort(key=lambda pair: (-_bits(pair[1]), -pair[0].depth, -pair[0].length))
    texts: list[str] = []
    left = len(found)
    for loop, own in found[:_MOST_LOOPS]:
        shown = _shown(loop, own)
        left -= 1
        if len(texts) + len(shown) + min(left, _MOST_NAMED) > MOST_LINES:
            shown = shown[:1]
        texts += shown
    texts += [f"{_head(loop, own)}, not shown" for loop, own in found[_MOST_LOOPS:][:_MOST_NAMED]]
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


def _bits(instructions: Sequence[Instruction]) -> int:
    """Bits that instructions compute with in vector registers, all together; of a single number its own."""
    return sum(map(_width, instructions))


def _width(one: Instruction) -> int:
    scalar = _SCALAR.match(one.text)
    if scalar is not None:
        return 64 if scalar[0].endswith("d") else 32
    return next((width for name, width in _WIDTHS.items() if f"%{name}" in one.text), 0)


def _head(loop: _Loop, instructions: Sequence[Instruction]) -> str:
    return f"loop at depth {loop.depth}, {loop.length} instructions{_widths(instructions)}"


def _shown(loop: _Loop, instructions: Sequence[Instruction]) -> list[str]:
    lines = [f"    {one.text}" for one in instructions]
    most = MOST_LINES - 1 - _MOST_NAMED
    if len(lines) > most:
        half = (most - 1) // 2
        lines = [*lines[:half], f"    ... {len(lines) - 2 * half} more ...", *lines[-half:]]
    return [f"{_head(loop, instructions)}:", *lines]


def _widths(instructions: Sequence[Instruction]) -> str:
    """How many instructions use vector registers of each width, and how many do one number at a time in them."""
    counts: dict[str, int] = {}
    for one in instructions:
        width = _width(one)
        if width:
            kind = f"{width}-bit vector" if width >= min(_WIDTHS.values()) else "scalar floating-point"
            counts[kind] = counts.get(kind, 0) + 1
    return "".join(f", {count} {kind}" for kind, count in counts.items())
