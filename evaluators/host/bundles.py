"""Workloads in memory files: sealed inputs, outputs shared with one child, and what the outputs have to be.

Expected values stay in the tuner's private memory; a child gets descriptors of the two memory files only.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import WIDER, numpy_dtype, separate_members
from tuner.core.types import Kernel, Problem, Task
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.host.harness import Signature
from tuner.evaluators.host.layout import PAGE, Buffer, BundleLayout, EntryLayout, Region, lay_out
from tuner.evaluators.host.sealed import memory_file, seal
from tuner.evaluators.python_reference import RETURN
from tuner.evaluators.workloads import Workload

__all__ = [
    "LARGE_BYTES",
    "POISON",
    "Bundle",
    "OutputMemory",
    "SharedBytes",
    "equal_bits",
    "holds",
    "make_bundle",
    "memory_spans",
    "set_bytes",
    "variable_bytes",
]

Array = NDArray[Any]

POISON = 0xFF
"""Outputs are filled with this byte before they are computed: NaN for every floating type, -1 for integers."""

_SPARES = 2
LARGE_BYTES = 1 << 30
"""Where the buffers of one call take more, few sets of them are in memory at once."""


class SharedBytes:
    """Memory that another process maps, too.

    Args:
        name: of the file in memory, for those who look at a process.
        size: of it.
        flags: of the file, beside that a program which is started does not get it.
    """

    def __init__(self, name: str, size: int, flags: int = 0) -> None:
        self.descriptor = os.memfd_create(name, os.MFD_CLOEXEC | flags)
        os.ftruncate(self.descriptor, size)
        self._map = mmap.mmap(self.descriptor, size)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)

    def close(self) -> None:
        """Gives the memory back; views that are left keep it alive. Safe to call twice."""
        if self.descriptor < 0:
            return
        os.close(self.descriptor)
        self.descriptor = -1
        self.bytes = np.empty(0, np.uint8)
        try:
            self._map.close()
        except BufferError:
            # A view is still in use somewhere; the map goes with it.
            pass


class OutputMemory(SharedBytes):
    """The outputs of all entries of a bundle, in memory that one child shares."""

    def __init__(self, size: int) -> None:
        super().__init__("outputs", max(size, PAGE), os.MFD_ALLOW_SEALING)

    @property
    def is_large(self) -> bool:
        """Whether it is not kept for nothing."""
        return self.bytes.size > LARGE_BYTES

    def release(self) -> None:
        """Gives the pages back, also where a child has them mapped; what is read next is zero."""
        self._map.madvise(mmap.MADV_REMOVE)

    def poison(self, byte: int = POISON) -> None:
        """Fills everything."""
        self.bytes[:] = byte

    def poison_entry(self, entry: EntryLayout) -> None:
        """Fills the pages of one entry's outputs; what is restored before a call is left."""
        for region in entry.regions:
            if region.buffer.role in ("output", "return"):
                span = region.span
                self.bytes[span.offset : span.offset + span.size_bytes] = POISON

    def array(self, region: Region, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        """A view of one output; it changes when the child writes."""
        data = self.bytes[region.offset : region.offset + region.buffer.size_bytes]
        return data.view(dtype).reshape(shape)

    def stray(self, region: Region) -> int | None:
        """The first byte outside of a poisoned buffer, but on its pages, that was written.

        Returns:
            Negative: bytes before the first one; from 0 on: bytes after the last one; ``None``: none.
        """
        span = region.span
        before = self.bytes[span.offset : region.offset]
        if before.size and (before != POISON).any():
            return int(np.flatnonzero(before != POISON)[-1]) - before.size
        after = self.bytes[region.offset + region.buffer.size_bytes : span.offset + span.size_bytes]
        if after.size and (after != POISON).any():
            return int(np.flatnonzero(after != POISON)[0])
        return None


@dataclass(slots=True, kw_only=True)
class Bundle:
    """Several entries that one child runs.

    Attributes:
        key: tells bundles apart in caches.
        layout: of all entries; several may share one set of inputs (``EntryLayout.inputs``).
        labels: for messages, by set of inputs.
        timed: which of the task's problems a set of inputs belongs to.
        signature: of the kernel that runs on it (the widened one for the float64 reference).
        scalars: by-value arguments by set of inputs.
        sizes: the problem's sizes by set of inputs.
        outputs: dtype and shape of each output, by set of inputs and name.
        inputs: descriptor of the sealed inputs.
        expected: by set of inputs and name; empty until known.
        call_s: rough seconds of the baseline's call, by set of inputs.
        closed: whether :meth:`close` was called; children that have it mapped are not disturbed.
    """

    key: str
    layout: BundleLayout
    labels: tuple[str, ...]
    timed: tuple[int | None, ...]
    signature: Signature
    scalars: tuple[Mapping[str, int | float], ...]
    sizes: tuple[Mapping[str, int], ...]
    outputs: tuple[Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]], ...]
    inputs: int
    expected: list[dict[str, Expected]] = field(default_factory=list)
    call_s: list[float] = field(default_factory=list)
    closed: bool = False
    _spare: list[OutputMemory] = field(default_factory=list)

    @property
    def copies(self) -> int:
        """Buffers that are restored before each call."""
        return sum(r.golden is not None for r in self.layout.entries[0].regions)

    @property
    def variables(self) -> int:
        """Buffers that the candidate finds by variables."""
        return len(self.signature.variables)

    def row(self, number: int, base: int, variables: Mapping[str, int]) -> list[int]:
        """The words, copies and moved pages of one entry's call.

        Args:
            number: of the entry.
            base: where the bundle lies.
            variables: where the pages of the candidate's variables begin; of pointers, where they are.
        """
        entry = self.layout.entries[number]
        regions = {r.buffer.name: r for r in entry.regions}
        scalars = self.scalars[entry.inputs]
        words: list[int] = []
        for name, dtype, is_array in self.signature.passed:
            words += [base + regions[name].at] if is_array else _bits(scalars[name], dtype)
        if self.signature.returns is not None:
            words.append(base + regions[RETURN].at)
        for region in entry.regions:
            if region.golden is not None:
                words += [base + region.at, base + region.golden.at, region.buffer.size_bytes]
        for name, place in variables.items():
            if name in scalars:
                words += [place, int(scalars[name]), 0, 0]
            elif name in self.signature.pointers:
                words += [place, base + regions[name].at, 0, 0]
            else:
                words += [place, *_shown(regions[name], base)]
        for region in entry.regions:
            if region.buffer.place:
                words += [region.buffer.place - region.skip, *_shown(region, base)]
        return words

    def outputs_of(self, number: int, memory: OutputMemory) -> dict[str, Array]:
        """Views of one entry's outputs; of structures one for each member."""
        entry = self.layout.entries[number]
        kinds = self.outputs[entry.inputs]
        found: dict[str, Array] = {}
        for region in entry.regions:
            name = region.buffer.name
            if name in kinds:
                found |= separate_members(name, memory.array(region, *kinds[name]))
        return found

    def borrow(self) -> OutputMemory:
        """Output memory for one child; its content is what the last one left."""
        return self._spare.pop() if self._spare else OutputMemory(self.layout.output_bytes)

    def give_back(self, memory: OutputMemory) -> None:
        """Takes it back after the child has ended."""
        if memory.is_large:
            memory.release()
        if len(self._spare) < _SPARES and not self.closed:
            self._spare.append(memory)
        else:
            memory.close()

    def close(self) -> None:
        """Gives all memory back; safe to call twice."""
        if self.closed:
            return
        self.closed = True
        os.close(self.inputs)
        for memory in self._spare:
            memory.close()
        self._spare.clear()


