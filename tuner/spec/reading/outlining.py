"""A loop of a function made a function of its own: what it reads and writes of the function becomes parameters.

clang says which variables those are and what is done with them, and that the loop is the same in its new place. Must
not change the loop's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from tuner.core.errors import BaselineError, UsageError
from tuner.core.source_text import free_name, source_bytes, source_text
from tuner.spaces.source.outlined import Outlined
from tuner.spec.reading.container_views import Viewed, viewed
from tuner.spec.reading.declarators import declaration, reference
from tuner.spec.reading.first_values import first_value
from tuner.spec.reading.kept_addresses import ContainedFunctions
from tuner.spec.reading.lookup import functions_of
from tuner.spec.reading.loop_bounds import LoopText, loop_bounds
from tuner.spec.reading.loop_exits import Exits, exits_of
from tuner.spec.reading.loop_variables import HINT, variables_of
from tuner.spec.reading.methods import THIS, scopes_of
from tuner.spec.reading.nodes import LOOPS, Node, begin_of, body_of, stop_of, walk
from tuner.spec.reading.own_members import Around, around_function, with_own_members
from tuner.spec.reading.separate_objects import separate_objects
from tuner.spec.reading.signature import LANGUAGES, Function, SourceReader
from tuner.spec.reading.trees import callee_name, referenced

__all__ = ["lines_of", "loop_lines", "loop_places", "loop_text", "no_loop", "outline"]

_TRANSPARENT = ("ImplicitCastExpr", "ParenExpr", "ExprWithCleanups", "AttributedStmt", "FullExpr")
"""Nodes that may be others where an array has become a pointer."""
_OF_FUNCTIONS = {
    f"{prefix}{name}"
    for prefix in ("", "_", "__", "__builtin_")
    for name in ("alloca", "setjmp", "sigsetjmp", "vfork", "frame_address", "return_address")
}
_ASSERTION_FAILS = ("__assert_fail", "__assert", "__assert_rtn", "__assert_func")
"""Of glibc, musl, macOS and newlib."""


def loop_lines(function: Function, text: str, around: int | None = None) -> list[int]:
    """Lines of a file at which loops of a function begin.

    Args:
        function: of the file.
        text: the file's.
        around: a line: only of loops that it lies in.
    """
    return sorted({p.start for p in loop_places(function, text) if around is None or around in p})


def loop_places(function: Function, text: str) -> list[range]:
    """Lines of a file that loops of a function take, those around others first."""
    data = source_bytes(text)
    places = (lines_of(node, data) for node in walk(function.tree) if node.get("kind") in LOOPS)
    return [p for p in places if p]


def loop_text(function: Function, text: str, line: int) -> str:
    """The text of the loop that begins at a line, without what blanks it has; empty where none does."""
    loop, data = _loop(function, text, line), source_bytes(text)
    return "" if loop is None else " ".join(source_text(data[begin_of(loop) : stop_of(loop)]).split())


def lines_of(node: Node, data: bytes) -> range:
    """Lines of a file that a node of its tree takes; none for one of another file."""
    begin = begin_of(node)
    if begin is None:
        return range(0)
    first, last = (data.count(b"\n", 0, place) + 1 for place in (begin, stop_of(node)))
    return range(first, last + 1)


def no_loop(functions: Sequence[Function], text: str, line: int, where: str) -> UsageError:
    """That no loop begins at a line, with those that do."""
    around = [each for f in functions for each in loop_lines(f, text, line)]
    lines = around or [each for f in functions for each in loop_lines(f, text)]
    shown = ", ".join(map(str, lines)) or "none"
    hint = f"the loops around it begin at lines {shown}" if around else f"its loops begin at lines {shown}"
    return UsageError(f"no loop {where} at line {line}", hint)


def outline(reader: SourceReader, entry: str, line: int) -> Outlined:
    """The outermost loop that begins at a line of the first file, as a function of its own.

    Args:
        reader: of the sources, with the flags that every build has.
        entry: the function around the loop.
        line: of the file, from 1.

    Raises:
        UsageError: there is no such function or loop, or the loop cannot be a function of its own.
        BaselineError: clang does not accept the source.
        MachineError: there is no clang, or it does not answer.
    """
    text = reader.files[0].text
    functions = reader.defined(entry)
    if not functions:
        raise UsageError(
            f"{reader.files[0].name} has no function with a body of the name {entry!r}", "name another"
        )
    # Functions of C++ that have one name are told apart by where they stand.
    function = next((f for f in functions if _loop(f, text, line) is not None), functions[0])
    if function.template:
        message = f"the loop at line {line} stands in the template {entry}, of which programs have several instances"
        raise UsageError(
            message, f"write a {function.name} beside it that is no template, for the types that are hot"
        )
    function = replace(function, tree=with_own_members(function.tree))
    loop = _loop(function, text, line)
    if loop is None:
        raise no_loop(functions, text, line, f"of {entry} begins")
    around = around_function(reader, function, f"the loop at line {line}")
    views = viewed(reader, function, loop, text)
    if views is not None:
        # What does not compile with numbers and pointers may with the objects that they stand for.
        with suppress(UsageError):
            return _outlined(_Writer(views.function, views.loop, text, reader, views, around), entry, line)
    return _outlined(_Writer(function, loop, text, reader, None, around), entry, line)


def _outlined(writer: _Writer, entry: str, line: int) -> Outlined:
    """The loop as a function.

    Raises:
        UsageError: it cannot be one, or is another then.
    """
    _refuse(writer.function, writer.loop, f"the loop at line {line}")
    try:
        made = writer.outlined(entry, line)
    except UsageError as error:
        message = f"the loop at line {line} cannot be a function of its own: {error.message}"
        raise UsageError(message, error.hint) from None
    _require_same(writer.reader, made, writer.function, writer.loop)
    return made


def _loop(function: Function, text: str, line: int) -> Node | None:
    data = source_bytes(text)
    for node in walk(function.tree):
        place = begin_of(node) if node.get("kind") in LOOPS else None
        if place is not None and data.count(b"\n", 0, place) + 1 == line:
            return node
    return None


def _refuse(function: Function, loop: Node, name: str) -> None:
    """Refuses what cannot leave its function."""
    inside = {id(node) for node in walk(loop)}
    labels = {n["declId"]: id(n) in inside for n in walk(function.tree) if n.get("kind") == "LabelStmt"}
    reasons = {
        "CXXThisExpr": "uses the object that its function belongs to by more than its members' names",
        "PredefinedExpr": "asks for the name of its function",
        "LambdaExpr": "has a lambda",
        "VAArgExpr": "takes arguments of a list of any length",
        "CoawaitExpr": "waits as a coroutine does",
    }
    if function.nameless:
        cure = "write static before the function, outside of that namespace"
        raise UsageError(f"{name} stands in a namespace without a name", cure)
    if any(child.get("kind") == "TargetAttr" for child in function.tree.get("inner", [])):
        raise UsageError(f"{name} stands in a function with a target of its own", "choose the whole function")
    named = any(n.get("kind") == "AddrLabelExpr" and id(n) not in inside for n in walk(function.tree))
    # What a program says before it ends itself is no result.
    told = {id(n) for call in walk(loop) if _ends_by_assertion(call) for n in walk(call)}
    for node in walk(function.tree):
        kind, within = str(node.get("kind")), id(node) in inside
        if within and kind in reasons and not (kind == "PredefinedExpr" and id(node) in told):
            raise UsageError(f"{name} {reasons[kind]}", HINT)
        if within and referenced(node) == THIS:
            raise UsageError(f"{name} {reasons['CXXThisExpr']}", HINT)
        if within and kind == "IndirectGotoStmt" and named:
            raise UsageError(f"{name} goes to a label that its function computes", HINT)
        called = node.get("referencedDecl", {}).get("name") if within else None
        if called in _OF_FUNCTIONS:
            raise UsageError(f"{name} calls {called}, which depends on the function that it stands in", HINT)
        if kind.startswith("OMP") and any(child is loop for child in walk(node)):
            raise UsageError(f"{name} stands under a directive of OpenMP", "choose the whole function")
        if kind == "GotoStmt" and not within and labels.get(node.get("targetLabelDeclId")):
            raise UsageError(f"a goto leads into {name}", HINT)


def _ends_by_assertion(node: Node) -> bool:
    """Whether a node is the call that ``assert`` makes when it fails."""
    return node.get("kind") == "CallExpr" and callee_name(node["inner"][0]) in _ASSERTION_FAILS


class _Writer:
    """Puts the function of one loop together."""

    def __init__(
        self,
        function: Function,
        loop: Node,
        text: str,
        reader: SourceReader,
        views: Viewed | None,
        around: Around,
    ) -> None:
        self.function = function
        self.loop = loop
        self._text = text
        self._data = source_bytes(text)
        self.reader = reader
        self._language = reader.language
        self._views = views
        self._around = around

    def outlined(self, entry: str, line: int) -> Outlined:
        """The loop as a function."""
        place = loop_bounds(self.loop, self._data)
        begin, end = place.begin, place.end
        symbol = self._unused(f"{self.function.name}_loop{line}")
        passed, exits = self._passed()
        head = declaration(exits.type, f"{symbol}({passed.parameters})")
        pad = source_text(self._data[self._data.rfind(b"\n", 0, begin) + 1 : begin])
        lines = self._data.count(b"\n", begin, end) - place.ahead.count("\n")
        views = () if self._views is None else self._views.views
        declared = [view.declared for view in views]
        return Outlined(
            entry=self._around.scope + symbol,
            function=entry,
            language=self._language,
            given=self._text,
            start=self._characters(self._around.start),
            begin=self._characters(begin),
            end=self._characters(end),
            after=self._characters(self._around.after),
            values=passed.known,
            ahead=place.ahead,
            loop=self._loop_text(place),
            views=views,
            call=_block([f"{head};", *declared, exits.call(symbol, passed.values)], pad, lines),
            opening=f"{self._once()}{head}\n{{\n{passed.before}{'    ' if pad.strip() else pad}",
            closing=f"\n{exits.closing(passed.behind)}}}",
        )

    def _loop_text(self, place: LoopText) -> str:
        """The loop where it does not stand like that in the file."""
        if self._views is not None:
            return place.opens + self._views.text(self._data, place.start, place.end)
        return place.opens + source_text(self._data[place.start : place.end]) if place.ahead else ""

    def _once(self) -> str:
        """What makes one function of those of several sources, of a loop in a file that they include."""
        suffix = PurePath(self.reader.files[0].name).suffix
        return "" if suffix in LANGUAGES else "__attribute__((weak)) "

    def _unused(self, name: str) -> str:
        return free_name(name, [self._text])

    def _characters(self, place: int) -> int:
        return len(source_text(self._data[:place]))

    def _passed(self) -> tuple[_Passed, Exits]:
        """What the function takes, with the lines before and behind the loop, and how the loop is left."""
        found, language = _Passed(), self._language
        contained = ContainedFunctions(
            self.reader,
            functions_of(self.reader.files[0].text),
            own="".join(scopes_of(self.function.tree)[-2:-1]),
        )
        variables = variables_of(self.function, self.loop, self._data, language, contained)
        exits = exits_of(self.function, self.loop, variables, language=language, unused=self._unused)
        separate = separate_objects(self.reader, self.function, self.loop, variables)
        for variable in variables:
            name, kind = variable.name, variable.type
            value = first_value(self.function, self.loop, variable)
            if value:
                found.known |= {name: value, f"{name}_at": value}
            handed = variable.handed(language)
            if handed == "reference":
                found.later.append((reference(kind, name), name))
            elif handed == "value":
                add = found.later if variable.extents or "[" in kind else found.first
                add.append((separate.declared(variable, language), name))
            elif handed == "local":
                found.before += f"    {declaration(kind, name)};\n"
            else:
                at, back = self._unused(f"{name}_at"), handed == "address"
                found.later.append(
                    (separate.address(variable, at, language), exits.address(variable, back=back))
                )
                found.before += f"    {declaration(kind, name)} = *{at};\n"
                found.behind += f"    *{at} = {name};\n" if back else ""
        if exits.parameter:
            found.later.append((exits.parameter, f"&{exits.flag}"))
            found.before += f"    *{exits.at} = 1;\n"
        return found, exits


def _block(statements: Sequence[str], pad: str, lines: int) -> str:
    """Statements in braces that take so many lines, each one of its own as far as there are enough."""
    if lines < 2 or pad.strip():
        return f"{{ {' '.join(statements)} }}" + "\n" * lines
    together = max(1, len(statements) - lines + 2)
    rows = [" ".join(statements[:together]), *statements[together:]]
    unit = "\t" if "\t" in pad else "    "
    inner = "".join(f"\n{pad}{unit}{row}" for row in rows)
    return f"{{{inner}\n{pad}}}" + "\n" * (lines - len(rows) - 1)


@dataclass(slots=True)
class _Passed:
    """Parameters of a loop's function and what is handed over for them, and lines before and behind the loop.

    What extents name comes first, what may have extents later. ``known`` are numbers that parameters stand for when the
    loop begins the first time.
    """

    before: str = ""
    behind: str = ""
    known: dict[str, str] = field(default_factory=dict)
    first: list[tuple[str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)

    @property
    def parameters(self) -> str:
        """As in a function's head."""
        return ", ".join(parameter for parameter, _ in (*self.first, *self.later)) or "void"

    @property
    def values(self) -> str:
        """As in a call."""
        return ", ".join(value for _, value in (*self.first, *self.later))


