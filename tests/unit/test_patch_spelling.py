"""Patches of functions behind macros: what no edit touched as its author wrote it, and a stop where that misleads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.evaluators.host.toolchain import find_toolchain
from tuner.search.cooking import edit_at
from tuner.spaces.source.edits import apply_edit, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program
from tuner.spec.load import LoadedSpec, load_spec
from tuner.spec.preprocessed import build_requirement

SPEC = """
kernel: {source: k.c, entry: mm}
arguments:
  - {name: c, dtype: float64, shape: [48, 48], role: inout, init: normal}
  - {name: a, dtype: float64, shape: [48, 48], init: normal}
space:
  source: {evolve: true}
  parameters: {MODE: [1, 0]}
  passes: off
"""
SOURCE = """\
#include <assert.h>
#include "sizes.h"
#define AT(p, i, j) ((p)[(i) * M + (j)])
#define LOG(x) do { last_line = __LINE__; last = (x); } while (0)
#define POW2(x) ((x) * (x))
#ifndef MODE
#define MODE 1
#endif
int last_line; double last;
void mm(double *c, const double *a)
{
	for (int i = 0; i < M; i++)	// rows
		for (int j = 0; j < M; j++)
#ifdef NEGATE
			AT(c,i,j) -= AT(a,j,i);
#elif MODE
			AT(c,i,j) += AT(a,j,i);
#endif
	assert(c  !=  0);	/* "quoted // thing" */
	LOG(AT(c,0,0));
	AT(c, 1, 1) = POW2( AT(c, 1,
			2) ); /* over two lines */
	if (AT(c, 0, 1) > 1e300) { last = 0;  /* not a // comment */ }
	last   +=   POW2(3.0);   last += M;   // two in a line
	for (int k = 0; k < M; k++) {
		// of each
		AT(c, k, 0)   = 0;
#pragma omp simd
		for (int l = 1; l < M; l++) AT(c,k,l) *= 0.5;
	}
}
"""
SIZES = "#ifndef SIZES_H\n#define SIZES_H\n#ifndef M\n# define M 48\n#endif\n#endif\n"
EDITS = [
    {"op": "configure", "values": {"MODE": 1}},
    {"op": "interchange", "function": "mm", "loops": ["i", "j"]},
]


@pytest.fixture
def spec(tmp_path: Path) -> LoadedSpec:
    (tmp_path / "k.c").write_text(SOURCE)
    (tmp_path / "sizes.h").write_text(SIZES)
    (tmp_path / "k.yaml").write_text(SPEC)
    (loaded,) = load_spec(tmp_path / "k.yaml")
    return loaded


def shown(spec: LoadedSpec, above: str = "") -> str:
    made = apply_edits(read_program(spec.task.kernel), EDITS).program
    return made.sources(presentable=True, above=above)[0].text


def after_preprocessor(folder: Path, text: str, *words: str) -> list[str]:
    (folder / "shown.c").write_text(text)
    clang = find_toolchain().clang
    done = subprocess.run(
        [clang, "-E", "-P", *words, folder / "shown.c"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_statements_that_no_edit_touched_are_the_authors(spec: LoadedSpec) -> None:
    text = shown(spec)
    begin, end = SOURCE.index("\tassert"), SOURCE.index("\tLOG")
    assert SOURCE[begin:end] in text
    assert SOURCE[SOURCE.index("\tAT(c, 1, 1)") :] in text
    assert (
        "\tfor (int j = 0; j < M; j++) {\n\t\tfor (int i = 0; i < M; i++) {\n\t\t\tAT(c,i,j) += AT(a,j,i);\n"
        in text
    )


def test_a_line_whose_number_counts_keeps_it(spec: LoadedSpec) -> None:
    """Elsewhere in the file ``__LINE__`` is another number; what a system header makes of it only says where."""
    line = SOURCE[: SOURCE.index("\tLOG")].count("\n") + 1
    assert f"last_line = {line};" in shown(spec)
    assert "LOG(AT" not in shown(spec)


def test_a_patch_comes_to_what_was_built(spec: LoadedSpec, tmp_path: Path) -> None:
    built = apply_edits(read_program(spec.task.kernel), EDITS).program.sources()[0].text
    texts = [
        [token for token in after_preprocessor(tmp_path, text) if not token.startswith(("#", '"'))]
        for text in (built, shown(spec))
    ]
    # Of assert's text only the number of its line differs; the printer writes more brackets.
    plain = ["".join(t).translate(dict.fromkeys(map(ord, "(){}"))) for t in texts]
    before, after = (p[p.index("voidmm") :] for p in plain)
    assert before.partition("__assert_fail")[0] == after.partition("__assert_fail")[0]
    assert before.partition("last_line=")[2] == after.partition("last_line=")[2]


def test_a_build_with_other_values_than_the_patch_was_made_for_stops(
    spec: LoadedSpec, tmp_path: Path
) -> None:
    above = build_requirement(spec.task, spec.tunables, {"MODE": 1})
    assert above == (
        "#if MODE != 1 || M != 48 || defined(NEGATE)\n"
        '#error "this mm was tuned with MODE == 1, with M == 48, without NEGATE"\n'
        "#endif\n"
    )
    text = shown(spec, above)
    assert f"{above}\nvoid mm(" in text
    after_preprocessor(tmp_path, text)
    for words in (["-DM=64"], ["-DNEGATE"], ["-DMODE=0"]):
        with pytest.raises(AssertionError, match="this mm was tuned with MODE == 1, with M == 48"):
            after_preprocessor(tmp_path, text, *words)
        after_preprocessor(tmp_path, SOURCE, *words)


HOSTILE = {
    "steps": "    while (g-- - h) { last = 1; break; }\n    while (g - --h) { last = 2; break; }\n",
    "a string over two lines": '    where = "abc\\\ndef";\n',
    "arguments around an empty line": "    LOG(last,\n\n        2);\n    NAME\n    /* of it */\n        (last);\n",
    "its own line": "    last = __LINE__;\n    where = TEXT(__LINE__);\n",
    "octal numbers": "    for (int k = 0; k < g - 010 - 1; k++) last += k;\n",
    "a counter before a loop": "    int k; k = 0; while (k < 48) { last += a[k]; k++; }\n",
}
AROUND = """\
#include <stddef.h>
#define LOG(x, y) ((x) = (y))
#define NAME(x) ((x) += 1)
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
double last; const char *where;
void mm(double *c, const double *a, int g, int h)
{{
    for (int i = 0; i < 48; i++)
        for (int j = 0; j < 48; j++)
            c[i * 48 + j] += a[j * 48 + i];
{}}}
"""
HOSTILE_SPEC = SPEC.replace(
    "space:",
    "  - {name: g, dtype: int32, value: 9}\n  - {name: h, dtype: int32, value: 8}\nspace:",
).replace("{MODE: [1, 0]}", "{}")


def object_of(folder: Path, text: str) -> bytes:
    (folder / "shown.c").write_text(text)
    clang = find_toolchain().clang
    command = [clang, "-O1", "-S", "-w", "-o", "-", folder / "shown.c"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_shown_compiles_to_what_is_built(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(AROUND.format(HOSTILE[name]))
    (tmp_path / "k.yaml").write_text(HOSTILE_SPEC)
    (spec,) = load_spec(tmp_path / "k.yaml")
    edits = [{"op": "configure", "values": {}}, EDITS[1]]
    program = apply_edits(read_program(spec.task.kernel), edits).program
    built, read = (program.sources(presentable=each)[0].text for each in (False, True))
    assert object_of(tmp_path, built) == object_of(tmp_path, read)


def test_a_loop_below_a_pragma_stays_one(tmp_path: Path) -> None:
    """The author's text of it may begin with its counter, where no pragma for a loop may stand."""
    (tmp_path / "k.c").write_text(AROUND.format(HOSTILE["a counter before a loop"]))
    (tmp_path / "k.yaml").write_text(HOSTILE_SPEC)
    (spec,) = load_spec(tmp_path / "k.yaml")
    program = apply_edits(read_program(spec.task.kernel), [{"op": "configure", "values": {}}]).program
    sites = OPERATORS["unroll"].sites(program.functions["mm"], False)
    site = next(each for each in sites if each["loop"] == "k")
    program = apply_edit(program, edit_at(program, "unroll", "mm", site))
    text = program.sources(presentable=True)[0].text
    assert "#pragma" in text
    object_of(tmp_path, text)


