"""Kernels behind macros, headers and conditionals, as people publish them: read as the compiler does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spec_files import spec_in

from tuner.core.errors import UsageError
from tuner.search.cooking import Attempt
from tuner.search.opening import opened
from tuner.search.remix import RemixProposer
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import Program, read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

SPEC = """
kernel: {{source: k.c, entry: product, include: [include]}}
problem: {{n: 32}}
arguments:
  - {{name: n, dtype: int32, value: n}}
  - {{name: c, dtype: float64, shape: [n, n], role: inout, init: normal}}
  - {{name: a, dtype: float64, shape: [n, n], init: normal}}
  - {{name: b, dtype: float64, shape: [n, n], init: normal}}
space:
  source: {{evolve: true}}
  parameters: {parameters}
  flags: {flags}
"""
HEADER = """#ifndef SUITE_H
#define SUITE_H
#include <math.h>
#ifdef SINGLE
#define REAL float
#else
#define REAL double
#endif
#define GLUED(x, y) x##y
#define ARRAY(x, rows, columns) GLUED(x, )[rows][columns]
#define BOUND(x) (x)
#define EACH(i, end) for (int i = 0; i < BOUND(end); i++)
#endif
"""
PRODUCT = """#include "suite.h"
static void product(int n, REAL ARRAY(c, n, n), const REAL ARRAY(a, n, n), const REAL ARRAY(b, n, n))
{
    EACH(i, n) /* rows */
        EACH(j, n)
            EACH(k, n)
                c[i][j] += a[i][k] * b[k][j];
}
"""


CONFIGURED = {"op": "configure", "values": {}}
LOOP = "for (long i = 0; i < n; i++)"


def loaded(
    folder: Path, text: str, header: str = HEADER, *, parameters: str = "{}", flags: str = "{}"
) -> LoadedSpec:
    """A spec of these files."""
    (folder / "include").mkdir(exist_ok=True)
    (folder / "include" / "suite.h").write_text(header)
    return spec_in(folder, "k.c", text, SPEC.format(parameters=parameters, flags=flags))


def laid_open(spec: LoadedSpec, **values: int) -> Program:
    program = read_program(spec.task.kernel)
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, values)
    assert found is not None
    return found.program


@pytest.mark.integration
def test_a_kernel_behind_macros_of_a_header_is_transformed(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, PRODUCT).task.kernel
    proposer = RemixProposer(kernel)
    rng, known = np.random.default_rng(0), set[str]()
    origins = set()
    for _ in range(8):
        made = proposer.propose([kernel.variant], rng, known)
        assert made is not None
        known.add(made.structure)
        origins |= {e["op"] for e in made.variant.edits}
        # Outside of the function the file is the author's.
        assert made.variant.files[0].text.startswith('#include "suite.h"\n')
    assert {"interchange", "tile"} & origins


def test_operators_edit_the_compilers_text(tmp_path: Path) -> None:
    (function,) = laid_open(loaded(tmp_path, PRODUCT)).functions.values()
    assert [p.text for p in function.params] == [
        "int n",
        "double c[n][n]",
        "const double a[n][n]",
        "const double b[n][n]",
    ]
    (text,) = (f.text for f in laid_open(loaded(tmp_path, PRODUCT)).sources())
    assert "EACH" not in text
    assert "/* rows */" in text


def test_nothing_is_edited_before_the_preprocessor(tmp_path: Path) -> None:
    """What an edit of the source as given has changed would be lost."""
    text = MARKED % {"before": "", "value": "1.0", "after": ""}
    spec = loaded(tmp_path, text.replace("EACH(i, n)", LOOP).replace("EACH(j, n)", LOOP.replace(" i", " j")))
    program = read_program(spec.task.kernel)
    edits = [{"op": "interchange", "function": "product", "loops": ["i", "j"]}, CONFIGURED]
    with pytest.raises(EditRefused, match="edits of the source as given stand before it"):
        apply_edits(program, edits)
    rewritten = {"op": "text", "search": "c[i][j] += 1.0", "replace": "c[i][j] += 1.0 + 0"}
    with pytest.raises(EditRefused, match="edits of the source as given stand before it"):
        apply_edits(program, [rewritten, edits[1]])


def test_a_patch_keeps_the_authors_lines(tmp_path: Path) -> None:
    """Also where a macro's arguments go over several, but no line that an edit changed."""
    text = PRODUCT.replace(
        "                c[i][j] += a[i][k] * b[k][j];",
        "            {\n                c[i][j] += a[i][k] * b[k][j];\n                ADD(c[i][j],\n"
        "                    1.0);\n            }",
    )
    header = HEADER.replace("#include <math.h>", "#include <math.h>\n#define ADD(x, y) x += BOUND(y)")
    program = read_program(loaded(tmp_path, text, header).task.kernel)
    made = apply_edits(
        program,
        [
            CONFIGURED,
            {"op": "interchange", "function": "product", "loops": ["j", "k"]},
        ],
    ).program
    (shown,) = (f.text for f in made.sources(presentable=True))
    assert shown.startswith(PRODUCT[: PRODUCT.index("{")])
    assert [line.strip() for line in shown.splitlines() if "EACH" in line] == [
        "EACH(i, n) {",
        "EACH(k, n) {",
        "EACH(j, n) {",
    ]
    assert "                ADD(c[i][j],\n                    1.0);\n" in shown


