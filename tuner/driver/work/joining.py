"""The space of a variant: the spec's, with the tunables that its edits brought. May not search it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.core.expressions import parse
from tuner.core.types import Configuration
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

__all__ = ["joined"]


def joined(
    base: Space, parameters: Sequence[Parameter], constraints: Sequence[str], seed: Configuration
) -> Space:
    """A space with more tunables.

    Args:
        base: of the source as given.
        parameters: the tunables.
        constraints: on those.
        seed: what the space's defaults are instead of their own, by name.

    Raises:
        SpecError: a tunable has a name that is taken, or nothing is valid.
    """

    def begun(parameter: Parameter) -> Parameter:
        return replace(parameter, default=seed.get(parameter.name, parameter.default))

    flags = {
        name: tuple(sorted(choices, key=lambda c: c != seed.get(name, choices[0])))
        for name, choices in base.flags.items()
    }
    return Space(
        tuple(begun(p) for p in (*base.parameters, *parameters)),
        (*base.constraints, *(parse(text) for text in constraints)),
        flags=flags,
        passes=base.passes,
        sizes=base.sizes,
    )
