"""Regions: what may change, what may not, and putting it back."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import EditRefused, apply_edits, crossover, permitted, without
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.regions import Program, outside_differs, read_program
from tuner.spaces.source.syntax import Cast
from tuner.spaces.source.walks import subtrees

MARKED = """#include <math.h>
/* helper */
static float twice(float x) { return 2.0f * x; }

void f(const float *a, float *b, int n)
{
    int kept = 3;
    // EVOLVE-BLOCK-START
    for (int i = 0; i < n; i++)
        b[i] = a[i] * 0.5f;
    /* between */
    for (int i = 0; i < n; i++)
        b[i] += (float)kept;
    // EVOLVE-BLOCK-END
    b[0] = twice(b[0]);
}
// EVOLVE-BLOCK-START
void g(float *b, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            b[i * n + j] = 1.0f;
}
// EVOLVE-BLOCK-END
int unrelated;
"""
PLAIN = """static int helper(void) { return 1; }
void f(float *b, int n)
{
    for (int i = 0; i < n; i++)
        b[i] = 1.0f;
}
int after;
"""


def read(*texts: str, entry: str = "f") -> Program:
    """A program of files."""
    files = tuple(Source(name=f"f{i}.c", text=t) for i, t in enumerate(texts))
    kernel = Kernel(name="f", entry=entry, language="c", variant=Variant(files=files), folder=".")
    return read_program(kernel)


STRIP = {
    "op": "strip_mine",
    "function": "f",
    "loops": ["i"],
    "parameters": [{"name": "T", "values": [4, 8], "default": 4}],
}


def test_marks_give_regions_in_functions_and_around_them() -> None:
    """Two regions, two functions; only the marked statements of the first."""
    program = read(MARKED)
    assert list(program.functions) == ["f", "g"]
    assert not program.functions["f"].whole
    assert program.functions["g"].whole
    assert [d.name for d in program.functions["f"].outer] == ["kept"]


def test_without_marks_the_entry_is_the_region() -> None:
    """Other functions stay."""
    program = read(PLAIN)
    assert list(program.functions) == ["f"]
    made = apply_edits(program, [STRIP]).variant
    assert made.files[0].text.startswith("static int helper(void) { return 1; }\n#ifndef T")
    assert made.files[0].text.endswith("\nint after;\n")


def test_no_edits_give_the_text_as_it_was() -> None:
    """Layout and comments included."""
    assert apply_edits(read(MARKED, PLAIN), []).variant.files[0].text == MARKED


def test_changed_regions_leave_the_outside_alone() -> None:
    """Byte for byte, also the marks; comments inside stay."""
    program = read(MARKED)
    edits = [
        {"op": "fuse", "function": "f", "loop": "i"},
        {"op": "interchange", "function": "g", "loops": ["i", "j"]},
    ]
    variant = apply_edits(program, edits[1:]).variant
    assert outside_differs(program, variant) == ""
    assert "b[i] = a[i] * 0.5f;\n    /* between */" in variant.files[0].text
    head, _ = MARKED.split("    // EVOLVE-BLOCK-START\n", 1)
    assert variant.files[0].text.startswith(head)
    assert variant.files[0].text.endswith("// EVOLVE-BLOCK-END\nint unrelated;\n")


def test_a_change_outside_is_seen() -> None:
    """With file and line."""
    program = read(MARKED)
    changed = Variant(files=(Source(name="f0.c", text=MARKED.replace("int unrelated", "int related")),))
    assert "f0.c differs outside its regions" in outside_differs(program, changed)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// EVOLVE-BLOCK-START\nvoid f(void) {}\n", "f0.c:1: EVOLVE-BLOCK-START without an end"),
        ("void f(void) {}\n// EVOLVE-BLOCK-END\n", "f0.c:2: EVOLVE-BLOCK-END without a start"),
        ("// EVOLVE-BLOCK-START\n// EVOLVE-BLOCK-START\n", "f0.c:2: EVOLVE-BLOCK-START inside a block"),
        ("void g(void) {}\n", "no definition of 'f'"),
        (
            "void f(int n)\n{\n    for (int i = 0; i < n; i++) {\n// EVOLVE-BLOCK-START\n    n++;\n    }\n"
            "    n--;\n// EVOLVE-BLOCK-END\n}\n",
            "cuts through a statement",
        ),
    ],
)
def test_wrong_marks_are_errors_with_a_place(text: str, message: str) -> None:
    """One line with the cure."""
    with pytest.raises(SpecError) as error:
        read(text)
    assert message in str(error.value)
    assert error.value.hint


def test_text_edits_ignore_white_space_and_never_vanish() -> None:
    """A match that differs in layout counts; none or several are refused."""
    program = read(PLAIN)
    edit = {"op": "text", "search": "b[ i ]=1.0f ;", "replace": "b[i] = 2.0f;"}
    made = apply_edits(program, [edit, STRIP])
    assert "b[i] = 2.0f;" in made.variant.files[0].text
    assert not made.checked
    for search, reason in (
        ("nothing like it", "not in a region"),
        ("helper", "not in a region"),
        ("i", "times"),
    ):
        with pytest.raises(EditRefused, match=reason):
            apply_edits(program, [{"op": "text", "search": search, "replace": "x"}])


def test_text_edits_may_not_move_a_region() -> None:
    """A mark in the new text would."""
    with pytest.raises(EditRefused, match="mark"):
        apply_edits(read(PLAIN), [{"op": "text", "search": "1.0f", "replace": "1.0f; // EVOLVE-BLOCK-END"}])


def test_broken_text_is_kept_as_text() -> None:
    """What does not parse still gives a variant, which the compiler then refuses."""
    made = apply_edits(read(PLAIN), [{"op": "text", "search": "b[i] = 1.0f;", "replace": "b[i = ;"}])
    assert "b[i = ;" in made.variant.files[0].text


def test_crossover_joins_lists_and_renames_tunables() -> None:
    """What is in already is left out, what no longer applies too."""
    program = read(MARKED)
    one = [STRIP]
    two = [
        {**STRIP, "loops": ["i#2"]},
        {"op": "interchange", "function": "g", "loops": ["i", "j"]},
        {"op": "reverse", "function": "g", "loop": "gone"},
    ]
    made = crossover(program, one, two, (1, 0))
    assert [e["op"] for e in made.variant.edits] == ["strip_mine", "strip_mine", "interchange"]
    assert [p.name for p in made.parameters] == ["T", "T_2"]


def test_taking_edits_out_goes_back_to_the_original() -> None:
    """And takes those along that rest on them."""
    program = read(PLAIN)
    edits = [
        STRIP,
        {
            "op": "strip_mine",
            "function": "f",
            "loops": ["i"],
            "parameters": [{"name": "S", "values": [2], "default": 2}],
        },
    ]
    made = apply_edits(program, edits)
    assert without(program, made.variant.edits, {0, 1}).variant.files[0].text == PLAIN
    assert len(without(program, made.variant.edits, {0}).variant.edits) == 1


def test_structure_ignores_names_and_layout() -> None:
    """But not what is computed."""
    renamed = (
        PLAIN.replace("int i", "int  q").replace("i <", "q <").replace("i++", "q++").replace("b[i]", "b[q]")
    )
    assert structure_digest(read(PLAIN)) == structure_digest(read(renamed))
    assert structure_digest(read(PLAIN)) != structure_digest(read(PLAIN.replace("1.0f", "2.0f")))
    other = {**STRIP, "parameters": [{"name": "OTHER", "values": [2, 4], "default": 2}]}
    one, two = (apply_edits(read(PLAIN), [e]).program for e in (STRIP, other))
    assert structure_digest(one) == structure_digest(two)


def test_permission_to_reassociate() -> None:
    """Only where the policy gives it."""
    assert not permitted([{"op": "x", "reassociate": True}], "exact")
    assert permitted([{"op": "x", "reassociate": True}], "reassociate")
    assert permitted([{"op": "x"}], "exact")


HALF = "{\n    for (int i = 0; i < n; i++)\n        b[i] = 1.0f;\n}\n"


@pytest.mark.parametrize(
    ("language", "signature"),
    [
        ("c", "struct s { float x; }; void f(float *b, int n)\n"),
        ("c++", 'extern "C" void f(float *b, int n)\n'),
        ("c++", "template <typename U> void f(float *b, U n)\n"),
        ("c++", 'extern "C" {\nvoid f(float *b, int n)\n'),
    ],
)
def test_tunables_begin_a_line_wherever_the_function_does(language: str, signature: str) -> None:
    """What stands around a definition stays with it: it once lost its linkage to the tunables' lines."""
    text = signature + HALF + ("}\n" if "{\n" in signature else "")
    program = program_of(text, "f", language)
    made = apply_edits(program, [STRIP]).variant.files[0].text
    lines = made.splitlines()
    assert "#ifndef T" in lines
    assert signature.splitlines()[-1].split("; ")[-1] in made
    assert outside_differs(program, apply_edits(program, [STRIP]).variant) == ""


