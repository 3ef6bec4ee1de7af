"""Arguments that are global variables: the source has them, with the type and the size that the spec gives.

Asks clang; may not read sources itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tuner.core.dtypes import is_structured
from tuner.core.types import Task, Variable
from tuner.spec.element_checks import check_element
from tuner.spec.models import ArgumentModel
from tuner.spec.reading.c_types import ROWS, CType
from tuner.spec.reading.record_layouts import variable_element, variable_kind
from tuner.spec.reading.signature import SourceReader
from tuner.spec.yaml_places import Path, View

__all__ = ["check_variables"]


def check_variables(reader: SourceReader, task: Task, given: Sequence[ArgumentModel], view: View) -> None:
    """The sources have the variables, which can be written before a call and are as large as the spec says.

    Args:
        reader: of the sources as a compiler gets them.
        task: whose variables.
        given: the spec's arguments, for places in messages.
        view: likewise.

    Raises:
        SpecError: they do not.
        BaselineError: the source does not compile.
    """
    variables = task.kernel.variables
    arguments = {argument.name: argument for argument in task.arguments}
    places = {argument.name: ("arguments", i) for i, argument in enumerate(given)}
    addresses = {argument.name for argument in given if argument.by == "address"}
    kinds = reader.types([each for v in variables for each in (f"&{v.name}", v.name)])
    for variable, kind, itself in zip(variables, kinds[::2], kinds[1::2], strict=True):
        path: Path = places[variable.name]
        if isinstance(kind, str) or isinstance(itself, str):
            hint = "name it with the namespaces that it is in, ns::name; a variable of a function cannot be given"
            what = f"{variable.name!r} is no global variable of {reader.files[0].name}"
            raise view.error((*path, "name"), what, hint)
        if variable.name in addresses and itself.is_address:
            continue
        if kind.odd == ROWS and not itself.odd:
            _check_pointer(variable, itself, view, path)
            continue
        if variable.pointer:
            what = f"the global {variable.name!r} is `{_declared(kind)}` in the source, which is no pointer"
            raise view.error((*path, "global"), what, "write global: true", key=True)
        whole = variable_kind(reader, variable.name, kind)
        _check(variable, whole, view, path)
        if is_structured(variable.dtype):
            element = variable_element(variable.name, kind)
            check_element(reader, arguments[variable.name], kind, view, (*path, "dtype"), element=element)


def _check_pointer(variable: Variable, kind: CType, view: View, path: Path) -> None:
    says = f"the global {variable.name!r} is the pointer `{kind.text}` in the source"
    if not variable.pointer:
        raise view.error((*path, "global"), says, "write global: pointer", key=True)
    if not kind.dtypes:
        raise view.error(path, f"{says}, which no argument can stand for", "give pointers to numbers only")
    if variable.dtype not in kind.dtypes:
        hint = f"write {kind.dtypes[0]}"
        raise view.error((*path, "dtype"), f"{says}, but the spec says {variable.dtype}", hint)


def _check(variable: Variable, kind: CType, view: View, path: Path) -> None:
    says = f"the global {variable.name!r} is `{_declared(kind)}` in the source"
    if kind.odd or not kind.pointer or not kind.dtypes:
        hint = "only numbers, structures of numbers and arrays of either can be given in this version"
        raise view.error(path, f"{says}, which no argument can stand for", hint)
    if kind.constant:
        raise view.error(path, f"{says}, which nothing can write", "leave it out: the compiler knows it")
    structured = kind.structure and is_structured(variable.dtype)
    if variable.dtype not in kind.dtypes and not structured:
        hint = f"write {kind.dtypes[0]}"
        raise view.error((*path, "dtype"), f"{says}, but the spec says {variable.dtype}", hint)
    single = () if kind.inner or not (kind.structure or kind.members) else (1,)
    shape = (*kind.inner, *single, *([kind.members] if kind.members else []))
    if math.prod(shape) != variable.count:
        extents = ", ".join(map(str, shape))
        hint = f"write shape: [{extents}]" if extents else "write value in the place of shape"
        what = f"{says}, but the spec gives {variable.count} element{'s' if variable.count > 1 else ''}"
        raise view.error((*path, "shape"), what, hint)


def _declared(kind: CType) -> str:
    """The type of what has the address: `double (*)[8]` is that of a `double[8]`."""
    return kind.text.replace(" (*)", "").removesuffix("*").strip()
