"""Runs a loaded OpenCL program on bundles in one worker. Neither compares outputs nor judges times.

The talk is that of :class:`tuner.evaluators.host.runner.Runner`; what differs is how a worker is made and what it is
told of a call: buffers, scalars, local memory and the geometry.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.errors import MachineError
from tuner.core.types import Status, opaque_bytes
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.process import Child, Ended
from tuner.evaluators.host.runner import Attached, CandidateFailed, Limits, Runner, words_of
from tuner.evaluators.host.sealed import sealed_file
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.process import OpenClZygote
from tuner.spaces.launch import Geometry

__all__ = ["Load", "OpenClRunner"]

# The worker's numbers; that module needs pyopencl, which this process never imports.
ATTACH, RUN = 11, 12
PROGRESS, LOADED, FINISHED, FAILED = 3, 21, 24, 26

_START_S = 60.0
_FIRST_LAUNCH_S = 20.0
_OPAQUE_UIDS = 0x7100_0000
_THREADS = 64
_EXHAUSTED = {
    -4: "a buffer cannot be allocated",
    -5: "out of resources",
    -6: "out of host memory",
    -52: "its arguments do not fit",
    -54: "the work-group size is not possible",
    -55: "the size of a work item is not possible",
    -63: "the global size is not possible",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a worker runs.

    Attributes:
        device: where.
        digest: of the program; runs of equal ones share what the driver compiles at their first launch.
        binary: the program.
        entry: the kernel.
        local: which of its parameters are dynamic local memory.
        geometry: of a launch on a problem of given sizes.
        shared: whether buffers are the tuner's own pages.
    """

    device: Device
    digest: str
    binary: bytes
    entry: str
    local: tuple[int, ...]
    geometry: Callable[[Mapping[str, int]], Geometry]
    shared: bool


