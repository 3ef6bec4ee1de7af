"""What the conditions around a part of a function say of whole numbers there, as polynomials that are not negative.

Conditions that enclose the part, or that were left behind with ``return``, over numbers that nothing changes. Analyses
compute with whole numbers; C cuts them off where a type does not hold them: where that may happen to those that the
part's loops and subscripts compute with, nothing is concluded from conditions. May not judge an order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spaces.source.affine import never, polynomial
from tuner.spaces.source.changes import EXIT, changed_names
from tuner.spaces.source.integers import rank
from tuner.spaces.source.kinds import Refused, all_types_of, plain_type, types_of, whole_number
from tuner.spaces.source.lexical import is_switch, words
from tuner.spaces.source.rows import short_lengths
from tuner.spaces.source.scan import Scan, scan
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Index,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import names_in, statements, subtrees
from tuner.spaces.source.widths import holds, is_signless, is_without_sign

__all__ = ["declared_before", "facts_at", "facts_without_overflow", "require_no_overflow", "steady_numbers"]

_JUMP = re.compile(r"\b(goto|asm|__asm__|setjmp)\b|^\s*\w+\s*:(?!:)")
_CASE = re.compile(r"\b(case|default)\b")
_UNSTEADY = re.compile(r"[*&]|\b(volatile|static|extern|_Thread_local|thread_local|__thread|auto)\b")
_ALIAS = re.compile(r"&\s*[({]*\s*(\w+\s*(?:[={(][^;]*)?)")
_CAPTURE = re.compile(r"\[\s*&\s*[\],]")
_OPPOSITE = {"<": ">=", ">=": "<", "<=": ">", ">": "<=", "==": "!=", "!=": "=="}
_ONE: Polynomial = constant(1)
_MOST = 1 << 62
"""A number up to which others may be added and taken away without going around 2^64."""


def facts_at(function: Function, part: Sequence[Stmt]) -> tuple[Polynomial, ...]:
    """What is known wherever a part of a function runs.

    Args:
        function: that holds the part.
        part: neighbouring statements, by identity.
    """
    texts = [n.text for n in subtrees(function.body) if isinstance(n, OpaqueStmt)]
    if any(_JUMP.search(text) or (_CASE.search(text) and not is_switch(text)) for text in texts):
        # The part may be reached past the conditions.
        return ()
    reader = _Reader(steady_numbers(function))
    for condition, met in _conditions(function.body, part[0]) or ():
        reader.take(condition, met)
    for name, kind in reader.kinds.items():
        if is_signless(kind):
            reader.facts.append(variable(name))
    return tuple(reader.facts)


def declared_before(function: Function, part: Sequence[Stmt]) -> dict[str, Expr]:
    """Local variables that are known where a part begins, by name, with the values that they are declared with."""
    found = _conditions(function.body, part[0]) or ()
    return {c.target.id: c.value for c, _ in found if isinstance(c, Assign) and isinstance(c.target, Name)}


def steady_numbers(function: Function) -> dict[str, str]:
    """Whole numbers that keep the value that they are declared with or given as, and their types."""
    changed = changed_names(function)
    begun = {d.name for d in statements(function.body) if isinstance(d, Decl) and d.init is not None}
    begun |= {f.var for f in statements(function.body) if isinstance(f, For) and f.type}
    begun |= {p.name for p in function.params} | {d.name for d in function.outer if d.init is not None}
    found = {d.name: "int" for d in function.defines}
    for name, kinds in all_types_of(function).items():
        kind = next(iter(kinds))
        known = rank(kind) is not None or is_signless(kind)
        if len(kinds) == 1 and known and not _UNSTEADY.search(kind) and name in begun:
            found[name] = kind
    changed |= set() if function.whole else _aliased(function, set(found))
    return {name: kind for name, kind in found.items() if name not in changed}


def _aliased(function: Function, names: set[str]) -> set[str]:
    """Names of a function of which a part is known, that other parts may have given another name."""
    text = function.file or function.source
    if _CAPTURE.search(text):
        return names
    return set[str]().union(*map(words, _ALIAS.findall(text)))


def _conditions(body: Sequence[Stmt], target: Stmt) -> list[tuple[Expr, bool]] | None:
    """Conditions on the way to a statement, and whether each holds there; ``None`` where it is not in the body.

    A declaration's value counts as a condition too: that the variable is equal to it.
    """
    passed: list[tuple[Expr, bool]] = []
    for stmt in body:
        if stmt is target:
            return passed
        inner: list[tuple[Expr, bool]] | None = None
        match stmt:
            case ExprStmt(expr=Call(function="__builtin_assume", arguments=(promised,), own="")):
                passed.append((promised, True))
            case Decl(name=name, init=init, dims=()) if init is not None:
                passed.append((Assign("=", Name(name), init), True))
            case For() | Block():
                inner = _conditions(stmt.body, target)
            case If(condition=condition):
                branches = ((stmt.then, True), (stmt.other, False))
                for branch, met in branches:
                    inner = _conditions(branch, target)
                    if inner is not None:
                        inner = [(condition, met), *inner]
                        break
                else:
                    passed += [(condition, not h) for b, h in branches if _leaves(b)]
        if inner is not None:
            return [*passed, *inner]
    return None


def _leaves(body: tuple[Stmt, ...]) -> bool:
    """Whether what follows is not reached from a branch."""
    last = next((s for s in reversed(body) if not isinstance(s, Comment)), None)
    if isinstance(last, Block):
        return _leaves(last.body)
    return isinstance(last, OpaqueStmt) and bool(EXIT.fullmatch(last.text.strip()))


@dataclass(slots=True)
class _Reader:
    """Takes conditions in the order in which they are evaluated.

    Attributes:
        kinds: of the numbers that keep their value.
        facts: so far.
        small: numbers of 64 bits without sign that are known to be far from wrapping around.
    """

    kinds: dict[str, str]
    facts: list[Polynomial] = field(default_factory=list)
    small: set[str] = field(default_factory=set)

    def take(self, condition: Expr, holds: bool) -> None:
        match condition:
            case Assign(target=target, value=value):
                self._declared(target, value)
            case Unary(op="!", operand=operand):
                self.take(operand, not holds)
            case Binary(op="&&", left=left, right=right) if holds:
                self.take(left, True)
                self.take(right, True)
            case Binary(op="||", left=left, right=right) if not holds:
                self.take(left, False)
                self.take(right, False)
            case Binary(op=op, left=left, right=right) if op in _OPPOSITE:
                self._compared(op if holds else _OPPOSITE[op], left, right)

    def _compared(self, op: str, left: Expr, right: Expr) -> None:
        one, two = self._value(left), self._value(right)
        if one is None or two is None or not _alike(one, two):
            return
        if op in (">", ">=", "=="):
            difference = one[0] - two[0]
            self.facts.append(difference - _ONE if op == ">" else difference)
        if op in ("<", "<=", "=="):
            difference = two[0] - one[0]
            self.facts.append(difference - _ONE if op == "<" else difference)
            if isinstance(left, Name) and isinstance(right, Number):
                self.small.add(left.id)

    def _declared(self, target: Expr, value: Expr) -> None:
        """That a variable is what it is declared as, unless its type may have cut that off."""
        made, kind = polynomial(value, ()), self.kinds.get(target.id, "") if isinstance(target, Name) else ""
        parts = (Name, Number, Binary, Ternary, Unary)
        known = names_in(value) <= self.kinds.keys() and all(isinstance(n, parts) for n in subtrees(value))
        signed = rank(kind) in ("int", "long") and not is_without_sign(value, self.kinds)
        if made is None or not known or not signed or not holds(kind, value, self.kinds, signs=True):
            return
        assert isinstance(target, Name)
        self.facts += [variable(target.id) - made, made - variable(target.id)]

    def _value(self, expr: Expr) -> tuple[Polynomial, bool] | None:
        """A number as it is without wrapping around, and whether it is computed with a sign."""
        match expr:
            case Number(text=text):
                found = whole_number(text)
                if found is None or found[0] >= _MOST:
                    return None
                return constant(found[0]), not is_signless(found[1])
            case Name(id=name) if name in self.kinds:
                return variable(name), not is_signless(self.kinds[name])
            case Unary(op="-", operand=operand):
                inner = self._value(operand)
                return (-inner[0], True) if inner is not None and inner[1] else None
            case Cast(type=kind, operand=operand) if rank(kind) == "long":
                inner = self._value(operand)
                if inner is None or inner[1]:
                    return inner
                narrow = isinstance(operand, Name) and rank(self.kinds[operand.id]) is None
                known = isinstance(operand, Name) and operand.id in self.small
                return (inner[0], True) if narrow or known else None
            case Binary(op="+" | "-" | "*", left=left, right=right):
                sides = self._value(left), self._value(right)
                poly = polynomial(expr, ())
                signed = all(side is not None and side[1] for side in sides)
                # Casts in it are to types that hold what they are given.
                return (poly, True) if signed and poly is not None else None
        return None


def _alike(one: tuple[Polynomial, bool], two: tuple[Polynomial, bool]) -> bool:
    """Whether two numbers are compared as they are: beside one without sign, one below zero would be large."""
    if one[1] == two[1]:
        return True
    signed = one if one[1] else two
    return set(signed[0]) <= {()} and signed[0].get((), 0) >= 0


def facts_without_overflow(function: Function, part: Sequence[Stmt]) -> tuple[Polynomial, ...] | None:
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
    return facts if all(never([*facts, constant(-1) - poly]) for poly in needed) else None


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
