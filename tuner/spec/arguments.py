"""Arguments and problem sizes: from the models to the shared types, with everything checked that needs no compiler.

May not read files other than through the function handed in.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tuner.core.dtypes import is_structured, numpy_dtype
from tuner.core.errors import SpecError
from tuner.core.expressions import RESERVED, Expression, parse
from tuner.core.types import Argument, ArgumentRole, Initial, Problem, Value
from tuner.evaluators.distributions import cast_scalar
from tuner.spec.initial_values import check_names, check_range, make_initial, with_sizes
from tuner.spec.models import ArgumentModel, SpecModel
from tuner.spec.recorded.by_recording import INDEX
from tuner.spec.structured import Part, parts
from tuner.spec.wrapping import rows_of
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = [
    "MAX_BYTES",
    "make_arguments",
    "make_problems",
    "pointed_to",
    "verify_problems",
]

MAX_BYTES = 1 << 40
"""Bytes of all arrays of one problem."""


def _no_parameters(extent: Expression, sizes: Collection[str], view: View, path: Path) -> None:
    space = view.data.get("space")
    parameters = space.get("parameters") if isinstance(space, Mapping) else None
    for name in sorted(extent.names - set(sizes)):
        if isinstance(parameters, Mapping) and name in parameters:
            raise view.error(
                path,
                f"{name!r} is a parameter, and a shape may only name sizes",
                "all candidates work on the same arrays: write the largest that any of them needs",
            )


def make_problems(model: SpecModel, view: View) -> tuple[Problem, ...]:
    """The problems to time.

    Raises:
        SpecError: both ways of giving them, different names, a name that means something else.
    """
    if model.problem is not None and model.problems is not None:
        raise view.error(("problems",), "both problem and problems are given", "keep one", key=True)
    if model.problems is None:
        problems = [(("problem",), Problem(sizes=dict(model.problem or {})))]
    else:
        problems = [
            (("problems", i), Problem(sizes=dict(p.model_extra or {}), weight=p.weight))  # type: ignore[misc]
            for i, p in enumerate(model.problems)
        ]
    names = set(problems[0][1].sizes)
    for path, problem in problems:
        if set(problem.sizes) != names:
            odd = sorted(names ^ set(problem.sizes))[0]
            raise view.error(path, f"{odd!r} is not in every problem", "all problems have the same sizes")
        for name in problem.sizes:
            if name in RESERVED or name == "passes":
                raise view.error((*path, name), f"{name!r} cannot name a size", "it is reserved", key=True)
    return tuple(problem for _, problem in problems)


def verify_problems(model: SpecModel, problems: Sequence[Problem], view: View) -> tuple[Problem, ...]:
    """The further problems of the verification, merged over the first problem; ``assume`` is checked on all.

    Raises:
        SpecError: an unknown size, or sizes that break an assumption.
    """
    names = set(problems[0].sizes)
    for i, assumption in enumerate(model.verify.assume):
        check_names(assumption, names, view, ("verify", "assume", i))
    merged = []
    for i, sizes in enumerate(model.verify.problems):
        for name in sizes:
            if name not in names:
                hint = suggestion(name, names, "sizes are " + (", ".join(sorted(names)) or "not given"))
                raise view.error(("verify", "problems", i, name), f"unknown size {name!r}", hint, key=True)
        merged.append(Problem(sizes={**problems[0].sizes, **sizes}))
    for number, problem in enumerate((*problems, *merged)):
        for i, assumption in enumerate(model.verify.assume):
            place: Path = ("verify", "assume", i)
            with view.at(place):
                holds = assumption.evaluate(problem.sizes)
            if not holds:
                shown = ", ".join(f"{k} = {v}" for k, v in problem.sizes.items() if k in assumption.names)
                if number >= len(problems):
                    place = ("verify", "problems", number - len(problems))
                raise view.error(
                    place, f"{assumption.text!r} does not hold with {shown}", "correct one of them"
                )
    return tuple(merged)


def make_arguments(
    model: SpecModel, problems: Sequence[Problem], scalars: Mapping[str, Value], view: View
) -> tuple[Argument, ...]:
    """The arguments in call order.

    Args:
        model: what the spec says.
        problems: all sizes that the arguments must make sense for, those of the verification included.
        scalars: parameters with ``macro: false`` at their defaults: names for values of scalars.
        view: for places in messages.

    Raises:
        SpecError: whatever is wrong with one of them.
    """
    if not model.arguments:
        raise view.error(("arguments",), "no arguments are given", "list them in call order", key=True)
    sizes = set(problems[0].sizes)
    arguments, paths = [], []
    for part in parts(model.arguments, view):
        made = [_argument(part, sizes, set(scalars), view)]
        if part.given.rows:
            made += rows_of(made[0])
        arguments += made
        paths += [part.path] * len(made)
    outputs = (ArgumentRole.OUTPUT, ArgumentRole.INOUT)
    written = any(a.role in outputs for a in arguments) or any(a.by == "address" for a in model.arguments)
    if not written and model.kernel.returns is None:
        raise view.error(
            ("arguments",),
            "no argument is an output and nothing is returned",
            "give what the kernel writes role: output (or inout), or say what it returns",
            key=True,
        )
    for problem in problems:
        _evaluate(arguments, paths, problem, scalars, view)
    return tuple(arguments)


def _argument(part: Part, sizes: set[str], scalars: set[str], view: View) -> Argument:
    given, path = part.given, part.path
    if given.by == "address":
        passing = "global" if given.variable else "address"
        return Argument(name=given.name, dtype="int64", value=parse("0"), passing=passing)
    assert given.dtype is not None
    if (given.shape is None) == (given.value is None):
        what = "has neither shape nor value" if given.shape is None else "has both shape and value"
        raise view.error(path, f"argument {given.name!r} {what}", "arrays have a shape, scalars a value")
    if given.shape is None:
        if is_structured(given.dtype):
            hint = "give an array its shape, and a single structure struct and members"
            raise view.error((*path, "dtype"), f"argument {given.name!r} is a structure and no array", hint)
        return _scalar(part, sizes, scalars, view)
    if given.by == "value" and not part.member:
        hint = "remove by: C passes the address of an array"
        raise view.error((*path, "by"), f"array {given.name!r} is passed by value", hint, key=True)
    if given.by == "pointer":
        hint = "remove by: an array is passed by its address in any case"
        raise view.error((*path, "by"), f"array {given.name!r} is passed by pointer", hint, key=True)
    for i, extent in enumerate(given.shape):
        if given.variable is True and extent.names:
            hint = "write numbers: a variable is as large as the source declares it"
            what = f"the global {given.name!r} has the size {extent.text!r}"
            raise view.error((*path, "shape", i), what, hint)
        _no_parameters(extent, sizes, view, (*path, "shape", i))
        check_names(extent, sizes, view, (*path, "shape", i))
    role = ArgumentRole(given.role)
    if is_structured(given.dtype):
        _check_structures(part, view)
    if given.init is not None and role in (ArgumentRole.OUTPUT, ArgumentRole.SCRATCH):
        hint = "remove init, or say role: inout if the kernel reads it"
        raise view.error((*path, "init"), f"{given.role} {given.name!r} has an init", hint, key=True)
    if given.fixed and role in (ArgumentRole.OUTPUT, ArgumentRole.SCRATCH):
        raise view.error(
            (*path, "fixed"), f"{given.role} {given.name!r} is fixed", "only inputs can be", key=True
        )
    if given.constant and role is not ArgumentRole.INPUT:
        raise view.error(
            (*path, "constant"), f"{given.role} {given.name!r} is constant", "only inputs can be", key=True
        )
    return Argument(
        name=given.name,
        dtype=given.dtype,
        shape=tuple(given.shape),
        role=role,
        initial=make_initial(given, role, sizes, view, path),
        fixed=given.fixed,
        constant=given.constant,
        passing=_passing(given),
    )


def _check_structures(part: Part, view: View) -> None:
    """An array of structures can be what the spec says."""
    given, path = part.given, part.path
    for key, wrong in (
        ("global", given.variable == "pointer"),
        ("rows", given.rows is not None),
        ("constant", given.constant),
    ):
        if wrong:
            what = f"array {given.name!r} is one of structures, which cannot have {key} in this version"
            hint = (
                "write global: true"
                if key == "constant"
                else f"remove {key}, or list the arrays that it is made of"
            )
            raise view.error((*path, key), what, hint, key=True)


def _scalar(part: Part, sizes: Collection[str], parameters: Collection[str], view: View) -> Argument:
    given, path = part.given, part.path
    assert given.value is not None
    assert given.dtype is not None
    role = ArgumentRole(given.role)
    for key, wrong in (
        ("init", given.init is not None),
        ("fixed", given.fixed),
        ("constant", given.constant),
        ("role", role is not ArgumentRole.INPUT and not (part.member or given.variable)),
    ):
        if wrong:
            hint = f"remove {key}, or give a shape"
            raise view.error((*path, key), f"scalar {given.name!r} cannot have {key}", hint, key=True)
    if given.dtype.startswith("complex"):
        raise view.error(
            (*path, "dtype"), f"scalar {given.name!r} is complex", "use arrays for complex numbers"
        )
    check_names(given.value, {*sizes, *parameters}, view, (*path, "value"))
    scalar = Argument(name=given.name, dtype=given.dtype, value=given.value)
    if given.by != "pointer" and role is ArgumentRole.INPUT and not given.variable:
        return scalar
    for name in sorted(given.value.names & set(parameters)):
        # Buffers are made once and serve all candidates.
        passed = (
            "passed by pointer" if given.by == "pointer" else "global" if given.variable else f"an {role}"
        )
        what = f"{given.name!r} is {passed}, and {name!r} is a parameter"
        raise view.error((*path, "value"), what, "name sizes only, or pass it by value")
    return replace(pointed_to(scalar), role=role, passing=_passing(given))


def _passing(given: ArgumentModel) -> str:
    return "global" if given.variable else "argument"


def pointed_to(scalar: Argument) -> Argument:
    """The scalar in a buffer of its own, whose address the kernel gets."""
    initial = Initial(kind="constant", options={"value": scalar.value})
    return replace(scalar, shape=(parse("1"),), initial=initial, fixed=True)


def _evaluate(
    arguments: Sequence[Argument],
    paths: Sequence[Path],
    problem: Problem,
    scalars: Mapping[str, Value],
    view: View,
) -> None:
    """Shapes, values and ranges make sense for one problem."""
    total = 0
    env: dict[str, Value] = {**scalars, **problem.sizes}
    for argument, where in zip(arguments, paths, strict=True):
        path = where
        try:
            if argument.value is not None:
                cast_scalar(argument.name, argument.value.evaluate(env), np.dtype(argument.dtype))
                continue
            if INDEX in problem.sizes:
                # Its shape and its elements are those that were recorded.
                continue
            path = (*path, "shape")
            extents = [extent.integer(problem.sizes) for extent in argument.shape or ()]
        except SpecError as error:
            raise SpecError(
                f"{error.message}{with_sizes(problem)}", error.hint, place=view.place(path)
            ) from None
        if min(extents) < 1:
            raise view.error(
                path, f"argument {argument.name!r} has the shape {extents}{with_sizes(problem)}", "at least 1"
            )
        total += math.prod(extents) * numpy_dtype(argument.dtype).itemsize
        if total > MAX_BYTES:
            hint = "make the problem smaller"
            raise view.error(path, f"the arrays need {total >> 30:,} GiB{with_sizes(problem)}", hint)
        values = argument.initial.options.get("values", ())
        if values and len(values) != math.prod(extents):
            message = (
                f"{argument.name!r} has {math.prod(extents)} elements, but init gives {len(values)} values"
            )
            raise view.error((*where, "init"), message + with_sizes(problem), "one for each element")
        check_range(argument, problem, view, (*where, "init"))
