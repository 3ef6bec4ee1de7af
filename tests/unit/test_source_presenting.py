"""What a patch shows: the file's own layout around what changed, and a source that compiles to the same code."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from same_results import program_of

from tuner.core.expressions import parse
from tuner.core.types import Kernel, Launch, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import Applied, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.presenting import without_leftovers
from tuner.spaces.source.regions import read_program

HEAD = "void scale(const float *from, float *to, const float *factors, const float *offsets, int rows, int columns)"
BODY = """{
    for (int y = 1; y < rows - 1; y++) {
        for (int x = 1; x < columns - 1; x++)
            to[y * columns + x] = factors[x] * from[y * columns + x] + offsets[x];
    }
}
"""
LONG = f"#include <stddef.h>\n\n/* Each column\n * by its factor. */\n{HEAD}\n{BODY}"
SHORT = """// Each column by its factor.
void scale(
    const float *from, // rows
    float *to) {
    for (int y = 1; y < 31; y++) {
        for (int x = 1; x < 32; x++)
            to[y * 33 + x] = 2.0f * from[y * 33 + x];
    }
}
"""
TWO = f"""static int other;
// EVOLVE-BLOCK-START
/* The first. */
{LONG.partition("*/")[2].strip()}

/* The second. */
{HEAD.replace("scale", "more")}
{BODY.strip()}
// EVOLVE-BLOCK-END
"""


def made(text: str, *ops: str) -> tuple[Applied, str, str]:
    """A variant by some operators at all their first places, its text as built, and as shown."""
    program = program_of(text, "scale")
    edits: list[dict[str, object]] = []
    for op in ops:
        for label, function in apply_edits(program, edits).program.functions.items():
            site = next(iter(OPERATORS[op].sites(function, False)))
            taken = {p["name"]: f"{p['name']}_{label}" for p in site.get("parameters", ())}
            named = [{**p, "name": taken[p["name"]].upper()} for p in site.get("parameters", ())]
            edits.append({"op": op, "function": label, **site, **({"parameters": named} if named else {})})
    found = apply_edits(program, edits)
    return found, found.program.sources()[0].text, found.program.sources(presentable=True)[0].text


def code(text: str, folder: Path) -> bytes:
    """Assembly of a file."""
    source = folder / "f.c"
    source.write_text(text)
    command = [find_toolchain().clang, "-O2", "-fno-ident", "-S", "-o", "-", str(source)]
    return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.mark.parametrize("text", [LONG, SHORT, TWO], ids=["long", "short", "two"])
def test_presented_source_is_the_built_source(text: str, tmp_path: Path) -> None:
    _, built, shown = made(text, "unroll_and_jam", "restrict")
    assert built != shown
    assert code(built, tmp_path) == code(shown, tmp_path)


def test_tunables_stand_above_the_comment_and_a_long_head_is_filled() -> None:
    _, _, shown = made(LONG, "unroll_and_jam", "restrict")
    assert "#endif\n\n/* Each column\n * by its factor. */\nvoid scale(const float *restrict from" in shown
    assert "#include <stddef.h>\n\n#ifndef" in shown
    assert "factors,\n           const float *restrict offsets, int rows, int columns)\n{" in shown
    assert "rows - 2) %" in shown
    assert "- 1 - 1" not in shown


def test_a_head_that_fits_keeps_its_lines_and_braces() -> None:
    _, _, shown = made(SHORT, "restrict")
    assert shown.startswith(
        "// Each column by its factor.\nvoid scale(\n    const float *restrict from, // rows\n"
    )
    assert "    float *restrict to) {\n" in shown


def test_each_function_of_a_region_has_its_own() -> None:
    _, _, shown = made(TWO, "unroll_and_jam")
    first, second = shown.index("#ifndef JAM_Y_SCALE"), shown.index("#ifndef JAM_Y_MORE")
    assert shown.index("BLOCK-START") < first < shown.index("/* The first. */") < shown.index("void scale(")
    assert shown.index("void scale(") < second < shown.index("/* The second. */") < shown.index("void more(")
    assert shown.endswith("}\n// EVOLVE-BLOCK-END\n")


@pytest.mark.parametrize("unit", ["  ", "\t", "   "], ids=["two", "tab", "three"])
@pytest.mark.parametrize("text", [LONG, SHORT], ids=["long", "short"])
def test_lines_are_indented_as_the_function_was(text: str, unit: str, tmp_path: Path) -> None:
    """A patch of a file in steps of two changed every line to steps of four."""
    _, built, shown = made(text.replace("    ", unit), "unroll_and_jam", "restrict")
    _, _, fours = made(text, "unroll_and_jam", "restrict")
    assert shown.partition("{\n")[2] == fours.partition("{\n")[2].replace("    ", unit)
    assert code(built, tmp_path) == code(shown, tmp_path)


def test_statements_between_marks_keep_their_level() -> None:
    marked = LONG.replace("for (int y", "// EVOLVE-BLOCK-START\n    for (int y").replace(
        "    }\n}", "    }\n    // EVOLVE-BLOCK-END\n}"
    )
    for unit in ("    ", "  ", "\t"):
        _, _, shown = made(marked.replace("    ", unit), "unroll_and_jam")
        loop = next(line for line in shown.splitlines() if line.lstrip().startswith("for (int y"))
        inner = next(line for line in shown.splitlines() if line.lstrip().startswith("for (int x"))
        assert loop.startswith(f"{unit}for")
        assert inner.startswith(f"{unit * 2}for")


def test_a_function_inside_a_class_or_namespace_keeps_its_level() -> None:
    inside = (
        "namespace far {\n" + "".join(f"  {line}\n" for line in LONG.split("*/\n")[1].splitlines()) + "}\n"
    )
    variant = Variant(files=(Source(name="f.cc", text=inside),))
    kernel = Kernel(name="f", entry="far::scale", language="c++", variant=variant, folder=".")
    program = read_program(kernel)
    ((label, function),) = program.functions.items()
    site = next(iter(OPERATORS["unroll_and_jam"].sites(function, False)))
    found = apply_edits(program, [{"op": "unroll_and_jam", "function": label, **site}])
    shown = found.program.sources(presentable=True)[0].text
    assert "\n      for (int y" in shown
    assert shown.endswith("\n  }\n}\n")


HELPED = """#include <math.h>

