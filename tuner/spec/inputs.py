"""What a kernel is called with and the task that this makes: of the spec's own arguments, or of recordings.

Reads no spec and looks at no machine: the sections are read elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tuner.core.types import Argument, Kernel, Problem, Task
from tuner.spaces.parameters import Parameter
from tuner.spec.arguments import make_arguments, make_problems, verify_problems
from tuner.spec.models import SpecModel
from tuner.spec.recorded.calls import bind, call_problems
from tuner.spec.recorded.workload import FUNCTIONS, Workload, hold_out, recorded_launch
from tuner.spec.sections import make_launch, make_measure, make_verify
from tuner.spec.sources import Sources
from tuner.spec.tunables import Tunables, make_parameters
from tuner.spec.yaml_places import View

__all__ = ["Inputs", "make_inputs", "make_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What a kernel is called with.

    Attributes:
        workload: what recordings say; ``None`` where the spec names none.
        calls: whether they are of a function that the spec describes, and not of a launch that describes itself.
        problems: that are timed; ``further``: that are only verified.
        parameters: of the space; some of them are arguments.
        arguments: of the kernel; none where all has been measured already.
    """

    workload: Workload | None
    calls: bool
    problems: tuple[Problem, ...]
    further: tuple[Problem, ...]
    parameters: tuple[Parameter, ...]
    arguments: tuple[Argument, ...]


def make_inputs(model: SpecModel, sources: Sources, workload: Workload | None, view: View) -> Inputs:
    """Problems, parameters and arguments, of the spec or of what was recorded."""
    calls = workload is not None and sources.language in FUNCTIONS
    if workload is not None and calls:
        workload = replace(workload, problems=call_problems(workload, model, view))
    problems = make_problems(model, view) if workload is None else workload.problems
    # Values of other sizes than those that were recorded are not known.
    further = () if calls else verify_problems(model, problems, view)
    parameters = make_parameters(model, view)
    arguments: tuple[Argument, ...] = ()
    if workload is not None and not calls:
        arguments = workload.arguments
    elif sources.language != "recorded":
        # What was measured already is called no more, so there is nothing to call it with.
        scalars = {p.name: p.default for p in parameters if not p.macro}
        arguments = make_arguments(model, (*problems, *further), scalars, view)
    if workload is not None and calls:
        arguments = bind(arguments, workload, model, view)
    return Inputs(
        workload=workload,
        calls=calls,
        problems=problems,
        further=further,
        parameters=parameters,
        arguments=arguments,
    )


def make_task(
    model: SpecModel, kernel: Kernel, backend: str, inputs: Inputs, tunables: Tunables, view: View
) -> Task:
    """What evaluators need to know of the kernel."""
    workload, problems = inputs.workload, inputs.problems
    verify = make_verify(model, inputs.further)
    measure = make_measure(model, problems, view)
    launch = make_launch(model, tunables, backend, view, problems[0].sizes)
    if workload is not None:
        launch = launch if inputs.calls else recorded_launch(workload, launch, view)
        problems = hold_out(problems, workload.recordings)
        verify = replace(verify, assume=() if inputs.calls else verify.assume)
        if "nonfinite" not in (view.data.get("verify") or {}):
            # NaN and infinities of a recording are the application's own: they have to come out again.
            verify = replace(verify, nonfinite="propagate")
    return Task(
        kernel=kernel,
        backend=backend,
        target=model.target,
        arguments=inputs.arguments,
        problems=problems,
        verify=verify,
        measure=measure,
        launch=launch,
        seed=model.search.seed,
    )
