"""An edit whose worth cannot be told from nothing does not stay in the winner, so that nobody has to review it."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tuner.core.types import Status
from tuner.driver.state.evolution import reduced
from tuner.driver.state.lineage import Reduction
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import Evolution
from tuner.driver.state.trials import TrialState

EDIT = {"op": "strip_mine", "function": "f"}


def trial(number: int, ratio: float, noise: float, calls: int) -> TrialState:
    """Timed calls of about a millisecond times a ratio, that lie so far apart."""
    times = 1e-3 * ratio * np.exp(noise * np.linspace(-1.0, 1.0, calls))
    return cast(
        "TrialState",
        SimpleNamespace(
            number=number,
            variant=number,
            status=Status.OK,
            raced=False,
            score=math.log(1e-3 * ratio),
            times_s=lambda problem: [float(t) for t in times],
        ),
    )


def stays(ratio: float, noise: float, *, calls: int = 12) -> bool:
    """Whether an edit stays without which calls take so many times as long."""
    kept, without = trial(1, 1.0, noise, calls), trial(2, ratio, noise, calls)
    reduction = Reduction(reason="evaluations", variant=1, trial=1, score=math.log(1e-3), edit=0, trying=2)
    variants: list[Any] = [SimpleNamespace(edits=edits) for edits in ((), (EDIT,), ())]
    settings = SimpleNamespace(evolution=Evolution(), weights=(1.0,))
    state = SimpleNamespace(settings=settings, variants=variants, trials={1: kept, 2: without})
    reduced(cast("RunState", state), without, reduction)
    return reduction.variant == 1


@pytest.mark.parametrize(
    ("ratio", "noise", "kept"),
    [
        (1.005, 0.0001, False),  # plain, and not worth a line
        (1.02, 0.0001, True),
        (1.02, 0.1, False),
        (1.05, 0.1, True),  # too much to lose
    ],
)
def test_edits_indistinguishable_from_nothing_are_left_out(ratio: float, noise: float, kept: bool) -> None:
    assert stays(ratio, noise) is kept


def test_with_too_few_calls_to_tell_the_ratio_decides() -> None:
    assert stays(1.02, 0.1, calls=2)
