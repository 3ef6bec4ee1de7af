"""Spaces under constraints: counting, sampling, neighbours, resolving, encoding."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def make(parameters, constraints=(), **more):
    made = [p if isinstance(p, Parameter) else Parameter.choice(n, p) for n, p in parameters.items()]
    return Space(made, [parse(c) for c in constraints], **more)


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def tiled():
    return make(
        {
            "TILE": [8, 16, 32, 64],
            "UNROLL": Parameter.log_integer("UNROLL", low=1, high=16),
            "ORDER": ["ij", "ji"],
        },
        ["TILE % (UNROLL * 4) == 0", "TILE * UNROLL <= n"],
        flags={"math": ["", "-ffast-math -fno-trapping-math"]},
        sizes={"n": 512},
    )


def brute(space):
    names = [d.name for d in space.dimensions]
    rows = itertools.product(*(d.values for d in space.dimensions))
    return [c for row in rows if space.is_valid(c := dict(zip(names, row, strict=True)))]


def test_counts_and_lists_exactly_the_valid_ones(tiled):
    expected = brute(tiled)
    listing = tiled.listing()
    assert tiled.count() == len(expected) == len(listing)
    assert tiled.product_size == 4 * 5 * 2 * 2
    assert [listing.configuration(i) for i in range(len(listing))] == expected
    assert listing.indices.dtype == np.uint16
    assert listing.row(tiled.key(expected[7])) == 7
    assert listing.row((0, 4, 0, 0)) is None


def test_default_and_explanations(tiled):
    default = tiled.default()
    assert default == {"TILE": 8, "UNROLL": 1, "ORDER": "ij", "math": ""}
    assert tiled.explain(default) == ""
    assert "'TILE % (UNROLL * 4) == 0' does not hold with TILE = 8" in tiled.explain(default | {"UNROLL": 16})
    assert "TILE = 9 is out of range" in tiled.explain(default | {"TILE": 9})
    assert "not in the space" in tiled.explain(default | {"X": 1})
    assert "UNROLL has no value" in tiled.explain({"TILE": 8})


def test_resolve_sorts_values():
    space = make(
        {"T": [8, 16], "S": Parameter.choice("S", [1, 2], macro=False)},
        flags={"a": ["", "-mfoo='x y'"], "b": ["-O3 -march=native"]},
    )
    resolved = space.resolve({"T": np.int64(16), "S": 2, "a": "-mfoo='x y'", "b": "-O3 -march=native"})
    assert resolved.macros == {"T": 16}
    assert type(resolved.macros["T"]) is int
    assert resolved.scalars == {"S": 2}
    assert resolved.flags == ("-mfoo=x y", "-O3", "-march=native")
    assert resolved.pipeline is None
    with pytest.raises(SpecError, match="out of range"):
        space.resolve({"T": 5, "S": 1, "a": "", "b": "-O3 -march=native"})


def test_sampling_is_uniform_and_without_repeats(tiled):
    total = tiled.count()
    counts = Counter()
    for seed in range(300):
        drawn = tiled.sample(rng(seed), 5)
        keys = [tiled.key(c) for c in drawn]
        assert len(set(keys)) == 5
        assert all(tiled.is_valid(c) for c in drawn)
        counts.update(keys)
    expected = 300 * 5 / total
    chi2 = sum((counts[tiled.key(c)] - expected) ** 2 / expected for c in brute(tiled))
    assert chi2 < 2 * total


def test_sampling_ends_with_the_space(tiled):
    total = tiled.count()
    everything = tiled.sample(rng(), total + 10)
    assert len({tiled.key(c) for c in everything}) == total
    used = {tiled.key(c) for c in everything[:-2]}
    rest = tiled.sample(rng(1), 5, exclude=used)
    assert {tiled.key(c) for c in rest} == {tiled.key(c) for c in everything[-2:]}


def test_sampling_depends_on_the_stream_alone(tiled):
    first = tiled.sample(rng(5), 4)
    tiled.sample(rng(6), 10)
    assert tiled.sample(rng(5), 4) == first


def test_neighbours_are_valid_single_steps(tiled):
    here = {"TILE": 32, "UNROLL": 2, "ORDER": "ij", "math": ""}
    found = tiled.neighbours(here)
    assert all(tiled.is_valid(c) for c in found)
    assert here not in found
    changed = [{n for n in here if c[n] != here[n]} for c in found]
    assert sorted(next(iter(c)) for c in changed) == ["ORDER", "TILE", "TILE", "UNROLL", "UNROLL", "math"]
    shuffled = tiled.neighbours(here, rng())
    assert shuffled != found
    assert {tiled.key(c) for c in shuffled} == {tiled.key(c) for c in found}


def test_neighbours_jump_over_invalid_values_and_swap():
    space = make({"X": [1, 2, 3, 4], "Y": [1, 2, 3, 4]}, ["(X * Y) % 4 == 0"])
    found = [(c["X"], c["Y"]) for c in space.neighbours({"X": 1, "Y": 4})]
    assert sorted(found) == [(2, 4), (4, 1)]
    lonely = make({"X": [1, 2, 3], "Y": [10, 20, 30]}, ["Y == 10 * X"])
    assert {c["X"] for c in lonely.neighbours({"X": 2, "Y": 20})} == {1, 3}


def test_configurations_are_apart_when_encoded(tiled):
    rows = tiled.listing().encoded
    assert rows.shape == (len(tiled.listing()), len(tiled.encoder.columns))
    assert rows.min() == 0
    assert rows.max() == 1
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_encoding_columns():
    space = make({"A": [1, 2, 4], "B": ["x", "y", "z"], "C": [True, False], "D": [5]})
    assert space.encoder.columns == ("A", "B=x", "B=y", "B=z", "C")
    chosen = ({"A": 2, "B": "z", "C": True, "D": 5}, {"A": 4, "B": "x", "C": False, "D": 5})
    rows = space.encoder.encode(np.array([space.key(c) for c in chosen]))
    assert rows.tolist() == [[0.5, 0, 0, 1, 1], [1, 1, 0, 0, 0]]


def test_a_billion_combinations_without_trying_them_all():
    names = [f"P{i}" for i in range(10)]
    domain = tuple(range(8))
    space = make(dict.fromkeys(names, domain), [f"{' + '.join(names)} == 10"])
    assert space.product_size == 8**10
    # Compositions of 10 into ten parts below 8, by inclusion and exclusion.
    assert space.count() == 92378 - 10 * 55
    drawn = space.sample(rng(), 50)
    assert all(sum(c.values()) == 10 for c in drawn)


def test_a_constraint_that_sees_all_names_is_pruned_early():
    names = [f"P{i}" for i in range(10)]
    product = " * ".join(names)
    space = make(dict.fromkeys(names, POWERS), [f"8 <= {product} <= 64"])
    assert space.count() == 7942


def test_1e18_combinations_are_sampled_without_listing():
    names = [f"P{i}" for i in range(18)]
    ties = [f"{a} + {b} <= 14" for a, b in itertools.pairwise(names)]
    space = make(dict.fromkeys(names, tuple(range(10))), ties)
    assert space.product_size == 10**18
    assert space.count() is None
    assert space.listing() is None
    drawn = space.sample(rng(), 2000)
    assert len({space.key(c) for c in drawn}) == 2000
    assert all(space.is_valid(c) for c in drawn)
    # The first name's exact share of each value, by counting chains.
    ways = np.ones(10)
    tie = np.array([[a + b <= 14 for b in range(10)] for a in range(10)], dtype=float)
    for _ in range(17):
        ways = tie @ ways
    expected = 2000 * ways / ways.sum()
    seen = np.bincount([c["P0"] for c in drawn], minlength=10)
    assert ((seen - expected) ** 2 / expected).sum() < 35
    assert space.sample(rng(3), 3) == space.sample(rng(3), 3)


def test_independent_groups_are_counted_exactly_however_many():
    space = make({f"P{i}": list(range(100)) for i in range(9)}, ["P0 < P1"])
    assert space.count() == 4950 * 100**7
    assert space.listing() is None
    assert all(c["P0"] < c["P1"] for c in space.sample(rng(), 20))


@pytest.mark.integration
def test_a_rare_valid_region_of_a_huge_space_is_found():
    low, high = 0, 10**5
    wide = {n: Parameter.integer(n, low=low, high=high) for n in "ABCD"}
    space = make(wide, ["A == B", "B == C", "C == D"])
    drawn = space.sample(rng(), 3)
    assert drawn
    assert all(c["A"] == c["B"] == c["C"] == c["D"] for c in drawn)


def test_empty_space_names_the_culprits():
    with pytest.raises(SpecError, match=r"'A > 5' rules out every configuration"):
        make({"A": [1, 2], "B": [1, 2]}, ["B >= 1", "A > 5", "A + B < 10"])
    with pytest.raises(SpecError, match=r"'A > B' and 'B > A' together rule out"):
        make({"A": [1, 2], "B": [1, 2]}, ["A > B", "A + B > 0", "B > A"])
    with pytest.raises(SpecError, match="'n > 3' does not hold"):
        make({"A": [1]}, ["n > 3"], sizes={"n": 2})


def test_a_constraint_that_cannot_be_computed_rules_out():
    space = make({"A": [0, 1, 2], "B": [4, 5]}, ["B % A == 0"])
    assert [(c["A"], c["B"]) for c in brute(space)] == [(1, 4), (1, 5), (2, 4)]
    assert space.count() == 3
    assert "division by zero" in space.explain({"A": 0, "B": 4})
    guarded = make({"A": [0, 1, 2], "B": [4, 5]}, ["A == 0 or B % A == 0"])
    assert guarded.count() == 5


def test_text_values_in_constraints():
    space = make(
        {"MODE": ["flat", "tiled"], "T": [1, 8]},
        ["MODE != 'flat' or T == 1", "MODE != 'tiled' or T > 1 or math == ''"],
        flags={"math": ["", "-ffast-math"]},
    )
    assert space.count() == 2 + 3


def test_exactness_beyond_float64():
    big = 1 << 60
    space = make({"A": [big, big + 1], "B": [big, big + 1]}, ["A == B"])
    assert space.count() == 2
    ninths = make({"A": list(range(1, 40)), "B": list(range(1, 40))}, ["A / B * B == A", "A / 49 * 49 == A"])
    assert ninths.count() == 39 * 39


@pytest.mark.parametrize(
    ("parameters", "constraints", "more"),
    [
        ({"A": [1]}, ["B > 0"], {}),
        ({"A": [1]}, [], {"sizes": {"A": 3}}),
        ({"A": [1]}, [], {"flags": {"A": [""]}}),
        ({"passes": [1]}, [], {}),
        ({"A": [1]}, [], {"flags": {"f": []}}),
        ({"A": [1]}, [], {"flags": {"f": ["", ""]}}),
        ({"A": [1]}, [], {"flags": {"f": ["-D'x"]}}),
    ],
)
def test_mistakes(parameters, constraints, more):
    with pytest.raises(SpecError):
        make(parameters, constraints, **more)


def test_two_parameters_of_one_name():
    with pytest.raises(SpecError, match="'A' is a parameter and also a parameter"):
        Space([Parameter.choice("A", [1]), Parameter.choice("A", [2])])


def test_nothing_to_tune():
    space = Space([])
    assert space.count() == 1
    assert space.default() == {}
    assert space.sample(rng(), 4) == [{}]
    assert space.neighbours({}) == []
