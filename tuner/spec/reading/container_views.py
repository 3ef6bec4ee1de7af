"""Containers and objects of C++ that a loop uses by elements alone, as the pointers and numbers that stand behind them.

A loop over ``std::vector`` becomes one over plain arrays where it is a function of its own: each ``u[i]`` is one of
``u_data``, each ``u.size()`` is ``u_size``, and ``grid(i, j)`` is ``grid_data[grid_stride * (i) + (j)]`` where the
class says so. May not write the function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tuner.core.source_text import source_bytes, source_text
from tuner.spaces.source.outlined import View
from tuner.spec.reading.container_uses import CONTAINER, ROWS, Use, Uses, uses_of
from tuner.spec.reading.declarators import declaration
from tuner.spec.reading.made_nodes import binary, integer, named, read
from tuner.spec.reading.nodes import Node, body_of, plain_type, span_of
from tuner.spec.reading.range_loops import counted
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.trees import inner_nodes

__all__ = ["Viewed", "viewed"]

_OWN = "(*this)"
_POINTER = {"vector": "data()", "array": "data()", "span": "data()", "unique_ptr": "get()"}


@dataclass(frozen=True, slots=True)
class Viewed:
    """A function whose loop uses pointers and sizes.

    Attributes:
        function: around the loop, with variables for these.
        loop: of its tree.
        edits: bytes of the file, and the variables' names that go there.
        views: what stands behind the variables where the loop is.
    """

    function: Function
    loop: Node
    edits: tuple[tuple[int, int, str], ...]
    views: tuple[View, ...]

    def text(self, data: bytes, begin: int, end: int) -> str:
        """A part of the file that has the loop, with the variables in it."""
        made, at = b"", begin
        for first, last, name in sorted(self.edits):
            made += data[at:first] + name.encode()
            at = last
        return source_text(made + data[at:end])


def viewed(reader: SourceReader, function: Function, loop: Node, text: str) -> Viewed | None:
    """The loop with plain arrays in the place of containers and objects; ``None`` where it uses none that way.

    Args:
        reader: of the file.
        function: around the loop.
        loop: of its tree.
        text: of the file.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    if reader.language != "c++":
        return None
    data, but = source_bytes(text), frozenset[str]()
    while True:
        found = counted(function, loop, data, but=but)
        uses = uses_of(reader, found.function, found.loop, data)
        # Loops over what stays a container stay as well.
        left = found.containers - {each.text for each in uses if each.method == "size"}
        if not left:
            break
        but |= left
    if not uses:
        return None
    return _Writing(found.function, found.loop, text, uses, found.edits).viewed()


