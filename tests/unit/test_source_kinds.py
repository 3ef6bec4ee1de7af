"""What a type's name says of values, without the words that do not."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.core.polynomials import constant
from tuner.spaces.source.integers import Known
from tuner.spaces.source.kinds import all_types_of, element_types_of, plain_type, types_of, writable
from tuner.spaces.source.lexical import words
from tuner.spaces.source.syntax import Number
from tuner.spaces.source.widths import one_type


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        ("const float *restrict", "float"),
        ("static constexpr int", "int"),
        ("__global const double *", "double"),
        ("local unsigned int", "unsigned int"),
        ("__shared__ float", "float"),
        ("struct global_state", "struct global_state"),
        ("volatile float *", "volatile float"),
    ],
)
def test_plain_types(kind: str, plain: str) -> None:
    assert plain_type(kind) == plain


def test_lvalues_keep_their_address_space() -> None:
    assert writable("static __local const float") == "static __local float"
    assert writable("register constexpr long") == "long"


def test_names_with_several_types_are_known_as_such() -> None:
    """A counter that repeats the name of a floating-point variable is no number of one type."""
    text = """void f(const float *a, float *b, int n)
{
    float part[4];
    { float i = a[0]; b[0] = i; }
    for (long i = 1; i < n; i++)
        b[i] = a[i] + part[0];
}
"""
    function = program_of(text, "f").functions["f"]
    assert all_types_of(function) == {
        "a": {"*"},
        "b": {"*"},
        "n": {"int"},
        "part": {"*"},
        "i": {"float", "long"},
    }
    assert element_types_of(function) == {"a": "float", "b": "float", "n": "int", "part": "float"}
    assert "i" not in types_of(function)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        ("2147483647", "int"),
        ("2147483648", "long"),
        ("0x7fffffff", "int"),
        ("0xFFFFFFFF", "unsigned int"),
        ("0x100000000", "long"),
        ("0xFFFFFFFFFFFFFFFF", "unsigned long"),
        ("037777777777", "unsigned int"),
        ("3000000000u", "unsigned int"),
        ("5000000000U", "unsigned long"),
        ("5l", "long"),
        ("5ul", "unsigned long"),
        ("010", "int"),
        ("08", ""),
        ("99999999999999999999", ""),
    ],
)
def test_types_of_whole_numbers(number: str, kind: str) -> None:
    """ISO/IEC 9899:2011, 6.4.4.1, with a ``long`` of 64 bits."""
    (stored,) = program_of(f"void f(long *x) {{ x[0] = {number}; }}", "f").functions["f"].body
    assert one_type(stored.expr.value, {}) == kind  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("number", "value", "kind"), [("10UL", 10, "size_t"), ("010", 8, "int"), ("9L", 9, "long")]
)
def test_whole_numbers_are_known_with_their_suffix_and_their_base(number: str, value: int, kind: str) -> None:
    known = Known(source="", names={}, ranks={})
    assert known.integer(Number(number)) == (constant(value), kind)
    assert known.integer(Number("10u")) is None  # it wraps around at 32 bits


def test_what_is_computed_beside_written_numbers_and_functions_has_a_type() -> None:
    lines = "x[0] = 2 * x[1]; x[0] = sqrt(x[1]); y[0] = 2 * sqrtf(y[1]); y[0] = y[1] + n;"
    function = program_of(f"void f(double *x, float *y, int n) {{ {lines} }}", "f").functions["f"]
    found = [one_type(s.expr.value, types_of(function)) for s in function.body]  # type: ignore[union-attr]
    assert found == ["double", "double", "float", "float"]


def test_letters_within_numbers_are_no_names() -> None:
    assert words("2.0f * 1e3 + 0x1F + a1") == {"a1"}
