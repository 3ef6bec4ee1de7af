"""The instants of a run, counted, at one of which its process is killed: the same one each time, whatever the load."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from tuner.driver.work.engine import Interruption

__all__ = ["Instants", "InterruptAt", "killed", "killed_runs"]

_FIRST = 8
"""Those before are before there is anything to go on from."""


class Instants:
    """Counts what a run does: pass :meth:`at` as a simulated backend's ``on_event``, and the object as an observer.

    Args:
        last: the instant at which the process is killed; never when left out.
    """

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self._last = last

    def at(self, *_: object) -> None:
        """One of them."""
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    event = at


class InterruptAt:
    """An observer that interrupts its run after so many events, of one kind where one is named."""

    def __init__(self, kind: str = "", count: int = 1) -> None:
        self.interruption = Interruption()
        self._kind, self._left = kind, count

    def event(self, kind: str, body: object) -> None:
        self._left -= kind == self._kind or not self._kind
        if self._left == 0:
            self.interruption.set()


def killed(run: Callable[[Instants], object], last: int | None = None) -> None:
    """A run in a process of its own, which is killed at an instant, or kills itself."""
    child = os.fork()
    if child == 0:
        try:
            run(Instants(last))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def killed_runs(
    run: Callable[[Path, Instants], object], folder: Path, count: int, *, seed: int
) -> Iterator[Path]:
    """Records of runs that were killed, each at another instant.

    Args:
        run: makes a whole run.
        folder: for the records.
        count: how many.
        seed: of the instants.
    """
    whole = Instants()
    run(folder / "counted.run", whole)
    rng = random.Random(seed)
    for turn in range(count):
        path, last = folder / f"{turn}.run", rng.randrange(_FIRST, whole.count)
        killed(lambda instants, path=path: run(path, instants), last)
        yield path
        path.unlink()
