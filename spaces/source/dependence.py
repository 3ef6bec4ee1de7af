"""Which statement instances must stay in their order, and whether a new order keeps it.

Builds iteration domains and access relations of a scanned part for symbolic problem sizes and asks isl whether any
pair of instances that touch one place (one of them writing) would change sides. All pairs count, not only the last
writer's, which is stricter than need be. Sizes of tiles stay symbolic: of a loop over tiles only what holds for every
size is used. May not change a tree.

Source: Pugh, "The Omega test" (1991), and Verdoolaege, "isl: an integer set library" (2010), for the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.core.polynomials import Polynomial
from tuner.spaces.source.accesses import Access
from tuner.spaces.source.conditions import Conditions, Order, all_of, any_of
from tuner.spaces.source.facts import facts_without_overflow
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.memo import Kept, kept_or_raised
from tuner.spaces.source.scan import Leaf, Scan, scan
from tuner.spaces.source.syntax import Expr, Function, Number, Stmt

__all__ = ["Dependences", "Order", "dependences"]

_MAX_LEAVES = 120
_MAX_PAIRS = 6000
"""Of accesses that may meet: each is a question of some tenths of a millisecond, and moves ask it again."""
"""A statement for each member makes many, of which few touch one place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two leaves, one place that both touch, and the text of when their instances do."""

    first: Leaf
    second: Leaf
    variable: str
    condition: str
    reduction: bool


class Dependences:
    """The dependences of one part of a function; made by :func:`dependences`.

    Args:
        found: what the part does.
        reassociate: whether floating-point sums may be added up in another order.
        facts: of what is around the part, as :class:`Conditions` takes them.
    """

    def __init__(
        self,
        found: Scan,
        *,
        reassociate: bool,
        facts: Sequence[Polynomial] | None = None,
    ) -> None:
        if len(found.leaves) > _MAX_LEAVES:
            raise Refused(f"{len(found.leaves)} statements are too many to analyse")
        self.scan = found
        self._reassociate = reassociate
        self._texts = Conditions(found, facts=facts)
        self._pairs = list(self._all_pairs())

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The part's statements."""
        return self.scan.leaves

    def place(self, access: Access) -> tuple[Polynomial, ...]:
        """The subscripts of an array that is written, flat ones taken apart into rows and columns."""
        return self._texts.place(access)

    def check(self, order: Callable[[Leaf], Order]) -> None:
        """Checks that a new order of execution respects every dependence.

        Raises:
            Refused: with the place and the statements that would change sides.
        """
        for pair in self._relevant():
            before, after = order(pair.first), order(pair.second)
            wrong = [self._texts.earlier(after, before, "y", "x"), self._texts.together(before, after)]
            if self._possible(pair, any_of([w for w in wrong if w])):
                raise Refused(_reason(pair))

    def check_band(self, keys: Sequence[str]) -> None:
        """Checks that no dependence goes backwards along any of these loops, so that they may be tiled together.

        Raises:
            Refused: with the place and the loop.
        """
        for pair in self._relevant():
            for key in keys:
                inside = all(key in {f.key for f in leaf.loops} for leaf in (pair.first, pair.second))
                wrong = f"{self._texts.time(key, 'y')} < {self._texts.time(key, 'x')}" if inside else ""
                if self._possible(pair, wrong):
                    raise Refused(f"{_reason(pair)} (backwards along loop {key})")

    def backward(self, time: Callable[[Leaf], str], *, within: str = "", still: bool = False) -> str:
        """A dependence that goes backwards along a coordinate, or nothing.

        Args:
            time: a statement's coordinate, as one component of an order; empty for one that is not looked at.
            within: a loop; only dependences within one iteration of it count.
            still: whether one that does not go forwards either counts too.
        """
        sign = "<=" if still else "<"
        for pair in self._relevant():
            before, after = time(pair.first), time(pair.second)
            if not before or not after:
                continue
            wrong = [f"{self._texts.time(after, 'y')} {sign} {self._texts.time(before, 'x')}"]
            if within:
                wrong.append(f"{self._texts.time(within, 'x')} = {self._texts.time(within, 'y')}")
            if self._possible(pair, all_of(wrong)):
                return _reason(pair)
        return ""

    def check_lanes(self, key: str) -> None:
        """Checks that successive iterations of a loop may run in lanes, statement by statement, reads before writes.

        Raises:
            Refused: a statement needs what it, or one after it, does in an earlier iteration.
        """
        for pair in self._relevant():
            if pair.first is not pair.second and pair.first.position < pair.second.position:
                continue
            shared = {f.key for f in pair.first.loops} & {f.key for f in pair.second.loops}
            if key not in shared:
                continue
            times = {k: (self._texts.time(k, "x"), self._texts.time(k, "y")) for k in shared}
            lanes = [f"{x} {'<' if k == key else '='} {y}" for k, (x, y) in times.items()]
            if self._possible(pair, all_of(lanes)):
                raise Refused(f"{_reason(pair)} (within lanes of loop {key})")

    def carried_by(self, key: str, *, sums: bool = False) -> str:
        """A dependence between different iterations of a loop within one of those around it, or nothing.

        Args:
            key: the loop's.
            sums: whether one that any order may add up counts too, as it does where iterations run at once.
        """
        for pair in self._pairs if sums else self._relevant():
            if self._possible(pair, self._carried(pair, key)):
                return _reason(pair)
        return ""

    def only_written(self, key: str, array: str, count: int) -> bool:
        """Whether a loop writes one element of an array, and what it reads there is that one or never the same place.

        Args:
            key: the loop's.
            array: its name.
            count: of references to it that are written in different ways; two of one place are none of these.
        """
        inside = [leaf for leaf in self.leaves if any(f.key == key for f in leaf.loops)]
        uses = [(a, leaf) for leaf in inside for a in leaf.accesses if a.variable.split("@")[0] == array]
        written = {a.subscripts for a, _ in uses if a.write}
        if len(written) != 1 or len({a.subscripts for a, _ in uses}) != count:
            return False
        return not any(
            self._may_meet(a, b, first, second, key)
            for a, first in uses
            for b, second in uses
            if a.subscripts in written and b.subscripts not in written
        )

    def _may_meet(self, a: Access, b: Access, first: Leaf, second: Leaf, key: str) -> bool:
        """Whether two references may be one place in one run of a loop."""
        around = [f.key for f in first.loops]
        around = around[: around.index(key)]
        equal = [f"{self._texts.time(k, 'x')} = {self._texts.time(k, 'y')}" for k in around]
        met = self._meeting(a, b, first, second)
        return not self._texts.empty(first, second, all_of([*met, *equal]))

    def _meeting(self, a: Access, b: Access, first: Leaf, second: Leaf) -> tuple[str, ...]:
        """When two references touch one place."""
        texts = self._texts
        domains = (texts.domain(first, "x"), texts.domain(second, "y"))
        return (*domains, texts.same_place(a, b, first, second), texts.tiles(first, second))

    def _carried(self, pair: _Pair, key: str) -> str:
        equal: list[str] = []
        for a, b in zip(pair.first.loops, pair.second.loops, strict=False):
            if a.key != b.key:
                break
            x, y = self._texts.time(a.key, "x"), self._texts.time(a.key, "y")
            if a.key == key:
                return all_of([*equal, f"{x} < {y}"])
            equal.append(f"{x} = {y}")
        return ""

    def _relevant(self) -> Iterable[_Pair]:
        return (p for p in self._pairs if not p.reduction)

    def _possible(self, pair: _Pair, condition: str) -> bool:
        return bool(condition) and not self._texts.empty(
            pair.first, pair.second, f"({pair.condition}) and ({condition})"
        )

    def _all_pairs(self) -> Iterable[_Pair]:
        touching = []
        for first in self.leaves:
            for second in self.leaves:
                if order := self._texts.earlier(first.position, second.position, "x", "y"):
                    met = _touching(first, second, reassociate=self._reassociate)
                    touching += [(first, second, order, *each) for each in met]
            if len(touching) > _MAX_PAIRS:
                raise Refused(f"{len(self.leaves)} statements are too many to analyse")
        for first, second, order, a, b, free in touching:
            condition = all_of([order, *self._meeting(a, b, first, second)])
            if not self._texts.empty(first, second, condition):
                yield _Pair(
                    first=first, second=second, variable=a.variable, condition=condition, reduction=free
                )


