"""Devices of a Ray cluster: an actor for each, compile workers on every node, nodes that come and go.

A node has a device for each of its GPUs where the backend is ``cuda``, else one where it has processors for Ray; a
custom resource ``timing`` of the node says another number. An actor holds its device as long as it lives. Task and
files go to a node once, through the object store; jobs and results go through one relay on each node
(:mod:`tuner.evaluators.executors.relay`), so that the driver has as many to talk to as there are nodes, not devices.
May be imported without Ray.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import MachineError, PluginError
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
from tuner.evaluators.executors import relay
from tuner.evaluators.executors.cluster import connect, devices_of, holds_devices, on_node, one_line, raised
from tuner.evaluators.executors.shipping import collect, place
from tuner.evaluators.executors.worker import Worker

__all__ = ["RayExecutor", "connect", "device_kinds", "holds_devices"]

POLL_S = 2.0
"""Between two looks at which nodes there are."""

START_S = 180.0
"""How long a node's actor may take to say what device it has."""

ASK_S = 30.0
"""How long a relay that has nothing to tell is waited for."""

REASON_S = 1.0
"""How long Ray may take to say why an actor is gone."""

TRIES = 3
"""How often in a row what is lost on a node that is still there is started again without having done a job."""


class _Remote:
    """Runs in an actor: one evaluation."""

    def __init__(self, backend: Backend, task: Task, files: dict[str, bytes], workers: int) -> None:
        own = place(task, files)
        self._worker = Worker(backend.prepare(own, workers=workers))
        self._baseline: tuple[Build, Resolved] | None = None
        self._device = str(backend.environment(own.target).get("device", backend.name))
        # Ray shows an actor only the cards that it gave it, by their numbers in the node.
        self._card = os.environ.get("CUDA_VISIBLE_DEVICES", "") if holds_devices(backend) else ""

    def describe(self) -> str:
        """The device's name."""
        return self._device

    def serve(self, door: relay.Door, number: int) -> None:
        """Does jobs until the relay is gone."""
        relay.serve(relay.knock(door, number, _pickled((self._device, self._card))), self._answer)

    def _answer(self, message: bytes) -> bytes | None:
        """Does a job; a machine's fault is an answer like any other, since the actor can do no more."""
        given = pickle.loads(message)
        if isinstance(given, tuple):
            self._baseline = given
            return None
        try:
            return _pickled(self._worker.perform(given, self._baseline))
        except (MachineError, PluginError) as error:
            return _pickled(error)


