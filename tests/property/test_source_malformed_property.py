"""Malformed preprocessor lines and expressions: what reads them refuses or leaves alone, and raises nothing else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from same_results import program_of

from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.directives import macros_in, unread
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program

ATOMS = st.sampled_from(
    [
        *(
            "0",
            "08",
            "09u",
            "0x",
            "0xg",
            "0b2",
            "1e",
            ".",
            "18446744073709551616",
            "'",
            "'a'",
            '"',
            '"s',
            "1'0",
        ),
        *("A", "B", "F", "F(", "F(A", "defined", "defined(", "defined A", "__LINE__", "A##B", "#A", "..."),
        *("(", ")", ",", "+", "-", "*", "/", "%", "<<", ">>", "&&", "||", "!", "~", "?", ":", "=", "<", "=="),
        *(
            "real",
            "(real)-",
            "(real)",
            "(A)*",
            "//",
            "/*",
            "*/",
            "\\",
            "\\\n",
            "\t",
            "\f",
            "\r",
            "\0",
            "é",
            "@",
        ),
    ]
)
TEXTS = st.one_of(
    st.lists(ATOMS, max_size=8).map(" ".join), st.lists(ATOMS, max_size=8).map("".join), st.text(max_size=12)
)
WORDS = st.sampled_from(
    [
        *("if", "ifdef", "ifndef", "elif", "else", "endif", "define", "undef", "include", "pragma", "line"),
        *("elifdef", "error", "", "warning", "import", "embed", "A"),
    ]
)
LINES = st.one_of(
    st.tuples(st.sampled_from(["#", " # ", "#\\\n", "%:"]), WORDS, st.sampled_from([" ", ""]), TEXTS).map(
        "".join
    ),
    TEXTS,
    st.sampled_from(
        [
            "real y;",
            "int A;",
            "static int F(int x) { return (real)-x; }",
            '#include "h.h"',
            "typedef int real;",
        ]
    ),
)
MANY = st.lists(LINES, max_size=6).map("\n".join)
FEW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
KERNEL = "void f(float *a, int n)\n{\n%s\nfor (int i = 0; i < n; i++) a[i] = %s;\n}\n"


@pytest.mark.integration
@FEW
@given(MANY, MANY, MANY)
def test_files(before: str, inside: str, header: str) -> None:
    text = before + "\n" + KERNEL % (inside, "a[i]")
    for whole in (text, header):
        named = macros_in(whole)
        # What is more than a number's name may change what follows.
        assert not named or unread(whole)


@pytest.mark.integration
@FEW
@given(MANY, MANY, TEXTS, st.sampled_from(["c", "c++", "opencl", "cuda"]))
@example("typedef float real;", "", "(real)-(real)*a+(real)", "c")
def test_programs(before: str, inside: str, value: str, language: str) -> None:
    text = before + "\n" + KERNEL % (inside, value)
    try:
        program = program_of(text, "f", language)
    except SpecError:
        return
    assert "".join(file.text for file in program.sources()) == text


@FEW
@given(TEXTS, st.integers(0, 1 << 20))
@example("0b12", 0)
@example("00000000000000000000009", 0)
def test_expressions(value: str, seed: int) -> None:
    """As a bound, a place and a value: what operators ask of them has an answer or a refusal."""
    text = f"void f(float *a, int n)\n{{\nfor (int i = 0; i < {value}; i++) a[{value}] = i + {value};\n}}\n"
    kernel = Kernel(
        name="f", entry="f", language="c", variant=Variant(files=(Source(name="f.c", text=text),)), folder="."
    )
    try:
        program = read_program(kernel)
    except SpecError:
        return
    for function in program.functions.values():
        sites = [
            {"op": name, "function": "f", **site}
            for name, operator in OPERATORS.items()
            for site in operator.sites(function, False)
        ]
        for site in sites[seed % max(1, len(sites)) :][:3]:
            with contextlib.suppress(EditRefused):
                apply_edits(program, [site])
