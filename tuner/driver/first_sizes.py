"""Sizes of first specs by timing: a call of some milliseconds. What cannot be run keeps the sizes that were guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tuner.core.errors import SpecError, TunerError
from tuner.core.protocols import BaselineReport, Evaluation
from tuner.core.types import BASELINE, BuildRequest, Resolved, Status
from tuner.evaluators import registry as backends
from tuner.spec.first.members import FirstSpec
from tuner.spec.load import load_spec

__all__ = ["LEAST_S", "MOST_S", "CallSeconds", "baseline_of", "call_seconds", "with_timed_sizes"]

CallSeconds = Callable[[Path, str], float | None]
"""What a call of the baseline takes in seconds, by the path and the text of a spec; ``None`` where it cannot be run."""

LEAST_S, MOST_S = 1e-3, 5e-3
"""Between these a call is long enough to be timed well, and short enough for many candidates."""
_WANTED_S = 2.5e-3
_ROUNDS = 4
_LIMIT_S = 1.0
"""No call has to take longer before it is seen to be too long."""
_AT_MOST = 8.0
"""Sizes grow and shrink by no more at once."""
_FOLLOWS = 0.25
"""A time that grows by a smaller power of the sizes does not depend on them."""


def with_timed_sizes(first: FirstSpec, path: Path, call_s: CallSeconds) -> FirstSpec:
    """The first spec with sizes by which a call of the kernel takes 1 to 5 ms.

    Args:
        first: with sizes that are guessed, or others, which stay.
        path: where the spec will lie.
        call_s: times a call.
    """
    if first.at_scale is None:
        return first
    scale, power = 1.0, 2.0
    seen: dict[float, float] = {}
    for _ in range(_ROUNDS):
        took = call_s(path, first.at_scale(scale, None))
        if took is None:
            break
        before = list(seen.items())
        seen[scale] = took
        if LEAST_S <= took <= MOST_S:
            break
        if before and math.isfinite(took) and math.isfinite(before[-1][1]):
            power = math.log(took / before[-1][1]) / math.log(scale / before[-1][0])
            if power < _FOLLOWS:
                return first
        factor = 1 / _AT_MOST if math.isinf(took) else (_WANTED_S / took) ** (1 / power)
        scale *= min(max(factor, 1 / _AT_MOST), _AT_MOST)
        if scale in seen or first.at_scale(scale, None) in (first.at_scale(each, None) for each in seen):
            # Types or memory hold no larger sizes.
            break
    if not seen:
        return first
    scale, took = min(seen.items(), key=lambda pair: abs(math.log(pair[1] / _WANTED_S)))
    return first if math.isinf(took) else replace(first, text=first.at_scale(scale, took))


def call_seconds(path: Path, text: str) -> float | None:
    """What a call of a spec's baseline takes here, in seconds; infinite where more than a second."""
    try:
        with baseline_of(path, text) as (_, baseline, _):
            if baseline.status is Status.TIMED_OUT:
                return math.inf
            return baseline.call_s[0] if baseline.status is Status.OK and baseline.call_s else None
    except TunerError:
        # Whatever it is, `tuner check` says it with its place.
        return None


@contextmanager
def baseline_of(path: Path, text: str) -> Iterator[tuple[Evaluation, BaselineReport, Resolved]]:
    """A spec's baseline at its problem's own sizes.

    Raises:
        TunerError: the spec is wrong, or its kernel cannot be built or run here.
    """
    (spec,) = load_spec(path, text=text)
    task = spec.task_with(seed=0)
    task = replace(
        task,
        verify=replace(task.verify, problems=(), assume=()),
        measure=replace(task.measure, limit_s=_LIMIT_S),
    )
    backend = backends.given(None, task.backend)
    space = spec.space(backend.pass_catalogue(task.target) if spec.wants_passes else None)
    resolved = space.resolve(space.default())
    evaluation = backend.prepare(task, workers=1)
    try:
        request = BuildRequest(trial=BASELINE, variant=task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        if build.status is not Status.OK:
            raise SpecError(build.message, "tuner check says where")
        yield evaluation, evaluation.set_baseline(build, resolved), resolved
    finally:
        evaluation.close()
