"""One set of buffers mirrored in a file: one piece of device memory, each buffer between guard zones, or memory at
addresses that were recorded (:mod:`tuner.evaluators.cuda.placing`).

Lays out, fills and reads; it starts nothing. What outputs have to be never gets here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import is_structured, separate_members
from tuner.core.types import Argument, ArgumentRole, Parcel, Task
from tuner.evaluators.cuda.parcels import Layout, in_call_order, members_of
from tuner.evaluators.cuda.placing import Stretch, place
from tuner.evaluators.distributions import dtype_of
from tuner.evaluators.host.bundles import POISON, SharedBytes
from tuner.evaluators.workloads import Workload

__all__ = ["GUARD_BYTES", "Region", "Slab", "slab_bytes", "widens"]

Array = NDArray[Any]

GUARD_BYTES = 16 << 10
"""Poisoned bytes before the first buffer, between two, and after the last, at least."""

_ALIGN = 256
_MOST_SHIFT = 32
_WIDER: Mapping[str, str] = {"float32": "float64", "complex64": "complex128"}
"""What a kernel built with ``double`` for ``float`` takes in the place of each type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One buffer: where it lies in the slab, and what it holds."""

    name: str
    role: ArgumentRole
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Of the buffer itself."""
        return math.prod(self.shape) * self.dtype.itemsize


class Slab(SharedBytes):
    """The buffers of one workload in a memory file that a device worker copies to the device and back.

    Args:
        task: whose arguments.
        workload: the initial values.
        shift: varies the buffers' addresses, in steps of 256 bytes.
        wide: everything that is float32 as float64, for the reference.
    """

    def __init__(self, task: Task, workload: Workload, *, shift: int = 0, wide: bool = False) -> None:
        self._task = task
        self._workload = workload
        self._wide = wide
        self.regions, self.stretches, self.size = _lay_out(task, workload, shift=shift, wide=wide)
        self._places = {r.name: r.offset for r in self.regions}
        super().__init__("slab", self.size)

    def fill(self, byte: int = POISON) -> None:
        """Initial values where there are such, ``byte`` in outputs and scratch, poison around them."""
        self.bytes[:] = POISON
        for region in self.regions:
            view = self.bytes[region.offset : region.offset + region.size_bytes]
            if region.role in (ArgumentRole.INPUT, ArgumentRole.INOUT):
                view.view(region.dtype)[:] = self._workload.arrays[region.name].reshape(-1)
            else:
                view[:] = byte

    def outputs(self) -> dict[str, Array]:
        """Views of what the kernel gives back, by name; they change with the next run."""
        found: dict[str, Array] = {}
        for region in self.regions:
            if region.role in (ArgumentRole.OUTPUT, ArgumentRole.INOUT):
                found |= separate_members(region.name, self._view(region))
        return found

    def damage(self) -> str:
        """What was written outside of outputs, one line; empty where nothing was."""
        at = 0
        before = "the first buffer"
        for region in (*self.regions, None):
            end = self.size if region is None else region.offset
            zone = self.bytes[at:end]
            if not _all_poison(zone):
                first = int(np.flatnonzero(zone != POISON)[0])
                if at and first < zone.size // 2:
                    return f"out of bounds: writes byte {first + 1} past the end of {before}"
                if region is not None:
                    last = int(np.flatnonzero(zone != POISON)[-1])
                    return f"out of bounds: writes byte {zone.size - last} before the start of {region.name}"
                return f"out of bounds: writes byte {first + 1} past the end of {before}"
            if region is None:
                break
            if region.role is ArgumentRole.INPUT and not self._kept(region):
                return f"writes to input {region.name}"
            at, before = region.offset + region.size_bytes, region.name
        return ""

    def parameters(self, layouts: Mapping[str, Layout]) -> list[dict[str, Any]]:
        """What the kernel gets in call order.

        ``{"at": offset}`` for a buffer, ``{"hex": bytes}`` for a value; a structure has also the places in it that hold
        the address of a byte of the slab: ``"pointers": [[place, offset], …]``.

        Args:
            layouts: of the structures, by the parameters' names.
        """
        made: list[dict[str, Any]] = []
        for argument in in_call_order(self._task):
            if isinstance(argument, Parcel):
                made.append(self._packed(argument, layouts[argument.name]))
            elif argument.is_array and argument.passing != "value":
                made.append({"at": self._places[argument.name]})
            else:
                made.append({"hex": self._bytes(argument).hex()})
        return made

    def _packed(self, parcel: Parcel, layout: Layout) -> dict[str, Any]:
        data, pointers = bytearray(layout.size), []
        for argument in members_of(self._task, parcel):
            leaf = layout.leaves[argument.name]
            if argument.is_array and argument.passing != "inside":
                pointers.append([leaf.offset, self._places[argument.name]])
            else:
                data[leaf.offset : leaf.offset + leaf.size] = self._bytes(argument)
        return {"hex": data.hex(), "pointers": pointers}

    def _bytes(self, argument: Argument) -> bytes:
        """Of a number, or of an array that is passed by value."""
        if argument.passing == "value":
            return self._workload.arrays[argument.name].tobytes()
        if argument.is_array:
            array = self._workload.arrays[argument.name]
            return array.astype(_dtype(array.dtype, self._wide)).tobytes()
        dtype = _dtype(dtype_of(argument), self._wide)
        return np.array(self._workload.scalars[argument.name], dtype).tobytes()

    def variables(self) -> list[tuple[str, int, int]]:
        """Name, offset and size of every buffer that is copied into a variable of its name."""
        names = {a.name for a in self._task.arguments if a.in_variable}
        return [(r.name, r.offset, r.size_bytes) for r in self.regions if r.name in names]

    def spans(self, *roles: ArgumentRole) -> list[tuple[int, int]]:
        """Offset and size of every buffer with one of these roles."""
        return [(r.offset, r.size_bytes) for r in self.regions if r.role in roles]

    def _view(self, region: Region) -> Array:
        data = self.bytes[region.offset : region.offset + region.size_bytes]
        return data.view(region.dtype).reshape(region.shape)

    def _kept(self, region: Region) -> bool:
        given = self._workload.arrays[region.name]
        if given.dtype != region.dtype:
            given = given.astype(region.dtype)
        raw = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
        return bool(np.array_equal(self.bytes[region.offset : region.offset + region.size_bytes], raw))


