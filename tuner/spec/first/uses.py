"""What is known of pointer arguments: accesses, extents as declared or else as accessed, and which ones hold indices.

Guesses for a first spec only, but for what is declared; and careful: what is not seen to be plain data may be an index,
a bound or a count, whose values cannot be just any.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from tuner.core.polynomials import Polynomial, constant, variable
from tuner.spec.reading.c_types import c_type
from tuner.spec.reading.extents import moves
from tuner.spec.reading.frames import Frame
from tuner.spec.reading.nodes import Node, named_in, parameter_nodes, plain_type, walk
from tuner.spec.reading.signature import Function
from tuner.spec.reading.trees import (
    callee_name,
    changes,
    inner_nodes,
    member_path,
    peeled,
    pointer_of,
    referenced,
)

__all__ = ["Lookup", "Use", "declare", "index_arrays", "index_members", "limits", "narrow"]

Lookup = Callable[[str], Function | None]
"""Gives other functions of a file and its headers by name."""

_LARGE = 1000
"""A size by which extents are compared."""
_NARROW = {"unsigned char": 1 << 8, "uint8_t": 1 << 8, "unsigned short": 1 << 16, "uint16_t": 1 << 16}
"""How many values types have, of which elements are indices as those of bytes are of a histogram's bins."""
_MOST_MASKED = 1 << 20
_MAX_CALLS = 3
_LOOPS = {
    "ForStmt": slice(0, -1),
    "WhileStmt": slice(0, 1),
    "DoStmt": slice(1, None),
    "SwitchStmt": slice(0, 1),
}
"""Where a statement says how often, or where it goes on."""
_BY = {"/", "%", "<<", ">>"}
"""Not defined for every right-hand side."""


@dataclass(slots=True)
class Use:
    """What happens to one pointer argument."""

    read: bool = False
    written: bool = False
    unclear: bool = False
    shapes: list[tuple[Polynomial, ...]] = field(default_factory=list)
    """What accesses speak of."""
    partly: list[tuple[Polynomial | None, ...]] = field(default_factory=list)
    """What other accesses speak of, of which not all is known."""
    declared: tuple[Polynomial | None, ...] = ()
    """Extents that the declaration gives; ``None`` for one that it does not."""
    lost: bool = False
    """Whether the extent of some access, or one that is declared, is unknown."""
    places: set[int] = field(default_factory=set)
    """The elements that are accessed by a constant index."""
    anywhere: bool = False
    """Whether others are accessed, too."""
    fresh: bool = False
    """Whether each element is written before it is read."""
    divides: bool = False
    """Whether something is divided by its elements, or they are to be positive for another reason."""

    def note(self, mode: str) -> None:
        """Adds one access: ``read``, ``write`` or ``both``."""
        self.read = self.read or mode != "write"
        self.written = self.written or mode != "read"

    def declare(self, found: Sequence[Polynomial | None], inner: Sequence[int] = ()) -> None:
        """Notes extents as a declaration gives them; where others are known they stay.

        Args:
            found: as of :meth:`Frame.declared`.
            inner: those of the elements, where nothing else is known.
        """
        if self.declared:
            return
        self.lost = self.lost or any(extent is not None and moves(extent) for extent in found)
        known = [None if extent is None or moves(extent) else extent for extent in found]
        if known[:1] == [constant(1)]:
            # `a[1]` is what old sources write for `*a`.
            known[0] = None
        if any(extent is not None for extent in known):
            self.declared = tuple(known)
        elif inner:
            self.declared = (None, *map(constant, inner))

    def accessed(self, indices: Sequence[Polynomial | None]) -> None:
        """Adds the element of one access."""
        place = indices[0].value if len(indices) == 1 and indices[0] is not None else None
        self.anywhere = self.anywhere or place is None
        self.places |= {place} if place is not None else set()

    @property
    def few(self) -> bool:
        """Whether only elements with constant indices are accessed, and none is changed."""
        return bool(self.places) and not (self.anywhere or self.written or self.unclear)

    @property
    def made(self) -> bool:
        """Whether what its elements are before is of no account."""
        return self.written and not self.unclear and (self.fresh or not self.read)

    @property
    def known(self) -> bool:
        """Whether the shape is certain."""
        return self.shape is not None and (not self.lost or bool(self.declared and None not in self.declared))

    @property
    def shape(self) -> tuple[Polynomial, ...] | None:
        """As declared; else the best guess: most dimensions, each as long as any access needs."""
        guess = max(self.shapes, key=lambda s: (len(s), [(e.at(_LARGE), e.text()) for e in s]), default=None)
        if guess is not None:
            others = {s for s in self.shapes if len(s) == len(guess) and _elements(s) != _elements(guess)}
            guess = tuple(map(_longest, zip(guess, *others, strict=True)))
            flat = {_elements(s) for s in self.shapes if len(s) < len(guess)}
            if not all(_at_least(_elements(guess), each) for each in flat):
                guess = (_longest([_elements(guess), *flat]),)
        if not self.declared:
            return guess
        guessed = zip_longest(self.declared, (guess or ())[: len(self.declared)])
        extents = [g if d is None else d for d, g in guessed]
        return tuple(e for e in extents if e is not None) if None not in extents else None


