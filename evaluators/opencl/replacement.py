"""A winner as an application's own OpenCL calls could have made it: a text or a module, and a line of options."""

from __future__ import annotations

from tuner.core.errors import UsageError
from tuner.core.protocols import Replacement
from tuner.core.types import Resolved, Task, Value
from tuner.evaluators.opencl.program import Program
from tuner.spaces.launch import geometry

__all__ = ["replacement_of"]


def replacement_of(task: Task, code: bytes, resolved: Resolved) -> Replacement:
    """What takes the recorded program's place.

    Args:
        task: that was tuned.
        code: of the winner's build.
        resolved: the winner's configuration.

    Raises:
        UsageError: the winner needs files beside its source, or has options that hold blanks.
    """
    program = Program.from_code(code, folder=task.kernel.folder)
    job = program.job()
    if not program.il and (job["headers"] or "-I" in job["options"]):
        raise UsageError(
            f"the winner of {task.kernel.name} includes files", "put them into the source, and tune again"
        )
    if any(" " in option for option in job["options"]):
        raise UsageError("an option of the winner holds a blank", "such a winner cannot be put in place")
    launch = resolved.launch_of(task)
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    return Replacement(
        source="" if program.il else job["source"],
        il=program.il,
        options=" ".join(job["options"]),
        geometries=tuple(geometry(launch, values, problem.sizes) for problem in task.problems),
    )