/* Half of one and all of the other. */
static inline float mixed(float a, float b)
{
    return half_of(a) + b;
}

static float alone(float a) { return a; }
float shown(float a) { return a; }

// What it does.
static float kept(float a) { return sqrtf(a); }
void scale(const float *from, float *to, int n)
{
    for (int i = 0; i < n; i++) {
        float v = mixed(from[i], shown(2.0f));
        to[i] = kept(v);
    }
}
""".replace("/* Half", "static float half_of(float a) { return a * 0.5f; }\n\n/* Half")


@needs.cc
def test_functions_that_nothing_uses_any_more_are_left_out(tmp_path: Path) -> None:
    """With their comments, and with what only they used; not what nothing used before or others may call."""
    program = program_of(HELPED, "scale")
    calls = [{"op": "inline_call", "function": "scale", "call": c} for c in ("mixed", "half_of", "shown")]
    made = apply_edits(program, calls).program
    (shown,) = without_leftovers(made.sources(presentable=True), program.sources(), "c")
    assert "mixed(" not in shown.text
    assert "half_of(" not in shown.text
    assert "Half of one" not in shown.text
    assert shown.text.startswith("#include <math.h>\n\nstatic float alone(float a)")
    assert "\nfloat shown(float a)" in shown.text
    assert "// What it does.\nstatic float kept(" in shown.text
    built = made.sources()[0].text
    assert code(built, tmp_path) == code(shown.text, tmp_path)


@pytest.mark.parametrize(
    ("language", "head", "left"),
    [
        ("opencl", "float one(float a)", False),
        ("cuda", "__device__ float one(float a)", False),
        ("cuda", 'extern "C" __device__ float one(float a)', True),
        ("cuda", "__host__ float one(float a)", True),
        ("c++", "template <class T> static T one(T a)", True),
        ("c++", "inline float one(float a)", True),
    ],
)
def test_functions_that_others_may_know_stay(language: str, head: str, left: bool) -> None:
    entry = "float two(float a) {{ return {}; }}\n"
    before, after = (f"{head} {{ return a; }}\n{entry.format(value)}" for value in ("one(a)", "a"))
    given = (Source(name="f", text=before),)
    (shown,) = without_leftovers((Source(name="f", text=after),), given, language)
    assert ("one(" in shown.text) is left


def test_a_head_with_a_long_attribute_has_lines_of_its_own() -> None:
    text = """__kernel void scale(__global const float *from, __global float *to, __global const float *factors, int n)
{
    int i = get_global_id(0);
    if (i >= n) return;
    to[i] = factors[i] * from[i];
}
"""
    variant = Variant(files=(Source(name="f.cl", text=text),))
    kernel = Kernel(name="f", entry="scale", language="opencl", variant=variant, folder=".")
    launch = Launch(grid=(parse("ceil(n / BLOCK_X)"),), block=(parse("BLOCK_X"),))
    program = read_program(kernel, launch=launch)
    made = apply_edits(program, [{"op": "launch_bounds", "function": "scale"}]).program
    shown = made.sources(presentable=True)[0].text
    assert max(map(len, shown.splitlines())) <= 110
    assert shown.startswith("__kernel void __attribute__((reqd_work_group_size(BLOCK_X, 1, 1)))\nscale(")
    built, read = (re.sub(r"[\s{}]", "", each) for each in (made.sources()[0].text, shown))
    assert built == read


def test_functions_of_a_header_stay() -> None:
    """Other programs may include it; those of the source that nothing calls any more are left out."""
    helper = "static int {name}(int a)\n{{\n    return a;\n}}\n"
    header = Source(name="g.h", text=helper.format(name="theirs"))
    start = '#include "g.h"\n' + helper.format(name="ours")
    given = Source(name="f.c", text=start + "int f(void)\n{\n    return ours(theirs(1));\n}\n")
    made = replace(given, text=start + "int f(void)\n{\n    return 1;\n}\n")
    shown = without_leftovers((made, header), (given, header), "c")
    assert [f.text for f in shown] == ['#include "g.h"\nint f(void)\n{\n    return 1;\n}\n', header.text]


def test_marks_of_polyhedral_tools_stay_around_what_they_marked() -> None:
    """Of a loop that is taken apart a ``scop`` would go with the first part, and its end stay."""
    loop = "    for (int i = 0; i < n; i++) {\n        b[i] = 2 * a[i];\n        c[i] = 3 * a[i];\n    }\n"
    text = f"void scale(int *b, int *c, const int *a, int n)\n{{\n#pragma scop\n{loop}#pragma endscop\n}}\n"
    program = read_program(
        Kernel(
            name="f",
            entry="scale",
            language="c",
            variant=Variant(files=(Source(name="f.c", text=text),)),
            folder=".",
        )
    )
    edits = [
        {"op": "restrict", "function": "scale"},
        {"op": "fission", "function": "scale", "loop": "i", "at": 1},
    ]
    shown = apply_edits(program, edits).program.sources(presentable=True)[0].text
    lines = [line.strip() for line in shown.splitlines() if "pragma" in line or "for" in line]
    assert [line.split()[0] for line in lines] == ["#pragma", "for", "for", "#pragma"]
