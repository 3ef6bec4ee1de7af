"""What has to be out of the way before operators can reach a kernel's loops: conditionals, calls, local pointers.

The edits that do it come before those of a move and are worth nothing alone. May not judge speed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tuner.search.cooking import Attempt, try_operator
from tuner.spaces.source.configuring import configuring
from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.operators import OPERATORS, Refused
from tuner.spaces.source.operators.opening.calls import hidden_calls
from tuner.spaces.source.regions import Program

__all__ = ["opened", "still_hidden"]

_MOST = 96


def opened(attempt: Attempt, values: Mapping[str, int]) -> Attempt | None:
    """A program with its loops laid open; ``None`` where nothing hides any.

    Args:
        attempt: so far.
        values: of the spec's own tunables, for which conditionals are decided.
    """
    made = attempt
    edit = configuring(made.program, values)
    if edit is not None:
        try:
            made = _after(made, edit)
        except Refused:
            pass
    names = [n for n, o in OPERATORS.items() if o.opens]
    for _ in range(_MOST):
        for name in names:
            found = try_operator(made, name)
            if found is not None:
                made = found
                break
        else:
            break
    return made if made.edits != attempt.edits else None


def still_hidden(program: Program, values: Mapping[str, int]) -> dict[str, str]:
    """Functions of the project whose calls hide loops however far a program is opened; why, each a line.

    Args:
        program: as given.
        values: as for :func:`opened`.
    """
    start = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    made = opened(start, values) or start
    return {n: r for f in made.program.functions.values() for n, r in hidden_calls(f).items()}


def _after(attempt: Attempt, edit: dict[str, object]) -> Attempt:
    return Attempt(
        program=apply_edit(attempt.program, edit),
        edits=(*attempt.edits, edit),
        rng=attempt.rng,
        reassociate=attempt.reassociate,
    )
