"""Statements of tree-sitter's nodes as the tree of :mod:`tuner.spaces.source.syntax`.

Never fails on what it does not know: that becomes opaque text. May not judge what a transformation may do.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.spaces.source.declared_variables import declared_variable
from tuner.spaces.source.expressions import read_expression
from tuner.spaces.source.increments import Stepped, without_increments
from tuner.spaces.source.kinds import is_integer, is_pure
from tuner.spaces.source.loop_tests import guarded, loop_head, tested
from tuner.spaces.source.parse import (
    ADDRESS_SPACE,
    declared_type,
    file_text,
    node_slice,
    node_text,
    statement_nodes,
)
from tuner.spaces.source.syntax import (
    Assign,
    Block,
    Cast,
    Comment,
    Decl,
    Expr,
    ExprStmt,
    For,
    If,
    Name,
    Number,
    OpaqueStmt,
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import names_in, statements, with_bodies, written_names

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["parse_statements"]

_MARKS = ("scop", "endscop")
"""Pragmas that say to polyhedral tools where a passage begins and ends, and nothing to a compiler or of a loop."""
_CONTINUED = re.compile(r"\\\r?\n")
_EACH_TIME = re.compile(r"\*|\b(?:static|extern|volatile|_Atomic|_?_?[a-z_]*thread[a-z_]*|const)\b")
"""Of variables that are not given their first value wherever they are declared, or no plain numbers."""
_CPP = re.compile(r"\btemplate\s*<|\bnamespace\b|::")
"""Words that no file in C has."""
_PLACED = re.compile(rf"\s*(?:extern\s+)?(?:(?:const|volatile)\s+)*{ADDRESS_SPACE.pattern}")


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
            text = " ".join(_CONTINUED.sub(" ", node_text(node)).split()[1:])
            if text in _MARKS:
                made.append(Comment(f"#pragma {text}"))
            else:
                pragmas.append(text)
            continue
        loop = _while(node, made[-1]) if node.type == "while_statement" and made else None
        if loop is not None and isinstance(made[-1], ExprStmt):
            made.pop()
        found: list[Stmt] = _statement(node) if loop is None else [loop]
        if pragmas:
            if node.type == "for_statement" and not (len(found) == 1 and isinstance(found[0], For)):
                # A pragma is for the loop, and not for what its head does beside, nor for a guard.
                found = [_unknown(node)]
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
        return _placed(node_text(node)) or [_unknown(node)]
    match node.type:
        case "comment":
            return [Comment(node_text(node))]
        case "expression_statement":
            inner = node.named_children
            return (_pointer_to_rows(node, inner[0]) or _effects(inner[0])) if inner else []
        case "declaration":
            return _declarations(node)
        case "compound_statement":
            return [Block(_statements(node.named_children))]
        case "for_statement":
            return _for(node) or [_unknown(node)]
        case "if_statement":
            return [_if(node) or _unknown(node)]
        case "enum_specifier" | "struct_specifier" | "union_specifier" | "class_specifier":
            # Its semicolon is a statement to the grammar.
            return [OpaqueStmt(f"{node_text(node)};")]
    return [_unknown(node)]


def _unknown(node: Node) -> OpaqueStmt:
    return OpaqueStmt(node_text(node), node.start_point[0] + 1)


def _pointer_to_rows(node: Node, inner: Node) -> list[Stmt]:
    """``double (*a)[8] = (double (*)[8])p;``, for the grammar an assignment to an element of what a call gives."""
    place, value = (inner.child_by_field_name(field) for field in ("left", "right"))
    while place is not None and place.type == "subscript_expression":
        place = place.child_by_field_name("argument")
    called = None if place is None else place.child_by_field_name("function")
    if called is None or value is None or inner.type != "assignment_expression":
        return []
    cast = read_expression(value)
    if not isinstance(cast, Cast) or cast.type.partition("(")[0].split() != node_text(called).split():
        return []
    # With a qualifier it is nothing else than a declaration.
    made = _declared(f"const {node_text(node)}")
    return [replace(decl, type=decl.type.removeprefix("const ")) for decl in made if decl.row_element]


def _declared(text: str) -> list[Decl]:
    """Declarations that stand in a text alone; none where it is anything else."""
    made = [s for node in statement_nodes(text, "c++") for s in _statement(node)]
    declared = [s for s in made if isinstance(s, Decl)]
    return declared if len(declared) == len(made) else []


def _placed(text: str) -> list[Stmt]:
    """Declarations with an address space, which the grammar does not know; none for anything else."""
    if not _PLACED.match(text):
        return []
    words = ADDRESS_SPACE.findall(text.split("[")[0].split("=")[0])
    made = _declared(ADDRESS_SPACE.sub("", text, count=len(words)))
    return [replace(s, type=" ".join([*words, *s.type.split()])) for s in made]


def _declarations(node: Node) -> list[Stmt]:
    declarators = node.children_by_field_name("declarator")
    if not declarators:
        return [_unknown(node)]
    base = " ".join(node_slice(node, node.start_byte, declarators[0].start_byte).split())
    made: list[Stmt] = []
    for declarator in declarators:
        decl = declared_variable(base, declarator)
        if decl is None:
            return [_unknown(node)]
        stepped = Stepped((), Name(""), ()) if decl.init is None else _stepped(decl.init, node)
        made += [ExprStmt(step) for step in stepped.before]
        made.append(decl if decl.init is None else replace(decl, init=stepped.expr))
        made += [ExprStmt(step) for step in stepped.after]
    return made


def _for(node: Node) -> list[Stmt]:
    """A counting loop; what else its head begins stands before it, what else its head changes at the body's end."""
    parts = [node.child_by_field_name(field) for field in ("initializer", "condition", "update")]
    start, condition, update = parts
    if start is None or condition is None or update is None:
        return []
    begun, steps, test = _begun(start), [_effect(p) for p in _operands(update)], read_expression(condition)
    counter = tested(test, begun)
    if counter is None:
        return []
    var, first = Name(counter.name), counter.init
    changes = [s for s in steps if isinstance(s, Assign) and s.target == var]
    body = without_continues(_scope(node.child_by_field_name("body")))
    if len(changes) != 1 or first is None or not _is_beside(counter, begun, changes[0], steps, body):
        return []
    head = loop_head(node, counter, test, changes[0], body)
    if head is None:
        return []
    body = (*body, *(ExprStmt(s) for s in steps if s is not changes[0]))
    loop = For("", counter.type, var.id, first, head.op, head.limit, head.step, body)
    made = guarded(head, loop)
    others = [d for d in begun if d is not counter]
    if not counter.type:
        # The counter is behind the loop what it was before the guard.
        set_before = others if made is loop else begun
        return [*(ExprStmt(Assign("=", Name(d.name), d.init or first)) for d in set_before), made]
    return [Block((*others, made))] if others else [made]


