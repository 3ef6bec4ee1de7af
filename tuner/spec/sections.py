"""The smaller sections of a spec as shared types, and the keys whose feature is still to come.

May not read files.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Sequence

from tuner.core.expressions import Expression
from tuner.core.types import (
    Argument,
    Kernel,
    Launch,
    MeasurePolicy,
    Parcel,
    Problem,
    Reference,
    Variable,
    VerifyPolicy,
)
from tuner.spec.initial_values import check_names, with_sizes
from tuner.spec.instances import instance_named, is_instance
from tuner.spec.models import SpecModel
from tuner.spec.sources import Sources
from tuner.spec.structured import has_structures
from tuner.spec.tunables import Tunables
from tuner.spec.wrapping import Wrapper, start_name, wrapper_of
from tuner.spec.yaml_places import Path as KeyPath
from tuner.spec.yaml_places import View

__all__ = [
    "EVOLVED",
    "NOT_YET",
    "check_models",
    "evolves",
    "make_compare",
    "make_kernel",
    "make_launch",
    "make_measure",
    "make_notices",
    "make_objectives",
    "make_verify",
    "refuse_unbuilt",
]

EVOLVED = ("c", "c++", "opencl", "cuda")

_URL = re.compile(r"https?://[^\s@/?#]+(/[^\s@?#]*)?")

NOT_YET = "not available in this version"


def refuse_unbuilt(model: SpecModel, view: View) -> None:
    """Keys without which the rest means something else, and whose feature is still to come."""
    if model.kernel.link:
        hint = "the C and mathematical libraries are there without it"
        raise view.error(("kernel", "link"), f"kernel.link is {NOT_YET}", hint, key=True)
    if model.verify.reference.kind == "recording" and model.workload is None:
        hint = "name recordings with workload, or use original or {python: file.py:function}"
        raise view.error(
            ("verify", "reference"), "verify.reference is recording, and there is none", hint, key=True
        )


def evolves(model: SpecModel, language: str) -> bool:
    """Whether variants of the source are searched: there are source transformations for its language."""
    return bool(model.space.source.evolve) and language in EVOLVED


def make_objectives(model: SpecModel, view: View) -> tuple[str, ...]:
    """What is made small, time first.

    Raises:
        SpecError: several together with variants of the source.
    """
    if len(model.objective) > 1 and model.space.source.evolve:
        hint = "leave out space.source, or objective"
        raise view.error(("objective",), "variants of the source are searched for time alone", hint, key=True)
    return model.objective


def make_notices(model: SpecModel, language: str) -> tuple[str, ...]:
    """What the spec asks for on top and does not get yet: the run is sound without, and says so aloud."""
    asked = (
        (
            bool(model.space.source.evolve) and not evolves(model, language),
            f"space.source.evolve for {language}",
            "the source stays as it is given",
        ),
    )
    notices = [f"{key} is {NOT_YET}: {effect}" for wanted, key, effect in asked if wanted]
    if model.search.llm is not None and not evolves(model, language):
        notices.append("search.llm: no model is asked, because the source does not evolve (space.source)")
    others = [key for key in ("problems", "assume") if getattr(model.verify, key)]
    if model.workload is not None and others:
        shown = " and ".join(f"verify.{key}" for key in others)
        notices.append(f"{shown}: left out, as recordings have the sizes that they have")
    return tuple(notices)


def check_models(model: SpecModel, view: View) -> None:
    """What the keys about models mean together."""
    llm, budget = model.search.llm, model.search.budget
    limited = [name for name in ("usd", "tokens", "calls") if getattr(budget, name) is not None]
    if not model.search.proposers and llm is None:
        raise view.error(("search", "proposers"), "nobody proposes variants", "for example [remix]")
    if llm is None:
        return
    place: KeyPath = ("search", "llm")
    if (llm.model is None) == (not llm.models):
        raise view.error(
            place, "search.llm names no model, or one and a list", "give model or models", key=True
        )
    names = [m.model for m in llm.models]
    if len(set(names)) < len(names):
        raise view.error((*place, "models"), "a model is there twice", "name each once", key=True)
    if llm.models and all(m.role == "ideas" for m in llm.models):
        hint = "give one of them role: write, or all"
        raise view.error((*place, "models"), "no model writes versions", hint, key=True)
    for url, path in [
        (llm.base_url, (*place, "base_url")),
        *((m.base_url, (*place, "models", i, "base_url")) for i, m in enumerate(llm.models)),
    ]:
        if url is not None and not _URL.fullmatch(url):
            hint = (
                "http(s)://host/v1, without name or password: those belong into the variable of api_key_env"
            )
            raise view.error(path, f"{'.'.join(map(str, path))} is no address of a server", hint)
    prices = [llm.prices, *(m.prices for m in llm.models if m.prices is not None)]
    if "usd" in limited and not any(p.prompt or p.completion for p in prices):
        hint = "give search.llm.prices, in dollars for a million tokens"
        raise view.error(("search", "budget", "usd"), "a budget in dollars needs prices", hint)


def make_wrapper(
    model: SpecModel, sources: Sources, backend: str, arguments: Sequence[Argument], view: View
) -> Wrapper | None:
    """The function that calls the kernel where it cannot be called as it is; ``None`` where it can.

    Raises:
        SpecError: an entry that is no instance of a template, or structures that cannot be passed here.
    """
    kernel, files = model.kernel, sources.variant.files
    given = [a for a in model.arguments or [] if not a.variable]
    arguments = [a for a in arguments if a.passing not in ("global", "memory")]
    is_template = backend == "host" and sources.language == "c++" and is_instance(kernel.entry)
    started = {start_name(argument.name) for argument in given} & {a.name for a in arguments}
    if not has_structures(given) and not started:
        if is_template:
            return instance_named(kernel.entry, arguments, kernel.returns, files, view)
        return None
    if backend != "host":
        return None
    place = next((i for i, a in enumerate(model.arguments or []) if has_structures([a])), 0)
    path: KeyPath = ("arguments", place)
    if is_template:
        hint = "write a function that calls it with the structure, and name that"
        what = "structures, rows, or the middle of an array"
        raise view.error(path, f"{kernel.entry!r} is a template, and takes {what}", hint)
    return wrapper_of(kernel.entry, given, arguments, kernel.returns, files, sources.language)


def make_variables(
    model: SpecModel, backend: str, arguments: Sequence[Argument], view: View
) -> tuple[Variable, ...]:
    """The variables that arguments stand for.

    Raises:
        SpecError: the backend has none.
    """
    for i, given in enumerate(model.arguments or []):
        has = backend == "host" or (backend == "cuda" and given.variable is True)
        if given.variable and not has:
            how = f"global{': pointer' if given.variable == 'pointer' else ''}"
            message = f"argument {given.name!r} is {how}, which the {backend} backend does not have"
            raise view.error(
                ("arguments", i, "global"), message, "pass a pointer as an argument of the kernel", key=True
            )
    pointers = {given.name for given in model.arguments or [] if given.variable == "pointer"}
    return tuple(
        Variable(
            name=a.name,
            dtype=a.dtype,
            count=0 if a.name in pointers else math.prod(e.integer({}) for e in a.shape or ()),
            pointer=a.name in pointers,
        )
        for a in arguments
        if a.passing == "global" and backend == "host"
    )


def make_kernel(
    model: SpecModel,
    sources: Sources,
    name: str,
    folder: str,
    wrapper: Wrapper | None = None,
    *,
    parcels: tuple[Parcel, ...] = (),
    variables: tuple[Variable, ...] = (),
) -> Kernel:
    return Kernel(
        name=name,
        entry=model.kernel.entry if wrapper is None else wrapper.symbol,
        wrapped="" if wrapper is None else wrapper.wrapped,
        wrapper="" if wrapper is None else wrapper.text,
        passed=() if wrapper is None else wrapper.passed,
        parcels=parcels,
        variables=variables,
        members=() if wrapper is None else wrapper.members,
        language=sources.language,
        variant=sources.variant,
        folder=folder,
        include=sources.include,
        headers=sources.headers,
        link=tuple(model.kernel.link),
        returns=model.kernel.returns,
        openmp=model.kernel.openmp,
        alone=model.kernel.loop is not None,
    )


def make_verify(model: SpecModel, further: tuple[Problem, ...]) -> VerifyPolicy:
    given = model.verify
    return VerifyPolicy(
        reference=Reference(
            kind=given.reference.kind, file=given.reference.file, function=given.reference.function
        ),
        rtol=given.rtol,
        atol=given.atol,
        numerics=given.numerics,
        nonfinite=given.nonfinite,
        problems=further,
        assume=tuple(given.assume),
    )


def make_measure(model: SpecModel, problems: Sequence[Problem], view: View) -> MeasurePolicy:
    """How a candidate is timed.

    Raises:
        SpecError: bytes or operations that name something else than sizes, or are less than nothing.
    """
    given = model.measure
    for key in ("bytes", "operations"):
        expression: Expression | None = getattr(given, key)
        if expression is None:
            continue
        path: KeyPath = ("measure", key)
        check_names(expression, set(problems[0].sizes), view, path)
        for problem in problems:
            with view.at(path):
                value = expression.evaluate(problem.sizes)
            if not isinstance(value, int | float) or value <= 0:
                shown = f"measure.{key} is {value!r}{with_sizes(problem)}"
                raise view.error(path, shown, "it must be over 0")
    return MeasurePolicy(
        cache=given.cache,
        threads=given.threads,
        limit_s=given.limit_s,
        bytes=given.bytes,
        operations=given.operations,
    )


def make_launch(
    model: SpecModel, tunables: Tunables, backend: str, view: View, sizes: Collection[str]
) -> Launch | None:
    given = model.launch
    if given is None:
        return None
    if backend == "host":
        raise view.error(
            ("launch",), "a function on the host has no launch geometry", "remove launch", key=True
        )
    known = set(sizes) | {p.name for p in tunables.parameters}
    for key, expressions in (("grid", given.grid), ("block", given.block)):
        for i, expression in enumerate(expressions):
            check_names(expression, known, view, ("launch", key, i))
    if given.shared_bytes is not None:
        check_names(given.shared_bytes, known, view, ("launch", "shared_bytes"))
    return Launch(grid=tuple(given.grid), block=tuple(given.block), shared_bytes=given.shared_bytes)


def make_compare(model: SpecModel, view: View) -> tuple[tuple[str, ...], ...]:
    commands = []
    for i, command in enumerate(model.compare):
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise view.error(
                ("compare", i), f"{command!r} cannot be split into words: {error}", "check quotes"
            ) from None
        if not words:
            raise view.error(("compare", i), "the command is empty", "for example gcc -O3 -march=native")
        commands.append(words)
    return tuple(commands)
