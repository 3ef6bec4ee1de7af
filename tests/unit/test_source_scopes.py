"""Locals declared at the top of a function, in the loops that alone use them."""

from __future__ import annotations

import pytest
from same_results import program_of

from tuner.spaces.source.edits import EditRefused, apply_edits

EDIT = {"op": "declare_inside", "function": "f"}


def function(body: str, locals_: str = "float t;") -> str:
    head = "void f(float *a, const float *b, int n)"
    return f"{head}\n{{\n    {locals_}\n    for (int i = 0; i < n; i++) {{\n        {body}\n    }}\n}}\n"


MOVED = {
    "t = b[i]; a[i] = t * t;": "float t = b[i];",
    "if (b[i] > 0) { t = b[i]; a[i] = t; } else { t = 1; a[i] = -t; }": "float t = 1;",
    "for (int j = 0; j < 4; j++) { t = b[j]; a[j] += t; } for (int j = 0; j < 9; j++) { t = 2; a[j] -= t; }": (
        "float t = 2;"
    ),
}
KEPT = {
    "a[i] = t; t = b[i];": "float t;",
    "t += b[i]; a[i] = t;": "float t;",
    "if (b[i] > 0) t = b[i]; a[i] = t;": "float t;",
    "for (int j = 0; j < i; j++) t = b[j]; a[i] = t;": "float t;",
    "t = b[i]; g(&t); a[i] = t;": "float t;",
    "t = b[i]; a[i] = t;": "static float t;",
    "t = 1; a[i] = t; ": "float t = 3;",
    't = b[i]; asm("" : : "x"(t)); a[i] = t;': "float t;",
    "t = b[i]; if (t > 2) goto end; a[i] = t; end:;": "float t;",
}


@pytest.mark.parametrize("body", MOVED)
def test_a_local_that_each_round_gives_a_value_is_declared_there(body: str) -> None:
    text = apply_edits(program_of(function(body), "f"), [EDIT]).variant.files[0].text
    assert MOVED[body] in text
    assert "\n    float t;" not in text


@pytest.mark.parametrize("body", KEPT)
def test_what_another_round_may_see_stays_where_it_is(body: str) -> None:
    with pytest.raises(EditRefused, match="no local could be declared in a loop"):
        apply_edits(program_of(function(body, KEPT[body]), "f"), [EDIT])


def test_a_local_that_is_returned_stays_where_the_return_sees_it() -> None:
    text = (
        "float f(float *a, const float *b, int n)\n{\n    float t;\n"
        "    for (int i = 0; i < n; i++) {\n        t = b[i];\n        a[i] = t;\n    }\n    return t;\n}\n"
    )
    with pytest.raises(EditRefused, match="no local could be declared in a loop"):
        apply_edits(program_of(text, "f"), [EDIT])
