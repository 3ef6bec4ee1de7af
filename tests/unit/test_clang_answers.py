"""Questions to clang: put once where only their words matter, and each time where a file or the clock may."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.core.types import Source
from tuner.spec.reading.answers import Question


@pytest.fixture
def question(tmp_path: Path) -> Question:
    """Of a stand-in that notes each time that it is asked, and answers with its words and what it reads."""
    clang = tmp_path / "clang"
    clang.write_text(
        '#!/bin/sh\necho asked >> "$0.asked"\necho "$@"\nfor last; do :; done\ncat "$last"\necho said >&2\nexit 3\n'
    )
    clang.chmod(0o755)
    return Question(
        clang=str(clang),
        words=("-E", "k.c"),
        folders=("-I", "."),
        files=(Source(name="below/k.c", text="int x;\n"),),
    )


def times(question: Question) -> int:
    return len(Path(f"{question.clang}.asked").read_text().splitlines())


def test_an_answer_is_what_clang_said(question: Question) -> None:
    assert question.answer() == (3, b"-E -I . k.c\nint x;\n", b"said\n")


def test_the_same_question_is_put_once(question: Question) -> None:
    assert question.answer() == question.answer() == replace(question, folders=("-I", "/other")).answer()
    assert times(question) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"words": ("-E", "-DX=1", "k.c")},
        {"files": (Source(name="k.c", text="int y;\n"),)},
        {"files": (Source(name="k.c", text="int x;\n"), Source(name="k.h", text=""))},
    ],
)
def test_another_question_is_put(question: Question, other: dict[str, object]) -> None:
    question.answer()
    replace(question, **other).answer()  # type: ignore[arg-type]
    assert times(question) == 2


@pytest.mark.parametrize("text", ['#include "k.h"\n', "#inc\\\nlude <k.h>\n", "int t = __TIME__[0];\n"])
def test_sources_that_read_more_are_asked_about_each_time(question: Question, text: str) -> None:
    asked = replace(question, files=(Source(name="k.c", text=text),))
    asked.answer()
    asked.answer()
    assert times(asked) == 2


@pytest.mark.parametrize(
    "word", ["-Ibelow", "-include", "-isystem", "--include=k.h", "-fplugin=a/b.so", "@f"]
)
def test_flags_that_name_files_are_asked_about_each_time(question: Question, word: str) -> None:
    asked = replace(question, words=("-E", word, "k.c"))
    asked.answer()
    asked.answer()
    assert times(asked) == 2


def test_a_clang_that_is_gone_is_said(question: Question) -> None:
    with pytest.raises(MachineError, match="clang does not answer"):
        replace(question, clang="/nonexistent/clang").answer()
