"""What expressions and assignments read and write: variables, elements, members, with constants filled in.

And which assignments add to what they assign to, however they are written: ``s += x``, ``s = s + x``,
``s = x + s - y``. Refuses what cannot be seen through. May not know of statements, but by the names that a function
declares, nor decide whether the order of additions matters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.spaces.source.kinds import Refused, is_floating, is_integer, is_pure, types_of
from tuner.spaces.source.places import (
    Place,
    is_alone,
    member_paths,
    member_variable,
    place_of,
    touched,
    unsteady_members,
)
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Decl,
    Expr,
    Field,
    For,
    Function,
    Index,
    Name,
    Number,
    OpaqueStmt,
    Unary,
)
from tuner.spaces.source.walks import (
    index_chain,
    map_expressions,
    names_in,
    operands,
    root_of,
    statements,
    subtrees,
)
from tuner.spaces.source.widths import is_whole

__all__ = ["Access", "Accesses", "Scope", "added_to", "own_variables", "update_of", "without_term"]

_REFERENCE = re.compile(r"^[\w\s:<>]*[\w>]\s*&\s*([A-Za-z_]\w*)\s*[={(]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One reference to a variable or an element.

    Attributes:
        variable: unique for each declaration; ``a.x`` for what is known as a member of each element of ``a``.
        subscripts: constants of the enclosing scopes filled in; those of the loops around a private variable first.
    """

    variable: str
    subscripts: tuple[Expr, ...]
    write: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """Names as they are known at a place: constants to fill in, private variables with their loops."""

    constants: Mapping[str, Expr] = field(default_factory=dict)
    private: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()

    def fill(self, expr: Expr) -> Expr:
        """An expression with what is known put in the place of names."""

        if self.constants.keys().isdisjoint(names_in(expr)):
            return expr

        def change(e: Expr) -> Expr:
            return self.constants.get(e.id, e) if isinstance(e, Name) else e

        return map_expressions(expr, change)


