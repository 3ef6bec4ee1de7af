"""A CUDA kernel's variables outside of functions as arguments of a spec: what to write for each, and what is missing.

Asks clang how structures lie in memory; may not read files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tuner.core.dtypes import is_structured
from tuner.core.types import Argument, ArgumentRole
from tuner.spec.element_checks import check_element
from tuner.spec.first.values import divided_by, first_value, initial_values
from tuner.spec.reading.device_variables import DeviceVariable
from tuner.spec.reading.record_layouts import variable_element
from tuner.spec.reading.signature import SourceReader
from tuner.spec.yaml_places import Path, View

__all__ = ["argument_of", "check_variable", "doubt_of", "first_lines", "is_left_out", "unlisted"]

_CONSTANT = "__constant__"
_LEAST, _MOST = 1, 3
"""Whole numbers that are first written for constants: zeros would leave out what they are for."""


def is_left_out(variable: DeviceVariable) -> bool:
    """Whether a spec need not say anything of it: the kernel finds what the source gives it, and leaves it so."""
    return variable.kind.constant or (variable.initialised and not variable.written)


def argument_of(variable: DeviceVariable, *, divides: bool = False) -> str:
    """The argument in YAML; empty where none can stand for the variable.

    Args:
        variable: what is meant.
        divides: whether something is divided by its elements.
    """
    kind = variable.kind
    known = variable.name and not kind.odd and kind.dtypes
    if not known or variable.mark == "__managed__":
        return ""
    constant = variable.mark == _CONSTANT
    single = [1] if (kind.structure or kind.members) and not kind.inner else []
    dtype, extents = kind.dtypes[0], [*kind.inner, *single, *([kind.members] if kind.members else [])]
    name = f'"{variable.name}"' if ":" in variable.name else variable.name
    role = "input" if not variable.written else "inout" if variable.read else "output"
    how = "constant: true" if constant and extents and not kind.structure else "global: true"
    parts = [f"name: {name}", how, f"dtype: {dtype}"]
    if extents:
        parts.append(f"shape: [{', '.join(map(str, extents))}]")
    else:
        parts.append(f"value: {0 if role == 'output' else first_value(dtype)}")
    if role != "input":
        parts.append(f"role: {role}")
    if extents and role != "output" and not kind.structure:
        floating = dtype.startswith(("float", "complex"))
        whole = f"init: {{randint: [{_LEAST}, {_MOST}]}}"
        parts.append(initial_values(dtype, "2", divides=divides)[0] if floating else whole)
    return f"{{{', '.join(parts)}}}"


def doubt_of(variable: DeviceVariable) -> str:
    """What is said of a variable that no argument can stand for, one line without its place."""
    what = f"the {variable.mark} variable {variable.shown}"
    effect = (
        "what the kernel leaves there is not verified" if variable.written else "it is zero in every test"
    )
    cure = "pass it as an argument of the kernel" if variable.name else "declare it outside of the function"
    return f"no argument can stand for {what}: {effect}; {cure}"


def unlisted(variables: Sequence[DeviceVariable], names: Collection[str]) -> Iterator[str]:
    """What to say of variables that a kernel uses and a spec does not list, one line each.

    Args:
        variables: of the kernel.
        names: of the spec's arguments.
    """
    for variable in variables:
        if variable.name in names or is_left_out(variable):
            continue
        argument = argument_of(variable)
        if not argument:
            yield f"{variable.place}: {doubt_of(variable)}".removeprefix(": ")
            continue
        what = f"the {variable.mark} variable {variable.name}, which the spec does not list"
        told = (
            f"the kernel writes to {what}: nothing verifies what it leaves there"
            if variable.written
            else f"the kernel reads {what}: it is zero in every test"
        )
        yield f"{variable.place}: {told}; add {argument} to arguments"


def first_lines(variables: Sequence[DeviceVariable], body: str) -> Iterator[str]:
    """The lines of a first spec for the variables that a kernel uses: arguments, or why there is none.

    Args:
        variables: of the kernel.
        body: its text, without comments.
    """
    used = [variable for variable in variables if not is_left_out(variable)]
    # What is global stands last.
    for variable in sorted(used, key=lambda each: "constant: true" not in argument_of(each)):
        last = variable.name.rpartition("::")[2]
        argument = argument_of(variable, divides=divided_by(last, body))
        if not argument:
            yield f"  # check: {variable.place}: {doubt_of(variable)}".replace(": : ", ": ")
        else:
            what = "value" if "value:" in argument else "values"
            yield f"  - {argument}" + ("" if "role: output" in argument else f"  # check: the {what}")


def check_variable(
    reader: SourceReader, argument: Argument, variable: DeviceVariable, view: View, path: Path
) -> None:
    """An argument is what the variable of its name is.

    Args:
        reader: of the source.
        argument: of the spec.
        variable: of the source.
        view: for places in messages.
        path: of the argument.

    Raises:
        SpecError: it is not.
    """
    kind = variable.kind
    says = f"{argument.name!r} is a {variable.mark} variable in the source"
    if argument.constant and variable.mark != _CONSTANT:
        raise view.error(
            (*path, "constant"), f"{says}, not a __constant__ one", "write global: true", key=True
        )
    if variable.mark == _CONSTANT and argument.role is not ArgumentRole.INPUT:
        raise view.error((*path, "role"), f"{says}, which no kernel can write", "remove role", key=True)
    if kind.odd or not kind.dtypes:
        return
    if is_structured(argument.dtype):
        check_element(
            reader,
            argument,
            kind,
            view,
            (*path, "dtype"),
            element=variable_element(f"::{variable.name}", kind),
        )
    elif argument.dtype not in kind.dtypes:
        what = f"{says}, of {kind.dtypes[0]}, but the spec says {argument.dtype}"
        raise view.error((*path, "dtype"), what, f"write {kind.dtypes[0]}")
