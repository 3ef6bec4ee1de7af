"""The space section: from the models to parameters, constraints, flags and pass pipelines.

May not list or search the space.
"""

from __future__ import annotations

import ast
import copy
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression, parse
from tuner.core.types import Argument, Problem
from tuner.evaluators.recorded.formats import read_space
from tuner.spaces.parameters import Parameter
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.space import PASSES, Space
from tuner.spec.initial_values import check_names
from tuner.spec.models import ArgumentModel, ParameterModel, SpecModel
from tuner.spec.yaml_places import Path, View

__all__ = ["MAX_VALUES", "Tunables", "flag_words", "make_parameters", "make_tunables", "with_sizes_in_flags"]

MAX_VALUES = 1 << 22
"""Values of one parameter: searchers keep numbers for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunables:
    """What :class:`~tuner.spaces.space.Space` is made of, before the passes of a compiler are known.

    ``measured`` is the text of the recorded space whose configurations alone can be tried, where there is one.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[Expression, ...]
    flags: Mapping[str, tuple[str, ...]]
    sizes: Mapping[str, int]
    passes: Mapping[str, Any] | None
    passes_asked: bool
    view: View = field(repr=False)
    measured: str | None = field(default=None, repr=False)

    def space(self, catalogue: Mapping[str, Any] | None) -> Space:
        """The space with the passes of one compiler.

        Raises:
            SpecError: no valid configuration, or passes that the compiler does not have.
        """
        passes = None
        if self.passes is not None and catalogue is not None:
            with self.view.at(("space", "passes"), key=True):
                passes = PassSpace(Catalogue.from_json(catalogue), **self.passes)
        elif self.passes_asked:
            hint = "write passes: off"
            raise self.view.error(("space", "passes"), "this backend has no passes", hint, key=True)
        path: Path = ("space", "constraints") if self.constraints else ("space",)
        with self.view.at(path, key=True):
            whole = Space(
                self.parameters, self.constraints, flags=self.flags, passes=passes, sizes=self.sizes
            )
        with self.view.at(("kernel", "source")):
            return whole if self.measured is None else _measured_part(whole, self.measured)


def _measured_part(space: Space, text: str) -> Space:
    """What of a space was measured; the whole one where all of it was, or where the data is of other parameters."""
    data = read_space(text)
    if set(data.parameters) != {p.name for p in space.parameters} or space.flags:
        return space
    part = space.restricted(configuration for configuration, _ in data.configurations())
    return space if part.count() == space.count() else part


def with_sizes_in_flags(model: SpecModel, view: View) -> SpecModel:
    """The model of a spec whose flags have sizes by name, such as ``-DN={N}``, with their values there.

    They are the same in every build, so the shapes of variables may name them.

    Raises:
        SpecError: such a size has several values.
    """
    sets = [model.problem or {}, *(p.__pydantic_extra__ for p in model.problems or ())]
    sizes = {name: value for each in reversed(sets) for name, value in each.items()}
    named = re.compile(rf"\{{({'|'.join(map(re.escape, sizes))})\}}")
    fixed: dict[str, int] = {}
    flags: dict[str, list[str]] = {}
    for group, choices in model.space.flags.items() if sizes else ():
        for at, choice in enumerate(choices):
            for name in named.findall(choice):
                others = (*sets, *model.verify.problems)
                if any(name in each.names for each in model.verify.assume) or any(
                    each.get(name, sizes[name]) != sizes[name] for each in others
                ):
                    message = f"the size {name} has other values in the problems or under verify"
                    hint = "a build has one value: leave the size out there"
                    raise view.error(("space", "flags", group, at), message, hint)
                fixed[name] = sizes[name]
        flags[group] = [named.sub(lambda found: str(sizes[found[1]]), choice) for choice in choices]
    if not fixed:
        return model
    space = model.space.model_copy(update={"flags": flags})
    arguments = [_with_numbers(each, fixed) for each in model.arguments or ()] or None
    return model.model_copy(update={"space": space, "arguments": arguments})


def _with_numbers(argument: ArgumentModel, sizes: Mapping[str, int]) -> ArgumentModel:
    """A variable whose shape has numbers in the place of sizes."""
    if argument.variable is not True or argument.shape is None:
        return argument
    shape = [
        parse(str(e.integer(sizes))) if e.names and e.names <= sizes.keys() else e for e in argument.shape
    ]
    return argument.model_copy(update={"shape": shape})


def make_parameters(model: SpecModel, view: View) -> tuple[Parameter, ...]:
    """The parameters, each by itself.

    Raises:
        SpecError: values, ranges and defaults that cannot be.
    """
    made = []
    for name, given in model.space.parameters.items():
        path = ("space", "parameters", name)
        if name == PASSES:
            raise view.error(
                path, "'passes' cannot name a parameter", "it is the pass pipeline's name", key=True
            )
        with view.at(path):
            made.append(_parameter(name, given))
    return tuple(made)


