"""Bodies of functions in the place of calls, so that other operators reach their loops.

May not change what a call computes, rounding included: a value comes from a statement of its own, as it did from the
function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuner.spaces.source.kinds import Refused, is_pure, plain_type, types_of, writable
from tuner.spaces.source.lexical import unused
from tuner.spaces.source.operators.base import (
    Args,
    Operator,
    argument,
    rekeyed,
    replace_statement,
    require_known,
)
from tuner.spaces.source.operators.callees import (
    RETURN,
    callees,
    changes_nothing,
    local_names,
    reads_memory,
    require_same_meaning,
)
from tuner.spaces.source.operators.concealed import free_words
from tuner.spaces.source.operators.naming import declared, is_array, names_known
from tuner.spaces.source.reading import parse_expression
from tuner.spaces.source.scan import loose_macros
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Call,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Param,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import (
    map_expressions,
    names_in,
    statements,
    subtrees,
    transform,
    written_names,
)

__all__ = ["OPERATORS", "hidden_calls"]

_SPECIAL = re.compile(r"__attribute__|\[\[|template|virtual|weak|__global__|__kernel|\bkernel\b")
_CHANGING = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|<<=|>>=|\w\s*\(")


def inline_call(function: Function, args: Args) -> Function:
    """Puts the body of a function of the same file in the place of its first call that is evaluated once.

    Args:
        function: to change.
        args: ``call``, the function's name.
    """
    name = argument(args, "call")
    helpers = callees(function)
    if name not in helpers or name == function.name:
        raise Refused(f"{name} is no other function of this file, or of a header that was configured with")
    helper = helpers[name]
    _require_plain(function, helper, helpers)
    if function.unit:
        require_same_meaning(function, helper)
    stmt, call = _first(function, name)
    if len(call.arguments) != len(helper.params):
        raise Refused(f"{name} is called with {len(call.arguments)} arguments")
    body, value = _split(helper)
    inlining = _Inlining(function, helper, names_in((body, value)))
    before = inlining.arguments(call.arguments)
    _require_macros_apart(function, helper, (body, value))
    made: list[Stmt] = [*before, *inlining.renamed(body)]
    last = inlining.renamed(value)
    if not (isinstance(stmt, ExprStmt) and stmt.expr is call):
        if _stores(body) or any(_may_change(n, helpers) for n in subtrees(call.arguments)):
            _require_alone(function, stmt, call)
        if reads_memory(helper):
            _require_quiet(stmt, call, helpers)
        made += inlining.used(stmt, call, last)
    elif last is not None and not is_pure(last):
        raise Refused(f"the value of {name} has effects")
    return replace_statement(function, stmt, rekeyed(function, tuple(made), set()))


def hidden_calls(function: Function) -> dict[str, str]:
    """Functions of the project that are called in loops, and why the calls stay; each a line.

    Args:
        function: as opened as it can be.
    """
    loops = [s for s in statements(function.body) if isinstance(s, For)]
    called = dict.fromkeys(
        n.function for n in subtrees(tuple(loops)) if isinstance(n, Call) and not is_pure(n)
    )
    found: dict[str, str] = {}
    # A text's pattern will do: what a header defines mostly lies under its guard, which is no outermost level.
    for name in called:
        if re.search(rf"\b{name}\s*\([^;{{}}]*\)\s*\{{", function.source):
            try:
                inline_call(function, {"call": name})
            except Refused as refusal:
                found[name] = str(refusal)
    return found


def _inline_sites(function: Function, _: bool) -> Iterator[dict[str, Any]]:
    helpers = callees(function)
    called = dict.fromkeys(n.function for n in subtrees(function.body) if isinstance(n, Call))
    for name in called:
        if name in helpers and name != function.name:
            yield {"call": name}


def _require_macros_apart(function: Function, helper: Function, part: Any) -> None:
    """Refuses macros whose text is about variables of the function that is called, or of the one that calls."""
    loose = names_in(part) & loose_macros(function.file)
    if loose:
        raise Refused(f"{min(loose)} is a macro that cannot be seen through")
    meant = free_words(function, part) & (local_names(helper) | local_names(function))
    if meant:
        raise Refused(f"a macro in {helper.name} is about {min(meant)}, which may be another variable")


def _require_plain(function: Function, helper: Function, helpers: Mapping[str, Function]) -> None:
    name = helper.name
    if _SPECIAL.search(helper.head) or "*" in helper.head or "->" in helper.signature:
        raise Refused(f"{name} is declared in a way that is not known")
    if not helper.params and not re.search(r"\(\s*(void)?\s*\)", helper.signature):
        raise Refused(f"the parameters of {name} are not known")
    for param in helper.params:
        flat = param.stars == 0 and re.fullmatch(r"\[[^][]*\]", param.suffix)
        if not (param.plain or flat) or param.stars > 1 or "volatile" in param.text:
            raise Refused(f"the parameter {param.name} of {name} is not plain")
    reached, waiting = set[str](), [name]
    while waiting:
        found = (names_known(helpers[waiting.pop()]) & helpers.keys()) - reached
        reached |= found
        waiting += found
    if not reached.isdisjoint({name, function.name}):
        raise Refused(f"{name} calls itself")


def _first(function: Function, name: str) -> tuple[ExprStmt | Decl, Call]:
    for stmt in statements(function.body):
        if isinstance(stmt, ExprStmt):
            root: Expr | None = stmt.expr
        elif isinstance(stmt, Decl) and not stmt.dims:
            root = stmt.init
        else:
            continue
        for call in _always(root):
            if call.function == name:
                assert isinstance(stmt, ExprStmt | Decl)
                return stmt, call
    raise Refused(f"no statement calls {name} in any case")


def _always(expr: Expr | None) -> Iterator[Call]:
    """Calls that a statement evaluates whatever its conditions come to."""
    if expr is None:
        return
    if isinstance(expr, Ternary):
        yield from _always(expr.condition)
    elif isinstance(expr, Binary) and expr.op in ("&&", "||"):
        yield from _always(expr.left)
    else:
        if isinstance(expr, Call):
            yield expr
        for part in _parts(expr):
            yield from _always(part)


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Index(base=base, index=index):
            return (base, index)
        case Call(arguments=arguments):
            return arguments
        case Assign(target=target, value=value):
            return (target, value)
    return ()


def _split(helper: Function) -> tuple[tuple[Stmt, ...], Expr | None]:
    """A function's statements and the value at its end."""
    body, value = helper.body, None
    last = body[-1] if body else None
    found = RETURN.fullmatch(last.text.strip()) if isinstance(last, OpaqueStmt) else None
    if found is not None:
        body = body[:-1]
        value = parse_expression(found[1]) if found[1].strip() else None
    require_known((body, value) if value is not None else body, helper.name)
    for stmt in statements(body):
        if isinstance(stmt, Decl) and not {"static", "_Thread_local", "thread_local"}.isdisjoint(
            stmt.type.split()
        ):
            raise Refused(f"{helper.name} keeps values between calls")
    if value is None and "void" not in helper.head.split():
        raise Refused(f"{helper.name} does not end with its value")
    return body, value


