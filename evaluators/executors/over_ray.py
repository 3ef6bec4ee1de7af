"""Devices of a Ray cluster: an actor for each, compile workers on every node, nodes that come and go.

A node has a device for each of its GPUs where the backend is ``cuda``, else one where it has processors for Ray; a
custom resource ``timing`` of the node says another number. An actor holds its device as long as it lives. Task and
files go to a node once, through the object store. May be imported without Ray.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.executors import (
    BuildJob,
    Executor,
    Happening,
    Job,
    JobDone,
    JobLost,
    LaneJob,
    LaneJoined,
    LaneLost,
)
from tuner.core.protocols import Backend
from tuner.core.types import Build, Resolved, Task
from tuner.evaluators.executors.shipping import collect, place
from tuner.evaluators.executors.worker import Worker

__all__ = ["RayExecutor", "connect", "device_kinds", "holds_devices"]

RESOURCE = "timing"
"""Custom resource of a node: how many devices it has that are timed apart."""

POLL_S = 2.0
"""Between two looks at which nodes there are."""

START_S = 180.0
"""How long a node's actor may take to come up."""


def connect(address: str | None) -> Any:
    """Joins a cluster, or starts one on this machine; gives the module.

    Args:
        address: as Ray takes it; ``None`` or ``"local"``: a cluster of this machine alone.

    Raises:
        MachineError: Ray is not installed, or there is no cluster at the address.
    """
    # Ray reports use over the network unless told otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MachineError("the executor ray needs Ray", "pip install 'remix-tuner[ray]'") from None
    if ray.is_initialized():
        return ray
    own = address in (None, "local")
    if address is not None and not own:
        _reachable(address)
    more: dict[str, Any] = {"include_dashboard": False} if own else {}
    try:
        ray.init(
            address="local" if own else address, log_to_driver=False, logging_level=logging.ERROR, **more
        )
    except (ConnectionError, OSError, RuntimeError, ValueError, SystemExit) as error:
        raise _no_cluster(address, _first_line(error)) from None
    return ray


def _reachable(address: str) -> None:
    """Ray tries for minutes, and ends the process when it finds nobody."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str | None, reason: str) -> MachineError:
    return MachineError(
        f"there is no Ray cluster at {address or 'this machine'}: {reason}",
        "ray start --head starts one; its output names the address",
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class _Remote:
    """Runs in an actor: one evaluation."""

    def __init__(self, backend: Backend, task: Task, files: dict[str, bytes], workers: int) -> None:
        own = place(task, files)
        self._worker = Worker(backend.prepare(own, workers=workers))
        self._baseline: tuple[Build, Resolved] | None = None
        self._device = str(backend.environment(own.target).get("device", backend.name))

    def describe(self) -> str:
        """The device's name."""
        return self._device

    def set_baseline(self, baseline: tuple[Build, Resolved]) -> None:
        """What runs first on this device; comes before the jobs that need it."""
        self._baseline = baseline

    def perform(self, job: Job) -> Any:
        """Does a job; a machine's fault comes back as a value, since the actor can do no more."""
        try:
            return self._worker.perform(job, self._baseline)
        except MachineError as error:
            return error


@dataclass(slots=True)
class _Actor:
    """One of ours: where it is, and what it does."""

    handle: Any
    node: str
    lane: int | None = None
    ready: bool = False
    started_s: float = field(default_factory=time.monotonic)


