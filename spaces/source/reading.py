"""Statements and expressions of tree-sitter's nodes as the tree of :mod:`tuner.spaces.source.syntax`.

Never fails on what it does not know: that becomes opaque text. May not judge what a transformation may do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.spaces.source.casts import MisreadCast, cast_of_call, divided, doubtful, operands_of
from tuner.spaces.source.parse import ADDRESS_SPACE, function_nodes, node_slice, node_text, parse_file
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
    For,
    If,
    Index,
    Name,
    Number,
    Opaque,
    OpaqueStmt,
    Stmt,
    Ternary,
    Unary,
)
from tuner.spaces.source.walks import with_bodies

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["is_enclosed", "operator_of", "parse_statements", "read_expression", "read_subscript", "with_keys"]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ASSIGN_OPS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_STRENGTH = {
    op: strength
    for strength, ops in enumerate(("||", "&&", "|", "^", "&", "== !=", "< <= > >=", "<< >>", "+ -", "* / %"))
    for op in ops.split()
}
"""How strongly binary operators bind."""
_PLACED = re.compile(rf"\s*(?:extern\s+)?(?:(?:const|volatile)\s+)*{ADDRESS_SPACE.pattern}")
_COORDINATE = re.compile(r"(threadIdx|blockIdx|blockDim|gridDim)\.[xyz]")


def parse_statements(nodes: Sequence[Node]) -> tuple[Stmt, ...]:
    """Statements of one scope; the loops have keys."""
    return with_keys(_statements(nodes))


def with_keys(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Labels every loop with its variable, numbered in the order of the source where it is not the only one."""
    counts: dict[str, int] = {}

    def visit(part: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(with_bodies(labelled(stmt), visit) for stmt in part)

    def labelled(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, For):
            return stmt
        counts[stmt.var] = number = counts.get(stmt.var, 0) + 1
        return replace(stmt, key=stmt.var if number == 1 else f"{stmt.var}#{number}")

    return visit(body)


def _statements(nodes: Sequence[Node]) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    pragmas: list[str] = []
    for node in nodes:
        if node.type == "preproc_call" and node_text(node).startswith("#pragma"):
            pragmas.append(" ".join(node_text(node).split()[1:]))
            continue
        found = _statement(node)
        if pragmas:
            if found and isinstance(found[0], For):
                found[0] = replace(found[0], pragmas=tuple(pragmas))
            else:
                made += [OpaqueStmt(f"#pragma {p}") for p in pragmas]
            pragmas = []
        made += found
    made += [OpaqueStmt(f"#pragma {p}") for p in pragmas]
    return tuple(made)


def _scope(node: Node | None) -> tuple[Stmt, ...]:
    """A loop's or branch's body without its braces."""
    if node is None:
        return ()
    if node.type == "compound_statement":
        return _statements(node.named_children)
    return _statements([node])


def _statement(node: Node) -> list[Stmt]:
    if node.has_error:
        return _placed(node_text(node)) or [OpaqueStmt(node_text(node))]
    match node.type:
        case "comment":
            return [Comment(node_text(node))]
        case "expression_statement":
            inner = node.named_children
            return [ExprStmt(_effect(inner[0]))] if inner else []
        case "declaration":
            return _declarations(node)
        case "compound_statement":
            return [Block(_statements(node.named_children))]
        case "for_statement":
            return [_for(node) or OpaqueStmt(node_text(node))]
        case "if_statement":
            return [_if(node) or OpaqueStmt(node_text(node))]
        case "enum_specifier" | "struct_specifier" | "union_specifier" | "class_specifier":
            # Its semicolon is a statement to the grammar.
            return [OpaqueStmt(f"{node_text(node)};")]
    return [OpaqueStmt(node_text(node))]


def _placed(text: str) -> list[Stmt]:
    """Declarations with an address space, which the grammar does not know; none for anything else."""
    if not _PLACED.match(text):
        return []
    words = ADDRESS_SPACE.findall(text.split("[")[0].split("=")[0])
    root = parse_file(f"void f(void) {{ {ADDRESS_SPACE.sub('', text, count=len(words))} }}".encode(), "c++")
    if root.has_error:
        return []
    body = next(function_nodes(root))[1].child_by_field_name("body")
    made = [] if body is None else [s for n in body.named_children for s in _statement(n)]
    if not all(isinstance(s, Decl) for s in made):
        return []
    return [replace(s, type=" ".join([*words, *s.type.split()])) for s in made if isinstance(s, Decl)]


def _declarations(node: Node) -> list[Stmt]:
    declarators = node.children_by_field_name("declarator")
    if not declarators:
        return [OpaqueStmt(node_text(node))]
    base = " ".join(node_slice(node, node.start_byte, declarators[0].start_byte).split())
    made: list[Stmt] = []
    for declarator in declarators:
        decl = _declarator(base, declarator)
        if decl is None:
            return [OpaqueStmt(node_text(node))]
        made.append(decl)
    return made


def _declarator(base: str, node: Node) -> Decl | None:
    init = None
    if node.type == "init_declarator":
        value = node.child_by_field_name("value")
        inner = node.child_by_field_name("declarator")
        if value is None or inner is None:
            return None
        init, node = read_expression(value), inner
    dims: list[Expr] = []
    stars = ""
    while node.type != "identifier":
        inner = node.child_by_field_name("declarator")
        if inner is None:
            return None
        if node.type == "array_declarator":
            size = node.child_by_field_name("size")
            if size is None:
                return None
            dims.insert(0, read_expression(size))
        elif node.type == "pointer_declarator" and not dims:
            kept = " ".join(node_text(c) for c in node.children if c.type == "type_qualifier")
            stars += f"*{kept + ' ' if kept else ''}"
        else:
            return None
        node = inner
    return Decl(f"{base} {stars}" if stars else base, node_text(node), tuple(dims), init)


def _for(node: Node) -> For | None:
    start = node.child_by_field_name("initializer")
    condition = node.child_by_field_name("condition")
    update = node.child_by_field_name("update")
    if start is None or condition is None or update is None:
        return None
    head = _loop_start(start)
    test = read_expression(condition)
    if head is None or not isinstance(test, Binary) or test.op not in _MIRRORED:
        return None
    kind, var, first = head
    op, limit = test.op, test.right
    if test.left != Name(var):
        if test.right != Name(var):
            return None
        op, limit = _MIRRORED[op], test.left
    change = _effect(update)
    step = _loop_step(change, var, upward=op in ("<", "<="))
    if step is None:
        return None
    body = _scope(node.child_by_field_name("body"))
    return For("", kind, var, first, op, limit, step, body)


def _loop_start(node: Node) -> tuple[str, str, Expr] | None:
    if node.type == "declaration":
        found = _declarations(node)
        if len(found) != 1 or not isinstance(found[0], Decl):
            return None
        decl = found[0]
        if decl.init is None or decl.dims or "*" in decl.type:
            return None
        return decl.type, decl.name, decl.init
    effect = _effect(node)
    if isinstance(effect, Assign) and effect.op == "=" and isinstance(effect.target, Name):
        return "", effect.target.id, effect.value
    return None


def _loop_step(change: Expr, var: str, *, upward: bool) -> Expr | None:
    if not isinstance(change, Assign) or change.target != Name(var):
        return None
    wanted = "+" if upward else "-"
    if change.op == f"{wanted}=":
        return change.value
    value = change.value
    if change.op == "=" and isinstance(value, Binary) and value.op == wanted and value.left == Name(var):
        return value.right
    return None


def _if(node: Node) -> If | None:
    condition = node.child_by_field_name("condition")
    if condition is None or condition.type not in ("parenthesized_expression", "condition_clause"):
        return None
    other = node.child_by_field_name("alternative")
    if other is not None and other.type == "else_clause":
        other = next((c for c in other.named_children if c.type != "comment"), None)
    test = condition.named_children
    if len(test) != 1:
        return None
    return If(read_expression(test[0]), _scope(node.child_by_field_name("consequence")), _scope(other))


def _effect(node: Node) -> Expr:
    """An expression whose value is not used: ``x++`` is ``x += 1``."""
    if node.type == "update_expression":
        argument = node.child_by_field_name("argument")
        if argument is not None:
            op = "+=" if "++" in (c.type for c in node.children) else "-="
            return Assign(op, read_expression(argument), Number("1"))
    return read_expression(node)


def read_expression(node: Node) -> Expr:
    """An expression; opaque where it is not known for certain what it means."""
    made = None if doubtful(node) else _known(node)
    return Opaque(node_text(node)) if made is None else made


def is_enclosed(node: Node) -> bool:
    """Whether parentheses hold one expression, and not the statements of one of GNU's."""
    return len(node.named_children) == 1 and node.named_children[0].type != "compound_statement"


def _known(node: Node) -> Expr | None:
    match node.type:
        case "identifier":
            return Name(node_text(node))
        case "number_literal" | "char_literal" | "true" | "false":
            text = node_text(node)
            # The grammar counts a sign to the literal.
            return Unary(text[0], Number(text[1:])) if text[0] in "+-" else Number(text)
        case "parenthesized_expression" if is_enclosed(node):
            return read_expression(node.named_children[0])
        case "field_expression" if _COORDINATE.fullmatch(node_text(node)):
            return Name(node_text(node))
        case "subscript_expression":
            return read_subscript(node)
        case "unary_expression" | "pointer_expression":
            return Unary(operator_of(node), _field(node, "argument"))
        case "binary_expression" if operator_of(node) in _STRENGTH:
            misread = operands_of(node)
            if misread is not None:
                return _regrouped(misread) if misread else None
            return Binary(operator_of(node), _field(node, "left"), _field(node, "right"))
        case "conditional_expression":
            parts = [_field(node, f) for f in ("condition", "consequence", "alternative")]
            return Ternary(parts[0], parts[1], parts[2])
        case "cast_expression":
            kind = node.child_by_field_name("type")
            return None if kind is None else Cast(" ".join(node_text(kind).split()), _field(node, "value"))
        case "assignment_expression" if operator_of(node) in _ASSIGN_OPS:
            return Assign(operator_of(node), _field(node, "left"), _field(node, "right"))
        case "call_expression":
            cast = cast_of_call(node)
            if cast is not None:
                return Cast(cast[0], read_expression(cast[1]))
            function, arguments = (node.child_by_field_name(f) for f in ("function", "arguments"))
            if function is None or arguments is None or function.type != "identifier" or divided(arguments):
                return None
            given = (read_expression(a) for a in arguments.named_children if a.type != "comment")
            return Call(node_text(function), tuple(given))
    return None


def _regrouped(parts: list[Node | MisreadCast | str]) -> Expr | None:
    """Operands and operators grouped anew, where an operand is a type: what follows it is what is cast."""
    waiting = list(reversed(parts))

    def operand() -> Expr:
        part = waiting.pop()
        if not isinstance(part, MisreadCast):
            return Opaque(part) if isinstance(part, str) else read_expression(part)
        made: Expr = Cast(part.type, Unary(str(waiting.pop()), operand()))
        for before in reversed(part.before):
            made = Cast(before[1:-1], made) if before[0] == "(" else Unary(before, made)
        return made

    def joined(least: int) -> Expr:
        left = operand()
        while waiting and _STRENGTH.get(str(waiting[-1]), -1) >= least:
            op = str(waiting.pop())
            left = Binary(op, left, joined(_STRENGTH[op] + 1))
        return left

    made = joined(0)
    return None if waiting else made


def read_subscript(node: Node) -> Expr | None:
    """An element; ``None`` where it has not one subscript."""
    base = node.child_by_field_name("argument")
    index = node.child_by_field_name("index")
    if index is None:
        found = node.child_by_field_name("indices")
        inner = [] if found is None else found.named_children
        index = inner[0] if len(inner) == 1 else None
    if base is None or index is None:
        return None
    return Index(read_expression(base), read_expression(index))


def _field(node: Node, name: str) -> Expr:
    child = node.child_by_field_name(name)
    return Opaque("") if child is None else read_expression(child)


def operator_of(node: Node) -> str:
    """The operator of an expression; empty where it has none."""
    operator = node.child_by_field_name("operator")
    return "" if operator is None else node_text(operator)
