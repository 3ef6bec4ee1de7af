"""A loop of a file as a function of its own, and what became of it put back where the loop stands.

Which variables the function takes, those that stand for elements and numbers of C++ objects among them, is found out
elsewhere (:mod:`tuner.spec.reading.outlining`). May not edit the loop.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from tuner.spaces.source.expressions import parse_expression
from tuner.spaces.source.lexical import closing, tokens
from tuner.spaces.source.parse import parse_file
from tuner.spaces.source.presenting import ABOVE
from tuner.spaces.source.printer import expression_text
from tuner.spaces.source.syntax import Binary, Expr, Name, Number, Opaque
from tuner.spaces.source.walks import names_in

__all__ = ["OUTLINED", "Outlined", "View"]

OUTLINED = "outlined.json"
"""Under what name a record keeps it."""

_LOOPS = ("for_statement", "while_statement", "for_range_loop")
_DECLARES = re.compile(r"\s*\w[\w\s]*;")
_WORD = re.compile(r"\w+")
_LEAVES = re.compile(r"\breturn\b")
_AT = re.compile(r"= \*(\w+);|^\s*\*(\w+) = ", re.MULTILINE)
"""What is read before the loop, and stored behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlined:
    """A loop as a function of its own, behind the one that it stood in; places are characters of the file.

    Attributes:
        entry: the new function, with its namespaces.
        function: the one around the loop, likewise.
        language: ``c`` or ``c++``.
        given: the file.
        start: where the function around the loop begins.
        begin, end: of the loop.
        after: where the function around it ends.
        ahead: what stays before the call: statements in a conditional of the preprocessor that ends with the loop's
            directives, in one of their own.
        loop: as the new function has it; empty where that is as it stands in the file.
        views: variables in it that stand for containers.
        call: what stands in the loop's place; it has as many lines.
        opening, closing: of the new function, before and behind the loop.
        values: numbers that parameters have when the loop begins the first time, or what they point to.
    """

    entry: str
    function: str
    language: str
    given: str
    start: int
    begin: int
    end: int
    after: int
    call: str
    opening: str
    closing: str
    values: Mapping[str, str] = field(default_factory=dict)
    loop: str = ""
    ahead: str = ""
    views: tuple[View, ...] = ()

    @property
    def text(self) -> str:
        """The file with the loop in a function of its own."""
        return self.with_mark("")

    def with_mark(self, mark: str) -> str:
        """:attr:`text` with words before the new function, such as its attributes."""
        return (
            f"{self._before()}\n\n{mark}{self.opening}{self._loop()}{self.closing}{self.given[self.after :]}"
        )

    def put_back(self, text: str) -> str:
        """The file as given with what a changed :attr:`text` has for the loop.

        Where the new function begins or ends in another way, the changed text itself: it calls the function.
        """
        before, behind = self._before(), self.given[self.after :]
        if text == self.text:
            return self.given
        if not text.startswith(before) or not text.endswith(behind):
            return text
        middle = text[len(before) : len(text) - len(behind)]
        head = "".join(_like(line, optional=True) for line in self.opening.split("\n"))
        opening = re.search(head, middle)
        closing = re.search(_like(self.closing) + r"\s*\Z", middle)
        if opening is None or closing is None:
            return text
        loop = middle[opening.end() : closing.start()]
        if _LEAVES.search(loop) and not _LEAVES.search(self._loop()):
            return text
        if self._own_names().intersection(_WORD.findall(loop)):
            return text
        above = middle[: opening.start()].strip()
        return self._with(self._with_containers(loop), f"{above}\n\n" if above else "")

    def in_given(self, message: str, name: str) -> str:
        """A message about lines of :attr:`text` with those of the file as given.

        Args:
            message: of a compiler, say.
            name: of the file.
        """
        first = self.given.count("\n", 0, self.begin) + 1 + max(0, self.ahead.count("\n") - 2)
        moved = (self._before() + self.opening).count("\n") + 3
        last = moved + self._loop().count("\n")

        def place(found: re.Match[str]) -> str:
            line = int(found[2])
            return found[1] + str(line - moved + first if moved <= line <= last else line)

        return re.sub(rf"(\bline |{re.escape(name)}:)(\d+)", place, message)

    def to_json(self) -> dict[str, Any]:
        """For a record, which holds the file."""
        return {key: value for key, value in asdict(self).items() if key != "given"}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], given: str) -> Outlined:
        """What :meth:`to_json` gave, of a file."""
        views = (View(*view)._replace(strides=tuple(view[3])) for view in data["views"])
        return cls(given=given, **{**data, "views": tuple(views)})

    def _own_names(self) -> set[str]:
        """Names of parameters that are known in the new function alone."""
        found = _AT.findall(f"{self.opening}\n{self.closing}")
        return {name for names in found for name in names if name}

    def _loop(self) -> str:
        return self.loop or self.given[self.begin : self.end]

    def _with_containers(self, loop: str) -> str:
        """A loop with containers where it uses their elements and sizes, behind what else it uses of them."""
        # A name that the loop has not had before is not what it is where that stands.
        new = set(_WORD.findall(loop)) - set(_WORD.findall(self._loop()))
        for view in self.views:
            if view.given and new.isdisjoint(_WORD.findall(view.given)):
                loop = with_accesses(loop, view)
        # In the order of their declarations, of which the later ones need none of the others.
        left = [f"{view.declared}\n" for view in self.views if re.search(rf"\b{view.name}\b", loop)]
        return "".join([*left, textwrap.dedent(loop.strip("\n"))]) if left else loop

    def _before(self) -> str:
        return self.given[: self.begin] + self.ahead + self.call + self.given[self.end : self.after]

    def _with(self, loop: str, above: str) -> str:
        """The file with another loop, and what has to stand before the function."""
        line = self.given[self.given.rfind("\n", 0, self.begin) + 1 : self.begin]
        pad = line if not line.strip() else ""
        lines = textwrap.dedent(loop.strip("\n").rstrip())
        if not self._is_loop(lines):
            unit = "\t" if "\t" in pad else "    "
            lines = "{\n" + textwrap.indent(lines, unit) + "\n}"
        lines = textwrap.indent(lines, pad)
        if not self.ahead:
            lines = lines.removeprefix(pad)
        head = self.given[: self.start]
        comment = ABOVE.search(head)
        place = len(head) if comment is None else comment.start()
        return (
            head[:place]
            + above
            + head[place:]
            + self.given[self.start : self.begin]
            + self.ahead
            + lines
            + self.given[self.end :]
        )

    def _is_loop(self, text: str) -> bool:
        """Whether a text is one loop or block, which may stand everywhere; an ``if`` could take an ``else``."""
        root = parse_file(f"void f(void)\n{{\n{text}\n}}\n".encode(), self.language, part=True)
        body = root.children[0].child_by_field_name("body")
        found = [] if body is None else [c for c in body.named_children if "comment" not in c.type]
        if len(found) != 1:
            return False
        inner = found[0]
        while inner.type in _LOOPS:
            inner = inner.child_by_field_name("body") or inner.named_children[-1]
        return inner.type in ("compound_statement", "do_statement") or (
            found[0].type in _LOOPS and inner.type == "expression_statement"
        )


