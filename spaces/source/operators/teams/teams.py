"""Loops that a team of OpenMP's threads shares: what an edit has to leave as it was, and how a loop becomes one.

The analysis of dependences knows one thread. It may be right that a value can be kept before a loop while each thread
would need one of its own, so an edit is refused where it changes what threads share.

Source: the OpenMP specification 5.2, sections 5.1 (data-sharing attribute rules), 5.5.7 (reduction), 11.5 (loops).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from tuner.spaces.source.accesses import added_to
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Operator,
    Refused,
    Site,
    all_loops,
    analyse,
    argument,
    body_of,
    define,
    fresh_name,
    loop_of,
    loops_of,
    not_independent,
    parameter,
    perfect_nest,
    replace_statement,
)
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.operators.teams.sharing import require_plain_sums, require_same_for_all
from tuner.spaces.source.places import has_members
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Decl,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import (
    declared_names,
    inner_bodies,
    names_in,
    opaque_words,
    subtrees,
    transform,
    written_names,
)

__all__ = ["OPERATORS", "directives_of", "keep_teams", "parallelise"]

_SCHEDULES = ("static", "dynamic")
_CHUNKS = (1, 4, 16, 64, 256)

_DIRECTIVE = re.compile(
    r"^\s*omp\s+(?!declare\b|simd\s*(?:(?:simdlen|aligned|nontemporal|order)\s*\([^()]*\)[\s,]*)*$)"
)
"""All but a promise of independent iterations, which :func:`keep_promises` looks after; ``safelen`` counts them."""

_OMP = re.compile(r"\bomp\b")
_HEADER = re.compile(r"[<\"]omp\.h[>\"]")
_NO_WORD = re.compile(r"/\*.*?\*/|\\\n?", re.DOTALL)
"""What may stand between a directive's words and says nothing."""
_PLAIN = re.compile(
    r"\s*omp\s+(?:parallel\s+)?for\b"
    r"(?:[\s,]*(?:(?:schedule|num_threads|shared|private|firstprivate|reduction|if|proc_bind)\s*\([^()]*\)"
    r"|default\s*\(\s*shared\s*\)))*\s*"
)
"""What deals out iterations one by one and nothing more, so that it may as well deal out blocks of them."""
_DEEP = re.compile(r"\b(?:collapse|ordered|sizes)\s*\(\s*([^)]*)\)")
_PRIVATE = re.compile(r"\bprivate\s*\(([^()]*)\)")
_LISTS = frozenset({"private", "firstprivate", "lastprivate", "linear", "reduction", "copyin", "copyprivate"})
_Place = tuple[str, bool]
_Guards = tuple[int, int]


def keep_teams(before: Function, made: Function, blocks: str = "") -> None:
    """Refuses an edit after which threads could share what they did not, or work on other iterations.

    Every loop with a directive of OpenMP keeps its head, its directive and its place among the others; inside it no
    further variable of outside is written to, and with lists of variables exactly those that were. In the place of one
    may be a loop over blocks of its iterations and one over what those leave over, each with its directive.

    Args:
        before: the function as it was.
        made: after the edit.
        blocks: the key of a loop whose iterations the edit takes in blocks.

    Raises:
        Refused: what threads do may no longer be the same.
    """
    shared = team_loops(before)
    if not shared and not _elsewhere(before):
        if team_loops(made) or _elsewhere(made):
            raise Refused("the edit brings a directive of OpenMP with it")
        if before.openmp and _OMP.search(_HEADER.sub(" ", before.source)):
            # A region inside a parallel one, or a function that is called from there.
            require_same_conditions(before, made)
        return
    _require_on_loops(before)
    _require_on_loops(made)
    for loop, changed in _paired(shared, team_loops(made), blocks):
        if loop.key == blocks:
            _require_dealt_alike(loop, changed)
        else:
            _require_same_heads(loop, changed)
        # What was text and is read now was written to before.
        hidden = opaque_words(loop.body) if has_members(made) and not has_members(before) else set()
        _require_same_sharing(loop, changed, hidden)
        require_same_stores(made, loop, changed)


def directives_of(loop: For) -> tuple[str, ...]:
    """The directives of OpenMP by which threads share a loop."""
    return tuple(p for p in loop.pragmas if _DIRECTIVE.match(_NO_WORD.sub(" ", p)))


def private_names(loop: For) -> set[str]:
    """Variables of which the directives of a loop give each thread one of its own, without a value."""
    said = (re.sub(r"//.*", "", pragma) for pragma in _said(loop))
    return {name for pragma in said for found in _PRIVATE.findall(pragma) for name in words(found)}


def team_loops(function: Function) -> list[For]:
    return [loop for loop in all_loops(function) if directives_of(loop)]