def _require_same(reader: SourceReader, made: Outlined, around: Function, loop: Node) -> None:
    """Refuses a loop that is another in its new place."""
    first = reader.files[0]
    try:
        (function,) = reader.with_text(made.text).defined(made.entry)
    except BaselineError as error:
        raise UsageError(
            f"a loop of {first.name} does not compile in a function of its own: {error.message}", HINT
        ) from None
    except ValueError:
        raise UsageError(f"a loop of {first.name} is lost in a function of its own", HINT) from None
    body = body_of(function.tree)
    # A macro may have more than the loop.
    expected = made.opening.count(";\n") + 1 + made.closing.count(";\n")
    inside = [c for c in body.get("inner", []) if c.get("kind") != "NullStmt"]
    wanted, own = _shape(loop, _own(around.tree)), _own(function.tree)
    same = any(_shape(n, own) == wanted for n in walk(body) if n.get("kind") == loop["kind"])
    if not same or len(inside) != expected:
        raise UsageError(f"a loop of {first.name} is another in a function of its own", HINT)


def _own(tree: Node) -> set[str]:
    """Identities of what a function declares."""
    return {str(node["id"]) for node in walk(tree) if "id" in node and node is not tree}


def _shape(node: Node, own: set[str]) -> Any:
    """A tree without what depends on its place."""
    if _ends_by_assertion(node):
        # It names the function and the line.
        return node["kind"]
    inner = [_shape(child, own) for child in node.get("inner", []) if child]
    if node.get("kind") in _TRANSPARENT and len(inner) == 1:
        return inner[0]
    meant = node.get("referencedDecl", {})
    name = [meant.get("name", ""), meant.get("id") in own]
    return [node.get("kind"), node.get("opcode"), node.get("name"), node.get("value"), name, inner]
