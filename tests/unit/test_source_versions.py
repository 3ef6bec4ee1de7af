"""Loops that begin or end at a parameter: versions of them under conditions, and conditions that stand around them."""

from __future__ import annotations

from pathlib import Path

import needs
import numpy as np
import pytest
from same_results import program_of, same

from tuner.search.cooking import Attempt, places
from tuner.search.opening import opened
from tuner.spaces.source.descriptors import describe
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edits
from tuner.spaces.source.operators import OPERATORS

SIZES = [
    {"name": "ROWS", "values": [2, 4], "default": 2},
    {"name": "COLUMNS", "values": [4, 8], "default": 4},
]
HALO = """
void f(float *a, const float *b, int n, int m, int halo)
{
    for (int i = halo; i < m - halo; i++)
        for (int j = halo; j < n - halo; j++)
            a[i * n + j] = a[(i - 1) * n + j] * 0.5f + b[i * n + j - 1] + a[i * n + j + 1];
}
"""
WINDOW = """
void f(float *a, const float *b, int pitch, int m, int first, int last, long off)
{
    int lo = first - 4;
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < m; i++)
            for (int j = lo; j <= last; j++)
                a[(i + off) * pitch + j] = a[(i + off) * pitch + j] * 0.5f + b[(i + off + t) * pitch + j];
}
"""
SIGNLESS = """
#include <stddef.h>
void f(float *a, const float *b, size_t pitch, unsigned n, unsigned lo, int m)
{
    for (int i = 0; i < m; i++)
        for (unsigned j = lo; j < n; j++)
            a[i * pitch + j] = a[i * pitch + j] * 0.5f + b[j];
}
"""
ENDS = """
void f(float *a, const float *b, int n, int m, int which)
{
    int lo = which == 3 ? 2147483647 : which == 4 ? -2147483647 - 1 : which;
    int hi = which == 3 ? -2147483647 - 1 : which == 4 ? 2147483647 : n;
    const int rows = which == 3 || which == 4 ? 0 : m;
    for (int i = 0; i < rows; i++)
        for (int j = lo; j < hi; j++)
            a[i * n + j + lo] = a[i * n + j + lo] * 0.5f + b[j];
}
"""


def laid_open(text: str, language: str = "c") -> Applied:
    """A function with all that opens the way."""
    program = program_of(text, "f", language)
    start = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    made = opened(start, {}) or start
    return applied(made.program, made.edits)


def names(made: Applied) -> list[str]:
    return [edit["op"] for edit in made.variant.edits]


def text_of(made: Applied) -> str:
    return made.variant.files[0].text


def interchanged(made: Applied, text: str) -> Applied:
    edit = {"op": "interchange", "function": "f", "loops": ["i", "j"]}
    return apply_edits(program_of(text, "f"), [*made.variant.edits, edit])


def moved(text: str) -> list[Applied]:
    """The function opened, and with each operator on it wherever one applies."""
    program, base = program_of(text, "f"), laid_open(text)
    found = [base]
    for name in ("interchange", "tile", "reverse", "unroll_and_jam", "register_block", "vector_block"):
        for site in OPERATORS[name].sites(base.program.functions["f"], False):
            try:
                edits = [*base.variant.edits, {"op": name, "function": "f", **site}]
                found.append(apply_edits(program, edits))
            except EditRefused:
                continue
    return found


def test_a_version_asks_for_what_the_rows_need_and_no_more() -> None:
    made = laid_open(HALO)
    assert names(made) == ["assume_rows"]
    assert "    if (halo >= 1) {\n" in text_of(made)
    assert text_of(made).count("for (int i") == 2
    window = text_of(laid_open(WINDOW))
    assert "if ((long)pitch + (long)first >= (long)last + 5) {" in window


def test_fallback_versions_are_not_transformed() -> None:
    made = laid_open(HALO)
    function = made.program.functions["f"]
    for operator in OPERATORS.values():
        if "c" in operator.languages and not operator.openmp:
            assert "#2" not in str(list(operator.sites(function, False))), operator.name
    after = text_of(interchanged(made, HALO))
    assert after.partition("} else {")[2] == text_of(made).partition("} else {")[2]
    assert after.partition("} else {")[0] != text_of(made).partition("} else {")[0]
    again = {"op": "assume_rows", "function": "f", "loop": "j", "through": "j"}
    with pytest.raises(EditRefused, match="versions already"):
        apply_edits(program_of(HALO, "f"), [*made.variant.edits, again])


def test_a_version_is_no_other_kind_of_variant() -> None:
    assert describe(laid_open(HALO).program) == describe(program_of(HALO, "f"))


