"""What a part of a function reads and writes, statement by statement, with the loops around each.

Refuses whatever it cannot see through: calls that are not pure mathematics, pointers, jumps, opaque text. May not
reason about dependences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tuner.spaces.source.arithmetic import is_whole
from tuner.spaces.source.kinds import (
    Refused,
    is_floating,
    is_integer,
    is_narrow,
    is_pure,
    keeps_value,
    types_of,
)
from tuner.spaces.source.memo import Kept
from tuner.spaces.source.places import (
    Place,
    is_alone,
    member_paths,
    member_variable,
    place_of,
    places_in,
    touched,
    unsteady_members,
)
from tuner.spaces.source.printer import expression_text, statement_text
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
    Cast,
    Comment,
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
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import (
    index_chain,
    map_expressions,
    names_in,
    root_of,
    statements,
    subtrees,
)

__all__ = ["Access", "Leaf", "Scan", "loose_macros", "scan"]

_PLAIN_MACRO = re.compile(r"\s+\(?-?\.?\d[\w.]*\)?\s*(//.*|/\*.*)?$|\s*$")
_At = tuple[int | str, ...]
_REDUCING = {"+": "+=", "*": "*="}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A statement without loops inside.

    Attributes:
        stmt: itself.
        loops: around it inside the scanned part, outermost first, their bounds with constants filled in.
        position: the way to it: places in bodies, and the keys of the loops entered.
        reduction: the place that an associative update adds to; ``None`` when it is none.
        floating: whether that update is in floating point.
    """

    stmt: Stmt
    loops: tuple[For, ...]
    position: tuple[int | str, ...]
    accesses: tuple[Access, ...]
    reduction: Access | None = None
    floating: bool = True

    @property
    def text(self) -> str:
        """For messages: the statement on one line."""
        line = " ".join(statement_text(self.stmt).split())
        return line if len(line) <= 60 else f"{line[:57]}…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A scanned part.

    Attributes:
        leaves: in the order of the source.
        outer: loops around the part, outermost first.
        pointers: pointer parameters, and members that were taken, that are accessed; whether each is ``restrict``.
        written: those of them that are written.
        moving: names that change inside the part.
        fractions: variables that are no whole numbers.
    """

    leaves: tuple[Leaf, ...]
    outer: tuple[For, ...]
    pointers: Mapping[str, bool]
    written: frozenset[str]
    moving: frozenset[str]
    fractions: frozenset[str]

    @property
    def assumes_separate(self) -> bool:
        """Whether reasoning about the part takes it for granted that pointer parameters do not overlap."""
        loose = [name for name, restrict in self.pointers.items() if not restrict]
        return bool(self.written) and len(self.pointers) > 1 and bool(loose)


_SCANNED: Kept[tuple[Function, tuple[Stmt, ...], Scan | str]] = Kept(256)
"""By function and part: many moves ask the same of one program."""


def scan(function: Function, part: Sequence[Stmt]) -> Scan:
    """What a part of a function does.

    Args:
        function: that holds the part.
        part: neighbouring statements of the function, by identity.

    Raises:
        Refused: something in the part cannot be seen through.
    """
    key = (id(function), *map(id, part))
    found = _SCANNED.get(key)
    if found is None:
        try:
            found = (function, tuple(part), _scanned(function, part))
        except Refused as refusal:
            found = (function, tuple(part), str(refusal))
        _SCANNED.put(key, found)
    if isinstance(found[2], str):
        raise Refused(found[2])
    return found[2]


def _scanned(function: Function, part: Sequence[Stmt]) -> Scan:
    walker = _Walker(function, part)
    walker.visit(function.body, _Scope(), (), (), False)
    if not walker.found:
        raise Refused("the part is not in this function")
    return Scan(
        leaves=tuple(walker.leaves),
        outer=walker.outer,
        pointers=walker.pointers,
        written=frozenset(walker.written),
        moving=frozenset(walker.moving),
        fractions=frozenset(walker.fractions),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names as they are known at a place: constants to fill in, private variables with their loops."""

    constants: Mapping[str, Expr] = field(default_factory=dict)
    private: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()

    def fill(self, expr: Expr) -> Expr:
        def change(e: Expr) -> Expr:
            return self.constants.get(e.id, e) if isinstance(e, Name) else e

        made: Expr = map_expressions(expr, change)
        return made


