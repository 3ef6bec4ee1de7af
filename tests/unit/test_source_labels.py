"""Labels in a function: those that nothing leads to are no statements of their own."""

from __future__ import annotations

import pytest
from same_results import edits_of, program_of

from tuner.spaces.source.edits import apply_edits

TEXT = """\
void f(int n, double *restrict a, const double *restrict b)
{
    int i;
begin: {
    for (i = 0; i < n; i++) { each: a[i] = b[i] * 2; }
    a[1] = 0;
}
    BEFORE
end:;
}
"""
STRIP = {
    "op": "strip_mine",
    "function": "f",
    "loops": ["i"],
    "parameters": [{"name": "T", "values": [4], "default": 4}],
}


def test_blocks_and_loops_behind_labels_are_read() -> None:
    program = program_of(TEXT.replace("BEFORE", ""), "f")
    assert edits_of(program)["vectorize"] == 1
    (made,) = apply_edits(program, [STRIP]).variant.files
    assert "a[1] = 0;" in made.text
    assert "begin:" not in made.text


@pytest.mark.parametrize("before", ["if (n > 3) goto begin;", "if (n > 3) goto each;", "void *p = &&begin;"])
def test_labels_that_something_leads_to_stay(before: str) -> None:
    assert edits_of(program_of(TEXT.replace("BEFORE", before), "f"))["vectorize"] == 0


def test_labels_that_a_macro_may_name_or_that_have_attributes_stay() -> None:
    text = TEXT.replace("BEFORE", "CHECK(n)")
    assert edits_of(program_of(f'#include "check.h"\n{text}', "f"))["vectorize"] == 0
    text = TEXT.replace("BEFORE", "").replace("begin:", "").replace("each:", "")
    program = program_of(text.replace("end:;", "end: __attribute__((unused));"), "f")
    (made,) = apply_edits(program, [STRIP]).variant.files
    assert "end: __attribute__((unused));" in made.text


def test_only_the_functions_own_names_are_of_its_labels() -> None:
    """Another function may have a label of that name, or anything else."""
    other = "int begin;\nvoid g(void) { goto each; each:; }\n"
    program = program_of(other + TEXT.replace("BEFORE", "if (n > 3) goto end;"), "f")
    assert edits_of(program)["vectorize"] == 1
    (made,) = apply_edits(program, [STRIP]).variant.files
    assert "goto end;" in made.text
    assert "end:;" in made.text
    assert "goto each; each:;" in made.text
