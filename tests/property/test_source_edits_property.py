"""Any list of edits: the same variant each time, nothing outside touched, and a way back."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from same_results import program_of

from tuner.core.types import Kernel
from tuner.search.cooking import Attempt, try_operator
from tuner.spaces.source.edits import apply_edits, crossover, without
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.regions import Program, outside_differs, read_program
from tuner.spaces.source.syntax import Binary, Expr, ExprStmt, Index, Name, Number, Ternary, Unary

TEXT = """#define TWICE(x) ((x) + (x))
static float unused(float x) { return TWICE(x); }
// EVOLVE-BLOCK-START
void f(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
// EVOLVE-BLOCK-END
/* kept */
// EVOLVE-BLOCK-START
void g(float *x, float *y, int n)
{
    for (int i = 1; i < n; i++) {
        y[i] = x[i];
        if (x[i] > y[i - 1])
            x[i] = y[i - 1];
    }
}
// EVOLVE-BLOCK-END
int last;
"""


def program() -> Program:
    """Two regions."""
    return program_of(TEXT, "f")


def random_edits(seed: int, names: list[str]) -> Attempt:
    """Operators by name at random places, as far as they apply."""
    attempt = Attempt(program=program(), edits=(), rng=np.random.default_rng(seed), reassociate=True)
    for name in names:
        attempt = try_operator(attempt, name) or attempt
    return attempt


lists = st.lists(st.sampled_from(sorted(OPERATORS)), max_size=5)


@given(seed=st.integers(0, 1 << 30), names=lists)
@settings(deadline=None, max_examples=40)
def test_edits_are_a_pure_function_of_the_original(seed: int, names: list[str]) -> None:
    """Applied again they give the same text; the outside stays; taking them out gives the original."""
    attempt = random_edits(seed, names)
    one, two = apply_edits(program(), attempt.edits), apply_edits(program(), attempt.edits)
    assert one.variant == two.variant
    assert len({p.name for p in one.parameters}) == len(one.parameters)
    assert one.variant.files == attempt.program.sources()
    assert outside_differs(program(), one.variant) == ""
    assert without(program(), attempt.edits, range(len(attempt.edits))).variant.files[0].text == TEXT
    # What was emitted is read back as the same regions.
    read_program(
        Kernel(name="f", entry="f", language="c", variant=one.variant, folder="."),
    )


@given(seed=st.integers(0, 1 << 30), one=lists, two=lists, data=st.data())
@settings(deadline=None, max_examples=20)
def test_crossover_always_applies(seed: int, one: list[str], two: list[str], data: st.DataObject) -> None:
    """Whatever is cut, the joined list is one that applies, with tunables of different names."""
    first, second = random_edits(seed, one).edits, random_edits(seed + 1, two).edits
    cut = (data.draw(st.integers(0, len(first))), data.draw(st.integers(0, len(second))))
    made = crossover(program(), first, second, cut)
    assert apply_edits(program(), made.variant.edits).variant == made.variant
    names = [p.name for p in made.parameters]
    assert len(set(names)) == len(names)


atoms = st.one_of(st.sampled_from("xyz").map(Name), st.integers(0, 9).map(lambda v: Number(str(v))))
trees = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(
            Binary,
            st.sampled_from(["+", "-", "*", "/", "%", "<", "==", "&&", "||", "<<", "&", "|", "^"]),
            inner,
            inner,
        ),
        st.builds(Unary, st.sampled_from(["-", "!", "~"]), inner),
        st.builds(Ternary, inner, inner, inner),
        st.builds(Index, st.just(Name("a")), inner),
    ),
    max_leaves=12,
)


@given(tree=trees)
@settings(deadline=None, max_examples=150)
def test_printed_expressions_are_read_back(tree: Expr) -> None:
    """Parentheses are there wherever C needs them."""
    text = f"void f(int *a, int x, int y, int z)\n{{\n    a[0] = {expression_text(tree, 1)};\n}}\n"
    read = program_of(text, "f").functions["f"]
    (stmt,) = read.body
    assert isinstance(stmt, ExprStmt)
    assert stmt.expr.value == tree  # type: ignore[union-attr]
