"""Directives of OpenMP that are hard to see, and stores that only one thread may do: edits leave both as they are."""

from __future__ import annotations

import pytest
from preprocessed_kernels import preprocessed

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Refused, apply_edit
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

ROWS = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) c[i * n + j] = a[i];"


def program(body: str, *, above: str = "", headers: tuple[Source, ...] = (), seen: bool = False) -> Program:
    """A kernel with threads, which the preprocessor may have seen."""
    head = "void f(const float *restrict a, float *restrict c, const int *restrict x, int n)"
    return program_of(f"{above}\n{head}\n{{\n{body}\n}}\n", headers, seen=seen)


def program_of(text: str, headers: tuple[Source, ...] = (), *, seen: bool = False) -> Program:
    variant = Variant(files=(Source(name="f.c", text=text),))
    kernel = Kernel(
        name="f", entry="f", language="c", variant=variant, folder=".", openmp=True, headers=headers
    )
    if not seen:
        return read_program(kernel)
    kernel = preprocessed(kernel)
    return read_program(kernel).with_preprocessed(kernel.preprocessed[0])


def made(read: Program) -> dict[str, list[str]]:
    """What checked operators make of it, by name; what others make is verified only."""
    ((label, function),) = read.functions.items()
    found: dict[str, list[str]] = {}
    for name, operator in OPERATORS.items():
        if "c" not in operator.languages or not operator.checked:
            continue
        for site in operator.sites(function, True):
            try:
                changed = apply_edit(read, {"op": name, "function": label, **site})
            except Refused:
                continue
            found.setdefault(name, []).append(changed.sources()[0].text)
    return found


@pytest.mark.parametrize(
    ("above", "body"),
    [
        ('#define PARALLEL _Pragma("omp parallel")', f"PARALLEL {{ {ROWS} }}"),
        ('#define SHARED _Pragma("omp parallel for")', f"SHARED {ROWS}"),
        ("#define PRAGMA(text) _Pragma(#text)", f"PRAGMA(omp parallel) {{ {ROWS} }}"),
        ("#define PRAGMA(text) _Pragma(#text)\n#define ALL PRAGMA(omp parallel)", f"ALL {{ {ROWS} }}"),
        ("", f"#pragma /* all */ omp parallel\n{{ {ROWS} }}"),
        ("", f"#pragma \\\n omp parallel\n{{ {ROWS} }}"),
        ("", f"%:pragma omp parallel\n{{ {ROWS} }}"),
    ],
)
def test_a_directive_that_is_written_otherwise_is_one(above: str, body: str) -> None:
    assert not made(program(body, above=above))


def test_also_one_of_a_header() -> None:
    header = Source(name="own.h", text='#define PARALLEL _Pragma("omp parallel")\n')
    assert not made(program(f"PARALLEL {{ {ROWS} }}", above='#include "own.h"', headers=(header,)))
    assert "parallelise" in made(program(f"{{ {ROWS} }}"))


def test_a_comment_in_a_loops_directive_hides_nothing() -> None:
    texts = made(program(f"#pragma /* all */ omp parallel for\n{ROWS}"))
    assert "parallelise" not in texts
    assert "tile" not in texts


def test_clauses_behind_a_macro_count() -> None:
    above = "#define BOTH collapse(2)\n#define OWN private(t)\n"
    texts = made(program(f"#pragma omp parallel for BOTH\n{ROWS}", above=above, seen=True))
    assert not {"strip_mine", "reverse", "interchange"} & set(texts)
    own = "float t;\n#pragma omp parallel for {}\nfor (int i = 0; i < n; i++) {{ t = a[i]; c[i] = t * 2; }}"
    plain, hidden = (made(program(own.format(c), above=above, seen=True)) for c in ("private(t)", "OWN"))
    assert set(plain) == set(hidden)


def test_iterations_that_are_counted_apart_stay_single() -> None:
    body = "#pragma omp simd safelen(4)\nfor (int i = 4; i < n; i++) c[i] = c[i - 4] + a[i];"
    assert not {"unroll_copies", "unroll_and_jam", "strip_mine", "reverse"} & set(made(program(body)))


OWNED = """#pragma omp parallel for
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
        if (x[j] == i)
            c[{}] += a[j];
"""
SUMS = """#pragma omp parallel for
for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
        c[{}] += a[j];
"""


def test_a_store_on_a_condition_stays_on_it() -> None:
    # Another thread may have stored to the element between the load and the store that the edit brings.
    assert "scalar_replace" not in made(program(OWNED.format("0")))


def test_a_store_to_an_element_of_its_own_may_leave_its_loop() -> None:
    assert "scalar_replace" in made(program(SUMS.format("i")))
    assert "scalar_replace" in made(program(OWNED.format("i")))
    assert "scalar_replace" not in made(program(SUMS.format("0")))


def test_one_thread_may_store_where_it_did_not() -> None:
    assert "scalar_replace" in made(program(OWNED.format("0").split("\n", 1)[1]))


@pytest.mark.parametrize("openmp", [True, False])
def test_also_in_a_function_that_threads_call(openmp: bool) -> None:
    text = f"""// EVOLVE-BLOCK-START
static void part(const float *restrict a, float *restrict c, const int *restrict x, int i, int n)
{{
    for (int j = 0; j < n; j++)
        if (x[j] == i)
            c[0] += a[j];
}}
// EVOLVE-BLOCK-END
void f(const float *restrict a, float *restrict c, const int *restrict x, int n)
{{
{"#pragma omp parallel for" if openmp else ""}
    for (int i = 0; i < n; i++)
        part(a, c, x, i, n);
}}
"""
    assert ("scalar_replace" in made(program_of(text))) is not openmp
