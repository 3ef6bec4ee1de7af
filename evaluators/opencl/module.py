"""What a SPIR-V module says of its kernels: parameters, what they point to, and whether they know their work-group.

Reads the binary form and trusts nothing of it; a whole validation is the device's. May not change a module.

Source: SPIR-V specification, binary form, and the OpenCL environment's (Khronos).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import BaselineError

__all__ = ["SPIRV", "SUFFIX", "EntryPoint", "Parameter", "entry_point", "module_bytes", "module_text"]

SPIRV = "spirv"
"""The language of a kernel whose source is a SPIR-V module."""

SUFFIX = ".spv"
"""Of such a source's file."""

_MAGIC = 0x07230203
_HEADER_WORDS = 5
_NAME, _ENTRY, _TYPE_VOID = 5, 15, 19
_INT, _FLOAT, _VECTOR, _POINTER = 21, 22, 23, 32
_FUNCTION, _PARAMETER, _END, _CALL, _VARIABLE, _LOAD, _STORE = 54, 55, 56, 57, 59, 61, 62
_CHAINS = (65, 66, 67, 70)
_CASTS = (83, 121, 122, 123, 124)
_EXTENDED, _COPY, _SELECT, _PHI = 12, (63, 64), 169, 245
_CONSTANTS = (1, *range(41, 47), *range(48, 53))
_DECORATE, _GROUP_DECORATE = 71, 74
_ATOMICS = range(227, 243)
_TOGETHER = (224, 225, 259, 260, *range(261, 272), *range(333, 367))
"""Barriers, copies of a work-group, votes and the like: what work-items do together (``Op`` numbers)."""

_KERNEL = 6
_BUILT_IN, _ATTRIBUTE, _NON_WRITABLE = 11, 38, 24
_BY_VALUE, _NO_WRITE = 2, 6
_CONSTANT_MEMORY, _WORKGROUP = 0, 4
_WORK_DIM = 30
_GROUPED = frozenset({24, 25, 26, 27, 29, 32, *range(36, 42)})
"""Built-in variables that follow from the work-group's size."""

