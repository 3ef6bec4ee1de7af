"""Joins a Ray cluster and says what devices it has. May be imported without Ray."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from tuner.core.errors import MachineError, UsageError
from tuner.core.protocols import Backend

__all__ = ["check_address", "connect", "devices_of", "holds_devices", "on_node", "one_line", "raised"]

RESOURCE = "timing"
"""Custom resource of a node: how many devices it has that are timed apart."""

_RAISED = re.compile(r"[A-Za-z_][\w.]*: ")
"""How a traceback ends."""


def connect(address: str | None) -> Any:
    """Joins a cluster, or starts one on this machine; gives the module.

    Args:
        address: as Ray takes it; ``None`` or ``"local"``: a cluster of this machine alone.

    Raises:
        UsageError: see :func:`check_address`.
        MachineError: Ray is not installed, or there is no cluster at the address.
    """
    # Ray reports use over the network unless told otherwise.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # It also gives its workers the least share of a processor, which is nothing to time a kernel with.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError:
        raise MachineError("the executor ray needs Ray", "pip install 'remix-tuner[ray]'") from None
    if ray.is_initialized():
        return ray
    own = address in (None, "local")
    if address is not None and not own:
        check_address(address)
        _reachable(address)
    more: dict[str, Any] = {"include_dashboard": False} if own else {}
    try:
        with _own_handlers():
            ray.init(
                address="local" if own else address, log_to_driver=False, logging_level=logging.ERROR, **more
            )
    except (ConnectionError, OSError, RuntimeError, ValueError, SystemExit) as error:
        raise _no_cluster(address, one_line(error)) from None
    return ray


@contextlib.contextmanager
def _own_handlers() -> Iterator[None]:
    """Keeps who had asked for signals: Ray's handlers print a stack, and end a run that could end cleanly."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            if callable(handler):
                signal.signal(number, handler)


def check_address(address: str) -> None:
    """Before anything is started: Ray's own word for it names neither the place nor the cure.

    Raises:
        UsageError: not an address of a cluster's head.
    """
    if address.startswith("ray://"):
        # A client of that kind has no say over where messages wait, which is what relays live on.
        raise UsageError(
            f"--ray-address: {address} is the address of Ray's client, through which no run is driven",
            "run tuner on a machine of the cluster with HOST:PORT as ray start prints it, such as 10.0.0.1:6379, or "
            "hand it in: ray job submit --address http://HOST:8265 --working-dir . -- "
            "tuner tune SPEC --executor ray --ray-address auto",
        )
    host, _, port = address.rpartition(":")
    named = host.strip() == host != "" and "/" not in host
    if address in ("auto", "local") or (named and port.isdigit() and int(port) < 1 << 16):
        return
    raise UsageError(
        f"--ray-address: {address!r} is not an address",
        "give HOST:PORT as ray start prints it, such as 10.0.0.1:6379; auto for the cluster that this machine is in; "
        "or leave it out for a cluster of this machine alone",
    )


def devices_of(resources: dict[str, float], *, gpus: bool) -> int:
    """How many devices a node has.

    Args:
        resources: as Ray lists them.
        gpus: whether a device is a GPU.
    """
    own = resources.get("GPU", 0) if gpus else min(1, resources.get("CPU", 0))
    return int(resources.get(RESOURCE, own))


def holds_devices(backend: Backend) -> bool:
    """Whether Ray gives an actor of this backend a device for itself."""
    return backend.name == "cuda"


def on_node(ray: Any, made_of: type, node: str, *, gpus: int = 0, threads: Sequence[str] = ()) -> Any:
    """A class of actors that live on that node or not at all; their processors are no business of Ray's.

    Args:
        ray: the module.
        made_of: what an actor holds.
        node: by its identity.
        gpus: that an actor has for itself.
        threads: names of groups of methods that have a thread of their own.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    more: dict[str, Any] = {"concurrency_groups": dict.fromkeys(threads, 1)} if threads else {}
    remote = ray.remote(num_cpus=0, num_gpus=gpus, max_restarts=0, **more)(made_of)
    return remote.options(scheduling_strategy=here)


def one_line(error: BaseException) -> str:
    """What an error says, in one line; of what was raised far away that is the last one."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1] if raised(lines[-1]) else lines[0]


def raised(reason: str) -> bool:
    """Whether a line is the end of a traceback, not Ray's own words."""
    return _RAISED.match(reason) is not None


def _reachable(address: str) -> None:
    """Ray tries for minutes, and ends the process when it finds nobody."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, str(error)) from None


def _no_cluster(address: str | None, reason: str) -> MachineError:
    return MachineError(
        f"there is no Ray cluster at {address or 'this machine'}: {reason}",
        "ray start --head starts one; its output names the address, and whether it wants RAY_AUTH_MODE=token",
    )
