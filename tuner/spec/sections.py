"""The smaller sections of a spec as shared types, and the keys whose feature is still to come.

May not read files.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection

from tuner.core.types import Kernel, Launch, Problem, Reference, VerifyPolicy
from tuner.spec.arguments import check_names
from tuner.spec.models import SpecModel
from tuner.spec.sources import Sources
from tuner.spec.tunables import Tunables
from tuner.spec.yaml_places import Path as KeyPath
from tuner.spec.yaml_places import View

__all__ = [
    "EVOLVED",
    "NOT_YET",
    "evolves",
    "make_compare",
    "make_kernel",
    "make_launch",
    "make_notices",
    "make_verify",
    "refuse_unbuilt",
]

EVOLVED = ("c", "c++", "opencl", "cuda")

NOT_YET = "not available in this version"


def refuse_unbuilt(model: SpecModel, view: View) -> None:
    """Keys without which the rest means something else, and whose feature is still to come."""
    reference = model.verify.reference
    refused: tuple[tuple[bool, KeyPath, str], ...] = (
        (
            bool(model.kernel.link),
            ("kernel", "link"),
            "the C and mathematical libraries are there without it",
        ),
        (
            reference.kind == "recording" and model.workload is None,
            ("verify", "reference"),
            "name recordings with workload, or use original or {python: file.py:function}",
        ),
    )
    for wrong, path, hint in refused:
        if wrong:
            raise view.error(path, f"{'.'.join(map(str, path))} is {NOT_YET}", hint, key=True)


def evolves(model: SpecModel, language: str) -> bool:
    """Whether variants of the source are searched: there are source transformations for its language."""
    return bool(model.space.source.evolve) and language in EVOLVED


def make_notices(model: SpecModel, language: str) -> tuple[str, ...]:
    """What the spec asks for on top and does not get yet: the run is sound without, and says so aloud."""
    asked = (
        (
            bool(model.space.source.evolve) and not evolves(model, language),
            f"space.source.evolve for {language}",
            "the source stays as it is given",
        ),
        (model.search.llm is not None, "search.llm", "no model is asked"),
    )
    return tuple(f"{key} is {NOT_YET}: {effect}" for wanted, key, effect in asked if wanted)


def make_kernel(model: SpecModel, sources: Sources, name: str, folder: str) -> Kernel:
    return Kernel(
        name=name,
        entry=model.kernel.entry,
        language=sources.language,
        variant=sources.variant,
        folder=folder,
        include=sources.include,
        link=tuple(model.kernel.link),
        returns=model.kernel.returns,
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
