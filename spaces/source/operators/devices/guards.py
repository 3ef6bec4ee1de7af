"""Conditions under which an item of a launch works, what may be computed by items that do not, and what differs between
the parts of a kernel that are done together.

May not change a tree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice, product

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.polynomials import Polynomial, constant, variable
from tuner.core.types import Launch
from tuner.spaces.launch import geometry
from tuner.spaces.source.affine import polynomial
from tuner.spaces.source.kinds import is_integer, is_unsigned, plain_type, types_of
from tuner.spaces.source.own_names import UNKNOWN
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Decl,
    Expr,
    ExprStmt,
    Field,
    For,
    Function,
    If,
    Index,
    Name,
    Number,
    Opaque,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import evaluated, inner_bodies, names_in, operands, root_of, subtrees

__all__ = [
    "assigned",
    "conjuncts",
    "differing",
    "is_always_read",
    "is_counted",
    "is_harmless",
    "limits_of",
    "loses_sign",
    "may_be_negative",
    "negated",
    "reaches",
    "reads_memory",
    "truth",
]

_OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_LOGICAL = (*_OPPOSITE, "&&", "||")
_OPENCL_WHOLE = frozenset({"uint", "ulong", "ushort", "uchar"})
_HARMLESS = frozenset(
    {"min", "max", "abs", "fabs", "fabsf", "fmin", "fmax", "fminf", "fmaxf", "sqrt", "sqrtf"}
)
_SAMPLES = (1, 2, 3, 7, 16, 33, 64, 100, 257, 1024)
_MOST_SAMPLES = 400


def conjuncts(condition: Expr, op: str) -> list[Expr]:
    """What ``op`` (``&&`` or ``||``) joins."""
    if isinstance(condition, Binary) and condition.op == op:
        return [*conjuncts(condition.left, op), *conjuncts(condition.right, op)]
    return [condition]


def negated(function: Function, condition: Expr) -> Expr:
    """The opposite; of whole numbers by the opposite comparison, which for a NaN would not be the opposite."""
    if isinstance(condition, Binary) and condition.op in _OPPOSITE and _compares_whole(function, condition):
        return Binary(_OPPOSITE[condition.op], condition.left, condition.right)
    if isinstance(condition, Unary) and condition.op == "!":
        return condition.operand
    return Unary("!", condition)


def _compares_whole(function: Function, condition: Binary) -> bool:
    types = types_of(function)
    for node in subtrees(condition):
        if isinstance(node, Opaque | Assign) or (isinstance(node, Unary) and node.op in ("*", "&")):
            return False
        if isinstance(node, Call) and (
            node.own == UNKNOWN or not (node.function.startswith("get_") or node.function in ("min", "max"))
        ):
            return False
        if isinstance(node, Cast) and not is_counted(node.type):
            return False
        if isinstance(node, Name) and node.id in types and not is_counted(types[node.id].replace("*", "")):
            return False
    return True


def is_counted(kind: str) -> bool:
    """Whether a type's name is a whole number's, also one of OpenCL's or one deduced from a coordinate."""
    bare = plain_type(kind)
    return is_integer(kind) or bare in _OPENCL_WHOLE or bare in ("bool", "auto")


def truth(condition: Expr) -> Expr:
    """A condition as 0 or 1: as a whole number 0.5 would be 0."""
    if isinstance(condition, Binary) and condition.op in _LOGICAL:
        return condition
    if isinstance(condition, Unary) and condition.op == "!":
        return condition
    return Ternary(condition, Number("1"), Number("0"))


def is_harmless(expr: Expr | tuple[Expr, ...] | None, uniform: Collection[str]) -> bool:
    """Whether an item may compute an expression that it did not compute before: no memory, no effects, no traps.

    Args:
        expr: to compute.
        uniform: names that have one value for all items, so that dividing by them is no other division than before.
    """
    for node in subtrees(expr):
        if isinstance(node, Opaque | Assign | Index):
            return False
        if isinstance(node, Unary) and node.op not in ("-", "+", "~", "!"):
            return False
        if isinstance(node, Call) and (
            node.own == UNKNOWN or not (node.function in _HARMLESS or node.function.startswith("get_"))
        ):
            return False
        if isinstance(node, Binary) and node.op in ("/", "%") and not _is_divisor(node.right, uniform):
            return False
    return True


def is_always_read(body: Sequence[Stmt], element: Expr) -> bool:
    """Whether statements read an element whenever they are executed, under no condition."""
    return any(element in evaluated(part) for stmt in body for part in _unconditional(stmt))


def _unconditional(stmt: Stmt) -> Iterator[Expr]:
    if isinstance(stmt, ExprStmt):
        yield stmt.expr
    elif isinstance(stmt, Decl) and stmt.init is not None:
        yield stmt.init
    elif isinstance(stmt, If):
        yield stmt.condition
    elif isinstance(stmt, Block):
        for inner in stmt.body:
            yield from _unconditional(inner)


def _is_divisor(expr: Expr, uniform: Collection[str]) -> bool:
    return all(isinstance(n, Number | Name | Binary | Unary | Cast) for n in subtrees(expr)) and names_in(
        expr
    ) <= set(uniform)


