"""Static features of optimised IR: what is computed how deep in loops, how wide, and how memory is walked.

Imports the standard library and :mod:`tuner.evaluators.host.llvm` only, as every compile worker loads it. May not
change a module. One pass over the instructions, so that it stays under 2 ms for a kernel of a hundred lines.

| name | what | unit |
|---|---|---|
| ``ir_CLASS_count`` | instructions of a class (loads, stores, float_operations, ...) | instructions |
| ``ir_dK_CLASS_count`` | the same at loop depth K from 1 to 3; 3 is three and deeper | instructions |
| ``ir_vector_width_bits`` | the widest vector | bits |
| ``ir_dK_vector_bits`` | mean width of the values computed at that depth | bits |
| ``ir_walk_KIND_count`` | loads and stores in loops by how the address follows the loop | instructions |
| ``ir_loops_count``, ``ir_loop_depth`` | natural loops; the deepest | loops |
| ``ir_blocks_count`` | basic blocks | blocks |
| ``ir_loop_block_instructions`` | of the largest block at the greatest depth | instructions |
| ``ir_loop_carried_count`` | phis of a loop's header, the most | values |
| ``ir_live_values`` | values alive at once in that largest block, the most | values |

An address walks by ``unit`` where an induction value is the index, ``strided`` where that is multiplied or shifted
first, ``gathered`` where the index is loaded, ``fixed`` where it does not change.

Source: opcodes and calls of llvm-c/Core.h; natural loops after Aho, Lam, Sethi and Ullman, Compilers (2006), 9.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tuner.evaluators.host.llvm import Module

__all__ = ["LIMIT", "loop_depths", "module_features"]

LIMIT = 4000
"""Instructions that are looked at; counts of larger modules are scaled up."""

_DEEPEST = 3
_CHASED = 5
_PHI, _LOAD, _STORE, _CALL, _ADDRESS = 44, 27, 28, 45, 29
_INTEGER = frozenset((8, 10, 12, 14, 15, 17, 18, 20, 21, 22, 23, 24, 25))
_FLOAT = frozenset((9, 11, 13, 16, 19, 66))
_SCALING = frozenset((12, 20))
_TWO_SIDED = frozenset((8, 12, 24))
_SUMS = frozenset((8, 10, 24, 30, 31, 32))
_COUNTED = {
    _LOAD: "loads",
    _STORE: "stores",
    _ADDRESS: "address_computations",
    _PHI: "phis",
    46: "selects",
    2: "branches",
    3: "branches",
    70: "branches",
    71: "branches",
    42: "comparisons",
    43: "comparisons",
    50: "shuffles",
    51: "shuffles",
    52: "shuffles",
    **dict.fromkeys(range(30, 42), "conversions"),
    **dict.fromkeys(_INTEGER, "integer_operations"),
    **dict.fromkeys(_FLOAT, "float_operations"),
}
_CLASSES = sorted({*_COUNTED.values(), "calls", "intrinsics", "fused_multiply_adds"})
_BY_DEPTH = (
    "loads",
    "stores",
    "float_operations",
    "fused_multiply_adds",
    "integer_operations",
    "branches",
    "shuffles",
    "calls",
    "intrinsics",
    "conversions",
)
_WALKS = ("unit", "strided", "gathered", "fixed")

Line = tuple[int, int, int, int, str]
"""An instruction: its handle, opcode, bits of its value, lanes, and the class of a call."""


def module_features(module: Module) -> dict[str, float]:
    """Every feature of the table above."""
    found = _Found()
    for function in module.functions():
        blocks = module.blocks(function)
        if not blocks:
            continue
        if found.total >= LIMIT:
            found.total += sum(1 for _ in module.instructions(function))
            continue
        depths, loops, headers = loop_depths([b.successors for b in blocks])
        found.loops += loops
        found.blocks += len(blocks)
        lines = [
            [(*line[:4], _call_class(line[4]) if line[1] == _CALL else "") for line in b.lines]
            for b in blocks
        ]
        found.take(module, lines, depths, headers)
    return found.features()


class _Found:
    """Sums over the functions of a module."""

    def __init__(self) -> None:
        self.total = self.looked = self.loops = self.blocks = self.depth = 0
        self.widest = self.vectors = self.carried = self.live = self.largest = 0
        self.counts: Counter[str] = Counter()
        self.deep: Counter[tuple[int, str]] = Counter()
        self.bits: Counter[int] = Counter()
        self.valued: Counter[int] = Counter()
        self.walks: Counter[str] = Counter()

    def take(
        self, module: Module, lines: Sequence[Sequence[Line]], depths: Sequence[int], headers: Sequence[int]
    ) -> None:
        """One function's blocks."""
        opcodes = {line[0]: line[1] for block in lines for line in block}
        headed = set(headers)
        deepest, hottest = max(depths, default=0), -1
        for number, block in enumerate(lines):
            depth = min(depths[number], _DEEPEST)
            self._count(block, depth)
            if depth:
                self._walk(module, block, opcodes)
            if number in headed:
                self.carried = max(self.carried, sum(line[1] == _PHI for line in block))
            if depths[number] == deepest and (hottest < 0 or len(block) > len(lines[hottest])):
                hottest = number
        if deepest > self.depth or (deepest == self.depth and len(lines[hottest]) > self.largest):
            self.depth, self.largest = deepest, len(lines[hottest])
            self.live = _most_live(module, lines[hottest][:512], opcodes)

    def _count(self, block: Sequence[Line], depth: int) -> None:
        self.total += len(block)
        if self.looked >= LIMIT:
            return
        self.looked += len(block)
        names: Counter[str] = Counter()
        for _, opcode, bits, lanes, call in block:
            name = call or _COUNTED.get(opcode)
            if name:
                names[name] += 1
            if lanes > 1:
                self.vectors += 1
                self.widest = max(self.widest, bits)
            if depth and bits > 1:
                self.bits[depth] += bits
                self.valued[depth] += 1
        self.counts.update(names)
        if depth:
            for name, count in names.items():
                self.deep[depth, name] += count

    def _walk(self, module: Module, block: Sequence[Line], opcodes: dict[int, int]) -> None:
        for handle, opcode, _, _, _ in block:
            if opcode in (_LOAD, _STORE):
                self.walks[_walk_of(module, module.operand(handle, opcode == _STORE), opcodes)] += 1

    def features(self) -> dict[str, float]:
        """By name."""
        scale = self.total / self.looked if self.looked else 1.0
        made = {f"ir_{name}_count": round(self.counts[name] * scale, 3) for name in _CLASSES}
        for depth in range(1, _DEEPEST + 1):
            for name in _BY_DEPTH:
                made[f"ir_d{depth}_{name}_count"] = round(self.deep[depth, name] * scale, 3)
            made[f"ir_d{depth}_vector_bits"] = round(self.bits[depth] / max(1, self.valued[depth]), 3)
        made |= {f"ir_walk_{name}_count": float(self.walks[name]) for name in _WALKS}
        return {
            **made,
            "ir_vector_instructions_count": round(self.vectors * scale, 3),
            "ir_instructions_count": float(self.total),
            "ir_vector_width_bits": float(self.widest),
            "ir_loops_count": float(self.loops),
            "ir_loop_depth": float(self.depth),
            "ir_blocks_count": float(self.blocks),
            "ir_loop_block_instructions": float(self.largest if self.depth else 0),
            "ir_loop_carried_count": float(self.carried),
            "ir_live_values": float(self.live),
        }


