"""Casts to types that the project names: read as casts to the language's own types are, however they stand in a sum."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from same_results import program_of

from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.syntax import Binary, Cast, Expr, Opaque
from tuner.spaces.source.walks import map_expressions, subtrees

UNITS = st.sampled_from(["x", "a[i]", "2", "(x + 1)", "g(x)"])
TYPE = "REAL"


@st.composite
def sums(draw: st.DrawFn, depth: int = 0) -> str:
    """An expression with casts to :data:`TYPE` between other operators."""
    kind = draw(st.integers(0, 6 if depth < 4 else 0))
    if kind == 0:
        return draw(UNITS)
    inner = draw(sums(depth + 1))
    if kind == 1:
        return f"({inner})"
    if kind <= 3:
        between = draw(st.sampled_from(["", " "]))
        return f"({TYPE}){between}{draw(st.sampled_from(['-', '+', '*&', '']))}{draw(UNITS)}" + draw(
            st.sampled_from(["", f" + {inner}", f" * {inner}", f" - {inner}"])
        )
    if kind == 4:
        return f"-({TYPE})-{draw(UNITS)} * {inner}"
    op = draw(st.sampled_from(["+", "-", "*", "/", "%", "<", "==", "&", "|", "&&", "<<"]))
    return f"{draw(sums(depth + 1))} {op} {inner}"


def read(value: str, name: str, before: str = "") -> Expr:
    text = f"{before}float g(float x);\nvoid f(float *a, float x, int i)\n{{\na[i] = {value.replace(TYPE, name)};\n}}\n"
    (stmt,) = program_of(text, "f").functions["f"].body
    made: Expr = stmt.expr.value  # type: ignore[union-attr]
    return made


def renamed(expr: Expr) -> Expr:
    """With one name for the type."""

    def change(part: Expr) -> Expr:
        return Cast(TYPE, part.operand) if isinstance(part, Cast) and part.type in ("real", "float") else part

    made: Expr = map_expressions(expr, change)
    return made


@pytest.mark.integration
@settings(max_examples=100, deadline=None)
@given(sums())
@example("x + (REAL)-a[i] * 2 - (REAL)x")
@example("(REAL)-(REAL)+x")
@example("(float)(REAL)-x")
@example("(REAL)*&x < 2")
def test_a_type_of_the_project_is_cast_to_as_the_language_s_own(value: str) -> None:
    own = read(value, "float")
    for before in ("typedef float real;\n", "#define real float\n", "static real zero;\n"):
        found = read(value, "real", before)
        assert renamed(found) == renamed(own) or any(isinstance(p, Opaque) for p in subtrees((found, own)))


@pytest.mark.parametrize("before", ["typedef float real;\n", "#define real float\n", "real g(real y);\n"])
def test_types_are_never_variables(before: str) -> None:
    for value in ("(real)-x", "(real) - x", "x * (real)+x", "(real)(x) * 2", "(real)*a", "(real)-x * 2"):
        found = {p.type for p in subtrees(read(value, "real", before)) if isinstance(p, Cast)}
        assert found & {"real", "float"}


@pytest.mark.parametrize(
    "before", ["static int real;\n", "typedef float real;\nstatic float g(int real) { return real; }\n"]
)
def test_a_variable_is_none(before: str) -> None:
    local = "int real = 2;" if "typedef" in before else ""
    text = f"{before}void f(float *a, float x, int i) {{ {local} a[i] = (real)-x; }}\n"
    *_, stmt = program_of(text, "f").functions["f"].body
    assert isinstance(stmt.expr.value, Binary)  # type: ignore[union-attr]


def test_names_of_unknown_headers_stay_text() -> None:
    assert read("(real)-x", "real", '#include "types.h"\n') == Opaque("(real)-x")
    assert isinstance(read("(TILE)-x", "real", '#include "types.h"\n'), Binary)


def test_a_returned_value_is_read_as_in_its_file() -> None:
    text = "typedef float real;\nstatic real less(real x) { return (real)-x; }\n"
    text += "void f(real *a) { a[0] = less(a[1]); }\n"
    made = apply_edit(program_of(text, "f"), {"op": "inline_call", "function": "f", "call": "less"})
    assert "(real)-" in made.sources()[0].text.partition("void f")[2]
