"""One call whose function's body takes its place: the names of that body become the caller's, arguments declarations.

May not judge whether that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from tuner.spaces.source.constructs import UnknownConstruct
from tuner.spaces.source.kinds import Refused, is_pure, plain_type, types_of, writable
from tuner.spaces.source.lexical import unused, words
from tuner.spaces.source.operators.naming import is_array, names_known
from tuner.spaces.source.operators.opening.callees import callees, local_names
from tuner.spaces.source.places import place_of
from tuner.spaces.source.syntax import (
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Param,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import (
    assigned_names,
    declared_names,
    map_expressions,
    names_in,
    root_of,
    subtrees,
    transform,
    written_names,
)
from tuner.spaces.source.widths import type_of

__all__ = ["Inlining", "address_taken", "is_of", "is_whole_expression", "referring"]

_PLAIN_TYPE = re.compile(r"(?:const\s+)?(?:struct\s+)?[A-Za-z_]\w*(?:\s+[A-Za-z_]\w*)*")
_SMALL = 5
"""Nodes of an argument that may stand wherever its parameter stood."""


class Inlining:
    """One call: what its function's names become.

    Args:
        function: that calls.
        helper: that is called, with one exit.
        used: the names that it uses.
    """

    changed_for_caller: AbstractSet[str] = frozenset()
    """Names that the function changes through references to them."""

    def __init__(self, function: Function, helper: Function, used: set[str]) -> None:
        helper = replace(helper, params=tuple(_decayed(p, function) for p in helper.params))
        self.function, self.helper = function, helper
        self._types = types_of(function)
        # Words would mean something else if a variable had their name: types that are used, macros.
        kinds = (n.type for n in subtrees(function.body) if isinstance(n, Decl | Cast | For))
        self._taken = names_known(function).union(function.macros, *map(words, kinds))
        own_names = declared_names(helper.body)
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
        known = types_of(helper)
        # A name of several types has none.
        self._own_types = {self._fresh(name): known.get(name, "*") for name in sorted(own_names)}

    def _fresh(self, name: str) -> str:
        made = unused(name, self._taken)
        self._taken.add(made)
        self._values[name] = Name(made)
        return made

    def arguments(self, given: Sequence[Expr]) -> list[Stmt]:
        """Declarations of what is not handed on as it is."""
        written = written_names(self.helper.body)
        assigned = assigned_names(self.helper.body)
        referred = names_in(tuple(referring(self.function, self.helper.body)))
        made: list[Stmt] = []
        for param, expr in zip(self.helper.params, given, strict=True):
            if isinstance(expr, Opaque):
                raise UnknownConstruct(f"a call of {self.helper.name}", expr)
            changed = param.name in (assigned if param.is_array else written) | referred
            if not changed and self._handed_on(param, expr):
                self._values[param.name] = expr
                continue
            kind = writable(param.base)
            if param.is_array:
                kind = " ".join(param.base.split()) + " *"
            elif not changed:
                kind = f"const {kind}"
            name = self._fresh(param.name)
            self._own_types[name] = kind
            made.append(Decl(kind, name, (), expr))
        return made

    def _handed_on(self, param: Param, expr: Expr) -> bool:
        """Whether an argument's own name or number may stand where the parameter's did."""
        if not param.is_array and plain_type(param.base) == "int":
            small = sum(1 for _ in subtrees(expr)) <= _SMALL
            if small and is_whole_expression(expr, _is_int(self._types)) and not self._looked_at(expr):
                return True
        if not isinstance(expr, Name) or address_taken(self.function, expr.id):
            return False
        kind = self._types.get(expr.id)
        if kind is None:
            return False
        array = is_array(self.function, expr.id)
        return array == param.is_array and plain_type(kind) == plain_type(param.base)

    def _looked_at(self, expr: Expr) -> bool:
        """Whether something else may change a variable of an expression."""
        # What lies outside of the region may do anything with a variable of there.
        outside = set() if self.function.whole else {d.name for d in self.function.outer}
        names = {n.id for n in subtrees(expr) if isinstance(n, Name)}
        return bool(names & outside) or any(address_taken(self.function, n) for n in names)

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
        taken: Expr = value
        made: list[Stmt] = []
        handed = any(a is call for c in referring(self.function, stmt) for a in c.arguments)
        if handed or not self._as_it_is(value):
            taken = Name(self._fresh(f"{self.helper.name}_value"))
            made = [Decl(f"const {kind}", taken.id, (), value)]
        done = False

        def change(part: Expr) -> Expr:
            nonlocal done
            if part is call and not done:
                done = True
                return taken
            return part

        return made, map_expressions(stmt, change)

    def is_quiet(self, expr: Expr) -> bool:
        """Whether an expression is evaluated without effects, and all of it is known."""
        return is_pure(expr)

    def _as_it_is(self, value: Expr) -> bool:
        """Whether a value is the same where the call was: whole numbers do not round, and a load computes nothing."""
        kind = plain_type(self.helper.head)
        types = {**self._types, **self._own_types}
        if kind == "int" and is_whole_expression(value, _is_int(types)):
            return True
        return is_of(value, kind, types) and is_pure(value)


def _decayed(param: Param, function: Function) -> Param:
    """A parameter of a type that is an array by its typedef, as what it is: a pointer to the elements."""
    *qualifiers, name = param.base.split() or [""]
    if param.is_array or not name.isidentifier():
        return param
    defined = rf"\btypedef\b([^;{{}}]*?)\b{name}\s*((?:\[[^;{{}}\[\]]*\]\s*)+);"
    found = re.search(defined, function.file)
    if found is None:
        return param
    if found[2].count("[") > 1 or not _PLAIN_TYPE.fullmatch(found[1].strip()):
        raise Refused(f"{param.text} is an array by the name of its type")
    return replace(param, base=" ".join([*qualifiers, *found[1].split()]), stars=1)


def referring(function: Function, part: Any) -> Iterator[Call]:
    """Calls that may take an argument by reference, and change it or bind to it for being a variable."""
    if function.language not in ("c++", "cuda"):
        return
    known = callees(function)
    for node in subtrees(part):
        if isinstance(node, Call) and not is_pure(node):
            params = known[node.function].params if node.function in known else ()
            if not params or any("?" in p.suffix for p in params):
                yield node


def is_whole_expression(expr: Expr, is_int: Callable[[Expr], bool]) -> bool:
    """Whether an expression is computed in ``int``, of parts that are known to be."""
    match expr:
        case Number(text=text):
            return text[0].isdigit() and type_of(expr, {}) == "int"
        case Unary(op="-", operand=operand):
            return is_whole_expression(operand, is_int)
        case Binary(op="+" | "-" | "*" | "/" | "%", left=left, right=right):
            return is_whole_expression(left, is_int) and is_whole_expression(right, is_int)
    return is_int(expr)


def is_of(expr: Expr, kind: str, types: Mapping[str, str]) -> bool:
    """Whether an expression is a variable, or an element of one, of a type."""
    match expr:
        case Name(id=name):
            return "*" not in types.get(name, "*") and plain_type(types[name]) == kind
        case Index(base=Name(id=name)):
            found = types.get(name, "")
            return found.count("*") == 1 and plain_type(found) == kind
    return False


def _is_int(types: Mapping[str, str]) -> Callable[[Expr], bool]:
    """Whether expressions are variables that are declared as ``int``."""
    return lambda expr: isinstance(expr, Name) and is_of(expr, "int", types)


def _id(values: dict[str, Expr], name: str) -> str:
    found = values.get(name)
    return found.id if isinstance(found, Name) else name


def address_taken(function: Function, name: str) -> bool:
    """Whether something else than the name may stand for a variable: a pointer, in C++ a reference or a capture."""
    pattern = rf"&[\s(]*{name}\b"
    # What lies outside the region is known as text alone.
    if not function.whole and re.search(rf"{pattern}|&\s*\w+\s*[=({{]\s*{name}\b|\[[&=]", function.file):
        return True
    references = function.language in ("c++", "cuda")
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&":
            # Of an element it is that of the array, of a member that of the structure.
            whole = root_of(node.operand) if place_of(node.operand).path else node.operand
            if whole == Name(name):
                return True
        if references and isinstance(node, Decl) and "&" in node.type:
            return True
        if isinstance(node, Opaque | OpaqueStmt):
            text = node.text
            if re.search(pattern, text) or (references and re.search(r"(?<!&)&(?![&=])|\[=", text)):
                return True
    return False