def _paired(shared: list[For], now: list[For], blocks: str) -> list[tuple[For, For]]:
    """Each loop that threads share with what has come into its place."""
    further = len(now) - len(shared)
    at = next((n for n, loop in enumerate(shared) if loop.key == blocks), None)
    inside = at is not None and any(f in shared[at + 1 :] for f in loops_of(shared[at]))
    if further < 0 or (further and (at is None or inside)):
        raise Refused("a loop that threads share would be there another number of times")
    if at is None:
        return list(zip(shared, now, strict=True))
    after = at + 1 + further
    made = [(shared[at], piece) for piece in now[at:after]]
    return [*zip(shared[:at], now, strict=False), *made, *zip(shared[at + 1 :], now[after:], strict=True)]


def _require_dealt_alike(loop: For, changed: For) -> None:
    if directives_of(loop) != directives_of(changed):
        raise Refused(f"threads would share loop {loop.key} otherwise than its directive says")
    if not all(map(_PLAIN.fullmatch, directives_of(loop))) and _head(loop) != _head(changed):
        raise Refused(f"loop {loop.key} is shared by threads as it is: its head and directive have to stay")


def _said(loop: For) -> list[str]:
    return [_NO_WORD.sub(" ", pragma) for pragma in loop.pragmas]


def _elsewhere(function: Function) -> bool:
    """Where an attribute says it."""
    return "omp" in opaque_words(function.body)


def _require_on_loops(function: Function) -> None:
    if _elsewhere(function):
        raise Refused(
            "the function has directives of OpenMP beside those of loops: what they order is not known"
        )


def _require_same_heads(loop: For, changed: For) -> None:
    """Also of those below it that the directive deals out together with it."""
    nest, others = perfect_nest(loop), perfect_nest(changed)
    for number in range(_depth(loop)):
        if number >= len(nest) or number >= len(others) or _head(nest[number]) != _head(others[number]):
            raise Refused(
                f"loop {loop.key} is shared by threads as it is: its head and directive have to stay"
            )


def _depth(loop: For) -> int:
    """How many loops the directive deals out; very many where that is no number."""
    said = [m[1].strip() for p in _said(loop) for m in _DEEP.finditer(p)]
    return max((int(s) if s.isdigit() else 1 << 10 for s in said), default=1)


def _head(loop: For) -> tuple[object, ...]:
    return loop.type, loop.var, loop.start, loop.op, loop.limit, loop.step, loop.pragmas


def _require_same_sharing(loop: For, changed: For, hidden: AbstractSet[str]) -> None:
    was, is_now = _written_outside(loop), _written_outside(changed)
    added = is_now - was - hidden
    if added:
        raise Refused(f"threads that share loop {loop.key} would all write to {min(added)}")
    listed = opaque_words(tuple(OpaqueStmt(p) for p in loop.pragmas))
    # What each thread has for itself alone is gone behind the loop, written to or not.
    missing = was - is_now - private_names(loop)
    if not _LISTS.isdisjoint(listed) and missing:
        raise Refused(
            f"the directive of loop {loop.key} says whose {min(missing)} is, which would not be written"
        )


def _written_outside(loop: For) -> set[str]:
    """What the loop's body writes to and does not declare."""
    inner = body_of(loop)
    return written_names(inner) - declared_names(inner) - {loop.var}


def parallelise(function: Function, args: Args) -> Function:
    """Has a team of threads share a loop whose iterations do not need one another.

    What is declared inside belongs to each iteration; what is added up in a variable of outside becomes a ``reduction``
    where the edit may add up in another order. Any other variable of outside that is written to refuses it.

    Takes ``loop``, ``schedule``; ``parameters``: the chunk, for ``dynamic``.
    """
    if not function.openmp:
        raise Refused("the kernel is not built with OpenMP")
    _require_on_loops(function)
    loop = loop_of(function, args)
    require_simple_loop(function, loop)
    for other in team_loops(function):
        if any(f is loop for f in loops_of(other)) or any(f is other for f in loops_of(loop)):
            raise Refused(f"loop {loop.key} is shared by threads already, or has one inside that is")
    if loop.pragmas:
        raise Refused(f"loop {loop.key} has a pragma of its own")
    loose = [f.var for f in loops_of(loop) if not f.type]
    if loose:
        raise Refused(f"{loose[0]} counts in loop {loop.key} and is declared outside of it")
    require_same_for_all(function, loop)
    sums = _sums(loop, allowed=args.get("reassociate") is True)
    require_plain_sums(function, loop, sums)
    _require_independent(function, loop, sums)
    schedule = argument(args, "schedule")
    if schedule not in _SCHEDULES:
        raise Refused(f"there is no schedule {schedule!r}")
    made = function
    if schedule == "dynamic":
        made, (chunk,) = define(function, args, 1)
        schedule = f"dynamic, {chunk.id}"
    listed = f" reduction(+ : {', '.join(sums)})" if sums else ""
    directive = f"omp parallel for schedule({schedule}){listed}"
    return replace_statement(made, loop, [replace(loop, pragmas=(directive,))])


