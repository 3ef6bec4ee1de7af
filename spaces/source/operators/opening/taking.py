"""Members of structures that a function takes, read as what they are, or once into locals.

``c->density[i * c->nx + j]`` is text to other operators; ``c_density[i * c_nx + j]`` is an array. May not change what
is computed: members that the function may write stay where they are. That no buffer overlaps the structure, nor another
buffer, is the assumption that is made of buffers that are passed by themselves; that a loop has an iteration, that of
loads which move before a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tuner.spaces.source.kinds import Refused, is_pure
from tuner.spaces.source.lexical import overloads, words
from tuner.spaces.source.operators.base import Args, fresh_name, opener, where_it_applies
from tuner.spaces.source.operators.opening.callees import callees
from tuner.spaces.source.operators.opening.effects import Effects, effects
from tuner.spaces.source.operators.opening.membership import types_in, with_members
from tuner.spaces.source.operators.opening.text_places import is_reference
from tuner.spaces.source.structures import Structures
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Block,
    Call,
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
    OpaqueStmt,
    Param,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import map_expressions, opaque_words, subtrees

__all__ = ["OPERATORS"]

_CHAIN = re.compile(r"[A-Za-z_]\w*(?:\s*(?:->|\.)\s*[A-Za-z_]\w*)+")
_STEP = re.compile(r"(->|\.)([A-Za-z_]\w*)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CLOSED = re.compile(r"\bdefault\s*\(\s*none\b")
_CONST = re.compile(r"^\s*const\b|\bconst\s*(?=\*)")


@dataclass(frozen=True, slots=True)
class _Taken:
    """A member to take: its text, and the type of the local: a number, a pointer, or one to rows by their addresses."""

    text: str
    type: str
    pointer: bool
    rows: bool = False


def take_members(function: Function, _: Args) -> Function:
    """Reads members into locals at the first use of their structure."""
    # In C++ an operator of the user's own may do anything with a structure.
    overloaded = function.language == "c++" and overloads(function.file)
    if not function.whole or overloaded:
        raise Refused("types of members are not known")
    written = effects(function)
    fields: dict[str, Field] = {}
    function = replace(function, body=map_expressions(function.body, lambda expr: _as_text(expr, fields)))
    _require_seen_through(function, written)
    body, taken, tables = list(function.body), set(function.taken), set(function.tables)
    names: dict[str, str] = {}
    for root in _roots(function, written):
        found = _members(function, root, written)
        place = next((i for i, stmt in enumerate(body) if _mentions(stmt, root)), None)
        if place is None or not found:
            continue
        sure = {text for expr in _first(body[place:]) for text in _chains(expr)}
        loads: list[Stmt] = []
        for member in found:
            if not _is_safe(member.text, sure):
                continue
            before = _read_before(body, member)
            if before:
                names[member.text] = before
                continue
            stem = "_".join(_WORD.findall(member.text))
            name = names[member.text] = fresh_name(function, stem, names.values())
            loads.append(Decl(member.type, name, (), Opaque(member.text)))
            taken |= {name} if member.pointer else set()
            tables |= {name} if member.rows else set()
        body[place:place] = loads
    own = _own_locals(function, written) - taken
    if not names and not own:
        raise Refused("there are no members of a structure that could be read once")

    def change(expr: Expr) -> Expr:
        return Name(names[_plain(expr)]) if isinstance(expr, Opaque) and _plain(expr) in names else expr

    fresh = set(names.values())
    changed = tuple(
        stmt if isinstance(stmt, Decl) and stmt.name in fresh else map_expressions(stmt, change)
        for stmt in body
    )
    made = map_expressions(
        changed, lambda expr: fields.get(expr.text, expr) if isinstance(expr, Opaque) else expr
    )
    return replace(function, body=made, taken=frozenset(taken | own), tables=frozenset(tables))


def _as_text(expr: Expr, fields: dict[str, Field]) -> Expr:
    """A member that was read, as the text that it was; ``fields`` gets what it was read as."""
    if not isinstance(expr, Field) or expr.several:
        return expr
    base, arrow = expr.base, "."
    if isinstance(base, Index) and base.index == Number("0"):
        base, arrow = base.base, "->"
    if isinstance(base, Name):
        text = f"{base.id}{arrow}{expr.name}"
    elif isinstance(base, Opaque) and _CHAIN.fullmatch(base.text.strip()):
        text = f"{_plain(base)}{arrow}{expr.name}"
        inner: Expr = fields.get(base.text, base)
        expr = replace(expr, base=inner if arrow == "." else Index(inner, Number("0")))
    else:
        return expr
    fields[text] = expr
    return Opaque(text)


def _require_seen_through(function: Function, written: Effects) -> None:
    """Nothing may pass by the place where members are read, nor list what its text may name."""
    if written.jumps:
        raise Refused("a label may be jumped to past where members would be read")
    for node in subtrees(function.body):
        if isinstance(node, OpaqueStmt) and node.text.lstrip().startswith("#"):
            raise Refused("a directive is about the statement that follows it")
        if isinstance(node, For) and any(_CLOSED.search(pragma) for pragma in node.pragmas):
            raise Refused("a pragma lists every name that its loop uses")


def _roots(function: Function, written: Effects) -> list[str]:
    """Parameters that are structures, or lead to one, and occur only before a member or as an argument."""
    pragmas = (p for n in subtrees(function.body) if isinstance(n, For) for p in n.pragmas)
    hidden = written.moved.union(*map(words, pragmas))
    return [p.name for p in function.params if p.name not in hidden and _is_structure(p, function.language)]


def _is_structure(param: Param, language: str) -> bool:
    """Whether a parameter is of a type, points to one, or in C++ refers to one."""
    plain = not (param.suffix or param.stars > 1 or "volatile" in param.text or "&" in param.text)
    return plain or is_reference(param, language)


def _plain(expr: Opaque) -> str:
    """A member's text without spaces."""
    return "".join(expr.text.split())


