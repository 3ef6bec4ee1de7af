"""The wisdom of one run: what it found for each of its problems. May not judge again."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.dtypes import numpy_dtype
from tuner.core.types import Argument, Problem, Resolved, Value, opaque_bytes
from tuner.driver.outcome.by_problem import gains
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.state.run import RunState
from tuner.driver.work.lineup import Lineup
from tuner.recorders.wisdom import Entry, Wisdom
from tuner.spaces.launch import geometry
from tuner.spec.load import LoadedSpec
from tuner.spec.recorded.workload import AXES, INDEX

__all__ = ["merged_file", "told", "wisdom_of"]


def wisdom_of(state: RunState, spec: LoadedSpec, lineup: Lineup, result: Outcome) -> Wisdom:
    """One entry for each problem: the winner where it was faster, else the default.

    Recordings of equal sizes are one problem: the one with the largest share of the time stands for them.
    """
    summary = result.summary
    found = gains(state) if summary.improved else ()
    default = dict(summary.baseline.proposal.configuration)
    entries: dict[Any, tuple[float, Entry]] = {}
    for number, problem in enumerate(spec.task.problems):
        gain = found[number] if found else None
        trial = summary.best if gain is not None and gain.faster else summary.baseline
        _, resolved = lineup.of_trial(trial.number)
        sizes, untold = told(spec, problem)
        entry = Entry(
            device=result.device,
            problem=sizes,
            untold=untold,
            configuration=dict(trial.proposal.configuration),
            speedup=gain.speedup if gain is not None and gain.faster else (1.0, 1.0, 1.0),
            time_s=None if gain is None else min(gain.best_s, gain.baseline_s),
            baseline_s=None if gain is None else gain.baseline_s,
            launch=_launch(spec, resolved, problem),
            run=result.path.name if result.path is not None else "",
        )
        known = entries.get(entry.place)
        if known is None or problem.weight > known[0]:
            entries[entry.place] = problem.weight, entry
    return Wisdom(
        kernel=spec.task.kernel.function,
        backend=spec.task.backend,
        source=spec.task.kernel.variant.digest,
        default=default,
        entries=tuple(entry for _, entry in entries.values()),
    )


def merged_file(path: Path, new: Wisdom) -> Wisdom:
    """With what a file already knows of the same kernel and source; what it knows of another source is dropped.

    Raises:
        UsageError: the file is there and is no wisdom file.
    """
    if not path.exists():
        return new
    old = Wisdom.load(path)
    same = (old.kernel, old.backend, old.source) == (new.kernel, new.backend, new.source)
    return old.merged(new) if same else new


def told(spec: LoadedSpec, problem: Problem) -> tuple[dict[str, int], tuple[str, ...]]:
    """What tells a problem from others, and the arguments that may carry a size and are not told.

    The sizes of a recorded kernel are its work-items alone; how much each of them does follows from its arguments. So
    whole numbers and the bytes of its buffers stand beside them. A function's spec says itself which arguments carry
    sizes.
    """
    sizes = {name: size for name, size in problem.sizes.items() if name != INDEX}
    if INDEX not in problem.sizes or not sizes.keys() <= set(AXES):
        return sizes, ()
    numbers: dict[str, int] = {}
    untold: list[str] = []
    for argument in spec.task.arguments:
        if argument.passing == "value" or (argument.value is not None and opaque_bytes(argument.dtype)):
            if not _is_null(argument, problem):
                untold.append(argument.name)
        elif argument.value is not None and np.dtype(argument.dtype).kind in "biu":
            numbers[argument.name] = argument.value.integer(problem.sizes)
        # Where memory has to lie as it lay, an array is what its allocation happens to hold.
        elif argument.shape is not None and argument.passing == "argument" and argument.address is None:
            count = math.prod(extent.integer(problem.sizes) for extent in argument.shape)
            numbers[f"{argument.name}_bytes"] = count * numpy_dtype(argument.dtype).itemsize
    return {**numbers, **sizes}, tuple(untold)


def _is_null(argument: Argument, problem: Problem) -> bool:
    return argument.value is not None and argument.value.integer(problem.sizes) == 0


def _launch(spec: LoadedSpec, resolved: Resolved, problem: Problem) -> dict[str, Any]:
    if spec.task.launch is None:
        return {}
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    made = geometry(resolved.launch_of(spec.task), values, problem.sizes)
    return {"grid": list(made.grid), "block": list(made.block), "shared_bytes": made.shared_bytes}
