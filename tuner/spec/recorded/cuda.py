"""Recorded CUDA launches as arguments of a task: typed arrays where the signature tells, bytes where it does not.

Where something in memory points to memory, or two pointers lie in one allocation, everything has to lie where it lay:
such arrays carry their addresses. May not read recordings or run anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.types import Argument, ArgumentRole, Initial
from tuner.recorders.recordings.format import RecordedArgument, Recording
from tuner.spec.reading.signature import Function
from tuner.spec.recorded.by_recording import by_recording
from tuner.spec.yaml_places import View

__all__ = ["check_cuda", "cuda_arguments"]

Part = tuple[int, int, int]
"""Number of a recording's argument, first byte, bytes."""


def check_cuda(name: str, recording: Recording, function: Function, view: View) -> None:
    """The recording is one of this kernel, and can be tuned.

    Raises:
        SpecError: it is not, with the reason.
    """

    def refuse(what: str, hint: str) -> SpecError:
        return view.error(("workload",), f"{name}: {what}", hint)

    if recording.form not in ("source", "image"):
        raise refuse("it holds neither the source nor the image of its module", "record it again")
    if recording.driver == "":
        raise refuse("it does not say where it ran", "record it again")
    taken = len(function.parameters)
    passed = [a for a in recording.arguments if a.kind != "buffer"]
    if len(passed) != taken or passed != list(recording.arguments[:taken]):
        raise refuse(f"{len(passed)} arguments, {function.name} takes {taken}", "record it again")
    for argument, (given, kind) in zip(passed, function.parameters, strict=True):
        known = kind.dtypes and not kind.pointer
        if known and argument.size_bytes != np.dtype(kind.dtypes[0]).itemsize:
            raise refuse(
                f"{given} has {argument.size_bytes} bytes, which are no {kind.base}", "record it again"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """One recording with what each of its pointers reaches before the next one begins."""

    recording: Recording
    count: int

    @property
    def pinned(self) -> bool:
        """Whether everything has to lie where it lay."""
        pointed = [a.root for a in self._passed if a.kind == "pointer"]
        memory = self.recording.arguments[self.count :]
        named = any(m.name for m in memory)
        return (
            self.recording.inner
            or named
            or len(set(pointed)) < len(pointed)
            or len(set(pointed)) < len(memory)
        )

    @property
    def _passed(self) -> tuple[RecordedArgument, ...]:
        return self.recording.arguments[: self.count]

    def cuts(self, memory: int) -> list[int]:
        """Where pointers lie in a memory, in order, with its end."""
        points = {a.offset for a in self._passed if a.kind == "pointer" and a.root == memory}
        return [*sorted(points), self.recording.arguments[memory].size_bytes]

    def part(self, parameter: int) -> Part:
        """What a pointer reaches."""
        pointer = self.recording.arguments[parameter]
        end = min(cut for cut in self.cuts(pointer.root) if cut > pointer.offset)
        return pointer.root, pointer.offset, end - pointer.offset

    def alone(self, parameter: int) -> bool:
        """Whether a pointer is the only way into its memory that is seen."""
        root = self.recording.arguments[parameter].root
        return (
            not self.recording.inner and sum(a.root == root for a in self._passed if a.kind == "pointer") == 1
        )

    def first(self, parameter: int) -> bool:
        """Whether no earlier pointer points to the same byte."""
        return self.part(parameter) not in [
            self.part(i) for i in range(parameter) if self.recording.arguments[i].kind == "pointer"
        ]

    def rest(self, items: Sequence[int]) -> list[tuple[str, Part]]:
        """Memory that belongs to no pointer's array, by name: its beginning, ends that are no whole items."""
        found: list[tuple[str, Part]] = []
        for number, memory in enumerate(self.recording.arguments[self.count :], self.count):
            label = memory.name or f"memory{number - self.count}"
            cuts = self.cuts(number)
            if cuts[0]:
                found.append((label, (number, 0, cuts[0])))
            for parameter in range(self.count):
                if self.recording.arguments[parameter].kind != "pointer" or not self.first(parameter):
                    continue
                root, offset, size = self.part(parameter)
                left = size % items[parameter]
                if root == number and left:
                    found.append((f"{label}_end{parameter}", (number, offset + size - left, left)))
        return found


def cuda_arguments(
    parameters: Sequence[Sequence[Any]], names: Sequence[str], recordings: Sequence[Recording]
) -> tuple[Argument, ...]:
    """Arguments in call order, then memory that no parameter points to.

    Args:
        parameters: name, dtype (``uint8`` where the source does not tell) and whether it points to constants.
        names: of the recordings' files.
        recordings: one for each.

    Raises:
        SpecError: recordings that reach memory in different ways.
    """
    launches = [_Launch(recording=r, count=len(parameters)) for r in recordings]
    pinned = any(launch.pinned for launch in launches)
    items = [np.dtype(dtype).itemsize for _, dtype, _ in parameters]
    made = []
    for number, (name, dtype, constant) in enumerate(parameters):
        given = [r.arguments[number] for r in recordings]
        kinds = {a.kind for a in given}
        if len(kinds) > 1:
            raise _apart(f"{name} is a pointer in one recording and a null pointer in another")
        if kinds == {"pointer"} and all(launch.first(number) for launch in launches):
            made.append(_array(name, dtype, constant, number, names, launches, pinned))
        elif kinds == {"scalar"} and all(_is_number(a, dtype) for a in given):
            values = [np.frombuffer(a.value, dtype)[0].item() for a in given]
            made.append(Argument(name=name, dtype=dtype, value=by_recording(values)))
        else:
            parts = [(number, 0, a.size_bytes) for a in given]
            made.append(_bytes(name, parts, names, passing="value"))
    if pinned:
        made += _memory(items, names, launches)
    return tuple(made)


def _is_number(argument: RecordedArgument, dtype: str) -> bool:
    """A number that an expression can hold: finite, and no negative zero."""
    if len(argument.value) != np.dtype(dtype).itemsize:
        return False
    number = np.frombuffer(argument.value, dtype)[0]
    return np.dtype(dtype).kind != "f" or bool(
        np.isfinite(number) and not (number == 0 and np.signbit(number))
    )


def _array(
    name: str,
    dtype: str,
    constant: bool,
    number: int,
    names: Sequence[str],
    launches: Sequence[_Launch],
    pinned: bool,
) -> Argument:
    item = np.dtype(dtype).itemsize
    parts = [launch.part(number) for launch in launches]
    whole = [(root, first, size - size % item) for root, first, size in parts]
    if any(not size for _, _, size in whole):
        raise _apart(f"what {name} points to holds no whole {dtype}")
    places = [
        launch.recording.arguments[root].place + first
        for launch, (root, first, _) in zip(launches, parts, strict=True)
    ]
    kept = constant and (not pinned or all(launch.alone(number) for launch in launches))
    return Argument(
        name=name,
        dtype=dtype,
        shape=(by_recording([size // item for _, _, size in whole]),),
        role=ArgumentRole.INPUT if kept else ArgumentRole.INOUT,
        initial=Initial(kind="recording", options={"paths": tuple(names), "parts": tuple(whole)}),
        address=by_recording(places) if pinned else None,
    )


def _bytes(name: str, parts: Sequence[Part], names: Sequence[str], *, passing: str) -> Argument:
    return Argument(
        name=name,
        dtype="uint8",
        shape=(by_recording([size for _, _, size in parts]),),
        role=ArgumentRole.INPUT if passing == "value" else ArgumentRole.INOUT,
        initial=Initial(kind="recording", options={"paths": tuple(names), "parts": tuple(parts)}),
        passing=passing,
    )


def _memory(items: Sequence[int], names: Sequence[str], launches: Sequence[_Launch]) -> list[Argument]:
    rests = [launch.rest(items) for launch in launches]
    labels = [[label for label, _ in rest] for rest in rests]
    if any(other != labels[0] for other in labels):
        raise _apart("they reach different memory")
    made = []
    for i, label in enumerate(labels[0]):
        parts = [rest[i][1] for rest in rests]
        held = [launch.recording.arguments[part[0]] for launch, part in zip(launches, parts, strict=True)]
        if held[0].name:
            made.append(_bytes(label, parts, names, passing="global"))
            continue
        places = [memory.place + first for memory, (_, first, _) in zip(held, parts, strict=True)]
        plain = _bytes(label, parts, names, passing="memory")
        made.append(replace(plain, address=by_recording(places)))
    return made


def _apart(what: str) -> SpecError:
    return SpecError(f"the recordings cannot be tuned together: {what}", "name them one by one in workload")