def _read_before(body: Sequence[Stmt], member: _Taken) -> str:
    """The local that a member has been read into before, if all that uses the member follows it."""
    for stmt in body:
        if isinstance(stmt, Decl) and _is_chain(stmt.init) and stmt.type == member.type:
            assert isinstance(stmt.init, Opaque)
            if _plain(stmt.init) == member.text:
                return stmt.name
        if member.text in _chains(stmt):
            break
    return ""


def _is_chain(node: object) -> bool:
    return isinstance(node, Opaque) and _CHAIN.fullmatch(node.text.strip()) is not None


def _chains(part: object) -> Iterator[str]:
    for node in subtrees(part):
        if isinstance(node, Opaque) and _is_chain(node):
            yield _plain(node)


def _mentions(part: object, root: str) -> bool:
    return any(_WORD.findall(text)[0] == root for text in _chains(part))


def _members(function: Function, root: str, written: Effects) -> list[_Taken]:
    """The numbers and buffers of a structure that nothing in the function writes, in order of their use."""
    (param,) = (p for p in function.params if p.name == root)
    found: dict[str, _Taken] = {}
    for text in _chains(tuple(stmt for stmt in function.body if not _loads(stmt))):
        first, *steps = _WORD.findall(text)
        if first != root or text in found or not written.members.isdisjoint(steps):
            continue
        member = _typed(text, param.base, written)
        if member is not None:
            found[text] = member
    return list(found.values())


def _own_locals(function: Function, effect: Effects) -> set[str]:
    """Locals that stay what the function itself made them: a buffer in a structure that has no other name."""
    roots, changed = _roots(function, effect), effect.members
    used, types = list(_chains(function.body)), effect.types
    unread = (n for n in subtrees(function.body) if isinstance(n, Opaque | OpaqueStmt) and not _is_chain(n))
    texts = opaque_words(tuple(unread))
    kinds = {param.name: param.base for param in function.params}
    nodes = list(subtrees(function.body))
    written = [n.name if isinstance(n, Decl) else n.var for n in nodes if isinstance(n, Decl | For)]
    changed_places = [
        n.target if isinstance(n, Assign) else n.operand for n in nodes if isinstance(n, Assign | Unary)
    ]
    written += [place.id for place in changed_places if isinstance(place, Name)]
    found = set()
    for stmt in function.body:
        if isinstance(stmt, Decl) and isinstance(stmt.init, Opaque) and _loads(stmt):
            text = _plain(stmt.init)
            root, *steps = _WORD.findall(text)
            if root not in roots or used.count(text) > 1 or not (changed | texts).isdisjoint(steps):
                continue
            member = _typed(text, kinds[root], effect)
            if member is None or not member.pointer or written.count(stmt.name) > 1:
                continue
            if _pointee(stmt.type, types) == _pointee(member.type, types):
                found.add(stmt.name)
    return found


def _pointee(kind: str, types: Structures) -> str:
    """What a pointer points to; the whole text where it is no plain one."""
    plain = re.fullmatch(
        r"([^*]+)\*\s*(?:const|restrict|__restrict|__restrict__|\s)*", _CONST.sub("", kind).strip()
    )
    return types.meant(plain[1].strip()) if plain else kind