def _call_class(callee: str) -> str:
    if callee.startswith(("llvm.fma.", "llvm.fmuladd.")):
        return "fused_multiply_adds"
    return "intrinsics" if callee.startswith("llvm.") else "calls"


def _walk_of(module: Module, pointer: int, opcodes: dict[int, int]) -> str:
    """How an address follows its loop, from what its last index is made of."""
    opcode = opcodes.get(pointer)
    if opcode == _PHI:
        return "unit"
    if opcode != _ADDRESS:
        return "gathered" if opcode == _LOAD else "fixed"
    value, found = module.last_operand(pointer), "unit"
    for _ in range(_CHASED):
        opcode = opcodes.get(value)
        if opcode == _PHI:
            return found
        if opcode == _LOAD:
            return "gathered"
        if opcode in _SCALING:
            found = "strided"
        elif opcode is None:
            # A constant offset from another address, or an index from outside.
            value = module.operand(pointer, 0)
            return _walk_of(module, value, opcodes) if opcodes.get(value) in (_ADDRESS, _PHI) else "fixed"
        elif opcode not in _SUMS:
            return "strided"
        first = module.operand(value, 0)
        # Unoptimised code may have the constant first.
        value = first if first in opcodes or opcode not in _TWO_SIDED else module.operand(value, 1)
    return found


def _most_live(module: Module, block: Sequence[Line], opcodes: dict[int, int]) -> int:
    """The most values that are alive at once, from the block's end to its start; its own inputs count."""
    alive: set[int] = set()
    most = 0
    for handle, opcode, _, _, _ in reversed(block):
        alive.discard(handle)
        if opcode != _PHI:
            alive.update(o for o in module.operands(handle) if o in opcodes)
        most = max(most, len(alive))
    return most


def loop_depths(successors: Sequence[Sequence[int]]) -> tuple[list[int], int, list[int]]:
    """Loop depth of each block, how many loops there are, and their headers.

    A loop is what reaches an edge back to a block on the way to it (exact for reducible graphs).

    Args:
        successors: of each block by number; block 0 is the entry.
    """
    count = len(successors)
    before: list[list[int]] = [[] for _ in range(count)]
    backs: dict[int, list[int]] = {}
    state = [0] * count
    stack = [(0, iter(successors[0]))] if count else []
    if count:
        state[0] = 1
    while stack:
        block, rest = stack[-1]
        for following in rest:
            before[following].append(block)
            if state[following] == 1:
                backs.setdefault(following, []).append(block)
            elif state[following] == 0:
                state[following] = 1
                stack.append((following, iter(successors[following])))
                break
        else:
            state[block] = 2
            stack.pop()
    depths = [0] * count
    for header, ends in backs.items():
        body, todo = {header}, list(ends)
        while todo:
            block = todo.pop()
            if block not in body:
                body.add(block)
                todo += before[block]
        for block in body:
            depths[block] += 1
    return depths, len(backs), list(backs)
