"""Loops that a team of OpenMP's threads shares, and what an edit has to leave of them as it was.

The analysis of dependences knows one thread. It may be right that a value can be kept before a loop while each thread
would need one of its own, so an edit is refused where it changes what threads share. May not change anything.

Source: the OpenMP specification 5.2, section 5.1 (data-sharing attribute rules).
"""

from __future__ import annotations

import re

from tuner.spaces.source.operators.base import Refused, all_loops, body_of, perfect_nest
from tuner.spaces.source.syntax import Decl, For, Function, OpaqueStmt
from tuner.spaces.source.walks import statements, written_names

__all__ = ["keep_teams"]

_DIRECTIVE = re.compile(r"^\s*omp\s+(?!declare\b)")
_ELSEWHERE = re.compile(r"#\s*pragma\s+omp\b|_Pragma\s*\(\s*\"\s*omp\b")
_DEEP = re.compile(r"\b(?:collapse|ordered|sizes)\s*\(\s*([^)]*)\)")
_LISTS = re.compile(r"\b(?:private|firstprivate|lastprivate|linear|reduction|copyin|copyprivate)\s*\(")


def keep_teams(before: Function, made: Function) -> None:
    """Refuses an edit after which threads could share what they did not, or work on other iterations.

    Every loop with a directive of OpenMP keeps its head, its directive and its place among the others; inside it no
    further variable of outside is written to, and with lists of variables exactly those that were.

    Args:
        before: the function as it was.
        made: after the edit.

    Raises:
        Refused: what threads do may no longer be the same.
    """
    shared = _team_loops(before)
    if not shared and not _elsewhere(before):
        if _team_loops(made) or _elsewhere(made):
            raise Refused("the edit brings a directive of OpenMP with it")
        return
    if _elsewhere(before) or _elsewhere(made):
        raise Refused(
            "the function has directives of OpenMP beside those of loops: what they order is not known"
        )
    now = _team_loops(made)
    if len(now) != len(shared):
        raise Refused("a loop that threads share would be there another number of times")
    for loop, changed in zip(shared, now, strict=True):
        _require_same_heads(loop, changed)
        _require_same_sharing(loop, changed)


def _team_loops(function: Function) -> list[For]:
    return [loop for loop in all_loops(function) if any(map(_DIRECTIVE.match, loop.pragmas))]


def _elsewhere(function: Function) -> bool:
    return any(isinstance(s, OpaqueStmt) and _ELSEWHERE.search(s.text) for s in statements(function.body))


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
    said = [m[1].strip() for p in loop.pragmas for m in _DEEP.finditer(p)]
    return max((int(s) if s.isdigit() else 1 << 10 for s in said), default=1)


def _head(loop: For) -> tuple[object, ...]:
    return loop.type, loop.var, loop.start, loop.op, loop.limit, loop.step, loop.pragmas


def _require_same_sharing(loop: For, changed: For) -> None:
    was, is_now = _written_outside(loop), _written_outside(changed)
    added = is_now - was
    if added:
        raise Refused(f"threads that share loop {loop.key} would all write to {min(added)}")
    if any(_LISTS.search(p) for p in loop.pragmas) and was != is_now:
        raise Refused(
            f"the directive of loop {loop.key} says whose {min(was - is_now)} is, which would not be written"
        )


def _written_outside(loop: For) -> set[str]:
    """What the loop's body writes to and does not declare."""
    inner = body_of(loop)
    own = {s.name for s in statements(inner) if isinstance(s, Decl)}
    own |= {s.var for s in statements(inner) if isinstance(s, For) and s.type}
    return set(written_names(inner)) - own - {loop.var}
