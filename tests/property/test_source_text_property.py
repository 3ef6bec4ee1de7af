"""Sources of any encoding as text and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.errors import UsageError
from tuner.core.source_text import lines_of_text, readable_text, source_bytes, source_text, with_changes
from tuner.spec.first.init import first_spec

ODD = st.sampled_from(
    [b"\xe4", b"\xc3\xa4", b"\xee\xbe\x80", b"\xee\xbf\xbf", b"\xee", b"\xbe", b"\xed\xb2\x80"]
)
CONTENTS = st.lists(st.one_of(ODD, st.binary(max_size=3)), max_size=12).map(b"".join)
LINES = st.lists(st.sampled_from(["a", "b", "\f", "\x85", "\ue000"]), max_size=8)


@given(CONTENTS)
def test_each_byte_comes_back_and_the_text_is_one_for_json(data: bytes) -> None:
    text = source_text(data)
    assert source_bytes(text) == data
    assert json.loads(json.dumps(text, ensure_ascii=False).encode()) == text
    assert source_text(data + b"a")[len(text) :] == "a"


def test_people_read_latin_1() -> None:
    assert readable_text(source_text("Größe".encode("latin-1"))) == "Größe" == source_text("Größe".encode())


@given(LINES, st.lists(st.booleans(), min_size=8, max_size=8), LINES)
def test_lines_that_stay_keep_their_ends(before: list[str], two: list[bool], new: list[str]) -> None:
    given_text = "".join(line + ("\r\n" if wide else "\n") for line, wide in zip(before, two, strict=False))
    plain = given_text.replace("\r\n", "\n")
    assert with_changes(given_text, plain) == given_text
    made = with_changes(given_text, "".join(f"{line}\n" for line in [*before, "new", *new]))
    assert made.startswith(given_text)
    assert made.replace("\r\n", "\n") == plain + "".join(f"{line}\n" for line in ["new", *new])
    assert len(lines_of_text(given_text)) == len(before)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "wide.c").write_bytes("int x;".encode("utf-16"))
    with pytest.raises(UsageError, match="cannot be read: it is no text, or in UTF-16"):
        first_spec(tmp_path / "wide.c")