class _Walker:
    def __init__(self, function: Function, part: Sequence[Stmt]) -> None:
        self.part = {id(s) for s in part}
        self.types = types_of(function)
        self.configured = function.settled is not None
        self.params = {p.name: p for p in function.params}
        self.local = {d.name for d in statements(function.body) if isinstance(d, Decl)}
        self.local |= {d.name for d in function.outer}
        self.shared_vars = {f.var for f in statements(function.body) if isinstance(f, For) and not f.type}
        self.macros = loose_macros(function.source)
        declared = (*function.outer, *(s for s in statements(function.body) if isinstance(s, Decl)))
        self.taken = function.taken
        self.flat = {d.name for d in declared if not d.dims} - self.taken
        self.fractions = {n for n, k in self.types.items() if is_floating(k) and "*" not in k}
        targets = (n.target for n in subtrees(function.body) if isinstance(n, Assign))
        self.assigned = {t.id for t in targets if isinstance(t, Name)}
        self.paths = member_paths(function)
        # References that are known as text: what they stand for is also used by another name.
        texts = [n.text for n in subtrees(function.body) if isinstance(n, OpaqueStmt)]
        self.referring = {name for text in texts for name in _REFERENCE.findall(text)}
        self.leaves: list[Leaf] = []
        self.outer: tuple[For, ...] = ()
        self.pointers: dict[str, bool] = {}
        self.written: set[str] = set()
        self.moving: set[str] = set(unsteady_members(function))
        self.found = False
        self.count = 0

    def visit(
        self, body: Sequence[Stmt], scope: _Scope, loops: tuple[For, ...], at: _At, inside: bool
    ) -> None:
        for place, stmt in enumerate(body):
            now = inside or id(stmt) in self.part
            if now and not inside:
                self.outer = loops if not self.found else self.outer
                self.found = True
            own: tuple[For, ...] = loops if inside else ()
            here = (*at, place) if inside else (place,)
            match stmt:
                case Decl():
                    if now:
                        self._leaf(stmt, scope, own, here)
                    scope = self._declare(stmt, scope, own, inside=now)
                case For():
                    self._loop(stmt, scope, own if now else loops, here, now)
                case Block(body=inner):
                    self.visit(inner, scope, own if now else loops, here, now)
                case If(condition=_, then=then, other=other) if not now:
                    self.visit(then, scope, loops, at, False)
                    self.visit(other, scope, loops, at, False)
                case Comment():
                    pass
                case _ if now:
                    self._leaf(stmt, scope, own, here)

    def _loop(self, loop: For, scope: _Scope, loops: tuple[For, ...], here: _At, now: bool) -> None:
        if now:
            self.moving.add(loop.var)
            for bound in (loop.start, loop.limit, loop.step):
                self._check_names(bound)
                if not is_pure(bound):
                    raise Refused(f"a bound of loop {loop.key} is no plain expression")
                for _, place in places_in(bound):
                    if place.path:
                        self._accesses(place, scope, write=False)
        filled = For(
            loop.key,
            loop.type,
            loop.var,
            scope.fill(loop.start),
            loop.op,
            scope.fill(loop.limit),
            loop.step,
            (),
            loop.pragmas,
        )
        inner = _Scope(
            {k: v for k, v in scope.constants.items() if k != loop.var},
            scope.private,
            scope.variables | {loop.var},
        )
        self.visit(loop.body, inner, (*loops, filled), (*here, loop.key), now)

    def _declare(self, decl: Decl, scope: _Scope, loops: tuple[For, ...], *, inside: bool) -> _Scope:
        constants = dict(scope.constants)
        private = dict(scope.private)
        constants.pop(decl.name, None)
        private.pop(decl.name, None)
        words = decl.type.split()
        plain = decl.init is not None and is_pure(decl.init) and not _calls(decl.init)
        # The expression stands for the name only while it still has the value that the name was given.
        counted = self.shared_vars - scope.variables
        unsteady = self.assigned | self.fractions | counted
        if is_narrow(decl.type) or not unsteady.isdisjoint(names_in((decl.init,))):
            plain = False
        if any(isinstance(e, Field) for e in subtrees(decl.init)):
            plain = False
        if self.configured and any(isinstance(e, Index) for e in subtrees(decl.init)):
            # A name is a symbol where an element is nothing that bounds can be reasoned about with. Before texts were
            # configured the element stood for it, and what older runs proposed has to be derived again.
            plain = False
        if "const" in words and is_integer(decl.type) and not decl.dims and decl.init and plain:
            constants[decl.name] = scope.fill(decl.init)
        elif inside:
            self.count += 1
            private[decl.name] = (f"{decl.name}@{self.count}", tuple(f.var for f in loops))
            self.moving.add(decl.name)
        return _Scope(constants, private, scope.variables)

    def _leaf(self, stmt: Stmt, scope: _Scope, loops: tuple[For, ...], here: _At) -> None:
        if any(isinstance(s, OpaqueStmt | For) for s in subtrees(stmt)):
            raise Refused(f"{_short(stmt)} cannot be seen through")
        accesses: list[Access] = []
        reduction: Access | None = None
        floating = True
        if isinstance(stmt, Decl):
            if "*" in stmt.type:
                raise Refused(f"{stmt.name} is a pointer of its own")
            if keeps_value(stmt):
                raise Refused(f"{stmt.name} keeps its value from one iteration to the next")
            if stmt.init is None:
                return
            accesses += self._reads(stmt.init, scope)
            inner = self._declare(stmt, scope, loops, inside=True)
            self.count -= 1
            if stmt.name in inner.private:
                private = f"{stmt.name}@{self.count + 1}"
                subscripts: tuple[Expr, ...] = tuple(Name(f.var) for f in loops)
                for path in touched(self.paths, stmt.name, ()):
                    variable = member_variable(private, path)
                    accesses.append(Access(variable=variable, subscripts=subscripts, write=True))
        else:
            for part in _simple(stmt):
                if isinstance(part, Assign):
                    accesses += self._assign(part, scope)
                else:
                    accesses += self._reads(part, scope)
            if isinstance(stmt, ExprStmt) and isinstance(stmt.expr, Assign):
                reduction, floating = self._reduction(stmt.expr, scope)
        made = Leaf(
            stmt=stmt,
            loops=loops,
            position=here,
            accesses=tuple(accesses),
            reduction=reduction,
            floating=floating,
        )
        self.leaves.append(made)

    def _assign(self, expr: Assign, scope: _Scope) -> list[Access]:
        place = place_of(expr.target)
        if not isinstance(place.base, Name):
            raise Refused(f"{expression_text(expr.target)} is no plain place to write to")
        found = self._reads(expr.value, scope)
        for subscript in (*place.outer, *place.inner):
            found += self._reads(subscript, scope)
        if expr.op != "=" or (isinstance(expr.target, Field) and expr.target.several):
            # Other components stay as they are.
            found += self._accesses(place, scope, write=False)
        found += self._accesses(place, scope, write=True)
        return found

    def _reads(self, expr: Expr, scope: _Scope) -> list[Access]:
        self._check_names(expr)
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
                found += self._accesses(place, scope, write=False)
                stack += (*place.outer, *place.inner)
            elif isinstance(part, Name):
                found += self._accesses(place_of(part), scope, write=False)
            else:
                stack += _children(part)
        return found

    def _check_names(self, expr: Expr) -> None:
        loose = names_in(expr) & self.macros
        if loose:
            raise Refused(f"{min(loose)} is a macro that cannot be seen through")

    def _accesses(self, place: Place, scope: _Scope, *, write: bool) -> list[Access]:
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

    def _access(self, name: str, subscripts: tuple[Expr, ...], scope: _Scope, *, write: bool) -> Access:
        if name in self.referring:
            raise Refused(f"{name} refers to what has another name")
        if subscripts and name in self.flat:
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

    def _check_outer(self, name: str, subscripts: tuple[Expr, ...], scope: _Scope, *, write: bool) -> None:
        if name in self.shared_vars and name not in scope.variables:
            raise Refused(f"{name} counts a loop and is used outside it")
        if write and name in scope.variables:
            raise Refused(f"the loop variable {name} is written in its loop")
        if subscripts:
            param = self.params.get(name)
            if param is not None:
                if param.is_array and (param.stars + bool(param.suffix)) == 1:
                    self.pointers[name] = "restrict" in param.text or "restrict" in " ".join(param.qualifiers)
                    if write:
                        self.written.add(name)
                    return
                raise Refused(f"{name} is more than a pointer to elements")
            if name not in self.local:
                raise Refused(f"{name} is not declared in this function")
            if name in self.taken:
                self.pointers[name] = False
                if write:
                    self.written.add(name)
            elif "*" in self.types.get(name, ""):
                raise Refused(f"{name} is a pointer of its own")

    def _reduction(self, expr: Assign, scope: _Scope) -> tuple[Access | None, bool]:
        base, subscripts = index_chain(expr.target)
        if isinstance(root_of(expr.target), Name) and place_of(expr.target).path:
            return self._member_reduction(expr, scope), True
        op = expr.op
        value = expr.value
        if op == "=" and isinstance(value, Binary) and value.op in _REDUCING and value.left == expr.target:
            op, value = _REDUCING[value.op], value.right
        if op not in ("+=", "-=", "*=", "&=", "|=", "^=") or not isinstance(base, Name):
            return None, True
        if base.id in names_in(value):
            return None, True
        place = self._access(base.id, subscripts, scope, write=True)
        whole = is_integer(self.types.get(base.id, "").replace("*", "")) and is_whole(value, self.types)
        return place, not whole

    def _member_reduction(self, expr: Assign, scope: _Scope) -> Access | None:
        """The member that an update adds to, which counts as a fraction whatever its type."""
        place = place_of(expr.target)
        if expr.op not in ("+=", "-=", "*=") or not isinstance(place.base, Name):
            return None
        if place.base.id in names_in((expr.value, *place.outer, *place.inner)):
            return None
        found = self._accesses(place, scope, write=True)
        return found[0] if len(found) == 1 else None


