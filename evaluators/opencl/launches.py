"""The launch of a configuration on a problem's sizes, and what it means where there is none. Launches nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tuner.core.errors import SpecError
from tuner.core.types import Resolved, Status, Task, Value
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.opencl.limits import Refusal
from tuner.spaces.launch import Geometry, geometry

__all__ = ["Launches", "failing", "launches_of", "refusing"]

Launches = Callable[[Mapping[str, int]], Geometry]
"""From sizes to a launch; raises ``SpecError`` where none can be computed."""


def launches_of(task: Task, resolved: Resolved, *, wide: bool = False) -> Launches:
    """The launches of one configuration.

    Args:
        task: whose ``launch`` is computed.
        resolved: the configuration.
        wide: of the kernel in double.
    """
    launch = resolved.launch_of(task)
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}

    def compute(sizes: Mapping[str, int]) -> Geometry:
        made = geometry(launch, values, sizes)
        # Local memory that holds floats holds doubles in the reference.
        return replace(made, shared_bytes=made.shared_bytes * (2 if wide else 1))

    return compute


def refusing(compute: Launches) -> Launches:
    """The same with a :class:`~tuner.evaluators.opencl.limits.Refusal` where there is no launch."""

    def refuse(sizes: Mapping[str, int]) -> Geometry:
        try:
            return compute(sizes)
        except SpecError as error:
            raise Refusal(Status.OUT_OF_RESOURCES, error.message) from None

    return refuse


def failing(compute: Launches) -> Launches:
    """The same with a candidate's failure where there is no launch."""

    def fail(sizes: Mapping[str, int]) -> Geometry:
        try:
            return refusing(compute)(sizes)
        except Refusal as refusal:
            raise CandidateFailed(refusal.status, refusal.message) from None

    return fail
