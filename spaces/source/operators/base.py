"""What every operator needs: finding loops, putting statements in their place, names that are free.

An operator is a pure function from a function's tree and an edit's arguments to another tree. It raises
:class:`Refused` where it does not apply. May not draw random numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.spaces.source.dependence import Dependences, dependences
from tuner.spaces.source.kinds import (
    Refused,
    is_floating,
    is_integer,
    is_narrow,
    is_pure,
    is_unsigned,
    keeps_value,
    types_of,
)
from tuner.spaces.source.lexical import unused, words
from tuner.spaces.source.operators.other_names import require_steady_bounds
from tuner.spaces.source.syntax import (
    Block,
    Cast,
    Comment,
    Decl,
    Define,
    Expr,
    Field,
    For,
    Function,
    If,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import (
    bodies,
    names_in,
    offered,
    statements,
    subtrees,
    transform,
    with_bodies,
    written_names,
)
from tuner.spaces.source.widths import holds

__all__ = [
    "DEVICE",
    "HOST",
    "Args",
    "Operator",
    "Refused",
    "all_loops",
    "analyse",
    "argument",
    "argument_list",
    "body_of",
    "counter_type",
    "define",
    "find_loop",
    "fresh_key",
    "fresh_name",
    "is_used_outside",
    "keep_promises",
    "loops_of",
    "nest_below",
    "parameter",
    "perfect_nest",
    "rekeyed",
    "replace_statement",
    "require_known",
    "require_own_counter",
    "require_rectangular",
    "require_simple_loop",
    "sibling_after",
]

Args = Mapping[str, Any]
"""An edit's own part: plain JSON."""

HOST = ("c", "c++")
"""Languages of functions that are called."""

DEVICE = ("opencl", "cuda")
"""Languages of kernels that are launched."""

