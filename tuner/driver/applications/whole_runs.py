"""Runs of a whole application in a copy of its folder, and whether two of them had the same results.

May not build anything.
"""

from __future__ import annotations

import math
import re

from tuner.core.errors import UsageError
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.trees import Tree, TreeRun

__all__ = ["require_alike", "run_once"]

_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_DIFFERS = "give --rtol for numbers, or a command that judges with --check; times and dates have to be off"


def run_once(tree: Tree, application: Rebuilt) -> TreeRun:
    """Runs an application in a copy.

    Raises:
        UsageError: its check refuses what it prints.
    """
    done = tree.run(application.command, folder=application.here)
    if application.check:
        judged = tree.run(["sh", "-c", application.check], folder=application.here, given=done.output)
        if judged.status != 0:
            raise UsageError(
                f"{application.check!r} refuses a run with status {judged.status}: {judged.said}",
                "the application's results have to pass it as it is and with the winners",
            )
    return done


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
    differs = "" if application.check else _difference(first.output, done.output, application.rtol)
    if differs:
        raise UsageError(f"{name} {way} prints something else: {differs}", _DIFFERS)


def _difference(wanted: bytes, found: bytes, rtol: float) -> str:
    """Where two outputs differ, in words; empty where they do not."""
    if wanted == found:
        return ""
    before, after = wanted.splitlines(), found.splitlines()
    for number, (a, b) in enumerate(zip(before, after, strict=False), 1):
        if a != b and not (rtol and _near(a, b, rtol)):
            return f"line {number} is {b.decode('utf-8', 'replace')!r} for {a.decode('utf-8', 'replace')!r}"
    return "" if len(before) == len(after) else f"{len(after)} lines for {len(before)}"


def _near(a: bytes, b: bytes, rtol: float) -> bool:
    # A sign that comes or goes takes a place from the blanks before a number.
    if _NUMBER.sub(b"0", a).split() != _NUMBER.sub(b"0", b).split():
        return False
    pairs = zip(_NUMBER.findall(a), _NUMBER.findall(b), strict=True)
    return all(math.isclose(float(x), float(y), rel_tol=rtol) for x, y in pairs)
