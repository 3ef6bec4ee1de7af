"""Names that sources give to types of numbers: loops that count in them are open, patches keep them."""

from __future__ import annotations

import pytest
from same_results import STRIPS, program_of

from tuner.spaces.source.edits import EditRefused, apply_edit, apply_edits

SCALED = """\
%s
void f(count_t n, real *a, const real *b)
{
    for (count_t i = 0; i < n; i++) {
        real x = b[i];
        a[i] = x * (real)0.5;
    }
}
"""
OPEN = {
    "plain": "typedef double real;\ntypedef int count_t;",
    "by other names": "typedef double real8;\ntypedef real8 real;\ntypedef long int count_t;",
    "beside what is made of it": "typedef double real, *reals;\ntypedef double real;\ntypedef int count_t;\n"
    "typedef real (*function_t)(count_t, real[4]);\ntypedef real rows_t[3], row_t(count_t);",
    "the same twice": "typedef float real;\ntypedef float real;\ntypedef int32_t count_t;",
}
CLOSED = {
    "two types": "typedef double real;\ntypedef int count_t;\ntypedef unsigned count_t;",
    "a pointer elsewhere": "typedef double real;\ntypedef int count_t;\ntypedef int *count_t;",
    "a structure elsewhere": "typedef double real;\ntypedef int count_t;\ntypedef struct { int a; } count_t;",
    "no number": "typedef double real;\ntypedef struct other count_t;",
}


@pytest.mark.parametrize("name", OPEN)
def test_loops_over_own_types_are_open_to_operators(name: str) -> None:
    program = apply_edit(program_of(SCALED % OPEN[name], "f"), STRIPS)
    assert "i_tile += T" in program.sources()[0].text
    shown = program.sources(presentable=True)[0].text
    assert "real x = b[i];" in shown
    assert "a[i] = x * (real)0.5;" in shown


@pytest.mark.parametrize("name", CLOSED)
def test_a_name_of_several_types_says_nothing(name: str) -> None:
    with pytest.raises(EditRefused, match="does not count in integers"):
        apply_edits(program_of(SCALED % CLOSED[name], "f"), [STRIPS])


def test_names_of_cpp() -> None:
    text = """\
using real = double;
using count = std::size_t;
template <typename kind> struct box { kind value; };
typedef float kind;
// typedef int real;
void f(count n, real *a)
{
    for (count i = 0; i < n; i++)
        a[i] = real(2) * a[i] + kind(2);
}
"""
    changed = apply_edits(program_of(text, "f", "c++"), [STRIPS]).variant.files[0].text
    assert "for (std::size_t i = i_tile" in changed
    assert "double(2) * a[i] + kind(2)" in changed
