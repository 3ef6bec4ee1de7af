"""Whether signed whole numbers overflow in a kernel as given: C leaves that undefined, and right variants may differ.

The kernel is built so that it stops where one does, and run once on its spec's inputs.

Source: Clang, "Controlling Code Generation", ``-ftrapv``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tuner.core.errors import TunerError
from tuner.core.protocols import Evaluation
from tuner.core.types import BASELINE, BuildRequest, Resolved, Status, Task
from tuner.driver.first_sizes import baseline_of
from tuner.spec.first.members import FirstSpec
from tuner.spec.load import load_spec

__all__ = ["overflows", "with_values_in_range"]

_STOPPING = "-ftrapv"
_LARGE = "{randint: [-1000, 1000]}"
_POSITIVE = "{randint: [0, 1000]}"
"""Sums and minima of these stay in range in many kernels where those of negative ones do not."""


def overflows(evaluation: Evaluation, task: Task, resolved: Resolved) -> bool:
    """Whether a kernel on the host, whose baseline is set and right, stops at an overflow.

    Args:
        evaluation: of the kernel.
        task: that it was prepared for.
        resolved: of the baseline.
    """
    whole = any(a.shape is not None and a.dtype.startswith("int") for a in task.arguments)
    if task.backend != "host" or not whole:
        return False
    stopping = replace(resolved, flags=(*resolved.flags, _STOPPING))
    request = BuildRequest(trial=BASELINE, variant=task.kernel.variant, resolved=stopping)
    (build,) = evaluation.build([request])
    if build.status is not Status.OK:
        return False
    session = evaluation.open(build, stopping, purpose="search", number=0)
    try:
        return session.verify().status is Status.CRASHED
    finally:
        session.close()


def with_values_in_range(first: FirstSpec, path: Path) -> FirstSpec:
    """The first spec with no negative whole numbers where those overflow and others do not.

    Args:
        first: as it was guessed.
        path: where the spec will lie.
    """
    text = first.text.replace(_LARGE, _POSITIVE)
    if text == first.text or not _overflow(path, first.text) or _overflow(path, text):
        return first
    return replace(first, text=text)


def _overflow(path: Path, text: str) -> bool:
    try:
        with baseline_of(path, text) as (evaluation, baseline, resolved):
            (spec,) = load_spec(path, text=text)
            return baseline.status is Status.OK and overflows(evaluation, spec.task_with(seed=0), resolved)
    except TunerError:
        # Whatever it is, `tuner check` says it with its place.
        return False