def _stores(body: tuple[Stmt, ...]) -> bool:
    """Whether statements may change an element of an array."""
    return any(
        not is_pure(n) if isinstance(n, Call) else isinstance(n, Assign) and isinstance(n.target, Index)
        for n in subtrees(body)
    )


def _require_alone(function: Function, stmt: ExprStmt | Decl, call: Call) -> None:
    """Refuses a statement with anything beside a call that could see what the call stores.

    C leaves their order open; a compiler does not.
    """
    match stmt:
        case Decl():
            parts: tuple[Expr | None, ...] = (stmt.init,)
        case ExprStmt(expr=Assign(op="=", target=Index(index=index), value=value)):
            parts = (index, value)
        case ExprStmt(expr=Assign(op="=", target=Name(), value=value)):
            parts = (value,)
        case ExprStmt(expr=expr):
            parts = (expr,)
    waiting = [p for p in parts if p is not None]
    while waiting:
        part = waiting.pop()
        if part is call:
            continue
        looked_at = isinstance(part, Name) and _address_taken(function, part.id)
        if looked_at or isinstance(part, Index | Call | Assign | Opaque | Unary | Cast | Ternary):
            raise Refused(f"{call.function} stores, and is called among other things")
        waiting += _parts(part)


def _require_quiet(stmt: ExprStmt | Decl, call: Call, helpers: Mapping[str, Function]) -> None:
    """Refuses a statement with anything beside a call that may change what the call reads, and that came first."""
    root = stmt.expr if isinstance(stmt, ExprStmt) else stmt.init
    own = {id(node) for node in subtrees(call)}
    for part in subtrees((root.target, root.value) if isinstance(root, Assign) else root):
        again = isinstance(part, Call) and part.function == call.function
        if id(part) not in own and not again and _may_change(part, helpers):
            raise Refused(f"{call.function} reads what the statement that calls it may change")


def _may_change(part: Any, helpers: Mapping[str, Function]) -> bool:
    """Whether evaluating a part itself may change something."""
    match part:
        case Assign():
            return True
        case Opaque(text=text):
            return bool(_CHANGING.search(text))
        case Call():
            return not changes_nothing(part, helpers)
    return False


class _Inlining:
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
        if not isinstance(expr, Name) or _address_taken(self.function, expr.id):
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

    def used(self, stmt: ExprStmt | Decl, call: Call, value: Expr | None) -> list[Stmt]:
        """The calling statement with the value in the place of the call."""
        if value is None:
            raise Refused(f"{self.helper.name} has no value")
        kind = plain_type(self.helper.head)
        if (
            isinstance(stmt, Decl)
            and stmt.init is call
            and plain_type(stmt.type) == kind
            and "*" not in stmt.type
        ):
            return [replace(stmt, init=value)]
        name = self._fresh(f"{self.helper.name}_value")
        done = False

        def change(part: Expr) -> Expr:
            nonlocal done
            if part is call and not done:
                done = True
                return Name(name)
            return part

        return [Decl(f"const {kind}", name, (), value), map_expressions(stmt, change)]


def _id(values: dict[str, Expr], name: str) -> str:
    found = values.get(name)
    return found.id if isinstance(found, Name) else name


def _address_taken(function: Function, name: str) -> bool:
    for node in subtrees(function.body):
        if isinstance(node, Unary) and node.op == "&" and node.operand == Name(name):
            return True
        if isinstance(node, Opaque | OpaqueStmt) and re.search(rf"&\s*{name}\b", node.text):
            return True
    return False


OPERATORS = (
    Operator(
        name="inline_call",
        summary="the body of a function of the same file in the place of its call",
        apply=inline_call,
        sites=_inline_sites,
        opens=True,
        since=5,
    ),
)