_REQUIRED_SIZE, _REQUIRED_SIZE_BY = 17, 38
_MODE, _MODE_BY = 16, 331
_INTEGERS = {8: "char", 16: "short", 32: "int", 64: "long"}
_FLOATS = {16: "half", 32: "float", 64: "double"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel.

    Attributes:
        name: empty where the module has none.
        base: the number as OpenCL C spells it, of the value or of what it points to; empty where it is none, or
            several are read and written through it.
        width: components of a vector by value; else 1.
        pointer, local, constant: what it points to, if it does: anything, local memory, what the kernel does not write.
    """

    name: str
    base: str
    width: int = 1
    pointer: bool = False
    local: bool = False
    constant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """One kernel.

    Attributes:
        name: as applications ask for it.
        parameters: in call order.
        grouped: whether it, or what it calls, may know how large its work-group is.
        asks_axes: whether it asks for the number of axes.
    """

    name: str
    parameters: tuple[Parameter, ...]
    grouped: bool
    asks_axes: bool


def module_text(code: bytes) -> str:
    """A module as text, which is how specs and records hold sources: hexadecimal digits."""
    return code.hex()


def module_bytes(text: str) -> bytes:
    """The inverse of :func:`module_text`.

    Raises:
        BaselineError: the text is none.
    """
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise _damaged() from None


def entry_point(code: bytes, name: str) -> EntryPoint:
    """What a module says of one of its kernels.

    Raises:
        BaselineError: it is no SPIR-V, or has no such kernel.
    """
    module = _Module(_words(code))
    try:
        return module.entry(name)
    except (IndexError, KeyError, struct.error):
        raise _damaged() from None


def _damaged() -> BaselineError:
    return BaselineError("the source is no SPIR-V module that can be read", "record it again")


def _words(code: bytes) -> tuple[int, ...]:
    for order in "<>":
        words: tuple[int, ...] = struct.unpack(f"{order}{len(code) // 4}I", code[: len(code) // 4 * 4])
        if len(words) > _HEADER_WORDS and words[0] == _MAGIC and len(code) % 4 == 0:
            return words
    raise _damaged()


def _string(words: Sequence[int]) -> str:
    """A literal; its bytes stand in words from the low end on, whatever the order of the module."""
    data = b"".join(word.to_bytes(4, "little") for word in words)
    return data.partition(b"\0")[0].decode("utf-8", "replace")


@dataclass(slots=True)
class _Function:
    parameters: list[tuple[int, int]] = field(default_factory=list)
    """Number and type of each."""
    body: list[tuple[int, Sequence[int]]] = field(default_factory=list)
    """Instructions and their operands."""
    types: dict[int, int] = field(default_factory=dict)
    """Of the values that it computes."""


class _Module:
    def __init__(self, words: Sequence[int]) -> None:
        self._types: dict[int, tuple[int, Sequence[int]]] = {}
        self._names: dict[int, str] = {}
        self._decorations: dict[int, list[Sequence[int]]] = {}
        self._entries: dict[str, int] = {}
        self._functions: dict[int, _Function] = {}
        self._variables: dict[int, int] = {}
        self._modes: dict[int, set[int]] = {}
        self._constants: dict[int, int] = {}
        current: _Function | None = None
        for opcode, operands in _instructions(words):
            if opcode == _FUNCTION:
                current = self._functions[operands[1]] = _Function()
            elif opcode == _END:
                current = None
            elif current is not None and opcode == _PARAMETER:
                current.parameters.append((operands[1], operands[0]))
                current.types[operands[1]] = operands[0]
            elif current is not None:
                current.body.append((opcode, operands))
                if len(operands) > 1 and operands[0] in self._types:
                    current.types.setdefault(operands[1], operands[0])
            else:
                self._declare(opcode, operands)

    def _declare(self, opcode: int, operands: Sequence[int]) -> None:
        if opcode == _NAME:
            self._names[operands[0]] = _string(operands[1:])
        elif opcode == _ENTRY and operands[0] == _KERNEL:
            self._entries[_string(operands[2:])] = operands[1]
        elif opcode == _DECORATE:
            self._decorations.setdefault(operands[0], []).append(operands[1:])
        elif opcode == _GROUP_DECORATE:
            for target in operands[1:]:
                self._decorations.setdefault(target, []).extend(self._decorations.get(operands[0], []))
        elif opcode in (_MODE, _MODE_BY):
            self._modes.setdefault(operands[0], set()).add(operands[1])
        elif opcode == _VARIABLE:
            self._variables[operands[1]] = operands[2]
        elif opcode in _CONSTANTS:
            self._constants[operands[1]] = operands[0]
        elif _TYPE_VOID <= opcode <= _POINTER:
            self._types[operands[0]] = opcode, operands[1:]

    def entry(self, name: str) -> EntryPoint:
        if name not in self._entries:
            listed = ", ".join(sorted(self._entries)[:8]) or "none"
            raise BaselineError(f"the module has no kernel {name!r}", f"it has {listed}")
        number = self._entries[name]
        reached = self._reached(number)
        grouped = self._modes.get(number, set()) & {_REQUIRED_SIZE, _REQUIRED_SIZE_BY}
        asked = {built_in for one in reached for built_in in self._asked(self._functions[one])}
        together = any(opcode in _TOGETHER for one in reached for opcode, _ in self._functions[one].body)
        local = any(
            self._variables.get(word) == _WORKGROUP
            for one in reached
            for _, operands in self._functions[one].body
            for word in operands
        )
        return EntryPoint(
            name=name,
            parameters=tuple(
                self._parameter(number, position) for position in range(len(self._parameters(number)))
            ),
            grouped=bool(grouped) or together or local or bool(asked & _GROUPED),
            asks_axes=_WORK_DIM in asked,
        )

    def _parameters(self, function: int) -> list[tuple[int, int]]:
        return self._functions[function].parameters

    def _reached(self, start: int) -> set[int]:
        reached, waiting = {start}, [start]
        while waiting:
            for opcode, operands in self._functions[waiting.pop()].body:
                if opcode == _CALL and operands[2] in self._functions and operands[2] not in reached:
                    reached.add(operands[2])
                    waiting.append(operands[2])
        return reached

    def _asked(self, function: _Function) -> Iterator[int]:
        """Built-in variables that a function reads, or hands on."""
        for opcode, operands in function.body:
            used: Sequence[int] = ()
            if opcode == _LOAD or opcode in _CHAINS or opcode in _CASTS:
                used = operands[2:3]
            elif opcode == _CALL:
                used = operands[3:]
            for word in used:
                for decoration in self._decorations.get(word, ()):
                    if decoration[0] == _BUILT_IN:
                        yield decoration[1]

    def _parameter(self, function: int, position: int) -> Parameter:
        number, kind = self._parameters(function)[position]
        name = self._names.get(number, "")
        opcode, operands = self._types[kind]
        marks = {tuple(d[:2]) for d in self._decorations.get(number, ())}
        if opcode != _POINTER or (_ATTRIBUTE, _BY_VALUE) in marks:
            base, width = ("", 1) if opcode == _POINTER else self._number(kind)
            return Parameter(name=name, base=base, width=width)
        seen = self._element(operands[1], function, position)
        constant = operands[0] == _CONSTANT_MEMORY or bool(marks & {(_ATTRIBUTE, _NO_WRITE)})
        return Parameter(
            name=name,
            base=seen,
            pointer=True,
            local=operands[0] == _WORKGROUP,
            constant=constant or any(d[0] == _NON_WRITABLE for d in self._decorations.get(number, ())),
        )

    def _number(self, kind: int) -> tuple[str, int]:
        """A type's number and how many; no text where it is none."""
        opcode, operands = self._types[kind]
        if opcode == _INT:
            return _INTEGERS.get(operands[0], ""), 1
        if opcode == _FLOAT:
            return _FLOATS.get(operands[0], ""), 1
        if opcode == _VECTOR:
            return self._number(operands[0])[0], operands[1]
        return "", 1

    def _element(self, kind: int, function: int, position: int) -> str:
        """What is read and written through a pointer; modules of today may point to bytes only."""
        found: set[str] = set()
        waiting = [(function, self._parameters(function)[position][0])]
        seen: set[tuple[int, int]] = set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            within, pointer = place
            for opcode, operands in self._functions[within].body:
                waiting += self._aliases(opcode, operands, within, pointer)
                found |= self._accessed(opcode, operands, within, pointer)
        if len(found) == 1:
            return found.pop()
        return "" if found else self._number(kind)[0]

    def _aliases(
        self, opcode: int, operands: Sequence[int], within: int, pointer: int
    ) -> Iterator[tuple[int, int]]:
        """Pointers that an instruction makes of one, with the function that they are in."""
        if opcode == _CALL and operands[2] in self._functions:
            given = zip(operands[3:], self._parameters(operands[2]), strict=False)
            yield from ((operands[2], number) for word, (number, _) in given if word == pointer)
        made = (
            (opcode in (*_CHAINS, *_CASTS) and operands[2] == pointer)
            or (opcode == _PHI and pointer in operands[2::2])
            or (opcode == _SELECT and pointer in operands[3:])
        )
        if made:
            yield within, operands[1]

    def _accessed(self, opcode: int, operands: Sequence[int], within: int, pointer: int) -> set[str]:
        """The numbers that an instruction reads or writes through a pointer; an empty text for what is none."""
        kind = 0
        if (opcode == _LOAD or opcode in _ATOMICS) and operands[2:3] == (pointer,):
            kind = operands[0]
        elif opcode == _STORE and operands[0] == pointer:
            kind = self._type_of(within, operands[1])
        elif opcode == _EXTENDED and pointer in operands[4:]:
            # Those that store give nothing back: what they store comes first.
            void = self._types.get(operands[0], (_TYPE_VOID, ()))[0] == _TYPE_VOID
            kind = self._type_of(within, operands[4]) if void else operands[0]
        elif opcode not in _COPY or pointer not in operands[:2]:
            return set()
        return {self._number(kind)[0] if kind in self._types else ""}

    def _type_of(self, function: int, value: int) -> int:
        return self._functions[function].types.get(value, self._constants.get(value, 0))


def _instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    at = _HEADER_WORDS
    while at < len(words):
        length, opcode = words[at] >> 16, words[at] & 0xFFFF
        if length == 0 or at + length > len(words):
            raise _damaged()
        yield opcode, words[at + 1 : at + length]
        at += length