class OpenClRunner(Runner):
    """One worker with one candidate loaded.

    Args:
        zygote: to fork from.
        load: the candidate.
        limits: for the worker; threads are those that the driver has.
        seed: for the addresses.

    Raises:
        CandidateFailed: the program cannot be loaded, or (``lost``) no worker can be made.
    """

    def __init__(self, zygote: OpenClZygote, load: Load, *, limits: Limits, seed: int = 0) -> None:
        self._limits = limits
        self._load = load
        self._random = random.Random(seed)
        self._attached: list[Attached] = []
        self._variables: dict[str, int] = {}
        self._geometries: set[tuple[tuple[int, int, int], bool]] = set()
        # One user for each program: it owns the folder of what the driver compiles of it, and nothing else.
        owner = _OPAQUE_UIDS + int(load.digest[:5], 16) if os.geteuid() == 0 and _others_read() else None
        try:
            cache = zygote.folder(f"run-{load.digest[:16]}", owner=owner)
            job = {
                "role": "run",
                "device": load.device.to_json(),
                "entry": load.entry,
                "shared": load.shared,
                "cache": str(cache),
            }
            self.child: Child = zygote.worker(
                job,
                binary=load.binary,
                uid=owner,
                cpu_s=limits.cpu_s,
                memory_bytes=limits.memory_bytes,
                processes=_THREADS + 2 * load.device.units if owner is not None else None,
            )
        except (MachineError, OSError) as error:
            raise CandidateFailed(Status.LOST, f"no worker can be made: {error}") from None
        self._idle_threads = 0
        self.expect(self.receive(_START_S, "loading"), LOADED, 2)
        try:
            self._idle_threads = self.child.threads()
        except Ended:
            raise self.failure("loading") from None

    def expect(self, message: bytes, kind: int, words: int) -> tuple[int, ...]:
        """As its base, and an error of OpenCL is the candidate's failure."""
        if len(message) >= 16 and int.from_bytes(message[:8], "little", signed=True) == FAILED:
            code = int.from_bytes(message[8:16], "little", signed=True)
            text = " ".join(message[16:].decode(errors="replace").split())[:200]
            self.close()
            if code in _EXHAUSTED:
                raise CandidateFailed(Status.OUT_OF_RESOURCES, f"{_EXHAUSTED[code]} ({text})")
            raise CandidateFailed(Status.CRASHED, f"OpenCL error {code}: {text}")
        return super().expect(message, kind, words)

    def _ask_to_map(self, attached: Attached) -> float:
        """As its base, and what buffers and kernels are made of."""
        bundle, base = attached.bundle, attached.base
        plan = {
            "base": base,
            "space": bundle.layout.space_bytes,
            "rows": bundle.layout.rows(base),
            "entries": [self._entry(bundle, n, base) for n in range(len(bundle.layout.entries))],
        }
        file = sealed_file("plan", [json.dumps(plan).encode()])
        try:
            self.send(words_of([ATTACH]), "mapping", [bundle.inputs, attached.memory.descriptor, file])
        finally:
            os.close(file)
        return _START_S

    def run(self, attached: Attached, numbers: Sequence[int], limits_s: Sequence[float]) -> list[float]:
        """As its base; the times are the device's. The first launch of a geometry has time to be compiled."""
        took: list[float] = []
        if not numbers:
            return took
        bundle, place = attached.bundle, self.place(attached)
        label = bundle.labels[bundle.layout.entries[numbers[0]].inputs]
        self.send(words_of([RUN, place, len(numbers), *numbers]), label)
        for i, n in enumerate(numbers):
            entry = bundle.layout.entries[n]
            limit = limits_s[i] + self._compile_s(bundle.sizes[entry.inputs])
            label = bundle.labels[entry.inputs]
            answer = self.expect(self.receive(limit, label), PROGRESS, 3)
            took.append(max(answer[2], 0) * 1e-9)
        self.expect(self.receive(_START_S, "the end of a run"), FINISHED, 1)
        return took

    def place(self, attached: Attached) -> int:
        """The worker's number of a bundle."""
        return self._attached.index(attached)

    def _compile_s(self, sizes: Mapping[str, int]) -> float:
        if self._load.device.simulated:
            return 0.0
        geometry = self._load.geometry(sizes)
        # PoCL compiles anew for each work-group size, and for large grids.
        key = (geometry.block, max(geometry.grid) > 1 << 15)
        if key in self._geometries:
            return 0.0
        self._geometries.add(key)
        return _FIRST_LAUNCH_S

    def _entry(self, bundle: Bundle, number: int, base: int) -> dict[str, Any]:
        entry = bundle.layout.entries[number]
        geometry = self._load.geometry(bundle.sizes[entry.inputs])
        regions = {r.buffer.name: r for r in entry.regions}
        scalars = bundle.scalars[entry.inputs]
        arguments: list[list[Any]] = []
        for name, dtype, is_array in bundle.signature.arguments:
            if is_array:
                region = regions[name]
                writable = region.buffer.role != "input"
                arguments.append(["buffer", base + region.at, region.buffer.size_bytes, writable])
            else:
                arguments.append(_by_value(scalars[name], dtype))
        for position in self._load.local:
            arguments.insert(position, ["local", geometry.shared_bytes])
        return {
            "arguments": arguments,
            "restore": [
                [base + r.at, base + r.golden.at, r.buffer.size_bytes]
                for r in entry.regions
                if r.golden is not None
            ],
            "global": [g * b for g, b in zip(geometry.grid, geometry.block, strict=True)],
            "local": list(geometry.block),
            "offset": list(geometry.offset),
        }


def _by_value(value: int | float, dtype: str) -> list[str]:
    size = opaque_bytes(dtype)
    if size:
        return ["bytes", int(value).to_bytes(size, "little").hex()]
    return ["scalar", dtype, np.array(value, dtype=dtype).tobytes().hex()]


@functools.cache
def _others_read() -> bool:
    """Whether another user can load drivers that were installed beside pyopencl, as Oclgrind's is.

    Where not, a candidate stays this user, as with every user but root; the sandbox confines it all the same.
    """
    found = importlib.util.find_spec("pyopencl")
    path = Path(found.origin).resolve() if found is not None and found.origin is not None else Path("/")
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)
