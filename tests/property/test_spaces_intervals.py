"""Vectorised verdicts and the solver against the scalar language, on random expressions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.spaces.intervals import Span, judge
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

NAMES = ("a", "b", "c")
VALUES = st.lists(
    st.one_of(
        st.integers(-6, 12),
        st.sampled_from([64, 1000, 2**31, 2**53, 2**53 + 1, 2**61]),
        st.sampled_from([0.1, 0.5, -2.5, 1e-9, 1e300]),
    ),
    min_size=1,
    max_size=4,
    unique=True,
)


def numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.one_of(st.sampled_from(NAMES), st.sampled_from(["0", "1", "2", "3", "7", "0.1", "0.5", "32"]))
    if depth == 0:
        return leaf
    inner = numbers(depth - 1)
    return st.one_of(
        leaf,
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "**"]), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        st.tuples(st.sampled_from(["ceil", "floor", "abs", "log2", "-"]), inner).map(
            lambda t: f"{t[0]}({t[1]})"
        ),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(inner, st.sampled_from(["<", "=="]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    )


def truths(depth: int) -> st.SearchStrategy[str]:
    compare = st.tuples(numbers(2), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), numbers(2)).map(
        lambda t: f"{t[0]} {t[1]} {t[2]}"
    )
    if depth == 0:
        return compare
    inner = truths(depth - 1)
    return st.one_of(
        compare,
        numbers(2),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})"),
        inner.map(lambda t: f"not ({t})"),
        st.tuples(numbers(1), numbers(1), numbers(1)).map(lambda t: f"{t[0]} <= {t[1]} < {t[2]}"),
    )


def outcome(expression, env):
    try:
        return bool(expression.evaluate(env))
    except SpecError:
        return None


@settings(deadline=None, max_examples=75)
@given(truths(1), st.lists(VALUES, min_size=3, max_size=3))
@example("b >= ((c / a) ** a)", [[1000], [0], [1]])
@example("b < ((c / a) ** a)", [[1000], [0], [1]])
@example("a > (a ** -(a))", [[2, 2**31], [0], [0]])
@example("((b / c) ** a) > 0", [[1000], [2**53 + 1], [2**53]])
@pytest.mark.integration
def test_a_verdict_on_known_values_is_never_wrong(text, domains):
    expression = parse(text)
    rows = list(itertools.product(*domains))
    columns = {n: Span.points(np.array([row[i] for row in rows], dtype=object)) for i, n in enumerate(NAMES)}
    verdicts = judge(expression, columns)
    true, false = (np.broadcast_to(v, len(rows)) for v in (verdicts.true, verdicts.false))
    for i, row in enumerate(rows):
        value = outcome(expression, dict(zip(NAMES, row, strict=True)))
        assert not true[i] or value is True
        assert not false[i] or value is not True


@pytest.mark.integration
@settings(deadline=None, max_examples=75)
@given(truths(1), st.lists(VALUES, min_size=3, max_size=3), st.integers(0, 2))
def test_an_open_name_never_rules_out_what_is_valid(text, domains, bound):
    expression = parse(text)
    columns = {}
    for i, name in enumerate(NAMES):
        if i < bound:
            columns[name] = Span.points([float(v) if isinstance(v, float) else v for v in domains[i][:1]])
        else:
            ends = Span.points(np.array(domains[i], dtype=object))
            columns[name] = Span(np.asarray(ends.lo.min()), np.asarray(ends.hi.max()), ends.whole)
    false = bool(np.all(judge(expression, columns).false))
    if false:
        choices = [domains[i][:1] if i < bound else domains[i] for i in range(3)]
        for row in itertools.product(*choices):
            assert outcome(expression, dict(zip(NAMES, row, strict=True))) is not True


@settings(deadline=None, max_examples=75)
@given(
    st.lists(truths(1), min_size=1, max_size=3), st.lists(VALUES, min_size=3, max_size=3), st.integers(0, 99)
)
@pytest.mark.integration
def test_the_solver_finds_exactly_what_brute_force_finds(texts, domains, seed):
    constraints = [parse(t) for t in texts]
    rows = [dict(zip(NAMES, row, strict=True)) for row in itertools.product(*domains)]
    expected = [row for row in rows if all(outcome(c, row) for c in constraints)]
    parameters = [Parameter.choice(n, d) for n, d in zip(NAMES, domains, strict=True)]
    if not expected:
        with pytest.raises(SpecError, match="the space is empty"):
            Space(parameters, constraints)
        return
    space = Space(parameters, constraints)
    assert space.count() == len(expected)
    listing = space.listing()
    keys = {space.key(row) for row in expected}
    assert {tuple(r) for r in listing.indices.tolist()} == keys
    drawn = space.sample(np.random.default_rng(seed), len(expected))
    assert {space.key(c) for c in drawn} == keys
    assert all(space.is_valid(c) for row in drawn[:3] for c in (row, *space.neighbours(row)))
