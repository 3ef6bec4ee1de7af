"""What an emulated launch found, as words for people. Reads a report that the candidate's process wrote: every number
in it may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    @property
    def who(self) -> str:
        return f"thread {_place(self.three(_THREAD))} of block {_place(self.three(_BLOCK))}"

    @property
    def other(self) -> str:
        thread = f"thread {_place(self.three(_OTHER_THREAD))}"
        return thread if self.same_block else f"{thread} of block {_place(self.three(_OTHER_BLOCK))}"

    @property
    def same_block(self) -> bool:
        return self.three(_BLOCK) == self.three(_OTHER_BLOCK)

    def three(self, at: int) -> list[int]:
        return [int(w) for w in self.words[at : at + 3]]

    def number(self, at: int) -> int:
        return int(self.words[at])

    def verb(self, at: int) -> str:
        return _VERBS[min(self.number(at), 2)]

    @property
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
    text = _text(finding, context)
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
    cure = "with no barrier between" if c.same_block else "and nothing orders the two blocks"
    other = f"{c.other} {c.verb(_OTHER_ACCESS)} at line {c.number(_OTHER_LINE)}"
    return f"data race: {c.who} {c.verb(_ACCESS)} {c.where}, which {other} {cure}"


def _bounds(c: _Context) -> str:
    limit = ", outside of launch.shared_bytes," if c.words[_REGION] == MOST_ARRAYS + MOST_STATICS else ""
    return f"out of bounds: {c.who} {c.verb(_ACCESS)} {c.where} ({c.number(_SIZE)} bytes){limit}"


def _uninitialised(c: _Context) -> str:
    shared = "which no thread of its block has written yet (is a barrier missing?)"
    return f"uninitialised: {c.who} reads {c.where}, {shared if c.words[_REGION] >= MOST_ARRAYS else 'never written'}"


def _diverged(c: _Context) -> str:
    line = c.number(_OTHER_LINE)
    others = f"waits here, {c.other} at line {line}" if line else "waits, other threads have ended"
    return f"barrier in divergent code: {c.who} {others}"


# Where it is no text, what makes one.
_TEXTS: dict[Finding, str | Callable[[_Context], str]] = {
    Finding.RACE: _race,
    Finding.OUT_OF_BOUNDS: _bounds,
    Finding.UNINITIALISED: _uninitialised,
    Finding.READ_ONLY: "{c.who} writes to {c.where}, an input",
    Finding.DIVERGED: _diverged,
    Finding.WARP_ABSENT: (
        "{c.who} waits in a warp operation with the mask {mask:#010x} for {c.other}, "
        "which is at line {line} and does not come"
    ),
    Finding.NOT_IN_MASK: "{c.who} calls a warp operation whose mask {mask:#010x} leaves it out",
    Finding.MASKS_DIFFER: (
        "threads of a warp call different warp operations: {c.who} with the mask {mask:#010x}, "
        "{c.other} with {other_mask:#010x} at line {line}"
    ),
    Finding.OVERFLOW: "signed integer overflow in {c.who}",
    Finding.INDEX: "out of bounds: {c.who} uses the index {signed} of an array",
    Finding.MISALIGNED: "misaligned: {c.who} uses {value:#x} as the address of a wider type",
    Finding.DIVISION: "division by zero or overflow in a division in {c.who}",
    Finding.SHIFT: "a shift by as many bits as the type has, or more, in {c.who}",
    Finding.ASSERTION: "assertion failed in {c.who}",
    Finding.NO_MEMORY: "no memory for the emulation",
    Finding.STOPPED: "__trap() in {c.who}",
    Finding.BAD_WIDTH: "{c.who} calls a shuffle with the width {signed}: only 1, 2, 4, 8, 16 and 32 are defined",
}


def _text(finding: Finding, c: _Context) -> str:
    text, value = _TEXTS[finding], c.number(_VALUE)
    if not isinstance(text, str):
        return text(c)
    masks = {"mask": value & 0xFFFFFFFF, "other_mask": c.number(_MORE) & 0xFFFFFFFF}
    return text.format(c=c, line=c.number(_OTHER_LINE), value=value, signed=_signed(value), **masks)


def _place(three: Sequence[int]) -> str:
    return f"({', '.join(map(str, three))})"


def _signed(word: int) -> int:
    word = int(word)
    return word - (1 << 64) if word >= 1 << 63 else word