def _like(text: str, *, optional: bool = False) -> str:
    """A pattern of the same tokens with any white space between them, and before them.

    Args:
        text: of whole tokens.
        optional: whether a line that declares a variable, and gives it no value, may be missing.
    """
    found = "".join(rf"\s*{re.escape(token)}" for token in tokens(text))
    return f"(?:{found})?" if optional and _DECLARES.fullmatch(text) else found


class View(NamedTuple):
    """A variable of a loop's function that stands for something of a container or an object.

    Attributes:
        name: the variable's.
        declared: its declaration, where the loop stands.
        given: what is written there: the number, or what an element's subscript or arguments stand behind; empty for
            what cannot be written there.
        strides: of a pointer to elements, by how many of them each argument moves the element: names or numbers.
        address: whether the element's address is given.
        brackets: whether a subscript stands behind it, no arguments.
    """

    name: str
    declared: str
    given: str
    strides: tuple[str, ...] = ()
    address: bool = False
    brackets: bool = True


def with_accesses(text: str, view: View) -> str:
    """A text with what a variable stands for in its place, as far as that can be written."""
    if not view.strides:
        return re.sub(rf"\b{view.name}\b", view.given, text)
    # What stands in the subscript of another one comes behind it.
    for found in reversed([*re.finditer(rf"(&\s*)?\b{view.name}\s*\[", text)]):
        end = closing(text, found.end() - 1)
        written = _access(text[found.end() : end], view, address=found[1] is not None and view.address)
        if written is None:
            continue
        kept = "" if found[1] is None or view.address else found[1]
        before, behind = text[: found.start()] + kept, text[end + 1 :]
        if view.address and re.search(r"(?:^|[^\w)\]\s])\s*\($", before) and behind.startswith(")"):
            before, behind = before[:-1], behind[1:]
        text = f"{before}{written}{behind}"
    return text


def _access(index: str, view: View, *, address: bool) -> str | None:
    """An element by its subscript or arguments, or its address; ``None`` where the index does not say them."""
    if view.strides == ("1",) and not view.address:
        arguments, rest = [index], ""
    else:
        split = _split(parse_expression(index), view.strides)
        if split is None:
            return None
        *arguments, rest = split
    if rest and not view.address:
        return None
    inside = f"[{arguments[0]}]" if view.brackets else f"({', '.join(arguments)})"
    if not view.address or (address and not rest):
        return view.given + inside
    return f"{'&' if address else ''}{view.given}{inside}[{rest or '0'}]"


def _split(index: Expr, strides: tuple[str, ...]) -> list[str] | None:
    """The arguments that an index was made of, and last what belongs to none."""
    sums: list[Expr | None] = [None] * (len(strides) + 1)
    for negative, term in _terms(index, negative=False):
        if isinstance(term, Opaque):
            return None
        at, left = _of_argument(term, strides)
        if names_in(left) & set(strides):
            return None
        known = sums[at]
        if known is None:
            sums[at] = Binary("-", Number("0"), left) if negative else left
        else:
            sums[at] = Binary("-" if negative else "+", known, left)
    texts = ["0" if each is None else expression_text(each) for each in sums]
    return [*texts[:-1], "" if sums[-1] is None else texts[-1]]


def _terms(expr: Expr, *, negative: bool) -> list[tuple[bool, Expr]]:
    if isinstance(expr, Binary) and expr.op in ("+", "-"):
        return [
            *_terms(expr.left, negative=negative),
            *_terms(expr.right, negative=negative != (expr.op == "-")),
        ]
    return [(negative, expr)]


def _of_argument(term: Expr, strides: tuple[str, ...]) -> tuple[int, Expr]:
    """Which argument a term is of, and what of it: the last number is that of none."""
    for at, stride in enumerate(strides):
        factor = Number(stride) if stride.isdigit() else Name(stride)
        if stride == "1":
            continue
        if term == factor:
            return at, Number("1")
        if isinstance(term, Binary) and term.op == "*" and factor in (term.left, term.right):
            return at, term.right if term.left == factor else term.left
    return (strides.index("1") if "1" in strides else len(strides)), term
