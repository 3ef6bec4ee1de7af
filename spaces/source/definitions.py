"""Definitions of functions as trees, of a whole text or within a region, and what a file declares outside of them.

May not transform.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tuner.core.dtypes import C_TYPES
from tuner.core.errors import Place, SpecError
from tuner.core.types import Variable
from tuner.spaces.source.cutting import SourceFile
from tuner.spaces.source.expressions import parse_place
from tuner.spaces.source.kinds import all_types_of, is_floating, is_pure
from tuner.spaces.source.lexical import words
from tuner.spaces.source.number_types import number_types, with_deduced_types, with_number_types
from tuner.spaces.source.parse import (
    OUTERMOST,
    definition_start,
    function_nodes,
    is_outermost,
    name_start,
    node_text,
    parameters,
    parse_file,
)
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.structure_texts import type_text
from tuner.spaces.source.structures import structures
from tuner.spaces.source.syntax import (
    Assign,
    Call,
    Decl,
    Expr,
    Function,
    Name,
    Opaque,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import assigned_names, names_in, opaque_words, root_of, subtrees

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["functions_inside", "read_definitions", "with_file_variables"]

_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)|\b_?[aA]lignas\s*\([^()]*\)")
_UNLIKE = re.compile(r"[*&{]|\b(volatile|_Atomic|_Thread_local|thread_local|__thread|__shared__)\b")
_SCOPES = ("linkage_specification", "namespace_definition", "declaration_list")


def read_definitions(text: str, language: str) -> dict[str, Function]:
    """The functions that a text defines at its outermost level, whatever a conditional says; by name.

    Names that are defined more than once are left out.
    """
    found: dict[str, Function] = {}
    twice: set[str] = set()
    for name, node in function_nodes(parse_file(text.encode(), language)):
        body = node.child_by_field_name("body")
        if body is None or body.type != "compound_statement" or not is_outermost(node, OUTERMOST):
            twice.add(name)
            continue
        function = read_function(name, node, parse_statements(body.named_children), text)
        if name in found:
            twice.add(name)
        found[name] = replace(function, language=language)
    return {name: f for name, f in found.items() if name not in twice and name.isidentifier()}


def read_function(
    name: str, node: Node, body: tuple[Stmt, ...], text: str, outer: tuple[Decl, ...] = ()
) -> Function:
    """One definition of a file with statements of its body.

    Args:
        name: its.
        node: of the definition.
        body: all of its statements, or those of a region.
        text: of the whole file.
        outer: declarations that lie outside the region.
    """
    declarator, block = (node.child_by_field_name(f) for f in ("declarator", "body"))
    data = text.encode()
    start = definition_start(node)
    signature = data[start : node.end_byte if block is None else block.start_byte].decode()
    types = number_types(text)
    found = with_number_types(parameters(node) if declarator is not None else (), types)
    function = Function(
        name=name,
        head=data[start : name_start(node)].decode(),
        signature=signature,
        # One parameter that cannot be read hides all of them: its name may be anything.
        params=found if all(p.name for p in found) else (),
        body=with_number_types(body, types),
        outer=with_number_types(outer, types),
        source=text,
    )
    return with_deduced_types(function)


def functions_inside(
    root: Node, begin: int, end: int, file: SourceFile
) -> list[tuple[Function, int, int, int]]:
    """Functions or parts of them in a region, each with first and last byte of the file and levels of indent.

    Args:
        root: of the file's tree.
        begin: of the region, in bytes.
        end: likewise.
        file: for places in messages.

    Raises:
        SpecError: the region cuts through a statement.
    """
    found = []
    for name, node in function_nodes(root):
        body = node.child_by_field_name("body")
        if body is None or body.type != "compound_statement":
            continue
        start = definition_start(node)
        if begin <= start and node.end_byte <= end:
            statements = parse_statements(body.named_children)
            function = read_function(name, node, statements, file.text)
            found.append((function, start, node.end_byte, 1))
        elif body.start_byte < begin and end < body.end_byte:
            made = _partial(name, node, body, (begin, end), file)
            if made is not None:
                found.append(made)
    return found


def _partial(
    name: str, node: Node, body: Node, region: tuple[int, int], file: SourceFile
) -> tuple[Function, int, int, int] | None:
    begin, end = region
    scope = body
    while True:
        inner = [c for c in _scopes(scope) if c.start_byte < begin and end <= c.end_byte]
        if not inner:
            break
        scope = inner[0]
    # The closing mark's comment begins where the region ends.
    touched = [c for c in scope.named_children if c.start_byte < end and c.end_byte > begin]
    for child in touched:
        if child.start_byte < begin or child.end_byte > end:
            place = Place(file=file.name, line=child.start_point[0] + 1)
            raise SpecError(
                "a region cuts through a statement", "move its marks between statements", place=place
            )
    if not touched:
        return None
    outer = tuple(_outer_declarations(body, begin, end))
    statements = parse_statements(touched)
    function = read_function(name, node, statements, file.text, outer)
    # Whole lines: the printer indents, and ends each statement with a line break.
    text = file.text.encode()
    start = text.rfind(b"\n", 0, touched[0].start_byte) + 1
    if start < begin or text[start : touched[0].start_byte].strip():
        start = touched[0].start_byte
    stop = touched[-1].end_byte
    while stop < end and text[stop : stop + 1] in b" \t\r":
        stop += 1
    stop += text[stop : stop + 1] == b"\n"
    own = {s.name for s in statements if isinstance(s, Decl)}
    function = replace(function, whole=False, read_after=_read_after(body, scope, begin, end, own))
    return function, start, stop, touched[0].start_point[1] // 4


_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")


def _read_after(body: Node, scope: Node, begin: int, end: int, own: Collection[str]) -> frozenset[str]:
    """Names that the rest of a function may ask for the values that they have behind a region.

    Args:
        body: of the function.
        scope: the statement that the region is a part of.
        begin: of the region, in bytes.
        end: likewise.
        own: names that the region declares for what follows it, which has to find them whatever their values.
    """
    around: list[Node] = []
    node: Node | None = scope
    while node is not None and node.id != body.id:
        around.append(node)
        node = node.parent
    again = any(n.type in _LOOPS for n in around) or b"goto" in (body.text or b"")
    containing = {n.id for n in (*around, body)}
    given, found = set[str](), set[str]()
    stack = [body]
    while stack:
        node = stack.pop()
        if begin <= node.start_byte and node.end_byte <= end:
            continue
        name = node_text(node)
        if node.type == "pointer_expression" and name.startswith("&"):
            found |= words(name)
        behind = again or node.start_byte >= end
        if node.type == "identifier" and behind and not _is_declared(node) and name not in given:
            whole = not again and name not in own and _given_in(node, containing)
            (given if whole else found).add(name)
        stack.extend(reversed(node.children))
    return frozenset(found)


def _is_declared(name: Node) -> bool:
    parent = name.parent
    declarator = None if parent is None else parent.child_by_field_name("declarator")
    return declarator is not None and declarator.id == name.id


def _given_in(name: Node, containing: Collection[int]) -> bool:
    """Whether a name is given a value here in any case, by a statement that stands behind the region."""
    assigned = name.parent
    if assigned is None or assigned.type != "assignment_expression":
        return False
    left, right = (assigned.child_by_field_name(f) for f in ("left", "right"))
    operator = assigned.child_by_field_name("operator")
    if left is None or right is None or left.id != name.id or operator is None or node_text(operator) != "=":
        return False
    if node_text(name) in words(node_text(right)):
        return False
    part, stmt = assigned, assigned.parent
    while stmt is not None and stmt.type == "comma_expression":
        part, stmt = stmt, stmt.parent
    if stmt is None or stmt.parent is None or stmt.parent.id not in containing:
        return False
    first = stmt.child_by_field_name("initializer")
    return stmt.type == "expression_statement" or (first is not None and first.id == part.id)


def _scopes(node: Node) -> list[Node]:
    """Compound statements directly below a node, through statements of other kinds."""
    found = []
    stack = list(node.children)
    while stack:
        child = stack.pop()
        if child.type == "compound_statement":
            found.append(child)
        else:
            stack.extend(child.children)
    return found


def _outer_declarations(body: Node, begin: int, end: int) -> list[Decl]:
    found: list[Decl] = []
    stack = [body]
    while stack:
        node = stack.pop()
        if begin <= node.start_byte and node.end_byte <= end:
            continue
        if node.type == "declaration":
            found += [d for d in parse_statements([node]) if isinstance(d, Decl)]
        stack.extend(reversed(node.children))
    return found


def with_file_variables(function: Function, text: str, variables: Sequence[Variable]) -> Function:
    """The function with what its file declares, but for names that it gives to something else.

    Arrays are known; fractions and structures are that are arguments, or that no store of the function may change.

    Args:
        function: of the file.
        text: of the file.
        variables: of the kernel.
    """
    taken = tuple(
        n.operand for n in subtrees(function.body) if isinstance(n, Unary) and n.op in ("&", "++", "--")
    )
    # None of a name that leads elsewhere after the function, or may.
    moved = assigned_names(function.body) | names_in(taken) | opaque_words(taken) | _unread_words(function)
    own = all_types_of(function).keys() | moved
    names = {v: v.name.rpartition("::")[2] for v in variables}
    pointers = (Decl(f"{C_TYPES[v.dtype]} *", names[v]) for v in variables if v.pointer)
    declared = tuple(d for d in (*_declared(text, function.language), *pointers) if d.name not in own)
    # Arguments share no memory.
    apart = {*names.values()} | {d.name for d in declared if d.dims or "*" in d.type}
    known = _stores_apart(function, {d.name for d in declared if d.dims or not is_floating(d.type)})
    found = tuple(d for d in declared if known or d.name in apart)
    return replace(function, variables=with_number_types(found, number_types(text))) if found else function


def _unread_words(function: Function) -> set[str]:
    """Words of what operators do not know, but for members of variables and elements, which they come to know."""
    texts = [n.text for n in subtrees(function.body) if isinstance(n, Opaque | OpaqueStmt)]
    places = {text: place for text in texts if (place := parse_place(text)) is not None}
    return opaque_words(tuple(places.values())) | words(" ".join(t for t in texts if t not in places))


def _stores_apart(function: Function, whole: set[str]) -> bool:
    """Whether all that a function stores to are these arrays and structures, or restrict: no number of the file."""
    apart = whole | {p.name for p in function.params if "restrict" in p.text}
    apart |= {n.name for n in subtrees(function.body) if isinstance(n, Decl) and n.dims}
    targets = (n.target for n in subtrees(function.body) if isinstance(n, Assign))
    places = (t.operand if isinstance(t, Unary) else t for t in targets if not isinstance(t, Name))
    roots = map(_root, places)
    calls = any(isinstance(n, Call) and not is_pure(n) for n in subtrees(function.body))
    return not calls and all(isinstance(root, Name) and root.id in apart for root in roots)


def _root(target: Expr) -> Expr:
    root = root_of(target)
    place = parse_place(root.text) if isinstance(root, Opaque) else None
    return root if place is None else root_of(place)


@lru_cache(maxsize=64)
def _declared(text: str, language: str) -> tuple[Decl, ...]:
    """Declarations of arrays, fractions and structures, none of a name that is declared with two types."""
    plain = _ATTRIBUTE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found: dict[str, set[Decl]] = {}
    types = structures(plain, language)
    stack = [parse_file(plain.encode(), language)]
    while stack:
        for node in stack.pop().named_children:
            if node.type in _SCOPES:
                stack.append(node)
            elif node.type == "declaration":
                made = node.child_by_field_name("type")
                for decl in parse_statements([node]):
                    if not isinstance(decl, Decl):
                        continue
                    kind = decl.type
                    if made is not None and "}" in kind:
                        # `struct s {...} a;` defines the structure and declares one.
                        kind = type_text(made) + kind.rpartition("}")[2]
                    if _UNLIKE.search(kind):
                        continue
                    kind = types.meant(kind)
                    if decl.dims or is_floating(kind) or types.members(kind):
                        found.setdefault(decl.name, set()).add(replace(decl, type=kind, init=None))
    return tuple(decls.pop() for decls in found.values() if len(decls) == 1)
