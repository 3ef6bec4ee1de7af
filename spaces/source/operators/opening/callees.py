"""The functions that a function may call and whose definitions are known: of its file, or of headers that it includes.

Says whether a definition's text means the same where it is called. May not transform.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tuner.spaces.source.casts import MAY_BE_CAST, types_in
from tuner.spaces.source.definitions import read_definitions
from tuner.spaces.source.directives import macros_in, unread
from tuner.spaces.source.expressions import parse_expression
from tuner.spaces.source.heads import with_begins, with_counters
from tuner.spaces.source.kinds import Refused, is_pure, keeps_value
from tuner.spaces.source.lexical import tokens, words
from tuner.spaces.source.method_definitions import method_definitions
from tuner.spaces.source.operators.naming import RETURN, declared_as_text
from tuner.spaces.source.operators.opening.membership import types_in as structures_in
from tuner.spaces.source.operators.opening.membership import with_members
from tuner.spaces.source.operators.opening.text_places import with_places
from tuner.spaces.source.own_names import with_own_calls, with_own_names
from tuner.spaces.source.parse import declared_functions, parse_file
from tuner.spaces.source.printer import statement_text
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Decl,
    Expr,
    Field,
    Function,
    Index,
    Name,
    Opaque,
    OpaqueStmt,
    Own,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import declared_names, map_expressions, statements, subtrees

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = [
    "RETURN",
    "callees",
    "callees_by_places",
    "changes_nothing",
    "changes_own",
    "is_declared",
    "local_names",
    "reads_memory",
    "require_same_meaning",
    "returned",
    "stands_for_number",
]

_WORD = re.compile(r"[A-Za-z_]\w*")
_PLACE = re.compile(
    r"__(LINE|FILE|COUNTER|func|FUNCTION|PRETTY_FUNCTION|BASE_FILE)__|__func__|(__builtin_)?alloca|setjmp|longjmp|"
    r"va_start|va_arg|__builtin_(return|frame)_address"
)
"""What means something else in another place or function."""

_WORDS = "always_inline|gnu_inline|unused|const|pure|hot|flatten|artificial|nothrow|nodiscard|maybe_unused"
_ATTRIBUTE = rf"\s*(?:gnu::)?_*(?:{_WORDS})_*\s*"
_HARMLESS = re.compile(
    rf"__attribute__\s*\(\({_ATTRIBUTE}(?:,{_ATTRIBUTE})*\)\)|\[\[{_ATTRIBUTE}(?:,{_ATTRIBUTE})*\]\]"
)
_DEFINE = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+([A-Za-z_]\w*)", re.MULTILINE)
_ARITHMETIC = re.compile(
    r"(float|double|half|_Float16|int|long|short|char|unsigned|signed|const|size_t|ptrdiff_t|u?int\d+_t|uint|ulong|ushort"
    r"|uchar|static|inline|extern|__inline|__inline__|__forceinline__|__device__|__host__|restrict|__restrict|__restrict__)"
)


def callees(function: Function) -> Mapping[str, Function]:
    """Functions by name, as the compiler sees them; none where the text is not what it sees."""
    asked = (function.file, function.language, function.own, _method(function))
    return _read(*asked) if function.members else _defined(*asked)


def _method(function: Function) -> str:
    """The function's name where it may be a method; empty where none is asked for."""
    return function.name if function.language == "c++" else ""


@lru_cache(maxsize=64)
def _read(text: str, language: str, own: Own, method: str) -> dict[str, Function]:
    """Likewise with members of structures read."""
    found = _defined(text, language, own, method)
    made: dict[str, Function] = {}
    for name, function in found.items():
        types = structures_in(replace(function, file=text, language=language))
        made[name] = function if types is None else with_members(function, types, returns=True)
    return made


def callees_by_places(function: Function) -> Mapping[str, Function]:
    """The same with members as places without types, those of references and pointers as well."""
    return _placed(function.file, function.language, function.own, _method(function), function.members)


