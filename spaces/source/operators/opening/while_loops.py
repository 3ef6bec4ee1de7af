"""Loops that count in their tests, or whose counters are used after them, as loops that count in their heads.

``while (n--) *p++ = 0;`` becomes ``for (int n_count = 0; n_count < n; n_count++) *p++ = 0;``, and ``n`` gets the value
that it ends with behind the loop where that is used. A signed counter that begins below zero and is tested against
zero alone would overflow: there is no such loop. A pointer that counts, ``for (; p < end; p++)``, goes on stepping in
the body. May not change the order of iterations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import (
    Refused,
    is_integer,
    is_narrow,
    is_pure,
    is_unsigned,
    plain_type,
    types_of,
)
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    fresh_name,
    is_used_outside,
    loop_of,
    loops_where,
    opener,
    place_in_body,
    replace_statement,
    where_it_applies,
)
from tuner.spaces.source.operators.bounds import add, maximum, minimum, number, subtract
from tuner.spaces.source.operators.opening.separate_values import plain_locals
from tuner.spaces.source.operators.opening.while_heads import CountingLoop, WalkingLoop, read_loop
from tuner.spaces.source.operators.simple_loops import require_simple_loop
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import (
    assigned_names,
    declared_names,
    inner_bodies,
    mentions,
    names_in,
    offered,
    opaque_words,
    statements,
    substitute,
    subtrees,
)

__all__ = ["OPERATORS"]

_LOOP = re.compile(r"(while|do|for)\b")
_LEAVES = frozenset({"break", "continue", "goto", "return"})
_SIGNLESS = re.compile(r"\b(?:unsigned|u(?:char|short)|uint\d+_t)\b")
_ZERO, _ONE = Number("0"), Number("1")
Body = tuple[Stmt, ...]


def while_to_for(function: Function, _: Args) -> Function:
    """Makes counting loops of ``while``, ``do`` and ``for`` loops that count by one in their tests."""
    made, reason = _all_counted(function, function.body)
    if made is function:
        raise Refused(reason or "no loop counts in its test")
    return made


def _all_counted(function: Function, part: Body) -> tuple[Function, str]:
    """A function in which such loops among statements count in their heads, and why one does not."""
    made, reason = function, ""
    for stmt in offered(part):
        if isinstance(stmt, OpaqueStmt) and _LOOP.match(stmt.text):
            try:
                made = replace_statement(made, stmt, _counted(made, stmt))
            except Refused as refusal:
                reason = str(refusal)
    return made, reason


def own_counter(function: Function, args: Args) -> Function:
    """Gives a loop whose counter is used after it a counter of its own, and the variable the value that it ends with.

    Takes ``loop``.
    """
    loop = loop_of(function, args)
    if loop.type or loop.pragmas:
        raise Refused(f"loop {loop.key} has a counter of its own")
    if "*" in types_of(function).get(loop.var, ""):
        step = ExprStmt(Assign("+=", Name(loop.var), loop.step))
        if not loop.upward or loop.op not in ("<", "!=") or not isinstance(loop.step, Number):
            raise Refused(f"loop {loop.key} does not count upwards by a number")
        begin = ExprStmt(Assign("=", Name(loop.var), loop.start))
        walk = WalkingLoop(
            var=loop.var, limit=loop.limit, first=False, before=(begin,), body=(*loop.body, step)
        )
        apart, _ = _read_apart(function, loop, walk)
        return replace_statement(function, loop, _walked(apart, loop, walk, loop.key))
    if not is_used_outside(function, loop.var):
        raise Refused(f"loop {loop.key} has a counter of its own")
    kind = _counter_kind(function, loop.var)
    if loop.op not in ("<", "<=", ">", ">=") or not loop.by_one or is_unsigned(kind) or is_narrow(kind):
        raise Refused(f"loop {loop.key} does not count by one in a signed type")
    own = fresh_name(function, loop.var)
    made = replace(loop, type=kind, var=own, body=substitute(loop.body, loop.var, Name(own)))
    require_simple_loop(function, replace(loop, type=kind, op="<"))
    _require_no_leave(loop.body, loop.var)
    for bound in (loop.start, loop.limit):
        # They are looked at behind the loop.
        counted = CountingLoop(
            var=loop.var,
            down=False,
            test="<",
            limit=bound,
            first=False,
            changes="",
            before=(),
            body=loop.body,
        )
        _require_steady(function, counted)
    if loop.upward:
        last = maximum(loop.start, add(loop.limit, _ONE) if loop.op == "<=" else loop.limit)
    else:
        last = minimum(loop.start, subtract(loop.limit, _ONE) if loop.op == ">=" else loop.limit)
    set_last = ExprStmt(Assign("=", Name(loop.var), last))
    return replace_statement(function, loop, [made, set_last])


def _counted(function: Function, stmt: OpaqueStmt) -> list[Stmt]:
    around, at = place_in_body(function, stmt)
    before = next((s for s in reversed(around[:at]) if not isinstance(s, Comment)), None)
    if isinstance(before, OpaqueStmt) and before.text.startswith(("#", "_Pragma")):
        raise Refused("a directive is for a loop that counts in its test")
    loop = read_loop(function, stmt.text)
    if loop is None:
        raise Refused("a loop does not count by one in its test")
    apart, body = _read_apart(function, stmt, loop)
    if isinstance(loop, WalkingLoop):
        return _walked(apart, stmt, replace(loop, body=body), loop.var)
    loop = replace(loop, body=body)
    kind = _counter_kind(apart, loop.var)
    _require_no_leave(loop.body, loop.var)
    _require_steady(apart, loop)
    _require_sign(loop, kind)
    count = fresh_name(apart, f"{loop.var}_count")
    rounds: Expr = loop.rounds()
    made: list[Stmt] = []
    if loop.first:
        # However the first test ends.
        name = fresh_name(apart, f"{loop.var}_rounds")
        made.append(Decl(f"const {'int' if is_narrow(kind) else kind}", name, (), maximum(rounds, _ONE)))
        rounds = Name(name)
    first = subtract(Name(loop.var), Number(str(loop.seen))) if loop.seen else Name(loop.var)
    value = subtract(first, Name(count)) if loop.down else add(first, Name(count))
    body = substitute(loop.body, loop.var, value)
    own = "int" if is_narrow(kind) else kind
    (again,) = Keys(function).again((For(loop.var, own, count, _ZERO, "<", rounds, _ONE, body),))
    made.append(again)
    if not any(isinstance(s, Decl) for s in loop.before) and _is_used_after(function, stmt, loop.var):
        ended = rounds if loop.first else maximum(rounds, _ZERO)
        last = loop.last(ended)
        if loop.changes == "after" and not loop.first and (is_unsigned(kind) or loop.test == "!="):
            last = number(-1)
        made.append(ExprStmt(Assign("=", Name(loop.var), last)))
    return _scoped(loop.before, made)


def _read_apart(function: Function, stmt: Stmt, loop: CountingLoop | WalkingLoop) -> tuple[Function, Body]:
    """The function with a loop's body where it can be looked into, and that body, in which such loops count as well.

    What text names may be anything, and here the text is the loop itself.
    """
    mark = fresh_name(function, "round")
    around = For("", "int", mark, _ZERO, "<", _ONE, _ONE, loop.body)
    apart = replace_statement(function, stmt, (*loop.before, around))
    apart, _ = _all_counted(apart, around.body)
    (found,) = (s for s in statements(apart.body) if isinstance(s, For) and s.var == mark)
    return apart, found.body


def _walked(apart: Function, stmt: Stmt, loop: WalkingLoop, key: str) -> list[Stmt]:
    """A loop that a pointer counts; it steps on at the end of the body."""
    name, *within = loop.var, *loop.before
    *body, step = loop.body
    kind = types_of(apart).get(name, "")
    if kind.count("*") != 1 or plain_type(kind) == "void" or not _is_own(apart, name):
        raise Refused(f"{name} is no plain pointer of the function")
    _require_no_leave(tuple(body), name)
    _require_steady(apart, loop)
    assert isinstance(step, ExprStmt)
    assert isinstance(step.expr, Assign)
    by = step.expr.value
    begin = _begin(within[0]) if len(within) == 1 else None
    match loop.limit:
        case Binary(op="+", left=left, right=right) if left == begin:
            rounds: Expr = right
        case _:
            rounds = Binary("-", loop.limit, Name(name))
    if by != _ONE:
        rounds = Binary("/", add(rounds, subtract(by, _ONE)), by)
    if loop.first:
        rounds = maximum(rounds, _ONE)
    length, count = (fresh_name(apart, f"{name}_{what}") for what in ("rounds", "count"))
    made = For(key, "long", count, _ZERO, "<", Name(length), _ONE, loop.body)
    (again,) = (made,) if isinstance(stmt, For) else Keys(apart).again((made,))
    return _scoped(loop.before, [Decl("const long", length, (), rounds), again])


def _begin(stmt: Stmt) -> Expr | None:
    """What a loop's head gives its pointer to begin with."""
    match stmt:
        case Decl(init=value) | ExprStmt(expr=Assign(op="=", value=value)):
            return value
    return None