def test_a_conditional_that_asks_for_a_tunable_is_decided_for_each_value(tmp_path: Path) -> None:
    """Also where it asks by the name of another macro; other tunables keep their names."""
    header = HEADER.replace("#define BOUND(x) (x)", "#define TWICE (2 * MODE)\n#define BOUND(x) (x)")
    text = PRODUCT.replace(
        "    EACH(i, n)",
        "#if TWICE > 2\n    c[0][0] += MODE;\n#endif\n"
        "    for (int t = 0; t < n; t += TILE)\n        c[0][t] = 0;\n    EACH(i, n)",
    )
    spec = loaded(tmp_path, text, header, parameters="{MODE: [1, 2], TILE: [4, 8]}")
    assert [p.values for p in spec.task.kernel.preprocessed] == [(("MODE", 1),), (("MODE", 2),)]
    texts = {mode: laid_open(spec, MODE=mode, TILE=4).sources()[0].text for mode in (1, 2)}
    assert "c[0][0] += 2" in texts[2]
    assert "c[0][0]" not in texts[1]
    assert all("t += TILE" in t for t in texts.values())
    original = read_program(spec.task.kernel)
    made = apply_edits(original, [{"op": "configure", "values": {"MODE": 2}}])
    assert made.constraints == ("MODE == 2",)


@pytest.mark.parametrize(
    ("text", "flags", "reason"),
    [
        (PRODUCT, '{kind: ["", "-DBOUND2"]}', ""),
        (
            PRODUCT.replace("EACH(i, n)", "if (FAST) EACH(i, n)"),
            '{kind: ["-DFAST=1", "-DFAST=0 -UFAST -DFAST=2"]}',
            "they are others with -DFAST=0 -UFAST -DFAST=2",
        ),
        (
            PRODUCT.replace(
                '"suite.h"\n',
                '"suite.h"\nstatic int again(int x) { return x; }\n#define again(x) again(x + 1)\n',
            )
            .replace("BOUND", "again")
            .replace("c[i][j] +=", "c[i][j] += again(1) *"),
            "{}",
            "with its function written without macros, k.c would be another text: ",
        ),
    ],
    ids=["same text", "other text by flags", "a macro about itself"],
)
def test_where_operators_cannot_see_what_is_compiled_they_see_the_source_and_a_notice_says_why(
    tmp_path: Path, text: str, flags: str, reason: str
) -> None:
    spec = loaded(tmp_path, text, flags=flags)
    assert bool(spec.task.kernel.preprocessed) == (not reason)
    assert [reason in note for note in spec.notices] == ([True] if reason else [])


def test_lines_that_look_like_the_preprocessors_own_are_the_authors(tmp_path: Path) -> None:
    """``#line``, and markers in comments and strings."""
    text = PRODUCT.replace(
        "    EACH(i, n) /* rows */", '#line 900 "elsewhere.h"\n    EACH(i, n) /*\n# 1 "k.c" 3\n*/'
    )
    assert "c[i][j] += a[i][k] * b[k][j]" in laid_open(loaded(tmp_path, text)).sources()[0].text