def test_a_changed_signature_keeps_its_type() -> None:
    """A name that is part of the type's once cut it off."""
    text = (
        "float f(const float *a, int n)\n{\n    float s = 0.0f;\n"
        "    for (int i = 0; i < n; i++)\n        s += a[i];\n    return s;\n}\n"
    )
    made = apply_edits(read(text), [{"op": "restrict", "function": "f"}]).variant.files[0].text
    assert made.startswith("float f(const float *restrict a, int n)\n{\n")


def test_tunables_have_one_name_in_the_whole_program() -> None:
    """Two functions once both got a TILE_I, and two definitions of one vector type."""
    other = {**STRIP, "function": "g"}
    with pytest.raises(EditRefused, match="the name T is taken"):
        apply_edits(read(MARKED), [STRIP, other])


@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_variable_in_parentheses_is_no_type(language: str) -> None:
    """``(i) + (j) * n``, as macros write a subscript, was read as a cast to a type called ``i``: renaming missed it."""
    text = (
        "static int k;\ntypedef float real;\nint f(real *x, int n) { for (int i = 0; i < n; i++) x[%s] = 1; }"
    )
    for written, meant in (
        ("(i) + (k) * n", "i + k * n"),
        ("((i) - (n) * (k))", "i - n * k"),
        ("(i) + ((k) + (n) * k) * n", "i + (k + n * k) * n"),
        ("(k) & (i) * 2", "k & i * 2"),
    ):
        read = [program_of(text % t, "f", language).functions["f"].body for t in (written, meant)]
        assert read[0] == read[1]
    (loop,) = program_of(text % "(int)+(real)+(i) * 2", "f", language).functions["f"].body
    assert {n.type for n in subtrees(loop) if isinstance(n, Cast)} == {"int", "float"}


