"""The searcher of a run: with a model beside it, or warm from earlier runs, as the run's first event says.

The trials of a warm start are kept in the record so that a replay has them.

May not decide how much an earlier run is believed: that is the searcher's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tuner.core.canonical import from_json
from tuner.core.errors import UsageError
from tuner.core.protocols import Observation, Searcher
from tuner.core.types import Proposal, Status
from tuner.search import registry as searchers
from tuner.search.pooled import PooledSearcher
from tuner.spaces.space import Space

__all__ = ["KEY", "begin_searcher"]

KEY = "warm_start"
"""Of the ``start`` event: references to the sources, absent where there are none."""


def begin_searcher(
    strategy: str, space: Space, start: Mapping[str, Any], fetch: Callable[[str], str]
) -> Searcher:
    """The searcher of a run, warm or ranked beside where the run's ``start`` event says so.

    Args:
        strategy: its name.
        space: what is searched.
        start: the body of the event.
        fetch: the text that a reference in the body stands for.

    Raises:
        UsageError: there is no such searcher, or it cannot be warm started.
    """
    searcher = searchers.create(strategy, space)
    if start["settings"]["ranked"]:
        return PooledSearcher(searcher, space)
    for reference in start.get(KEY, ()):
        learn = getattr(searcher, "warm_start", None)
        if learn is None:
            raise UsageError(f"the searcher {strategy!r} cannot be warm started", "use --strategy surrogate")
        learn(_observations(from_json(fetch(reference))))
    return searcher


def _observations(pairs: Sequence[Sequence[Any]]) -> list[Observation]:
    return [
        Observation(
            trial=number,
            proposal=Proposal(configuration=configuration, origin="warm start"),
            status=Status.OK,
            score=float(score),
        )
        for number, (configuration, score) in enumerate(pairs)
    ]