def widens(task: Task) -> bool:
    """Whether a kernel built with ``double`` for ``float`` takes other arguments."""
    kinds = [argument.dtype for argument in task.arguments]
    return not any(map(is_structured, kinds)) and any(kind in _WIDER for kind in kinds)


def slab_bytes(task: Task, workload: Workload) -> int:
    """Size of a workload's slab, without making it."""
    return _lay_out(task, workload, shift=0, wide=False)[2]


def _lay_out(
    task: Task, workload: Workload, *, shift: int, wide: bool
) -> tuple[tuple[Region, ...], tuple[Stretch, ...], int]:
    """Regions by offset, the stretches of the slab that lie at addresses of their own, the slab's size."""
    arrays = [a for a in task.arguments if a.is_array and a.passing not in ("value", "inside")]
    placed = place(
        task, {a.name: workload.arrays[a.name].nbytes for a in arrays}, workload.problem, GUARD_BYTES
    )
    regions = []
    at = GUARD_BYTES + shift % _MOST_SHIFT * _ALIGN
    for argument in arrays:
        array = workload.arrays[argument.name]
        region = Region(
            name=argument.name,
            role=argument.role,
            offset=_up(at, _ALIGN) if placed is None else placed.offsets[argument.name],
            dtype=_dtype(array.dtype, wide),
            shape=array.shape,
        )
        regions.append(region)
        at = region.offset + region.size_bytes + GUARD_BYTES
    if placed is not None:
        return tuple(sorted(regions, key=lambda r: r.offset)), placed.stretches, placed.size
    return tuple(regions), (), _up(at, 4096)


def _dtype(dtype: np.dtype[Any], wide: bool) -> np.dtype[Any]:
    return np.dtype(_WIDER[dtype.name]) if wide and dtype.name in _WIDER else dtype


def _all_poison(zone: NDArray[np.uint8]) -> bool:
    return bool((zone == POISON).all())


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
