"""C and C++ text into the tree of :mod:`tuner.spaces.source.syntax`, with tree-sitter.

Never fails on what it does not know: that becomes opaque text. May not judge what a transformation may do.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tuner.core.errors import MachineError
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
    Param,
    Stmt,
    Ternary,
    Unary,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

__all__ = [
    "definition_start",
    "function_nodes",
    "name_start",
    "parameters",
    "parse_file",
    "parse_statements",
    "with_keys",
]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ASSIGN_OPS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=")
_BINARY_OPS = (
    "*",
    "/",
    "%",
    "+",
    "-",
    "<<",
    ">>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "|",
    "&&",
    "||",
)


@cache
def _parser(language: str) -> Parser:
    try:
        import tree_sitter

        grammar = importlib.import_module("tree_sitter_c" if language == "c" else "tree_sitter_cpp")
    except ImportError as error:
        raise MachineError(
            f"source variants need tree-sitter: {error}",
            "pip install tree-sitter tree-sitter-c tree-sitter-cpp",
        ) from None
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def parse_file(text: bytes, language: str) -> Node:
    """The root of the concrete syntax tree; ``language`` is ``c``, or anything else that C++ grammar reads."""
    return _parser("c" if language == "c" else "c++").parse(text).root_node


def function_nodes(root: Node) -> Iterator[tuple[str, Node]]:
    """Names and nodes of all function definitions, in the order of the source."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "function_definition":
            declarator = _function_declarator(node)
            name = None if declarator is None else declarator.child_by_field_name("declarator")
            if name is not None:
                yield _text(name), node
            continue
        stack.extend(reversed(node.children))


def definition_start(node: Node) -> int:
    """Where a function's definition begins with what stands around it: ``template <…>``, ``extern "C"``."""
    start: int = node.start_byte
    parent = node.parent
    while parent is not None and parent.type in ("template_declaration", "linkage_specification"):
        if parent.end_byte != node.end_byte:
            break
        start, parent = parent.start_byte, parent.parent
    return start


def name_start(node: Node) -> int:
    """Where a function definition's name begins."""
    declarator = _function_declarator(node)
    name = None if declarator is None else declarator.child_by_field_name("declarator")
    return node.start_byte if name is None else name.start_byte


def _function_declarator(node: Node) -> Node | None:
    current = node.child_by_field_name("declarator")
    while current is not None and current.type != "function_declarator":
        current = current.child_by_field_name("declarator")
    return current


def parameters(function: Node) -> tuple[Param, ...]:
    """A function definition's parameters."""
    declarator = _function_declarator(function)
    found = None if declarator is None else declarator.child_by_field_name("parameters")
    if found is None:
        return ()
    params = [_param(n) for n in found.named_children if n.type != "comment"]
    return tuple(p for p in params if p.text != "void")


def _param(node: Node) -> Param:
    text = _text(node)
    declarator = node.child_by_field_name("declarator")
    if declarator is None:
        return Param(base=text, stars=0, qualifiers=(), name="", suffix="?", text=text)
    base = _slice(node, node.start_byte, declarator.start_byte).strip()
    stars, qualifiers, suffix = 0, [], ""
    current: Node | None = declarator
    while current is not None and current.type != "identifier":
        inner = current.child_by_field_name("declarator")
        if current.type == "pointer_declarator":
            stars += 1
            qualifiers += [
                _text(c) for c in current.children if c.type in ("type_qualifier", "ms_restrict_modifier")
            ]
        elif inner is None:
            inner = next(
                (c for c in current.named_children if "declarator" in c.type or c.type == "identifier"), None
            )
            suffix += "?"
        else:
            suffix = _slice(current, inner.end_byte, current.end_byte).strip() + suffix
        current = inner
    name = "" if current is None else _text(current)
    return Param(base=base, stars=stars, qualifiers=tuple(qualifiers), name=name, suffix=suffix, text=text)


def parse_statements(nodes: Sequence[Node]) -> tuple[Stmt, ...]:
    """Statements of one scope; the loops have keys."""
    return with_keys(_statements(nodes))


