"""A ``switch`` that is only known as text, taken apart into its cases.

What falls into the next case, jumps, or leaves from the middle is refused. May not judge what the cases compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.spaces.source.fragments import parse_expression
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.parse import node_text, statement_nodes
from tuner.spaces.source.reading import parse_statements
from tuner.spaces.source.syntax import Expr, Stmt

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Case", "Switch", "is_switch", "read_switch"]

_BEGIN = re.compile(r"switch\b")
_OPEN = re.compile(r"\(\s*[A-Za-z_]\w*\s*")
_AFTER_CAST = re.compile(r"\)\s*[-+*&(]")
_CLOSING = {"(": ")", "[": "]"}
_LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
_ENDS = ("break_statement", "return_statement", "continue_statement")
_STRANGE = ("goto_statement", "labeled_statement", "gnu_asm_expression", "lambda_expression")


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


@dataclass(frozen=True, slots=True)
class Switch:
    """What is compared, and the cases in their order; of several values for one body one case."""

    value: Expr
    cases: tuple[Case, ...]


def is_switch(text: str) -> bool:
    """Whether a statement's text is a ``switch``."""
    return _BEGIN.match(text) is not None


def read_switch(text: str, language: str) -> Switch:
    """The parts of a ``switch``.

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
    return Switch(parse_expression(node_text(head.named_children[0])), tuple(_cases(body.named_children)))


def _may_be_cast(text: str) -> bool:
    """Whether there is a word alone in parentheses, or with one bracket behind it, before what may be an operand."""
    for found in _OPEN.finditer(text):
        at = found.end()
        if text[at : at + 1] in ("(", "["):
            at += _bracket(text[at:])
            at += len(text[at:]) - len(text[at:].lstrip())
        if _AFTER_CAST.match(text, at):
            return True
    return False


def _bracket(text: str) -> int:
    """The length of what a text begins with in brackets."""
    closing: list[str] = []
    for at, sign in enumerate(text):
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                return at + 1
    return len(text)


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
