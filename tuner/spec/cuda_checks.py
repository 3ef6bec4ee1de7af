"""Whether the arguments in a spec are those that a CUDA kernel takes: clang is asked for the types of its parameters.

Where clang does not know a type, such as one of a library that is not there, nothing is said of that argument.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tuner.core.dtypes import is_structured
from tuner.core.types import Argument, Task
from tuner.evaluators.cuda.parcels import in_call_order
from tuner.spec.agreement import check_argument, check_order
from tuner.spec.device_arguments import check_variable, unlisted
from tuner.spec.element_checks import check_element, refuse_structures
from tuner.spec.models import ArgumentModel
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.cuda_kernels import base_name, cuda_functions
from tuner.spec.reading.device_programs import preprocessor_flags
from tuner.spec.reading.device_variables import device_variables
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.source_trees import source_tree
from tuner.spec.tunables import Tunables
from tuner.spec.yaml_places import Path, View

__all__ = ["check_cuda_arguments", "cuda_reader"]


def cuda_reader(task: Task, tunables: Tunables) -> SourceReader:
    """Of a kernel's sources, with the default parameters and flags.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    kernel = task.kernel
    flags = [flag for choices in tunables.flags.values() for flag in shlex.split(choices[0])]
    return SourceReader(
        files=kernel.variant.files,
        language="cuda",
        folder=kernel.folder,
        include=kernel.include,
        macros={p.name: p.default for p in tunables.parameters if p.macro},
        flags=preprocessor_flags(flags, kernel),
    ).with_missing_headers()


def check_cuda_arguments(
    task: Task, tunables: Tunables, given: Sequence[ArgumentModel], view: View
) -> tuple[str, ...]:
    """Arguments have the types of the source, and structures in arrays lie in memory as the spec says.

    Args:
        task: of the kernel.
        tunables: of its space.
        given: the arguments of the spec; none where they come from recordings.
        view: for places in messages.

    Returns:
        What to say of variables that the kernel uses and the spec does not list.

    Raises:
        SpecError: they do not, or structures are in constant memory or behind a member of a structure.
        MachineError: there is no clang, or it does not answer.
    """
    if not given:
        return ()
    passed = in_call_order(task)
    plain = [each for each in passed if isinstance(each, Argument)]
    refuse_structures(task, [a for a in task.arguments if a not in plain and not a.in_variable], view)
    reader = cuda_reader(task, tunables)
    functions = cuda_functions(reader, task.kernel.entry)
    if len(functions) == 1:
        # In a header, behind a macro, or one of several: NVRTC finds it.
        _check_parameters(reader, task, functions[0], given, view)
    variables = device_variables(source_tree(reader), base_name(task.kernel.entry).rpartition("::")[2])
    known = {variable.name: variable for variable in variables}
    for place, argument in enumerate(given):
        if (argument.constant or argument.variable) and argument.name in known:
            own = next(each for each in task.arguments if each.name == argument.name)
            check_variable(reader, own, known[argument.name], view, ("arguments", place))
    return tuple(unlisted(variables, {argument.name for argument in given}))


def _check_parameters(
    reader: SourceReader, task: Task, function: Function, given: Sequence[ArgumentModel], view: View
) -> None:
    passed = in_call_order(task)
    plain = [each for each in passed if isinstance(each, Argument)]
    if all(kind.base for _, kind in function.parameters):
        # A macro or a condition among the parameters makes one that clang does not know.
        check_order(function, [each.name for each in passed], view)
        names = [each.name for each in passed]
    else:
        names = [name for name, _ in function.parameters]
    kinds = {name: kind for name, (_, kind) in zip(names, function.parameters, strict=True) if kind.base}
    for place, argument in enumerate(given):
        found = next((each for each in plain if each.name == argument.name), None)
        if found is not None and found.name in kinds and found.passing != "value":
            _check(reader, found, kinds[found.name], view, ("arguments", place))


def _check(reader: SourceReader, argument: Argument, kind: CType, view: View, path: Path) -> None:
    if is_structured(argument.dtype):
        check_element(reader, argument, kind, view, (*path, "dtype"), element=kind.base)
    elif kind.dtypes and not kind.members:
        check_argument(argument, kind, view, path)