def _scoped(before: Body, made: list[Stmt]) -> list[Stmt]:
    """What a head declares is the loop's alone."""
    return [Block((*before, *made))] if any(isinstance(s, Decl) for s in before) else [*before, *made]


def _counter_kind(function: Function, name: str) -> str:
    """The type of a counter that nothing else leads to."""
    kind = types_of(function).get(name, "")
    if not _is_own(function, name):
        raise Refused(f"{name} is no plain variable of the function")
    if not is_integer(kind):
        raise Refused(f"{name} does not count in whole numbers")
    return " ".join(w for w in kind.split() if w not in ("const", "register"))


def _is_own(function: Function, name: str) -> bool:
    """Whether a name is a parameter's or a local's that is known by nothing else."""
    own = {p.name for p in function.params} | {d.name for d in plain_locals(function)}
    return name in own and name not in exposed_names(function)


def _require_no_leave(body: Body, name: str) -> None:
    if name in assigned_names(body) | declared_names(body, all_counters=True):
        raise Refused(f"{name} changes in its loop")
    opaque = opaque_words(body)
    if name in opaque:
        raise Refused(f"{name} stands in what operators do not know")
    if opaque & _LEAVES:
        raise Refused(f"the loop that counts in {name} is left from inside")


def _require_steady(function: Function, loop: CountingLoop | WalkingLoop) -> None:
    """Refuses bounds that the loop may change, or that are compared in another type than the counter's."""
    parts = list(subtrees(loop.limit))
    changed = assigned_names(loop.body) | declared_names(loop.body, all_counters=True) | {loop.var}
    names = {n.id for n in parts if isinstance(n, Name)}
    plain = all(isinstance(n, Name | Number | Binary | str) for n in parts) and is_pure(loop.limit)
    if (
        not plain
        or not names.isdisjoint(changed)
        or not all(n.isupper() or _is_own(function, n) for n in names)
    ):
        raise Refused(f"the bound of the loop that counts in {loop.var} may change inside it")
    types = types_of(function)
    kinds = {n: types.get(n, "int" if n.isupper() else "") for n in names}
    pointers = [kind for kind in kinds.values() if "*" in kind]
    walks = isinstance(loop, WalkingLoop)
    same = all(plain_type(kind) == plain_type(types.get(loop.var, "")) for kind in pointers)
    numbers = [kind for kind in kinds.values() if "*" not in kind]
    whole = all(is_integer(kind) and (walks or not is_unsigned(kind)) for kind in numbers)
    texts = [n.text for n in parts if isinstance(n, Number)]
    if len(pointers) != walks or not same or not whole or not all(t.isdigit() for t in texts):
        raise Refused(f"the bound of the loop that counts in {loop.var} is of another type")


