"""C text that finds the arguments of a function in what it is called with: members in the caller's structures.

Parameters are ``p0``, ``p1`` and so on; the arguments that a spec lists become ``a0``, ``a1`` and so on, whether they
are parameters themselves or lie in structures. May not compile anything.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import UsageError
from tuner.core.passing import Layout, Passed
from tuner.core.types import Argument
from tuner.recorders.recordings.c_text import (
    bound_sizes,
    c_number,
    c_type,
    item_text,
    number_text,
    parameter_text,
)

__all__ = ["Views", "plainly_passed"]

_X86_64 = ("x86_64", "AMD64")
_IN_REGISTERS = 16
"""Bytes of the largest structure that may be passed in registers; larger ones lie on the stack whatever they hold, but
for a single vector of more than 16 bytes. Source: System V ABI for AMD64, 3.2.3."""

_ALIGNED, _WORD = 16, 8
_WORDS = {"whole": "long", "real": "double"}
"""C types that go in the same registers as any eight bytes that do."""

_POINTER = "sizeof(void *)"


def plainly_passed(arguments: Sequence[Argument]) -> tuple[Passed, ...]:
    """Of a function that takes its arguments as they are."""
    return tuple(Passed(name=argument.name, argument=i) for i, argument in enumerate(arguments))


def _numbers_first(passed: Sequence[Passed]) -> list[tuple[int, Passed]]:
    """With their places, what is no structure before what is one."""
    return sorted(enumerate(passed), key=lambda pair: bool(pair[1].members))


@dataclass(slots=True)
class Views:
    """Declarations of parameters and of the arguments in them.

    Args:
        passed: the function's parameters.
        arguments: what it consists of, those for a wrapper alone left out.
        layout: of its structures.

    Raises:
        SpecError: a number that C does not pass by value here.
        UsageError: a structure that is copied for the call by a constructor, or in a way that no other type is.
    """

    passed: Sequence[Passed]
    arguments: Sequence[Argument]
    layout: Layout
    types: list[str] = field(default_factory=list)
    copies: dict[int, tuple[int, int]] = field(default_factory=dict)
    registers: dict[int, tuple[str, ...]] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    structures: list[str] = field(default_factory=list)
    missing: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[int, str] = field(default_factory=dict)
    held: list[tuple[str, str]] = field(default_factory=list)
    extents: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parameters += [self._parameter(one, number) for number, one in enumerate(self.passed)]
        for number, one in _numbers_first(self.passed):
            if self._is_copied(one) and one.argument is not None:
                # The caller's own copy lies in its part of the stack.
                self.lines.append(f"long a{one.argument} = (long)callers_copy(&p{number});")
                self.missing.append((f"!a{one.argument}", f"{one.name} is passed in registers"))
            elif self._is_copied(one):
                self._structure(one, f"&p{number}", copied=True)
            elif one.members:
                self._structure(one, f"p{number}")
            else:
                self.lines.append(self._own(one, f"p{number}"))
                self._note_size(one.argument)

    def first_rows(self, names: Mapping[str, str]) -> list[str]:
        """Statements that follow the others: where arrays begin whose rows' addresses are passed.

        Where there are no rows, nothing needs to lie where their addresses would be.

        Args:
            names: C text of each size.

        Raises:
            SpecError: an extent that cannot be computed from the arguments.
        """
        return [
            f"if ({self._rows_count(number, names)} > 0) a{number} ="
            f"  pointer_at(there({addresses}, {_POINTER}), 0);"
            for number, addresses in self.rows.items()
        ]

    def _rows_count(self, number: int, names: Mapping[str, str]) -> str:
        argument = self.arguments[number]
        (count, *_) = argument.shape or ()
        return c_number(count, names, f"the extent of {argument.name!r},")

    def whole(self, names: Mapping[str, str]) -> str:
        """A condition in C: every structure is there, and rows lie as in one array.

        Args:
            names: C text of each size.

        Raises:
            SpecError: an extent that cannot be computed from the arguments.
        """
        parts = [f"{structure} != NULL" for structure in self.structures]
        return " && ".join([*parts, *self.in_rows(names).values()]) or "1"

    def in_rows(self, names: Mapping[str, str]) -> dict[int, str]:
        """Of each array whose rows' addresses are passed, by number, a condition in C: they lie as in one array.

        Raises:
            SpecError: an extent that cannot be computed from the arguments.
        """
        found: dict[int, str] = {}
        for number, addresses in self.rows.items():
            argument = self.arguments[number]
            label = f"the extent of {argument.name!r},"
            count, *rest = (c_number(extent, names, label) for extent in argument.shape or ())
            each = functools.reduce(lambda left, size: f"times({left}, {size})", rest, item_text(argument))
            found[number] = f"in_a_row({addresses}, {count}, {each})"
        return found

    def beside(self, names: Mapping[str, str]) -> list[tuple[str, str]]:
        """Address and bytes in C of what the function reads and no argument that is an array covers.

        Numbers and pointers in structures, and the addresses of rows: a winner may read them once, so they must not
        change while it runs.

        Args:
            names: C text of each size.

        Raises:
            SpecError: an extent that cannot be computed from the arguments.
        """
        found = list(self.held)
        for number, addresses in self.rows.items():
            found.append((addresses, f"times({self._rows_count(number, names)}, {_POINTER})"))
        return found

    def _is_copied(self, one: Passed) -> bool:
        return bool(one.kind or one.members) and one.by_value and one.name not in self.layout.references

    def _parameter(self, one: Passed, number: int) -> str:
        if one.argument is not None and not self._is_copied(one):
            return f"{parameter_text(self.arguments[one.argument])} p{number}"
        if not self._is_copied(one):
            return f"void * p{number}"
        size, alignment = self.layout.sizes[one.name], self.layout.alignments.get(one.name)
        registers = self.layout.registers.get(one.name)
        if platform.machine() in _X86_64 and registers and alignment is not None and alignment <= _WORD:
            words = " ".join(f"{_WORDS[kind]} w{i};" for i, kind in enumerate(registers))
            self.types.append(f"typedef struct {{ {words} }} Copied{number};")
            self.registers[number] = registers
            return f"Copied{number} p{number}"
        if (
            platform.machine() not in _X86_64
            or alignment is None
            or size <= _IN_REGISTERS
            or alignment > _ALIGNED
        ):
            raise UsageError(
                f"{one.name} is passed by value in a way that only its own type tells",
                "pass its address, or put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
            )
        self.copies[number] = size, max(alignment, 8)
        self.types.append(
            f"typedef struct {{ char bytes[{size}]; }} __attribute__((aligned({alignment}))) Copied{number};"
        )
        return f"Copied{number} p{number}"

    def _note_size(self, number: int | None) -> None:
        """Keeps the numbers that alone are an extent of some array."""
        assert number is not None
        argument = self.arguments[number]
        text = argument.value.text.strip() if argument.value is not None else ""
        shapes = [extent.text.strip() for one in self.arguments for extent in one.shape or ()]
        if text in shapes and bound_sizes(self.arguments).get(text) == number:
            self.extents.append(number_text(argument, f"a{number}"))

    def _own(self, one: Passed, text: str) -> str:
        """An argument that is a parameter."""
        assert one.argument is not None
        argument = self.arguments[one.argument]
        if one.rows:
            self.rows[one.argument] = text
            return f"void *a{one.argument} = NULL;"
        if argument.by_pointer:
            return f"void *a{one.argument} = {self._there(text, one.argument)};"
        return f"{parameter_text(argument)} a{one.argument} = {text};"

    def _there(self, text: str, number: int) -> str:
        """The address of a number, or a null pointer where it leads to none."""
        name = self.arguments[number].name
        self.missing.append((f"!a{number}", f"{name} is a null pointer or leads to no memory"))
        return f"there({text}, {item_text(self.arguments[number])})"

    def _structure(self, structure: Passed, text: str, *, copied: bool = False) -> None:
        """Its members; ``text`` is a pointer to it."""
        name, size = f"s{len(self.structures)}", self.layout.sizes[structure.name]
        self.structures.append(name)
        # Of nothing, an application need not have set what leads to more.
        needed = "".join(f"{size} > 0 && " for size in self.extents)
        self.lines.append(
            f"const char *{name} = {f'(const char *){text}' if copied else f'there({text}, {size})'};"
        )
        if not copied:
            reason = f"{structure.name} is a null pointer or leads to no memory"
            self.missing.append((f"{needed}!{name}", reason))
        for _, member in _numbers_first(structure.reached):
            at = self.layout.offsets[member.name]
            if not member.by_value:
                self.held.append((f"{name} + {at}", _POINTER))
            if member.members:
                needed = "".join(f"{size} > 0 && " for size in self.extents)
                self._structure(member, f"{needed}{name} ? pointer_at({name}, {at}) : NULL")
            else:
                self.lines += self._member(member, name, at)
                self._note_size(member.argument)

    def _member(self, member: Passed, structure: str, at: int) -> list[str]:
        assert member.argument is not None
        argument, name = self.arguments[member.argument], f"a{member.argument}"
        if member.rows:
            self.rows[member.argument] = f"pointer_at({structure}, {at})"
            return [f"void *{name} = NULL;"]
        if argument.is_array:
            found = f"{structure} ? (void *)({structure} + {at}) : NULL"
            if not member.by_value:
                found = f"pointer_at({structure}, {at})"
                found = self._there(found, member.argument) if argument.by_pointer else found
            return [f"void *{name} = {found};"]
        self.held.append((f"{structure} + {at}", f"sizeof {name}"))
        return [
            f"{c_type(argument.dtype, argument.name)} {name} = 0;",
            f"if ({structure}) memcpy(&{name}, {structure} + {at}, sizeof {name});",
        ]