@lru_cache(maxsize=64)
def _placed(text: str, language: str, own: Own, method: str, lists: bool) -> dict[str, Function]:
    def untyped(expr: Expr) -> Expr:
        return replace(expr, type="") if isinstance(expr, Field) and not expr.several else expr

    made: dict[str, Function] = {}
    for name, function in _defined(text, language, own, method).items():
        within = replace(function, file=text, language=language)
        types = structures_in(within) if lists else None
        # Lists of first values are read with the members.
        read = function if types is None else with_members(function, types)
        body = with_places(map_expressions(read.body, untyped))
        made[name] = replace(function, body=body, members=True, language=language)
    return made


@lru_cache(maxsize=64)
def _defined(text: str, language: str, own: Own = (), method: str = "") -> dict[str, Function]:
    if unread(text):
        return {}
    found = read_definitions(text, language)
    if method:
        # A name means what the class has by it.
        found |= method_definitions(text, method)
    counted = read_definitions(with_begins(text), language)
    for name, function in counted.items():
        made = with_counters(function)
        if made is not None and name in found:
            found[name] = made
    marked = {name: with_own_calls(f, dict(own)) for name, f in found.items()}
    # Attributes that say nothing of what a function computes are left out.
    return {
        name: replace(f, head=_HARMLESS.sub(" ", f.head), signature=_HARMLESS.sub(" ", f.signature))
        for name, f in marked.items()
    }


def local_names(function: Function) -> set[str]:
    """What a function declares, its parameters among it."""
    return (
        {p.name for p in function.params} | {d.name for d in function.outer} | declared_names(function.body)
    )


def changes_nothing(call: Call, known: Mapping[str, Function], within: frozenset[str] = frozenset()) -> bool:
    """Whether a call is known to change nothing but variables of the functions that it goes through."""
    if is_pure(call):
        return True
    helper = known.get(call.function)
    if helper is None or call.function in within:
        return False
    within = within | {call.function}
    for node in _nodes(helper):
        match node:
            case Opaque() | OpaqueStmt():
                return False
            case Decl() if keeps_value(node):
                return False
            case Assign() if not changes_own(node, helper):
                return False
            case Call() if not changes_nothing(node, known, within):
                return False
    return True


def changes_own(assign: Assign, helper: Function) -> bool:
    """Whether an assignment is to a variable of the function itself, or to a part of one."""
    target = assign.target
    if isinstance(target, Name):
        referred = {p.name for p in helper.params if "?" in p.suffix}
        return target.id in local_names(helper) - referred
    if not helper.members:
        return False
    subscripts = 0
    while isinstance(target, Field | Index):
        subscripts += isinstance(target, Index)
        target = target.base
    if not isinstance(target, Name):
        return False
    # A name of several declarations may be a pointer in one of them.
    found = [s for s in statements(helper.body) if isinstance(s, Decl) and s.name == target.id]
    params = [p for p in helper.params if p.name == target.id]
    if len(found) + len(params) != 1:
        return False
    if params:
        return not params[0].is_array and not subscripts
    return not {"*", "&"} & set(found[0].type) and subscripts == len(found[0].dims)


def reads_memory(helper: Function) -> bool:
    """Whether a function's result may hang on more than its arguments' values."""
    own = local_names(helper)
    referred = {p.name for p in helper.params if "?" in p.suffix}
    return any(
        isinstance(node, Index | Opaque | OpaqueStmt)
        or (isinstance(node, Name) and node.id in referred)
        or (isinstance(node, Call) and not is_pure(node))
        or (isinstance(node, Unary) and node.op == "*")
        or (isinstance(node, Name) and node.id not in own and not stands_for_number(helper.source, node.id))
        for node in _nodes(helper)
    )


def stands_for_number(source: str, name: str) -> bool:
    """Whether a name that is written like one is a macro."""
    return (
        name.isupper() and re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", source, re.MULTILINE) is not None
    )


def is_declared(function: Function, name: str) -> bool:
    """Whether a name that is called is a function's for certain, and no macro's."""
    declared = any(n == name for n, _ in _declarations(function.file, function.language))
    return declared and name not in _DEFINE.findall(function.source)


def returned(stmt: Stmt, helper: Function) -> Expr | None:
    """The value that a statement of a function returns; ``None`` for one that returns none, or is another."""
    found = RETURN.fullmatch(stmt.text.strip()) if isinstance(stmt, OpaqueStmt) else None
    if found is None or not found[1].strip():
        return None
    types: set[str] = set()
    if MAY_BE_CAST.search(found[1].encode()):
        root = parse_file(helper.source.encode(), helper.language)
        types = {t.decode() for t in types_in(root)} & words(found[1]) - local_names(helper)
    value = with_own_names(parse_expression(found[1], types), helper)
    return with_places(value) if helper.members else value


