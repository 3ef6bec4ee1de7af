"""Sums in several vectors, however they are written; variables that grow evenly, computed from the counter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest
from same_results import program_of

from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

HEAD = """\
#include <stdio.h>
static double one = 1.0, coefficients[3] = {0.5, 0.25, 0.125};
static float small[64], other[64];
double f(int n, double x, const double *a, double *out)
{
    double s = 0.0, v = 0.25, u;
"""
MAIN = """\
int main(void)
{
    double a[64], out[64];
    for (int i = 0; i < 64; i++) a[i] = 0.5 + i % 7, small[i] = 0.1f * i, other[i] = 1.0f / (i + 3);
    for (int n = 0; n < 40; n += 3) {
        for (int i = 0; i < 64; i++) out[i] = 0;
        double s = f(n, 0.125, a, out);
        for (int i = 0; i < 64; i++) s += out[i] * (i + 1);
        printf("%.17g\\n", s);
    }
    return 0;
}
"""
SUMS = {
    "first": "for (int i = 1; i <= n - 1; i++) { v = v + one; u = v * x; s = s + u * (one - u * v); }",
    "last": "for (int i = 0; i < n; i++) { double w = v * x; s = w + s; v += x; }",
    "between": "for (int i = 0; i < n; i++) { double w = v * v; v = x + v; s = s + w - v * x; }",
    "down": "for (int i = 3; i < n; i++) { v -= x; s -= v * v; }",
    "behind": "for (int i = n / 2; i < n; i++) { v = v - x; s += v; } s += v;",
    "again": "for (int t = 0; t < 3; t++) { for (int i = 0; i < n; i++) { v += x; s = s + v * v; } s *= 0.5; }",
    "stored": "for (int i = 0; i < n; i++) { out[i] = v * a[i]; v = v + 0.5; } s = v;",
    "kept": "for (int i = 0; i < n; i++) { v = v + x * 2.0; s += v * coefficients[1]; out[i] = s; }",
}
REFUSED = {
    "by what changes": "for (int i = 0; i < n; i++) { v = v + a[i]; s += v * v; }",
    "now and then": "for (int i = 0; i < n; i++) { if (a[i] > 1) v = v + x; s += v * v; }",
    "twice": "for (int i = 0; i < n; i++) { v = v + x; s += v * v; v = v + x; }",
    "by itself": "for (int i = 0; i < n; i++) { v = v + v; s += v; }",
    "what a store may change": "for (int i = 0; i < n; i++) { v = v + one; out[i] = v; }",
    "led to": "double *p = &v; for (int i = 0; i < n; i++) { v = v + x; *p = 1; s += v; }",
    "by two": "for (int i = 0; i < n; i += 2) { v = v + x; s += v * v; }",
    "whole numbers": "int k = 0; for (int i = 0; i < n; i++) { k = k + 2; s += k; }",
    "the file's": "for (int i = 0; i < n; i++) { one = one + x; s += one * one; }",
}


def program(body: str) -> tuple[str, Program]:
    text = HEAD + body + "\n    return s;\n}\n" + MAIN
    files = (Source(name="k.c", text=text),)
    kernel = Kernel(name="f", entry="f", language="c", folder="/", variant=Variant(files=files))
    return text, read_program(kernel)


def everywhere(given: Program, *names: str) -> Applied:
    """Operators one after the other, each wherever it applies the first time."""
    edits: list[dict[str, object]] = []
    for name in names:
        function = apply_edits(given, edits).program.functions["f"]
        for site in OPERATORS[name].sites(function, True):
            edit = {"op": name, "function": "f", **site}
            try:
                apply_edits(given, [*edits, edit])
            except EditRefused:
                continue
            edits.append(edit)
            break
        else:
            raise AssertionError(f"{name} applies nowhere")
    return apply_edits(given, edits)


def said(text: str, folder: Path, *flags: str) -> list[float]:
    (folder / "k.c").write_text(text)
    subprocess.run(["cc", "-O1", "-w", *flags, "k.c", "-o", "k"], cwd=folder, check=True)
    done = subprocess.run([folder / "k"], capture_output=True, check=True, text=True)
    return [float(line) for line in done.stdout.split()]


@needs.cc
@pytest.mark.parametrize("name", SUMS)
def test_values_that_grow_evenly_come_from_the_counter(name: str, tmp_path: Path) -> None:
    text, given = program(SUMS[name])
    made = everywhere(given, "from_counter")
    shown = made.variant.files[0].text
    assert "v_now" in shown or "v_before" in shown
    wanted = said(text, tmp_path)
    assert len(set(wanted)) > 10
    assert said(shown, tmp_path) == pytest.approx(wanted, rel=1e-12)


@needs.cc
@pytest.mark.parametrize("name", ["first", "last", "between", "down", "behind", "again"])
@pytest.mark.parametrize("lanes", [2, 8])
def test_its_iterations_run_in_vectors_then(name: str, lanes: int, tmp_path: Path) -> None:
    text, given = program(SUMS[name])
    opened = everywhere(given, "separate_values") if "u" in SUMS[name].split() else None
    names = [*(["separate_values"] if opened else []), "from_counter", "partial_sums"]
    made = everywhere(given, *names)
    values = [f"-D{p.name}={lanes if p.name.startswith('LANES') else 2}" for p in made.parameters]
    assert said(made.variant.files[0].text, tmp_path, *values) == pytest.approx(
        said(text, tmp_path), rel=1e-12
    )


WIDENED = {
    "stores beside": "for (int i = 1; i < n; i++) { double w = a[i] - a[i - 1]; s += w * w; out[i] = w + x; }",
    "both": "for (int i = 0; i < n; i++) s += (double)small[i] * (double)other[i];",
    "one": "for (int i = 0; i < n; i++) s = s + small[i + 1] * a[i] * 0.5;",
    "the same for all": "for (int i = 0; i < n; i++) s -= (double)small[3] * a[i];",
}


@needs.cc
@pytest.mark.parametrize("name", WIDENED)
@pytest.mark.parametrize("lanes", [2, 8])
def test_sums_are_of_a_wider_type_than_what_they_add_up(name: str, lanes: int, tmp_path: Path) -> None:
    text, given = program(WIDENED[name])
    made = everywhere(given, "partial_sums")
    values = [f"-D{p.name}={lanes if p.name.startswith('LANES') else 2}" for p in made.parameters]
    assert said(made.variant.files[0].text, tmp_path, *values) == pytest.approx(
        said(text, tmp_path), rel=1e-12
    )


@pytest.mark.parametrize(
    "value", ["small[i] * other[i]", "(double)(small[i] * other[i])", "one + small[2 * i]"]
)
def test_arithmetic_in_a_narrow_type_keeps_its_type(value: str) -> None:
    _, given = program(f"for (int i = 0; i < n; i++) s += {value};")
    with pytest.raises(AssertionError, match="applies nowhere"):
        everywhere(given, "partial_sums")


TURNED = {
    "gathered": "for (int i = 0; i < n; i++) s += a[(i * 7) % 64] * x;",
    "now and then": "for (int i = n / 3; i <= n; i++) { if (a[i] > 2) { s = s + a[i]; } else s -= 0.5; }",
    "two": "for (int i = 0; i < n; i++) { double w = a[i]; s = s - w; v += w * w; out[i] = w; } s += v;",
    "in rows": "int t, i; for (t = 0; t < n; t++) { u = 0; for (i = 0; i < t; i++) u = u + a[i]; out[t] = u; }",
    "named alike": "double s_2 = 1; for (int i = 0; i < n; i++) { s += a[i]; s_2 += a[i] * x; } s += s_2;",
}


@needs.cc
@pytest.mark.parametrize("name", TURNED)
@pytest.mark.parametrize("count", [2, 8])
def test_sums_take_turns(name: str, count: int, tmp_path: Path) -> None:
    text, given = program(TURNED[name])
    sites = [s for s in OPERATORS["several_sums"].sites(given.functions["f"], True) if s["count"] == count]
    (made,) = (apply_edits(given, [{"op": "several_sums", "function": "f", **site}]) for site in sites)
    assert said(made.variant.files[0].text, tmp_path) == pytest.approx(said(text, tmp_path), rel=1e-12)


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < n; i++) { s += a[i]; out[i] = s; }",
        "for (int i = 0; i < n; i++) { s += a[i]; if (s > 9) s = 0; }",
        "for (int i = 0; i < n; i++) { s += a[i] * s; }",
        "double *p = &s; for (int i = 0; i < n; i++) { s += a[i]; v = *p; }",
        "for (int i = 0; i < n; i++) { s *= a[i]; }",
        "int k = 0; for (int i = 0; i < n; i++) k += i;",
        "for (int i = 0; i < n; i++) one += a[i];",
    ],
)
def test_sums_that_something_asks_for_on_the_way_stay(body: str) -> None:
    _, given = program(body)
    assert not list(OPERATORS["several_sums"].sites(given.functions["f"], True))


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_do_not_grow_evenly_stay(name: str) -> None:
    _, given = program(REFUSED[name])
    with pytest.raises(AssertionError, match="applies nowhere"):
        everywhere(given, "from_counter")


def test_the_order_of_additions_is_asked_for() -> None:
    _, given = program(SUMS["down"])
    assert not list(OPERATORS["from_counter"].sites(given.functions["f"], False))
    site = {"op": "from_counter", "function": "f", "loop": "i", "variable": "v"}
    with pytest.raises(EditRefused, match="numerics does not allow"):
        apply_edits(given, [site])


def test_what_grows_within_a_region_has_its_value_behind_it() -> None:
    loop = "    for (int i = 0; i < n; i++) { a[i] = x; x += 0.5; }"
    head = "void f(double *a, double x, int n)\n{\n"
    text = f"{head}    // EVOLVE-BLOCK-START\n{loop}\n    // EVOLVE-BLOCK-END\n    a[0] += x;\n}}\n"
    edit = {"op": "from_counter", "function": "f", "loop": "i", "variable": "x", "reassociate": True}
    made = apply_edits(program_of(text, "f"), [edit]).variant.files[0].text
    assert "x += (double)n * 0.5;" in made
