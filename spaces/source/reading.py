"""Statements and expressions of tree-sitter's nodes as the tree of :mod:`tuner.spaces.source.syntax`.

Never fails on what it does not know: that becomes opaque text. May not judge what a transformation may do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.spaces.source.casts import MisreadCast, cast_of_call, divided, doubtful, operands_of
from tuner.spaces.source.kinds import MAY_WRAP, is_integer
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
from tuner.spaces.source.walks import names_in, statements, with_bodies, written_names

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
            if node.type == "for_statement" and len(found) != 1:
                # A pragma is for the loop, and not for what its head does beside.
                found = [OpaqueStmt(node_text(node))]
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
            return _effects(inner[0]) if inner else []
        case "declaration":
            return _declarations(node)
        case "compound_statement":
            return [Block(_statements(node.named_children))]
        case "for_statement":
            return _for(node) or [OpaqueStmt(node_text(node))]
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


def _for(node: Node) -> list[Stmt]:
    """A counting loop; what else its head begins stands before it, what else its head changes at the body's end."""
    parts = [node.child_by_field_name(field) for field in ("initializer", "condition", "update")]
    start, condition, update = parts
    if start is None or condition is None or update is None:
        return []
    begun, steps, test = _begun(start), [_effect(p) for p in _operands(update)], read_expression(condition)
    counted = [d for d in begun if isinstance(test, Binary) and Name(d.name) in (test.left, test.right)]
    if len(counted) != 1 or not isinstance(test, Binary):
        return []
    counter = counted[0]
    var, first = Name(counter.name), counter.init
    changes = [s for s in steps if isinstance(s, Assign) and s.target == var]
    body = without_continues(_scope(node.child_by_field_name("body")))
    if len(changes) != 1 or first is None or not _is_beside(counter, begun, changes[0], steps, body):
        return []
    op = test.op if test.left == var else _MIRRORED.get(test.op, test.op)
    limit = test.right if test.left == var else test.left
    if op == "!=":
        op = _direction(counter.type, changes[0], body)
    step = _loop_step(changes[0], var.id, upward=op in ("<", "<="))
    if op not in _MIRRORED or step is None:
        return []
    body = (*body, *(ExprStmt(s) for s in steps if s is not changes[0]))
    loop = For("", counter.type, var.id, first, op, limit, step, body)
    others = [d for d in begun if d is not counter]
    if not counter.type:
        return [*(ExprStmt(Assign("=", Name(d.name), d.init or first)) for d in others), loop]
    return [Block((*others, loop))] if others else [loop]


def _begun(node: Node) -> list[Decl]:
    """What a loop's head gives variables to begin with; without types where they are declared before."""
    if node.type == "declaration":
        found = _declarations(node)
        plain = [d for d in found if isinstance(d, Decl) and d.init is not None and not d.dims]
        return plain if len(plain) == len(found) and not any("*" in d.type for d in plain) else []
    made: list[Decl] = []
    for part in _operands(node):
        match _effect(part):
            case Assign(op="=", target=Name(id=name), value=value):
                made.append(Decl("", name, (), value))
            case _:
                return []
    return made


def _is_beside(
    counter: Decl, begun: Sequence[Decl], change: Assign, steps: Sequence[Expr], body: tuple[Stmt, ...]
) -> bool:
    """Whether what else a loop's head does may be done before the loop, and at the end of its body."""
    others = [d for d in begun if d is not counter]
    further = [s for s in steps if s is not change]
    names = {counter.name, *(d.name for d in others)}
    values = [d.init for d in begun if d.init is not None]
    return (
        all(isinstance(s, Assign) for s in further)
        and (not others or names.isdisjoint(names_in(tuple(values))))
        and counter.name not in names_in(tuple(further)) | written_names(tuple(further))
        and not (further and any(isinstance(s, OpaqueStmt) for s in statements(body)))
    )


def _direction(kind: str, change: Assign, body: tuple[Stmt, ...]) -> str:
    """``i != n`` as a comparison, in signed numbers that go by one: past ``n`` they would overflow."""
    signed = is_integer(kind) and MAY_WRAP.search(kind) is None
    if not signed or change.value != Number("1") or any(isinstance(s, OpaqueStmt) for s in statements(body)):
        return ""
    return {"+=": "<", "-=": ">"}.get(change.op, "")


def without_continues(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """A loop's body with what follows ``if (…) continue;`` under the opposite condition."""
    for at, stmt in enumerate(body):
        match stmt:
            case If(condition=condition, then=(*kept, OpaqueStmt(text="continue;")), other=()):
                rest = without_continues(body[at + 1 :])
                if kept:
                    return (*body[:at], If(condition, tuple(kept), rest))
                return (*body[:at], If(Unary("!", condition), rest)) if rest else body
    return body


def _operands(node: Node) -> list[Node]:
    """What stands between commas."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if node.type != "comma_expression" or left is None or right is None:
        return [node]
    return [*_operands(left), *_operands(right)]


def _effects(node: Node) -> list[Stmt]:
    """A statement for each assignment between commas; in C++ commas may mean something else for anything but those."""
    parts = [_effect(part) for part in _operands(node)]
    if len(parts) > 1 and not all(isinstance(part, Assign) for part in parts):
        parts = [_effect(node)]
    return [ExprStmt(part) for part in parts]


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
