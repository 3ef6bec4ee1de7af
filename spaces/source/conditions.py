"""Conditions on pairs of statement instances as text in isl's notation.

The counter of a loop is ``x3`` in the first instance of a pair and ``y3`` in the second, 3 being the loop's number in
the part; problem sizes and the counters of loops around the part are parameters. May not judge an order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.polynomials import Polynomial
from tuner.spaces.source.accesses import Access
from tuner.spaces.source.affine import is_empty, polynomial, rows_of
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.scan import Leaf, Scan
from tuner.spaces.source.syntax import Binary, Expr, For, Name, Number, Ternary
from tuner.spaces.source.walks import names_in

__all__ = ["Conditions", "Order", "all_of", "any_of", "polynomial_of", "uses_of_written"]

Order = tuple[int | str, ...]
"""When an instance runs: places and loop keys, compared from the left; ``-key`` for a loop run backwards, ``2*i+j+1``
for what leans or stays behind."""


def all_of(conditions: Sequence[str]) -> str:
    """Their conjunction; true when there are none."""
    return " and ".join(f"({c})" for c in conditions) or "1 = 1"


def any_of(conditions: Sequence[str]) -> str:
    """Their disjunction; empty when there are none."""
    return " or ".join(f"({c})" for c in conditions)


class Conditions:
    """Text for one scanned part.

    Args:
        found: the part.
        facts: polynomials over what the part does not change that are not negative where it runs; ``None`` where
            conditions around the part do not count, nor that columns may begin anywhere.

    Raises:
        Refused: a bound or a subscript is not affine.
        MachineError: islpy is not installed.
    """

    def __init__(self, found: Scan, *, facts: Sequence[Polynomial] | None = None) -> None:
        self._symbols: dict[str, str] = {}
        loops = {f.key: f for leaf in found.leaves for f in leaf.loops}
        self._loops = loops
        self._numbers = {key: i for i, key in enumerate(loops)}
        self._outer_vars = {f.var for f in found.outer}
        self._found, self._moving = found, set(found.moving)
        self._context = [c for f in found.outer for c in self._bounds(f, {}, "")]
        self._anywhere = facts is not None
        for fact in facts or ():
            if self._moving.isdisjoint(s for m in fact for s in m):
                self._context.append(f"{self._text(fact, {})} >= 0")
        self._splits: dict[tuple[str, tuple[Expr, ...]], tuple[Polynomial, ...]] = {}
        for variable, uses in uses_of_written(found).items():
            self._split_variable(variable, uses)

    # Orders

    def earlier(self, a: Order, b: Order, left: str, right: str) -> str:
        """When order ``a`` of instance ``left`` is before order ``b`` of instance ``right``; empty for never."""
        found: list[str] = []
        equal: list[str] = []
        for p, q in zip(a, b, strict=False):
            if isinstance(p, int) and isinstance(q, int):
                if p < q:
                    found.append(all_of(equal))
                if p != q:
                    break
                continue
            one, two = self.time(p, left), self.time(q, right)
            found.append(all_of([*equal, f"{one} < {two}"]))
            equal.append(f"{one} = {two}")
        return any_of(found)

    def together(self, a: Order, b: Order) -> str:
        """When both orders give the same time; empty for never."""
        found: list[str] = []
        for p, q in zip(a, b, strict=False):
            if isinstance(p, int) and isinstance(q, int):
                if p != q:
                    return ""
                continue
            found.append(f"{self.time(p, 'x')} = {self.time(q, 'y')}")
        return all_of(found)

    def time(self, part: int | str, side: str) -> str:
        """One component of an order."""
        if isinstance(part, int):
            return str(part)
        if "+" in part:
            return f"({' + '.join(self.time(p, side) for p in part.split('+'))})"
        if part.isdigit():
            return part
        factor, star, skewed = part.partition("*")
        if star:
            return f"{factor} {self.time(skewed, side)}"
        key = part.removeprefix("-")
        forward = self._loops[key].upward != part.startswith("-")
        return f"{'' if forward else '-'}{side}{self._numbers[key]}"

    # Instances

    def domain(self, leaf: Leaf, side: str) -> str:
        """Which instances of a statement there are."""
        known: dict[str, str] = {}
        found: list[str] = []
        for loop in leaf.loops:
            found += self._bounds(loop, known, side)
            known[loop.var] = f"{side}{self._numbers[loop.key]}"
        return all_of(found)

    def place(self, access: Access) -> tuple[Polynomial, ...]:
        """The subscripts of an array that is written, flat ones taken apart by their strides."""
        return self._splits[access.variable, access.subscripts]

    def same_place(self, a: Access, b: Access, first: Leaf, second: Leaf) -> str:
        """When two references to one variable touch the same element."""
        one, two = (self._splits[p.variable, p.subscripts] for p in (a, b))
        if len(one) != len(two):
            raise Refused(f"{a.variable.split('@')[0]} is used with different numbers of subscripts")
        names = (self._names(first, "x"), self._names(second, "y"))
        pairs = zip(one, two, strict=True)
        return all_of([f"{self._text(p, names[0])} = {self._text(q, names[1])}" for p, q in pairs])

    def tiles(self, first: Leaf, second: Leaf) -> str:
        """What holds between two points of one tiling, whatever the size: tiles are in the order of their points."""
        found = []
        for tile in first.loops:
            if tile.key not in {f.key for f in second.loops} or polynomial(tile.step, self._moving) is None:
                continue
            if self._whole_step(tile) is not None:
                continue
            for p in _points(tile, first):
                for q in _points(tile, second):
                    t, u = self.time(tile.key, "x"), self.time(tile.key, "y")
                    i, j = self.time(p.key, "x"), self.time(q.key, "y")
                    found.append(f"({t} = {u}) or ({t} < {u} and {i} < {j}) or ({t} > {u} and {i} > {j})")
        return all_of(found)

    def empty(self, first: Leaf, second: Leaf, condition: str) -> bool:
        """Whether no pair of instances meets a condition, for any problem size."""
        names = [f"x{self._numbers[f.key]}" for f in first.loops]
        names += [f"y{self._numbers[f.key]}" for f in second.loops]
        whole = all_of([condition, *self._context])
        text = f"[{', '.join(self._symbols.values())}] -> {{ [{', '.join(names)}] : {whole} }}"
        return is_empty(text)

    # Bounds

    def _names(self, leaf: Leaf, side: str) -> dict[str, str]:
        return {f.var: f"{side}{self._numbers[f.key]}" for f in leaf.loops}

    def _bounds(self, loop: For, known: dict[str, str], side: str) -> list[str]:
        counter = f"{side}{self._numbers[loop.key]}" if side else self._symbol(loop.var)
        low, high = (loop.start, loop.limit) if loop.upward else (loop.limit, loop.start)
        found = [f"{counter} >= {b}" for b in self._ends(loop, low, known, low=True)]
        found += [f"{counter} <= {b}" for b in self._ends(loop, high, known, low=False)]
        step = self._whole_step(loop)
        if step is None:
            size = self._affine(loop.step, known)
            found.append(f"{size} >= 1")
            found += self._whole_tiles(loop, counter, size, known)
        elif step > 1:
            start = polynomial_of(loop.start, self._found, f"the start of loop {loop.key}")
            found.append(f"({counter} - ({self._text(start, known)})) mod {step} = 0")
        return found

    def _ends(self, loop: For, bound: Expr, known: dict[str, str], *, low: bool) -> list[str]:
        """Bounds that follow from one expression; all of them for minima and maxima."""
        shift = ""
        if loop.op in ("<", ">") and bound is loop.limit:
            shift = " + 1" if low else " - 1"
        left_over = _leftover(bound)
        if left_over is None:
            return [f"{b}{shift}" for b in self._sides(bound, known, smallest=not low)]
        top, begin, size = left_over
        if not low:
            return [f"{b}{shift}" for b in self._sides(top, known, smallest=True)]
        found = [f"{b}{shift}" for b in self._sides(begin, known, smallest=False)]
        if _extreme(top, smallest=True) is None:
            found.append(f"{self._affine(top, known)} - {self._affine(size, known)} + 1{shift}")
        return found

    def _sides(self, bound: Expr, known: dict[str, str], *, smallest: bool) -> list[str]:
        extreme = _extreme(bound, smallest=smallest)
        parts = [bound] if extreme is None else extreme
        return [self._affine(e, known) for e in parts]

    def _whole_tiles(self, loop: For, counter: str, size: str, known: dict[str, str]) -> list[str]:
        """A loop over whole tiles ends before what they leave over."""
        left_over = _leftover(loop.limit)
        if left_over is None or loop.op != "<":
            return []
        top, begin, step = left_over
        if step != loop.step or begin != loop.start:
            return []
        return [f"{counter} + {size} <= {b}" for b in self._sides(top, known, smallest=True)]

    def _whole_step(self, loop: For) -> int | None:
        step = polynomial(loop.step, self._moving)
        if step is None:
            raise Refused(f"the step of loop {loop.key} is not affine")
        if set(step) <= {()}:
            value = step.get((), 0)
            if value < 1:
                raise Refused(f"the step of loop {loop.key} is not positive")
            return value
        return None

    # Affine text

    def _affine(self, expr: Expr, known: dict[str, str]) -> str:
        return self._text(polynomial_of(expr, self._found, "a bound"), known)

    def _text(self, poly: Polynomial, known: dict[str, str]) -> str:
        terms = []
        for monomial, coefficient in poly.items():
            inner = [s for s in monomial if s in self._moving or s in known]
            if not monomial:
                terms.append(str(coefficient))
            elif not inner:
                terms.append(f"{coefficient} {self._symbol(' '.join(monomial))}")
            elif len(monomial) == 1 and monomial[0] in known:
                terms.append(f"{coefficient} {known[monomial[0]]}")
            else:
                raise Refused(f"{'*'.join(monomial)} is not affine")
        return f"({' + '.join(terms)})" if terms else "0"

    def _symbol(self, name: str) -> str:
        return self._symbols.setdefault(name, f"p{len(self._symbols)}")

    # Subscripts

    def _split_variable(self, variable: str, uses: Sequence[tuple[Access, Leaf]]) -> None:
        name = variable.split("@")[0]
        for access, _ in uses:
            polys = tuple(polynomial_of(s, self._found, f"a subscript of {name}") for s in access.subscripts)
            self._splits[access.variable, access.subscripts] = polys
        lengths = {len(a.subscripts) for a, _ in uses}
        if len(lengths) == 1:
            for at in reversed(range(*lengths)):
                self._split_subscript(name, uses, at)

    def _split_subscript(self, name: str, uses: Sequence[tuple[Access, Leaf]], at: int) -> None:
        """Takes one subscript of all uses apart into rows and columns; of several those that have to be."""
        flat = [(leaf, self._splits[a.variable, a.subscripts]) for a, leaf in uses]
        counters = {f.var for _, leaf in uses for f in leaf.loops} | self._outer_vars
        moving = counters | self._moving
        whole = [polys[at] for _, polys in flat]
        if len(flat[0][1]) > 1 and all(len(m) < 2 or moving.isdisjoint(m) for poly in whole for m in poly):
            return
        ways = rows_of(whole, moving, sums=self._anywhere)
        if ways is None:
            raise Refused(f"a subscript of {name} is not affine")
        for rows in ways:
            used = [(p, leaf) for p, (leaf, _) in zip(rows.parts, flat, strict=True)]
            if (self._near if self._anywhere else self._fit)(used, rows.widths):
                for part, (access, _), (_, polys) in zip(rows.parts, uses, flat, strict=True):
                    self._splits[access.variable, access.subscripts] = (*polys[:at], *part, *polys[at + 1 :])
                return
        if ways:
            raise Refused(f"a subscript of {name} may run over the end of a row")

    def _fit(self, used: Sequence[tuple[Sequence[Polynomial], Leaf]], widths: Sequence[Polynomial]) -> bool:
        """Whether each lower subscript lies within its row, for all instances."""
        for parts, leaf in used:
            known = self._names(leaf, "x")
            domain = self.domain(leaf, "x")
            for part, width in zip(reversed(parts[1:]), widths, strict=True):
                text, size = self._text(part, known), self._text(width, known)
                if not self.empty(leaf, _NOTHING, all_of([domain, f"{text} < 0 or {text} >= {size}"])):
                    return False
        return True

    def _near(self, used: Sequence[tuple[Sequence[Polynomial], Leaf]], widths: Sequence[Polynomial]) -> bool:
        """Whether any two columns are less than a row apart, wherever they begin: then rows tell places apart."""
        for level, width in enumerate(widths):
            columns = {
                (id(leaf.loops), *sorted(p[-1 - level].items())): (p[-1 - level], leaf) for p, leaf in used
            }
            for one, first in columns.values():
                for two, second in columns.values():
                    names = self._names(first, "x"), self._names(second, "y")
                    apart = f"{self._text(one, names[0])} - {self._text(two, names[1])}"
                    far = f"{apart} >= {self._text(width, {})}"
                    if not self.empty(
                        first, second, all_of([self.domain(first, "x"), self.domain(second, "y"), far])
                    ):
                        return False
        return True


def polynomial_of(expr: Expr, found: Scan, what: str) -> Polynomial:
    """A bound or a subscript of a part; refuses ``what`` where it is none."""
    poly = polynomial(expr, found.moving)
    if poly is None or not found.fractions.isdisjoint(names_in(expr)):
        raise Refused(f"{what} is not affine")
    return poly


def uses_of_written(found: Scan) -> dict[str, list[tuple[Access, Leaf]]]:
    """The accesses to each variable that a part writes, with the statements that have them."""
    by_variable: dict[str, list[tuple[Access, Leaf]]] = {}
    written = {a.variable for leaf in found.leaves for a in leaf.accesses if a.write}
    for leaf in found.leaves:
        for access in leaf.accesses:
            if access.variable in written:
                by_variable.setdefault(access.variable, []).append((access, leaf))
    return by_variable


_NOTHING = Leaf(stmt=None, loops=(), position=(), accesses=())  # type: ignore[arg-type]


def _points(tile: For, leaf: Leaf) -> list[For]:
    """Loops over the points of a tile that a statement lies in."""
    return [f for f in leaf.loops if f.start == Name(tile.var) and f.upward]


def _extreme(expr: Expr, *, smallest: bool) -> tuple[Expr, Expr] | None:
    """The operands of ``a < b ? a : b``, or with ``>`` and its like of the largest."""
    match expr:
        case Ternary(condition=Binary(op=op, left=a, right=b), then=then, other=other):
            if op in (">", ">="):
                a, b = b, a
            elif op not in ("<", "<="):
                return None
            if (then, other) == ((a, b) if smallest else (b, a)):
                return a, b
    return None


def _leftover(bound: Expr) -> tuple[Expr, Expr, Expr] | None:
    """``top - (top - begin) % size``, the first element that whole tiles leave over, as its three parts."""
    match bound:
        case Binary(op="-", left=top, right=Binary(op="%", left=length, right=size)):
            if length == top:
                return top, Number("0"), size
            if isinstance(length, Binary) and length.op == "-" and length.left == top:
                return top, length.right, size
    return None
