"""The pool of untried points against counting by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.expressions import parse
from tuner.search.domain import Domain
from tuner.search.pool import Pool
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space


def space_of(sizes, limit):
    parameters = [Parameter.integer(f"P{i}", low=0, high=size - 1) for i, size in enumerate(sizes)]
    total = " + ".join(p.name for p in parameters)
    return Space(parameters, [parse(f"{total} <= {limit}")])


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    limit=st.integers(0, 12),
    seed=st.integers(0, 2**32 - 1),
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=30),
)
def test_draws_are_new_and_reach_everything(sizes, limit, seed, counts):
    domain = Domain(space_of(sizes, limit))
    pool, rng = Pool(domain), np.random.default_rng(seed)
    assert domain.rows is not None
    valid = {tuple(row) for row in domain.rows.tolist()}
    tried: set[tuple[int, ...]] = set()
    for count in counts:
        points = pool.draw(rng, count, pipeline=None)
        assert len(points) == len(set(points)) == min(count, len(valid - tried))
        assert set(points) <= valid - tried
        for point in points:
            pool.note(domain.configuration(point, None))
        tried |= set(points)
        assert pool.left(None) == len(valid) - len(tried)
        assert all(pool.tried(p, None) for p in points)


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(2, 6), min_size=1, max_size=4),
    limit=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
    wished=st.lists(st.floats(0, 5), min_size=4, max_size=4),
    tried=st.integers(0, 40),
)
def test_the_nearest_untried_point_is_the_nearest(sizes, limit, seed, wished, tried):
    domain = Domain(space_of(sizes, limit))
    pool, rng = Pool(domain), np.random.default_rng(seed)
    for point in pool.draw(rng, tried, pipeline=None):
        pool.note(domain.configuration(point, None))
    target = np.minimum(np.array(wished[: len(sizes)]), np.array(sizes) - 1.0)
    found = pool.nearest(target, rng, pipeline=None)
    assert domain.rows is not None
    free = [tuple(row) for row in domain.rows.tolist() if not pool.tried(tuple(row), None)]
    if not free:
        assert found is None
        return
    assert found in free
    if found != tuple(round(x) for x in target):
        apart = dict(zip(free, domain.distances(domain.array(free), target), strict=True))
        assert apart[found] <= min(apart.values()) + 1e-12


@settings(deadline=None, max_examples=30)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), limit=st.integers(0, 12))
def test_each_row_is_found_again(sizes, limit):
    domain = Domain(space_of(sizes, limit))
    assert domain.rows is not None
    for i, row in enumerate(domain.rows.tolist()):
        assert domain.row(tuple(row)) == i
        assert domain.point(domain.configuration(tuple(row), None)) == tuple(row)
