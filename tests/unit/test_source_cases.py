"""A ``switch`` that hides loops, as branches."""

from __future__ import annotations

import contextlib
from pathlib import Path

import needs
import numpy as np
import pytest
from same_results import program_of, same

from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

EDIT = {"op": "cases_to_branches", "function": "f"}
LAYERS = """
enum edge { PERIODIC, FIXED = 3, OPEN };
enum other_edge { REFLECT = 7 };
void f(float *a, const float *b, int n, int m, int mode, short kind)
{
    for (int t = 0; t < 3; t++) {
        switch (mode - t) {
        /* the usual one */
        case PERIODIC:
        case REFLECT: {
            const int k = 2;
            for (int i = 0; i < m; i++)
                for (int j = 0; j < n; j++)
                    a[i * n + j] = b[i * n + j] * k;
            break;
        }
        default:
            for (int i = 0; i < m; i++) {
                if (i == 4)
                    break;
                for (int j = 0; j < n; j++)
                    a[i * n + j] += b[j];
            }
            break;
        case -1: /* nothing */
            break;
        case OPEN:
            if (kind < 0)
                continue;
            a[0] = 1.0f;
        }
        for (int i = 0; i < m; i++)
            a[i] += 0.5f;
    }
    switch (kind) {
    case 5:
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                a[i * n + j] += b[j * m + i];
        return;
    case 0x6:
        for (int i = 0; i < m; i++)
            a[i] *= 0.5f;
    }
}
"""
CHOICE = """
void f(float *a, const float *b, int n, int m, int mode)
{
    BEFORE
    switch (VALUE) {
    case LABEL:
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                a[i * n + j] = b[j * m + i];
        INSIDE
        break;
    default:
        for (int i = 0; i < m; i++)
            a[i * n] *= 0.5f;
    }
}
"""


def choice(
    *, before: str = "", value: str = "mode", label: str = "2", inside: str = "", top: str = ""
) -> str:
    text = CHOICE.replace("BEFORE", before).replace("VALUE", value).replace("LABEL", label)
    return f"{top}\n{text.replace('INSIDE', inside)}"


def in_cpp(text: str) -> Program:
    return program_of(text, "f", "c++")


def after(text: str) -> Applied:
    return apply_edits(program_of(text, "f"), [EDIT])


def test_a_switch_becomes_branches_in_which_loops_are_offered() -> None:
    made = after(LAYERS)
    text = made.variant.files[0].text
    assert "if (mode - t == PERIODIC || mode - t == REFLECT) {" in text
    assert "} else if (mode - t == -1) {" in text
    assert "/* the usual one */" in text
    assert "/* nothing */" in text
    assert "switch" not in text
    swap = {"op": "interchange", "function": "f", "loops": ["i#2", "j"]}
    apply_edits(program_of(LAYERS, "f"), [EDIT, swap])


def test_it_opens_the_way() -> None:
    start = Attempt(
        program=program_of(LAYERS, "f"), edits=(), rng=np.random.default_rng(0), reassociate=False
    )
    made = opened(start, {})
    assert made is not None
    assert made.edits[0]["op"] == "cases_to_branches"


@pytest.mark.parametrize(
    "text",
    [
        choice(inside="a[0] = 1.0f; case 3: a[1] = 1.0f;"),
        choice(inside="if (n > 3) break; a[0] = 1.0f;"),
        choice(inside="{ a[0] = 1.0f; case 3: a[1] = 2.0f; }"),
        choice(inside="if (n > 3) goto out; out: a[0] = 1.0f;"),
        choice(value="n++"),
        choice(value="g(n)"),
        choice(value="other", top="int other;"),
        choice(value="*where", before="volatile int *where = &mode;"),
        choice(label="1L << 32"),
        choice(label="0x100000002"),
        choice(label="2 ... 5"),
        choice(label="TWO", top="#define TWO 2\n#undef TWO\n#define TWO 0x100000002"),
        choice(label="TWO", top="enum { TWO = 0x100000002 };"),
        choice(inside="int k = 3; a[0] = k; break; case 4: k = 5; a[0] = k;"),
        choice(inside="typedef int real; break; case 4: a[0] = (real)2.5f;", top="typedef float real;"),
        choice(
            inside="typedef int real; break; case 4: { real k = 2.5f; a[0] = k; }", top="typedef float real;"
        ),
        choice(inside="\n#if 1\n a[0] = 1.0f;\n#endif\n"),
        choice(inside="LAST; a[0] = 1.0f;", top="#define LAST break"),
        choice(before="for (int t = 0; t < n; t++)", inside="LAST; a[0] = 1.0f;"),
        choice(before="for (int t = 0; t < n; t++)", inside="last(n); a[0] = 1.0f;"),
        choice(inside="a[0] = (real) - a[1];"),
        choice(inside="a[0] = (a[m - 1]) - a[1];"),
        choice(inside="a[0] = (real)(a[1]);"),
    ],
)
def test_switches_with_fallthrough_or_jumps_stay(text: str) -> None:
    assert after(choice())
    with pytest.raises(EditRefused):
        after(text)


def test_sums_in_parentheses_are_no_casts() -> None:
    made = after(
        choice(inside="a[0] = 0.25f * (a[(m - 1) * n] + a[m * (n - 1)]) + b[(1 + m) * n] - (a[1] - b[m]);")
    )
    assert "if (mode == 2) {" in made.variant.files[0].text


def test_switches_over_overloaded_comparisons_stay() -> None:
    own = choice(top="struct kind { int k; operator int() const; bool operator==(int) const; };")
    with pytest.raises(EditRefused, match="may be no number"):
        apply_edits(in_cpp(own.replace("int mode)", "kind mode)")), [EDIT])
    assert "if (mode == 2) {" in apply_edits(in_cpp(choice()), [EDIT]).variant.files[0].text


@pytest.mark.integration
@needs.cc
def test_branches_give_what_the_switch_gave(tmp_path: Path) -> None:
    # The variants lie in one file, where an enumeration may stand once.
    text = LAYERS[LAYERS.index("void f") :]
    for name, value in {"PERIODIC": "0", "OPEN": "4", "REFLECT": "7"}.items():
        text = text.replace(name, value)
    program, found = program_of(text, "f"), [after(text)]
    for name in ("interchange", "tile", "reverse", "unroll_and_jam", "vector_block", "fission", "if_convert"):
        for site in OPERATORS[name].sites(found[0].program.functions["f"], False):
            with contextlib.suppress(EditRefused):
                found.append(apply_edits(program, [EDIT, {"op": name, "function": "f", **site}]))
    assert len(found) > 4
    assert same(program, "f", found, tmp_path, trials=400) == ""
