"""One build in a device worker with its buffers placed: calls, timed calls, and calls without pause.

Asks the worker and believes nothing; who judges outputs and times is :mod:`tuner.evaluators.cuda.session`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.types import ArgumentRole, Resolved, Status, Task
from tuner.evaluators.cuda.compiler import Made, geometry_of
from tuner.evaluators.cuda.device import DeviceWorker
from tuner.evaluators.cuda.limits import Architecture, over_limit
from tuner.evaluators.cuda.slabs import Slab
from tuner.evaluators.disturbance import waited_s
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.workloads import Workload

__all__ = ["Clock", "Loaded", "MachineClock"]

_COPY_S = 5.0
_COPY_BYTES_PER_S = 200e6
_POISONED = (ArgumentRole.OUTPUT, ArgumentRole.SCRATCH)


class Clock(Protocol):
    """What the parent reads while a worker does what it was asked for; all times in seconds."""

    def wall_s(self, worker: DeviceWorker) -> float:
        """A clock of this process's own."""

    def waited_s(self, worker: DeviceWorker) -> float:
        """How long the worker and this thread were ready to run and had no processor."""


class MachineClock:
    """The machine's own: a :class:`Clock`."""

    def wall_s(self, worker: DeviceWorker) -> float:
        """By the monotonic clock."""
        return time.perf_counter()

    def waited_s(self, worker: DeviceWorker) -> float:
        """By the kernel's scheduler."""
        return waited_s(threading.get_native_id(), worker.pid)