_FOUND: Kept[tuple[Any, Dependences | Refused]] = Kept(512)
"""By scan and freedom: many moves ask the same of one program."""


def dependences(function: Function, part: Sequence[Stmt], *, reassociate: bool = False) -> Dependences:
    """Analyses neighbouring statements of a function.

    Raises:
        Refused: the part holds something that cannot be seen through, or bounds or subscripts that are not affine.
        MachineError: islpy is not installed.
    """
    scanned = scan(function, part)

    def found() -> Dependences:
        facts = facts_without_overflow(function, part)
        return Dependences(scanned, reassociate=reassociate, facts=facts)

    return kept_or_raised(_FOUND, (id(scanned), reassociate), scanned, found, Refused)


def _touching(first: Leaf, second: Leaf, *, reassociate: bool) -> Iterable[tuple[Access, Access, bool]]:
    seen: set[tuple[str, tuple[Expr, ...], tuple[Expr, ...], bool]] = set()
    for a in first.accesses:
        for b in second.accesses:
            if a.variable != b.variable or not (a.write or b.write) or _are_apart(a, b):
                continue
            own = first is second and first.reduction is not None
            place = first.reduction
            free = (
                own
                and place is not None
                and a.subscripts == b.subscripts == place.subscripts
                and a.variable == place.variable
                and (reassociate or not first.floating)
            )
            key = (a.variable, a.subscripts, b.subscripts, free)
            if key not in seen:
                seen.add(key)
                yield a, b, free


def _are_apart(a: Access, b: Access) -> bool:
    """Whether a subscript is one number here and another one there: nothing that has to be solved."""
    pairs = zip(a.subscripts, b.subscripts, strict=False)
    same = len(a.subscripts) == len(b.subscripts)
    return same and any(_is_plain(x) and _is_plain(y) and x != y for x, y in pairs)


def _is_plain(expr: Expr) -> bool:
    """Whether it is a number that is written in one way only."""
    return isinstance(expr, Number) and expr.text.isdigit() and (expr.text == "0" or expr.text[0] != "0")


def _reason(pair: _Pair) -> str:
    name = pair.variable.split("@")[0]
    if pair.first is pair.second:
        return f"{name} ties iterations of {pair.first.text!r} together"
    return f"{name} ties {pair.first.text!r} and {pair.second.text!r} together"
