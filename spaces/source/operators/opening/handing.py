"""One call whose function names members: arguments that are members, addresses or references stand as they are.

May not judge where the call stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner.spaces.source.kinds import Refused, is_pure, plain_type, writable
from tuner.spaces.source.operators.opening.call_sites import stores
from tuner.spaces.source.operators.opening.callees import changes_nothing
from tuner.spaces.source.operators.opening.inlining import Inlining, is_whole_expression, referring
from tuner.spaces.source.operators.opening.text_places import Kinds, is_reference, with_places
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    Param,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import map_expressions, names_in, root_of, subtrees, written_names
from tuner.spaces.source.widths import type_of

__all__ = ["HandingOn", "declared_value"]

_PLACES = Name | Index | Field
_COMPARING = ("<", ">", "<=", ">=", "==", "!=", "&&", "||")


class HandingOn(Inlining):
    """One call: what its function's names become, members among them.

    Args:
        function: that calls.
        helper: that is called, with one exit.
        value: that it gives, in its own names.
        helpers: the functions that are known, members in them as places.
    """

    def __init__(
        self, function: Function, helper: Function, value: Expr | None, helpers: Mapping[str, Function]
    ) -> None:
        self._own_kinds = Kinds.of(helper, function)
        super().__init__(function, helper, names_in((helper.body, value)))
        self._value, self._helpers = value, helpers
        self._stores = stores(helper.body, helper, helpers)
        self._given_kinds = Kinds.of(function, function)
        written = written_names(helper.body)
        self.referred = {p.name for p in helper.params if is_reference(p, function.language)}
        self.changed_for_caller = self.referred & written
        self._aliased: set[str] = set()

    def arguments(self, given: Sequence[Expr]) -> list[Stmt]:
        """Declarations of what is not handed on as it is."""
        placed: list[Expr] = [_element(with_places(expr)) for expr in given]
        pairs = list(zip(self.helper.params, placed, strict=True))
        self._aliased = {n for p, e in pairs if p.name in self.changed_for_caller for n in self._changed(e)}
        bound: dict[str, Expr] = {}
        params: list[Param] = []
        rest: list[Expr] = []
        for param, expr in pairs:
            if param.name in self.referred and self._is_bound(param, expr):
                bound[param.name] = expr
                continue
            if param.name in self.referred:
                # What is no variable of that type is copied for the call.
                param = replace(param, suffix="", text=param.text.replace("&", " "))
            params.append(param)
            rest.append(expr)
        whole, self.helper = self.helper, replace(self.helper, params=tuple(params))
        made = super().arguments(rest)
        self.helper = whole
        self._values.update(bound)
        return made

    def _changed(self, expr: Expr) -> set[str]:
        """Variables of which something is changed where a place is: none, where a pointer leads to it."""
        root = root_of(expr)
        kind = self._given_kinds.of_place(root) if isinstance(root, Name) else None
        return set() if kind is not None and kind[1] == 1 and root != expr else names_in(expr)

    def _is_bound(self, param: Param, expr: Expr) -> bool:
        """Whether a reference is one to the place that is given; if not, it is one to a copy."""
        wanted, found = self._own_kinds.of_place(Name(param.name)), self._given_kinds.of_place(expr)
        if isinstance(expr, _PLACES) and found is not None and found == wanted and not found[1]:
            if isinstance(expr, Name) or not self._stores or self._is_fixed(expr):
                return True
            raise Refused(f"{self.helper.name} may change where its argument for {param.name} lies")
        constant = "const" in param.text.split() and param.name not in self.changed_for_caller
        number = wanted is not None and self._own_kinds.types is not None
        number = number and wanted is not None and not wanted[1] and self._is_arithmetic(wanted[0])
        other = found is not None or not isinstance(expr, _PLACES)
        # Of another type, or no place at all, the language makes a copy as well.
        if constant and number and (other or not self._stores):
            return False
        raise Refused(f"what {param.name} of {self.helper.name} refers to is not known")

    def _is_arithmetic(self, kind: str) -> bool:
        types = self._own_kinds.types
        return types is not None and types.is_arithmetic(kind)

    def _handed_on(self, param: Param, expr: Expr) -> bool:
        """Whether an argument may stand where the parameter did: a name, a number, a member, an address."""
        if names_in(expr) & self._aliased:
            return False
        if super()._handed_on(param, expr):
            return True
        wanted = self._own_kinds.of_place(Name(param.name))
        if wanted is None or self._given_kinds.of_place(expr) != wanted:
            return False
        if isinstance(expr, Unary) and expr.op == "&":
            if self._is_arithmetic(wanted[0]):
                # A pointer into a buffer is better followed by its name.
                return False
            return self._is_fixed(expr.operand) or self._is_read_again(expr.operand)
        return isinstance(expr, Index | Field) and self._is_read_again(expr)

    def _is_fixed(self, expr: Expr) -> bool:
        """Whether nothing has to be read from memory to say where a place lies."""
        if not self._is_read_plainly(expr):
            return False
        while isinstance(expr, Field):
            expr = expr.base
        return isinstance(expr, Name) or (isinstance(expr, Index) and isinstance(expr.base, Name))

    def _is_read_again(self, expr: Expr) -> bool:
        """Whether a place gives the same however often it is read while the function runs."""
        return not self._stores and self._is_read_plainly(expr)

    def _is_read_plainly(self, expr: Expr) -> bool:
        if any(isinstance(n, Assign | Opaque | Call) for n in subtrees(expr)):
            return False
        return not names_in(expr) & self._aliased and not self._looked_at(expr)

    def _as_it_is(self, value: Expr) -> bool:
        if super()._as_it_is(value):
            return True
        if self._value is None or any(isinstance(n, Ternary) for n in subtrees(self._value)):
            return False
        whole = self._own_kinds.of_return(self.helper) == ("int", 0) and self._is_int(self._value)
        return whole or (isinstance(self._value, _PLACES) and self._is_exact(self._value))

    def put(self, stmt: Stmt, call: Call, renamed: Expr) -> tuple[list[Stmt], Stmt]:
        """The statement with the value in the place of the call, and nothing before it.

        Raises:
            Refused: it would round in another way there, or a function may take it by reference.
        """
        if any(a is call for c in referring(self.function, stmt) for a in c.arguments):
            raise Refused(f"the value of {self.helper.name} may be taken by reference")
        taken = self._placed(renamed)
        return [], map_expressions(stmt, lambda part: taken if part is call else part)

    def _placed(self, renamed: Expr) -> Expr:
        if self._value is not None and self._is_exact(self._value):
            return renamed
        kind = plain_type(self.helper.head)
        number = self._value is not None and self._is_unrounded(self._value)
        if number and self._is_arithmetic(kind) and "*" not in self.helper.head:
            return Cast(kind, renamed)
        raise Refused(f"{self.helper.name} is called in some cases only, and its value may round there")

    def _is_exact(self, value: Expr) -> bool:
        """Whether a value has the function's type by itself, and nothing in it is rounded."""
        wanted = self._own_kinds.of_return(self.helper)
        if wanted is None:
            return False
        if isinstance(value, Name | Index | Field):
            return self._own_kinds.of_place(value) == wanted and self.is_quiet(value)
        if wanted[1]:
            return False
        match value:
            case Number(text=text):
                return text[0] in ".0123456789" and type_of(value, {}) == wanted[0]
            case Cast(type=kind, operand=operand):
                return plain_type(kind) == wanted[0] and self._is_unrounded(operand)
            case Ternary(condition=condition, then=then, other=other):
                return self.is_quiet(condition) and self._is_exact(then) and self._is_exact(other)
            case Binary(op=op) if op in _COMPARING:
                return wanted[0] in self._truths() and self.is_quiet(value)
            case Unary(op="!"):
                return wanted[0] in self._truths() and self.is_quiet(value)
        return wanted[0] == "int" and self._is_int(value)

    def _truths(self) -> tuple[str, ...]:
        """Types of functions whose value a comparison may stand for."""
        return ("int", "_Bool", "bool") if self.function.language == "c" else ("bool",)

    def _is_unrounded(self, value: Expr) -> bool:
        """Whether a value is a number that is only read, or one that is computed in ``int``."""
        if isinstance(value, Name | Index | Field):
            return self._own_kinds.is_number(value) and self.is_quiet(value)
        return self._is_int(value)

    def _is_int(self, value: Expr) -> bool:
        """Whether a value is computed in ``int``."""
        return is_whole_expression(value, self._is_int_at_once)

    def _is_int_at_once(self, value: Expr) -> bool:
        match value:
            case Name() | Index() | Field():
                return self._own_kinds.of_place(value) == ("int", 0) and self.is_quiet(value)
            case Ternary(condition=condition, then=then, other=other):
                return self.is_quiet(condition) and self._is_int(then) and self._is_int(other)
        return False

    def is_quiet(self, expr: Expr) -> bool:
        """Whether an expression is evaluated without effects, and all of it is known."""
        return not any(
            isinstance(n, Assign | Opaque)
            or (isinstance(n, Call) and not is_pure(n) and not changes_nothing(n, self._helpers))
            for n in subtrees(expr)
        )


def _element(expr: Expr) -> Expr:
    """``p[0]`` for ``*p``."""
    return Index(expr.operand, Number("0")) if isinstance(expr, Unary) and expr.op == "*" else expr


def declared_value(
    body: tuple[Stmt, ...], value: Expr | None, helper: Function
) -> tuple[tuple[Stmt, ...], Expr | None]:
    """Statements and value, where the last of them only declares the value."""
    if not body or not isinstance(body[-1], Decl) or not isinstance(value, Name):
        return body, value
    last = body[-1]
    same = last.name == value.id and last.init is not None and not last.dims and "*" not in last.type
    return (
        (body[:-1], last.init) if same and writable(last.type) == plain_type(helper.head) else (body, value)
    )
