"""Runs of a whole application in a copy of its folder, and whether two of them had the same results.

May not build anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tuner.core.errors import UsageError
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.printed_results import difference, varying
from tuner.driver.applications.trees import Tree, TreeRun

__all__ = ["require_alike", "run_once", "with_varying"]

_DIFFERS = (
    "give --rtol for numbers, a command that judges with --check, or name the line in varies of app.yaml"
)


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
    differs = (
        ""
        if application.check
        else difference(first.output, done.output, application.rtol, application.varies)
    )
    if differs:
        raise UsageError(f"{name} {way} prints something else: {differs}", _DIFFERS)


def with_varying(done: TreeRun, first: TreeRun, application: Rebuilt, note: Callable[[str], None]) -> Rebuilt:
    """The application with the lines known that differ between two runs of it as it is: their numbers are not compared.

    Args:
        done, first: runs of the unchanged application.
        application: how it is judged.
        note: told of each such line.

    Raises:
        UsageError: the runs differ in more than numbers.
    """
    found: tuple[str, ...] = ()
    if not application.check:
        found = varying(first.output, done.output, application.rtol, application.varies)
    for line in found:
        note(f"differs from run to run by itself, so * is not compared: {line}")
    judged = replace(application, varies=(*application.varies, *found))
    require_alike(done, first, judged, "as it is, run again,")
    return judged