def _require_sign(loop: CountingLoop, kind: str) -> None:
    """Refuses what wraps around: unsigned counters that are decremented at zero before they are compared, and short
    ones that are larger than zero at no time or whose limit may be too large for them.
    """
    if is_narrow(kind) and not (loop.down and (loop.test != "!=" or _SIGNLESS.search(kind))):
        raise Refused(f"{loop.var} may wrap around")
    plain = not loop.changes and loop.test != ">="
    after = loop.changes == "after" and not loop.first
    if is_unsigned(kind) and not (loop.down and not loop.first and (plain or after)):
        raise Refused(f"{loop.var} has no sign")


def _is_used_after(function: Function, stmt: Stmt, name: str) -> bool:
    """Whether a variable's value behind a statement may be used, in it again too."""

    def mentioned(part: Sequence[Stmt]) -> bool:
        return any(mentions(s, name) for s in part)

    def visit(body: Body) -> bool | None:
        """Whether it is used behind the statement; ``None`` where that is not in here."""
        for place, each in enumerate(body):
            if each is stmt:
                return mentioned(body[place + 1 :])
            inside = [visit(part) for part in inner_bodies(each)]
            found = next((f for f in inside if f is not None), None)
            if found is None:
                continue
            # In a loop what comes first is next.
            return (
                found or mentioned(body[place + 1 :]) or (isinstance(each, For) and _reads_first(each, name))
            )
        return None

    return (
        name in function.read_after
        or visit(function.body) is not False
        or any(
            isinstance(s, OpaqueStmt) and name in words(s.text)
            for s in statements(function.body)
            if s is not stmt
        )
    )


def _reads_first(loop: For, name: str) -> bool:
    """Whether a round of a loop, or its head, may use the value that the one before left."""
    if loop.var == name or name in names_in((loop.limit, loop.step)):
        return True
    for stmt in loop.body:
        match stmt:
            case ExprStmt(expr=Assign(op="=", target=Name(id=target), value=value)) if target == name:
                return name in names_in(value)
            case Decl(name=target) if target == name:
                return False
        if mentions(stmt, name):
            return True
    return False


OPERATORS = (
    opener(
        while_to_for,
        where_it_applies(while_to_for),
        "loops that count by one in their tests, as loops that count in their heads",
    ),
    opener(
        own_counter,
        loops_where(lambda _, loop: not loop.type),
        "a loop whose counter is used after it counts in a variable of its own",
    ),
)
