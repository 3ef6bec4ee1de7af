"""A ``switch`` as branches: loops in its cases, and loops around it, are not looked into otherwise.

``switch (k) { case 0: … break; default: … }`` becomes ``if (k == 0) { … } else { … }``. What is compared has no effect,
and the values are numbers that an ``int`` holds, so that ``==`` compares as ``switch`` does. What falls into the next
case, jumps, or leaves from the middle is refused. May not change what is computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tuner.spaces.source.expressions import parse_expression
from tuner.spaces.source.kinds import Refused, all_types_of, element_types_of, is_integer, is_pure
from tuner.spaces.source.lexical import closing, code, is_switch, words
from tuner.spaces.source.operators.base import HOST, Args, Keys, Operator, where_it_applies
from tuner.spaces.source.operators.bounds import joined
from tuner.spaces.source.own_names import with_own_calls
from tuner.spaces.source.parse import node_text, statement_nodes
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import (
    Binary,
    Block,
    Call,
    Cast,
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
    Stmt,
    Unary,
)
from tuner.spaces.source.walks import names_in, offered, statements, subtrees, transform

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["OPERATORS"]

_MOST_CASES = 8
_MOST_LABELS = 16
_VOLATILE = re.compile(r"\b(volatile|_Atomic|atomic\w*)\b")
_WHOLE = r"(?:0[xX][0-9a-fA-F]{1,7}|\d{1,9})"
_LABEL = re.compile(rf"{_WHOLE}|'(?:[^'\\]|\\[nt0\\'])'")
_ENUM = re.compile(r"\benum\b[^{};()]*\{([^{}]*)\}")
_ENUMERATOR = re.compile(rf"\s*([A-Za-z_]\w*)\s*(?:=\s*-?\s*(?:{_WHOLE}|1\s*<<\s*[12]?\d)\s*)?")
_DOES = re.compile(r"(break|return|continue|if|for|while|do|switch|#)\b|[#{;]")
_SAID = frozenset({"typedef", "using", "struct", "enum", "union", "const", "static"})
_SAID |= {"unsigned", "signed", "short", "int", "long", "char", "float", "double"}
_VALUED = (Name, Number, Unary, Binary, Cast, Index, Field)
_OPEN = re.compile(r"\(\s*[A-Za-z_]\w*\s*")
_AFTER_CAST = re.compile(r"\)\s*[-+*&(]")
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_ENDS = ("break_statement", "return_statement", "continue_statement")
_STRANGE = ("goto_statement", "labeled_statement", "gnu_asm_expression", "lambda_expression")


def cases_to_branches(function: Function, _: Args) -> Function:
    """Makes branches of each ``switch`` that holds loops or stands in one."""
    found, reason = _found(function)
    if not found:
        raise Refused(reason or "no switch hides a loop")

    def change(part: Any) -> Any:
        return found.get(id(part), part) if isinstance(part, OpaqueStmt) else part

    return replace(function, body=transform(function.body, change))


def _found(function: Function) -> tuple[dict[int, Stmt], str]:
    """What switches become, by the identity of their statement; and why one stays."""
    made: dict[int, Stmt] = {}
    keys = Keys(function)
    reason = ""
    loops = (f for f in offered(function.body) if isinstance(f, For))
    within = {id(s) for f in loops for s in statements(f.body)}
    for stmt in offered(function.body):
        if not isinstance(stmt, OpaqueStmt) or not is_switch(stmt.text):
            continue
        try:
            branch = _branches(function, stmt, in_loop=id(stmt) in within)
        except Refused as refusal:
            reason = str(refusal)
            continue
        if id(stmt) in within or any(isinstance(s, For) for s in statements((branch,))):
            (made[id(stmt)],) = keys.again((branch,))
    return made, reason


def _branches(function: Function, stmt: OpaqueStmt, *, in_loop: bool) -> Stmt:
    value, cases = read_switch(stmt.text, function.language)
    _require_value(function, value)
    _require_labels(function, cases)
    _require_own_locals(cases)
    for case in cases if in_loop else ():
        for part in statements(case.body):
            if isinstance(part, ExprStmt) and isinstance(part.expr, Name | Call | Opaque):
                # It may be a macro that leaves the switch, and would leave the loop.
                raise Refused("a switch in a loop holds calls")
    chain: tuple[Stmt, ...] = next((c.body for c in cases if c.default), ())
    for case in reversed([c for c in cases if not c.default]):
        tests = [Binary("==", value, label) for label in case.labels]
        chain = (If(joined("||", tests), case.body, chain),)
    made = chain[0] if len(chain) == 1 and isinstance(chain[0], If) else Block(chain)
    (marked,) = with_own_calls(replace(function, body=(made,)), dict(function.own)).body
    return marked


def _require_value(function: Function, value: Expr) -> None:
    """Refuses what may change from one look at it to the next, or is compared by operators of its own."""
    if not is_pure(value) or not all(isinstance(p, _VALUED) for p in subtrees(value)):
        raise Refused("what a switch compares may have an effect")
    if _VOLATILE.search(function.source):
        raise Refused("what a switch compares may change by itself")
    known = all_types_of(function)
    unknown = names_in(value) - set(known)
    if unknown:
        raise Refused(f"{min(unknown)} is compared by a switch and is no variable of the function")
    if function.language != "c":
        kinds = element_types_of(function)
        whole = all(is_integer(kinds.get(name, "")) for name in names_in(value))
        casts = all(is_integer(p.type) for p in subtrees(value) if isinstance(p, Cast))
        if not whole or not casts or any(isinstance(p, Field) for p in subtrees(value)):
            raise Refused("what a switch compares may be no number")


def _require_labels(function: Function, cases: Sequence[Case]) -> None:
    if len(cases) > _MOST_CASES or sum(len(c.labels) for c in cases) > _MOST_LABELS:
        raise Refused("a switch has too many cases")
    for label in (label for case in cases for label in case.labels):
        match label:
            case Number(text=text) | Unary(op="-", operand=Number(text=text)) if _LABEL.fullmatch(text):
                continue
            case Name(id=name) if name in _constants(function.source):
                continue
        raise Refused("a case of a switch is for what is not known to be a number")


@lru_cache(maxsize=64)
def _constants(text: str) -> frozenset[str]:
    """Names of numbers that an ``int`` holds: members of enumerations."""
    found: set[str] = set()
    for body in _ENUM.findall(code(text)):
        members = [_ENUMERATOR.fullmatch(part) for part in body.split(",") if part.strip()]
        found |= {m[1] for m in members if m is not None} if all(members) else set()
    return frozenset(found)


def _require_own_locals(cases: Sequence[Case]) -> None:
    """Refuses a variable or a type of one case that another one uses."""
    for case in cases:
        declared = {s.name for s in case.body if isinstance(s, Decl)}
        # A type, a structure or an enumeration is declared as text.
        texts = [s.text for s in case.body if isinstance(s, OpaqueStmt) and not _DOES.match(s.text)]
        declared |= frozenset[str]().union(*map(words, texts)) - _SAID
        others = [c for c in cases if c is not case]
        used = {w for c in others for part in subtrees(c.body) for w in _words(part)}
        if declared & used:
            raise Refused(f"{min(declared & used)} is declared in one case of a switch and used in another")


def _words(part: Any) -> frozenset[str]:
    match part:
        case Name(id=name) | Call(function=name):
            return frozenset({name})
        case Decl(name=name, type=text) | For(var=name, type=text):
            return words(text) | {name}
        case Cast(type=text) | Opaque(text=text) | OpaqueStmt(text=text):
            return words(text)
    return frozenset()


@dataclass(frozen=True, slots=True)
class Case:
    """What is done for some values.

    Attributes:
        labels: the values; with ``default`` there may be none.
        default: whether it is for all other values as well.
        body: what is done, without the ``break`` at its end.
    """

    labels: tuple[Expr, ...]
    default: bool
    body: tuple[Stmt, ...]


@lru_cache(maxsize=256)
def read_switch(text: str, language: str) -> tuple[Expr, tuple[Case, ...]]:
    """What a ``switch`` compares, and its cases in their order; of several values for one body one case.

    Args:
        text: of the whole statement.
        language: that it is written in.

    Raises:
        Refused: it is more than a choice between bodies.
    """
    if _may_be_cast(text):
        # Whether the word is a type is said outside of the text.
        raise Refused("a switch holds what may be a cast")
    inner = statement_nodes(text, language)
    if len(inner) != 1 or inner[0].type != "switch_statement":
        raise Refused("a switch cannot be read")
    head, body = (inner[0].child_by_field_name(name) for name in ("condition", "body"))
    if head is None or body is None or len(head.named_children) != 1 or body.type != "compound_statement":
        raise Refused("a switch cannot be read")
    return parse_expression(node_text(head.named_children[0])), tuple(_cases(body.named_children))


def _may_be_cast(text: str) -> bool:
    """Whether there is a word alone in parentheses, or with one bracket behind it, before what may be an operand."""
    for found in _OPEN.finditer(text):
        at = found.end()
        if text[at : at + 1] in ("(", "["):
            rest = text[closing(text, at) + 1 :]
            at = len(text) - len(rest.lstrip())
        if _AFTER_CAST.match(text, at):
            return True
    return False


def _cases(nodes: Sequence[Node]) -> Iterator[Case]:
    labels: list[Expr] = []
    comments: list[Node] = []
    default = False
    last = next((n for n in reversed(nodes) if n.type == "case_statement"), None)
    for node in nodes:
        if node.type == "comment":
            comments.append(node)
            continue
        if node.type != "case_statement":
            raise Refused("a switch holds more than cases")
        label = node.child_by_field_name("value")
        if label is None:
            default = True
        else:
            labels.append(parse_expression(node_text(label)))
        inner = [c for c in node.named_children if label is None or c.id != label.id]
        if all(c.type == "comment" for c in inner) and node is not last:
            comments += inner
            continue
        body = _body([*comments, *inner], last=node is last)
        yield Case(tuple(labels), default, parse_statements(body))
        labels, comments, default = [], [], False


def _body(nodes: list[Node], *, last: bool) -> list[Node]:
    """The statements of a case, without the ``break`` that they end with."""
    made, ended = _without_break(nodes)
    done = [n for n in made if n.type != "comment"]
    if len(done) == 1 and done[0].type == "compound_statement":
        at = next(i for i, n in enumerate(made) if n is done[0])
        inner, inner_ended = _without_break(done[0].named_children)
        made, ended = [*made[:at], *inner, *made[at + 1 :]], ended or inner_ended
    if not ended and not last:
        raise Refused("a case of a switch goes on in the next one")
    for node in made:
        _require_plain(node, within=False)
    return made


def _without_break(nodes: Sequence[Node]) -> tuple[list[Node], bool]:
    """Statements without a ``break`` at their end, and whether what follows them is not reached."""
    at = next((i for i in reversed(range(len(nodes))) if nodes[i].type != "comment"), None)
    if at is None or nodes[at].type not in _ENDS:
        return list(nodes), False
    kept = [n for i, n in enumerate(nodes) if i != at or n.type != "break_statement"]
    return kept, True


def _require_plain(node: Node, *, within: bool, nested: bool = False) -> None:
    """Refuses what leaves the switch from the middle, jumps, or is decided by the preprocessor.

    Args:
        node: in a case.
        within: whether a ``break`` leaves something else.
        nested: whether cases are those of another switch.
    """
    early = node.type == "break_statement" and not within
    if early or node.type in _STRANGE or (node.type == "case_statement" and not nested):
        raise Refused("a case of a switch ends in its middle or jumps")
    if node.type.startswith("preproc_"):
        if not node_text(node).startswith("#pragma"):
            raise Refused("a switch holds directives")
        return
    chooses = node.type == "switch_statement"
    for child in node.named_children:
        _require_plain(child, within=within or chooses or node.type in _LOOPS, nested=nested or chooses)


OPERATORS = (
    Operator(
        cases_to_branches,
        where_it_applies(cases_to_branches),
        "a switch as branches",
        opens=True,
        languages=HOST,
    ),
)
