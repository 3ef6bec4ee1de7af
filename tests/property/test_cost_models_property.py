"""Whatever features and scores come, the screen answers with numbers in range and the same numbers again."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.protocols import Known
from tuner.cost_models.calibration import cut_of, places
from tuner.cost_models.columns import Columns
from tuner.cost_models.screen import Screen
from tuner.evaluators.host.ir_features import loop_depths

NUMBERS = st.floats(allow_nan=True, allow_infinity=True, width=32)
FEATURES = st.dictionaries(st.sampled_from(["set_a", "set_b", "block_threads", "pass_gvn_count"]), NUMBERS)
SCORES = st.one_of(st.none(), st.floats(-5, 5, allow_nan=False))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(FEATURES, SCORES, st.booleans()), min_size=25, max_size=60),
    st.lists(FEATURES, max_size=6),
    st.lists(FEATURES, max_size=6),
)
@pytest.mark.integration
def test_answers_are_in_range_and_repeat(told, candidates, pool) -> None:
    known = [
        Known(trial=i, features=features, tried=tried, score=score if tried else None)
        for i, (features, score, tried) in enumerate(told)
    ]
    answer = Screen().screen(known, candidates, pool)
    assert answer == Screen().screen(known, candidates, pool)
    assert len(answer.guesses) in (0, len(candidates))
    for guess in answer.guesses:
        assert 0 <= guess.place <= 1
        assert 0 <= guess.failing <= 1
    for cut in (answer.cut, answer.failing_cut):
        assert cut is None or 0 < cut <= 1
    assert (answer.cut is None) == bool(answer.why)


@settings(max_examples=100, deadline=None)
@given(st.lists(FEATURES, max_size=12), st.lists(FEATURES, max_size=5))
def test_columns_are_finite(known, others) -> None:
    made = Columns(known)
    rows = made.rows(others)
    assert rows.shape == (len(others), len(made.names))
    assert np.isfinite(rows).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-9, 9)), min_size=8, max_size=200))
def test_a_cut_is_never_under_the_place_of_one_of_the_best(pairs) -> None:
    own, scores = (np.array(column) for column in zip(*pairs, strict=True))
    cut = cut_of(own, scores)
    assert 0 < cut <= 1
    assert own[scores.argmin()] <= cut or math.isclose(cut, 1.0)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=40), st.lists(st.floats(-5, 5), max_size=10))
def test_places_grow_with_predictions(reference, made) -> None:
    known = np.sort(np.array([reference]))
    found = places(np.array([made]).reshape(1, -1), known)
    order = np.argsort(made, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
    )
)
def test_any_graph_has_loop_depths(successors) -> None:
    depths, loops, headers = loop_depths(successors)
    assert len(depths) == len(successors)
    assert all(0 <= d <= loops for d in depths)
    assert len(set(headers)) == loops
    assert all(depths[h] >= 1 for h in headers)
