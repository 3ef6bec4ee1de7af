"""Where the text of a loop begins and ends: with directives right above it, and the semicolon behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.core.source_text import source_bytes, source_text
from tuner.spaces.source.lexical import conditionals
from tuner.spec.reading.nodes import LOOPS, Node, begin_of, stop_of

__all__ = ["LoopText", "loop_bounds", "past_arguments"]

_BLANK = r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/|\n).)*\*/)?[ \t]*\r?\n"
_REST = r"\b(?:[^\n]*\\\r?\n)*[^\n]*\n"
_DIRECTIVE = r"[ \t]*#[ \t]*"
_PRAGMA = rf"{_DIRECTIVE}pragma{_REST}"
_CONDITIONAL = (
    rf"{_DIRECTIVE}if(?:def|ndef)?{_REST}(?:{_BLANK})*{_PRAGMA}"
    rf"(?:{_BLANK}|{_PRAGMA}|{_DIRECTIVE}(?:else|elif){_REST})*{_DIRECTIVE}endif{_REST}"
)
_ABOVE = re.compile(rf"^(?:(?:{_PRAGMA}|{_CONDITIONAL})(?:{_BLANK})*)+[ \t]*\Z", re.MULTILINE)
"""Pragmas, by themselves or between directives that decide about nothing else."""
_DIRECTIVES = re.compile(rf"^(?:{_BLANK}|{_PRAGMA}|{_CONDITIONAL})*\Z", re.MULTILINE)
_WHOLE = re.compile(r"(?:[\s\S]*(?:[;{}]|\n[ \t]*#[^\n]*))?(?:\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
"""Statements that are whole, to the end of the last one."""
_PRAGMA_OF_OPENMP = re.compile(rf"^{_DIRECTIVE}pragma[ \t]+omp\b", re.MULTILINE)
_HANGING = re.compile(
    rf"^{_DIRECTIVE}pragma[ \t]+omp{_REST}(?:\s|/\*(?:(?!\*/)[\s\S])*\*/|//[^\n]*|#(?:[^\n]*\\\r?\n)*[^\n]*)*\Z",
    re.MULTILINE,
)
_NOTHING = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
_END = re.compile(r"(?:\s|/\*.*?\*/|//[^\n]*)*;", re.DOTALL)
_BRACKETS = re.compile(r"""[()]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'""")


@dataclass(frozen=True, slots=True)
class LoopText:
    """Where a loop stands in its file.

    Attributes:
        begin, start, end: bytes of the file: of all that is cut out, of the loop with its directives, behind it.
        ahead: what lies between the first two and is no part of the loop, by itself: statements in a conditional of the
            preprocessor that ends with the loop's directives.
        opens: the directive that stands before the loop's own then.
    """

    begin: int
    start: int
    end: int
    ahead: str = ""
    opens: str = ""


def loop_bounds(loop: Node, data: bytes) -> LoopText:
    """A loop with pragmas right above it and the semicolon that ends it.

    Args:
        loop: as clang has it.
        data: of the file.

    Raises:
        UsageError: a conditional of the preprocessor begins or ends within the loop, or a directive of OpenMP stands in
            one with more than that.
    """
    begin, end = begin_of(loop), stop_of(loop)
    assert begin is not None
    if "expansionLoc" in loop["range"]["end"]:
        # A macro with arguments ends it.
        rest = source_text(data[end:])
        end += len(source_bytes(rest[: past_arguments(rest)]))
    before = source_text(data[:begin])
    above = _ABOVE.search(before)
    if above is not None:
        before = before[: above.start()]
    bodies = [child for child in loop["inner"] if child]
    body = bodies[0 if loop["kind"] == "DoStmt" else -1]
    while body.get("kind") in (*LOOPS, "IfStmt"):
        body = [child for child in body["inner"] if child][-1]
    if body.get("kind") != "CompoundStmt" or loop["kind"] == "DoStmt":
        rest = source_text(data[end:])
        semicolon = _END.match(rest)
        if semicolon is not None:
            end += len(source_bytes(rest[: semicolon.end()]))
    return _with_conditionals(source_text(data), len(before), len(source_text(data[:end])))


def _with_conditionals(text: str, begin: int, end: int) -> LoopText:
    """What lies between two places, with the whole of each conditional that begins or ends between them."""
    for directives in conditionals(text):
        inside = [begin <= place.start < end for place in directives]
        if all(inside) or not any(inside):
            continue
        above = [place for place in directives if place.start < begin]
        below = [place for place in directives if place.start >= end]
        if above and not _NOTHING.fullmatch(text, above[-1].stop, begin):
            raise _part_of_a_conditional("begins")
        if below and not _NOTHING.fullmatch(text, end, below[0].start):
            raise _part_of_a_conditional("ends")
        begin, end = min(begin, directives[0].start), max(end, directives[-1].stop)
    region, start, ahead, opens = _directive_of_a_conditional(text, begin)
    if _HANGING.search(text, 0, region):
        cure = "let nothing but comments of a line stand between the two, or #if and #endif around the directive alone"
        raise UsageError("more than that stands between its directive of OpenMP and the loop", cure)
    first, second, third = (len(source_bytes(text[:place])) for place in (region, start, end))
    return LoopText(first, second, third, ahead, opens)


def _directive_of_a_conditional(text: str, begin: int) -> tuple[int, int, str, str]:
    """What a loop begins with whose directives end a conditional that has statements before them.

    Returns:
        Where the conditional begins, where its last directives do, its statements between directives of their own, and
        what has to stand before the rest: nothing is ahead where nothing but comments was.
    """
    for directives in conditionals(text):
        first, last = directives[0], directives[-1]
        if len(directives) > 2 or last.stop > begin or not _NOTHING.fullmatch(text, last.stop, begin):
            continue
        inside = text[first.stop : last.start]
        at_end = _DIRECTIVES.search(inside)
        if at_end is None or not _PRAGMA_OF_OPENMP.search(at_end[0]):
            continue
        opens, start = text[first.start : first.stop], first.stop + at_end.start()
        statements = inside[: at_end.start()]
        if _NOTHING.fullmatch(statements):
            return first.start, first.start, "", ""
        if _WHOLE.fullmatch(statements) and "pragma" not in statements:
            return first.start, start, f"{opens}{statements}{text[last.start : last.stop]}\n", f"{opens}\n"
    return begin, begin, "", ""


def _part_of_a_conditional(what: str) -> UsageError:
    cure = "write it such that all of it is there under one condition, or choose a loop around it"
    return UsageError(f"it {what} between directives of the preprocessor that hold more than that", cure)


def past_arguments(text: str) -> int:
    """Where a macro's arguments end that a text begins with; 0 where it begins with none."""
    if not text.lstrip().startswith("("):
        return 0
    depth = 0
    for piece in _BRACKETS.finditer(text):
        depth += (piece[0] == "(") - (piece[0] == ")")
        if piece[0] == ")" and not depth:
            return piece.end()
    return 0
