"""What a patch shows: the file's own layout around what changed, and a source that compiles to the same code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.core.types import Kernel, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import Applied, apply_edits
from tuner.spaces.source.operators import OPERATORS
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
    variant = Variant(files=(Source(name="f.c", text=text),))
    program = read_program(Kernel(name="f", entry="scale", language="c", variant=variant, folder="."))
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
def test_what_is_shown_is_what_was_built(text: str, tmp_path: Path) -> None:
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
