"""Macros of a source's own text: what they stand for, and what a condition over them comes to.

Covers what kernels are written with: numbers, texts, functions, ``#`` before a parameter. A macro that takes any number
of arguments or pastes tokens is not known. May not read directives, and knows no macros of headers.

Source: ISO/IEC 9899:2011, 6.10.1 and 6.10.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.reading import parse_expression
from tuner.spaces.source.syntax import Binary, Expr, Number, Ternary, Unary

__all__ = [
    "PIECE",
    "Macro",
    "evaluate",
    "expand",
    "is_number",
    "loose_macros",
    "macro_of",
    "number_macro",
    "pieces",
    "truth",
]

PIECE = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
    |(?P<string>R"(?P<mark>[^ ()\\\t\v\f\n]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<directive>^[ \t]*\#(?:\\\n|//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[^\n])*\n?)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
"""What a text is made of; a directive is a whole line, with those that it goes on in."""

_PLAIN = re.compile(r"\s+\(?-?\.?\d[\w.]*\)?\s*(//.*|/\*.*)?$|\s*$")
_NUMBER = re.compile(r"\(?-?\.?\d[\w.]*\)?")
_WHOLE = re.compile(r"(0[xX][0-9a-fA-F]+|\d+)[uUlL]*")
_OCTAL = re.compile(r"[0-7]+")
_UNSIGNED = re.compile(r"\b\d\w*[uU][lL]*\b")
_PAST = 1 << 63
"""What comes after the largest number of a condition that has a sign."""

_DEFINE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<params>\([^)]*\))?(?P<body>.*)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\s*(?:\(\s*([A-Za-z_]\w*)\s*\)|([A-Za-z_]\w*))")
_DEEPEST = 60
_MOST_TOKENS = 20_000


@dataclass(frozen=True, slots=True)
class Macro:
    """What a name stands for; ``params`` is ``None`` for one without parentheses."""

    params: tuple[str, ...] | None
    body: tuple[str, ...]


Macros = Mapping[str, Macro | None]
"""By name; ``None`` for one that cannot be seen through."""


def pieces(text: str) -> list[str]:
    """A text's tokens, white space among them; comments count as a space."""
    made: list[str] = []
    for m in PIECE.finditer(text):
        if m["directive"]:
            # Inside a definition that is no directive.
            before, _, after = m[0].partition("#")
            made += [*before, "#", *pieces(after)]
        else:
            made.append(" " if m["comment"] else m[0])
    return made


def number_macro(value: int) -> Macro:
    """A macro that stands for a whole number."""
    return Macro(None, (str(value),) if value >= 0 else ("(", "-", str(-value), ")"))


def macro_of(definition: str) -> tuple[str, Macro | None]:
    """Name and meaning of what follows ``#define``.

    Raises:
        Refused: it defines nothing.
    """
    found = _DEFINE.fullmatch(definition.replace("\\\n", " ").strip())
    if found is None:
        raise Refused("a #define has no name")
    params = None
    if found["params"] is not None:
        params = tuple(p.strip() for p in found["params"][1:-1].split(",") if p.strip())
    body = tuple(pieces(found["body"].strip()))
    known = "##" not in "".join(body) and not any("..." in p for p in params or ())
    return found["name"], Macro(params, body) if known else None


def is_number(macro: Macro | None) -> bool:
    """Whether a macro stands for one number that scans know as such, so that its name may stay."""
    return macro is not None and macro.params is None and bool(_NUMBER.fullmatch("".join(macro.body)))


def expand(tokens: Sequence[str], macros: Macros, hidden: frozenset[str] = frozenset()) -> list[str]:
    """Tokens with macros replaced.

    Raises:
        Refused: a call is not closed or has another number of arguments; it grows without end.
    """
    if len(hidden) > _DEEPEST:
        raise Refused("macros are nested too deeply")
    made: list[str] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        macro = macros.get(token)
        at += 1
        if macro is not None and token in hidden:
            follows = _next(tokens, at)
            if macro.params is None or (follows is not None and tokens[follows] == "("):
                # The compiler would take what is left for a use of the macro once more.
                raise Refused(f"the macro {token} is about itself")
            macro = None
        if macro is None:
            made.append(token)
            continue
        body: Sequence[str] = macro.body
        if macro.params is not None:
            opening = _next(tokens, at)
            if opening is None or tokens[opening] != "(":
                made.append(token)
                continue
            given, at = _arguments(tokens, opening, token)
            body = _filled(token, macro, given, macros, hidden)
        made += expand(body, macros, hidden | {token})
        if len(made) > _MOST_TOKENS:
            raise Refused(f"the macro {token} grows too long")
        last = next((t for t in reversed(made) if not t.isspace()), "")
        follows = _next(tokens, at)
        if (
            follows is not None
            and tokens[follows] == "("
            and getattr(macros.get(last), "params", None) is not None
        ):
            raise Refused(f"the macro {token} ends with the name of another")
    return made


