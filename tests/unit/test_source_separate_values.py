"""Locals that a function uses again for other values, as several locals."""

from __future__ import annotations

import random
from pathlib import Path

import needs
import pytest
from same_results import WRAPPING, program_of, same

from tuner.spaces.source.edits import Applied, EditRefused, apply_edits

EDIT = {"op": "separate_values", "function": "f"}
TILE = {"name": "T", "values": [4], "default": 4}
FLUXES = """\
void f(int n, double *a, double *b)
{
    int i, j;
    for (j = 1; j < n; j++) {
        i = 1;
        a[j] += b[i + 1] * 2;
        i = 2;
        for (int m = 0; m < 5; m++)
            a[j] -= b[i - 1] + m;
        for (i = 3; i < n - 3; i++)
            a[j] *= b[i];
    }
    for (j = 0; j < n; j++)
        b[j] = a[j];
}
"""


def edited(text: str) -> str:
    return apply_edits(program_of(text, "f"), [EDIT]).variant.files[0].text


def test_each_value_and_each_loop_has_a_variable_of_its_own() -> None:
    text = edited(FLUXES)
    for line in (
        "    int j;\n    for (j = 1; j < n; j++) {",
        "        const int i_2 = 1;\n        a[j] += b[i_2 + 1] * 2;",
        "        const int i_3 = 2;\n",
        "            a[j] -= b[i_3 - 1] + m;",
        "        for (int i = 3; i < n - 3; i++) {",
    ):
        assert line in text
    assert "int i;" not in text


def test_loops_are_open_to_other_operators_then() -> None:
    tiled = {"op": "strip_mine", "function": "f", "loops": ["i"], "parameters": [TILE]}
    with pytest.raises(EditRefused, match="i is used outside its loops"):
        apply_edits(program_of(FLUXES, "f"), [tiled])
    assert apply_edits(program_of(FLUXES, "f"), [EDIT, tiled])


FOUND = """\
void f(int n, int *a, int *b)
{
    int k;
    for (k = 0; k < n; k++)
        a[k] = b[k] * 2;
    for (k = 0; k < n; k++)
        if (b[k] < 0) break;
    a[k & 15] = 1;
}
"""


def test_loops_beside_one_whose_counter_is_used_have_one_of_another_name() -> None:
    text = edited(FOUND)
    assert (
        "    for (int k_2 = 0; k_2 < n; k_2++) {\n        a[k_2] = b[k_2] * 2;\n    }\n    for (k = 0;"
        in text
    )
    strips = {"op": "strip_mine", "function": "f", "loops": ["k"], "parameters": [TILE]}
    assert apply_edits(program_of(FOUND, "f"), [EDIT, strips])


BODIES = {
    "for (i = 0; i < n; i++) a[i] = 1; b[0] = i;": "what it counted to is used",
    "for (int j = 0; j < n; j++) { b[j] = i; for (i = 0; i < 4; i++) a[i] = 1; }": "by the next round",
    "for (i = 0; i < n; i++) a[i] = 1; if (n > 2) i = 1; b[0] = i;": "where there is no other value",
    "for (i = 0; i < n; i++) { a[i] = 1; if (a[i] > 2) break; } i += 1; b[0] = i;": "where it ends early",
    "for (i = 0; i < n; i++) a[i] = 1; i = g(&i); b[i] = 1;": "its address is known",
    "for (i = 0; i < n; i++) a[i] = 1; again: i = 1; if (b[i] > 2) goto again;": "there are jumps",
}


@pytest.mark.parametrize("body", BODIES)
def test_a_variable_that_is_used_again_stays_one(body: str) -> None:
    text = f"void f(int n, double *a, double *b)\n{{\n    int i = 0;\n    {body}\n}}\n"
    with pytest.raises(EditRefused, match="no local has values that could be apart"):
        edited(text)


def rounds(body: str, locals_: str = "float t;", after: str = "") -> str:
    """A function that does something in each round of a loop."""
    head = "float f(float *a, const float *b, int n)"
    return f"{head}\n{{\n    {locals_}\n    for (int i = 0; i < n; i++) {{ {body} }}\n    {after}\n}}\n"


IN_ROUNDS = {
    "t = b[i]; a[i] = t * t;": "float t = b[i];",
    "if (b[i] > 0) { t = b[i]; a[i] = t; } else { t = 1; a[i] = -t; }": "float t = 1;",
    "for (int j = 0; j < 4; j++) { t = b[j]; a[j] += t; } for (int j = 0; j < 9; j++) { t = 2; a[j] -= t; }": (
        "float t = 2;"
    ),
    "t = b[i]; if (t > 2) break; a[i] = t;": "float t = b[i];",
    "t = sqrtf(b[i]); a[i] = t; t = b[i + 1]; a[i] += t;": "float t_3 = b[i + 1];",
}
OVER_ROUNDS = {
    "a[i] = t; t = b[i];": "float t;",
    "t += b[i]; a[i] = t;": "float t;",
    "if (b[i] > 0) t = b[i]; a[i] = t;": "float t;",
    "for (int j = 0; j < i; j++) t = b[j]; a[i] = t;": "float t;",
    "a[i] = t; if (b[i] > 0) { t = b[i]; a[i] -= t; if (t > 2) continue; t = 1; } t = 3;": "float t;",
    "t = b[i]; g(&t); a[i] = t;": "float t;",
    "t = b[i]; a[i] = t;": "static float t;",
    't = b[i]; asm("" : : "x"(t)); a[i] = t;': "float t;",
    "t = b[i]; if (t > 2) goto end; a[i] = t; end:;": "float t;",
}


