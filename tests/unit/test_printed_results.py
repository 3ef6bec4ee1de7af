"""What an application prints and writes, compared with what it did before."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.errors import UsageError
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.printed_results import difference, varying
from tuner.driver.applications.trees import Tree, TreeRun
from tuner.driver.applications.whole_runs import (
    compared_files,
    compares,
    doubts_of,
    require_alike,
    run_once,
    with_varying,
)

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


def application(varies: tuple[str, ...] = ()) -> Rebuilt:
    here = Path("app")
    return Rebuilt(folder=here, build="make", command=("./app",), here=here, varies=varies)


def ended(output: bytes = b"done\n", **files: bytes) -> TreeRun:
    named = {name.replace("_", "."): text for name, text in files.items()}
    return TreeRun(status=0, wall_s=0.1, processor_s=0.1, output=output, errors=b"", files=named)


def test_files_that_a_run_writes_are_results_too() -> None:
    data = b"n\0 1 s\n"
    first = ended(data=data, sums_txt=b"sum 3\n", log12_txt=b"x", log=b"1\n2\n", times=b"took 1 s\n5\n")
    again = ended(data=data, sums_txt=b"sum 3\n", log13_txt=b"x", log=b"1\n2\n2\n", times=b"took 2 s\n5\n")
    told: list[str] = []
    judged = with_varying(again, first, application(), told.append)
    assert judged.varies == ("log*.txt: *", "log: *", "times: took * s")
    assert told == [
        "differs from run to run by itself, so * is not compared: times: took * s",
        "written otherwise from run to run by itself, so not compared: log*.txt, log",
    ]
    assert compared_files(first, judged) == ["data", "sums.txt", "times"]
    require_alike(again, first, judged, "with the winners")
    for other, wanted in (
        (
            ended(data=data, sums_txt=b"sum 4\n", times=b"took 2 s\n5\n"),
            "something else into sums.txt: line 1 is 'sum 4'",
        ),
        (ended(data=b"n\0 2 s\n"), "something else into data: its bytes are others"),
        (
            ended(data=data, sums_txt=b"sum 3\n", times=b"took 2 s\n6\n"),
            "something else into times: line 2 is '6'",
        ),
        (ended(data=data, times=b"took 2 s\n5\n"), "does not write sums.txt"),
    ):
        with pytest.raises(UsageError, match=wanted):
            require_alike(other, first, judged, "with the winners")


@pytest.mark.parametrize(
    ("first", "again", "doubt"),
    [
        (
            ended(b"took 1 s\n"),
            ended(b"took 2 s\n"),
            "all that ./app prints and writes differs from run to run",
        ),
        (
            ended(b"", log=b"1"),
            ended(b"", log=b"2"),
            "all that ./app prints and writes differs from run to run",
        ),
        (ended(b""), ended(b""), "./app prints nothing and writes no file"),
        (ended(b"", log=b"1"), ended(b"", log=b"1"), ""),
        (ended(b"took 1 s\nok\n"), ended(b"took 2 s\nok\n"), ""),
    ],
)
def test_that_nothing_is_left_to_compare_is_told(first: TreeRun, again: TreeRun, doubt: str) -> None:
    judged = with_varying(again, first, application(), lambda _: None)
    assert compares(first, judged) == (not doubt)
    assert [line[: len(doubt)] for line in doubts_of(first, judged)] == [doubt] * bool(doubt)


@needs.namespaces
def test_files_are_seen_that_are_new_or_written_again(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "own", tmp_path / "scratch"
    (folder / "deep").mkdir(parents=True)
    scratch.mkdir()
    for name in ("kept", "deep/again", "deep/code"):
        (folder / name).write_bytes(b"1")
    script = (
        "printf 1 >deep/again; touch -d @1 deep/again; printf '\\177ELF 1' >deep/code; printf 2 >new; ln -s new link; "
        "truncate -s 32M large"
    )
    with Tree(folder, scratch) as tree:
        running = Rebuilt(folder=folder, build="make", command=("sh", "-c", script), here=folder)
        found = run_once(tree, running).files
    assert {name: text[:6] for name, text in found.items()} == {
        "deep/again": b"1",
        "large": b"digest",
        "new": b"2",
    }


WORDS = st.text(alphabet="ab .*?[]\\()^$+-:=%", max_size=12)
NUMBERS = st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=4)


def test_differences_are_shown_in_short() -> None:
    long = difference(b"a" * 999, b"b" * 999, 0.0)
    assert long.endswith("a'...")
    assert len(long) < 250


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
