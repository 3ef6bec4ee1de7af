"""A run out of its record alone: state, spec, space and variants. May not look at the machine or write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuner.core.canonical import from_json
from tuner.core.collecting import rarely_collected
from tuner.core.errors import RecordError
from tuner.core.protocols import Searcher
from tuner.driver.state.fold import apply
from tuner.driver.state.run import RunState
from tuner.driver.state.strangers import holding_together
from tuner.driver.warm import begin_searcher
from tuner.driver.work.lineup import Lineup
from tuner.recorders.record import RunRecord
from tuner.search import registry as searchers
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec, load_recorded

__all__ = ["catalogue_of", "make_lineup", "open_lineup", "open_state", "spec_of", "state_of"]


def open_state(record: RunRecord) -> tuple[RunState, LoadedSpec, Space]:
    """State, spec and space of a record, with nothing from outside the record.

    Raises:
        RecordError: the record holds no run, or nothing that holds together.
    """
    state = state_of(record)
    assert state.start is not None
    with holding_together():
        spec = spec_of(record, state.start)
        return state, spec, spec.space(catalogue_of(record, state.start))


def state_of(record: RunRecord) -> RunState:
    """The state alone, for what a run came to: a spec takes longer to read than a short run.

    Raises:
        RecordError: the record holds no run, or nothing that holds together.
    """
    state = RunState(record.blob)
    with rarely_collected():
        for event in record.events():
            with holding_together(f"event {event.seq} ({event.kind})"):
                apply(state, event)
    if state.start is None:
        raise RecordError(
            "the record holds no run", "it was killed before it began: delete it and start anew"
        )
    return state


def make_lineup(
    record: RunRecord, state: RunState, spec: LoadedSpec, space: Space, start: Mapping[str, Any]
) -> Lineup:
    """The variants of a run over its state, which may still be empty.

    Args:
        record: where texts are kept.
        state: of the run.
        spec, space: of the record.
        start: the body of its first event.
    """
    strategy = start["settings"]["strategy"]

    def make(own: Space | None) -> Searcher:
        if own is None:
            return begin_searcher(strategy, space, start, lambda r: fetch_text(record, r))
        return searchers.create(strategy, own)

    return Lineup(state, space, spec.task, make)


def open_lineup(record: RunRecord) -> tuple[RunState, LoadedSpec, Lineup]:
    """As :func:`open_state`, with the variants."""
    state, spec, space = open_state(record)
    assert state.start is not None
    return state, spec, make_lineup(record, state, spec, space, state.start)


def spec_of(record: RunRecord, start: Mapping[str, Any]) -> LoadedSpec:
    """The spec as the record holds it."""
    return load_recorded(
        fetch_text(record, start["spec"]),
        {name: fetch_text(record, value) for name, value in start["files"].items()},
        folder=start["folder"],
        index=start["index"],
    )


def catalogue_of(record: RunRecord, start: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The pass catalogue as the record holds it."""
    if start["catalogue"] is None:
        return None
    catalogue: Mapping[str, Any] = from_json(fetch_text(record, start["catalogue"]))
    return catalogue


def fetch_text(record: RunRecord, reference: str) -> str:
    """The text that a reference in an event's body stands for."""
    return record.blob(reference.removeprefix("blob:")).decode()
