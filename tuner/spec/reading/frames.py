"""How far the counters and pointers of one function go, and how often its loops go round.

Read from the function's syntax tree; guesses for a first spec only. May not judge what is done with a pointer.
"""

from __future__ import annotations

import math

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.reading.expression_values import ExpressionValues, Place
from tuner.spec.reading.extents import moves, reach, symbol
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import (
    assigned_only,
    conjuncts,
    first_values,
    inner_nodes,
    peeled,
    referenced,
    walked,
)

__all__ = ["MOST_COUNTED", "Frame"]

MOST_COUNTED = 16
"""What the elements of an array may reach that say how far loops go: as far as small sizes do."""


class Frame(ExpressionValues):
    """One function being looked through: what its variables stand for, and its loops of a constant length."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.starts: dict[str, Polynomial] = {}
        """Of counters the smallest value."""
        self._of_loops: dict[str, dict[str, Polynomial]] = {}
        self.short: set[str] = set()
        self.bound_names: set[str] = set()
        self.ends: set[str] = set()
        """Names that some loop goes as far as."""
        self.made: dict[str, tuple[Node, Frame]] = {}
        """Initial values of variables that stay as they are, and where they were written."""
        self.counts: set[int] = set()
        """Arguments whose elements say how far loops go that begin at a constant."""
        self.walked = walked(function.tree)
        self._times: dict[str, Polynomial] = {}
        """How often loops go round, by their identity."""
        self._first_values = first_values(function.tree)
        self._assigned = assigned_only(function.tree)
        """Values that variables without an initial value are given."""

    def called(self, function: Function) -> Frame:
        """A function that is called here: what is known of arguments, and what loops say, is of both."""
        inside = Frame(function)
        inside.rows, inside.elements, inside.ranges = self.rows, self.elements, self.ranges
        inside.exponents, inside.counts = self.exponents, self.counts
        inside.bound_names, inside.ends = self.bound_names, self.ends
        return inside

    def learn_bounds(self) -> None:
        """Finds out how far counters go, and which sizes say so (``bound_names``)."""
        for node in walk(self.function.tree):
            if node.get("kind") in ("ForStmt", "WhileStmt", "DoStmt"):
                self._bound(node)
            elif node.get("kind") == "BinaryOperator" and node.get("opcode") == "=":
                self._assign(referenced(peeled(inner_nodes(node)[0])))
            elif node.get("kind") == "VarDecl" and inner_nodes(node) and node["id"] not in self.modified:
                # `int end = begin + TILE < n ? begin + TILE : n;` ends a loop further down.
                value = inner_nodes(node)[-1]
                if all(referenced(part) != node["id"] for part in walk(value)):
                    self.made[node["id"]] = (value, self)
                known = self.polynomial(value)
                if known is not None and not moves(known):
                    self.values.setdefault(node["id"], known)
                least = self._lesser(value)
                if least is not None:
                    self.bounds.setdefault(node["id"], least)
        self._walk_pointers()

    def _assign(self, name: str) -> None:
        """Of `i3 = 2 * j3 - 1;` the value, of a variable that is given one of several numbers the largest."""
        values = [self.polynomial(value) for value in self._assigned.get(name, ())]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return
        if len(set(known)) == 1 and symbol(name) not in known[0].names:
            self.values.setdefault(name, known[0])
            self.modified.discard(name)
        numbers = [value.value for value in known if value.value is not None]
        if len(numbers) == len(known) > 1:
            self.bounds.setdefault(name, constant(max(numbers) + 1))

    def enter(self, loop: Node) -> None:
        """From here on counters go as far as this loop lets them: others may have the same counter."""
        self.bounds.update(self._of_loops.get(loop.get("id", ""), {}))

    def _bound(self, loop: Node) -> None:
        inner = inner_nodes(loop)
        place = {"ForStmt": 2, "DoStmt": 1}.get(loop["kind"], 0)
        condition = peeled(inner[place] if len(inner) > place else {})
        # Of `i < begin + TILE && i < n` the second says how far it goes.
        parts = sorted(conjuncts(condition), key=self._moves)
        found = self._of_loops[loop["id"]] = {}
        for part in parts:
            self._count(part, loop, found)
            self._limit(part, loop, found)
            self._run_out(part, loop, found)
        self._count_rounds(loop, found)
        self.enter(loop)

    def _count_rounds(self, loop: Node, found: dict[str, Polynomial]) -> None:
        begun = self._begun(loop)
        times = [bound - begun[counter] for counter, bound in found.items() if counter in begun]
        if len(times) == 1 and not moves(times[0]):
            self._times.setdefault(loop["id"], times[0])

    def _walk_pointers(self) -> None:
        """How far pointers get that go on by constants in loops, from where they are before the loops around them."""
        for name, places in self.walked.items():
            steps = [step for _, change in places if (step := self.step(change)) is not None]
            if len(steps) < len(places) or not all(
                each in self._times for loops, _ in places for each in loops
            ):
                continue
            total = constant(1)
            for (loops, _), step in zip(places, steps, strict=True):
                times = math.prod((self._times[each] for each in loops), start=constant(1))
                total += (times - constant(1)) * step
            # In the last round; there each place adds its own.
            self._of_loops[places[0][0][0]][name] = total

    def step(self, change: Node) -> Polynomial | None:
        """What is added where a pointer is changed; ``None`` where that is no positive number."""
        inner = inner_nodes(change)
        step = constant(1) if change["opcode"] == "++" else self.polynomial(inner[1])
        return step if step is not None and (step.value or 0) > 0 else None

    def moved(self, name: str, begin: Place) -> Place:
        """Where a pointer leads that begins at a place and may change; how far is ``None`` where it cannot be told."""
        position, (*outer, offset) = begin
        if offset is None or name not in self.modified or name in self.references:
            return begin
        return position, (*outer, offset + variable(symbol(name)) if name in self.walked else None)

    def _moves(self, condition: Node) -> bool:
        inner = inner_nodes(condition)
        high = self.polynomial(inner[-1]) if inner else None
        return high is None or moves(high)

    def _limit(self, condition: Node, loop: Node, found: dict[str, Polynomial]) -> None:
        if condition.get("kind") != "BinaryOperator" or condition.get("opcode") not in ("<", "<=", "!="):
            return self._descend(condition, loop, found)
        left, right = inner_nodes(condition)
        counters = [
            n for n in walk(left) if n.get("kind") == "DeclRefExpr" and referenced(n) in self.modified
        ]
        if len(counters) != 1:
            return None
        counter = referenced(counters[0])
        low = self.polynomial(left)
        high = self.polynomial(right)
        if high is None:
            high = self._lesser(right)
        if low is None or high is None or low.factor_of(symbol(counter)) != constant(1):
            return None
        bound = high - (low - variable(symbol(counter)))
        if condition["opcode"] == "<=":
            bound = bound + constant(1)
        if self._reaches(counter, bound, loop, found):
            self._begins(counter, self._begun(loop).get(counter))
        return None

    def _descend(self, condition: Node, loop: Node, found: dict[str, Polynomial]) -> None:
        """Of `for (i = n - 1; i >= low; i--)`: it goes no further than it begins."""
        if condition.get("kind") != "BinaryOperator" or condition.get("opcode") not in (">", ">="):
            return
        left, right = inner_nodes(condition)
        counter = referenced(peeled(left))
        first, low = self._begun(loop).get(counter), self.polynomial(right)
        if first is None or counter not in self.modified:
            return
        if self._reaches(counter, first + constant(1), loop, found):
            above = condition["opcode"] == ">"
            low = low + constant(1) if low is not None and above else low
            self._begins(counter, low)
            if low is not None and not moves(first - low):
                self._times[loop["id"]] = first + constant(1) - low

    def _run_out(self, condition: Node, loop: Node, found: dict[str, Polynomial]) -> None:
        """Of `while (n--)`, `while (--n > 0)` and `for (i = n; i-- > 0;)`: it goes from what there is down to zero."""
        inner = inner_nodes(condition)
        compared = condition.get("kind") == "BinaryOperator" and condition.get("opcode") in (">", ">=", "!=")
        step = peeled(inner[0]) if compared else condition
        if step.get("opcode") != "--" or (compared and self.polynomial(inner[1]) != constant(0)):
            return
        counter = referenced(peeled(inner_nodes(step)[0]))
        first = self._begun(loop).get(counter)
        if first is None and counter in self._first_values:
            first = self.polynomial(self._first_values[counter])
        elif first is None:
            first = self.values.get(counter)
        if first is not None and loop["kind"] == "DoStmt":
            first = first + constant(1)
        if first is not None and self._reaches(counter, first, loop, found):
            self._begins(counter, constant(0))
            self._times[loop["id"]] = first

    def _reaches(self, counter: str, bound: Polynomial, loop: Node, found: dict[str, Polynomial]) -> bool:
        """Notes how far a counter goes, where no other counter moves that."""
        if moves(bound):
            reached = reach(bound - constant(1), self.bounds)
            bound = bound if reached is None else reached
        if moves(bound):
            return False
        self.bound_names |= bound.names
        self.ends |= bound.rounded_up().names
        if bound.value is not None:
            self.short.add(loop["id"])
        found.setdefault(counter, bound)
        return True

    def _count(self, condition: Node, loop: Node, bounds: dict[str, Polynomial]) -> None:
        """Of `for (j = 0; j < length[i]; j++)`, where it is read into a variable too, how far `j` goes is made up."""
        if condition.get("kind") != "BinaryOperator" or condition.get("opcode") not in ("<", "!="):
            return
        left, right = (peeled(node) for node in inner_nodes(condition))
        first = self._begun(loop).get(referenced(left))
        if first is None or first.value is None:
            return
        value, frame = self.made.get(referenced(right), (right, self))
        found = frame.element(value)
        if found is not None and found not in self.elements and referenced(left) not in bounds:
            bounds[referenced(left)] = constant(MOST_COUNTED)
            self.counts.add(found)

    def _begins(self, counter: str, first: Polynomial | None) -> None:
        """The least value of a counter; unknown where loops differ."""
        first = variable(symbol(counter)) if first is None else first
        if self.starts.setdefault(counter, first) != first:
            self.starts[counter] = variable(symbol(counter))

    def _begun(self, loop: Node) -> dict[str, Polynomial]:
        """What a loop gives its counters to begin with."""
        found = {}
        for node in walk(inner_nodes(loop)[0]) if loop["kind"] == "ForStmt" else ():
            inner = inner_nodes(node)
            if node.get("kind") == "VarDecl" and inner:
                name, value = node["id"], inner[-1]
            elif node.get("kind") == "BinaryOperator" and node.get("opcode") == "=":
                name, value = referenced(peeled(inner[0])), inner[1]
            else:
                continue
            first = self.polynomial(value)
            if first is not None:
                found[name] = first
        return found

    def element(self, node: Node) -> int | None:
        """The argument that an expression is one element of."""
        node = peeled(node)
        if node.get("kind") != "ArraySubscriptExpr":
            return None
        base = peeled(inner_nodes(node)[0])
        pointer, frame = self.made.get(referenced(base), (base, self))
        found = frame.pointer(pointer)
        return None if found is None or found[0] in self.rows else found[0]

    def _lesser(self, node: Node) -> Polynomial | None:
        """Of `begin + TILE < n ? begin + TILE : n` the part that no counter moves."""
        node = peeled(node)
        if node.get("kind") != "ConditionalOperator":
            return None
        parts = [self.polynomial(part) for part in inner_nodes(node)[1:]]
        still = [p for p in parts if p is not None and not moves(p)]
        return still[0] if len(still) == 1 and still[0].value is None else None