@dataclass(slots=True, eq=False)
class _Actor:
    """One of ours: where it is, and what it was given and has not answered, in order.

    Devices are numbered from 0 on, compile workers from -1 down.
    """

    handle: Any
    node: _Node
    number: int
    serving: Any
    tries: int = 0
    ready: bool = False
    jobs: deque[Job] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class _Node:
    """A node with its relay, what waits to be sent there, and the question that the relay has not answered."""

    name: str
    host: str
    relay: Any
    send: Any
    ask: Any
    door: Any
    outbox: list[tuple[object, bytes | None]] = field(default_factory=list)
    asked: Any = None
    actors: dict[int, _Actor] = field(default_factory=dict)
    wanted: list[tuple[str, int]] = field(default_factory=list)


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
        self._shipped = [self._ray.put(each) for each in (backend, task, collect(task))]
        self._baseline: bytes | None = None
        self._gpus = holds_devices(backend)
        self._kind = kind
        self._next = {"device": 0, "builder": -1}
        self._nodes: dict[str, _Node] = {}
        self._lanes: dict[int, _Actor] = {}
        self._waiting: deque[BuildJob] = deque()
        self._losses: Counter[str] = Counter()
        self._happened: list[Happening] = []
        self._failed: str | None = None
        self._met = False
        self._looked_s = -POLL_S
        self._look()

    def set_baseline(self, build: Build, resolved: Resolved) -> None:
        """Goes to each node once, and each device hears of it once: in every job it would cost more than the job."""
        self._baseline = _pickled((build, resolved))
        for node in self._nodes.values():
            lanes = [a.number for a in node.actors.values() if a.ready and a.number >= 0]
            if lanes:
                node.outbox.append((lanes, self._baseline))

    def submit(self, job: Job) -> None:
        """Hands a job to its device, or to the compile worker with the least to do; sent by :meth:`wait`."""
        if isinstance(job, BuildJob):
            self._waiting.append(job)
            return
        actor = self._lanes.get(job.lane)
        if actor is not None:
            self._give(actor, job)

    def wait(self, timeout_s: float) -> list[Happening]:
        """What has happened, at least one thing unless the time is over.

        Raises:
            MachineError: there never was a device, and none can be started.
        """
        self._look()
        self._send()
        questions = self._questions()
        if self._happened:
            timeout_s = 0.0
        if questions:
            found, _ = self._ray.wait([*questions], num_returns=1, timeout=timeout_s)
            if found:
                found, _ = self._ray.wait([*questions], num_returns=len(questions), timeout=0)
            for reference in found:
                self._heard(questions[reference], reference)
        elif timeout_s:
            time.sleep(min(timeout_s, POLL_S))
        self._send()
        self._check_started()
        happened, self._happened = self._happened, []
        return happened

    def close(self) -> None:
        """Ends the actors; the cluster goes on."""
        nodes, self._nodes, self._lanes = [*self._nodes.values()], {}, {}
        for node in nodes:
            for actor in node.actors.values():
                self._ray.kill(actor.handle)
        closed = [node.relay.close.remote() for node in nodes]
        if closed:
            self._ray.wait(closed, num_returns=len(closed), timeout=REASON_S)
        for node in nodes:
            self._ray.kill(node.relay)

    # Nodes and actors.

    def _look(self) -> None:
        """Begins to use nodes that are new, gives up those that are gone, starts what was lost on others again."""
        now = time.monotonic()
        if now - self._looked_s < POLL_S:
            return
        self._looked_s = now
        alive = {n["NodeID"]: n for n in self._ray.nodes() if n["Alive"]}
        for node in [*self._nodes.values()]:
            if node.name not in alive:
                self._drop_node(node, "its node is gone")
        for name, found in alive.items():
            known = self._nodes.get(name)
            if known is None and self._losses[name] <= TRIES:
                self._use(name, found["NodeManagerHostname"], found["Resources"])
            elif known is not None:
                for what, tries in known.wanted:
                    self._start(known, what, found["Resources"], tries)
                known.wanted = []

    def _use(self, name: str, host: str, resources: dict[str, float]) -> None:
        count = devices_of(resources, gpus=self._gpus)
        if not count:
            return
        made = on_node(self._ray, relay.Relay, name, threads=("in", "out")).remote()
        node = self._nodes[name] = _Node(
            name=name,
            # Several of one machine differ by their identity alone.
            host=f"{host} {name[:8]}",
            relay=made,
            send=made.send.options(concurrency_group="in"),
            ask=made.collect.options(concurrency_group="out"),
            door=made.where.remote(),
        )
        for _ in range(count):
            self._start(node, "device", resources)
        self._start(node, "builder", resources)

    def _start(self, node: _Node, what: str, resources: dict[str, float], tries: int = 0) -> None:
        number = self._next[what]
        self._next[what] += 1 if number >= 0 else -1
        gpus = 1 if self._gpus and number >= 0 else 0
        workers = 1 if number >= 0 else max(1, int(resources.get("CPU", 1)) - 1)
        handle = on_node(self._ray, _Remote, node.name, gpus=gpus).remote(*self._shipped, workers)
        serving = handle.serve.remote(node.door, number)
        node.actors[number] = _Actor(handle=handle, node=node, number=number, serving=serving, tries=tries)

    def _drop_node(self, node: _Node, reason: str) -> None:
        del self._nodes[node.name]
        self._losses[node.name] += 1
        for actor in [*node.actors.values()]:
            self._drop(actor, reason)
        self._ray.kill(node.relay)

    def _drop(self, actor: _Actor, reason: str) -> None:
        """What it was doing is done elsewhere; where its node is still there, another takes its place."""
        node = actor.node
        del node.actors[actor.number]
        if not actor.ready and actor.number >= 0 and not raised(self._failed or ""):
            # What the backend raises says more than that a process is gone, as one may be on a busy machine.
            self._failed = reason
        if self._lanes.pop(actor.number, None) is not None:
            self._happened.append(LaneLost(lane=actor.number, reason=reason))
        self._happened += [JobLost(job=j, reason=reason) for j in actor.jobs if not isinstance(j, LaneJob)]
        self._ray.kill(actor.handle)
        if node.name in self._nodes and actor.tries < TRIES:
            node.wanted.append(("device" if actor.number >= 0 else "builder", actor.tries + 1))

    def _check_started(self) -> None:
        if self._failed is None or self._met:
            return
        others = any(n.wanted or any(k >= 0 for k in n.actors) for n in self._nodes.values())
        if not others:
            raise MachineError(f"no device of the cluster can be used: {self._failed}", "see ray status")

    # Messages.

    def _give(self, actor: _Actor, job: Job) -> None:
        actor.jobs.append(job)
        actor.node.outbox.append(([actor.number], _pickled(job)))

    def _send(self) -> None:
        """All that is to be said to a node, in one message."""
        builders = [
            a for node in self._nodes.values() for a in node.actors.values() if a.number < 0 and a.ready
        ]
        while self._waiting and builders:
            self._give(min(builders, key=lambda a: len(a.jobs)), self._waiting.popleft())
        for node in self._nodes.values():
            if node.outbox:
                node.send.remote(relay.pack(node.outbox))
                node.outbox = []

    def _questions(self) -> dict[Any, _Node | _Actor]:
        """What is waited for: one answer of each relay, and actors that may fail before they come to it."""
        asked: dict[Any, _Node | _Actor] = {}
        for node in self._nodes.values():
            node.asked = node.asked or node.ask.remote(ASK_S)
            asked[node.asked] = node
            asked |= {a.serving: a for a in node.actors.values() if not a.ready}
        return asked

    def _heard(self, whom: _Node | _Actor, reference: Any) -> None:
        try:
            found = self._ray.get(reference)
        except Exception as error:
            # Whatever took it: a node, a signal, memory.
            reason = one_line(error)
            if isinstance(whom, _Node):
                if whom.name in self._nodes:
                    self._drop_node(whom, reason)
            elif whom.number in whom.node.actors:
                self._drop(whom, reason)
            return
        if isinstance(whom, _Node):
            whom.asked = None
            for number, message in relay.unpack(found):
                actor = whom.actors.get(number) if isinstance(number, int) else None
                if actor is not None:
                    self._answered(actor, message)

    def _answered(self, actor: _Actor, message: bytes | None) -> None:
        if message is None:
            self._drop(actor, self._why(actor))
            return
        result = pickle.loads(message)
        if not actor.ready:
            actor.ready = True
            self._joined(actor, *result)
        elif isinstance(result, MachineError | PluginError):
            self._drop(actor, str(result))
        else:
            actor.tries = self._losses[actor.node.name] = 0
            self._happened.append(JobDone(job=actor.jobs.popleft(), result=result))

    def _joined(self, actor: _Actor, device: str, card: str) -> None:
        if actor.number < 0:
            return
        self._kind = self._kind or device
        if device != self._kind:
            del actor.node.actors[actor.number]
            self._ray.kill(actor.handle)
            return
        self._lanes[actor.number] = actor
        self._met = True
        if self._baseline is not None:
            actor.node.outbox.append(([actor.number], self._baseline))
        place = f"{actor.node.host}, GPU {card}" if card else actor.node.host
        self._happened.append(LaneJoined(lane=actor.number, device=device, node=place))

    def _why(self, actor: _Actor) -> str:
        try:
            if self._ray.wait([actor.serving], timeout=REASON_S)[0]:
                self._ray.get(actor.serving)
        except Exception as error:
            return one_line(error)
        return "its process is gone"


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)


