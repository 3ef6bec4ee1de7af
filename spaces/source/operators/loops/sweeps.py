"""From gathering to sweeping: what each element takes from earlier ones becomes what each one gives to later ones.

``for j: { for k < j: take(j, k); finish(j) }`` turns into ``for j: { finish(j); for l > j: take(l, j) }``: a
substitution with rows becomes one with columns, whose inner loop has no sum to wait for. May not judge what is fast.

Source: Ortega, "The ijk forms of factorization methods" (1988).
"""

from __future__ import annotations

from dataclasses import replace

from tuner.spaces.source.operators.base import (
    Args,
    Refused,
    analyse,
    body_of,
    counter_type,
    fresh_name,
    keep_promises,
    knowing_members,
    loop_of,
    loops_where,
    replace_statement,
)
from tuner.spaces.source.operators.bounds import add, upper_end
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.scan import Leaf
from tuner.spaces.source.syntax import Decl, For, Function, Name, Number
from tuner.spaces.source.walks import names_in, substitute, written_names

__all__ = ["OPERATORS"]


def sweep(function: Function, args: Args) -> Function:
    """Lets each iteration give to all later ones what they would take from it.

    Takes ``loop``, whose body begins with a loop over its earlier iterations.
    """
    loop = loop_of(function, args)
    taking = _taking(loop)
    for one in (loop, taking):
        require_simple_loop(function, one)
    if counter_type(function, loop) != counter_type(function, taking) or loop.var == taking.var:
        raise Refused(f"{loop.key} and {taking.key} do not count alike")
    body = body_of(loop)
    finish = body[1:]
    declared = {s.name for s in finish if isinstance(s, Decl)}
    if not declared.isdisjoint(names_in(taking.body) | written_names(taking.body)):
        raise Refused(f"a variable that {loop.key} declares is another one in {taking.key}")
    first = next(place for place, s in enumerate(loop.body) if s is taking)

    def order(leaf: Leaf) -> tuple[int | str, ...]:
        at = leaf.position
        if at[2] == first:
            return (at[0], taking.key, 1, loop.key, *at[4:])
        return (at[0], loop.key, 0, *at[2:])

    analyse(function, [loop], args).check(order)
    later = fresh_name(function, f"{loop.var}_later")
    given = substitute(substitute(taking.body, loop.var, Name(later)), taking.var, Name(loop.var))
    giving = replace(
        taking,
        type=counter_type(function, taking),
        var=later,
        start=add(Name(loop.var), Number("1")),
        op="<",
        limit=upper_end(loop),
        body=given,
    )
    made = replace_statement(function, loop, [replace(loop, body=(*finish, giving))])
    return keep_promises(function, made, "what is given to later ones")


def _taking(loop: For) -> For:
    body = body_of(loop)
    taking = body[0] if body else None
    if not isinstance(taking, For) or len(body) < 2:
        raise Refused(f"loop {loop.key} does not begin with a loop that something follows")
    if taking.start != loop.start or upper_end(taking) != Name(loop.var):
        raise Refused(f"loop {taking.key} does not run over the iterations of {loop.key} so far")
    return taking


OPERATORS = (
    knowing_members(
        sweep,
        loops_where(lambda _, loop: _taking(loop)),
        "lets each iteration give to later ones what they would take from it",
    ),
)
