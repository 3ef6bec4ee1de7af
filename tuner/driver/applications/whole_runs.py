"""Runs of a whole application in a copy of its folder, and whether two of them had the same results.

Results are what it prints and the files that it writes below the folder. May not build anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tuner.core.errors import UsageError
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.printed_results import (
    compared_lines,
    difference,
    is_left_out,
    of_file,
    varying,
)
from tuner.driver.applications.trees import Tree, TreeRun
from tuner.driver.applications.written_files import stamps_of, written_since

__all__ = [
    "compared_files",
    "compares",
    "doubts_of",
    "require_alike",
    "run_once",
    "shown_names",
    "with_varying",
]

_DIFFERS = (
    "give --rtol for numbers, a command that judges with --check, or the line with * for what differs, or a whole file "
    "as 'FILE: *', with --varies (rtol, check and varies of app.yaml)"
)
_CURE = "--check COMMAND (check: in app.yaml) would judge a run"
_MOST_LINES = 16
"""Patterns for a file; one with more has times or the like all over and is not compared."""
_SHOWN = 3
_NO_TEXT = b"\0"
_DIGITS = re.compile(r"\d+")


def run_once(tree: Tree, application: Rebuilt) -> TreeRun:
    """Runs an application in a copy.

    Raises:
        UsageError: its check refuses what it prints.
    """
    if not application.check:
        before = stamps_of(tree.copy)
        done = tree.run(application.command, folder=application.here)
        return replace(done, files=written_since(before, tree.copy))
    done = tree.run(application.command, folder=application.here)
    judged = tree.run(["sh", "-c", application.check], folder=application.here, given=done.output)
    if judged.status != 0:
        raise UsageError(
            f"{application.check!r} refuses a run with status {judged.status}: {judged.said}",
            "the application's results have to pass it as it is and with the winners",
        )
    return done


def compared_files(first: TreeRun, application: Rebuilt) -> list[str]:
    """Files that a run wrote of which something is compared."""
    return [
        name
        for name, text in first.files.items()
        if not is_left_out(name, application.varies)
        and compared_lines(text, of_file(name, application.varies))
    ]


def compares(first: TreeRun, application: Rebuilt) -> bool:
    """Whether there are results of which something is compared, or a check judges them."""
    printed = compared_lines(first.output, application.varies)
    return bool(application.check or printed or compared_files(first, application))


def shown_names(names: Sequence[str]) -> str:
    """The first of several names, and how many more there are."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def doubts_of(first: TreeRun, application: Rebuilt) -> tuple[str, ...]:
    """What a person should know of a run before others are held against it."""
    name, found = application.command[0], list[str]()
    if first.status != 0:
        found.append(f"{name} ends with status {first.status}: {first.said or 'it says nothing'}")
    if not compares(first, application):
        there = bool(first.output.strip() or first.files)
        why = f"all that {name} prints and writes differs from run to run by itself"
        why = why if there else f"{name} prints nothing and writes no file below its folder"
        found.append(f"{why}, so no results are compared: {_CURE}")
    return tuple(found)


def require_alike(done: TreeRun, first: TreeRun, application: Rebuilt, way: str) -> None:
    """Refuses a run that ends in another way than the first one or, where no check judges it, prints something else.

    Raises:
        UsageError: it does.
    """
    name = application.command[0]
    if done.status != first.status:
        raise UsageError(
            f"{name} {way} ends with status {done.status}, as it is with {first.status}",
            "it has to end alike each time to be compared",
        )
    differs = "" if application.check else _difference(first, done, application)
    if differs:
        raise UsageError(f"{name} {way} {differs}", _DIFFERS)


def _difference(first: TreeRun, done: TreeRun, application: Rebuilt) -> str:
    """What a run does otherwise than the first one, in words; empty where that is nothing."""
    rtol, varies = application.rtol, application.varies
    differs = difference(first.output, done.output, rtol, varies)
    if differs:
        return f"prints something else: {differs}"
    for name, wanted in first.files.items():
        if is_left_out(name, varies):
            continue
        if name not in done.files:
            return f"does not write {name}"
        differs = _file_difference(wanted, done.files[name], rtol, of_file(name, varies))
        if differs:
            return f"writes something else into {name}: {differs}"
    return ""


def _file_difference(wanted: bytes, found: bytes, rtol: float, varies: Sequence[str]) -> str:
    """Where two contents of a file differ: of one that is no text every byte counts."""
    if _NO_TEXT in wanted:
        return "" if wanted == found else "its bytes are others"
    return difference(wanted, found, rtol, varies)


def with_varying(done: TreeRun, first: TreeRun, application: Rebuilt, note: Callable[[str], None]) -> Rebuilt:
    """The application with the lines known that differ between two runs of it as it is: their numbers are not compared.

    Args:
        done, first: runs of the unchanged application.
        application: how it is judged.
        note: told of each such line, of those that differ in digits alone of the first.

    Raises:
        UsageError: the runs differ in more than numbers in what they print.
    """
    printed, written = tuple[str, ...](), list[str]()
    if not application.check:
        printed = varying(first.output, done.output, application.rtol, application.varies)
        written = list(dict.fromkeys(_varying_files(first, done, application)))
    whole = [one for one in written if one.endswith(": *")]
    alike: dict[str, list[str]] = {}
    for line in (*printed, *(one for one in written if one not in whole)):
        alike.setdefault(_DIGITS.sub("0", line), []).append(line)
    for first_one, *more in alike.values():
        further = f" (and {len(more)} more like it)" if more else ""
        note(f"differs from run to run by itself, so * is not compared: {first_one}{further}")
    if whole:
        names = shown_names([one.removesuffix(": *") for one in whole])
        note(f"written otherwise from run to run by itself, so not compared: {names}")
    judged = replace(application, varies=(*application.varies, *printed, *written))
    require_alike(done, first, judged, "as it is, run again,")
    return judged


def _varying_files(first: TreeRun, done: TreeRun, application: Rebuilt) -> Iterator[str]:
    """Patterns of lines of files that differ between two runs; of a whole file where more than numbers differs."""
    for name, wanted in first.files.items():
        if is_left_out(name, application.varies):
            continue
        if name not in done.files:
            # Named by its process or the time, or made once.
            yield f"{_DIGITS.sub('*', name)}: *"
            continue
        known = of_file(name, application.varies)
        found = () if _NO_TEXT in wanted else varying(wanted, done.files[name], application.rtol, known)
        same = not _file_difference(wanted, done.files[name], application.rtol, (*known, *found))
        yield from (
            (f"{name}: {line}" for line in found) if same and len(found) <= _MOST_LINES else [f"{name}: *"]
        )