def device_kinds(backend: Backend, task: Task, address: str | None) -> list[str]:
    """The names of the devices in a cluster, each once, in the order of their nodes.

    Raises:
        MachineError: see :func:`connect`; or no node has a device.
    """
    ray = connect(address)
    gpus = holds_devices(backend)
    shipped = [ray.put(each) for each in (backend, task, collect(task))]
    nodes = [n for n in ray.nodes() if n["Alive"]]
    actors = []
    for node in nodes:
        count = devices_of(node["Resources"], gpus=gpus)
        # Only GPUs of one machine may differ.
        for _ in range(count if gpus else min(1, count)):
            made = on_node(ray, _Remote, node["NodeID"], gpus=1 if gpus else 0)
            actors.append(made.remote(*shipped, 1))
    asked = [actor.describe.remote() for actor in actors]
    found = ray.wait(asked, num_returns=len(asked), timeout=START_S)[0] if asked else []
    kinds: dict[str, None] = {}
    for reference in [one for one in asked if one in found]:
        try:
            kinds[ray.get(reference)] = None
        except Exception as error:
            # One that cannot be used is no device.
            del error
    for actor in actors:
        ray.kill(actor)
    if not kinds:
        raise MachineError(
            f"no device of the {len(nodes)} nodes can be used by the backend {backend.name}", "see ray status"
        )
    return list(kinds)