@pytest.mark.integration
def test_new_names_are_no_macros(tmp_path: Path) -> None:
    header = HEADER.replace(
        "#include <math.h>", "#include <math.h>\n#define i_tile 7\n#define TILE_I 3\n#define ii 5\n"
    )
    kernel = loaded(tmp_path, PRODUCT, header).task.kernel
    proposer = RemixProposer(kernel)
    rng, known, added = np.random.default_rng(0), set[str](), set[str]()
    for _ in range(12):
        made = proposer.propose([kernel.variant], rng, known)
        assert made is not None
        known.add(made.structure)
        added |= {p.name for p in made.parameters}
        assert " ii" not in made.variant.files[0].text
    assert any(name.startswith("TILE_") for name in added)
    assert "TILE_I" not in added


def test_a_record_has_the_sources_as_they_were_preprocessed(tmp_path: Path) -> None:
    spec = loaded(tmp_path, PRODUCT)
    again = load_recorded(spec.text, spec.files, folder="/nonexistent")
    assert again.task.kernel.preprocessed == spec.task.kernel.preprocessed
    assert again.digest == spec.digest


def test_further_sources_are_told_apart_whatever_their_names(tmp_path: Path) -> None:
    (tmp_path / "z.c").write_text(
        "#define TWICE(x) (2 * (x))\nvoid other(double *);\nvoid k(double *a, int n)\n{\n"
        "    for (int i = 0; i < n; i++)\n        a[i] = TWICE(a[i]);\n    other(a);\n}\n"
    )
    (tmp_path / "a.c").write_text("void other(double *a) { a[0] += 1; }\n")
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: z.c, entry: k, sources: [a.c]}\nproblem: {n: 8}\narguments:\n"
        "  - {name: a, dtype: float64, shape: [n], role: inout}\n  - {name: n, dtype: int32, value: n}\n"
        "space: {source: {evolve: true}}\n"
    )
    (spec,) = load_spec(tmp_path / "k.yaml")
    made = apply_edits(read_program(spec.task.kernel), [CONFIGURED]).program.sources()
    assert [file.name for file in made] == ["z.c", "a.c"]
    assert "a[i] = (2 * (a[i]));" in made[0].text
    assert made[0].text.startswith("#define TWICE(x) (2 * (x))\nvoid other(double *);\nvoid k(")
    assert made[1].text == (tmp_path / "a.c").read_text()


def test_a_first_spec_has_the_macros_of_the_command_line(tmp_path: Path) -> None:
    """``REAL`` is ``float`` with one of them: the arrays are, and so is the build."""
    loaded(tmp_path, PRODUCT)
    first = first_spec(
        tmp_path / "k.c", entry="product", include=[tmp_path / "include"], define=["SINGLE", "LEVEL=2"]
    )
    assert "dtype: float32" in first.text
    assert "dtype: float64" not in first.text
    (tmp_path / "first.yaml").write_text(first.text)
    (spec,) = load_spec(tmp_path / "first.yaml")
    assert spec.tunables.flags["macros"] == ("-DSINGLE -DLEVEL=2",)


def test_a_macro_of_the_command_line_may_take_arguments(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "void f(float *x, int n) { for (int i = 0; i < n; i++) x[AT(i, 2)] = 1; }\n"
    )
    first = first_spec(tmp_path / "k.c", define=["AT(i,by)=by*(i)"])
    assert "shape: [n, 2]" in first.text
    (tmp_path / "first.yaml").write_text(first.text)
    (spec,) = load_spec(tmp_path / "first.yaml")
    assert spec.tunables.flags["macros"] == ("'-DAT(i,by)=by*(i)'",)


@pytest.mark.parametrize(
    ("file", "define", "message"),
    [
        ("k.c", "2X", "-D 2X is no macro; give NAME, NAME=value or 'NAME(x)=value', without blanks"),
        ("k.c", "X=1 2", "-D X=1 2 is no macro; give NAME, NAME=value or 'NAME(x)=value', without blanks"),
        ("k.cl", "X", "-D is for C and C++; write the macros into the spec: flags under space"),
    ],
)
def test_a_wrong_macro_of_the_command_line_is_one_line(
    tmp_path: Path, file: str, define: str, message: str
) -> None:
    (tmp_path / file).write_text("void f(float *x, int n) { for (int i = 0; i < n; i++) x[i] = 0; }\n")
    with pytest.raises(UsageError) as raised:
        first_spec(tmp_path / file, define=[define])
    assert str(raised.value) == message


