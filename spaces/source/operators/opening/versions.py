"""Conditions that make loops legal to change: those that stand around them, and versions of loops under new ones.

``for (j = lo; j < hi; j++) a[i * pitch + j] = …`` has rows only where ``hi - lo <= pitch``, which nothing says. So it
becomes ``if (hi - lo <= pitch) { … } else { … }``, the same loops twice; what else is done is done to the first ones,
and legal there. May not change what is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from tuner.core.polynomials import Polynomial
from tuner.spaces.source.conditions import Conditions
from tuner.spaces.source.facts import (
    declared_before,
    facts_at,
    facts_without_overflow,
    require_no_overflow,
    steady_numbers,
)
from tuner.spaces.source.integers import rank
from tuner.spaces.source.kinds import types_of
from tuner.spaces.source.operators.base import (
    HOST,
    Args,
    Keys,
    Refused,
    Site,
    all_loops,
    attempt,
    loop_of,
    loops_of,
    opener,
    place_in_body,
    replace_statement,
    require_known,
    where_it_applies,
)
from tuner.spaces.source.operators.bounds import joined, number
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.rows import needed_rows
from tuner.spaces.source.scan import scan
from tuner.spaces.source.syntax import (
    Binary,
    Block,
    Cast,
    Comment,
    Expr,
    For,
    Function,
    If,
    Name,
    Number,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import offered, statements, written_names
from tuner.spaces.source.widths import is_signless

__all__ = ["OPERATORS"]

_FAR = 1 << 40
"""Numbers of 64 bits up to this size add up to what 64 bits hold."""

_MOST_TERMS = 8

_Terms = Sequence[tuple[str, int]]
"""Names with how many times each is added."""


def heed_conditions(function: Function, _: Args) -> Function:
    """Lets analyses go by the conditions around loops, and by rows that begin anywhere. The text stays as it is."""
    if not _gains(function):
        raise Refused("no condition makes a loop known that was not")
    return replace(function, conditions=True)


def _gains(function: Function) -> bool:
    """Whether a nest is known with its conditions that is not without."""
    made = replace(function, conditions=True)
    return not function.conditions and any(
        attempt(_conditions, made, [loop]) is not None and attempt(_conditions, function, [loop]) is None
        for loop in all_loops(function)
        if len(loops_of(loop)) > 1
    )


def _conditions(function: Function, part: Sequence[Stmt]) -> Conditions:
    return Conditions(scan(function, part), facts=facts_without_overflow(function, part))


def assume_rows(function: Function, args: Args) -> Function:
    """Makes a version of loops for arrays whose rows do not overlap, beside the loops as they are.

    Takes ``loop``, the first of them, and ``through``, the last one behind it in the same body.
    """
    first, last = (loop_of(function, args, name) for name in ("loop", "through"))
    part = _run(function, first, last)
    for loop in part:
        require_known(loop, f"loop {loop.key}")
    if any(isinstance(s, If) and s.spare for s in offered(tuple(part))) or _in_version(function, first):
        raise Refused(f"loop {first.key} has versions already")
    condition = _joined(_needed(function, part), function, part)
    guard = If(condition, tuple(part), Keys(function).again(tuple(part)), spare=True)
    made = replace(replace_statement(function, part[0], [guard], also=part[1:]), conditions=True)
    for loop in part:
        _conditions(made, [loop])
    return made


def _run(function: Function, first: For, last: For) -> list[For]:
    """Loops that follow each other in one body, with nothing but comments between them."""
    body, place = place_in_body(function, first)
    found: list[For] = []
    for stmt in takewhile(lambda s: isinstance(s, For | Comment), body[place:]):
        found += [stmt] if isinstance(stmt, For) else []
        if stmt is last:
            return found
    raise Refused(f"{last.key} does not follow {first.key}")


def _in_version(function: Function, loop: For) -> bool:
    guards = (s for s in offered(function.body) if isinstance(s, If) and s.spare)
    return any(s is loop for guard in guards for s in statements(guard.then))


def _needed(function: Function, part: Sequence[For]) -> tuple[Polynomial, ...]:
    """What has to hold for loops together, so that they can also be fused."""
    scanned = scan(function, part)
    require_no_overflow(function, part, scanned)
    found = needed_rows(scanned, facts_at(function, part), types_of(function))
    if not found:
        raise Refused("the rows are known not to overlap")
    return found


def _joined(needed: Sequence[Polynomial], function: Function, part: Sequence[For]) -> Expr:
    """The conditions as an expression, so asked that nothing overflows."""
    kinds = steady_numbers(function)
    changed = written_names(tuple(part))
    # What analyses take for one number, a quotient for example, by the variable that has it.
    before = declared_before(function, part)
    known_as = {f"({expression_text(value)})": name for name, value in before.items()}
    needed = [Polynomial.of({tuple(known_as.get(s, s) for s in m): c for m, c in p.items()}) for p in needed]
    plain, wide = list[Expr](), dict[str, None]()
    for poly in needed:
        for monomial in poly:
            if len(monomial) > 1:
                raise Refused(f"a row's length is asked for beside {' * '.join(monomial)}")
            if monomial and (monomial[0] not in kinds or monomial[0] in changed):
                raise Refused(f"{monomial[0]} is not known before the loop")
        expr, names = _asked(poly, kinds)
        plain.append(expr)
        wide |= dict.fromkeys(n for n in names if rank(kinds[n]) in ("long", "size_t"))
    bounds: list[Expr] = []
    for name in wide:
        bounds.append(Binary("<=", Name(name), Number(str(_FAR))))
        if not is_signless(kinds[name]):
            bounds.append(Binary(">=", Name(name), Unary("-", Number(str(_FAR)))))
    return joined("&&", [*bounds, *plain])


def _asked(poly: Polynomial, kinds: Mapping[str, str]) -> tuple[Expr, list[str]]:
    """That a sum is not negative, and the names that are added up for it."""
    if len(poly) > _MOST_TERMS:
        raise Refused("a condition would be too long")
    op, rest = ">=", poly.get((), 0)
    above = [(m[0], c) for m, c in poly.items() if m and c > 0]
    below = [(m[0], -c) for m, c in poly.items() if m and c < 0]
    if not above:
        op, above, below, rest = "<=", below, [], -rest
    elif below and rest == -1:
        op, rest = ">", 0
    names = [name for name, _ in (*above, *below)]
    least = number(-rest)
    if _compares(above, below, kinds) and (
        not rest if below else rest <= 0 or not is_signless(kinds[names[0]])
    ):
        return Binary(op, Name(names[0]), Name(names[1]) if below else least), []
    if not below:
        return Binary(op, _sum(above, 0), least), names
    return Binary(op, _sum(above, max(rest, 0)), _sum(below, max(-rest, 0))), names


def _compares(above: _Terms, below: _Terms, kinds: Mapping[str, str]) -> bool:
    """Whether two names, or one and a number, are compared as they are."""
    alike = len({is_signless(kinds[name]) for name, _ in (*above, *below)}) == 1
    return alike and len(above) == 1 and len(below) <= 1 and all(c == 1 for _, c in (*above, *below))


def _sum(terms: _Terms, rest: int) -> Expr:
    parts: list[Expr] = []
    for name, factor in terms:
        wide = Cast("long", Name(name))
        parts.append(wide if factor == 1 else Binary("*", Number(str(factor)), wide))
    if rest:
        parts.append(Number(str(rest)))
    return joined("+", parts)


def _sites_in(function: Function, body: tuple[Stmt, ...]) -> Iterator[Site]:
    """Neighbouring loops together, or each that needs it; of loops in each other the outermost that can."""
    runs: list[list[For]] = [[]]
    for stmt in body:
        if isinstance(stmt, For):
            runs[-1].append(stmt)
        elif not isinstance(stmt, Comment):
            runs.append([])
        match stmt:
            case Block():
                yield from _sites_in(function, stmt.body)
            case If() if not stmt.spare:
                yield from _sites_in(function, stmt.then)
                yield from _sites_in(function, stmt.other)
    for run in filter(None, runs):
        fitting = [loop for loop in run if _applies(function, loop, loop)]
        if len(fitting) > 1 and _applies(function, fitting[0], fitting[-1]):
            yield _site(fitting[0], fitting[-1])
            if _enough(function, fitting, run):
                continue
        # Together they may ask for more, which may not hold where what each asks for does.
        yield from (_site(loop, loop) for loop in fitting)
        for loop in run:
            if loop not in fitting:
                yield from _sites_in(function, loop.body)


def _enough(function: Function, fitting: Sequence[For], run: Sequence[For]) -> bool:
    """Whether loops need no more together than each by itself."""
    facts, types = facts_at(function, fitting), types_of(function)
    part = run[run.index(fitting[0]) : run.index(fitting[-1]) + 1]
    each = [p for loop in part for p in needed_rows(scan(function, [loop]), facts, types)]
    return not needed_rows(scan(function, part), (*facts, *each), types)


def _site(first: For, last: For) -> Site:
    return {"loop": first.key, "through": last.key}


def _applies(function: Function, first: For, last: For) -> bool:
    nests = any(isinstance(s, For) for s in statements(first.body))
    return nests and attempt(assume_rows, function, _site(first, last)) is not None


OPERATORS = (
    opener(
        heed_conditions,
        where_it_applies(heed_conditions),
        "goes by the conditions around loops",
        languages=HOST,
    ),
    opener(
        assume_rows,
        lambda function, _: _sites_in(function, function.body),
        "a version of loops for arrays whose rows do not overlap",
        languages=HOST,
    ),
)
