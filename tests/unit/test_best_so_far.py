"""The best so far as a curve: what simpler searches are drawn with beside a run."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import made_runs as made
import pytest

from tuner.driver.outcome.curves import best_so_far
from tuner.report import Follower


def test_a_point_for_each_trial_that_took_the_lead(tmp_path: Path) -> None:
    path = made.simulated_run(tmp_path, evolve=False, evaluations=30)
    curve = best_so_far(path)
    follower = Follower(path)
    follower.update()
    state = follower.state
    assert len({len(values) for values in curve.values()}) == 1
    assert curve["done"][0] == 0
    assert curve["speed"][0] == 1.0
    assert all(a < b for a, b in itertools.pairwise(curve["speed"][:-1]))
    assert all(a <= b for a, b in itertools.pairwise(curve["clock_s"]))
    assert curve["done"][-1] == len(state.finished) - 1
    assert state.best is not None
    score = state.trials[state.best].score
    assert score is not None
    assert curve["speed"][-1] == pytest.approx(math.exp(-score), rel=1e-4)
    assert all(0 <= s < 1 for s in curve["spread"])