PART = """\
int f(int n, double *a)
{
    int i, k = 0;
    %s
    // EVOLVE-BLOCK-START
    for (i = 0; i < n; i++)
        a[i] = 1;
    for (i = 0; i < n; i++)
        a[i] += 2;
    // EVOLVE-BLOCK-END
    %s
}
"""
STRIPS = [
    {"op": "strip_mine", "function": "f", "loops": [loop], "parameters": [size]}
    for loop, size in (
        ("i", {"name": "T", "values": [4], "default": 4}),
        ("i#2", {"name": "U", "values": [4], "default": 4}),
    )
]
FORGOTTEN = {
    "nothing asks for it": ("", "return k;"),
    "another loop begins anew": ("", "for (i = 0, k = 1; i < n; i++) a[i] *= 2; return k;"),
    "it is given a value": ("", "i = 3 * n; a[0] = i; return k;"),
}
KEPT = {
    "it is returned": ("", "return i;"),
    "it goes on from there": ("", "for (; i > 0; i--) a[i - 1] *= 2; return k;"),
    "it is given a value at times": ("", "if (n > 3) i = 0; return i;"),
    "its value comes from itself": ("", "i = i + 1; return k;"),
    "the next round asks for it": ("for (k = 0; k < 2; k++) { a[k] = i;", "} return k;"),
    "its address is known": ("int *p = &i;", "return *p;"),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_counter_from_outside_is_the_regions_where_nothing_asks_for_it_behind(name: str) -> None:
    text = apply_edits(program_of(PART % FORGOTTEN[name], "f"), STRIPS).variant.files[0].text
    assert text.count("for (int i = i_tile") == 2


@pytest.mark.parametrize("name", KEPT)
def test_a_counter_that_is_asked_for_behind_the_region_keeps_its_value(name: str) -> None:
    with pytest.raises(EditRefused, match="i is used outside its loops"):
        apply_edits(program_of(PART % KEPT[name], "f"), STRIPS[:1])