_FRACTION = re.compile(r"\.|^(?!0[xX]).*[eE]")
_PROMISE = re.compile(r"\b(omp|acc|ivdep|assume_safety|independent|novector_dependence)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of source transformation.

    Attributes:
        name: in edits.
        summary: what it does, for people.
        apply: function and arguments to the changed function; raises :class:`Refused`.
        sites: arguments worth trying on a function, without a promise that they apply; the flag says whether
            floating-point sums may be added up in another order.
        checked: whether a dependence analysis, or the kind of change itself, shows that results stay the same;
            else only the verification stands between a wrong candidate and the search.
        raw: whether it changes statements without any idea behind it, so that it is worth few tries.
        opens: whether it only makes way for other operators, so that it is proposed with them and never alone.
        languages: that it writes.
        openmp: it puts directives of OpenMP; for kernels that are built with it, and offered to no others.
        members: whether it knows members of structures, which one that goes by elements of arrays would take wrongly.
    """

    name: str
    summary: str
    apply: Callable[[Function, Args], Function]
    sites: Callable[[Function, bool], Iterable[dict[str, Any]]]
    checked: bool = True
    raw: bool = False
    opens: bool = False
    languages: tuple[str, ...] = ("c", "c++", "opencl", "cuda")
    openmp: bool = False
    members: bool = False


def argument(args: Args, name: str, kind: type = str) -> Any:
    """One argument of an edit."""
    value = args.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(f"the edit's {name!r} is {value!r}")
    return value


def argument_list(args: Args, name: str) -> list[str]:
    """A list of words."""
    value = args.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise Refused(f"the edit's {name!r} is {value!r}")
    return value


def parameter(
    function: Function, stem: str, values: Sequence[int], default: int, taken: Iterable[str] = ()
) -> dict[str, Any]:
    """A new tunable for an edit, with a name that is free."""
    known = _words_of_files(function).union((d.name for d in function.defines), taken)
    name = unused(re.sub(r"\W", "_", stem).upper(), known)
    return {"name": name, "values": list(values), "default": default}


def _words_of_files(function: Function) -> frozenset[str]:
    return words(function.source) | function.macros | function.words


def define(function: Function, args: Args, count: int) -> tuple[Function, list[Expr]]:
    """Adds the defaults of an edit's tunables; returns their names as expressions."""
    found = args.get("parameters")
    if not isinstance(found, list) or len(found) != count:
        raise Refused(f"the edit needs {count} parameters")
    taken = names_taken(function)
    names: list[Expr] = []
    defines = list(function.defines)
    for item in found:
        name = item["name"]
        if name in taken:
            raise Refused(f"the name {name} is taken")
        taken.add(name)
        names.append(Name(name))
        defines.append(Define(name, str(item["default"])))
    return replace(function, defines=tuple(defines)), names


def names_taken(function: Function) -> set[str]:
    """Identifiers of the file and of what was added."""
    own = names_in(function.body) | written_names(function.body) | {d.name for d in function.defines}
    return own.union(_words_of_files(function), *map(words, function.preamble))


def fresh_name(function: Function, stem: str, taken: Iterable[str] = ()) -> str:
    """An identifier that nothing in the file uses."""
    return unused(stem, names_taken(function) | set(taken))


def fresh_key(function: Function, key: str, taken: Iterable[str] = ()) -> str:
    """A loop key that the function does not have."""
    known = {s.key for s in statements(function.body) if isinstance(s, For)} | set(taken)
    stem = key.split("#")[0]
    name, number = stem, 1
    while name in known:
        number += 1
        name = f"{stem}#{number}"
    return name


def rekeyed(function: Function, body: tuple[Stmt, ...], taken: set[str]) -> tuple[Stmt, ...]:
    """A copy of statements whose loops have keys of their own; ``taken`` is added to."""

    def change(node: Any) -> Any:
        if not isinstance(node, For):
            return node
        key = fresh_key(function, node.key, taken)
        taken.add(key)
        return replace(node, key=key)

    made: tuple[Stmt, ...] = transform(body, change)
    return made


def all_loops(function: Function) -> list[For]:
    """All loops that may be changed, outer ones first."""
    return [s for s in offered(function.body) if isinstance(s, For)]


def loops_of(stmt: Stmt | Sequence[Stmt]) -> list[For]:
    """All loops in statements."""
    part = tuple(stmt) if isinstance(stmt, Sequence) else (stmt,)
    return [s for s in statements(part) if isinstance(s, For)]


def find_loop(function: Function, key: str) -> For:
    """A loop by its key."""
    for loop in all_loops(function):
        if loop.key == key:
            return loop
    raise Refused(f"there is no loop {key!r}")


def body_of(loop: For) -> tuple[Stmt, ...]:
    """A loop's statements without comments."""
    return tuple(s for s in loop.body if not isinstance(s, Comment))


def perfect_nest(loop: For) -> list[For]:
    """A loop and those that follow it as the only statement each."""
    found = [loop]
    while True:
        body = body_of(found[-1])
        if len(body) != 1 or not isinstance(body[0], For):
            return found
        found.append(body[0])


def nest_below(function: Function, keys: Sequence[str]) -> list[For]:
    """Loops by keys, which have to be nested in each other in this order, with nothing in between."""
    nest = perfect_nest(find_loop(function, keys[0]))[: len(keys)]
    if [f.key for f in nest] != list(keys):
        raise Refused(f"the loops {', '.join(keys)} are not nested directly in this order")
    return nest


def sibling_after(function: Function, stmt: Stmt) -> Stmt | None:
    """The statement that follows one in its body."""
    for body in bodies(function.body):
        for place, found in enumerate(body):
            if found is stmt:
                return next((s for s in body[place + 1 :] if not isinstance(s, Comment)), None)
    return None


def replace_statement(
    function: Function, old: Stmt, new: Sequence[Stmt], *, also: Sequence[Stmt] = ()
) -> Function:
    """The function with one statement (by identity) replaced by others; those in ``also`` are taken out."""
    put: dict[int, Sequence[Stmt]] = {**{id(s): () for s in also}, id(old): new}

    def visit(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(made for stmt in body for made in visited(stmt))

    def visited(stmt: Stmt) -> Sequence[Stmt]:
        return put[id(stmt)] if id(stmt) in put else (with_bodies(stmt, visit),)

    return replace(function, body=visit(function.body))


def analyse(function: Function, part: Sequence[Stmt], args: Args) -> Dependences:
    """The dependences of a part, with the freedom that the edit was given."""
    return dependences(function, part, reassociate=args.get("reassociate") is True)


def require_known(part: Any, what: str) -> None:
    """Refuses what holds opaque text."""
    if any(isinstance(n, Opaque | OpaqueStmt) for n in subtrees(part)):
        raise Refused(f"{what} holds something that is only known as text")


def require_simple_loop(function: Function, loop: For) -> None:
    """Refuses a loop that does not count upwards by one between bounds that stay the same."""
    require_known(loop, f"loop {loop.key}")
    if not loop.upward or not loop.by_one:
        raise Refused(f"loop {loop.key} does not count upwards by one")
    if not (is_pure(loop.start) and is_pure(loop.limit)):
        raise Refused(f"a bound of loop {loop.key} is no plain expression")
    changed = written_names(loop.body) | {loop.var}
    bounds = (loop.start, loop.limit)
    if not changed.isdisjoint(names_in(bounds)):
        raise Refused(f"a bound of loop {loop.key} changes inside it")
    require_steady_bounds(function, loop)
    require_own_counter(function, loop)
    _require_plain_bounds(function, loop)
    kept = [s.name for s in statements(loop.body) if isinstance(s, Decl) and keeps_value(s)]
    if kept:
        raise Refused(f"{kept[0]} keeps its value from one iteration of loop {loop.key} to the next")


def require_own_counter(function: Function, loop: For) -> None:
    """Refuses a loop that does not count in integers, or whose counter is looked at elsewhere or changes by the way."""
    led_to = any(n == Unary("&", Name(loop.var)) for n in subtrees(loop.body))
    if led_to or loop.var in written_names(loop.body):
        raise Refused(f"{loop.var} may change in loop {loop.key}")
    kind = counter_type(function, loop)
    if not is_integer(kind):
        raise Refused(f"loop {loop.key} does not count in integers")
    if is_narrow(kind):
        raise Refused(f"loop {loop.key} counts in a type that wraps around")
    if not loop.type and is_used_outside(function, loop.var):
        raise Refused(f"{loop.var} is used outside its loops")


def _require_plain_bounds(function: Function, loop: For) -> None:
    """Refuses bounds that are no whole numbers, or that a counter loses its sign beside."""
    types = types_of(function)
    parts = [n for n in subtrees((loop.start, loop.limit)) if isinstance(n, Name | Number | Cast | Field)]
    kinds = [
        types.get(n.id, "") if isinstance(n, Name) else n.type for n in parts if not isinstance(n, Number)
    ]
    numbers = [n.text for n in parts if isinstance(n, Number)]
    if any(is_floating(k) for k in kinds) or any(_FRACTION.search(n) for n in numbers):
        raise Refused(f"a bound of loop {loop.key} is no whole number")
    signless = any(is_unsigned(k) for k in kinds) or any(n[-1] in "uU" for n in numbers)
    if signless and loop.start != Number("0") and not is_unsigned(counter_type(function, loop)):
        raise Refused(f"the counter of loop {loop.key} loses its sign beside a bound")
    if not holds(counter_type(function, loop), loop.start, types):
        raise Refused(f"the counter of loop {loop.key} may not hold where the loop begins")


def keep_promises(before: Function, made: Function, what: str) -> Function:
    """What was made, where each new loop that was promised to have independent iterations still has them.

    The compiler was promised that for the iterations as they were: of others it is shown anew.

    Args:
        before: the function as it was.
        made: after the edit.
        what: was done, for the refusal.

    Raises:
        Refused: a promise may no longer hold.
    """
    old = {id(loop) for loop in all_loops(before)}
    for loop in all_loops(made):
        if id(loop) in old or not any(_PROMISE.search(p) for p in loop.pragmas):
            continue
        try:
            reason = analyse(made, [loop], {}).carried_by(loop.key)
        except Refused as refusal:
            reason = str(refusal)
        if reason:
            raise Refused(
                f"loop {loop.key} is promised to be free of dependences, {what} may not be: {reason}"
            )
    return made


def is_used_outside(function: Function, var: str) -> bool:
    """Whether a function uses a variable outside of loops that count it."""

    def uses(stmt: Stmt) -> bool:
        match stmt:
            case For():
                if stmt.var == var:
                    return var in names_in(stmt.start)
                return var in names_in((stmt.start, stmt.limit, stmt.step)) or any(map(uses, stmt.body))
            case If():
                return var in names_in(stmt.condition) or any(map(uses, (*stmt.then, *stmt.other)))
            case Block():
                return any(map(uses, stmt.body))
            case OpaqueStmt(text=text):
                return re.search(rf"\b{var}\b", text) is not None
        return var in names_in(stmt)

    return any(map(uses, function.body))


def counter_type(function: Function, loop: For) -> str:
    """The type of a loop's variable."""
    return loop.type or types_of(function).get(loop.var, "")


def require_rectangular(loops: Sequence[For]) -> None:
    """Refuses loops whose bounds depend on one another."""
    names: set[str] = set()
    for loop in loops:
        if not names.isdisjoint(names_in((loop.start, loop.limit, loop.step))):
            raise Refused(f"the bounds of loop {loop.key} depend on the loops around it")
        names.add(loop.var)