CONDITIONALS = {
    "taken back behind it": ("#ifndef W\n#define W 4\n#endif\n", "W", "#undef W\n", "W != 4"),
    "defined behind it": ("", "1\n#ifdef H\n+ 1\n#endif\n", "#define H 1\n", "defined(H)"),
    "of compilers": (
        "#ifndef W\n#define W 4\n#endif\n",
        "W\n#if defined(_OPENMP) || __GNUC__ > 4\n+ 1\n#endif\n",
        "",
        "W != 4",
    ),
    "another number": (
        "#ifndef W\n#define W 0\n#endif\n",
        "1\n#if W == 7 // by L\n+ 1\n#endif\n",
        "",
        "W != 0",
    ),
    "a bound": ("#ifndef W\n#define W (48)\n#endif\n", "1\n#if W >= 64L\n+ 1\n#endif\n", "", "W != 48"),
}


@pytest.mark.parametrize("name", CONDITIONALS)
def test_a_patch_is_for_the_macros_above_it(name: str, tmp_path: Path) -> None:
    above, added, below, wanted = CONDITIONALS[name]
    text = AROUND.format(f"    last += {added};\n").replace("#include <stddef.h>\n", above)
    (tmp_path / "k.c").write_text(f"{text}{below}")
    (tmp_path / "k.yaml").write_text(HOSTILE_SPEC)
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert build_requirement(spec.task, spec.tunables, {}).startswith(f"#if {wanted}\n")
