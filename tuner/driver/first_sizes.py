"""Sizes of first specs by timing: a call of some milliseconds. What cannot be run keeps the sizes that were guessed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tuner.core.errors import SpecError, TunerError
from tuner.core.protocols import BaselineReport, Evaluation
from tuner.core.types import BASELINE, BuildRequest, Resolved, Status
from tuner.evaluators import registry as backends
from tuner.spec.first.members import FirstSpec
from tuner.spec.load import load_spec

__all__ = ["LEAST_S", "MOST_S", "baseline_of", "call_seconds", "with_timed_sizes"]

CallSeconds = Callable[[Path, str], float | None]
"""What a call of the baseline takes in seconds, by the path and the text of a spec; ``None`` where it cannot be run."""

LEAST_S, MOST_S = 1e-3, 5e-3
"""Between these a call is long enough to be timed well, and short enough for many candidates."""
_WANTED_S = 2.5e-3
_ROUNDS = 4
_ROUNDS_BETWEEN = 10
"""Where calls of some sizes do not end: time may grow with them like their factorial."""
_TRIED = 24
"""Scales, of which many may be the same sizes."""
_LEAST_SCALE = 1e-9
_LIMIT_S = 1.0
"""No call has to take longer before it is seen to be too long."""
_AT_MOST = 32.0
"""Sizes grow and shrink by no more at once."""
_FIRST = 4.0
"""Likewise while it is not known how time grows with them: as their cube, say."""
_SHRINKS = 8.0
"""By what sizes shrink first of which a call does not end."""
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
    times: dict[str, float] = {}
    seen: dict[float, float] = {}
    scale = 1.0
    for _ in range(_TRIED):
        text = first.at_scale(scale, None)
        if text in times and math.inf not in seen.values():
            # Types, memory or arrays hold no larger sizes, or there are no smaller ones.
            break
        if text in times:
            seen = {each: took for each, took in seen.items() if first.at_scale(each, None) != text}
        elif len(times) < (_ROUNDS_BETWEEN if math.inf in seen.values() else _ROUNDS):
            took = call_s(path, text)
            if took is None:
                break
            times[text] = took
        else:
            break
        seen[scale] = times[text]
        if math.inf not in seen.values() and _power(seen) < _FOLLOWS:
            return first
        if LEAST_S <= seen[scale] <= MOST_S:
            break
        scale = _next(seen)
    ended = {each: took for each, took in seen.items() if math.isfinite(took)}
    if not ended:
        return first
    scale, took = min(ended.items(), key=lambda pair: abs(math.log(pair[1] / _WANTED_S)))
    return replace(first, text=first.at_scale(scale, took))


def _power(seen: Mapping[float, float]) -> float:
    """By which power of the sizes time grows, from the last two that ended; 2 while there are no two."""
    ended = [(scale, took) for scale, took in seen.items() if math.isfinite(took)][-2:]
    if len(ended) < 2:
        return 2.0
    (before, less), (after, more) = ended
    return math.log(more / less) / math.log(after / before)


def _next(seen: Mapping[float, float]) -> float:
    """Sizes to try next: by the power law that the last ones show, between those that are too small and too large."""
    last = next(reversed(seen))
    small = max((scale for scale, took in seen.items() if took < LEAST_S), default=0.0)
    large = min((scale for scale, took in seen.items() if took > MOST_S), default=math.inf)
    if math.isinf(seen[last]):
        factor = 0.0 if small else _SHRINKS ** -(2.0 ** min(len(seen) - 1, 3))
    else:
        most = _AT_MOST if sum(map(math.isfinite, seen.values())) > 1 else _FIRST
        factor = min(max((_WANTED_S / seen[last]) ** (1 / max(_power(seen), _FOLLOWS)), 1 / most), most)
    return max(last * factor if small < last * factor < large else math.sqrt(small * large), _LEAST_SCALE)


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
