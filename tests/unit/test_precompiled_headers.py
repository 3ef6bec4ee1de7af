"""Headers are parsed once: what clang says of the rest of a source then, and when they are parsed again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.core.types import Source
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.memo import Kept
from tuner.spec.reading import answers
from tuner.spec.reading.answers import Question, Said, length_of_beginning

PLAIN = """\
#include <stdlib.h>
#include "own.h"
#define TWICE(x) ((x) + (x))
enum { FIRST = 3, SECOND };
typedef struct { double x; int id[SECOND]; } point;
static point points[4];
double scaled(int n, const double *a, size_t step)
{
    double sum = 0; /* \u00e4 */
    for (int i = 0; i < n; i++)
        sum += TWICE(a[i * step]) + OWN + points[i & 3].x;
    return sum;
}
"""
CLASSES = """\
#include "own.h"
namespace here { template <class T> struct box { T first; T get(int i) const { return first + i; } }; }
struct base { virtual ~base() = default; int id = 3; };
class scaled_box : public base {
  public:
    double scaled(here::box<double> &b, const int (&rows)[4]) { return b.get(rows[1]) + OWN; }
};
auto scaled(int n) { scaled_box s; here::box<double> b{1}; int r[4] = {n}; return s.scaled(b, r); }
"""
PROBE = "\n\nextern __typeof__(OWN) scaled_probe_;\nextern __typeof__(scaled) *scaled_probe_2_;\n"


def asking(text: str, folder: Path, *, name: str = "scaled", extra: str = "", more: str = "") -> Question:
    language = "c++" if "class" in text else "c"
    return Question(
        clang=find_toolchain().clang,
        asks=("-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", f"-ast-dump-filter={name}"),
        words=("-w", "-fno-color-diagnostics", *more.split(), "-x", language),
        folders=("-I", str(folder)),
        files=(Source(name="k.c", text=text),),
        extra=extra,
    )


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How clang is run."""
    (tmp_path / "own.h").write_text("#define OWN 4.5\nextern int scaled_by[3];\n")
    made: list[str] = []
    run = answers.run_clang

    def noted(clang: str, words: list[str], folder: str) -> Said:
        kind = "headers" if words[-2].endswith("-header") else "rest" if "-include-pch" in words else "whole"
        made.append(kind)
        return run(clang, words, folder)

    monkeypatch.setattr(answers, "run_clang", noted)
    return made


def numbered(said: Said) -> tuple[int, str, str]:
    """An answer with addresses by the order in which they come, and without what only precompiled types have."""
    known: dict[str, str] = {}
    plain = re.sub(r',\n\s*"isImported": true', "", said[1].decode())
    return (
        said[0],
        re.sub(r"0x[0-9a-f]+", lambda m: known.setdefault(m[0], str(len(known))), plain),
        said[2].decode(),
    )


@pytest.mark.parametrize("extra", ["", PROBE, "\nextern __typeof__(nowhere) scaled_probe_;\n"])
@pytest.mark.parametrize("text", [PLAIN, CLASSES, PLAIN.replace("OWN", "later")])
def test_the_answer_is_that_of_a_whole_parse(text: str, extra: str, runs: list[str], tmp_path: Path) -> None:
    asked = asking(text, tmp_path, extra=extra)
    whole = asked._asked()[0]
    assert numbered(asked.answer()) == numbered(whole)
    assert runs == ["whole", "headers", "rest"]


def test_all_that_begin_alike_share_their_headers(runs: list[str], tmp_path: Path) -> None:
    for text in (PLAIN, PLAIN.replace("sum", "total"), f"{PLAIN}int last;\n"):
        for name in ("none", "scaled", "points"):
            asking(text, tmp_path, name=name).answer()
    assert runs == ["headers", *["rest"] * 9]


def test_another_header_is_read_again(runs: list[str], tmp_path: Path) -> None:
    for name in ("none", "scaled"):
        asking(PLAIN, tmp_path, name=name).answer()
    (tmp_path / "own.h").write_text("#define OWN 10\n")
    assert b'"value": "10"' in asking(PLAIN, tmp_path).answer()[1]
    assert b'"value": "10"' in asking(PLAIN, tmp_path, extra="\n\n").answer()[1]
    assert runs == ["headers", "rest", "rest", "headers", "rest", "rest"]


def test_headers_that_do_not_compile_alone_are_parsed_each_time(runs: list[str], tmp_path: Path) -> None:
    (tmp_path / "own.h").write_text("enum {\n")
    text = '#include "own.h"\nscaled };\n'
    for name in ("none", "scaled"):
        assert asking(text, tmp_path, name=name).answer()[0] == 0
    assert runs == ["headers", "whole", "whole"]


def test_what_is_gone_is_made_up_for(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking(PLAIN, tmp_path, name="none").answer()
    found = asking(PLAIN, tmp_path)._headers(PLAIN.encode()[: length_of_beginning(PLAIN.encode())])
    found.folder.cleanup()
    assert b'"value": "4.5"' in asking(PLAIN, tmp_path).answer()[1]
    assert runs == ["headers", "rest", "rest", "whole"]


def test_old_ones_are_let_go(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_HEADERS", Kept(1))
    for number in (0, 1, 2, 0):
        for name in ("none", "scaled"):
            asking(PLAIN, tmp_path, name=name, more=f"-DNUMBER={number}").answer()
    for name in ("FIRST", "point"):
        asking(PLAIN, tmp_path, name=name, more="-DNUMBER=0").answer()
    assert runs == ["headers", "rest", "rest"] * 3 + ["headers", "rest", "rest"]


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ('#include "a.h"\n', '#include "a.h"'),
        (
            "// a \\\n b\n/* # */ # include <a.h> // /* \n#define N 1\n",
            "// a \\\n b\n/* # */ # include <a.h> // /* ",
        ),
        (
            "#ifdef A\n#include <a.h>\n#else\n#define B \\\n 1\n#endif\nint n;\n",
            "#ifdef A\n#include <a.h>\n#else\n#define B \\\n 1\n#endif",
        ),
        ("#include <a.h>\n#ifdef A\n#include <b.h>\nint n;\n#endif\n", "#include <a.h>"),
        ('#define A "/*"\n#include <a.h>\nint n; /* */\n#include <b.h>\n', '#define A "/*"\n#include <a.h>'),
        ("#include <a.h>\n#pragma pack(1)\n#include <b.h>\n", "#include <a.h>"),
        ("#define A\nint n;\n", ""),
        ("", ""),
    ],
)
def test_a_beginning_ends_with_headers(text: str, beginning: str) -> None:
    assert text[: length_of_beginning(text.encode())] == beginning