def _parameter(name: str, given: ParameterModel) -> Parameter:
    if given.values is not None:
        for key in ("low", "high", "step"):
            if getattr(given, key) is not None:
                raise SpecError(
                    f"parameter {name!r} has values and {key}", "give a list or a range, not both"
                )
        if given.log:
            raise SpecError(f"parameter {name!r} has values and log", "log is for ranges")
        return Parameter.choice(name, given.values, default=given.default, macro=given.macro)
    if given.low is None or given.high is None:
        missing = "low" if given.low is None else "high"
        raise SpecError(f"parameter {name!r} has no {missing}", "give low and high, or a list of values")
    if given.log:
        if given.step is not None:
            raise SpecError(f"parameter {name!r} has log and step", "log takes the powers of two")
        return Parameter.log_integer(
            name, low=given.low, high=given.high, default=given.default, macro=given.macro
        )
    made = Parameter.integer(
        name, low=given.low, high=given.high, step=given.step or 1, default=given.default, macro=given.macro
    )
    if len(made.values) > MAX_VALUES:
        raise SpecError(
            f"parameter {name!r} has {len(made.values):,} values, {MAX_VALUES:,} are the most",
            "give a step, or log: true for the powers of two",
        )
    return made


def make_tunables(
    model: SpecModel,
    parameters: Sequence[Parameter],
    arguments: Sequence[Argument],
    problems: Sequence[Problem],
    view: View,
) -> Tunables:
    """Puts the space section together.

    Raises:
        SpecError: names that collide or are unknown, flags that are no words, nothing to tune.
    """
    _check_collisions(model, parameters, arguments, problems, view)
    flags = _flags(model, view)
    known = {p.name for p in parameters} | set(flags) | set(problems[0].sizes)
    constraints: list[Expression] = []
    for i, constraint in enumerate(model.space.constraints):
        check_names(constraint, known, view, ("space", "constraints", i))
        constraints += _for_problems(constraint, problems)
    asked = model.space.passes
    passes = None
    if asked is None or not asked.off:
        passes = {} if asked is None else {"base": asked.base, "max_edits": asked.max_edits}
    choices = [len(p.values) for p in parameters] + [len(c) for c in flags.values()]
    if passes is None and all(n == 1 for n in choices) and not model.space.source.evolve:
        path: Path = ("space",) if "space" in view.data else ()
        hint = "list values in space.parameters or space.flags, leave passes on, or let the source evolve"
        raise view.error(path, "there is nothing to tune", hint, key=True)
    return Tunables(
        parameters=tuple(parameters),
        constraints=tuple(constraints),
        flags=flags,
        sizes=dict(problems[0].sizes) if len(problems) == 1 else {},
        passes=passes,
        passes_asked=asked is not None and not asked.off,
        view=view,
    )


def _check_collisions(
    model: SpecModel,
    parameters: Sequence[Parameter],
    arguments: Sequence[Argument],
    problems: Sequence[Problem],
    view: View,
) -> None:
    seen: dict[str, str] = dict.fromkeys(problems[0].sizes, "a size")
    names = {a.name for a in arguments}
    for parameter in parameters:
        path: Path = ("space", "parameters", parameter.name)
        if parameter.name in seen:
            raise view.error(
                path, f"{parameter.name!r} is a parameter and also a size", "rename one", key=True
            )
        if parameter.macro and parameter.name in (names | {model.kernel.entry}):
            what = "the function" if parameter.name == model.kernel.entry else "an argument"
            message = f"the macro {parameter.name!r} would replace {what} of that name in the source"
            raise view.error(path, message, "rename the parameter, or say macro: false", key=True)
        seen[parameter.name] = "a parameter"
    for group in model.space.flags:
        path = ("space", "flags", group)
        if group == PASSES:
            raise view.error(
                path, "'passes' cannot name a flag group", "it is the pass pipeline's name", key=True
            )
        if group in seen:
            raise view.error(
                path, f"{group!r} is a flag group and also {seen[group]}", "rename one", key=True
            )


def _flags(model: SpecModel, view: View) -> dict[str, tuple[str, ...]]:
    for group, choices in model.space.flags.items():
        for i, choice in enumerate(choices):
            path = ("space", "flags", group, i)
            if choice in choices[:i]:
                raise view.error(path, f"the choice {choice!r} is listed twice", "remove one")
            try:
                words = shlex.split(choice)
            except ValueError as error:
                raise view.error(
                    path, f"{choice!r} cannot be split into flags: {error}", "check quotes"
                ) from None
            if words and not words[0].startswith(("-", "@")):
                raise view.error(path, f"{words[0]!r} is no flag", "flags begin with -")
    return {group: tuple(choices) for group, choices in model.space.flags.items()}


def flag_words(choice: str) -> list[str]:
    """The flags of a choice; none of one that cannot be split, which is reported where flags are checked."""
    try:
        return shlex.split(choice)
    except ValueError:
        return []


def _for_problems(constraint: Expression, problems: Sequence[Problem]) -> list[Expression]:
    """A constraint that names sizes has to hold for every problem: one copy for each, sizes put in."""
    if len(problems) == 1 or not constraint.names & set(problems[0].sizes):
        return [constraint]
    made = [parse(ast.unparse(_Sizes(p.sizes).visit(copy.deepcopy(constraint.tree)))) for p in problems]
    return list(dict.fromkeys(made))


class _Sizes(ast.NodeTransformer):
    """Puts numbers in the place of names."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A size becomes its number."""
        return ast.Constant(self._sizes[node.id]) if node.id in self._sizes else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A size may be called as a function is."""
        node.args = [self.visit(argument) for argument in node.args]
        return node
