"""The edit that reads members of structures and lists of first values, text until then."""

from __future__ import annotations

from dataclasses import replace

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.operators.base import Args, opener, where_it_applies
from tuner.spaces.source.operators.opening.callees import callees
from tuner.spaces.source.operators.opening.membership import types_in, with_members
from tuner.spaces.source.syntax import Call, Function
from tuner.spaces.source.walks import subtrees

__all__ = ["OPERATORS"]


def read_members(function: Function, args: Args) -> Function:
    """Reads members of plain structures and vectors, and lists of first values, where their types are known.

    From then on those of functions that are called are read as well.

    Args:
        function: to change.
        args: none.
    """
    del args
    types = types_in(function)
    made = function if types is None else with_members(function, types)
    if types is None or (made.body == function.body and not _opens_calls(function)):
        raise Refused("there are no members of structures or first values that can be read")
    return replace(made, members=True)


def _opens_calls(function: Function) -> bool:
    """Whether a function that is called has members that have not been read."""
    if function.members:
        return False
    called = {n.function for n in subtrees(function.body) if isinstance(n, Call)}
    before, after = callees(function), callees(replace(function, members=True))
    return any(before[name].body != after[name].body for name in called & before.keys())


OPERATORS = (
    opener(
        read_members,
        where_it_applies(read_members),
        summary="members of structures and first values as what they are, no longer text",
    ),
)
