"""Questions to clang: put once while the files that it reads stay, and each time where the clock may matter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Source
from tuner.spec.reading.answers import Question
from tuner.spec.reading.signature import SourceReader

CLANG = """\
#!/bin/sh
echo asked >> "$0.asked"
while [ $# -gt 1 ]; do
    case "$1" in
    -MD) ;;
    -MF) printf 'all: k.c \\\\\n  %s\n' "$HEADER" > "$2"; shift ;;
    -MT) shift ;;
    *) echo "$1" ;;
    esac
    shift
done
cat "$1"
echo said >&2
exit 3
"""


@pytest.fixture
def question(tmp_path: Path) -> Question:
    """Of a stand-in that notes each time that it is asked, and answers with its words and what it reads."""
    clang = tmp_path / "clang"
    (tmp_path / "with a space").mkdir()
    (tmp_path / "with a space" / "k.h").write_text("int k;\n")
    header = str(tmp_path / "with a space" / "k.h").replace(" ", "\\\\ ")
    clang.write_text(CLANG.replace("#!/bin/sh\n", f"#!/bin/sh\nHEADER='{header}'\n".replace("\\\\", "\\")))
    clang.chmod(0o755)
    return Question(
        clang=str(clang),
        asks=("-E",),
        words=("-x", "c"),
        folders=("-I", "."),
        files=(Source(name="below/k.c", text="int x;\n"),),
    )


def times(question: Question) -> int:
    return len(Path(f"{question.clang}.asked").read_text().splitlines())


def test_an_answer_is_what_clang_said(question: Question) -> None:
    assert question.answer() == (3, b"-E\n-I\n.\n-x\nc\nint x;\n", b"said\n")


def test_the_same_question_is_put_once(question: Question) -> None:
    assert question.answer() == question.answer()
    assert times(question) == 1


def test_it_is_put_again_when_a_header_is_another_one(question: Question, tmp_path: Path) -> None:
    header = tmp_path / "with a space" / "k.h"
    question.answer()
    header.write_text("int longer;\n")
    question.answer()
    question.answer()
    assert times(question) == 2
    (header.parent / "other.h").write_text("")
    question.answer()
    header.unlink()
    question.answer()
    assert times(question) == 4


def test_headers_are_read_again_when_they_change(tmp_path: Path) -> None:
    header = tmp_path / "k.h"
    reader = SourceReader(
        files=(Source(name="k.c", text='#include "k.h"\nnumber f(void) { return 0; }\n'),),
        language="c",
        folder=str(tmp_path),
    )
    for kind in ("int", "double"):
        header.write_text(f"typedef {kind} number;\n")
        (found,) = reader.functions("f")
        assert found.returns is not None
        assert found.returns.base == kind


@pytest.mark.parametrize(
    "other",
    [
        {"words": ("-DX=1", "-x", "c")},
        {"asks": ("-E", "-P")},
        {"extra": "int y;\n"},
        {"folders": ("-I", "/other")},
        {"files": (Source(name="k.c", text="int y;\n"),)},
        {"files": (Source(name="k.c", text="int x;\n"), Source(name="k.h", text=""))},
    ],
)
def test_another_question_is_put(question: Question, other: dict[str, object]) -> None:
    question.answer()
    replace(question, **other).answer()  # type: ignore[arg-type]
    assert times(question) == 2


@pytest.mark.parametrize("text", ["int t = __TIME__[0];\n", "const char d[] = {\n#em\\\nbed <k.h>\n};\n"])
def test_sources_that_read_more_are_asked_about_each_time(question: Question, text: str) -> None:
    asked = replace(question, files=(Source(name="k.c", text=text),))
    asked.answer()
    asked.answer()
    assert times(asked) == 2


def test_a_question_for_the_headers_is_put_as_it_is(question: Question) -> None:
    asked = replace(question, asks=("-M", "-MG"))
    assert asked.answer() == asked.answer() == (3, b"-M\n-MG\n-I\n.\n-x\nc\nint x;\n", b"said\n")
    assert times(asked) == 2


def test_a_clang_that_is_gone_is_said(question: Question) -> None:
    with pytest.raises(MachineError, match="clang does not answer"):
        replace(question, clang="/nonexistent/clang").answer()
