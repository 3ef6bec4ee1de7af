"""One call whose function's body takes its place: the names of that body become the caller's, arguments declarations.

May not judge whether that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import Refused, plain_type, types_of, writable
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.operators.callees import local_names
from tuner.spaces.source.operators.naming import declared, is_array, names_known
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Decl,
    Expr,
    For,
    Function,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Param,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import map_expressions, subtrees, transform, written_names

__all__ = ["Inlining", "address_taken"]


class Inlining:
    """One call: what its function's names become."""

    def __init__(self, function: Function, helper: Function, used: set[str]) -> None:
        self.function, self.helper = function, helper
        self._types = types_of(function)
        self._taken = names_known(function)
        own_names = declared(helper.body)
        params = {p.name for p in helper.params}
        if own_names & params:
            raise Refused(f"{helper.name} declares {min(own_names & params)} again")
        free = used - own_names - params
        # What is declared here may not take a name that the function called means something by.
        self._taken |= free
        own = local_names(function)
        if helper.name in own:
            raise Refused(f"{helper.name} is declared again")
        if free & written_names(helper.body):
            raise Refused(
                f"{helper.name} changes {min(free & written_names(helper.body))}, which is not its own"
            )
        if free & own:
            raise Refused(f"{min(free & own)} means something else in {helper.name}")
        self._values: dict[str, Expr] = {}
        for name in sorted(own_names):
            self._fresh(name)

    def _fresh(self, name: str) -> str:
        made = unused(name, self._taken)
        self._taken.add(made)
        self._values[name] = Name(made)
        return made

    def arguments(self, given: Sequence[Expr]) -> list[Stmt]:
        """Declarations of what is not handed on as it is."""
        written = written_names(self.helper.body)
        assigned = {
            n.target.id
            for n in subtrees(self.helper.body)
            if isinstance(n, Assign) and isinstance(n.target, Name)
        }
        made: list[Stmt] = []
        for param, expr in zip(self.helper.params, given, strict=True):
            if isinstance(expr, Opaque):
                raise Refused(f"an argument of {self.helper.name} is only known as text")
            changed = param.name in (assigned if param.is_array else written)
            if not changed and self._handed_on(param, expr):
                self._values[param.name] = expr
                continue
            kind = writable(param.base)
            if param.is_array:
                kind = " ".join(param.base.split()) + " *"
            elif not changed:
                kind = f"const {kind}"
            made.append(Decl(kind, self._fresh(param.name), (), expr))
        return made

    def _handed_on(self, param: Param, expr: Expr) -> bool:
        """Whether an argument's own name or number may stand where the parameter's did."""
        if isinstance(expr, Number):
            return not param.is_array and plain_type(param.base) == "int" and expr.text.isdigit()
        if not isinstance(expr, Name) or address_taken(self.function, expr.id):
            return False
        kind = self._types.get(expr.id)
        if kind is None:
            return False
        array = is_array(self.function, expr.id)
        return array == param.is_array and plain_type(kind) == plain_type(param.base)

    def renamed(self, node: Any) -> Any:
        """Part of the called function in the caller's names."""
        values = self._values

        def change(part: Any) -> Any:
            match part:
                case Name(id=name):
                    return values.get(name, part)
                case Decl():
                    return replace(part, name=_id(values, part.name))
                case For():
                    return replace(part, var=_id(values, part.var))
            return part

        return None if node is None else transform(node, change)

    def used(self, stmt: Stmt, call: Call, value: Expr | None) -> tuple[list[Stmt], Stmt]:
        """A declaration of the value, if that needs one, and the calling statement with it in the place of the call."""
        if value is None:
            raise Refused(f"{self.helper.name} has no value")
        kind = plain_type(self.helper.head)
        if (
            isinstance(stmt, Decl)
            and stmt.init is call
            and plain_type(stmt.type) == kind
            and "*" not in stmt.type
        ):
            return [], replace(stmt, init=value)
        name = self._fresh(f"{self.helper.name}_value")
        done = False

        def change(part: Expr) -> Expr:
            nonlocal done
            if part is call and not done:
                done = True
                return Name(name)
            return part

        return [Decl(f"const {kind}", name, (), value)], map_expressions(stmt, change)


def _id(values: dict[str, Expr], name: str) -> str:
    found = values.get(name)
    return found.id if isinstance(found, Name) else name


def address_taken(function: Function, name: str) -> bool:
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&" and node.operand == Name(name):
            return True
        if isinstance(node, Opaque | OpaqueStmt) and re.search(rf"&\s*{name}\b", node.text):
            return True
    return False
