"""Which variables of a loop lead to objects of their own, as compilers see it in the function around the loop.

A parameter may be declared ``restrict`` where what it leads to is accessed in no other way while the loop runs (C17,
6.7.3.1). What compilers do not know in the function itself is not said either: a baseline may not be faster than the
user's program is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.spec.reading.address_sources import UNKNOWN, is_pointer
from tuner.spec.reading.declarators import declaration, pointer, separate
from tuner.spec.reading.loop_variables import UNNAMED, Variable
from tuner.spec.reading.nodes import Node
from tuner.spec.reading.pointer_flows import Callees, Flows
from tuner.spec.reading.signature import Function, SourceReader

__all__ = ["separate_objects"]

_WORD = re.compile(r"\b(?:restrict|__restrict|__restrict__)\b\s*")


@dataclass(frozen=True, slots=True)
class Separate:
    """What can be said of the variables that a loop is handed.

    Attributes:
        values: identities of pointers that lead to objects of their own, and of arrays that are such.
        addresses: of variables that are reached by their names alone.
        shared: of pointers that are ``restrict`` in the function and may not be that in one of the loop's.
    """

    values: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()

    def declared(self, variable: Variable, language: str) -> str:
        """A parameter that is a variable, or its value."""
        key = variable.node["id"]
        if key in self.shared:
            return _WORD.sub("", variable.declared)
        written, array = variable.type, variable.array
        if ("[" if array else "*") not in written:
            written = variable.plain
        if key not in self.values or variable.restrict or UNNAMED.search(written):
            return variable.declared
        return separate(written, variable.name, language, array=array) or variable.declared

    def address(self, variable: Variable, name: str, language: str) -> str:
        """A parameter that is a variable's address."""
        copied = variable.handed(language) == "copied" and not variable.constant
        kind = pointer(f"const {variable.type}" if copied else variable.type)
        alone = variable.node["id"] in self.addresses
        return (separate(kind, name, language) if alone else "") or declaration(kind, name)


@dataclass(slots=True)
class _Way:
    """One way by which the loop gets at objects: a variable's value, or the variable itself."""

    variable: Variable
    own: bool
    objects: set[str]


def separate_objects(
    reader: SourceReader, function: Function, loop: Node, variables: list[Variable]
) -> Separate:
    """What the variables that a loop uses lead to.

    Args:
        reader: of the function's file.
        function: around the loop.
        loop: of its tree.
        variables: that the loop uses.

    Raises:
        MachineError: clang does not answer.
    """
    flows = Flows(function.tree, Callees(reader))
    return _Judge(flows, loop, variables).found(reader.language)


class _Judge:
    def __init__(self, flows: Flows, loop: Node, variables: list[Variable]) -> None:
        self._flows = flows
        self._shared = flows.escaped | flows.reach(flows.returned)
        touched = flows.touched(loop)
        own = {f"g:{v.name}" for v in variables if v.static}
        self._named = {each for each in touched if each.startswith("g:")} - own
        self._unknown = UNKNOWN in touched
        self._ways = [way for variable in variables for way in self._ways_of(variable)]

    def found(self, language: str) -> Separate:
        """What holds for each."""
        values, addresses, shared = set[str](), set[str](), set[str]()
        for way in self._ways:
            variable, alone = way.variable, self._alone(way)
            key, handed = variable.node["id"], variable.handed(language)
            if alone and way.own and handed in ("address", "copied"):
                addresses.add(key)
            elif alone and handed == "value" and way.own == variable.array and not variable.reference:
                values.add(key)
            elif not alone and not way.own and variable.restrict:
                shared.add(key)
        return Separate(frozenset(values), frozenset(addresses), frozenset(shared))

    def _ways_of(self, variable: Variable) -> list[_Way]:
        key = variable.node["id"]
        itself = {f"g:{variable.name}"} if variable.static else {f"o:{key}"}
        held = self._flows.reach({f"v:{key}"}) if not variable.static else {UNKNOWN}
        if variable.reference:
            return [_Way(variable, False, held)]
        found = [_Way(variable, True, itself)]
        if variable.brought and is_pointer(variable.node):
            found.append(_Way(variable, False, held))
        return found

    def _alone(self, way: _Way) -> bool:
        """Whether all that one way leads to is known, and is accessed by that way alone."""
        if not way.objects or any(each[:2] in (UNKNOWN, "i:") for each in way.objects):
            return False
        shared = {each for each in way.objects if each.startswith("g:") or each in self._shared}
        if (self._unknown and shared) or not way.objects.isdisjoint(self._named):
            return False
        others = [other for other in self._ways if other is not way]
        return not any(self._meet(way.objects, shared, other.objects) for other in others)

    def _meet(self, own: set[str], shared: set[str], others: set[str]) -> bool:
        if UNKNOWN in others and shared:
            return True
        # What a parameter leads to was there before the function began, and is none of what its ``restrict`` hold.
        if any(e.startswith("i:") for e in others) and any(not e.startswith("p:") for e in shared):
            return True
        return not own.isdisjoint(others)
