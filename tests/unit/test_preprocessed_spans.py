"""Kernels among unusual preprocessing: what stands in their place is built, and shown, as the author's file is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from preprocessed_kernels import CONFIGURED, preprocessed_or_why

from tuner.core.types import Kernel, Source, Variant
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.spec.preprocessed import build_requirement

HEAD = "void mm(const double *a, double *c)"
LOOPS = """    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            c[i * N + j] = 2 * a[j * N + i];
"""
LINES = "int line(void) { return __LINE__; } const char *file(void) { return __FILE__; }\n"
FILES = {
    "size.inc": "#define M 40\n",
    "body.inc": LOOPS,
    "end.inc": f"{{\n{LOOPS}}}\n",
    "whole.inc": f"int x = N; {HEAD}\n{{\n{LOOPS}}}\n",
}
UNUSUAL = {
    "a body that is included": f'{HEAD}\n{{\n#include "body.inc"\n}}\n{LINES}',
    "a body that is included between marks": (
        f'{HEAD}\n{{\n// EVOLVE-BLOCK-START\n#include "body.inc"\n// EVOLVE-BLOCK-END\n c[1] = N; }}\n{LINES}'
    ),
    "a file that includes itself": (
        f"#ifndef DEPTH\n#define DEPTH 0\n{HEAD}\n{{\n#endif\n#if DEPTH == 0\n#undef DEPTH\n#define DEPTH 1\n"
        '#include "k.c"\n#define CLOSE\n#elif DEPTH == 1\n' + LOOPS + "#endif\n#ifdef CLOSE\n}\n#endif\n"
    ),
    "numbers of lines": (
        f'#line 200 "gen.y"\n{HEAD}\n{{\n#line 3\n{LOOPS}# 30 "tail.y"\n    c[0] = __LINE__;\n}}\n{LINES}'
    ),
    "what looks like numbers of lines": (
        f'/*\n#line 300\n# 7 "no.y"\n*/\n{HEAD}\n{{\n{LOOPS}    /*\n#line 900\n#include "no.h"\n    */\n'
        f"    c[0] = __LINE__;\n}}\n{LINES}"
    ),
    "comments before directives": (
        f"/* a\n b */ #define P 3\n/* c */ /* d */#define Q P\n{HEAD}\n{{\n/**/ #if P == 3\n{LOOPS}"
        f"    /* e */ c[0] = Q;\n/* f */#endif\n}}\n/* g\n*/ #define R 4\nint z = R;\n{LINES}"
    ),
    "raw strings of several lines": (
        'const char *t = R"(one\n\ntwo)", *u = u8R"x(3\n)x";\n\n'
        f'{HEAD}\n{{\n    const char *v = R"(4\n5)";\n{LOOPS}\n\n    c[0] = v[0] + __LINE__;\n}}\n{LINES}'
    ),
    "braces in conditionals": (
        f"#if N == 48\n{HEAD}\n#else\nvoid mm(double *c, const double *a)\n#endif\n{{\n#if N == 48\n{LOOPS}}}\n"
        f"#else\n}}\n#endif\nint z = N;\n{LINES}"
    ),
    "a header of the system above a conditional": (
        f"#include <limits.h>\n#if N\n{HEAD}\n#else\nvoid mm(void)\n#endif\n{{\n{LOOPS}c[0] = INT_MAX; }}\n{LINES}"
    ),
    "a counter": f"int q = __COUNTER__;\n{HEAD}\n{{\n{LOOPS}c[0] = __COUNTER__; }} int z = __COUNTER__;\n{LINES}",
    "a counter that a macro uses": (
        f"#define NEXT ID\n#define ID __COUNTER__\n{HEAD}\n{{\nc[1] = NEXT;\n{LOOPS}c[0] = NEXT;\n}}\n"
        "int z = NEXT;\n"
    ),
    "a counter between marks": (
        f"{HEAD}\n{{\n// EVOLVE-BLOCK-START\n{LOOPS}c[0] = __COUNTER__;\n// EVOLVE-BLOCK-END\n"
        f"c[1] = __COUNTER__; }}\n{LINES}"
    ),
    "a function that is included": '#include "whole.inc"\nint z = N;\n',
    "other text in its lines": (
        f"#define I int\n/* a\n b */ I q = N; {HEAD} {{\n{LOOPS}}} /* c\n d */\tI r = N; // x\nint z = N;\n"
    ),
    "lines that go on": f"static int \\\n u = 3; {HEAD} \\\n {{\n{LOOPS}}} \\\nint w = 2;\n",
    "a macro that writes it": (
        f"#define DEF(name, body) void name(const double *a, double *c) {{ body }}\nDEF(mm,\n{LOOPS})\n;\nint z = N;\n"
    ),
    "macros for its braces": f"#define BEGIN {{\n#define END }}\n#define NOT(x)\n{HEAD} BEGIN\n{LOOPS}END\n\nNOT(1)\n",
    "a macro among what is replaced": (
        f"#if N\n#define M N\n{HEAD}\n{{\n#else\nvoid mm(void) {{\n#endif\n{LOOPS.replace('< N', '< M')}}}\n"
    ),
    "a macro of what is included": f'{HEAD}\n{{\n#include "size.inc"\n{LOOPS.replace("< N", "< M")}}}\n',
    "no end of the last line": f"{HEAD}\n{{\n{LOOPS}c[1] = N; }}",
}


def kernel_of(text: str) -> Kernel:
    files = [Source(name="k.c", text=text)]
    files += [Source(name=name, text=made) for name, made in FILES.items() if name in text]
    language = "c++" if 'R"' in text else "c"
    return Kernel(name="k", entry="mm", language=language, variant=Variant(files=tuple(files)), folder="")


def code_of(folder: Path, files: tuple[Source, ...]) -> bytes:
    for file in files:
        (folder / file.name).write_text(file.text)
    language = "c++" if any('R"' in file.text for file in files) else "c"
    command = [find_toolchain().clang, "-O1", "-S", "-w", "-o", "-", "-x", language, "k.c"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("name", UNUSUAL)
def test_a_region_stands_for_all_that_it_is_made_of(name: str, tmp_path: Path) -> None:
    kernel, reason = preprocessed_or_why(kernel_of(f"#define N 48\n{UNUSUAL[name]}"))
    assert not reason
    program = read_program(kernel)
    made = apply_edits(program, [CONFIGURED]).program
    assert code_of(tmp_path, made.sources()) == code_of(tmp_path, kernel.variant.files)
    edited = apply_edits(
        program, [CONFIGURED, {"op": "interchange", "function": "mm", "loops": ["i", "j"]}]
    ).program
    assert code_of(tmp_path, edited.sources()) != code_of(tmp_path, kernel.variant.files)
    assert code_of(tmp_path, edited.sources(presentable=True)) == code_of(tmp_path, edited.sources())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{HEAD}\n{{\n#include <limits.h>\n{LOOPS}}}\n", "a region of k.c includes a header of the system"),
        (
            f"#if N\n#include <limits.h>\n{HEAD}\n#else\nvoid mm(void)\n#endif\n{{\n{LOOPS}}}\n",
            "a region of k.c includes a header of the system",
        ),
        (f'{HEAD}\n#include "end.inc"\n', "a region begins in one file and ends in another"),
        (
            f"{HEAD}\n{{\n#define T 3\n{LOOPS}}}\nint t = T;\n",
            "k.c would be another text: 't = 3;' would be 't = T;'",
        ),
    ],
    ids=["a header inside", "a header under its condition", "two files", "a macro for what is behind it"],
)
def test_what_would_be_missing_is_said(text: str, reason: str) -> None:
    assert reason in preprocessed_or_why(kernel_of(f"#define N 48\n{text}"))[1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('#include "body.inc"\nint main(void) { return 0; }\n', "N != 48 || defined(NEGATIVE)"),
        (f"#if N == 48\n{HEAD}\n#else\nvoid mm(void)\n#endif\n{{\n{LOOPS}}}\n", "N != 48"),
        (
            f"#ifndef FLAGS\n#define FLAGS 0x5\n#endif\n{HEAD}\n{{\n#if FLAGS & 4\n{LOOPS}#endif\n}}\n",
            "FLAGS != 5 || N != 48",
        ),
        (
            "#define FAST ('F')\n#ifndef WAY\n#define WAY FAST\n#endif\n"
            f"{HEAD}\n{{\n#if WAY == FAST\n{LOOPS}#endif\n}}\n",
            "N != 48 || WAY != 70",
        ),
    ],
    ids=["in a header", "heads in a conditional", "bits", "names"],
)
def test_a_patch_asks_for_the_macros_that_count_there(text: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "body.inc").write_text(f"{HEAD}\n{{\n#ifdef NEGATIVE\n    c[0] = 1;\n#endif\n{LOOPS}}}\n")
    (tmp_path / "k.c").write_text(f"#ifndef N\n#define N 48\n#endif\n{text}")
    (tmp_path / "k.yaml").write_text(first_spec(tmp_path / "k.c", entry="mm").text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    values = dict(spec.task.kernel.preprocessed[0].values)
    above = build_requirement(spec.task, spec.tunables, values)
    assert above.startswith(f"#if {wanted}\n")
    edits = [
        {"op": "configure", "values": values},
        {"op": "interchange", "function": "mm", "loops": ["i", "j"]},
    ]
    made = apply_edits(read_program(spec.task.kernel), edits).program
    (changed,) = set(made.sources(presentable=True, above=above)) - set(spec.task.kernel.variant.files)
    assert f"{above}\n{HEAD}\n{{\n" in changed.text
    # After an edit of the text, as models write them, too.
    edits.append({"op": "text", "search": "2 * a[", "replace": "2.0 * a["})
    made = apply_edits(read_program(spec.task.kernel), edits).program
    (changed,) = set(made.sources(presentable=True, above=above)) - set(spec.task.kernel.variant.files)
    assert f"{above}{HEAD}\n" in changed.text
    assert "i < N; i++" in changed.text
