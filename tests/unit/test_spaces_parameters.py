"""Single parameters: their values, defaults and refusals."""

from __future__ import annotations

import pytest

from tuner.core.errors import SpecError
from tuner.spaces.parameters import Kind, Parameter


def test_integer_range_with_step():
    p = Parameter.integer("U", low=2, high=11, step=3)
    assert (list(p.values), p.default, p.ordered, p.kind) == ([2, 5, 8, 11], 2, True, Kind.INTEGER)
    assert p.find(8) == 2
    assert p.find(8.0) == 2
    assert p.find(9) is None
    assert p.find("8") is None
    assert p.find(True) is None


def test_a_wide_integer_costs_nothing():
    p = Parameter.integer("N", low=0, high=10**15, default=7)
    assert p.position(10**15) == 10**15
    assert p.default == 7


def test_log_integer_gives_powers_of_two():
    assert Parameter.log_integer("U", low=1, high=8).values == (1, 2, 4, 8)
    assert Parameter.log_integer("U", low=3, high=20, default=16).values == (4, 8, 16)


def test_choices_are_sorted_when_numbers_but_keep_their_first_as_default():
    p = Parameter.choice("T", [32, 8, 16])
    assert (p.values, p.default, p.ordered) == ((8, 16, 32), 32, True)
    q = Parameter.choice("M", ["b", "a", 3])
    assert (q.values, q.default, q.ordered) == (("b", "a", 3), "b", False)


def test_truth_values():
    p = Parameter.choice("V", [True, False], default=False)
    assert (p.kind, p.default, p.ordered) == (Kind.BOOLEAN, False, False)
    assert p.find(1) is None
    assert p.find(True) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Parameter.integer("x", low=3, high=1),
        lambda: Parameter.integer("x", low=1, high=3, step=0),
        lambda: Parameter.integer("x", low=1, high=3, default=4),
        lambda: Parameter.integer("x", low=1.5, high=3),
        lambda: Parameter.integer("x", low=1, high=1 << 70),
        lambda: Parameter.log_integer("x", low=0, high=4),
        lambda: Parameter.log_integer("x", low=5, high=7),
        lambda: Parameter.choice("x", []),
        lambda: Parameter.choice("x", [1, 1]),
        lambda: Parameter.choice("x", [1, True]),
        lambda: Parameter.choice("x", [float("nan")]),
        lambda: Parameter.choice("x", [[1]]),
        lambda: Parameter.choice("x", ["a"], default="b"),
        lambda: Parameter.choice("9x", [1]),
        lambda: Parameter.choice("not", [1]),
        lambda: Parameter.choice("a-b", [1]),
    ],
)
def test_mistakes(make):
    with pytest.raises(SpecError):
        make()


def test_out_of_range_says_what_is_allowed():
    with pytest.raises(SpecError, match="T = 9 is out of range; allowed: 8, 16"):
        Parameter.choice("T", [8, 16]).position(9)
