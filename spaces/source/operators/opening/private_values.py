"""What a directive of OpenMP makes private to each thread, as a local of the iteration that gives it its value.

C of old declares everything at the top of a function and lists it behind ``private``. To operators, iterations that
write to such a variable seem to wait for one another. May not move statements.

Source: the OpenMP specification 5.2, section 5.4.3 (private clause): a private variable has no value at first, and
behind the construct the one of outside is as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import Refused, is_number, lasts
from tuner.spaces.source.lexical import words
from tuner.spaces.source.operators.naming import fresh_name
from tuner.spaces.source.operators.opening.hidden_names import with_other_name
from tuner.spaces.source.operators.operator import Args, attempt, opener, where_it_applies
from tuner.spaces.source.operators.teams.teams import private_names, team_loops
from tuner.spaces.source.syntax import Assign, Block, Decl, ExprStmt, For, Function, If, Name, Stmt
from tuner.spaces.source.walks import (
    inner_bodies,
    names_in,
    opaque_words,
    statements,
    transform,
    with_bodies,
    written_names,
)

__all__ = ["OPERATORS"]

_COLLAPSED = frozenset({"collapse", "ordered", "tile"})
"""Between loops that are dealt out together nothing may stand."""
_KEPT = frozenset({"const", "volatile", "extern", "register", "auto"})
Body = tuple[Stmt, ...]


def declare_privates(function: Function, _: Args) -> Function:
    """Declares what each thread has its own of where an iteration of a shared loop gives it a value."""
    if not function.openmp:
        raise Refused("the kernel is not built with OpenMP")
    if "goto" in opaque_words(function.body):
        raise Refused("something may go past what a declaration gives a value")
    made = function
    loops = [loop for loop in team_loops(function) if _COLLAPSED.isdisjoint(words(" ".join(loop.pragmas)))]
    for decl in _plain(function):
        for loop in loops:
            if decl.name in private_names(loop) - {loop.var} and _is_in_scope(function.body, decl, loop.key):
                made = attempt(_declared, made, loop.key, decl) or made
    if made is function:
        raise Refused("no loop has private variables that an iteration gives a value first")
    return made


def _plain(function: Function) -> Iterator[Decl]:
    """Locals that are numbers, each the only thing of its name, and known by nothing else."""
    found = list(statements(function.body))
    names = [s.name for s in found if isinstance(s, Decl)] + [
        s.var for s in found if isinstance(s, For) and s.type
    ]
    names += [each.name for each in function.params]
    names += [each.name for each in (*function.outer, *function.variables)]
    known = Counter(names)
    exposed = exposed_names(function)
    for decl in found:
        if (
            not isinstance(decl, Decl)
            or decl.dims
            or decl.suffix
            or decl.name in exposed
            or known[decl.name] > 1
        ):
            continue
        if is_number(decl.type) and not lasts(decl) and _KEPT.isdisjoint(decl.type.split()):
            yield decl


def _is_in_scope(body: Body, decl: Decl, key: str) -> bool:
    """Whether a loop stands behind a declaration, in the statements that this is one of."""
    for number, stmt in enumerate(body):
        if stmt is decl:
            return any(isinstance(s, For) and s.key == key for s in statements(body[number + 1 :]))
        if any(_is_in_scope(part, decl, key) for part in inner_bodies(stmt)):
            return True
    return False


def _declared(function: Function, key: str, decl: Decl) -> Function:
    """The function in which one shared loop has a local of its own in the place of a variable of outside."""
    name = fresh_name(function, decl.name)

    def change(node: object) -> object:
        if isinstance(node, For) and node.key == key:
            return replace(node, body=_inside(node.body, decl, name))
        return node

    return replace(function, body=transform(function.body, change))


def _inside(body: Body, decl: Decl, name: str) -> Body:
    """Statements with the local declared in the innermost of them that holds all its uses."""
    using = [
        n
        for n, stmt in enumerate(body)
        if decl.name in names_in(stmt) | written_names((stmt,)) | opaque_words((stmt,))
    ]
    if not using:
        raise Refused(f"{decl.name} is not used in the loop")
    first = body[using[0]]
    if len(using) == 1 and not _gives(first, decl.name):
        return (*body[: using[0]], _within(first, decl, name), *body[using[0] + 1 :])
    if not _gives(first, decl.name):
        raise Refused(f"{decl.name} may be read before it has a value")
    rest = with_other_name(body[using[0] :], decl.name, name)
    match rest[0]:
        case ExprStmt(expr=Assign(value=value)):
            rest = (Decl(decl.type, name, (), value), *rest[1:])
        case _:
            rest = (Decl(decl.type, name), *rest)
    return (*body[: using[0]], *rest)


def _gives(stmt: Stmt, name: str) -> bool:
    """Whether a statement gives a variable a value before all else."""
    match stmt:
        case ExprStmt(expr=Assign(op="=", target=Name(id=target), value=value)):
            return target == name and name not in names_in(value)
        case For(type="", var=var, start=start):
            return var == name and name not in names_in(start)
    return False


def _within(stmt: Stmt, decl: Decl, name: str) -> Stmt:
    """A statement with the local declared in the one of its parts that has all its uses."""
    head = (
        (stmt.start, stmt.limit, stmt.step)
        if isinstance(stmt, For)
        else (stmt.condition,)
        if isinstance(stmt, If)
        else ()
    )
    counted = isinstance(stmt, For) and stmt.var == decl.name
    named = isinstance(stmt, For) and any(decl.name in pragma for pragma in stmt.pragmas)
    parts = [p for p in inner_bodies(stmt) if decl.name in names_in(p) | written_names(p) | opaque_words(p)]
    if (
        not isinstance(stmt, For | If | Block)
        or counted
        or named
        or decl.name in names_in(head)
        or len(parts) != 1
    ):
        raise Refused(f"{decl.name} may be read before it has a value")
    return with_bodies(stmt, lambda body: _inside(body, decl, name) if body == parts[0] else body)


OPERATORS = (
    opener(
        declare_privates,
        where_it_applies(declare_privates),
        "private variables of OpenMP as locals of an iteration",
        languages=("c", "c++"),
    ),
)