def _shown(region: Region, base: int) -> list[int]:
    """What the harness shows elsewhere: the pages of a buffer, and whether they are written."""
    return [base + region.span.at, region.span.size_bytes, int(region.span.writable)]


def holds(values: Array, byte: int) -> NDArray[np.bool_]:
    """Which elements consist of one byte throughout."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if values.itemsize in (1, 2, 4, 8):
        pattern = int.from_bytes(bytes([byte]) * values.itemsize, "little")
        found = flat.view(f"u{values.itemsize}") == pattern
    else:
        found = (flat.view(np.uint8).reshape(values.size, values.itemsize) == byte).all(axis=1)
    mask: NDArray[np.bool_] = found.reshape(values.shape)
    return mask


def equal_bits(one: Array, other: Array) -> NDArray[np.bool_]:
    """Which elements of two arrays of one type and shape hold the same bits."""
    words = np.dtype(f"u{one.itemsize}")
    found: NDArray[np.bool_] = np.ascontiguousarray(one).view(words) == np.ascontiguousarray(other).view(
        words
    )
    return found


def buffers_of(task: Task, workload: Workload, signature: Signature) -> list[Buffer]:
    """The buffers of one call, the returned value's last."""
    roles = {a.name: a.role.value for a in task.arguments}
    places = memory_places(task, workload.problem)
    buffers = []
    for name, dtype, is_array in signature.arguments:
        if is_array:
            item = numpy_dtype(dtype).itemsize
            size = workload.arrays[name].size * item
            variable = name in signature.variables - signature.pointers
            buffers.append(
                Buffer(
                    name=name,
                    role=roles[name],
                    size_bytes=size,
                    variable=variable,
                    place=places.get(name, 0),
                )
            )
    if signature.returns is not None:
        item = np.dtype(signature.returns).itemsize
        buffers.append(Buffer(name=RETURN, role="return", size_bytes=item))
    return buffers