@dataclass(slots=True)
class _Writing:
    """Puts variables in the place of what containers and objects give."""

    function: Function
    loop: Node
    text: str
    uses: Sequence[Uses]
    counted: Sequence[tuple[int, int, str]] = ()
    _views: list[View] = field(default_factory=list)
    _variables: dict[str, Node] = field(default_factory=dict)
    _replaced: dict[int, Node] = field(default_factory=dict)
    _new: Node = field(default_factory=dict)

    def viewed(self) -> Viewed:
        """The function, its loop, and the variables."""
        edits = list(self.counted)
        for uses in self.uses:
            steps = tuple(self._step(uses, at) for at in range(len(uses.given.strides)))
            index = bool(uses.method and steps) and not uses.given.array
            view = self._offset(uses, steps) if index else self._view(uses, steps)
            for use in uses.found:
                edits += _index_edits(use, view) if index else _edits(use, view)
                self._replaced[id(use.node)] = (
                    self._index(use, view) if index else self._replacement(use, view)
                )
        tree = self._rebuilt(self.function.tree)
        # Declared where every loop of the function sees them.
        body = body_of(tree)
        begun = {"kind": "DeclStmt", "inner": list(self._variables.values())}
        whole = {**body, "inner": [begun, *body["inner"]]}
        inner = [whole if child is body else child for child in tree["inner"]]
        function = replace(self.function, tree={**tree, "inner": inner})
        return Viewed(function, self._new, tuple(edits), tuple(self._views))

    def _offset(self, uses: Uses, steps: tuple[str, ...]) -> View:
        """The index of which all arguments are 0; its name is a number where that is known."""
        if uses.given.offset is not None:
            return View(str(uses.given.offset), "", "", steps)
        name = self._declared(f"{uses.text or 'own'}_offset", "long")
        self._views.append(View(name, f"long {name} = {_access(uses, None)};", ""))
        return self._views[-1]._replace(strides=steps)

    def _view(self, uses: Uses, steps: tuple[str, ...]) -> View:
        """The pointer to the first element, or the number."""
        if uses.given == ROWS:
            return self._rows(uses)
        if not steps and not uses.method:
            return self._member(uses)
        kind, value = plain_type(uses.found[0].node), _access(uses, None)
        if steps and not uses.given.address:
            kind, value = f"{kind}{'' if kind.endswith('*') else ' '}*", f"&{value}"
        container = CONTAINER.match(uses.kind)
        if container and steps:
            value = f"{uses.text}.{_POINTER[container[1]]}"
        called = uses.method if uses.method.isidentifier() else "data"
        given = (uses.text or _OWN) if called == "data" else _method(uses.text, uses.method)
        brackets = uses.method in ("", "operator[]")
        name = self._declared(f"{uses.text or 'own'}_{called}", kind)
        # A row that the loop does not come to may not be there.
        row = re.fullmatch(r"(.*)\[(\w+)\]", uses.text)
        there = "" if row is None else f"{row[1]}.size() <= {row[2]} ? 0 : "
        view = View(
            *(name, f"{declaration(kind, name)} = {there}{value};", given if steps else value),
            *(steps, uses.given.address, brackets),
        )
        self._views.append(view)
        return view

    def _member(self, uses: Uses) -> View:
        """A number that is a member of an object."""
        kind = plain_type(uses.found[0].node)
        name = self._declared(uses.text, kind)
        self._views.append(View(name, f"{declaration(kind, name)} = {uses.text};", uses.text))
        return self._views[-1]

    def _rows(self, uses: Uses) -> View:
        """The pointer to those to the first elements of rows."""
        use = uses.found[0]
        row = CONTAINER.match(plain_type(inner_nodes(use.node)[1]))
        assert row is not None
        kind = f"{plain_type(use.node)} *"
        name = self._declared(f"{uses.text}_rows", f"{kind}*")
        pointers, at = f"{name}_held", f"{name}_at"
        size, first = f"{uses.text}.size()", f"{uses.text}[{at}].{_POINTER[row[1]]}"
        held = f"std::vector<{kind}> {pointers}({size}); for (unsigned long {at} = 0; {at} < {size}; {at}++)"
        declared = f"{held} {pointers}[{at}] = {first}; {kind}*{name} = {pointers}.data();"
        self._views.append(View(name, declared, uses.text, ("1",)))
        return self._views[-1]

    def _step(self, uses: Uses, at: int) -> str:
        """By how many elements an argument moves the element."""
        stride = uses.given.strides[at]
        if stride is not None:
            return str(stride)
        address = "&" if uses.given.array and not uses.given.address else ""
        value = f"{address}{_access(uses, at)} - {address}{_access(uses, None)}"
        name = self._declared(f"{uses.text or 'own'}_stride", "long")
        self._views.append(View(name, f"long {name} = {value};", ""))
        return name

    def _declared(self, text: str, kind: str) -> str:
        """Notes a variable, under a name that the file does not have."""
        # Names with two underscores are the implementation's.
        name = re.sub(r"[\W_]+", "_", text)
        while name in self._variables or re.search(rf"\b{name}\b", self.text):
            name += "_"
        called = {"kind": "CXXMemberCallExpr", "valueCategory": "prvalue", "type": {"qualType": kind}}
        self._variables[name] = {
            "id": f"view {name}",
            "kind": "VarDecl",
            "name": name,
            "type": {"qualType": kind},
            "range": {"begin": {}, "end": {}},
            "loc": {},
            "init": "c",
            "inner": [called],
        }
        return name

    def _replacement(self, use: Use, view: View) -> Node:
        """What stands for a node."""
        value = self._value(view.name, use.base)
        if not view.strides:
            return value
        if len(use.arguments) > len(view.strides):
            kind = {"qualType": f"{plain_type(use.node)} *"}
            row = {
                "kind": "ArraySubscriptExpr",
                "valueCategory": "lvalue",
                "type": kind,
                "range": use.base["range"],
            }
            value = read({**row, "inner": [value, use.arguments[0]]})
            use = replace(use, arguments=use.arguments[1:])
        index = self._summed(use, view)
        element = {
            **{key: part for key, part in use.node.items() if key not in ("inner", "type")},
            "kind": "ArraySubscriptExpr",
            "valueCategory": "lvalue",
            "type": _element(use.node["type"]) if view.address else use.node["type"],
            "inner": [value, index],
        }
        if not view.address:
            return element
        return {**use.node, "kind": "UnaryOperator", "opcode": "&", "inner": [element]}

    def _index(self, use: Use, view: View) -> Node:
        """What stands for an index."""
        index = self._summed(use, view)
        return index if view.name == "0" else binary("+", index, self._stride(view.name, use.base))

    def _summed(self, use: Use, view: View) -> Node:
        terms = [
            each if step == "1" else binary("*", self._stride(step, use.base), each)
            for step, each in zip(view.strides, use.arguments, strict=True)
        ]
        index = terms[0]
        for term in terms[1:]:
            index = binary("+", index, term)
        return index

    def _stride(self, step: str, base: Node) -> Node:
        return self._value(step, base) if step in self._variables else integer(step, base)

    def _value(self, name: str, base: Node) -> Node:
        """A variable that is read."""
        return read(named(self._variables[name], base))

    def _rebuilt(self, node: Node) -> Node:
        made = self._replaced.get(id(node), node)
        inner = made.get("inner")
        if inner:
            rebuilt = [self._rebuilt(child) if child else child for child in inner]
            if made is not node or any(a is not b for a, b in zip(inner, rebuilt, strict=True)):
                made = {**made, "inner": rebuilt}
        if node is self.loop:
            self._new = made
        return made


