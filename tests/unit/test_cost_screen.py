"""The screen: what it prunes, when it abstains, that failures stay apart, that calls may be split at will."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tuner.core.protocols import Known
from tuner.cost_models.calibration import cut_of, failing_cut_of
from tuner.cost_models.columns import Columns
from tuner.cost_models.configurations import configuration_features, edit_features, geometry_features
from tuner.cost_models.screen import FIRST, Screen, next_size
from tuner.spaces.launch import Geometry


def features(rng: np.random.Generator) -> dict[str, float]:
    return {f"set_{name}": float(rng.integers(1, 17)) for name in "abcdef"}


def score(one: dict[str, float]) -> float:
    return abs(np.log2(one["set_a"]) - 3) + 0.3 * abs(one["set_b"] - 9) + 0.01 * one["set_c"]


def trials(count: int, *, seed: int = 0, fails: bool = False, noise: bool = False) -> list[Known]:
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        one = features(rng)
        value: float | None = float(rng.normal()) if noise else score(one)
        if fails and one["set_d"] > 12:
            value = None
        made.append(Known(trial=i, features=one, tried=True, score=value))
    return made


def candidates(count: int, seed: int = 99) -> list[dict[str, float]]:
    rng = np.random.default_rng(seed)
    return [features(rng) for _ in range(count)]


POOL = candidates(300, 7)


def test_keeps_the_best_and_prunes_most() -> None:
    found = Screen().screen(trials(150), candidates(500), POOL)
    assert found.why == ""
    assert found.cut is not None
    truth = np.array([score(c) for c in candidates(500)])
    kept = np.array([g.place <= found.cut for g in found.guesses])
    assert kept[truth.argmin()]
    assert kept.mean() < 0.5


def test_abstains_on_noise() -> None:
    for seed in range(5):
        found = Screen().screen(trials(120, seed=seed, noise=True), candidates(20), POOL)
        assert found.cut is None
        assert "out of sample" in found.why


def test_abstains_when_too_little_is_known() -> None:
    found = Screen().screen(trials(FIRST - 1), candidates(5), POOL)
    assert found.guesses == ()
    assert found.cut is None
    alike = [Known(trial=i, features={"set_a": 1.0}, tried=True, score=float(i)) for i in range(40)]
    assert Screen().screen(alike, [{"set_a": 1.0}], []).why == "candidates do not differ in any feature"


def test_a_first_fit_may_come_early() -> None:
    """An order loses nothing, so it may be had of few trials."""
    assert Screen(first=12).screen(trials(11), candidates(5), POOL).guesses == ()
    truth = np.array([score(c) for c in candidates(300)])
    alike = []
    for seed in range(5):
        found = Screen(first=12).screen(trials(12, seed=seed), candidates(300), POOL)
        assert found.fitted == 12
        alike.append(np.corrcoef(truth, [g.place for g in found.guesses])[0, 1])
    assert np.mean(alike) > 0.2


def test_failures_are_foreseen_and_change_no_ranking() -> None:
    known = trials(150, fails=True)
    found = Screen().screen(known, candidates(300), POOL)
    assert found.failing_cut is not None
    fails = np.array([c["set_d"] > 12 for c in candidates(300)])
    chances = np.array([g.failing for g in found.guesses])
    assert (chances[fails] > found.failing_cut).mean() > 0.8
    assert (chances[~fails] > found.failing_cut).mean() < 0.1
    worked = np.array([score(c) for c in candidates(300)])
    places = np.array([g.place for g in found.guesses])
    assert abs(np.corrcoef(fails, places)[0, 1]) < 0.4
    assert np.corrcoef(worked, places)[0, 1] > 0.5


@pytest.mark.integration
def test_answers_do_not_depend_on_how_calls_were_split() -> None:
    known = trials(110)
    often = Screen()
    for upto in range(FIRST, 111, 3):
        often.screen(known[:upto], candidates(3), POOL)
    for upto in (80, 110):
        assert Screen().screen(known[:upto], candidates(9), POOL) == _after(known, upto)


def _after(known: list[Known], upto: int):
    screen = Screen()
    for n in range(FIRST, upto + 1):
        answer = screen.screen(known[:n], candidates(9), POOL)
    return answer


def test_pruned_candidates_bound_later_ones() -> None:
    rng = np.random.default_rng(3)
    known = trials(100)
    pruned = [Known(trial=1000 + i, features=features(rng), tried=False) for i in range(60)]
    mixed = [k for pair in zip(known, pruned + pruned[:40], strict=True) for k in pair]
    found = Screen().screen(mixed, candidates(200), [])
    assert found.cut is not None
    truth = np.array([score(c) for c in candidates(200)])
    places = np.array([g.place for g in found.guesses])
    assert places[truth.argmin()] <= found.cut


def test_sizes_grow() -> None:
    sizes = [FIRST]
    while sizes[-1] < 1000:
        sizes.append(next_size(sizes[-1]))
    assert all(b > a for a, b in itertools.pairwise(sizes))
    assert len(sizes) < 20


def test_the_cut_follows_from_the_best_few() -> None:
    scores = np.arange(100.0)
    places = np.full(100, 0.9)
    places[:8] = 0.2
    assert cut_of(places, scores) == pytest.approx(1.25 * 0.2 + 0.01)
    places[7] = 0.5
    assert cut_of(places, scores) == pytest.approx(1.25 * 0.5 + 0.01)
    assert cut_of(np.ones(100), scores) == 1.0


def test_no_failing_cut_where_failures_look_like_the_rest() -> None:
    chances = np.full(60, 0.3)
    assert failing_cut_of(chances, np.arange(60) < 20) is None


def test_columns_leave_out_what_says_nothing() -> None:
    known = [{"a": 1.0, "b": 2.0, "c": 1.0}, {"a": 2.0, "b": 2.0, "c": 2.0}, {"a": 3.0, "b": 2.0, "c": 3.0}]
    made = Columns(known)
    assert made.names == ("a",)
    assert made.rows([{"a": 5.0}, {}]).tolist() == [[5.0], [-1.0]]
    assert made.rows([]).shape == (0, 1)


def test_features_by_name() -> None:
    made = configuration_features(
        {
            "TILE": 8,
            "FAST": True,
            "math": "-ffast-math",
            "passes": "function(gvn,gvn),default<O3>,function(dce)",
        }
    )
    assert made == {
        "set_TILE": 8.0,
        "set_FAST": 1.0,
        "set_math=-ffast-math": 1.0,
        "pass_gvn_count": 2.0,
        "pass_default_count": 1.0,
        "pass_dce_count": 1.0,
        "passes_count": 4.0,
        "passes_before_count": 2.0,
        "passes_after_count": 1.0,
    }
    launched = geometry_features(Geometry(grid=(4, 2, 1), block=(32, 4, 1), shared_bytes=512))
    assert launched == {
        "block_threads": 128.0,
        "block_x_threads": 32.0,
        "grid_blocks": 8.0,
        "shared_bytes": 512.0,
    }
    assert edit_features([{"op": "tile"}, {"op": "tile"}, {"op": "unroll"}]) == {
        "edit_tile_count": 2.0,
        "edit_unroll_count": 1.0,
    }