def memory_places(task: Task, problem: Problem) -> dict[str, int]:
    """The address of each piece of recorded memory, by name."""
    return {
        a.name: a.address.integer(problem.sizes)
        for a in task.arguments
        if a.passing == "memory" and a.address is not None
    }


def memory_spans(task: Task) -> list[tuple[int, int]]:
    """Where recorded memory lies in any of a task's problems: first byte and bytes of whole pages, apart."""
    problems = [sizes for problem in task.problems for sizes in (problem.sizes, *problem.held_out)]
    edges = sorted(
        (at // PAGE * PAGE, -(-(at + size) // PAGE) * PAGE)
        for sizes in problems
        for a in task.arguments
        if a.passing == "memory" and a.address is not None and a.shape is not None
        for at, size in [(a.address.integer(sizes), a.shape[0].integer(sizes))]
    )
    found: list[tuple[int, int]] = []
    for begin, end in edges:
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return [(begin, end - begin) for begin, end in found]


def variable_bytes(kernel: Kernel, *, wide: bool) -> dict[str, int]:
    """Bytes of the kernel's variables, in the float64 reference or as they are; 0 of pointers."""
    kinds = {v.name: numpy_dtype(WIDER.get(v.dtype, v.dtype) if wide else v.dtype) for v in kernel.variables}
    return {v.name: v.count * kinds[v.name].itemsize for v in kernel.variables}


def set_bytes(task: Task, workload: Workload) -> int:
    """Bytes that one call's buffers take."""
    return sum(b.size_bytes for b in buffers_of(task, workload, Signature.of(task)))


def make_bundle(
    task: Task,
    workloads: Sequence[Workload],
    placements: Sequence[str],
    *,
    key: str,
    timed: Sequence[int | None] = (),
    shift: int = 0,
    copies: int = 1,
    wide: bool = False,
    align: int = 1,
) -> Bundle:
    """Lays workloads out and seals their inputs.

    Args:
        task: whose arguments.
        workloads: one for each set of inputs.
        placements: as :func:`tuner.evaluators.host.layout.lay_out` takes them.
        key: tells bundles apart.
        timed: which of the task's problems each workload belongs to.
        shift: changes where timed buffers begin within their pages.
        copies: entries for each set of inputs.
        wide: everything in float64, for the reference.
        align: every buffer begins at a multiple of this many bytes.
    """
    narrow = Signature.of(task)
    signature = narrow.widened() if wide else narrow
    layout = lay_out(
        [buffers_of(task, w, signature) for w in workloads],
        placements,
        shift=shift,
        copies=copies,
        align=align,
    )
    dtypes = {name: numpy_dtype(dtype) for name, dtype, is_array in signature.arguments if is_array}
    descriptor = memory_file("inputs")
    os.ftruncate(descriptor, max(layout.input_bytes, PAGE))
    for entry, workload in zip(layout.entries, workloads, strict=False):
        for region in entry.regions:
            if region.buffer.role in ("input", "inout"):
                array = workload.arrays[region.buffer.name].astype(dtypes[region.buffer.name], copy=False)
                offset = region.offset if region.golden is None else region.golden.offset
                _write(descriptor, array, offset)
    seal(descriptor)
    return Bundle(
        key=key,
        layout=layout,
        labels=tuple(w.name for w in workloads),
        timed=tuple(timed) or (None,) * len(workloads),
        signature=signature,
        scalars=tuple(w.scalars for w in workloads),
        sizes=tuple(w.problem.sizes for w in workloads),
        outputs=tuple(_outputs(task, w, signature) for w in workloads),
        inputs=descriptor,
    )


def _outputs(
    task: Task, workload: Workload, signature: Signature
) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    written = {a.name for a in task.arguments if a.is_array and a.role.value in ("output", "inout")}
    found: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        name: (numpy_dtype(dtype), workload.arrays[name].shape)
        for name, dtype, _ in signature.arguments
        if name in written
    }
    if signature.returns is not None:
        found[RETURN] = (np.dtype(signature.returns), ())
    return found


def _write(descriptor: int, array: Array, offset: int) -> None:
    view = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    while len(view):
        count = os.pwrite(descriptor, view, offset)
        view, offset = view[count:], offset + count


def _bits(value: int | float | complex, dtype: str) -> list[int]:
    data = np.array(value, dtype=dtype).tobytes()
    data += bytes(-len(data) % 8)
    return [int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)]
