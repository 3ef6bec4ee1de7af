"""The tree as C text: four spaces, one statement a line, no more parentheses than C needs. May not change anything."""

from __future__ import annotations

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
    Opaque,
    OpaqueStmt,
    Param,
    Stmt,
    Ternary,
    Unary,
)

__all__ = [
    "UNIT",
    "WIDTH",
    "expression_text",
    "function_text",
    "param_text",
    "preamble_text",
    "statement_text",
]

WIDTH = 110
"""Characters of a line at most, where it can be broken."""

UNIT = "    "
"""One level of indentation, where nothing else is asked for."""

_PRECEDENCE = {
    **dict.fromkeys(("*", "/", "%"), 12),
    **dict.fromkeys(("+", "-"), 11),
    **dict.fromkeys(("<<", ">>"), 10),
    **dict.fromkeys(("<", ">", "<=", ">="), 9),
    **dict.fromkeys(("==", "!="), 8),
    "&": 7,
    "^": 6,
    "|": 5,
    "&&": 4,
    "||": 3,
    ",": 0,
}
_TERNARY, _ASSIGN, _UNARY, _POSTFIX, _ATOM = 2, 1, 13, 14, 15
_CLEARER = {("<<", 11), (">>", 11), ("&", 12), ("&", 11), ("|", 12), ("|", 11), ("||", 4)}
_CLEARER |= {(op, 9) for op in ("<", ">", "<=", ">=")}


def expression_text(expr: Expr, context: int = 0) -> str:
    """C text of an expression; in parentheses where its operator binds less than ``context``."""
    text, strength = _expression(expr)
    return f"({text})" if strength < context else text


def _expression(expr: Expr) -> tuple[str, int]:
    match expr:
        case Name(id=text):
            return text, _ATOM
        case Number(text=text):
            return text, _ATOM
        case Opaque(text=text):
            return text, _ATOM if text.startswith(('"', "'", "{")) else 0
        case Unary(op=op, operand=operand):
            inner = expression_text(operand, _UNARY)
            # "- -x" must not become "--x".
            gap = " " if inner.startswith(op) and op in "+-&" else ""
            return f"{op}{gap}{inner}", _UNARY
        case Cast(type=name, operand=operand, form="static_cast"):
            return f"static_cast<{name}>({expression_text(operand, _ASSIGN)})", _POSTFIX
        case Cast(type=name, operand=operand, form="call") if " " not in name:
            return f"{name}({expression_text(operand, _ASSIGN)})", _POSTFIX
        case Cast(type=name, operand=operand):
            return f"({name}){expression_text(operand, _UNARY)}", _UNARY
        case Index(base=base, index=index):
            return f"{expression_text(base, _POSTFIX)}[{expression_text(index)}]", _POSTFIX
        case Field(base=Index(base=base, index=Number(text="0")), name=name):
            return f"{expression_text(base, _POSTFIX)}->{name}", _POSTFIX
        case Field(base=base, name=name):
            return f"{expression_text(base, _POSTFIX)}.{name}", _POSTFIX
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(expression_text(a, _ASSIGN) for a in arguments)})", _POSTFIX
        case Binary(op=op, left=left, right=right):
            return _binary(op, left, right)
        case Ternary(condition=condition, then=then, other=other):
            parts = (expression_text(e, _TERNARY + 1) for e in (condition, then))
            return f"{' ? '.join(parts)} : {expression_text(other, _TERNARY)}", _TERNARY
        case Assign(op=op, target=target, value=value):
            return f"{expression_text(target, _UNARY)} {op} {expression_text(value, _ASSIGN)}", _ASSIGN


def _binary(op: str, left: Expr, right: Expr) -> tuple[str, int]:
    strength = _PRECEDENCE[op]
    sides = []
    for side, least in ((left, strength), (right, strength + 1)):
        text, inner = _expression(side)
        sides.append(f"({text})" if inner < least or (op, inner) in _CLEARER else text)
    gap = "" if op == "," else " "
    return f"{sides[0]}{gap}{op} {sides[1]}", strength


def statement_text(stmt: Stmt, indent: int = 0) -> str:
    """C text of a statement with a line break at its end."""
    return _statement(stmt, UNIT * indent, UNIT)


def _statement(stmt: Stmt, pad: str, unit: str) -> str:
    match stmt:
        case ExprStmt(expr=expr):
            return _wrap(f"{pad}{expression_text(expr)};", pad, unit)
        case Decl():
            return _wrap(f"{pad}{_declaration(stmt)};", pad, unit)
        case For():
            return _for(stmt, pad, unit)
        case If():
            return _if(stmt, pad, unit)
        case Block(body=body):
            return f"{pad}{{\n{_body(body, pad + unit, unit)}{pad}}}\n"
        case Comment(text=text):
            return f"{pad}{text}\n"
        case OpaqueStmt(text=text):
            # A preprocessor line has to begin a line of its own; other text keeps its inner layout.
            return f"{text.rstrip()}\n" if text.startswith("#") else f"{pad}{text.rstrip()}\n"