def _elements(shape: Sequence[Polynomial]) -> Polynomial:
    return math.prod(shape, start=constant(1))


def _longest(extents: Sequence[Polynomial]) -> Polynomial:
    """The extent that is at least as long as all; of those of which none is, the larger one at a time."""
    found: list[Polynomial] = []
    for extent in extents:
        if not any(_at_least(other, extent) for other in found):
            found = [other for other in found if not _at_least(extent, other)] + [extent]
    if len(found) == 1:
        return found[0]
    return variable(f"max({', '.join(sorted(extent.text() for extent in found))})")


def _at_least(one: Polynomial, other: Polynomial) -> bool:
    """Whether it is, whatever the sizes: `n * m` is at least `n`."""
    left = dict(one)
    for monomial, coefficient in sorted(other.items(), key=lambda term: -len(term[0])):
        needed = Counter(monomial)
        for more in [m for m in left if needed <= Counter(m)]:
            taken = min(coefficient, left[more])
            left[more] -= taken
            coefficient -= taken
        if coefficient > 0:
            return False
    return True


def declare(uses: Mapping[int, Use], frame: Frame) -> None:
    """Notes what declarations say of the arguments' extents."""
    # Extents are of the call, whatever becomes of a parameter afterwards.
    call = Frame(replace(frame.function, tree={}))
    call.values, call.pointed = frame.values, frame.pointed
    nodes = parameter_nodes(frame.function.tree)
    for position, use in uses.items():
        kind = frame.function.parameters[position][1]
        whole = tuple(map(constant, kind.extents))
        use.declare(whole or call.declared(nodes[position]), kind.inner)


def limits(uses: Iterable[Use]) -> frozenset[tuple[str, str]]:
    """How far accesses reach that sizes have a part in, and the declared extents that they are to stay within."""
    found = set()
    for use in uses:
        flat = {(_elements(s),) if len(use.declared) == 1 else s for s in use.shapes}
        for reached in (each for each in flat.union(use.partly) if len(each) == len(use.declared)):
            for length, extent in zip(use.declared, reached, strict=True):
                if length is not None and extent is not None and extent.names - length.names:
                    found.add((extent.text(), length.text()))
    return frozenset(found)


def index_arrays(function: Function, lookup: Lookup) -> frozenset[int]:
    """Positions of the pointer arguments whose elements may reach an index, a loop's bound or an unknown function.

    Args:
        function: with its tree.
        lookup: gives other functions of the file by name.
    """
    return _positions(function, lookup, ())


def index_members(function: Function, lookup: Lookup) -> dict[int, list[str]]:
    """Of arrays of structures the whole numbers that may reach an index or a loop's bound and stay as they are.

    Args:
        function: with its tree.
        lookup: gives other functions of the file by name.
    """
    tree = function.tree
    changed = {_member(inner_nodes(node)[0]) for node in walk(tree) if changes(node)}
    named = {_member(n) for part in _deciding(tree, lookup, ()) for n in walk(part) if _is_whole(n)}
    found: dict[int, list[str]] = {}
    for i, (node, (_, kind)) in enumerate(zip(parameter_nodes(tree), function.parameters, strict=True)):
        members = sorted(trail for root, trail in named - changed if root == node["id"] and trail)
        if kind.structure and members:
            found[i] = members
    return found


