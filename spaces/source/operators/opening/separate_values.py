"""A local whose values have nothing to do with one another, as several locals with a value each.

Much C declares everything at the top of a function. A counter is used again and again, at times as a plain number in
between, so what comes after a loop seems to need how far it counted; and what one round of a loop computes seems to be
for the next. May separate only what no later use needs.

Source: renaming of live ranges, Muchnick, "Advanced Compiler Design and Implementation", 1997, 16.3.3 (webs).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tuner.spaces.source.changes import exposed_names
from tuner.spaces.source.kinds import Refused, hidden, is_integer, is_number, is_pure
from tuner.spaces.source.lexical import unused, words
from tuner.spaces.source.operators.base import Args, Site, is_used_outside, opener
from tuner.spaces.source.operators.naming import names_known
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Decl,
    Expr,
    ExprStmt,
    For,
    Function,
    If,
    Name,
    OpaqueStmt,
    Stmt,
)
from tuner.spaces.source.walks import (
    inner_bodies,
    names_in,
    operands,
    statements,
    substitute,
    transform,
    with_bodies,
    written_names,
)

__all__ = ["OPERATORS", "plain_locals", "separated_in", "without_hidden_counters"]

_PLAIN = re.compile(r"[A-Za-z_]\w*(?: [A-Za-z_]\w*)*")
_LASTS = re.compile(
    r"\b(const|volatile|static|extern|register|thread_local|_Thread_local|__thread|auto"
    r"|(__)?(local|global|constant|private)|__(shared|device|constant|managed)__)\b"
)
_JUMPS = re.compile(r"\b(goto|case|default|setjmp)\b|^\s*\w+\s*:(?!:)", re.MULTILINE)
_LEAVES = re.compile(r"\s*(?:break|continue)\b")
_PRIVATE = re.compile(r"\bprivate\s*\([^()]*\)")

Body = tuple[Stmt, ...]


def separate_values(function: Function, _: Args) -> Function:
    """Gives each value of a local in a loop, and each loop that counts, a variable of its own where no later
    use needs it.
    """
    made = function
    for decl in _candidates(function):
        made = _separated(made, decl)
    if made is function:
        raise Refused("no local has values that could be apart")
    return made


def _sites(function: Function, _: bool) -> Iterator[Site]:
    if any(_separated(function, decl) is not function for decl in _candidates(function)):
        yield {}


def without_hidden_counters(function: Function) -> Function:
    """The function without locals that loops declare again, as an operator's copies of loops do.

    Args:
        function: after an edit.
    """
    again = {s.var for s in statements(function.body) if isinstance(s, For) and s.type}
    made = function
    for decl in plain_locals(function):
        if decl.name in again:
            made = _separated(made, decl)
    return made


def _candidates(function: Function) -> list[Decl]:
    """Plain locals that are more than counters."""
    return [d for d in plain_locals(function) if is_used_outside(function, d.name)]


def _separated(function: Function, decl: Decl) -> Function:
    """The function with the values of one local apart; itself where there are none."""
    separating = _Separating.of(function, decl)
    made = replace(function, body=separating.declared(function.body))
    if not separating.found:
        return function
    if any(s is decl for s in statements(made.body)) and hidden(made):
        separating = _Separating.of(function, decl, renames=True)
        made = replace(function, body=separating.declared(function.body))
    # Where its values are in no one another's way, they keep the local's name.
    same = replace(made, body=transform(made.body, lambda n: _with_one_name(n, separating.names, decl.name)))
    return made if any(s is decl for s in statements(made.body)) or hidden(same) else same


def separated_in(function: Function, decl: Decl, keys: Collection[str]) -> Function:
    """The function with the values apart that a local has in loops behind which none of them is needed.

    Args:
        function: that declares it.
        decl: its declaration, which stays.
        keys: of the loops; what is not in the local's scope means another variable.
    """
    separating = _Separating.of(function, decl, renames=True)
    made = replace(function, body=separating.in_loops(function.body, keys))
    return made if separating.found else function


def plain_locals(function: Function, *, private: bool = False) -> list[Decl]:
    """Plain locals, each the only one of its name, that are known by nothing but that.

    ``private``: or by a directive of OpenMP that gives each thread one of its own.
    """
    within = list(statements(function.body))
    if any(isinstance(s, OpaqueStmt) and _JUMPS.search(s.text) for s in within):
        return []
    declared = [s for s in within if isinstance(s, Decl)]
    known = Counter(d.name for d in (*declared, *function.outer))
    known += Counter(p.name for p in function.params)
    # What text names, a `return` too, has to find it where it stands.
    texts = [s.text for s in within if isinstance(s, OpaqueStmt)]
    pragmas = [text for s in within if isinstance(s, For) for text in s.pragmas]
    texts += [_PRIVATE.sub(" ", text) if private else text for text in pragmas]
    taken = exposed_names(function) | words(" ".join(texts))
    return [
        d
        for d in declared
        if known[d.name] == 1
        and d.name not in taken
        and not (d.dims or d.suffix)
        and _is_plain(d.type, function.language)
    ]


def _is_plain(kind: str, language: str) -> bool:
    """Whether a type is one of numbers, of pointers to them, or in C a name that may be one."""
    if kind.endswith("*"):
        kind, language = kind[:-1].rstrip().removeprefix("const "), "c++"
    # In C++ a first value and a later one may be different things for any other type than a number.
    plain = _LASTS.search(kind) is None and _PLAIN.fullmatch(kind) is not None
    return plain and (language in ("c", "opencl") or is_number(kind))


def _with_one_name(node: Any, names: set[str], name: str) -> Any:
    match node:
        case Name(id=old) if old in names:
            return Name(name)
        case Decl(name=old) if old in names:
            return replace(node, name=name)
        case For(var=old) if old in names:
            return replace(node, var=name)
    return node


@dataclass(slots=True)
class _Separating:
    """Separates the values of one local.

    Attributes:
        decl: its declaration.
        counter: whether it counts loops; other locals are only separated inside of loops.
        taken: names that are no new one.
        asked: whether something behind the region asks for it.
        renames: whether loops that count by themselves have a counter of another name: the local itself stays.
        found: whether any values could be apart.
        names: the new ones.
    """

    decl: Decl
    counter: bool
    taken: set[str]
    asked: bool
    renames: bool = False
    found: bool = False
    names: set[str] = field(default_factory=set)
    _name: str = field(init=False)
    _counter: str = field(init=False)

    @classmethod
    def of(cls, function: Function, decl: Decl, *, renames: bool = False) -> _Separating:
        """For a local of a function."""
        counter = any(isinstance(s, For) and s.var == decl.name for s in statements(function.body))
        taken, asked = names_known(function) | words(function.source), decl.name in function.read_after
        return cls(decl, counter, taken, asked, renames=renames)

    def __post_init__(self) -> None:
        self._name = self.decl.name
        self._counter = self._fresh() if self.renames and self.counter else self._name

    def declared(self, body: Body) -> Body:
        """Statements that have the declaration in them or below."""
        for number, stmt in enumerate(body):
            if stmt is self.decl:
                rest = self._apart(body[number + 1 :], live=self.asked, leaves=None)
                first = self.decl.init
                used = self.asked or not (first is None or is_pure(first)) or self._uses(rest)
                self.found |= not used
                return (*body[:number], *((stmt,) if used else ()), *rest)
        return tuple(self._below(stmt, self.declared) for stmt in body)

    def in_loops(self, body: Body, keys: Collection[str], known: bool = False) -> Body:
        """Statements with some loops, behind the declaration, in which values are apart that nothing else needs."""
        made: list[Stmt] = []
        for stmt in body:
            known |= stmt is self.decl
            if known and isinstance(stmt, For) and stmt.key in keys:
                made += self._apart((stmt,), live=False, leaves=None)
            else:
                made.append(self._below(stmt, partial(self.in_loops, keys=keys, known=known)))
        return tuple(made)

    def _apart(self, body: Body, *, live: bool, leaves: bool | None) -> Body:
        """Statements in a row.

        Args:
            body: the statements.
            live: whether what follows them may use the value that the local has then.
            leaves: the same of where a ``break`` or ``continue`` among them leads; ``None`` outside of loops.
        """
        made: list[Stmt] = []
        for number, stmt in enumerate(body):
            rest = body[number + 1 :]
            value = self._given(stmt)
            if value is not None and (self.counter or leaves is not None):
                end = next((i for i, s in enumerate(rest) if self._given(s) or self._counts(s)), len(rest))
                own = rest[:end]
                later = self._is_live(rest[end:], live, leaves) or (leaves is True and _leave(own))
                if self._uses(own) and not later:
                    self.found = True
                    made += self._renamed(value, own)
                    return (*made, *self._apart(rest[end:], live=live, leaves=leaves))
            after = self._is_live(rest, live, leaves)
            if isinstance(stmt, For) and self._counts(stmt):
                if not after:
                    self.found = True
                    stmt = replace(
                        stmt, type=self.decl.type, var=self._counter, body=self._counting(stmt.body)
                    )
            elif isinstance(stmt, For) and not self._is_own(stmt):
                again = after or self._is_live(stmt.body, after, after)
                stmt = replace(stmt, body=self._apart(stmt.body, live=again, leaves=again))
            elif isinstance(stmt, If | Block):
                stmt = self._below(stmt, partial(self._apart, live=after, leaves=leaves))
            made.append(stmt)
        return tuple(made)

    def _counting(self, body: Body) -> Body:
        """The body of a loop that declares its counter."""
        return tuple(self._with_name(s, self._counter) for s in body) if self.renames else body

    def _fresh(self) -> str:
        name = unused(self._name, self.taken | {self._name})
        self.taken.add(name)
        return name

    def _renamed(self, value: Expr, own: Body) -> Body:
        """A value in a variable of its own, and the statements that use it."""
        name = self._fresh()
        changes = self._name in written_names(own) or any(
            isinstance(s, For) and self._counts(s) for s in statements(own)
        )
        self.names.add(name)
        kind = f"const {self.decl.type}" if is_integer(self.decl.type) and not changes else self.decl.type
        return (Decl(kind, name, init=value), *(self._with_name(stmt, name) for stmt in own))

    def _with_name(self, stmt: Stmt, name: str) -> Stmt:
        if isinstance(stmt, For) and self._is_own(stmt):
            return stmt
        if isinstance(stmt, For):
            start, limit, step = (
                substitute(e, self._name, Name(name)) for e in (stmt.start, stmt.limit, stmt.step)
            )
            var = name if stmt.var == self._name else stmt.var
            body = tuple(self._with_name(s, name) for s in stmt.body)
            return replace(stmt, var=var, start=start, limit=limit, step=step, body=body)
        if isinstance(stmt, If):
            stmt = replace(stmt, condition=substitute(stmt.condition, self._name, Name(name)))
        if isinstance(stmt, If | Block):
            return self._below(stmt, lambda part: tuple(self._with_name(s, name) for s in part))
        changed: Stmt = substitute(stmt, self._name, Name(name))
        return changed

    def _below(self, stmt: Stmt, change: Callable[[Body], Body]) -> Stmt:
        """A statement with others in it, these changed."""
        return stmt if isinstance(stmt, For) and self._is_own(stmt) else with_bodies(stmt, change)

    def _given(self, stmt: Stmt) -> Expr | None:
        """What a statement gives the local, where that is all it does."""
        match stmt:
            case ExprStmt(expr=Assign(op="=", target=Name(id=target), value=value)) if target == self._name:
                return value if self._name not in names_in(value) else None
        return None

    def _counts(self, stmt: Stmt) -> bool:
        """Whether it is a loop that gives the local its values."""
        return (
            isinstance(stmt, For)
            and stmt.var == self._name
            and not stmt.type
            and self._name not in names_in((stmt.start, stmt.limit, stmt.step))
        )

    def _is_own(self, stmt: For) -> bool:
        """Whether a loop declares another variable of that name."""
        return bool(stmt.type) and stmt.var == self._name

    def _uses(self, body: Sequence[Stmt]) -> bool:
        return any(self._uses_in(stmt) for stmt in body)

    def _uses_in(self, stmt: Stmt) -> bool:
        """Whether the name is the local's anywhere in a statement."""
        if isinstance(stmt, For) and stmt.var == self._name:
            return not stmt.type
        if isinstance(stmt, For | If | Block):
            asked = self._name in names_in(tuple(operands(stmt)))
            return asked or any(map(self._uses, inner_bodies(stmt)))
        return self._name in names_in(stmt) | written_names(stmt)

    def _is_live(self, body: Sequence[Stmt], after: bool, leaves: bool | None) -> bool:
        """Whether the value that the local has before statements may be used in them, or where they lead."""
        for number, stmt in enumerate(body):
            if isinstance(stmt, OpaqueStmt) and _LEAVES.match(stmt.text):
                return leaves is not False
            if not (self._uses((stmt,)) or _leave((stmt,))):
                continue
            if self._given(stmt) is not None or self._counts(stmt):
                return False
            rest = self._is_live(body[number + 1 :], after, leaves)
            if not isinstance(stmt, For | If | Block) or self._name in names_in(tuple(operands(stmt))):
                return True
            if isinstance(stmt, For):
                return stmt.var == self._name or rest or self._is_live(stmt.body, rest, rest)
            return any(self._is_live(part, rest, leaves) for part in inner_bodies(stmt))
        return after


def _leave(body: Sequence[Stmt]) -> bool:
    """Whether statements may lead elsewhere than to what follows them."""
    return any(isinstance(s, OpaqueStmt) and _LEAVES.match(s.text) for s in statements(tuple(body)))


OPERATORS = (
    opener(
        separate_values,
        _sites,
        "locals that are used again for other values, each value with a local of its own",
    ),
)