@pytest.mark.parametrize(
    "guard",
    ["if (halo < 1) return;", "if (!(halo > 0 && m > 2)) { return; }", "__builtin_assume(halo >= 1);"],
)
def test_conditions_around_loops_make_versions_needless(guard: str) -> None:
    text = HALO.replace("{\n", f"{{\n    {guard}\n", 1)
    made = laid_open(text)
    assert names(made) == ["heed_conditions"]
    assert "else" not in text_of(interchanged(made, text))


def test_an_enclosing_condition_and_values_of_locals_count() -> None:
    around = HALO.replace(
        "    for (int i", "    const int edge = halo + 1;\n    if (edge > 1)\n    for (int i"
    )
    assert names(laid_open(around)) == ["heed_conditions"]
    other = around.replace("if (edge > 1)", "if (edge <= 1) a[0] = 1.0f; else")
    assert names(laid_open(other)) == ["heed_conditions"]


@pytest.mark.parametrize(
    "before",
    [
        "if (halo < 1) return; halo = m - 9;",
        "again: if (halo < 1) goto done; done:",
        "if (halo < 1) a[0] = 1.0f;",
        "unsigned k = 3; if (halo < k) return;",
        "if (halo < 1 && n > 3) return;",
        "int *p = &halo; if (halo < 1) return; *p = m;",
        "short s = halo; if (s < 1) return;",
    ],
)
def test_uncertain_conditions_are_no_facts(before: str) -> None:
    text = HALO.replace("{\n", f"{{\n    {before}\n", 1)
    assert "heed_conditions" not in names(laid_open(text))


@pytest.mark.parametrize(
    "after",
    ["stream >> halo;", "Changing c = halo;", "(m > 3 ? halo : m) = n;", "std::cin >> n >> halo;"],
)
def test_cpp_calls_that_may_change_a_number_void_facts(after: str) -> None:
    def text(then: str) -> str:
        return '#include "stream.h"\n' + HALO.replace(
            "{\n", f"{{\n    if (halo < 1) return;\n    {then}\n", 1
        )

    assert names(laid_open(text("int c = halo;"), language="c++"))[0] == "heed_conditions"
    assert names(laid_open(text(after), language="c++")) == []


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("int *p; p = &halo;", "*p = m;"),
        ("keep(&halo);", "change();"),
        ("int &p = halo;", "p = m;"),
        ("auto g = [&] { halo = m; };", "g();"),
    ],
)
def test_aliased_names_outside_the_region_are_no_facts(before: str, inside: str) -> None:
    def text(before: str, inside: str) -> str:
        head = f"{{\n    {before}\n    /* EVOLVE-BLOCK-START */\n    if (halo < 1) return;\n    {inside}\n"
        return HALO.replace("{\n", head, 1).replace("\n}", "\n    /* EVOLVE-BLOCK-END */\n}")

    assert names(laid_open(text("int p = halo;", "a[0] = p;"), language="c++")) == ["heed_conditions"]
    assert "heed_conditions" not in names(laid_open(text(before, inside), language="c++"))


@pytest.mark.parametrize("after", ["SET(halo, m);", "a[0] = NEXT(halo);"])
def test_possible_macros_may_change_their_arguments(after: str) -> None:
    text = HALO.replace("{\n", f"{{\n    if (halo < 1) return;\n    {after}\n", 1)
    assert names(laid_open('#include "set.h"\n' + text)) == []
    known = "void SET(int, int);\nint NEXT(int);\n"
    assert names(laid_open(known + text)) == ["heed_conditions"]


def test_a_version_rests_on_numbers_that_stay() -> None:
    text = HALO.replace("j++)\n", "j++) {\n halo = m;\n").replace("j + 1];", "j + 1]; }")
    edit = {"op": "assume_rows", "function": "f", "loop": "i", "through": "i"}
    with pytest.raises(EditRefused, match="halo"):
        apply_edits(program_of(text, "f"), [edit])


@pytest.mark.integration
@needs.cc
@pytest.mark.parametrize("text", [HALO, WINDOW, SIGNLESS, ENDS], ids=["halo", "window", "signless", "ends"])
def test_both_versions_give_the_same_whatever_the_sizes(text: str, tmp_path: Path) -> None:
    found = moved(text)
    assert len(found) > 2
    assert "assume_rows" in names(found[0])
    assert same(program_of(text, "f"), "f", found, tmp_path, trials=400) == ""


