"""The valid combinations of variables under constraints, found without trying the whole product.

A backtracking join over blocks of rows: variables are bound one by one, a block of partial assignments is
extended with every value of the next variable, and each constraint removes rows as soon as it can tell. Work is
counted in rows, never in time, so that the outcome does not depend on the machine. May not know what the
variables mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Value
from tuner.spaces.checks import Check, Checker, Domain, Rows, holds

__all__ = ["ROW_LIMIT", "Component", "components"]

ROW_LIMIT = 2_000_000
WORK_LIMIT = 200_000_000
FRONTIER_LIMIT = 1 << 17
_BLOCK = 1 << 19
_CHUNK = 1 << 15
_DRAWS = 1 << 22
_BEAM = 512
_WIDE = 1 << 21
_SURE = 16


class _Budget:
    def __init__(self, limit: int) -> None:
        self.left = limit


class _Exhausted(Exception):
    """The allowed work is spent."""


class Component:
    """Variables that constraints tie together, with their valid combinations.

    Args:
        domains: values by variable.
        constraints: each names at least one variable.
        constants: further names with one value each.
        listed: whether to find all combinations now.

    Attributes:
        names: the variables, in the caller's order.
        constraints: the constraints over them.
        rows: positions of values, one row for each valid combination, ascending, columns as ``names``; ``None``
            when there are too many to list or finding them all takes too long.
    """

    def __init__(
        self,
        domains: Mapping[str, Sequence[Value]],
        constraints: Sequence[Expression],
        constants: Mapping[str, Value],
        *,
        listed: bool = True,
    ) -> None:
        self.names = tuple(domains)
        self.constraints = tuple(constraints)
        self._constants = constants
        self._domains = {name: Domain(values) for name, values in domains.items()}
        self._checker = Checker(self._domains, constants)
        self._order = _plan(self.names, self._domains, self.constraints)
        self._steps = self._schedule()
        self._frontier: list[Rows] | None = None
        # What sampling draws may not depend on what was sampled before: from here on checks learn nothing.
        self._settled = False
        self.rows = self._list() if listed and not self._hopeless() else None
        self._settled = True

    @classmethod
    def of_rows(cls, domains: Mapping[str, Sequence[Value]], rows: Rows) -> Component:
        """Variables of which only these combinations are valid, ``[n, variables]``, ascending."""
        made = cls(domains, (), {}, listed=False)
        made.rows = rows
        return made

    @property
    def product(self) -> int:
        """How many combinations there are without constraints."""
        return math.prod(d.size for d in self._domains.values())

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        """Valid combinations drawn with repetition, columns as ``names``; at most ``count``, at least one.

        Uniform when listed, and otherwise while at least about one in four million extensions of a valid
        beginning is valid; beyond that by a random beam, which favours combinations whose beginnings have few
        continuations.

        Raises:
            SpecError: no valid combination was found.
        """
        if self.rows is not None:
            return self.rows[rng.integers(0, len(self.rows), size=count)]
        found = self._reject(rng, count)
        if found is None:
            found = self._beam(rng, count)
        columns = dict(zip(self._order, found, strict=True))
        return np.stack([columns[name] for name in self.names], axis=1)

    @cached_property
    def _acceptance(self) -> float:
        """About which share of random draws is valid; asked once, with a stream of its own."""
        rng = np.random.default_rng(0)
        drawn, found, batch = 0, 0, 1 << 12
        while not found and drawn < _DRAWS:
            found = len(self._continued(rng, batch)[0])
            drawn += batch
            batch = min(batch * 2, 1 << 16)
        return found / drawn

    def _schedule(self) -> list[list[Check]]:
        steps: list[list[Check]] = []
        bound: set[str] = set()
        for name in self._order:
            bound.add(name)
            checks = [self._checker.make(c, bound) for c in self.constraints if name in c.names]
            useful = [check for check in checks if check is not None]
            useful.sort(key=lambda check: (check.table is None, not check.final, len(check.names)))
            steps.append(useful)
        return steps

    def _extend(self, block: list[Rows], values: Rows, depth: int, budget: _Budget) -> list[Rows]:
        """All extensions of a block's rows with the given values of the next variable that may be valid."""
        count = len(block[0]) if block else 1
        per_chunk = max(1, _CHUNK // len(values))
        parts: list[list[Rows]] = []
        for start in range(0, count, per_chunk):
            stop = min(count, start + per_chunk)
            budget.left -= (stop - start) * len(values)
            if budget.left < 0:
                raise _Exhausted
            parent = np.repeat(np.arange(start, stop), len(values))
            value = np.tile(values, stop - start)
            parts.append(self._filter(block, parent, value, depth))
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]

    def _filter(self, block: list[Rows], parent: Rows, value: Rows, depth: int) -> list[Rows]:
        for check in self._steps[depth]:
            if check.useless or not len(parent):
                continue
            columns = {
                n: value if n == self._order[depth] else block[self._order.index(n)][parent]
                for n in check.names
            }
            keep = self._checker.keep(check, columns, len(parent))
            kept = int(np.count_nonzero(keep))
            if not self._settled:
                check.rows_seen += len(parent)
                check.rows_removed += len(parent) - kept
            if kept < len(parent):
                parent, value = parent[keep], value[keep]
        return [*(column[parent] for column in block), value]

    def _complete(self, budget: _Budget) -> Iterator[list[Rows]]:
        """Blocks of complete valid assignments, columns in the order of binding, depth first."""
        stack: list[tuple[list[Rows], int, int]] = [([], 0, 0)]
        while stack:
            block, depth, offset = stack.pop()
            if depth == len(self._order):
                yield block
                continue
            size = self._domains[self._order[depth]].size
            rows = len(block[0]) if block else 1
            take = max(1, _BLOCK // size)
            if take < rows:
                stack.append(([column[take:] for column in block], depth, 0))
                block, rows = [column[:take] for column in block], take
            stop = min(size, offset + max(1, _BLOCK // rows))
            if stop < size:
                stack.append((block, depth, stop))
            extended = self._extend(block, np.arange(offset, stop), depth, budget)
            if len(extended[0]):
                stack.append((extended, depth + 1, 0))

    def _hopeless(self) -> bool:
        """Whether there are clearly too many to list, by an estimate; spares the attempt, which takes seconds."""
        if self.product < WORK_LIMIT:
            return False
        block = self._beginnings()
        rest = math.prod(self._domains[name].size for name in self._order[len(block) :])
        rows = len(block[0]) if block else 1
        drawn = 1 << 12
        found = len(self._continued(np.random.default_rng(0), drawn)[0])
        return found >= _SURE and rows * rest * found // drawn > 20 * ROW_LIMIT

    def _list(self) -> Rows | None:
        found: list[list[Rows]] = []
        total = 0
        try:
            for block in self._complete(_Budget(WORK_LIMIT)):
                total += len(block[0])
                if total > ROW_LIMIT:
                    return None
                found.append(block)
        except _Exhausted:
            return None
        if not found:
            return np.empty((0, len(self.names)), dtype=np.int64)
        columns = dict(zip(self._order, (np.concatenate(c) for c in zip(*found, strict=True)), strict=True))
        rows = np.stack([columns[name] for name in self.names], axis=1)
        return rows[np.lexsort(rows.T[::-1])]

    def feasible(self, constraints: Sequence[Expression]) -> bool:
        """Whether some combination satisfies these constraints; true when that takes too long to say."""
        values = {name: domain.values for name, domain in self._domains.items()}
        other = Component(values, constraints, self._constants, listed=False)
        try:
            return next(other._complete(_Budget(WORK_LIMIT // 20)), None) is not None
        except _Exhausted:
            return True

    def _beginnings(self) -> list[Rows]:
        """All valid assignments of as many first variables as fit in memory; none bound at least."""
        if self._frontier is None:
            block: list[Rows] = []
            budget = _Budget(WORK_LIMIT)
            for depth, name in enumerate(self._order):
                size = self._domains[name].size
                if (len(block[0]) if block else 1) * size > FRONTIER_LIMIT * 16:
                    break
                try:
                    longer = self._extend(block, np.arange(size), depth, budget)
                except _Exhausted:
                    break
                if len(longer[0]) > FRONTIER_LIMIT:
                    break
                block = longer
            self._frontier = block
        return self._frontier

    def _reject(self, rng: np.random.Generator, count: int) -> list[Rows] | None:
        """Uniform draws: random continuations of uniformly drawn beginnings, invalid ones thrown away."""
        share = self._acceptance
        found: list[list[Rows]] = []
        total, drawn = 0, 0
        while share and total < count and drawn < _DRAWS:
            batch = int(min(1 << 16, 16 + 1.25 * (count - total) / share))
            found.append(self._continued(rng, batch))
            total += len(found[-1][0])
            drawn += batch
        if not total:
            return None
        return [np.concatenate(columns)[:count] for columns in zip(*found, strict=True)]

    def _continued(self, rng: np.random.Generator, count: int) -> list[Rows]:
        """The valid ones among so many random draws."""
        block = self._beginnings()
        pick = rng.integers(0, len(block[0]) if block else 1, size=count)
        current = [column[pick] for column in block]
        for depth in range(len(block), len(self._order)):
            size = self._domains[self._order[depth]].size
            here = len(current[0]) if current else count
            # Every row goes on with one value: throwing rows away early does not bend the distribution.
            current = self._filter(current, np.arange(here), rng.integers(0, size, size=here), depth)
        return current

    def _beam(self, rng: np.random.Generator, count: int) -> list[Rows]:
        frontier = self._beginnings()
        for _ in range(20):
            block = _thin(frontier, _BEAM, rng)
            for depth in range(len(frontier), len(self._order)):
                size = self._domains[self._order[depth]].size
                values = np.arange(size) if size <= _WIDE else rng.integers(0, size, size=_WIDE)
                block = _thin(block, min(_BEAM, max(1, _WIDE // size)), rng)
                block = self._extend(block, values, depth, _Budget(WORK_LIMIT))
                if not len(block[0]):
                    break
            else:
                return _thin(block, count, rng)
        raise SpecError(
            "no valid configuration was found: too few of " + f"{self.product:.3g} satisfy the constraints",
            "narrow the parameters of: " + "; ".join(c.text for c in self.constraints[:4]),
        )


def _thin(block: list[Rows], rows: int, rng: np.random.Generator) -> list[Rows]:
    """At most so many rows of a block, drawn without repetition, in random order."""
    if not block:
        return block
    pick = rng.permutation(len(block[0]))[:rows]
    return [column[pick] for column in block]


def _plan(
    names: Sequence[str], domains: Mapping[str, Domain], constraints: Sequence[Expression]
) -> tuple[str, ...]:
    """The order of binding: whatever lets a constraint decide soonest, and small domains first."""
    order: list[str] = []
    waiting = [sorted(set(c.names) & set(names), key=names.index) for c in constraints]
    while waiting:
        waiting = [left for group in waiting if (left := [n for n in group if n not in order])]
        if not waiting:
            break
        uses = {n: sum(n in group for group in waiting) for n in names}
        cheapest = min(
            waiting,
            key=lambda group: (math.prod(domains[n].size for n in group), -sum(uses[n] for n in group)),
        )
        order += sorted(cheapest, key=lambda n: (-uses[n], domains[n].size, names.index(n)))
    order += [n for n in names if n not in order]
    return tuple(order)


def components(
    domains: Mapping[str, Sequence[Value]], constraints: Sequence[Expression], constants: Mapping[str, Value]
) -> list[Component]:
    """Splits variables into groups that no constraint ties together, and lists each.

    Raises:
        SpecError: nothing is valid; the message names the constraints that rule everything out.
    """
    group = {name: {name} for name in domains}
    for constraint in constraints:
        tied = [name for name in domains if name in constraint.names]
        if not tied:
            if not holds(constraint, constants):
                raise SpecError(
                    f"the space is empty: {constraint.text!r} does not hold", "it has no parameter"
                )
            continue
        merged = set().union(*(group[name] for name in tied))
        for name in merged:
            group[name] = merged
    made: list[Component] = []
    done: set[str] = set()
    for name in domains:
        if name in done:
            continue
        members = {n: domains[n] for n in domains if n in group[name]}
        done |= set(members)
        own = [c for c in constraints if c.names & set(members)]
        component = Component(members, own, constants)
        if component.rows is not None and not len(component.rows):
            raise _empty(component)
        made.append(component)
    return made


def _empty(component: Component) -> SpecError:
    """Names a smallest set of constraints that cannot hold together (no subset of it is empty)."""
    needed = list(component.constraints)
    for constraint in component.constraints:
        if len(needed) == 1:
            break
        fewer = [c for c in needed if c is not constraint]
        if not component.feasible(fewer):
            needed = fewer
    shown = " and ".join(repr(c.text) for c in needed)
    verb = "rules" if len(needed) == 1 else "together rule"
    return SpecError(f"the space is empty: {shown} {verb} out every configuration", "relax one or add values")
