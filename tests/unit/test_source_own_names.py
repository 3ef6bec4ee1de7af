"""A project's own functions with the names of the language's: no operator takes them for what the name says."""

from __future__ import annotations

import pytest
from same_results import edits_of, program_of

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.regions import read_program

BODY = """
void f(PARAMS)
{
    LOCAL
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            a[i * m + j] = NAME(b[i]) * 2.0f + NAME(b[j]);
    for (int i = 0; i < n; i++) if (b[i] > 0.0f) a[i] = NAME(b[i]);
}
"""
PARAMS = "float *a, const float *b, int n, int m"
COUNTING = "static float calls;\nstatic float NAME(float x) { calls += 1; return x + calls; }\n"
POINTED = "static float calls;\nstatic float counting(float x) { calls += 1; return x + calls; }\n"


def text_of(name: str, before: str = "", local: str = "", params: str = PARAMS) -> str:
    text = before + BODY.replace("PARAMS", params).replace("LOCAL", local)
    return text.replace("NAME", name)


HOSTILE = {
    "a function": {"before": COUNTING},
    "a function after its use": {"before": "static float NAME(float x);\n", "params": PARAMS},
    "a pointer to a function": {"params": PARAMS + ", float (*NAME)(float)"},
    "a variable": {"before": POINTED, "local": "float (*NAME)(float) = counting;"},
    "a variable of the file": {"before": POINTED + "static float (*NAME)(float) = counting;\n"},
}


@pytest.mark.parametrize("name", ["fabsf", "sqrtf", "abs", "exp"])
@pytest.mark.parametrize("how", HOSTILE)
def test_an_own_function_is_like_any_of_which_nothing_is_known(name: str, how: str) -> None:
    after = COUNTING.replace("NAME", name) if "after" in how else ""
    own = program_of(text_of(name, **HOSTILE[how]) + after, "f")
    unknown = program_of(text_of("mystery", **HOSTILE[how]) + after.replace(name, "mystery"), "f")
    assert edits_of(own) == edits_of(unknown)
    assert edits_of(own) != edits_of(program_of(text_of(name), "f"))


@pytest.mark.parametrize(
    "macro",
    ["#define NAME(x) (calls += 1, (x) + calls)\n", "#define NAME counting\n", "#define NAME(x) next(x)\n"],
)
def test_an_own_macro_is_like_any_of_which_nothing_is_known(macro: str) -> None:
    before = POINTED + macro
    own, unknown = (edits_of(program_of(text_of(name, before), "f")) for name in ("fabsf", "mystery"))
    assert own == unknown


@pytest.mark.parametrize("where", ["another file", "a header"])
def test_definitions_of_other_files_count(where: str) -> None:
    files = (Source(name="f.c", text='#include "own.h"\n' + text_of("fabsf")),)
    own = Source(name="own.h" if where == "a header" else "own.c", text=COUNTING.replace("NAME", "fabsf"))
    kernel = Kernel(
        name="f",
        entry="f",
        language="c",
        variant=Variant(files=files if where == "a header" else (*files, own)),
        folder=".",
        headers=(own,) if where == "a header" else (),
    )
    assert edits_of(read_program(kernel)) != edits_of(program_of(text_of("fabsf"), "f"))


@pytest.mark.parametrize(
    ("before", "own"),
    [
        ("// fma is slow, and fabsf\n/* fabsf */ float g(float x) { return expf(x); }\n", False),
        ('using std::fabsf;\nvoid say(void) { puts("fabsf"); }\n', False),
        ("float fabsf(float); float g(float x) { return x * fabsf(x); }\n", False),
        ("template <class T> T fabsf(T a) { return a < 0 ? -a : a; }\n", True),
        ("namespace own { float fabsf(float x) { return x; } }\n", True),
        ("float own::fabsf(float x) { return x; }\n", True),
        ("float (*fabsf)(float);\n", True),
    ],
)
def test_what_defines_a_name(before: str, own: bool) -> None:
    known, found = (edits_of(program_of(text_of("fabsf", text), "f", "c++")) for text in ("", before))
    assert (found != known) is own
