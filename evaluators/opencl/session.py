"""One OpenCL candidate in one worker: as on the host, but timed by the device's clock, which is checked.

Decides nothing about other candidates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.core.types import Status, Verdict
from tuner.evaluators.disturbance import Unwatched, Watcher
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.process import Ended
from tuner.evaluators.host.runner import FILLED_BYTES_PER_S, Attached, CandidateFailed, words_of
from tuner.evaluators.host.session import HostSession
from tuner.evaluators.host.timing import Batch, Sizes, Window, poison_places
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.runner import OpenClRunner

__all__ = ["OpenClSession", "believe"]

WINDOW, READY, DONE, SETTLED = 13, 1, 2, 27
_PREPARE_S = 60.0
_MAX_WINDOW_S = 2.0
_MAX_CALLS = 1000
_LEAST_LIMIT_S = 2.0
_SLOWER = 20.0
_LEAST_S = 0.02
_TOLERANCE = 0.03
_SLACK_S = 300e-6
_CALL_S = 1e-3
"""Processor time and wall time that a launch may take beside the kernel's own: the driver's and the worker's."""
_SHARE = 0.2


@dataclass(slots=True, kw_only=True)
class OpenClSession(HostSession):
    """A :class:`tuner.core.protocols.Session`.

    Attributes:
        device: whose clock is read.
        examine: a finding of the simulator on this candidate; empty for none, or where it is not asked.
        divergence: the same before the device runs it, of what could hang there.
    """

    device: Device
    examine: Callable[[], str]
    divergence: Callable[[], str]

    def verify(self) -> Verdict:
        """As on the host; what gives right results is looked at by the simulator, too."""
        if self._verdict is not None:
            return self._verdict
        self._open()
        begin = time.perf_counter()
        finding = self.divergence()
        if finding:
            verdict = Verdict(status=Status.OK)
        else:
            verdict = HostSession.verify(self)
            finding = self.examine() if verdict.status is Status.OK else ""
        if finding:
            message = f"under Oclgrind: {finding}"
            self._fail(CandidateFailed(Status.WRONG_RESULT, message))
            verdict = replace(
                verdict,
                status=Status.WRONG_RESULT,
                message=message,
                detail={"simulator": finding},
                wall_s=time.perf_counter() - begin,
            )
            self._verdict = verdict
        return verdict

    def _watch(self) -> Watcher:
        if not self.device.cpu:
            # Its clock counts what the device does, whoever pushes this machine's processes aside.
            return Unwatched()
        assert self._runner is not None
        return self.inputs.readings.watch(self._runner.child, settles=False, threads=1)

    def _sizes(self, bundle: Bundle, call_s: float) -> Sizes:
        """One reading for each call; where buffers are restored, a window holds each entry once at most."""
        if self.inputs.flush_bytes:
            return Sizes(per_segment=1, segments=1)
        segments = min(_MAX_CALLS, int(_MAX_WINDOW_S / max(call_s, 1e-6)) + 1)
        if bundle.copies:
            segments = min(segments, len(bundle.layout.entries))
        return Sizes(per_segment=1, segments=segments)

    def _said(self, sizes: Sizes) -> dict[str, Any]:
        return {"clock": "device"}

    def _run_windows(
        self,
        attached: Attached,
        windows: Sequence[Window],
        batch: Batch,
        *,
        call_s: float,
        once: bool = False,
    ) -> None:
        assert isinstance(self._runner, OpenClRunner)
        longest_s = max(call_s, max(attached.bundle.call_s))
        for window in windows:
            self._window(self._runner, attached, window, batch, longest_s)

    def _window(
        self, runner: OpenClRunner, attached: Attached, window: Window, batch: Batch, call_s: float
    ) -> None:
        bundle = attached.bundle
        attached.tried += len(window.order)
        label = bundle.labels[bundle.layout.entries[window.order[0]].inputs]
        runner.send(self._request(runner, attached, window), label)
        runner.expect(runner.receive(_PREPARE_S, f"the preparation of {label}"), READY, 1)
        readings = self.inputs.readings
        least_s = max(_LEAST_LIMIT_S, readings.least_limit_s)
        limit = _SLOWER * max(call_s, readings.least_call_s) * len(window.order) + least_s
        # Caches are flushed before each call, while the time runs.
        limit += len(window.order) * window.flush_bytes / FILLED_BYTES_PER_S
        cpu, begin = self._cpu(runner, label), readings.wall_s(runner.child)
        runner.send(b"\0" * 8, label)
        answer = runner.receive(limit, label)
        words = runner.expect(answer, DONE, 4 + len(window.order))
        times = np.array(readings.device_times([w * 1e-9 for w in words[4:]], runner.child))
        wall = readings.wall_s(runner.child) - begin
        cpu = self._cpu(runner, label) - cpu
        runner.expect(runner.receive(_PREPARE_S, f"the outputs of {label}"), SETTLED, 1)
        runner.stop(readings)
        if runner.child.unexpected():
            runner.close()
            raise CandidateFailed(Status.REFUSED, "the process sent something that only a tampered one would")
        busy_s = cpu if self.device.cpu and not window.flush_bytes else None
        units = self.device.units
        why = believe(times.tolist(), wall_s=wall, busy_s=busy_s, units=units, cold=window.flush_bytes > 0)
        if why:
            runner.close()
            raise CandidateFailed(Status.REFUSED, f"the measurement cannot be believed: {why}")
        batch.times_s += np.maximum(times, 1e-9).tolist()
        batch.claimed_s += float(times.sum())
        batch.observed_s += wall
        batch.wall_s += wall
        self._check(attached, sorted(set(window.order)))
        runner.resume()
        runner.send(b"\0" * 8, label)

    def _cpu(self, runner: OpenClRunner, during: str) -> float:
        try:
            return self.inputs.readings.cpu_s(runner.child)
        except Ended:
            raise runner.failure(during) from None

    def _request(self, runner: OpenClRunner, attached: Attached, window: Window) -> bytes:
        poison = poison_places(attached.bundle, window, attached.base, self.rng)
        poisons = len(poison) // (2 * len(window.order))
        header = [WINDOW, runner.place(attached), window.flush_bytes, len(window.order), poisons]
        return words_of([*header, *window.order, *poison])


def believe(
    times_s: Sequence[float], *, wall_s: float, busy_s: float | None, units: int, cold: bool = False
) -> str:
    """Compares what the device's clock says of some calls with the parent's own clocks.

    Args:
        times_s: of each call, by the device's profiling events.
        wall_s: from the go to the answer, by the parent's clock.
        busy_s: processor time that the worker used meanwhile, where kernels run on the host's processor.
        units: how many of its cores a kernel may use at once.
        cold: caches were flushed between calls, which takes time of its own.

    Returns:
        Why the times cannot be true; empty when they can.
    """
    claimed, calls = sum(times_s), len(times_s)
    if min(times_s) < 0 or claimed > wall_s * (1 + _TOLERANCE) + _SLACK_S:
        return f"the device's clock says {claimed:.6f} s where {wall_s:.6f} s have passed"
    if wall_s < _LEAST_S:
        return ""
    if busy_s is not None:
        # Wall time would count what other processes take from this one.
        if busy_s > claimed * units * (1 + _TOLERANCE) + calls * _CALL_S:
            return f"the device's clock says {claimed:.6f} s where processors were busy for {busy_s:.6f} s"
    elif not cold and claimed + calls * _CALL_S < _SHARE * wall_s:
        return f"the device's clock says {claimed:.6f} s of {wall_s:.6f} s"
    return ""
