"""How a C or C++ function that takes structures is called, told by the arguments that it consists of.

A spec lists the members of structures, and the tuner works on those alone. Who stands before the function in an
application has to find them where the application put them: :class:`Passed` says what leads to what, :class:`Layout`
where it lies. May not compile or read sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Layout", "Passed", "members", "structures"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A parameter of a function, or a member of a structure.

    Attributes:
        name: as the source has it, members behind their structures: ``g.box.nx``.
        argument: which of the arguments it is, those for the wrapper alone not counted; ``None`` for a structure.
        kind: a structure's type as the source writes it; empty where the member's own type says it. Of an argument
            that is the address of a structure that is passed by value.
        by_value: it lies where it is: a structure that no pointer leads to, an array or a number inside one.
        rows: the addresses of an array's rows.
        members: of a structure, those that the spec lists.
    """

    name: str
    argument: int | None = None
    kind: str = ""
    by_value: bool = False
    rows: bool = False
    members: tuple[Passed, ...] = ()

    @property
    def reached(self) -> tuple[Passed, ...]:
        """The members of a structure, with those of structures that lie inside it in their place."""
        found: list[Passed] = []
        for member in self.members:
            found += member.reached if member.members and member.by_value else (member,)
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the members of a function's structures lie, as a compiler has it.

    Attributes:
        sizes: bytes of each structure that is passed or that a pointer leads to, by name.
        offsets: of each member in the one of these that it is part of, however deep, by name.
        references: parameters that are C++ references, by name.
        alignments: bytes, of each structure that is copied for a call as plain bytes are, by name.
        registers: of each structure that is copied for a call in registers, by name: what each eight bytes of it go in,
            ``whole`` or ``real``.
        members: every member of the structures, listed by the spec or not, with place and type, as the compiler has it.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    references: frozenset[str] = frozenset()
    alignments: Mapping[str, int] = field(default_factory=dict)
    registers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    members: tuple[str, ...] = ()


def structures(passed: Sequence[Passed]) -> Iterator[Passed]:
    """Every structure that is passed or that a pointer leads to, outer ones first."""
    for one in passed:
        if one.members:
            yield one
            yield from structures(one.reached)


def members(passed: Sequence[Passed]) -> Iterator[Passed]:
    """Parameters and members that are arguments, in order."""
    for one in passed:
        if one.argument is not None:
            yield one
        yield from members(one.members)