MARKED = """#include "suite.h"
%(before)s
void product(int n, double c[n][n], const double a[n][n], const double b[n][n])
{
    EACH(i, n)
        EACH(j, n)
            c[i][j] += %(value)s;
}
%(after)s
"""


@pytest.mark.parametrize(
    ("flags", "apart"),
    [
        ('{k: ["-DFAST", ""]}', "they are others with "),
        ('{k: ["-ffast-math", ""]}', "they are others with "),
        ('{k: ["-DFAST", "-DSLOW"]}', "they are others with -DSLOW"),
        ('{k: ["", "-DA"], m: ["", "-DB"]}', "they are others with -DA -DB"),
        ('{k: ["", "-mprefer-vector-width=128"], m: ["", "-DC"]}', ""),
        ('{k: ["-w -Werror", "-Wno-undef"]}', ""),
    ],
)
def test_all_flags_together_have_to_leave_the_text_as_it_is(tmp_path: Path, flags: str, apart: str) -> None:
    """The first choice of a group does not count where another is taken, and two may do together what none does."""
    header = HEADER.replace("#define BOUND(x) (x)", "") + (
        "#if defined(FAST) || defined(__FAST_MATH__) || defined(A) && defined(B)\n#define BOUND(x) (x + 0)\n"
        "#else\n#define BOUND(x) (x)\n#endif\n"
    )
    spec = loaded(tmp_path, PRODUCT, header, flags=flags)
    assert bool(spec.task.kernel.preprocessed) == (not apart)
    assert [apart in note for note in spec.notices] == ([True] if apart else [])


def test_macros_of_the_compiler_are_those_of_the_build(tmp_path: Path) -> None:
    text = MARKED % {
        "before": "#ifdef __OPTIMIZE__\n#define HALF 2\n#else\n#define HALF 3\n#endif",
        "value": "a[i][j] / HALF",
        "after": "",
    }
    assert "a[i][j] / 2" in laid_open(loaded(tmp_path, text)).sources()[0].text


def test_a_function_that_names_what_is_a_macro_further_down_is_not_inlined(tmp_path: Path) -> None:
    text = MARKED % {
        "before": "static const int q = 2;\nstatic int twice(int v) { return v * q; }\n#define q 7",
        "value": "twice(i)",
        "after": "",
    }
    assert "twice(i)" in laid_open(loaded(tmp_path, text)).sources()[0].text


@pytest.mark.parametrize(
    ("before", "value", "sees"),
    [
        ("#define JOIN(x, y) x##y\n#define CAT(x, y) JOIN(x, y)\nstatic int g_1(void) { return 1; }\n"
         "static int g_2(void) { return 2; }", "CAT(g_, MODE)()", True),
        ("#if 64 % MODE != 0\n#error MODE\n#endif", "MODE", True),
        ('#pragma GCC diagnostic ignored "-Wundef"\n#if MODE > 1\n#define Q 4\n#else\n#define Q 1\n#endif', "Q", False),
        ("#line 100000000", "1", True),
        ('static const char *text = "é";', "1", True),
        ("/*\n# 1 \"k.c\" 3\n*/", "1", True),
    ],
    ids=["pasted", "a guard", "a warning silenced", "a far line", "UTF-8", "a marker"],
)  # fmt: skip
def test_tunables_in_conditionals_and_pasted_are_decided(
    tmp_path: Path, before: str, value: str, sees: bool
) -> None:
    spec = loaded(
        tmp_path, MARKED % {"before": before, "value": value, "after": ""}, parameters="{MODE: [1, 2]}"
    )
    assert bool(spec.task.kernel.preprocessed) == sees, spec.notices
    if sees and "MODE" in before + value:
        assert [p.values for p in spec.task.kernel.preprocessed] == [(("MODE", 1),), (("MODE", 2),)]


def test_values_that_are_texts_are_not_decided(tmp_path: Path) -> None:
    text = MARKED % {
        "before": "#define FLT 1\n#define DBL 2\n#if MODE == DBL\n#define Q 4\n#else\n#define Q 1\n#endif",
        "value": "Q",
        "after": "",
    }
    spec = loaded(tmp_path, text, parameters="{MODE: [FLT, DBL]}")
    assert not spec.task.kernel.preprocessed
    assert "they ask for MODE, of which values are no numbers" in spec.notices[-1]
