"""Whether what is known of numbers around a part also holds of those that its loops and subscripts compute with.

Analyses compute with whole numbers; C cuts them off where a type does not hold them. Where that may happen nothing is
concluded from conditions. May not judge an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.spaces.source.affine import Poly, constant, minus, never
from tuner.spaces.source.facts import facts_at
from tuner.spaces.source.integers import rank
from tuner.spaces.source.kinds import Refused, plain_type, types_of
from tuner.spaces.source.rows import short_lengths
from tuner.spaces.source.scan import Scan, scan
from tuner.spaces.source.syntax import Cast, Decl, Expr, For, Function, Index, Stmt
from tuner.spaces.source.walks import names_in, statements, subtrees
from tuner.spaces.source.widths import holds, is_signless

__all__ = ["facts_without_overflow", "require_no_overflow"]


def facts_without_overflow(function: Function, part: Sequence[Stmt]) -> tuple[Poly, ...] | None:
    """What is known where a part runs; ``None`` where conditions do not count.

    Args:
        function: that holds the part.
        part: neighbouring statements, by identity.

    Raises:
        Refused: something in the part cannot be seen through.
    """
    if not function.conditions:
        return None
    found, facts = scan(function, part), facts_at(function, part)
    try:
        require_no_overflow(function, part, found)
        needed = short_lengths(found, types_of(function))
    except Refused:
        return None
    return facts if all(never([*facts, minus(constant(-1), poly)]) for poly in needed) else None


def require_no_overflow(function: Function, part: Sequence[Stmt], found: Scan) -> None:
    """Refuses numbers that a type may cut off: where a loop begins, in a cast, or where a constant is declared.

    Args:
        function: that holds the part.
        part: neighbouring statements.
        found: the part, scanned.
    """
    types = types_of(function)
    own = [n for n in subtrees(tuple(part)) if isinstance(n, For)]
    for loop in (*found.outer, *own):
        kind = loop.type or types.get(loop.var, "")
        known = plain_type(kind) == "auto" or rank(kind) or is_signless(kind)
        if not known or not holds(kind, loop.start, types):
            raise Refused(f"the counter of loop {loop.key} may not hold where the loop begins")
    computed = list(_computed((*found.outer, *part)))
    used = names_in(tuple(computed))
    for stmt in reversed([*function.outer, *statements(function.body)]):
        if isinstance(stmt, Decl) and stmt.init and stmt.name in used and "const" in stmt.type.split():
            used |= names_in(stmt.init)
            computed.append(stmt.init)
            if not holds(stmt.type, stmt.init, types, signs=True):
                raise Refused(f"{stmt.name} may not hold what it is declared with")
    for cast in (n for n in subtrees(tuple(computed)) if isinstance(n, Cast)):
        if not holds(cast.type, cast.operand, types):
            raise Refused(f"a cast to {cast.type} may cut its number off")


def _computed(part: Sequence[Stmt]) -> Iterator[Expr]:
    """Bounds and subscripts."""
    for node in subtrees(tuple(part)):
        match node:
            case For(start=start, limit=limit, step=step):
                yield from (start, limit, step)
            case Index(index=index):
                yield index
