"""Large sources are parsed once: what clang says of their declarations then, and when they are parsed again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.core.types import Source
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.reading import precompiled_sources
from tuner.spec.reading.answers import Question, Said

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
    language = "c" if text == PLAIN else "c++"
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
    """How clang is run on precompiled sources, of which all are large enough."""
    (tmp_path / "own.h").write_text("#define OWN 4.5\n")
    monkeypatch.setattr(precompiled_sources, "_LARGE_BYTES", 1)
    made: list[str] = []
    run = precompiled_sources.run_clang

    def noted(clang: str, words: list[str], folder: str) -> Said:
        if "-include-pch" in words:
            made.append("asked")
        elif any(word.endswith("-header") for word in words):
            made.append("made")
        return run(clang, words, folder)

    monkeypatch.setattr(precompiled_sources, "run_clang", noted)
    return made


def numbered(said: Said) -> tuple[int, str, str]:
    """An answer with addresses by the order in which they come."""
    known: dict[str, str] = {}
    output = re.sub(r"0x[0-9a-f]+", lambda m: known.setdefault(m[0], str(len(known))), said[1].decode())
    return said[0], output, said[2].decode()


@pytest.mark.parametrize("extra", ["", PROBE, "\nextern __typeof__(nowhere) scaled_probe_;\n"])
@pytest.mark.parametrize("text", [PLAIN, CLASSES])
def test_the_answer_is_that_of_a_whole_parse(text: str, extra: str, runs: list[str], tmp_path: Path) -> None:
    whole = asking(text, tmp_path, extra=extra, more="-DWHOLE").answer()
    assert not runs
    asking(text, tmp_path, name="none").answer()
    assert numbered(asking(text, tmp_path, extra=extra).answer()) == numbered(whole)
    assert runs == ["made", "asked"]


def test_another_header_is_read_again(runs: list[str], tmp_path: Path) -> None:
    for name in ("none", "scaled", "points"):
        asking(PLAIN, tmp_path, name=name).answer()
    assert runs == ["made", "asked", "asked"]
    (tmp_path / "own.h").write_text("#define OWN 10\n")
    assert b'"value": "10"' in asking(PLAIN, tmp_path).answer()[1]
    assert b'"value": "10"' in asking(PLAIN, tmp_path, extra="\n\n").answer()[1]
    assert runs == ["made", "asked", "asked", "made", "asked"]


def test_what_does_not_compile_alone_is_parsed_each_time(runs: list[str], tmp_path: Path) -> None:
    for extra in ("\nint later;\n", "", "\nint later, last;\n"):
        asking(PLAIN.replace("OWN", "later"), tmp_path, name="last").answer()
        said = asking(PLAIN.replace("OWN", "later"), tmp_path, extra=extra).answer()
        assert said[0] == 1
        assert b"k.c:11:37: error: use of undeclared identifier 'later'" in said[2]
    assert runs == ["made"]


def test_small_sources_are_parsed_each_time(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    for name in ("none", "scaled", "points"):
        asking(PLAIN.replace("<stdlib.h>", '"own.h"').replace("size_t", "int"), tmp_path, name=name).answer()
    assert not runs


def test_old_ones_are_let_go(runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompiled_sources, "_MOST", 2)
    for number in range(3):
        for name in ("none", "scaled"):
            asking(PLAIN, tmp_path, name=name, more=f"-DNUMBER={number}").answer()
    for name in ("FIRST", "point"):
        asking(PLAIN, tmp_path, name=name, more="-DNUMBER=0").answer()
    assert runs == ["made", "asked"] * 4 + ["asked"]