class Accesses:
    """What parts of a function touch; what was touched so far is kept.

    Args:
        function: whose names are meant.

    Attributes:
        types: of names.
        fractions: variables that are no whole numbers.
        shared_vars: variables of loops that are declared outside of them.
        pointers: what is accessed of pointer parameters, members that were taken and arrays of the file; whether each
            is ``restrict``, or an array.
        written: those of them that are written.
        moving: names that are written.
    """

    def __init__(self, function: Function) -> None:
        self.types = types_of(function)
        self.fractions = {n for n, k in self.types.items() if is_floating(k) and "*" not in k}
        self.shared_vars = {f.var for f in statements(function.body) if isinstance(f, For) and not f.type}
        self.pointers: dict[str, bool] = {}
        self.written: set[str] = set()
        self.moving: set[str] = set(unsteady_members(function))
        self.paths = member_paths(function)
        self._params = {p.name: p for p in function.params}
        declared = (*function.outer, *(s for s in statements(function.body) if isinstance(s, Decl)))
        self._local = {d.name for d in declared}
        # What was put into the function may have a name of its own that the file gives to something else.
        self._variables = {d.name: d for d in function.variables if d.name not in self._local}
        self._taken = function.taken
        self._rows = function.rows
        self._flat = {d.name for d in declared if not d.dims} - self._taken - self._rows
        # References that are known as text: what they stand for is also used by another name.
        texts = [n.text for n in subtrees(function.body) if isinstance(n, OpaqueStmt)]
        self._referring = {name for text in texts for name in _REFERENCE.findall(text)}

    def assigned(self, expr: Assign, scope: Scope) -> list[Access]:
        """What an assignment reads, then what it writes."""
        place = place_of(expr.target)
        if not isinstance(place.base, Name):
            raise Refused(f"{expression_text(expr.target)} is no plain place to write to")
        found = self.read(expr.value, scope)
        for subscript in (*place.outer, *place.inner):
            found += self.read(subscript, scope)
        if expr.op != "=" or (isinstance(expr.target, Field) and expr.target.several):
            # Other components stay as they are.
            found += self.of_place(place, scope, write=False)
        found += self.of_place(place, scope, write=True)
        return found

    def read(self, expr: Expr, scope: Scope) -> list[Access]:
        """What a value reads."""
        if not is_pure(expr):
            raise Refused(f"{expression_text(expr)!r} has effects that are not known")
        found: list[Access] = []
        stack: list[Expr] = [expr]
        while stack:
            part = stack.pop()
            if isinstance(part, Index | Field):
                place = place_of(part)
                if not isinstance(place.base, Name):
                    raise Refused(f"{expression_text(part)!r} is no element of a named array")
                found += self.of_place(place, scope, write=False)
                stack += (*place.outer, *place.inner)
            elif isinstance(part, Name):
                found += self.of_place(place_of(part), scope, write=False)
            else:
                stack += operands(part)
        return found

    def of_place(self, place: Place, scope: Scope, *, write: bool) -> list[Access]:
        """What a place touches: itself, and of a structure each member that the function uses by itself."""
        assert isinstance(place.base, Name)
        one = self._access(place.base.id, place.outer, scope, write=write)
        found: list[Access] = []
        for path in touched(self.paths, place.base.id, place.path):
            subscripts = one.subscripts
            if place.inner and path == place.path and is_alone(self.paths, place.base.id, path):
                # Of what one structure holds the subscripts are as those of an array, which may be flat.
                around = subscripts[:-1] if place.outer == (Number("0"),) else subscripts
                subscripts = (*around, *(scope.fill(s) for s in place.inner))
            variable = member_variable(one.variable, path)
            found.append(Access(variable=variable, subscripts=subscripts, write=write))
        return found

    def _access(self, name: str, subscripts: tuple[Expr, ...], scope: Scope, *, write: bool) -> Access:
        if name in self._referring:
            raise Refused(f"{name} refers to what has another name")
        if subscripts and name in self._flat:
            raise Refused(f"{name} is a pointer of its own, or of a type that is not known")
        filled = tuple(scope.fill(s) for s in subscripts)
        if name in scope.private:
            variable, around = scope.private[name]
            filled = (*(Name(v) for v in around), *filled)
        else:
            variable = name
            self._check_outer(name, subscripts, scope, write=write)
        if write:
            self.moving.add(name)
        return Access(variable=variable, subscripts=filled, write=write)

    def _check_outer(self, name: str, subscripts: tuple[Expr, ...], scope: Scope, *, write: bool) -> None:
        if name in self.shared_vars and name not in scope.variables:
            raise Refused(f"{name} counts a loop and is used outside it")
        if write and name in scope.variables:
            raise Refused(f"the loop variable {name} is written in its loop")
        if not subscripts:
            return
        param = self._params.get(name)
        if param is not None:
            if name not in self._rows and not (param.is_array and param.stars + bool(param.suffix) == 1):
                raise Refused(f"{name} is more than a pointer to elements")
            apart = "restrict" in param.text or "restrict" in " ".join(param.qualifiers)
        elif name in self._variables:
            # No other array has a place in an array, but a pointer may lead there.
            apart = "*" not in self._variables[name].type
        elif name not in self._local:
            raise Refused(f"{name} is not declared in this function")
        elif name in self._taken or name in self._rows:
            apart = False
        elif "*" in self.types.get(name, ""):
            raise Refused(f"{name} is a pointer of its own")
        else:
            return
        self.pointers[name] = apart
        if write:
            self.written.add(name)

    def updated(self, expr: Assign, scope: Scope) -> tuple[Access | None, bool]:
        """The place that an associative update changes, ``None`` where it is none; and whether in floating point."""
        base, subscripts = index_chain(expr.target)
        if isinstance(root_of(expr.target), Name) and place_of(expr.target).path:
            return self._member_updated(expr, scope), True
        op, value = expr.op, expr.value
        found = update_of(expr)
        if found is not None:
            op, value = f"{found.op}=", found.value
        elif op == "=" and isinstance(value, Binary) and value.op == "*" and value.left == expr.target:
            op, value = "*=", value.right
        if op not in ("+=", "-=", "*=", "&=", "|=", "^=") or not isinstance(base, Name):
            return None, True
        if base.id in names_in(value):
            return None, True
        place = self._access(base.id, subscripts, scope, write=True)
        whole = is_integer(self.types.get(base.id, "").replace("*", "")) and is_whole(value, self.types)
        return place, not whole

    def _member_updated(self, expr: Assign, scope: Scope) -> Access | None:
        """The member that an update adds to, which counts as a fraction whatever its type."""
        place = place_of(expr.target)
        if expr.op not in ("+=", "-=", "*=") or not isinstance(place.base, Name):
            return None
        if place.base.id in names_in((expr.value, *place.outer, *place.inner)):
            return None
        found = self.of_place(place, scope, write=True)
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A place, and what is added to it (``op`` is ``+``) or taken from it (``-``)."""

    target: Expr
    op: str
    value: Expr

    @property
    def assignment(self) -> Assign:
        """In its short form."""
        return Assign(f"{self.op}=", self.target, self.value)


def update_of(expr: Assign) -> Update | None:
    """The sum that an assignment goes on with; ``None`` where it is none.

    ``s = s + x - y`` is read as ``s += x - y``, which adds in another order.
    """
    if expr.op in ("+=", "-="):
        return Update(target=expr.target, op=expr.op[0], value=expr.value)
    if expr.op != "=":
        return None
    rest = without_term(expr.value, expr.target)
    if rest is None:
        return None
    if isinstance(rest, Unary) and rest.op == "-":
        return Update(target=expr.target, op="-", value=rest.operand)
    return Update(target=expr.target, op="+", value=rest)


def added_to(part: Any) -> dict[str, list[Assign]]:
    """Variables that statements do nothing with but add to them, with the assignments that do."""
    found: dict[str, list[Assign]] = {}
    for node in subtrees(part):
        update = update_of(node) if isinstance(node, Assign) else None
        if update is not None and isinstance(update.target, Name):
            found.setdefault(update.target.id, []).append(node)
    uses = Counter(n.id for n in subtrees(part) if isinstance(n, Name))
    # In its long form an update names the place twice.
    return {name: own for name, own in found.items() if uses[name] == sum(1 + (n.op == "=") for n in own)}


def own_variables(function: Function, loop: For) -> set[str]:
    """Parameters and locals from outside of a loop whose address nobody takes: only their names lead to them."""
    found = {p.name for p in function.params}
    found |= {n.name for n in subtrees(function.body) if isinstance(n, Decl)}
    found -= {n.name for n in subtrees(loop.body) if isinstance(n, Decl)}
    taken = (n.operand for n in subtrees(function.body) if isinstance(n, Unary) and n.op == "&")
    return found - {n.id for n in taken if isinstance(n, Name)}


def without_term(expr: Expr, target: Expr) -> Expr | None:
    """What a sum adds to one of its terms; ``None`` where that is no term of it."""
    if not isinstance(expr, Binary) or expr.op not in ("+", "-"):
        return None
    if expr.left == target:
        return expr.right if expr.op == "+" else Unary("-", expr.right)
    if expr.right == target:
        return expr.left if expr.op == "+" else None
    left = without_term(expr.left, target)
    if left is None:
        right = without_term(expr.right, target) if expr.op == "+" else None
        return None if right is None else Binary("+", expr.left, right)
    if isinstance(left, Unary) and left.op == "-":
        # -(a) + b and -(a) - b.
        other = Binary("-" if expr.op == "+" else "+", left.operand, expr.right)
        return Unary("-", other)
    return Binary(expr.op, left, expr.right)
