"""What an application prints, compared with what it printed before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.driver.applications.printed_results import difference, varying

FIRST = b"""\
Run completed:
   Final Origin Energy =  3.548653e+05
Elapsed time         =       4.91 (s)
Grind time (us/z/c)  = 0.54917292 (per dom)  (  0.263603 overall)
Compile date         = 27 Nov 2026
"""
AGAIN = (
    FIRST.replace(b"      4.91", b"     14.05").replace(b"0.54917292", b"0.55").replace(b"0.263603", b"1e-9")
)
TIMES = ("Elapsed time = * (s)", "Grind time (us/z/c) = * (per dom) ( * overall)")


def test_lines_whose_numbers_differ_by_themselves_are_known_again() -> None:
    assert varying(FIRST, AGAIN, 0.0) == TIMES
    assert varying(FIRST, AGAIN, 0.0, TIMES[:1]) == TIMES[1:]
    assert varying(FIRST, FIRST, 0.0) == ()
    assert not difference(FIRST, AGAIN, 0.0, TIMES)
    assert difference(FIRST, AGAIN, 0.0, TIMES[1:]).startswith("line 3 is 'Elapsed time")


def test_numbers_beside_times_are_compared() -> None:
    for before, after in ((b"(per dom)", b"(per node)"), (b"Elapsed", b"Elaped"), (b"3.548653", b"3.548654")):
        assert difference(FIRST, AGAIN.replace(before, after), 0.0, TIMES)
    assert not difference(FIRST, AGAIN.replace(b"3.548653", b"3.548654"), 1e-6, TIMES)
    assert difference(FIRST, AGAIN + b"more\n", 0.0, TIMES) == "6 lines for 5"


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"17", b"18"),
        (b"[17] 3", b"[18] 3"),
        (b"at noon 1", b"at night 1"),
        (b"1 of 2", b"1"),
        (b"\xe9 1", b"\xe8 1"),
    ],
)
def test_lines_without_a_word_or_that_differ_in_one_are_no_pattern(first: bytes, again: bytes) -> None:
    assert varying(first, again, 0.0) == ()
    assert difference(first, again, 0.0)


def test_numbers_that_are_near_enough_are_results() -> None:
    first, again = b"sum 1.0000001 in 0.5 s", b"sum 1.0000002 in 0.7 s"
    assert varying(first, again, 1e-6) == ("sum 1.0000001 in * s",)
    assert varying(first, again, 0.0) == ("sum * in * s",)


WORDS = st.text(alphabet="ab .*?[]\\()^$+-:=%", max_size=12)
NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=4)


@given(words=st.lists(WORDS, min_size=5, max_size=5), first=NUMBERS, again=NUMBERS)
def test_any_line_is_like_itself_with_its_varying_numbers(
    words: list[str], first: list[float], again: list[float]
) -> None:
    count = min(len(first), len(again))

    def line(numbers: list[float]) -> bytes:
        parts = [f"{word} {number!r}" for word, number in zip(words, numbers[:count], strict=False)]
        return ("time" + " ".join(parts)).encode()

    patterns = varying(line(first), line(again), 0.0)
    assert not difference(line(first), line(again), 0.0, patterns)
