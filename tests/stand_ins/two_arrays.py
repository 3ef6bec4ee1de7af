"""Tasks of one kernel ``f(src, dst, n)``: two arrays and their length, a small size and the one that is timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    verify: dict[str, Any] | None = None,
    launch: Any = None,
    **kernel: Any,
) -> Task:
    """A task of one variant; what else is said of a kernel or its verification is as in a spec."""
    length = (parse("n"),)
    return Task(
        kernel=Kernel(name="f", entry="f", language=language, variant=variant, folder=".", **kernel),
        backend=backend,
        target=target,
        arguments=(
            Argument(name="src", dtype="float32", shape=length, initial=Initial(kind="normal")),
            Argument(name="dst", dtype="float32", shape=length, role=ArgumentRole.OUTPUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=(Problem(sizes={"n": n}),),
        verify=VerifyPolicy(problems=(Problem(sizes={"n": 37}),), **(verify or {})),
        measure=MeasurePolicy(threads=threads),
        launch=launch,
        seed=5,
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
