"""What every operator needs: finding loops, putting statements in their place, tunables, what loops have to be like.

May not draw random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tuner.spaces.source.constructs import UnknownConstruct, unknown_in
from tuner.spaces.source.dependence import Dependences, dependences
from tuner.spaces.source.kinds import (
    Refused,
    types_of,
)
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.operators.naming import fresh_name, is_used_outside, names_taken, words_of_files
from tuner.spaces.source.operators.operator import (
    DEVICE,
    HOST,
    Args,
    Operator,
    Site,
    all_loops,
    argument,
    argument_list,
    attempt,
    declarations_where,
    find_loop,
    for_each_loop,
    knowing_members,
    loop_of,
    loops_where,
    opener,
    reassociating,
    require_leave,
    where_it_applies,
)
from tuner.spaces.source.syntax import (
    Comment,
    Decl,
    Define,
    Expr,
    For,
    Function,
    Name,
    Stmt,
)
from tuner.spaces.source.walks import (
    bodies,
    names_in,
    statements,
    subtrees,
    transform,
    with_bodies,
)

__all__ = [
    "DEVICE",
    "HOST",
    "Args",
    "Keys",
    "Operator",
    "Refused",
    "Site",
    "all_loops",
    "analyse",
    "argument",
    "argument_list",
    "attempt",
    "body_of",
    "counter_type",
    "declarations_where",
    "define",
    "find_loop",
    "for_each_loop",
    "fresh_name",
    "is_used_outside",
    "keep_promises",
    "knowing_members",
    "known_loop",
    "loop_of",
    "loops_of",
    "loops_where",
    "nest_below",
    "not_independent",
    "only_declaration",
    "opener",
    "parameter",
    "parameters",
    "perfect_nest",
    "place_in_body",
    "reassociating",
    "replace_statement",
    "require_copies",
    "require_independent",
    "require_known",
    "require_leave",
    "require_rectangular",
    "require_short",
    "sibling_after",
    "where_it_applies",
]

_MOST_NODES = 3000
_MOST_COPIED = 4000
"""Nodes of a loop's body that is written more than once, and of all copies of a smaller one."""
_PROMISE = re.compile(r"\b(omp|acc|ivdep|assume_safety|independent|novector_dependence)\b")


def parameter(
    function: Function, stem: str, values: Sequence[int], default: int, taken: Iterable[str] = ()
) -> Site:
    """A new tunable for an edit, with a name that is free."""
    known = words_of_files(function).union((d.name for d in function.defines), taken)
    name = unused(re.sub(r"\W", "_", stem).upper(), known)
    return {"name": name, "values": list(values), "default": default}


def parameters(function: Function, *wanted: tuple[str, Sequence[int], int]) -> list[Site]:
    """Several of these, by stem, values and default."""
    made: list[Site] = []
    for stem, values, default in wanted:
        made.append(parameter(function, stem, values, default, [p["name"] for p in made]))
    return made


def define(function: Function, args: Args, count: int) -> tuple[Function, list[Name]]:
    """Adds the defaults of an edit's tunables; returns their names as expressions."""
    found = args.get("parameters")
    if not isinstance(found, list) or len(found) != count:
        raise Refused(f"the edit needs {count} parameters")
    taken = names_taken(function)
    names: list[Name] = []
    defines = list(function.defines)
    for item in found:
        name = item["name"]
        if name in taken:
            raise Refused(f"the name {name} is taken")
        taken.add(name)
        names.append(Name(name))
        defines.append(Define(name, str(item["default"])))
    return replace(function, defines=tuple(defines)), names