def limits_of(conditions: Sequence[Expr], name: str) -> Iterator[Polynomial]:
    """What a whole number is below, as far as conditions that are joined by ``&&`` say it plainly."""
    for condition in conditions:
        if not isinstance(condition, Binary) or condition.op not in ("<", "<=", ">", ">="):
            continue
        left, right = polynomial(condition.left, {name}), polynomial(condition.right, {name})
        if left is None or right is None:
            continue
        above = right - left if condition.op in ("<", "<=") else left - right
        if above.get((name,)) != -1 or any(name in m for m in above if m != (name,)):
            continue
        limit = above + variable(name)
        yield limit + constant(1) if condition.op in ("<=", ">=") else limit


def loses_sign(function: Function, condition: Expr) -> bool:
    """Whether a comparison may be one of numbers without a sign, for which what is below zero is very large."""
    types = types_of(function)

    def signless(expr: Expr) -> bool:
        match expr:
            case Name(id=name):
                kind = plain_type(types.get(name, ""))
                # A coordinate has no sign in either language.
                return is_unsigned(kind) or kind in (*_OPENCL_WHOLE, "auto")
            case Number(text=text):
                return text[-1] in "uU" or text.lower().endswith(("ul", "ull"))
            case Cast(type=kind) | Field(type=kind):
                return is_unsigned(kind) or plain_type(kind) in _OPENCL_WHOLE
            case Binary(left=left, right=right):
                return signless(left) or signless(right)
            case Unary(operand=operand):
                return signless(operand)
            case Call(function=name, arguments=arguments):
                return name.startswith("get_") or any(map(signless, arguments))
        return False

    return signless(condition)


def may_be_negative(limit: Polynomial) -> bool:
    """Whether a limit is below zero, or cannot be reckoned, at some of the sizes that there may be."""
    try:
        below = parse(_limit_text(limit))
        samples = islice(_samples(sorted(below.names), {}), _MOST_SAMPLES)
        return any(below.integer(values) < 0 for values in samples)
    except SpecError:
        return True


def reaches(
    function: Function, launch: Launch, axis: int, limit: Polynomial, fixed: Mapping[str, Sequence[int]]
) -> bool:
    """Whether a launch has an item for each number below a limit, at all of many sizes.

    Where the launch is written in other names than the kernel, nothing can be said and the answer is yes.

    Args:
        function: the kernel.
        launch: to look at.
        axis: along which.
        limit: of the items that work.
        fixed: values to try for tunables of which the sizes do not tell.
    """
    params = {p.name for p in function.params}
    try:
        below = parse(_limit_text(limit))
    except SpecError:
        return False
    asked = below.names
    used = {name for e in (*launch.grid, *launch.block) for name in e.names}
    if not asked <= used and any(name not in params | set(fixed) and not name.isupper() for name in used):
        return True
    names = sorted(asked | used)
    tried = 0
    for number, values in enumerate(_samples(names, fixed)):
        if number >= _MOST_SAMPLES:
            break
        try:
            shape = geometry(launch, {}, values)
            wanted = below.integer(values)
        except SpecError:
            continue
        tried += 1
        if wanted > shape.grid[axis] * shape.block[axis]:
            return False
    return tried > 0


def _samples(names: Sequence[str], fixed: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    choices = [tuple(fixed.get(name, _SAMPLES)) for name in names]
    if len(names) <= 2:
        yield from (dict(zip(names, values, strict=True)) for values in product(*choices))
        return
    # Strides that differ, so that no two names go together all the time.
    for number in range(_MOST_SAMPLES):
        yield {
            name: choice[(number * (2 * at + 1) + number // (at + 3)) % len(choice)]
            for at, (name, choice) in enumerate(zip(names, choices, strict=True))
        }


def _limit_text(limit: Polynomial) -> str:
    """A limit in the language of launches, in which a division of whole numbers is written with two strokes."""
    terms = [" * ".join((str(c), *(f"({name.replace('/', '//')})" for name in m))) for m, c in limit.items()]
    return " + ".join(terms) or "0"


def reads_memory(stmt: Stmt) -> bool:
    """Whether a statement touches elements or follows pointers."""
    return any(isinstance(n, Index) or (isinstance(n, Unary) and n.op in ("*", "&")) for n in subtrees(stmt))


def assigned(body: Sequence[Stmt]) -> set[str]:
    """Names of variables and arrays that statements assign to."""
    targets = (n.target for n in subtrees(tuple(body)) if isinstance(n, Assign))
    return {b.id for b in map(root_of, targets) if isinstance(b, Name)}


def differing(body: Sequence[Stmt], seeds: set[str]) -> set[str]:
    """Names whose values may differ where those of the seeds do."""
    found = set(seeds)

    def visit(stmts: Sequence[Stmt], under: bool) -> None:
        for stmt in stmts:
            if isinstance(stmt, Decl):
                if under or (stmt.init is not None and not found.isdisjoint(names_in(stmt.init))):
                    found.add(stmt.name)
            elif isinstance(stmt, For | If | Block):
                moves = under or not found.isdisjoint(names_in(tuple(operands(stmt))))
                if moves and isinstance(stmt, For):
                    found.add(stmt.var)
                for part in inner_bodies(stmt):
                    visit(part, moves)
            elif under or not found.isdisjoint(names_in(stmt)):
                found.update(assigned([stmt]))

    before = -1
    while len(found) > before:
        before = len(found)
        visit(body, False)
    return found
