"""A Ray cluster on this machine for tests: a head without devices, and nodes that come and go. Needs Ray."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Nodes", "cluster"]

# Each process that is left out is a second of a processor, and each that stays looks for something to do all the time.
_HEAD = {"num_cpus": 0, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
_TRIES = 4


class Nodes:
    """Nodes of two simulated devices and one processor each; Ray adds and removes them from the main thread only."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.address: str = made.address
        self.there: list[Any] = []

    def add(self, devices: int = 2, *, gpus: int = 0) -> Any:
        """Another node; one with GPUs has no other devices. Ray believes what it is told of them."""
        own: dict[str, Any] = {"num_gpus": gpus} if gpus else {"resources": {"timing": devices}}
        node = _up(lambda: self._made.add_node(num_cpus=1, **own))
        self.there.append(node)
        return node

    def remove(self, node: Any, *, graceful: bool) -> None:
        """One that is gone: told to leave, or killed."""
        self.there.remove(node)
        self._made.remove_node(node, allow_graceful=graceful)

    def clear(self) -> None:
        """Back to the head alone."""
        for node in list(self.there):
            self.remove(node, graceful=False)

    def processes(self, node: Any, of: str) -> list[int]:
        """Process numbers of a node's actors of a class."""
        raylets = {info.process.pid for info in node.all_processes["raylet"]}
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                title = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent in raylets and title.startswith(f"ray::{of}".encode()):
                found.append(int(entry.name))
        return found

    def kill(self, node: Any, of: str) -> int:
        """Ends a node's actors of a class by a signal; says how many there were."""
        found = self.processes(node, of)
        for process in found:
            os.kill(process, signal.SIGKILL)
        return len(found)

    @staticmethod
    def environment() -> dict[str, str]:
        """For another process that finds the same modules."""
        return {**os.environ, "PYTHONPATH": _python_path()}


@contextmanager
def cluster() -> Iterator[Nodes]:
    """A head without devices."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # On a machine with other work to do Ray's workers would hardly get up.
        patch.setenv("RAY_worker_niceness", "0")
        # What tests define is pickled by name.
        patch.setenv("PYTHONPATH", _python_path())
        made = _up(lambda: Cluster(initialize_head=True, head_node_args=_HEAD))
        try:
            yield Nodes(made)
        finally:
            ray.shutdown()
            made.shutdown()


def _up(start: Callable[[], Any]) -> Any:
    """What has come up, for which Ray gives it half a minute: too little where all processors are busy."""
    for _ in range(_TRIES - 1):
        try:
            return start()
        except Exception as error:
            # Ray has no name for it.
            if "timed out" not in str(error):
                raise
    return start()


def _python_path() -> str:
    """Of the processes of a cluster: what this one has, and what those that it starts are to find first."""
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(path for path in (*named, *sys.path) if path)
