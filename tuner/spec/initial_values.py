"""Initial values of a spec's arguments: from the models to the shared types, with what can be checked of them.

May not read files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.core.dtypes import element_of, is_structured, members_of
from tuner.core.errors import SpecError
from tuner.core.expressions import Expression, parse
from tuner.core.types import Argument, ArgumentRole, Initial, Problem
from tuner.evaluators.distributions import OPTIONS
from tuner.spec.models import ArgumentModel, InitialModel
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = ["check_names", "check_range", "make_initial", "with_sizes"]

_OF_STRUCTURES = ("zeros", "file", "python")
_OF_MEMBERS = ("normal", "uniform", "randint", "permutation", "zeros", "constant")
_FLOATING = ("float16", "float32", "float64", "complex64", "complex128")


def check_names(expression: Expression, known: Collection[str], view: View, path: Path) -> None:
    """Every name of an expression is known.

    Raises:
        SpecError: with a close match, at ``path``.
    """
    for name in sorted(expression.names):
        if name not in known:
            listed = "known names: " + ", ".join(sorted(known)[:12]) if known else "no names are known here"
            hint = suggestion(name, known, listed)
            raise view.error(path, f"unknown name {name!r} in {expression.text!r}", hint)


def make_initial(
    given: ArgumentModel, role: ArgumentRole, sizes: set[str], view: View, path: Path
) -> Initial:
    """The initial values of an array.

    Args:
        given: what the spec says of it.
        role: of it.
        sizes: names that expressions may have.
        view: for places in messages.
        path: of the argument.

    Raises:
        SpecError: values that it cannot have.
    """
    assert given.dtype is not None
    floating = given.dtype in _FLOATING
    if given.init is None and role in (ArgumentRole.OUTPUT, ArgumentRole.SCRATCH):
        return Initial(kind="zeros")
    if is_structured(given.dtype) and (given.init is None or given.init.kind not in _OF_STRUCTURES):
        return _initial_members(given, role, sizes, view, path)
    if given.init is None:
        if not floating:
            hint = "for example init: {randint: [0, 100]}"
            raise view.error(path, f"{given.dtype} array {given.name!r} needs an init", hint)
        return Initial()
    where = (*path, "init")
    needed, allowed = OPTIONS[given.init.kind]
    options = given.init.options
    for name in sorted(set(options) - needed - allowed):
        every = needed | allowed
        hint = suggestion(name, every, "it has " + (", ".join(sorted(every)) or "none"))
        raise view.error(
            (*where, given.init.kind, name), f"init {given.init.kind} has no option {name!r}", hint
        )
    for name in sorted(needed - set(options)):
        raise view.error(where, f"init {given.init.kind} has no {name!r}", "this option is needed")
    _check_kind(given, given.init, floating, view, where)
    for name, value in options.items():
        if isinstance(value, Expression | tuple):
            for each in value if isinstance(value, tuple) else (value,):
                check_names(each, sizes, view, (*where, given.init.kind))
        elif not isinstance(value, str):
            raise view.error(where, f"init {given.init.kind}: {name} is {value!r}", "it must be text")
    return Initial(kind=given.init.kind, options=dict(options))


def _initial_members(
    given: ArgumentModel, role: ArgumentRole, sizes: set[str], view: View, path: Path
) -> Initial:
    """Of structures: values of each member; numbers that nothing is said of are normal, or below 100."""
    where = (*path, "init", "members")
    init = given.init or InitialModel(kind="members")
    assert given.dtype is not None
    members = members_of(given.dtype)
    if init.kind != "members":
        hint = f"say so of each: init: {{members: {{{next(iter(members))}: {init.kind}}}}}, or zeros, file or python"
        raise view.error(
            (*path, "init"), f"init {init.kind} cannot fill the structures of {given.name!r}", hint
        )
    for name in init.options:
        if name not in members:
            hint = suggestion(name, members, "it has " + ", ".join(members))
            raise view.error(
                (*where, name), f"the structures of {given.name!r} have no member {name!r}", hint
            )
    made = {}
    for name, kind in members.items():
        dtype, _ = element_of(kind)
        asked = init.options.get(name)
        model = None if asked is None else InitialModel.model_validate(asked)
        if model is not None and model.kind not in _OF_MEMBERS:
            hint = f"one of {', '.join(_OF_MEMBERS)}"
            raise view.error((*where, name), f"init {model.kind} cannot fill a member", hint)
        if model is None and dtype not in _FLOATING:
            high = parse("2" if dtype == "bool" else "100")
            model = InitialModel(kind="randint", options={"low": parse("0"), "high": high})
        member = given.model_copy(update={"name": f"{given.name}.{name}", "dtype": dtype, "init": model})
        made[name] = make_initial(member, role, sizes, view, (*where, name))
    return Initial(kind="members", options=made)


def _check_kind(given: ArgumentModel, init: InitialModel, floating: bool, view: View, path: Path) -> None:
    if init.kind in ("uniform", "normal") and not floating:
        hint = "for example {randint: [0, 100]}"
        raise view.error(path, f"init {init.kind} cannot fill {given.dtype} array {given.name!r}", hint)
    if init.kind in ("permutation", "csr") and (floating or given.dtype == "bool"):
        raise view.error(
            path, f"init {init.kind} cannot fill {given.dtype} array {given.name!r}", "use an int type"
        )
    if init.kind == "csr" and init.options.get("part") not in ("row_pointers", "columns"):
        part = init.options.get("part")
        raise view.error((*path, "csr", "part"), f"part is {part!r}", "row_pointers or columns")


def check_range(argument: Argument, problem: Problem, view: View, path: Path) -> None:
    """That initial values are possible for one problem, those of members too.

    Raises:
        SpecError: they are not.
    """
    if argument.initial.kind == "members":
        for name, kind in members_of(argument.dtype).items():
            member = replace(argument, dtype=element_of(kind)[0], initial=argument.initial.options[name])
            check_range(member, problem, view, (*path, "members", name))
        return
    options: Mapping[str, Any] = argument.initial.options
    numbers = {}
    for name, value in options.items():
        if isinstance(value, Expression):
            try:
                numbers[name] = value.evaluate(problem.sizes)
            except SpecError as error:
                raise SpecError(
                    f"{error.message}{with_sizes(problem)}", error.hint, place=view.place(path)
                ) from None
    if numbers.get("deviation", 0) < 0:
        message = f"the deviation of normal is {numbers['deviation']}{with_sizes(problem)}"
        raise view.error(path, message, "at least 0")
    low, high = numbers.get("low"), numbers.get("high")
    if low is None or high is None:
        return
    if argument.initial.kind == "randint":
        if low >= high:
            raise view.error(
                path, f"randint [{low}, {high}] is empty{with_sizes(problem)}", "the high end is excluded"
            )
        if argument.dtype.startswith(("int", "uint")):
            info = np.iinfo(argument.dtype)
            if low < info.min or high - 1 > info.max:
                raise view.error(path, f"randint [{low}, {high}] does not fit {argument.dtype}", "narrow it")
    elif low > high:
        raise view.error(path, f"uniform [{low}, {high}] is empty{with_sizes(problem)}", "swap the ends")


def with_sizes(problem: Problem) -> str:
    """`` with n = 3``: which sizes a message is about; empty where there are none."""
    return " with " + ", ".join(f"{k} = {v}" for k, v in problem.sizes.items()) if problem.sizes else ""