class Keys:
    """Keys of loops that a function does not have yet, each given once."""

    def __init__(self, function: Function) -> None:
        self._taken = {s.key for s in statements(function.body) if isinstance(s, For)}

    def new(self, key: str) -> str:
        """A key like another one, or for a variable."""
        made = unused(key.split("#")[0], self._taken, "#")
        self._taken.add(made)
        return made

    def again(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A copy of statements whose loops have keys of their own."""
        return transform(body, lambda n: replace(n, key=self.new(n.key)) if isinstance(n, For) else n)

    def over(self, loop: For, start: Expr, limit: Expr) -> For:
        """A copy of an upward loop from ``start`` to before ``limit``; it and those in it have keys of their own."""
        key = self.new(loop.key)
        return replace(loop, key=key, start=start, op="<", limit=limit, body=self.again(loop.body))


def loops_of(stmt: Stmt | Sequence[Stmt]) -> list[For]:
    """All loops in statements."""
    part = tuple(stmt) if isinstance(stmt, Sequence) else (stmt,)
    return [s for s in statements(part) if isinstance(s, For)]


def body_of(loop: For) -> tuple[Stmt, ...]:
    """A loop's statements without comments."""
    return tuple(s for s in loop.body if not isinstance(s, Comment))


def perfect_nest(loop: For) -> list[For]:
    """A loop and those that follow it as the only statement each."""
    found = [loop]
    while True:
        body = body_of(found[-1])
        if len(body) != 1 or not isinstance(body[0], For):
            return found
        found.append(body[0])


def nest_below(function: Function, keys: Sequence[str]) -> list[For]:
    """Loops by keys, which have to be nested in each other in this order, with nothing in between."""
    nest = perfect_nest(find_loop(function, keys[0]))[: len(keys)]
    if [f.key for f in nest] != list(keys):
        raise Refused(f"the loops {', '.join(keys)} are not nested directly in this order")
    return nest


def only_declaration(function: Function, name: str) -> Decl | None:
    """The declaration of a local, where there is one of its name."""
    found = [s for s in statements(function.body) if isinstance(s, Decl) and s.name == name]
    return found[0] if len(found) == 1 else None


def place_in_body(function: Function, stmt: Stmt) -> tuple[tuple[Stmt, ...], int]:
    """The body that a statement (by identity) stands in, and where."""
    for body in bodies(function.body):
        for place, found in enumerate(body):
            if found is stmt:
                return body, place
    return (), 0


def sibling_after(function: Function, stmt: Stmt) -> Stmt | None:
    """The statement that follows one in its body."""
    body, place = place_in_body(function, stmt)
    return next((s for s in body[place + 1 :] if not isinstance(s, Comment)), None)


def replace_statement(
    function: Function, old: Stmt, new: Sequence[Stmt], *, also: Sequence[Stmt] = ()
) -> Function:
    """The function with one statement (by identity) replaced by others; those in ``also`` are taken out."""
    put: dict[int, Sequence[Stmt]] = {**{id(s): () for s in also}, id(old): new}

    def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(made for stmt in body for made in visited(stmt))

    def visited(stmt: Stmt) -> Sequence[Stmt]:
        return put[id(stmt)] if id(stmt) in put else (with_bodies(stmt, visit),)

    return replace(function, body=visit(function.body))


def analyse(function: Function, part: Sequence[Stmt], args: Args) -> Dependences:
    """The dependences of a part, with the freedom that the edit was given."""
    return dependences(function, part, reassociate=args.get("reassociate") is True)


def known_loop(function: Function, args: Args) -> tuple[For, Dependences]:
    """The loop of an edit, in which operators know everything, and its dependences."""
    loop = loop_of(function, args)
    require_known(loop, f"loop {loop.key}")
    return loop, analyse(function, [loop], args)


def require_independent(function: Function, loop: For, args: Args) -> None:
    """Refuses a loop that carries a dependence."""
    reason = analyse(function, [loop], args).carried_by(loop.key)
    if reason:
        raise Refused(reason)


def not_independent(function: Function, loop: For, *, sums: bool = False) -> str:
    """Why a loop's iterations are not known to be independent, sums among it or without them; else nothing."""
    try:
        return analyse(function, [loop], {}).carried_by(loop.key, sums=sums)
    except Refused as refusal:
        return str(refusal)


def require_known(part: Any, what: str) -> None:
    """Refuses what holds a construct that operators do not know."""
    unknown = unknown_in(part)
    if unknown is not None:
        raise UnknownConstruct(what, unknown)


def require_short(loop: For) -> None:
    """Refuses a loop that is too long for copies of all of it."""
    if len(list(subtrees(loop.body))) > _MOST_NODES:
        raise Refused(f"loop {loop.key} is too long to be written more than once")


def require_copies(loop: For, count: int) -> None:
    """Refuses so many copies of a loop's body."""
    if not 2 <= count <= 8 or len(list(subtrees(loop.body))) * count > _MOST_COPIED:
        raise Refused(f"{count} copies of loop {loop.key} are too few or too many")


def keep_promises(before: Function, made: Function, what: str) -> Function:
    """What was made, where each new loop that was promised to have independent iterations still has them.

    The compiler was promised that for the iterations as they were: of others it is shown anew.

    Args:
        before: the function as it was.
        made: after the edit.
        what: was done, for the refusal.

    Raises:
        Refused: a promise may no longer hold.
    """
    old = {id(loop) for loop in all_loops(before)}
    for loop in all_loops(made):
        if id(loop) in old or not any(_PROMISE.search(p) for p in loop.pragmas):
            continue
        reason = not_independent(made, loop)
        if reason:
            raise Refused(
                f"loop {loop.key} is promised to be free of dependences, {what} may not be: {reason}"
            )
    return made


def counter_type(function: Function, loop: For) -> str:
    """The type of a loop's variable."""
    return loop.type or types_of(function).get(loop.var, "")


def require_rectangular(loops: Sequence[For]) -> None:
    """Refuses loops whose bounds depend on one another."""
    names: set[str] = set()
    for loop in loops:
        if not names.isdisjoint(names_in((loop.start, loop.limit, loop.step))):
            raise Refused(f"the bounds of loop {loop.key} depend on the loops around it")
        names.add(loop.var)
