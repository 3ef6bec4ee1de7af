"""Proposals that a record holds and nobody can try. May not build anything.

A searcher's proposals are looked at before they are recorded. Records of earlier versions may hold one with a value
that its space lacks; such a trial fails like one that does not build, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tuner.core.errors import RecordError, SpecError
from tuner.core.types import Build, Proposal, Status
from tuner.driver.state.run import RunState
from tuner.driver.work.lineup import Lineup

__all__ = ["problem_of", "refused", "require_plain"]


def problem_of(lineup: Lineup, variant: int, proposal: Proposal) -> str:
    """Why nothing can be built of a proposal to a variant, one line; empty where something can."""
    try:
        lineup.space(variant).resolve(proposal.configuration)
    except SpecError as error:
        return f"it is outside the space: {error}"
    return ""


def refused(lineup: Lineup, state: RunState, trials: Iterable[int]) -> dict[int, Build]:
    """What takes the place of a build, by trial, for those of which nothing can be built."""
    found = {}
    for number in trials:
        trial = state.trials[number]
        try:
            lineup.of_trial(number)
        except SpecError:
            message = problem_of(lineup, trial.variant, trial.proposal)
            found[number] = Build(status=Status.REFUSED, message=message)
    return found


def require_plain(path: Path, state: RunState) -> None:
    """Looks at whether every trial's configuration is one at all.

    Raises:
        RecordError: a value is neither number nor text, which no searcher can be told of.
    """
    for number, trial in state.trials.items():
        for name, value in trial.proposal.configuration.items():
            if not isinstance(value, bool | int | float | str):
                raise RecordError(
                    f"{path}: trial {number} proposes {name} = {value!r}, which is no bool, int, float or str",
                    "an earlier version recorded it and nothing can go on from it: start anew",
                )