def _access(uses: Uses, moved: int | None) -> str:
    """An element's text, or a number's.

    Args:
        uses: of which container or object.
        moved: which argument is 1; the others are 0.
    """
    arguments = ", ".join("1" if at == moved else "0" for at in range(len(uses.given.strides)))
    text, method = uses.text, uses.method
    if uses.values:
        # Only objects that may change give places.
        text, method = f"const_cast<{uses.kind} &>({text or _OWN})", uses.given.place
    if method in ("", "operator[]"):
        return f"{text or _OWN}[{arguments}]"
    return f"{text or _OWN if method == 'operator()' else _method(text, method)}({arguments})"


def _method(text: str, name: str) -> str:
    """A method as it is called."""
    return f"{text}.{name}" if text else name


def _edits(use: Use, view: View) -> list[tuple[int, int, str]]:
    """Places of a use's text, with what is written there."""
    begin, end = _span(use.node)
    if not view.strides:
        return [(begin, end, view.name)]
    if view.brackets and not view.address and view.strides == ("1",):
        return [(*_span(use.base), view.name)]
    opening = f"(&{view.name}[" if view.address else f"{view.name}["
    return _sum_edits(use, view, opening, "])" if view.address else "]")


def _index_edits(use: Use, view: View) -> list[tuple[int, int, str]]:
    return _sum_edits(use, view, "(", ")" if view.name == "0" else f" + {view.name})")


def _sum_edits(use: Use, view: View, opening: str, closing: str) -> list[tuple[int, int, str]]:
    """Arguments as a sum, each times its stride."""
    begin, end = _span(use.node)
    made, at, text = [], begin, opening
    for step, argument in zip(view.strides, use.arguments, strict=True):
        first, last = _span(argument)
        several = len(view.strides) > 1 or step != "1"
        opened = ("" if step == "1" else f"{step} * ") + ("(" if several else "")
        made.append((at, first, text + opened))
        at, text = last, ")" * several + " + "
    return [*made, (at, end, text.removesuffix(" + ") + closing)]


def _span(node: Node) -> tuple[int, int]:
    span = span_of(node)
    assert span is not None
    return span


def _element(pointer: Node) -> Node:
    """The type of what a pointer leads to."""
    return {
        "qualType": re.sub(
            r" ?\*(?: ?const)?$", "", str(pointer.get("desugaredQualType", pointer["qualType"]))
        )
    }