def _loads(stmt: Stmt) -> bool:
    """Whether all that a statement of the function itself does is to read a member into a local."""
    return isinstance(stmt, Decl) and isinstance(stmt.init, Opaque) and bool(_CHAIN.fullmatch(stmt.init.text))


def _typed(text: str, kind: str, written: Effects) -> _Taken | None:
    """What a member is, where all types on the way are known and no structure on it is written unseen."""
    types = written.types
    steps, fixed = _STEP.findall(text), "const" in kind.split()
    for position, (_, name) in enumerate(steps):
        if types.held(kind) in written.structures:
            return None
        last = position == len(steps) - 1
        pointee = types.pointee(kind, name)
        member = types.members(kind).get(name)
        if pointee is not None:
            if last:
                const = "const " if pointee.constant else ""
                element = types.meant(pointee.type)
                known, stars = types.is_arithmetic(element), "**const" if pointee.rows else "*const"
                made = _Taken(text, f"{const}{element} {stars}", not pointee.rows, pointee.rows)
                return made if known else None
            if pointee.rows:
                return None
            kind, fixed = pointee.type, pointee.constant
        elif member is not None and member.depth == 1 and last:
            # An array in the structure itself: of where it begins.
            const = "const " if fixed or member.fixed else ""
            element = types.meant(member.type)
            return _Taken(text, f"{const}{element} *const", True) if types.is_arithmetic(element) else None
        elif member is not None and not member.depth:
            if last:
                known = types.is_arithmetic(member.type)
                return _Taken(text, f"const {types.meant(member.type)}", False) if known else None
            kind, fixed = member.type, fixed or member.fixed
        else:
            return None
    return None


def _first(body: Sequence[Stmt]) -> Iterator[Expr]:
    """Expressions that are evaluated whenever statements are reached and their loops have an iteration."""
    for stmt in body:
        if any(isinstance(node, OpaqueStmt) for node in subtrees(stmt)):
            # It may return before what follows.
            return
        match stmt:
            case For(start=start, limit=limit, body=inner):
                yield from _sure(start, limit)
                yield from _first(inner)
            case Block(body=inner):
                yield from _first(inner)
            case If(condition=expr) | ExprStmt(expr=expr) | Decl(init=expr):
                yield from _sure(expr)
        if _may_end(stmt):
            return


def _sure(*found: Expr | None) -> Iterator[Expr]:
    yield from (e for e in found if e is not None and not _branches(e) and not _may_end(e))


def _may_end(part: object) -> bool:
    """Whether a part calls what may never return."""
    calls = (n for n in subtrees(part) if isinstance(n, Call))
    known = all(is_pure(replace(call, arguments=())) for call in calls)
    texts = (n.text for n in subtrees(part) if isinstance(n, Opaque))
    return not known or any("(" in text for text in texts)


def _branches(expr: Expr) -> bool:
    """Whether some part of an expression need not be evaluated."""
    nodes = list(subtrees(expr))
    return any(isinstance(n, Ternary) or (isinstance(n, Binary) and n.op in ("&&", "||")) for n in nodes)


def _is_safe(text: str, certain: set[str]) -> bool:
    """Whether all pointers on the way to a member are followed anyway."""
    followed = [text[: found.start()] for found in re.finditer("->", text)]
    return all(any(other.startswith(f"{pointer}->") for other in certain) for pointer in followed)


def read_members(function: Function, _: Args) -> Function:
    """Reads members of plain structures and vectors, and lists of first values, where their types are known.

    From then on those of functions that are called are read as well.
    """
    types = types_in(function)
    made = function if types is None else with_members(function, types)
    if types is None or (made.body == function.body and not _opens_calls(function)):
        raise Refused("there are no members of structures or first values that can be read")
    return replace(made, members=True)


def _opens_calls(function: Function) -> bool:
    """Whether a function that is called has members that have not been read."""
    if function.members:
        return False
    called = {n.function for n in subtrees(function.body) if isinstance(n, Call)}
    before, after = callees(function), callees(replace(function, members=True))
    return any(before[name].body != after[name].body for name in called & before.keys())


OPERATORS = (
    opener(
        read_members,
        where_it_applies(read_members),
        "members of structures and first values as what they are, no longer text",
    ),
    opener(
        take_members,
        where_it_applies(take_members, "separate buffers", "elements exist"),
        "members of structures that stay as they are, read once into locals",
        languages=("c", "c++"),
    ),
)