class Loaded:
    """A build in a worker, its buffers placed.

    Args:
        worker: with an open context and nothing loaded.
        task: what is tuned.
        code: the cubin; ``made`` what the compiler learnt of it.
        made: as said.
        resolved: for launch geometry.
        arch: for limits.
        shift: varies addresses.
        wide: the float64 build.
        clock: by which calls without pause are timed.

    Raises:
        CandidateFailed: it cannot be loaded.
    """

    def __init__(
        self,
        worker: DeviceWorker,
        task: Task,
        *,
        code: bytes,
        made: Made,
        resolved: Resolved,
        arch: Architecture,
        shift: int = 0,
        wide: bool = False,
        clock: Clock,
    ) -> None:
        self.worker = worker
        self._clock = clock
        self._task = task
        self._made = made
        self._resolved = resolved
        self._arch = arch
        self._shift = shift
        self._wide = wide
        self._slabs: dict[int, Slab] = {}
        # Sizes that are made up later are never larger than the main ones.
        sizes = [p.sizes for p in (*task.problems, *task.verify.problems)]
        shared = max(self._shape(s)["shared_bytes"] for s in sizes)
        header = {
            "op": "load",
            "symbol": made.symbol,
            "shared_bytes": shared,
            "variables": [self._symbol(a.name) for a in task.arguments if a.in_variable],
        }
        self._rooms: dict[str, int] = worker.ask(header, [code], during="loading the code")["rooms"]

    def place(self, number: int, workload: Workload, *, byte: int | None = None) -> Slab:
        """Puts a workload's buffers on the device, in the place of an earlier one with the number."""
        self.drop([number])
        slab = Slab(self._task, workload, shift=self._shift + number, wide=self._wide)
        self._slabs[number] = slab
        slab.fill(*([] if byte is None else [byte]))
        constants = {a.name for a in self._task.arguments if a.constant}
        header = {
            "op": "place",
            "set": number,
            "size": slab.size,
            "stretches": [asdict(s) for s in slab.stretches],
            "parameters": slab.parameters(self._made.layouts),
            "restore": slab.spans(ArgumentRole.INOUT),
            "poison": slab.spans(*_POISONED),
            "touch": slab.spans(ArgumentRole.INPUT, ArgumentRole.INOUT),
            "variables": [
                [self._symbol(name), at, size, name not in constants] for name, at, size in slab.variables()
            ],
        }
        for name, _, size in slab.variables():
            room = self._rooms[self._symbol(name)]
            if size > room:
                text = f"{name} takes {size} bytes on {workload.name}, its variable has {room}"
                raise CandidateFailed(Status.OUT_OF_RESOURCES, text)
        label = workload.name
        self.worker.ask(
            header, handle=slab.descriptor, timeout_s=_copy_s(slab.size), during=f"copying {label}"
        )
        return slab

    def slab(self, number: int) -> Slab:
        """The buffers of a number."""
        return self._slabs[number]

    def run(self, number: int, workload: Workload, *, limit_s: float) -> float:
        """One call; its seconds by the worker's clock. Afterwards the slab holds what the device holds."""
        header = {"op": "run", "set": number, **self._launch(workload)}
        limit_s += 2 * _copy_s(self._slabs[number].size)
        answer = self.worker.ask(header, timeout_s=limit_s, during=workload.name)
        return float(answer["seconds"])

    def time(
        self, order: Sequence[int], workload: Workload, *, limit_s: float, flush_bytes: int, warm: bool
    ) -> list[float]:
        """Timed calls of placed sets in an order."""
        header = {
            "op": "time",
            "order": list(order),
            "flush_bytes": flush_bytes,
            "warm": warm,
            **self._launch(workload),
        }
        limit_s += sum(_copy_s(self._slabs[n].size) for n in set(order))
        answer = self.worker.ask(header, timeout_s=limit_s, during="timed calls")
        times = [float(t) for t in answer["times"]]
        if len(times) != len(order) or not all(t > 0 and np.isfinite(t) for t in times):
            raise CandidateFailed(
                Status.REFUSED, "the measurement cannot be believed: the times are no times"
            )
        return times

    def burst(self, order: Sequence[int], workload: Workload, *, limit_s: float, calls: bool) -> float:
        """Seconds of many calls by the clock of this process; without ``calls`` of what stands before each.

        What the thread that asks or the worker has waited for a processor, which others had, is left out.
        """
        header = {"op": "burst", "order": list(order), "calls": calls, **self._launch(workload)}
        # Neither process can be made to wait by what runs on the device.
        waited, started = self._clock.waited_s(self.worker), self._clock.wall_s(self.worker)
        self.worker.ask(header, timeout_s=limit_s, during="calls without pause")
        wall_s = self._clock.wall_s(self.worker) - started
        return max(wall_s - max(self._clock.waited_s(self.worker) - waited, 0.0), 0.0)

    def drop(self, numbers: Sequence[int]) -> None:
        """Frees buffers here and on the device."""
        known = [n for n in numbers if n in self._slabs]
        if known and self.worker.alive:
            self.worker.ask({"op": "drop", "sets": known}, during="freeing buffers")
        for number in known:
            self._slabs.pop(number).close()

    def close(self) -> None:
        """Gives the memory here back; the worker is its owner's."""
        for slab in self._slabs.values():
            slab.close()
        self._slabs.clear()

    def _symbol(self, name: str) -> str:
        """Of a variable in the code, by its name in the source."""
        return self._made.variables.get(name, name)

    def _launch(self, workload: Workload) -> dict[str, Any]:
        shape = self._shape(workload.problem.sizes)
        return {k: shape[k] for k in ("grid", "block", "shared_bytes")}

    def _shape(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        try:
            shape = geometry_of(self._task, self._resolved, sizes)
        except SpecError as error:
            raise CandidateFailed(Status.OUT_OF_RESOURCES, str(error)) from None
        # In double every shared array of the launch's dynamic part takes twice as much.
        shared = shape.shared_bytes * (2 if self._wide else 1)
        why = over_limit(self._made.usage, shape, self._arch)
        if why:
            raise CandidateFailed(Status.OUT_OF_RESOURCES, why)
        return {"grid": list(shape.grid), "block": list(shape.block), "shared_bytes": shared}


def _copy_s(size_bytes: int) -> float:
    """How long copying may take at the very most."""
    return _COPY_S + size_bytes / _COPY_BYTES_PER_S