@pytest.mark.parametrize("body", IN_ROUNDS)
def test_a_local_that_each_round_gives_a_value_is_declared_there(body: str) -> None:
    text = edited(rounds(body))
    assert IN_ROUNDS[body] in text
    assert "\n    float t;" not in text


@pytest.mark.parametrize("body", OVER_ROUNDS)
def test_values_that_another_iteration_may_see_stay_where_they_are(body: str) -> None:
    with pytest.raises(EditRefused, match="no local has values that could be apart"):
        edited(rounds(body, OVER_ROUNDS[body]))


def test_a_local_that_is_returned_stays_where_the_return_sees_it() -> None:
    with pytest.raises(EditRefused, match="no local has values that could be apart"):
        edited(rounds("t = b[i]; a[i] = t;", after="return t;"))


ROWS = """\
void f(int n, double *a, double *b)
{
    int i, j;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            a[i * n + j] = 0;
    for (i = 0; i < n; i++)
        for (j = 0; j < n; j++)
            b[i * n + j] = a[j * n + i];
}
"""


def test_loops_that_an_edit_copies_leave_the_others_open_to_operators() -> None:
    tiled = {
        "op": "tile",
        "function": "f",
        "loops": ["i", "j"],
        "parameters": [TILE, {**TILE, "name": "U"}],
    }
    other = {"op": "interchange", "function": "f", "loops": ["i#2", "j#2"]}
    text = apply_edits(program_of(ROWS, "f"), [tiled, other]).variant.files[0].text
    assert "int i" not in text.replace("for (int i", "")
    assert text.count("for (int i = ") == 2


NAMES = ("i", "j", "k")


def made(seed: int) -> str:
    """A function whose counters are numbers, too, in many ways."""
    chance = random.Random(seed)
    names = (*NAMES, "t")
    begun = [f"    int {name}{chance.choice((';', f' = {chance.randint(0, 3)};'))}" for name in names]
    first = [f"    {name} = n + {chance.randint(0, 3)};" for name in names]
    lines = ["void f(int n, int *a)", "{", *begun, *first, *_block(chance, (), "    "), "}"]
    return "\n".join(lines) + "\n"


def _block(chance: random.Random, counting: tuple[str, ...], pad: str, *, inside: bool = False) -> list[str]:
    lines: list[str] = []
    free = [name for name in NAMES if name not in counting]
    for _ in range(chance.randint(2, 5)):
        kind, more = chance.random(), pad + "    "
        if kind < 0.4 and free:
            name = chance.choice(free)
            lines.append(
                f"{pad}for ({name} = {chance.randint(0, 2)}; {name} < {chance.randint(2, 5)}; {name}++) {{"
            )
            lines += [*_block(chance, (*counting, name), more, inside=True), f"{pad}}}"]
        elif kind < 0.5 and len(pad) < 20:
            lines += [f"{pad}if ({_value(chance)} % 3) {{", *_block(chance, counting, more, inside=inside)]
            other = chance.random() < 0.5
            lines += [f"{pad}}} else {{", *_block(chance, counting, more, inside=inside)] if other else []
            lines.append(f"{pad}}}")
        elif kind < 0.54 and inside:
            lines.append(f"{pad}if ({_value(chance)} % 4 == 1) {chance.choice(('break', 'continue'))};")
        elif kind < 0.75:
            value, name = _value(chance), chance.choice((*free, "t", "t"))
            lines.append(f"{pad}{name} {chance.choice(('=', '=', '=', '+='))} {value};")
        else:
            lines.append(f"{pad}a[{_value(chance)} & 15] += {_value(chance)};")
    return lines


def _value(chance: random.Random) -> str:
    first, second = chance.choice((*NAMES, "t")), chance.choice((*NAMES, "t", "n"))
    return chance.choice(
        (f"({first} * 3 + {second})", f"({first} + {chance.randint(1, 9)})", first, "2", "n")
    )


def _applied(text: str) -> list[Applied]:
    try:
        return [apply_edits(program_of(text, "f"), [EDIT])]
    except EditRefused:
        return []


@needs.cc
@pytest.mark.integration
def test_functions_compute_what_they_did(tmp_path: Path) -> None:
    made_of = [made(number) for number in range(25)]
    changed = [(text, one) for text in made_of for one in _applied(text)]
    assert len(changed) > 5
    for text, one in changed[:3]:
        assert not same(program_of(text, "f"), "f", [one], tmp_path, trials=20, how=WRAPPING), text


@pytest.mark.parametrize(
    ("operator", "inside", "behind"),
    [
        ("separate_values", "int j; for (j = 0; j < n; j++) a[j] = 1;", "a[j - 1] = 2;"),
        ("separate_values", "int j; for (j = 0; j < n; j++) a[j] = 1;", "j = 0; a[j] = 2;"),
        ("scalar_elements", "double t[2]; t[0] = 1; t[1] = 2; a[0] = t[0];", "a[1] = t[1];"),
    ],
)
def test_what_a_region_declares_for_what_follows_stays(operator: str, inside: str, behind: str) -> None:
    region = f"// EVOLVE-BLOCK-START\n    {inside}\n    // EVOLVE-BLOCK-END"
    text = f"void f(double *a, int n)\n{{\n    {region}\n    {behind}\n}}\n"
    with pytest.raises(EditRefused):
        apply_edits(program_of(text, "f"), [{"op": operator, "function": "f"}])
