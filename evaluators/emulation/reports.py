"""What an emulated launch found, as words for people. Reads a report that the candidate's process wrote: every number
in it may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from tuner.core.types import Status, Task
from tuner.evaluators.emulation.launch import MOST_ARRAYS, MOST_STATICS, SharedVariable
from tuner.evaluators.workloads import Workload

__all__ = ["Finding", "Report", "read_report"]


class Finding(IntEnum):
    """Kinds of findings; the runtime's header has the same."""

    NONE = 0
    RACE = 1
    OUT_OF_BOUNDS = 2
    UNINITIALISED = 3
    READ_ONLY = 4
    DIVERGED = 5
    WARP_ABSENT = 6
    NOT_IN_MASK = 7
    MASKS_DIFFER = 8
    OVERFLOW = 9
    INDEX = 10
    MISALIGNED = 11
    DIVISION = 12
    SHIFT = 13
    ASSERTION = 14
    NO_MEMORY = 15
    STOPPED = 16
    BAD_WIDTH = 17


_FINDING, _LINE, _BLOCK, _THREAD, _REGION, _OFFSET, _SIZE, _ACCESS = 0, 1, 2, 5, 8, 9, 10, 11
_OTHER_LINE, _OTHER_ACCESS, _OTHER_BLOCK, _OTHER_THREAD, _VALUE, _MORE = 12, 13, 14, 17, 20, 21
_FAR_BYTES = 1 << 40
_VERBS = ("reads", "writes", "updates")
_CRASHES = (Finding.OUT_OF_BOUNDS, Finding.INDEX, Finding.MISALIGNED, Finding.ASSERTION, Finding.STOPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finding: the status that the trial gets, one line for people, and plain JSON."""

    status: Status
    message: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    words: Sequence[int]
    task: Task
    workload: Workload
    statics: Sequence[SharedVariable]

    def who(self, block: int, thread: int, other_than: int | None = None) -> str:
        blocks, threads = self.three(block), self.three(thread)
        if other_than is not None and blocks == self.three(other_than):
            return f"thread {_place(threads)}"
        return f"thread {_place(threads)} of block {_place(blocks)}"

    def three(self, at: int) -> list[int]:
        return [int(w) for w in self.words[at : at + 3]]

    def where(self) -> str:
        """The memory that was touched: an element of an argument or a byte of shared memory."""
        number, offset = self.words[_REGION], _signed(self.words[_OFFSET])
        arrays = [a for a in self.task.arguments if a.is_array]
        if number < len(arrays):
            argument = arrays[number]
            array = self.workload.arrays[argument.name]
            index = offset // array.itemsize
            if 0 <= index < array.size:
                place = ", ".join(str(int(i)) for i in np.unravel_index(index, array.shape))
                return f"{argument.name}[{place}]"
            if abs(offset) > _FAR_BYTES:
                return "memory far from every array (a null pointer?)"
            return f"{argument.name}[{index}] of {array.size} elements"
        if MOST_ARRAYS <= number < MOST_ARRAYS + len(self.statics):
            variable = self.statics[number - MOST_ARRAYS]
            return f"shared {variable.name}, byte {offset} of {variable.size_bytes}"
        if number == MOST_ARRAYS + MOST_STATICS:
            return f"dynamic shared memory, byte {offset}"
        return "memory"


def read_report(
    words: Sequence[int], task: Task, workload: Workload, statics: Sequence[SharedVariable]
) -> Report | None:
    """What a report says; ``None`` where nothing was found.

    Args:
        words: the report.
        task: the user's, for names.
        workload: for shapes.
        statics: the candidate's shared variables.
    """
    if words[_FINDING] == 0:
        return None
    try:
        finding = Finding(words[_FINDING])
    except ValueError:
        return Report(
            status=Status.REFUSED, message="the report of the emulation was tampered with", detail={}
        )
    context = _Context(words=words, task=task, workload=workload, statics=statics)
    text = _TEXTS[finding](context)
    line = int(words[_LINE])
    name = task.kernel.variant.files[0].name
    message = f"{name}:{line}: {text}" if 0 < line < 1 << 20 else text
    status = Status.CRASHED if finding in _CRASHES else Status.WRONG_RESULT
    if finding is Finding.NO_MEMORY:
        status = Status.OUT_OF_RESOURCES
    detail = {
        "workload": workload.name,
        "finding": finding.name.lower(),
        "line": line,
        "block": context.three(_BLOCK),
        "thread": context.three(_THREAD),
    }
    return Report(status=status, message=message, detail=detail)


def _race(c: _Context) -> str:
    this, that = (_VERBS[min(int(c.words[at]), 2)] for at in (_ACCESS, _OTHER_ACCESS))
    same_block = c.three(_BLOCK) == c.three(_OTHER_BLOCK)
    line = int(c.words[_OTHER_LINE])
    other = c.who(_OTHER_BLOCK, _OTHER_THREAD, _BLOCK)
    cure = "with no barrier between" if same_block else "and nothing orders the two blocks"
    return (
        f"data race: {c.who(_BLOCK, _THREAD)} {this} {c.where()}, which {other} {that} at line {line} {cure}"
    )


def _bounds(c: _Context) -> str:
    verb = _VERBS[min(int(c.words[_ACCESS]), 2)]
    dynamic = c.words[_REGION] == MOST_ARRAYS + MOST_STATICS
    limit = ", outside of launch.shared_bytes," if dynamic else ""
    return f"out of bounds: {c.who(_BLOCK, _THREAD)} {verb} {c.where()} ({int(c.words[_SIZE])} bytes){limit}"


def _uninitialised(c: _Context) -> str:
    shared = c.words[_REGION] >= MOST_ARRAYS
    why = (
        "which no thread of its block has written yet (is a barrier missing?)" if shared else "never written"
    )
    return f"uninitialised: {c.who(_BLOCK, _THREAD)} reads {c.where()}, {why}"


def _read_only(c: _Context) -> str:
    return f"{c.who(_BLOCK, _THREAD)} writes to {c.where()}, an input"


def _diverged(c: _Context) -> str:
    line = int(c.words[_OTHER_LINE])
    if not line:
        return f"barrier in divergent code: {c.who(_BLOCK, _THREAD)} waits, other threads have ended"
    other = c.who(_OTHER_BLOCK, _OTHER_THREAD, _BLOCK)
    return f"barrier in divergent code: {c.who(_BLOCK, _THREAD)} waits here, {other} at line {line}"


def _absent(c: _Context) -> str:
    other = c.who(_OTHER_BLOCK, _OTHER_THREAD, _BLOCK)
    mask = int(c.words[_VALUE]) & 0xFFFFFFFF
    return (
        f"{c.who(_BLOCK, _THREAD)} waits in a warp operation with the mask {mask:#010x} for {other}, "
        f"which is at line {int(c.words[_OTHER_LINE])} and does not come"
    )


def _not_in_mask(c: _Context) -> str:
    mask = int(c.words[_VALUE]) & 0xFFFFFFFF
    return f"{c.who(_BLOCK, _THREAD)} calls a warp operation whose mask {mask:#010x} leaves it out"


def _width(c: _Context) -> str:
    return (
        f"{c.who(_BLOCK, _THREAD)} calls a shuffle with the width {_signed(c.words[_VALUE])}: "
        "only 1, 2, 4, 8, 16 and 32 are defined"
    )


def _masks(c: _Context) -> str:
    own, other = (int(c.words[at]) & 0xFFFFFFFF for at in (_VALUE, _MORE))
    return (
        f"threads of a warp call different warp operations: {c.who(_BLOCK, _THREAD)} with the mask {own:#010x}, "
        f"{c.who(_OTHER_BLOCK, _OTHER_THREAD, _BLOCK)} with {other:#010x} at line {int(c.words[_OTHER_LINE])}"
    )


def _misaligned(c: _Context) -> str:
    return (
        f"misaligned: {c.who(_BLOCK, _THREAD)} uses {int(c.words[_VALUE]):#x} as the address of a wider type"
    )


def _index(c: _Context) -> str:
    return f"out of bounds: {c.who(_BLOCK, _THREAD)} uses the index {_signed(c.words[_VALUE])} of an array"


def _plain(text: str) -> Any:
    return lambda c: f"{text} in {c.who(_BLOCK, _THREAD)}"


_TEXTS = {
    Finding.RACE: _race,
    Finding.OUT_OF_BOUNDS: _bounds,
    Finding.UNINITIALISED: _uninitialised,
    Finding.READ_ONLY: _read_only,
    Finding.DIVERGED: _diverged,
    Finding.WARP_ABSENT: _absent,
    Finding.NOT_IN_MASK: _not_in_mask,
    Finding.MASKS_DIFFER: _masks,
    Finding.OVERFLOW: _plain("signed integer overflow"),
    Finding.INDEX: _index,
    Finding.MISALIGNED: _misaligned,
    Finding.DIVISION: _plain("division by zero or overflow in a division"),
    Finding.SHIFT: _plain("a shift by as many bits as the type has, or more,"),
    Finding.ASSERTION: _plain("assertion failed"),
    Finding.NO_MEMORY: lambda c: "no memory for the emulation",
    Finding.STOPPED: _plain("__trap()"),
    Finding.BAD_WIDTH: _width,
}


def _place(three: Sequence[int]) -> str:
    return f"({', '.join(map(str, three))})"


def _signed(word: int) -> int:
    word = int(word)
    return word - (1 << 64) if word >= 1 << 63 else word
