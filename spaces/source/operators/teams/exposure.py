"""Stores that an edit takes out of conditions and loops: one thread writes back what was there, several spoil it.

May not change a tree.
"""

from __future__ import annotations

from collections.abc import Iterator

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.operators.base import body_of, not_independent
from tuner.spaces.source.syntax import Assign, Block, For, Function, If, Name, Stmt
from tuner.spaces.source.walks import declared_names, inner_bodies, names_in, subtrees

__all__ = ["require_same_conditions", "require_same_stores"]

_Place = tuple[str, bool]
_Guards = tuple[int, int]


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