@lru_cache(maxsize=64)
def loose_macros(text: str) -> frozenset[str]:
    """Macros that stand for more than one number: their text may hold variables, or bind less than a name."""
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(.*)", text, re.MULTILINE)
    return frozenset(name for name, body in found if not _PLAIN_MACRO.match(body))


def _calls(expr: Expr) -> bool:
    """Whether a value is no arithmetic of its own: then its name stands for it."""
    return any(isinstance(e, Call) for e in subtrees(expr))


def _children(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Unary(operand=operand):
            yield operand
        case Binary(left=left, right=right):
            yield from (left, right)
        case Ternary(condition=condition, then=then, other=other):
            yield from (condition, then, other)
        case Call(arguments=arguments):
            yield from arguments
        case Cast(operand=operand):
            yield operand


def _simple(stmt: Stmt) -> Iterator[Expr]:
    """The expressions of a statement that is treated as one; conditions count as always taken."""
    match stmt:
        case ExprStmt(expr=expr):
            yield expr
        case If(condition=condition, then=then, other=other):
            yield condition
            for inner in (*then, *other):
                yield from _simple(inner)
        case Block(body=body):
            for inner in body:
                yield from _simple(inner)
        case Comment():
            return
        case _:
            raise Refused(f"{_short(stmt)} cannot be seen through")


def _short(stmt: Stmt) -> str:
    line = " ".join(statement_text(stmt).split())
    return repr(line if len(line) <= 50 else f"{line[:47]}…")