class RayExecutor(Executor):
    """The devices of one kind in a cluster.

    Args:
        backend: pickled to where the devices are.
        task: of the run.
        address: see :func:`connect`.
        kind: the device's name; others are left alone. ``None``: the first that answers.

    Raises:
        MachineError: see :func:`connect`.
    """

    def __init__(
        self, backend: Backend, task: Task, *, address: str | None = None, kind: str | None = None
    ) -> None:
        self._ray = connect(address)
        self._backend = self._ray.put(backend)
        self._task = self._ray.put(task)
        self._files = self._ray.put(collect(task))
        self._baseline: Any = None
        self._wants_gpu = holds_devices(backend)
        self._kind = kind
        self._next = 0
        self._lanes: dict[int, _Actor] = {}
        self._builders: dict[str, _Actor] = {}
        self._starting: dict[Any, _Actor] = {}
        self._pending: dict[Any, tuple[Job, _Actor]] = {}
        self._waiting: deque[BuildJob] = deque()
        self._backlog: dict[str, int] = {}
        self._known: set[str] = set()
        self._happened: list[Happening] = []
        self._looked_s = -POLL_S
        self._look()

    def set_baseline(self, build: Build, resolved: Resolved) -> None:
        """Goes to each node once, and each device is told of it once: a reference in every job would cost a message."""
        self._baseline = self._ray.put((build, resolved))
        for actor in self._lanes.values():
            actor.handle.set_baseline.remote(self._baseline)

    def submit(self, job: Job) -> None:
        """Sends a job to its device's actor, or to the compile worker with the least to do."""
        if isinstance(job, BuildJob):
            self._waiting.append(job)
            self._send_builds()
            return
        actor = self._lanes.get(job.lane)
        if actor is None:
            return
        reference = actor.handle.perform.remote(job)
        self._pending[reference] = (job, actor)

    def wait(self, timeout_s: float) -> list[Happening]:
        """What has happened, at least one thing unless the time is over."""
        self._look()
        references = [*self._pending, *self._starting]
        if self._happened:
            timeout_s = 0.0
        if references:
            ready, _ = self._ray.wait(references, num_returns=1, timeout=timeout_s)
            if ready:
                ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            for reference in ready:
                # One before it may have shown that an actor is gone, and taken this one with it.
                if reference in self._pending or reference in self._starting:
                    self._collect(reference)
        elif timeout_s:
            time.sleep(min(timeout_s, POLL_S))
        self._send_builds()
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        """Ends the actors; the cluster goes on."""
        actors = [*self._lanes.values(), *self._builders.values(), *self._starting.values()]
        self._lanes, self._builders, self._starting, self._pending = {}, {}, {}, {}
        for actor in actors:
            self._ray.kill(actor.handle)

    def _look(self) -> None:
        """Begins to use nodes that are new, and gives up actors whose node is gone."""
        now = time.monotonic()
        if now - self._looked_s < POLL_S:
            return
        self._looked_s = now
        nodes = {n["NodeID"]: n for n in self._ray.nodes() if n["Alive"]}
        for name in self._known - nodes.keys():
            self._known.discard(name)
            for actor in [*self._lanes.values(), *self._builders.values()]:
                if actor.node == name:
                    self._drop(actor, "its node is gone")
        for name in nodes.keys() - self._known:
            self._known.add(name)
            self._use(name, nodes[name]["Resources"])

    def _use(self, node: str, resources: dict[str, float]) -> None:
        own = resources.get("GPU", 0) if self._wants_gpu else min(1, resources.get("CPU", 0))
        count = int(resources.get(RESOURCE, own))
        for _ in range(count):
            actor = self._start(node, workers=1, gpus=1 if self._wants_gpu else 0)
            actor.lane = self._next
            self._next += 1
        if count:
            self._start(node, workers=max(1, int(resources.get("CPU", 1)) - 1), gpus=0)

    def _start(self, node: str, *, workers: int, gpus: int) -> _Actor:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        remote = self._ray.remote(_Remote).options(
            num_cpus=0, num_gpus=gpus, max_restarts=0, scheduling_strategy=here
        )
        actor = _Actor(remote.remote(self._backend, self._task, self._files, workers), node)
        self._starting[actor.handle.describe.remote()] = actor
        return actor

    def _collect(self, reference: Any) -> None:
        starting = self._starting.pop(reference, None)
        job, actor = self._pending.pop(reference, (None, starting))
        assert actor is not None
        try:
            result = self._ray.get(reference)
        except Exception as error:
            # Whatever took the actor: a node, a signal, memory. What it was doing is done elsewhere.
            self._drop(actor, _first_line(error), job)
            return
        if starting is not None:
            self._started(starting, result)
        elif isinstance(result, MachineError):
            self._drop(actor, str(result), job)
        elif job is not None:
            if isinstance(job, BuildJob):
                self._backlog[actor.node] -= 1
            self._happened.append(JobDone(job=job, result=result))

    def _started(self, actor: _Actor, device: str) -> None:
        actor.ready = True
        if actor.lane is None:
            self._builders[actor.node] = actor
            self._backlog[actor.node] = 0
            return
        self._kind = self._kind or device
        if device != self._kind:
            self._ray.kill(actor.handle)
            return
        self._lanes[actor.lane] = actor
        if self._baseline is not None:
            actor.handle.set_baseline.remote(self._baseline)
        self._happened.append(LaneJoined(lane=actor.lane, device=device, node=actor.node[:12]))

    def _drop(self, actor: _Actor, reason: str, job: Job | None = None) -> None:
        if actor.lane is not None:
            if self._lanes.pop(actor.lane, None) is not None:
                self._happened.append(LaneLost(lane=actor.lane, reason=reason))
        else:
            self._builders.pop(actor.node, None)
        lost = [r for r, (_, by) in self._pending.items() if by is actor]
        jobs = [self._pending.pop(r)[0] for r in lost] + ([job] if job is not None else [])
        self._happened += [JobLost(job=j, reason=reason) for j in jobs if not isinstance(j, LaneJob)]
        self._ray.kill(actor.handle)

    def _send_builds(self) -> None:
        while self._waiting and self._builders:
            node = min(self._builders, key=lambda n: self._backlog[n])
            job = self._waiting.popleft()
            self._backlog[node] += 1
            actor = self._builders[node]
            self._pending[actor.handle.perform.remote(job)] = (job, actor)


def holds_devices(backend: Backend) -> bool:
    """Whether Ray gives an actor of this backend a device for itself."""
    return backend.name == "cuda"


def device_kinds(backend: Backend, task: Task, address: str | None) -> list[str]:
    """The names of the devices in a cluster, each once, in the order of their nodes.

    Raises:
        MachineError: see :func:`connect`; or no node has a device.
    """
    ray = connect(address)
    executor = _Kinds(backend, task, address=address)
    try:
        kinds = executor.kinds()
    finally:
        executor.close()
    if not kinds:
        nodes = sum(n["Alive"] for n in ray.nodes())
        raise MachineError(
            f"no device of the {nodes} nodes can be used by the backend {backend.name}", "see ray status"
        )
    return kinds


class _Kinds(RayExecutor):
    """Asks each device for its name and uses none."""

    def kinds(self) -> list[str]:
        deadline = time.monotonic() + START_S
        while self._starting and time.monotonic() < deadline:
            self.wait(POLL_S)
        return list(dict.fromkeys(self.seen))

    def __init__(self, *given: Any, **more: Any) -> None:
        self.seen: list[str] = []
        super().__init__(*given, **more)

    def _started(self, actor: _Actor, device: str) -> None:
        if actor.lane is not None:
            self.seen.append(device)
        self._ray.kill(actor.handle)
