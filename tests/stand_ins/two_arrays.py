"""Tasks of one kernel ``f``: two arrays and their length, a small size and the one that is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Initial,
    Kernel,
    MeasurePolicy,
    Problem,
    Resolved,
    Status,
    Task,
    Variant,
    VerifyPolicy,
)


def task_of(
    variant: Variant,
    *,
    n: int,
    language: str = "c",
    backend: str = "host",
    target: str = "native",
    threads: int = 1,
    arrays: tuple[str, str] = ("src", "dst"),
    small: int | None = 37,
    seed: int = 5,
    verify: dict[str, Any] | None = None,
    launch: Any = None,
    **kernel: Any,
) -> Task:
    """A task of one variant; what else is said of a kernel or its verification is as in a spec."""
    length, (given, made) = (parse("n"),), arrays
    sizes = () if small is None else (Problem(sizes={"n": small}),)
    return Task(
        kernel=Kernel(name="f", entry="f", language=language, variant=variant, folder=".", **kernel),
        backend=backend,
        target=target,
        arguments=(
            Argument(name=given, dtype="float32", shape=length, initial=Initial(kind="normal")),
            Argument(name=made, dtype="float32", shape=length, role=ArgumentRole.OUTPUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=(Problem(sizes={"n": n}),),
        verify=VerifyPolicy(problems=sizes, **(verify or {})),
        measure=MeasurePolicy(threads=threads),
        launch=launch,
        seed=seed,
    )


def prepared(backend: Any, task: Task, resolved: Resolved) -> tuple[Any, Build]:
    """An evaluation that has its baseline, and the baseline's build."""
    evaluation = backend.prepare(task, workers=1)
    (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)])
    assert build.status is Status.OK, build.message
    report = evaluation.set_baseline(build, resolved)
    assert report.status is Status.OK, report.message
    return evaluation, build


def by_clock(readings: Callable[[], Any], make: Callable[[], Any]) -> Iterator[Callable[[], Any]]:
    """One evaluation for all tests that have the same clock, virtual or real; closed in the end."""
    made: dict[bool, Any] = {}

    def get() -> Any:
        virtual = readings().virtual
        if virtual not in made:
            made[virtual] = make()
        return made[virtual]

    yield get
    for evaluation in made.values():
        evaluation.close()


def outcome(
    evaluation: Any,
    candidate: Variant,
    resolved: Resolved,
    rounds: Sequence[int] = (3, 7, 11),
    readings: Any = None,
) -> tuple[Status, str, str]:
    """Status, message and stage of a candidate that goes all the way of a trial: build, verify, rounds of calls.

    By other readings where they are given.
    """
    (build,) = evaluation.build([BuildRequest(trial=1, variant=candidate, resolved=resolved)])
    if build.status is not Status.OK:
        return build.status, build.message, "build"
    session = evaluation.open(build, resolved, purpose="search", number=1)
    if readings is not None:
        session.inputs = replace(session.inputs, readings=readings)
    try:
        found, stage = session.verify(), "verify"
        for calls in rounds:
            if found.status is not Status.OK:
                break
            found, stage = session.measure(problem=0, calls=calls), "measure"
        return found.status, found.message, stage
    finally:
        session.close()
