"""Texts that mean something else than they seem to: what is configured or called stays what the compiler sees."""

from __future__ import annotations

import pytest

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.regions import read_program

CONFIGURED = {"op": "configure", "values": {}, "headers": True}
CALL = {"op": "inline_call", "function": "f", "call": "g"}
BRANCHING = {"op": "inline_branching", "function": "f", "call": "g"}
G = "static float g(float a) { return a * 2.0f; }\n"


def made(before: str, lines: str, *edits: dict[str, object], language: str = "c", **headers: str) -> Applied:
    """Edits of a function of three arrays; headers lie beside it."""
    text = f"{before}\nvoid f(float *x, float *y, int *z, int n)\n{{\n    {lines}\n}}\n"
    beside = [Source(name=f"{name}.h", text=t) for name, t in headers.items()]
    variant = Variant(files=(Source(name="f.c", text=text), *beside))
    return apply_edits(
        read_program(Kernel(name="f", entry="f", language=language, variant=variant, folder=".")), edits
    )


def body(found: Applied) -> str:
    """What the function consists of, on one line."""
    text = found.variant.files[0].text
    return " ".join(text[text.index("void f(") :].split()).split("{", 1)[1].rsplit("}", 1)[0].strip()


def refused(
    reason: str, before: str, lines: str, *edits: dict[str, object], language: str = "c", **headers: str
) -> None:
    with pytest.raises(EditRefused, match=reason):
        made(before, lines, *edits, language=language, **headers)


def test_a_guard_that_is_defined_already_keeps_its_header_out() -> None:
    header = "#ifndef H\n#define H\n#define V(p, i) (p[i] * 2.0f)\n#endif\n"
    before = '#define H\n#include "h.h"\n#ifndef V\n#define V(p, i) p[i]\n#endif\n'
    assert body(made(before, "y[0] = V(x, n);", CONFIGURED, h=header)) == "y[0] = V(x, n);"
    assert body(made(before[10:], "y[0] = V(x, n);", CONFIGURED, h=header)) == "y[0] = (x[n] * 2.0f);"


@pytest.mark.parametrize(
    "condition", ["A - 5 > 0u", "(A << 62) > 0", "0xffffffffffffffff < A", "A * 0x7fffffffffffffff > 0"]
)
def test_conditions_in_numbers_without_a_sign_stay(condition: str) -> None:
    """There ``2 - 5`` is more than 0."""
    lines = f"\n#if {condition}\n    y[0] = 1;\n#else\n    y[0] = 2;\n#endif\n"
    found = made(
        "#define B 1", lines + "\n#if A\ny[1] = 1;\n#endif\n", {"op": "configure", "values": {"A": 2}}
    )
    assert f"#if {condition}" in found.variant.files[0].text
    assert "#if A\n" not in found.variant.files[0].text


def test_branches_that_ask_for_a_name() -> None:
    """``#elifdef`` of C23, which compilers take in every C."""
    lines = "\n#ifndef B\n    y[0] = 1;\n#elifdef C\n    y[0] = 2;\n#else\n    y[0] = 3;\n#endif\n"
    refused("#elifdef is not known", "#define B 1\n#define C 1", lines, {"op": "configure", "values": {}})


@pytest.mark.parametrize("macro", ["a (a + 1)", "a b\n#define b a", "a(i) (a(i) + 1)"])
def test_a_macro_about_itself_is_not_replaced(macro: str) -> None:
    """What is left of it would be replaced again."""
    use = "y[0] = a(n);" if "(i)" in macro else "y[0] = a;"
    refused("is about itself", f"static int a;\n#define {macro}", use, CONFIGURED | {"headers": False})


def test_a_pointer_whose_type_has_another_name_is_one() -> None:
    """It may point into any array."""
    before = "typedef float *pointer;"
    loops = "for (int i = 0; i < n; i++) for (int j = 0; j < 3; j++) p[i] = y[i + j];"
    edit = {"op": "interchange", "function": "f", "loops": ["i", "j"]}
    refused("type that is not known", before, f"pointer p = y + 1; {loops}", edit)
    inner = loops.replace("p[i]", "{ pointer p = y + 1; p[i]").replace("j];", "j]; }")
    refused("type that is not known", before, inner, edit)
