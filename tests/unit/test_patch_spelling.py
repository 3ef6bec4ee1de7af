"""Patches of functions behind macros: what no edit touched as its author wrote it, and a stop where that misleads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import apply_edits
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