def _is_whole(node: Node) -> bool:
    kind = c_type({"qualType": plain_type(node)}) if node.get("kind") == "MemberExpr" else None
    return kind is not None and kind.whole and kind.usual.endswith(("32", "64"))


def _member(node: Node) -> tuple[str, str]:
    """What a member of an element is a member of, and its names from there; without names for anything else."""
    root, names = member_path(peeled(node))
    return referenced(pointer_of(root)), ".".join(names)


def _positions(function: Function, lookup: Lookup, within: tuple[str, ...]) -> frozenset[int]:
    reached = {name for part in _deciding(function.tree, lookup, within) for name in _names(part)}
    nodes = zip(parameter_nodes(function.tree), function.parameters, strict=False)
    return frozenset(i for i, (node, (_, kind)) in enumerate(nodes) if kind.pointer and node["id"] in reached)


def _deciding(tree: Node, lookup: Lookup, within: tuple[str, ...]) -> list[Node]:
    """What decides where or how often, and what is written to the variables and arrays in it."""
    parts = [part for node in walk(tree) for part in _places(node, lookup, within)]
    reached = {name for part in parts for name in _names(part)}
    flows = list(_flows(tree))
    while more := [value for target, value in flows if target in reached]:
        flows = [(target, value) for target, value in flows if target not in reached]
        reached |= {name for value in more for name in _names(value)}
        parts += more
    return parts


def _places(node: Node, lookup: Lookup, within: tuple[str, ...]) -> Iterator[Node]:
    """The parts of a node whose value decides where or how often."""
    kind, inner = node.get("kind", ""), inner_nodes(node)
    if kind == "ArraySubscriptExpr":
        if narrow(inner[1]) is None:
            yield inner[1]
    elif kind in _LOOPS:
        yield from inner[_LOOPS[kind]]
    elif kind == "BinaryOperator" and node.get("opcode") in ("+", "-") and "*" in plain_type(node):
        yield from (child for child in inner if "*" not in plain_type(child))
    elif node.get("opcode", "").rstrip("=") in _BY:
        yield inner[1]
    elif kind == "CallExpr" and inner:
        yield from _handed_over(inner, lookup, within)


def _handed_over(inner: list[Node], lookup: Lookup, within: tuple[str, ...]) -> Iterator[Node]:
    """The arguments of a call of which it is not known that they are plain data."""
    name = callee_name(inner[0])
    followed = lookup(name) if name and name not in within and len(within) < _MAX_CALLS else None
    arguments = inner[1:]
    if followed is None or len(followed.parameters) != len(arguments):
        yield from arguments
        return
    indices = _positions(followed, lookup, (*within, name))
    for i, (argument, (_, kind)) in enumerate(zip(arguments, followed.parameters, strict=True)):
        if i in indices or not kind.pointer:
            yield argument


def _flows(tree: Node) -> Iterator[tuple[str, Node]]:
    """What is written to which variable or array."""
    for node in walk(tree):
        inner = inner_nodes(node)
        if node.get("kind") == "VarDecl" and inner:
            yield node["id"], inner[-1]
        elif node.get("kind") == "CompoundAssignOperator" or node.get("opcode") == "=":
            yield _base(inner[0]), inner[1]


def _base(place: Node) -> str:
    """The variable or array that a place to write to belongs to; what it is indexed with is not written."""
    while "referencedDecl" not in place and place.get("inner"):
        place = place["inner"][0] or {}
    return referenced(place)


def narrow(index: Node) -> int | None:
    """What an array has to hold whose index is of a narrow type, or masked by a number: all that it can be."""
    index = peeled(index)
    if index.get("kind") == "BinaryOperator" and index.get("opcode") == "&":
        # `table[(c ^ *p++) & 0xff]`
        parts = map(peeled, inner_nodes(index))
        masks = [int(part["value"]) for part in parts if part.get("kind") == "IntegerLiteral"]
        return masks[0] + 1 if len(masks) == 1 and 0 < masks[0] < _MOST_MASKED else None
    kind = index.get("type", {}) if index.get("kind") == "ArraySubscriptExpr" else {}
    names = (str(kind.get(key, "")).replace("const ", "") for key in ("qualType", "desugaredQualType"))
    return next((_NARROW[name] for name in names if name in _NARROW), None)


def _names(node: Node) -> Iterator[str]:
    return (str(meant.get("id", "")) for meant in named_in(node))