def with_keys(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Labels every loop with its variable, numbered in the order of the source where it is not the only one."""
    counts: dict[str, int] = {}

    def visit(part: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in part:
            if isinstance(stmt, For):
                counts[stmt.var] = number = counts.get(stmt.var, 0) + 1
                key = stmt.var if number == 1 else f"{stmt.var}#{number}"
                made.append(replace(stmt, key=key, body=visit(stmt.body)))
            elif isinstance(stmt, Block):
                made.append(Block(visit(stmt.body)))
            elif isinstance(stmt, If):
                made.append(If(stmt.condition, visit(stmt.then), visit(stmt.other)))
            else:
                made.append(stmt)
        return tuple(made)

    return visit(body)


def _statements(nodes: Sequence[Node]) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    pragmas: list[str] = []
    for node in nodes:
        if node.type == "preproc_call" and _text(node).startswith("#pragma"):
            pragmas.append(" ".join(_text(node).split()[1:]))
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
        return [OpaqueStmt(_text(node))]
    match node.type:
        case "comment":
            return [Comment(_text(node))]
        case "expression_statement":
            inner = node.named_children
            return [ExprStmt(_effect(inner[0]))] if inner else []
        case "declaration":
            return _declarations(node)
        case "compound_statement":
            return [Block(_statements(node.named_children))]
        case "for_statement":
            return [_for(node) or OpaqueStmt(_text(node))]
        case "if_statement":
            return [_if(node) or OpaqueStmt(_text(node))]
    return [OpaqueStmt(_text(node))]


def _declarations(node: Node) -> list[Stmt]:
    declarators = node.children_by_field_name("declarator")
    if not declarators:
        return [OpaqueStmt(_text(node))]
    base = " ".join(_slice(node, node.start_byte, declarators[0].start_byte).split())
    made: list[Stmt] = []
    for declarator in declarators:
        decl = _declarator(base, declarator)
        if decl is None:
            return [OpaqueStmt(_text(node))]
        made.append(decl)
    return made


def _declarator(base: str, node: Node) -> Decl | None:
    init = None
    if node.type == "init_declarator":
        value = node.child_by_field_name("value")
        inner = node.child_by_field_name("declarator")
        if value is None or inner is None:
            return None
        init, node = _expression(value), inner
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
            dims.insert(0, _expression(size))
        elif node.type == "pointer_declarator" and not dims:
            kept = " ".join(_text(c) for c in node.children if c.type == "type_qualifier")
            stars += f"*{kept + ' ' if kept else ''}"
        else:
            return None
        node = inner
    return Decl(f"{base} {stars}" if stars else base, _text(node), tuple(dims), init)


def _for(node: Node) -> For | None:
    start = node.child_by_field_name("initializer")
    condition = node.child_by_field_name("condition")
    update = node.child_by_field_name("update")
    if start is None or condition is None or update is None:
        return None
    head = _loop_start(start)
    test = _expression(condition)
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
    return If(_expression(test[0]), _scope(node.child_by_field_name("consequence")), _scope(other))


def _effect(node: Node) -> Expr:
    """An expression whose value is not used: ``x++`` is ``x += 1``."""
    if node.type == "update_expression":
        argument = node.child_by_field_name("argument")
        if argument is not None:
            op = "+=" if "++" in (c.type for c in node.children) else "-="
            return Assign(op, _expression(argument), Number("1"))
    return _expression(node)


def _expression(node: Node) -> Expr:
    made = _known(node)
    return Opaque(_text(node)) if made is None else made


def _known(node: Node) -> Expr | None:
    match node.type:
        case "identifier":
            return Name(_text(node))
        case "number_literal" | "char_literal" | "true" | "false":
            text = _text(node)
            # The grammar counts a sign to the literal.
            return Unary(text[0], Number(text[1:])) if text[0] in "+-" else Number(text)
        case "parenthesized_expression" if len(node.named_children) == 1:
            return _expression(node.named_children[0])
        case "subscript_expression":
            return _subscript(node)
        case "unary_expression" | "pointer_expression":
            return Unary(_operator(node), _field(node, "argument"))
        case "binary_expression" if _operator(node) in _BINARY_OPS:
            return Binary(_operator(node), _field(node, "left"), _field(node, "right"))
        case "conditional_expression":
            parts = [_field(node, f) for f in ("condition", "consequence", "alternative")]
            return Ternary(parts[0], parts[1], parts[2])
        case "cast_expression":
            kind = node.child_by_field_name("type")
            return None if kind is None else Cast(" ".join(_text(kind).split()), _field(node, "value"))
        case "assignment_expression" if _operator(node) in _ASSIGN_OPS:
            return Assign(_operator(node), _field(node, "left"), _field(node, "right"))
        case "call_expression":
            function, arguments = (node.child_by_field_name(f) for f in ("function", "arguments"))
            if function is None or arguments is None or function.type != "identifier":
                return None
            given = (_expression(a) for a in arguments.named_children if a.type != "comment")
            return Call(_text(function), tuple(given))
    return None


def _subscript(node: Node) -> Expr | None:
    base = node.child_by_field_name("argument")
    index = node.child_by_field_name("index")
    if index is None:
        found = node.child_by_field_name("indices")
        inner = [] if found is None else found.named_children
        index = inner[0] if len(inner) == 1 else None
    if base is None or index is None:
        return None
    return Index(_expression(base), _expression(index))


def _field(node: Node, name: str) -> Expr:
    child = node.child_by_field_name(name)
    return Opaque("") if child is None else _expression(child)


def _operator(node: Node) -> str:
    operator = node.child_by_field_name("operator")
    return "" if operator is None else _text(operator)


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _slice(node: Node, start: int, end: int) -> str:
    text = node.text or b""
    return text[start - node.start_byte : end - node.start_byte].decode("utf-8", "replace")
