"""Where a spec is run: on this machine, or on the devices of a cluster, each kind of device by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.core.errors import UsageError
from tuner.core.executors import Executor, MakeExecutor
from tuner.core.protocols import Backend, Evaluation, WorksApart
from tuner.core.types import Task
from tuner.evaluators import registry as backends
from tuner.evaluators.executors import over_ray
from tuner.evaluators.executors.cluster import check_address
from tuner.evaluators.executors.threads import ThreadExecutor
from tuner.spec.load import LoadedSpec

__all__ = ["beside", "fleets", "over_cluster", "several_at_once"]

EXECUTORS = ("local", "ray")


def fleets(spec: LoadedSpec, name: str, address: str | None = None) -> Iterator[MakeExecutor | None]:
    """What makes the executors of a spec: one for each kind of device; ``None`` for this machine alone.

    Args:
        spec: of one kernel.
        name: ``local`` or ``ray``.
        address: of the Ray cluster.

    Raises:
        UsageError: another name; an address without Ray, or that is none.
        MachineError: no Ray, no cluster, no device.
    """
    if name not in EXECUTORS:
        raise UsageError(f"there is no executor {name!r}", f"give one of {', '.join(EXECUTORS)}")
    if name == "local":
        if address is not None:
            raise UsageError("--ray-address is given without Ray", "add --executor ray")
        yield None
        return
    if address is not None:
        check_address(address)
    backend = backends.create(spec.task.backend)
    for kind in over_ray.device_kinds(backend, spec.task, address):
        yield over_cluster(backend, address, kind)


def several_at_once(specs: Sequence[LoadedSpec], name: str) -> bool:
    """Whether runs of these specs can be open at once: over Ray a GPU belongs to one run as long as that is open."""
    if name != "ray":
        return True
    return not any(over_ray.holds_devices(backends.create(spec.task.backend)) for spec in specs)


def over_cluster(backend: Backend, address: str | None, kind: str | None = None) -> MakeExecutor:
    """Makes executors over the devices of one kind in a cluster."""

    def make(task: Task) -> Executor:
        return over_ray.RayExecutor(backend, task, address=address, kind=kind)

    return make


def beside(backend: Backend, target: str, workers: int) -> MakeExecutor | None:
    """This machine's device with compile workers that go on while it is timed; ``None`` where that would disturb it.

    Args:
        backend: with the device.
        target: of the task.
        workers: that compile.
    """
    if not isinstance(backend, WorksApart) or not backend.works_apart(target):
        return None
    device = str(backend.environment(target).get("device", backend.name))

    def make(task: Task) -> Executor:
        def evaluation() -> Evaluation:
            return backend.prepare(task, workers=workers)

        return ThreadExecutor(evaluation, [device], builders=1)

    return make