def _body(body: tuple[Stmt, ...], pad: str, unit: str) -> str:
    return "".join(_statement(s, pad, unit) for s in body)


def _declaration(decl: Decl) -> str:
    star = "" if decl.type.endswith("*") else " "
    dims = "".join(f"[{expression_text(d)}]" for d in decl.dims)
    suffix = f" {decl.suffix}" if decl.suffix else ""
    init = "" if decl.init is None else f" = {expression_text(decl.init, _ASSIGN)}"
    if decl.row_element:
        return f"{decl.type.replace('(*)', f'(*{decl.name})', 1)}{suffix}{init}"
    return f"{decl.type}{star}{decl.name}{dims}{suffix}{init}"


def _for(loop: For, pad: str, unit: str) -> str:
    lines = "".join(f"{pad}#pragma {p}\n" for p in loop.pragmas)
    start = f"{loop.type + ' ' if loop.type else ''}{loop.var} = {expression_text(loop.start, _ASSIGN)}"
    sign = "+" if loop.upward else "-"
    # The limit is compared: a conditional or logical one needs parentheses.
    condition = f"{loop.var} {loop.op} {expression_text(loop.limit, _PRECEDENCE['<'] + 1)}"
    step = f"{loop.var}{sign * 2}" if loop.by_one else f"{loop.var} {sign}= {expression_text(loop.step)}"
    head = f"{pad}for ({start}; {condition}; {step}) {{\n"
    return f"{lines}{head}{_body(loop.body, pad + unit, unit)}{pad}}}\n"


def _if(stmt: If, pad: str, unit: str) -> str:
    text = f"{pad}if ({expression_text(stmt.condition)}) {{\n{_body(stmt.then, pad + unit, unit)}{pad}}}"
    if not stmt.other:
        return f"{text}\n"
    if len(stmt.other) == 1 and isinstance(stmt.other[0], If):
        return f"{text} else {_statement(stmt.other[0], pad, unit).lstrip()}"
    return f"{text} else {{\n{_body(stmt.other, pad + unit, unit)}{pad}}}\n"


def _wrap(line: str, pad: str, unit: str) -> str:
    """Breaks a long line after an operator at the depth of its parentheses that is least."""
    if len(line) <= WIDTH or '"' in line:
        return f"{line}\n"
    best, depth = -1, 0
    best_depth = 1 << 30
    for position, char in enumerate(line[:WIDTH]):
        depth += (char in "([{") - (char in ")]}")
        if (
            char == " "
            and line[position - 1] in "+-*/,=?:&|"
            and position > len(pad) + 8
            and depth <= best_depth
        ):
            best, best_depth = position, depth
    if best < 0:
        return f"{line}\n"
    rest = pad + unit + line[best + 1 :]
    if len(rest) >= len(line):
        return f"{line}\n"
    return f"{line[:best]}\n{_wrap(rest, pad, unit)}"


def param_text(param: Param) -> str:
    """A parameter's declaration."""
    if not param.plain:
        return param.text
    qualifiers = " ".join(param.qualifiers)
    stars = "*" * param.stars
    gap = " " if qualifiers else ""
    return f"{param.base} {stars}{qualifiers}{gap}{param.name}"


def preamble_text(function: Function) -> str:
    """Defaults of tunables, then type definitions."""
    lines = []
    for define in function.defines:
        lines.append(f"#ifndef {define.name}\n#define {define.name} {define.value}\n#endif\n")
    lines += [f"{text}\n" for text in function.preamble]
    return "".join(lines)


def function_text(function: Function, indent: int = 1, *, pad: str | None = None, unit: str = UNIT) -> str:
    """The definition with its preamble, or the region's statements.

    Args:
        function: to print.
        indent: level of indentation of its statements.
        pad: what stands before its statements instead.
        unit: one level of indentation.
    """
    before = unit * indent if pad is None else pad
    end = "" if pad is None else pad.removesuffix(unit)
    body = _body(function.body, before, unit)
    if not function.whole:
        return preamble_text(function) + body
    if function.signature:
        return f"{preamble_text(function)}{function.signature}{{\n{body}{end}}}"
    params = ", ".join(param_text(p) for p in function.params) or "void"
    head = f"{function.head}{function.name}({params})"
    if len(head) > WIDTH and function.params:
        line = f",\n{UNIT}"
        head = f"{function.head}{function.name}({line.join(param_text(p) for p in function.params)})"
    return f"{preamble_text(function)}{head}\n{{\n{body}{end}}}"