def _while(node: Node, before: Stmt) -> For | None:
    """``i = 0; while (i < n) { …; i++; }`` as a counting loop."""
    condition = node.child_by_field_name("condition")
    tests = condition.named_children if condition is not None else []
    body = _scope(node.child_by_field_name("body"))
    match before:
        case Decl(type=kind, dims=()) if _EACH_TIME.search(kind) is None:
            counter = before
        case ExprStmt(expr=Assign(op="=", target=Name(id=name), value=value)):
            counter = Decl("", name, (), value)
        case _:
            return None
    test = read_expression(tests[0]) if len(tests) == 1 else None
    last = body[-1].expr if body and isinstance(body[-1], ExprStmt) else None
    if not isinstance(last, Assign) or last.target != Name(counter.name) or test is None:
        return None
    within, var, first = body[:-1], Name(counter.name), counter.init
    if tested(test, [counter]) is None or first is None or not is_pure(first):
        return None
    # A `continue` would leave out the step; whatever else is text may be one.
    opaque = any(isinstance(s, OpaqueStmt) for s in statements(body))
    if opaque or var.id in written_names(within) or var.id in names_in(first):
        return None
    head = loop_head(node, counter, test, last, within)
    if head is None or head.guard is not None:
        return None
    return For("", "", var.id, first, head.op, head.limit, head.step, within)


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
        and not (
            further and any(isinstance(s, OpaqueStmt) and "continue" in s.text for s in statements(body))
        )
    )


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
    found = [_stepped(part, node) for part in parts]
    return [ExprStmt(each) for s in found for each in (*s.before, s.expr, *s.after)]


def _stepped(expr: Expr, node: Node) -> Stepped:
    """An expression with the increments of numbers and pointers apart; an iterator of C++ may know no other step."""
    made = without_increments(expr)
    names = written_names((*made.before, *made.after))
    kinds = [declared_type(node, name) for name in names]
    known = (
        "*" in kind or (is_integer(kind) and not _CPP.search(kind) and "<" not in kind) for kind in kinds
    )
    if all(known) or not _CPP.search(file_text(node)):
        return made
    return Stepped((), expr, ())


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
