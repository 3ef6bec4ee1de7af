"""Says on stderr what is waited for when a step takes longer than a person expects. Decides nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping

__all__ = ["FIRST_S", "Heartbeat", "Stages", "baseline_runs"]

FIRST_S = 3.0
"""Seconds after which a person wonders whether anything goes on."""
AGAIN_S = 10.0


def baseline_runs(limit_s: float) -> str:
    """What is run first, on every input of the verification, and how long a call of the kernel as given may take."""
    return (
        f"waiting for the kernel as given, of which a call may take {limit_s:g} s (measure.limit_s in the spec), "
        "and for its reference"
    )


class Heartbeat:
    """Calls ``beat`` in a thread of its own every so many seconds until it is left.

    Args:
        beat: must not wait for the thread that is in the context.
        every_s: between two calls.
    """

    def __init__(self, beat: Callable[[], None], every_s: float) -> None:
        self._beat, self._every_s = beat, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._thread.join()

    def slow_down(self, every_s: float) -> None:
        """From now on so many seconds between two calls, where there were fewer."""
        if every_s > self._every_s:
            self._every_s = every_s

    def stop(self) -> None:
        """No further calls."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(self._every_s):
            self._beat()


class Stages:
    """Steps of something that prints its answer at the end: one that lasts is named, then again every ten seconds.

    Args:
        name: of what is done.
        steps: what is said of each.
    """

    def __init__(self, name: str, steps: Mapping[str, str]) -> None:
        self._name, self._steps = name, steps
        self._stage, self._since_s, self._due_s = "", time.monotonic(), FIRST_S
        self._heartbeat = Heartbeat(self._beat, FIRST_S / 10)

    def __enter__(self) -> Stages:
        self._heartbeat.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._heartbeat.__exit__()

    def begin(self, step: str) -> None:
        """The next step."""
        self._stage, self._since_s, self._due_s = self._steps[step], time.monotonic(), FIRST_S

    def say(self, text: str) -> None:
        """What the step is at now, in other words; its seconds go on."""
        self._stage = text

    def _beat(self) -> None:
        stage, took_s = self._stage, time.monotonic() - self._since_s
        if stage and took_s >= self._due_s:
            self._due_s = took_s + AGAIN_S
            print(f"{self._name}: {stage}, {took_s:.0f} s so far", file=sys.stderr, flush=True)
