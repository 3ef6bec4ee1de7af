"""What a directive of OpenMP makes private to each thread, as a local of the iteration that gives it its value.

C of old declares everything at the top of a function and lists it behind ``private``. To operators, iterations that
write to such a variable seem to wait for one another. May not move statements.

Source: the OpenMP specification 5.2, section 5.4.3 (private clause): a private variable has no value at first, and
behind the construct the one of outside is as it was.
"""

from __future__ import annotations

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.opening.separate_values import plain_locals, separated_in
from tuner.spaces.source.operators.operator import Args, opener, where_it_applies
from tuner.spaces.source.operators.teams.teams import private_names, team_loops
from tuner.spaces.source.syntax import Function

__all__ = ["OPERATORS"]

_COLLAPSED = frozenset({"collapse", "ordered", "tile"})
"""Between loops that are dealt out together nothing may stand."""


def declare_privates(function: Function, _: Args) -> Function:
    """Declares what each thread has its own of where an iteration of a shared loop gives it a value."""
    if not function.openmp:
        raise Refused("the kernel is not built with OpenMP")
    made = function
    loops = [loop for loop in team_loops(function) if _COLLAPSED.isdisjoint(words(" ".join(loop.pragmas)))]
    for decl in plain_locals(function, private=True):
        keys = {loop.key for loop in loops if decl.name in private_names(loop) - {loop.var}}
        made = separated_in(made, decl, keys) if keys else made
    if made is function:
        raise Refused("no loop has private variables that an iteration gives a value first")
    return made


OPERATORS = (
    opener(
        declare_privates,
        where_it_applies(declare_privates),
        "private variables of OpenMP as locals of an iteration",
        languages=("c", "c++"),
    ),
)