def test_rows_whose_length_is_a_sum_have_versions() -> None:
    text = HALO.replace("* n +", "* (n + 5) +").replace("halo; j", "halo - 9; j")
    made = laid_open(text)
    assert names(made) == ["assume_rows"]
    assert "if (halo >= -2) {" in text_of(made)


@pytest.mark.integration
def test_versions_of_many_loops_hide_none() -> None:
    """What is kept for other sizes does not count as loops that are looked at."""
    nest = "for (int t = 0; t < 3; t++)\n" + HALO[HALO.index("    for (int i") : HALO.rindex("}")]
    text = HALO[: HALO.index("    for (int i")] + "a[0] += 1.0f;\n".join([nest] * 14) + "}\n"
    made = laid_open(text)
    assert names(made).count("assume_rows") == 14
    assert list(places(made.program, "interchange", reassociate=False))


SWEEP = """
void f(float *a, const float *b, int m, PITCH pitch, START lo, LIMIT hi)
{
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < m; i++)
            for (COUNTER j = FROM; j < TO; j++)
                a[ROW + j] = a[ROW + j] * 0.5f + a[ROW + j + 1];
}
"""


def sweep(**parts: str) -> str:
    given = {
        "PITCH": "int",
        "START": "int",
        "LIMIT": "int",
        "COUNTER": "int",
        "FROM": "lo",
        "TO": "hi",
    } | parts
    text = SWEEP.replace("ROW", given.pop("ROW", "i * pitch"))
    for word, kind in given.items():
        text = text.replace(word, kind)
    return text


@pytest.mark.parametrize(
    "parts",
    [
        {"START": "long"},
        {"START": "unsigned"},
        {"START": "size_t", "COUNTER": "unsigned"},
        {"COUNTER": "short"},
        {"COUNTER": "index"},
        {"COUNTER": "unsigned char"},
        {"START": "long", "FROM": "(int)lo"},
        {"LIMIT": "long", "TO": "(int)hi"},
        {"PITCH": "long", "ROW": "i * (int)pitch"},
    ],
)
def test_numbers_that_a_type_cuts_off_have_no_versions(parts: dict[str, str]) -> None:
    assert names(laid_open(sweep())) == ["assume_rows"]
    text = "#include <stddef.h>\ntypedef short index;\n" + sweep(**parts)
    assert "assume_rows" not in names(laid_open(text))
    held = text.replace("    for (int t", "    if (pitch < 9 || lo < 1 || hi > 5) return;\n    for (int t")
    assert "heed_conditions" not in names(laid_open(held))


def test_a_constant_that_may_not_hold_its_value_is_no_fact() -> None:
    text = sweep(START="long").replace("    for (int t", "    const int low = lo;\n    for (int t")
    assert names(laid_open(text.replace("j = lo", "j = low"))) == []


def test_rows_that_are_multiplied_without_sign_are_asked_to_be_short() -> None:
    """Of rows of 2^31 numbers every other one begins at the same place."""
    text = sweep(PITCH="unsigned", ROW="2 * i * pitch", FROM="0")
    made = laid_open(text)
    assert names(made) == ["assume_rows"]
    assert "&& pitch <= 16777216) {" in text_of(made)
    guarded = text.replace("    for (int t", "    if (hi > 9 || pitch < 20) return;\n    for (int t")
    assert "heed_conditions" not in names(laid_open(guarded))
    short = guarded.replace("pitch < 20", "pitch < 20 || pitch > 4000")
    assert names(laid_open(short)) == ["heed_conditions"]


def test_a_bound_that_loses_its_sign_beside_a_literal_is_asked_for() -> None:
    made = laid_open(sweep(START="int", FROM="lo + 0u", COUNTER="long"))
    assert "lo >= 0" in text_of(made)


@pytest.mark.parametrize(
    "edit",
    [
        {"op": "reverse", "loop": "i"},
        {"op": "unroll_and_jam", "loops": ["i"], "parameters": [{"name": "J", "values": [2], "default": 2}]},
    ],
)
def test_a_loop_does_not_begin_or_end_where_its_counter_cannot_be(edit: dict[str, object]) -> None:
    """A limit of -2^32 and less is none that a loop reaches."""
    text = """
void f(float *a, const float *b, int n, int m)
{
    for (int i = 3; i < (n < m ? n : m); i++)
        for (int j = 0; j < 8; j++)
            a[8 * i + j] += b[j];
}
"""
    whole = {**edit, "function": "f"}
    apply_edits(program_of(text, "f"), [whole])
    with pytest.raises(EditRefused, match="may not hold"):
        apply_edits(program_of(text.replace("int n, int m", "long n, long m"), "f"), [whole])