def _next(tokens: Sequence[str], at: int) -> int | None:
    while at < len(tokens) and tokens[at].isspace():
        at += 1
    return at if at < len(tokens) else None


def _arguments(tokens: Sequence[str], opening: int, name: str) -> tuple[list[list[str]], int]:
    found: list[list[str]] = [[]]
    depth = 0
    for at in range(opening, len(tokens)):
        token = tokens[at]
        if token == "(":
            depth += 1
            if depth == 1:
                continue
        elif token == ")":
            depth -= 1
            if not depth:
                return [_trimmed(a) for a in found], at + 1
        if token == "," and depth == 1:
            found.append([])
        else:
            found[-1].append(token)
    raise Refused(f"a use of the macro {name} is not closed")


def _trimmed(tokens: list[str]) -> list[str]:
    text = "".join(tokens).strip()
    return pieces(text)


def _filled(
    name: str, macro: Macro, given: Sequence[list[str]], macros: Macros, hidden: frozenset[str]
) -> list[str]:
    params = macro.params or ()
    if len(given) != len(params) and not (not params and not any(given)):
        raise Refused(f"the macro {name} is used with {len(given)} arguments")
    values = dict(zip(params, given, strict=False))
    made: list[str] = []
    at = 0
    while at < len(macro.body):
        token = macro.body[at]
        follows = _next(macro.body, at + 1)
        if token == "#" and params and follows is not None and macro.body[follows] in values:
            text = " ".join("".join(values[macro.body[follows]]).split())
            made.append('"' + re.sub(r'(["\\])', r"\\\1", text) + '"')
            at = follows + 1
            continue
        made += expand(values[token], macros, hidden) if token in values else [token]
        at += 1
    return made


def evaluate(condition: str, macros: Macros, defined: Mapping[str, bool]) -> int | None:
    """What the expression of an ``#if`` comes to, ``None`` where that hangs on what is not known.

    Args:
        condition: its text.
        macros: known ones.
        defined: names that are known to be defined, or not to be.
    """

    def asked(found: re.Match[str]) -> str:
        known = defined.get(found[1] or found[2])
        return "not_known" if known is None else str(int(known))

    text = _DEFINED.sub(asked, "".join(pieces(condition.replace("\\\n", " "))))
    try:
        whole = "".join(expand(pieces(text), macros))
        # Numbers without a sign and with one are the same where none is negative.
        return _value(parse_expression(whole), 0 if _UNSIGNED.search(whole) else -_PAST)
    except Refused:
        return None


def truth(value: int | None) -> bool | None:
    """As a condition."""
    return None if value is None else bool(value)


def _value(expr: Expr, least: int) -> int | None:
    value = _found(expr, least)
    return value if value is not None and least <= value < _PAST else None


def _found(expr: Expr, least: int) -> int | None:
    match expr:
        case Number(text=text):
            found = _WHOLE.fullmatch(text)
            if found is None:
                return None
            octal = len(found[1]) > 1 and found[1].isdigit() and found[1][0] == "0"
            if octal and not _OCTAL.fullmatch(found[1]):
                return None
            return int(found[1], 8 if octal else 0)
        case Unary(op=op, operand=operand):
            value = _value(operand, least)
            return (
                None if value is None else {"-": -value, "+": value, "~": ~value, "!": int(not value)}.get(op)
            )
        case Ternary(condition=condition, then=then, other=other):
            decided = _value(condition, least)
            return None if decided is None else _value(then if decided else other, least)
        case Binary(op="&&" | "||" as op, left=left, right=right):
            sides = [truth(_value(left, least)), truth(_value(right, least))]
            ends = op == "||"
            if ends in sides:
                return int(ends)
            return None if None in sides else int(not ends)
        case Binary(op=op, left=left, right=right):
            a, b = _value(left, least), _value(right, least)
            return None if a is None or b is None else _computed(op, a, b)
    return None


def _computed(op: str, a: int, b: int) -> int | None:
    if op in ("/", "%"):
        if not b:
            return None
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "/" else a - b * quotient
    if op in ("<<", ">>"):
        return None if not 0 <= b < 64 else a << b if op == "<<" else a >> b
    compared = {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "==": a == b, "!=": a != b}
    if op in compared:
        return int(compared[op])
    return {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "^": a ^ b, "|": a | b}.get(op)


@lru_cache(maxsize=64)
def loose_macros(text: str) -> frozenset[str]:
    """Macros that stand for more than one number: their text may hold variables, or bind less than a name."""
    found = re.findall(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(.*)", text, re.MULTILINE)
    return frozenset(name for name, body in found if not _PLAIN.match(body))