def _sums(loop: For, *, allowed: bool) -> list[str]:
    """Variables of outside that the body adds to and does nothing else with.

    Raises:
        Refused: it does something else with one, or may not add up in another order.
    """
    own = declared_names((loop,), all_counters=True)
    assigned = [n for n in subtrees(loop.body) if isinstance(n, Assign) and isinstance(n.target, Name)]
    names = dict.fromkeys(
        n.target.id for n in assigned if isinstance(n.target, Name) and n.target.id not in own
    )
    added = added_to(loop.body)
    for name in names:
        plain = name in added and all(n.op == "+=" for n in added[name])
        if not allowed or not plain or name in names_in((loop.start, loop.limit)):
            raise Refused(f"threads that share loop {loop.key} would all write to {name}")
    return list(names)


def _require_independent(function: Function, loop: For, sums: list[str]) -> None:
    """Refuses a loop whose iterations need one another otherwise than by what they add up.

    Sums are looked at as if each iteration had its own part, for the freedom to reorder holds for sums in arrays too,
    which threads would spoil for one another.
    """
    part, added = fresh_name(function, "part"), added_to(loop.body)
    adding = {id(n) for name in sums for n in added[name]}

    def alone(node: Any) -> Any:
        if isinstance(node, ExprStmt) and isinstance(node.expr, Assign) and id(node.expr) in adding:
            return Decl("double", part, (), node.expr.value)
        return node

    apart = replace(loop, body=transform(loop.body, alone)) if sums else loop
    made = replace_statement(function, loop, [apart]) if sums else function
    reason = analyse(made, [apart], {}).carried_by(loop.key, sums=True)
    if reason:
        raise Refused(reason)


def _sites(function: Function, reassociate: bool) -> Iterator[Site]:
    if not function.openmp:
        return
    inner = {id(f) for loop in all_loops(function) for f in loops_of(loop) if f is not loop}
    for loop in all_loops(function):
        if id(loop) in inner or loop.pragmas or not loop.by_one:
            continue
        freedom = {"reassociate": True} if reassociate else {}
        chunk = parameter(function, f"CHUNK_{loop.var}", _CHUNKS, 16)
        yield {"loop": loop.key, "schedule": "static", **freedom}
        yield {"loop": loop.key, "schedule": "dynamic", "parameters": [chunk], **freedom}


OPERATORS = (Operator(parallelise, _sites, "has OpenMP's threads share a loop", languages=HOST, openmp=True),)


def require_same_stores(made: Function, loop: For, changed: For) -> None:
    """Refuses a shared loop that stores where it did not for sure, unless its iterations are shown to be apart.

    ``if (mine(i)) c[k] += x;`` is right for threads that own different elements; ``t = c[k]; …; c[k] = t;`` around it
    is not.

    Args:
        made: the function after the edit.
        loop: that threads share, as it was.
        changed: as it is now.
    """
    before = list(_stores(body_of(loop), loop.var))
    for place, (ifs, loops) in _stores(body_of(changed), loop.var):
        if any(place == other and ifs >= i and loops >= n for other, (i, n) in before):
            continue
        reason = not_independent(made, changed, sums=True)
        if reason:
            raise Refused(
                f"{place[0]} would be stored to in iterations of the shared loop {loop.key} that may not: {reason}"
            )
        return


def require_same_conditions(function: Function, made: Function) -> None:
    """Refuses a store that an edit takes out of a condition, in a function that threads may be in at once.

    Which iterations they are in is for those that call it to say, so nothing shows that they are apart.
    """
    before = list(_stores(function.body, ""))
    for (name, _), (ifs, _) in _stores(made.body, ""):
        if all(name != other or ifs < i for (other, _), (i, _) in before):
            raise Refused(f"{name} would be stored to on fewer conditions, where threads may be at once")


def _stores(part: tuple[Stmt, ...], counter: str) -> Iterator[tuple[_Place, _Guards]]:
    """Elements of outside that statements store to, each with the number of conditions and loops around."""
    own = declared_names(part, all_counters=True)

    def visit(body: tuple[Stmt, ...], ifs: int, loops: int) -> Iterator[tuple[_Place, _Guards]]:
        for stmt in body:
            for inner in inner_bodies(stmt):
                yield from visit(inner, ifs + isinstance(stmt, If), loops + isinstance(stmt, For))
            for part in () if isinstance(stmt, For | If | Block) else subtrees(stmt):
                if isinstance(part, Assign):
                    # Of a member of an element too: the array or the structure comes first.
                    base = next((n.id for n in subtrees(part.target) if isinstance(n, Name)), "")
                    if base not in own:
                        yield (base, counter in names_in(part.target)), (ifs, loops)

    yield from visit(part, 0, 0)