def _nodes(helper: Function) -> Iterator[Any]:
    """All that a function's body consists of, values that it returns as well."""
    for node in subtrees(helper.body):
        value = returned(node, helper) if isinstance(node, OpaqueStmt) else None
        if value is None:
            yield node
        else:
            yield from subtrees(value)


def require_same_meaning(function: Function, helper: Function, *, members: bool = False) -> None:
    """Refuses a definition that may mean something else where it is called.

    Args:
        function: that calls.
        helper: one of its :func:`callees`.
        members: whether names of members are told from those of variables.
    """
    text = helper.signature + "\n".join(map(statement_text, helper.body))
    words = {token for token in tokens(text) if _WORD.fullmatch(token)}
    strange = sorted(w for w in words if _PLACE.fullmatch(w))
    if strange:
        raise Refused(f"{strange[0]} in {helper.name} hangs on where it stands")
    free = (_without_members(text) if members else words) - local_names(helper)
    hidden = free & (local_names(function) | declared_as_text(function, references=members))
    hidden = {w for w in hidden if not _ARITHMETIC.fullmatch(w)}
    if hidden:
        raise Refused(f"{min(hidden)} means something else in {helper.name}")
    _require_steady_macros(function, helper, words)
    replaced = words & function.macros
    if replaced:
        raise Refused(f"{min(replaced)} in {helper.name} is a macro elsewhere")
    said, name = _HARMLESS.sub(" ", function.file), helper.name
    before, after = (
        rf"(__attribute__|\[\[)[^;{{}}]*\b{name}\s*\(",
        rf"\b{name}\s*\([^;{{}}]*\)\s*(__attribute__|_*asm)",
    )
    if re.search(f"{before}|{after}", said):
        raise Refused(f"{name} is declared with an attribute that is not known")
    if re.search(r"\b(weak|ifunc|alias)\b", function.file):
        raise Refused("the linker may put another function in the place of one")
    if function.language in ("c++", "cuda"):
        _require_one_declaration(function, helper.name)


def _without_members(text: str) -> set[str]:
    """Words of a text that stand elsewhere than behind a point or an arrow."""
    found, before = set[str](), ("", "")
    for token in tokens(text):
        if _WORD.fullmatch(token) and before[1] != "." and before != ("-", ">"):
            found.add(token)
        before = (before[1], token)
    return found


def _require_steady_macros(function: Function, helper: Function, words: set[str]) -> None:
    """Refuses macros that are more than numbers, or that are defined behind a function that names them."""
    loose = words & macros_in(function.file)
    if loose:
        raise Refused(f"{min(loose)} is a macro that cannot be seen through")
    begin = re.search(rf"\b{helper.name}\b", function.file)
    for found in _DEFINE.finditer(function.file, begin.start() if begin is not None else 0):
        if found[1] in words:
            raise Refused(f"the macro {found[1]} is defined after {helper.name}")


def _require_one_declaration(function: Function, name: str) -> None:
    """Refuses a name that may stand for another function as well."""
    if (
        len({params for found, params in _declarations(function.file, function.language) if found == name})
        != 1
    ):
        raise Refused(f"{name} is declared more than once")
    if is_pure(Call(name, ())) and re.search(
        rf"\busing\s+namespace\b|\busing\b[^;]*\b{name}\b", function.file
    ):
        raise Refused(f"{name} may be another function, which 'using' brings")


def _within(node: Node) -> str:
    """What a declaration lies in: of another it is another function."""
    found, around = "", node.parent
    while around is not None:
        if around.type.startswith(("namespace", "class", "struct", "template", "compound")):
            found += f" {around.type} {around.start_byte}"
        around = around.parent
    return found


@lru_cache(maxsize=64)
def _declarations(unit: str, language: str) -> tuple[tuple[str, str], ...]:
    """The names that functions are declared or defined by, wherever that is, and their parameters as text."""
    found = declared_functions(parse_file(unit.encode(), language))
    return tuple((name, params + _within(node)) for name, params, node in found)
