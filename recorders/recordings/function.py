"""C text of a library that stands before one function: what those have in common that record it or replace it.

May not compile anything; :mod:`tuner.recorders.recordings.capture` runs an application with what was made of it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from tuner.core.passing import Layout, Passed
from tuner.core.types import Argument
from tuner.recorders.recordings.c_text import (
    HELPERS,
    bound_sizes,
    c_number,
    c_type,
    is_address,
    item_text,
    number_text,
    parameter_text,
)
from tuner.recorders.recordings.views import Views, plainly_passed

__all__ = ["Interposed", "OwnHead"]


_REAL = ("_Float16", "float", "double")
_WHOLE_IN_REGISTERS, _REAL_IN_REGISTERS, _WORD = 6, 8, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHead:
    """How a function of an executable is stood before.

    Attributes:
        path: of the executable.
        address: of the function, relative to where the executable is loaded.
        first: the bytes that a jump is written over.
        moved: what they are elsewhere.
        targets: where in ``moved`` four bytes are relative, where that instruction ends, and what is meant, counted
            from the start of the function.
        variables: address and bytes of each variable of the executable that is an array.
    """

    path: str
    address: int
    first: bytes
    moved: bytes
    targets: tuple[tuple[int, int, int], ...]
    variables: tuple[tuple[int, int], ...] = ()

    def text(self) -> str:
        """Declarations in C."""
        targets = ", ".join("{" + ", ".join(map(str, t)) + "}" for t in self.targets) or "{0}"
        variables = ", ".join(f"{{{address}, {size}}}" for address, size in self.variables) or "{0}"
        return "\n".join(
            [
                f"#define OWN_PATH {json.dumps(self.path)}",
                f"#define OWN_ADDRESS {self.address}L",
                f"#define OWN_TARGETS {len(self.targets)}",
                f"static const unsigned char own_first[] = {{{', '.join(map(str, self.first))}}};",
                f"static const unsigned char own_moved[] = {{{', '.join(map(str, self.moved))}}};",
                f"static const long own_targets[][3] = {{{targets}}};",
                f"#define OWN_VARIABLES {len(self.variables)}",
                f"static const long own_variables[][2] = {{{variables}}};",
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Interposed:
    """A function that a library of ours stands before.

    Attributes:
        entry: its name in the spec.
        symbol: its name in object code; another one than ``entry`` for C++.
        arguments: in call order, members in the place of structures.
        returns: dtype of what it returns; of an executable's own ``None`` says that it returns nothing.
        sizes: the values of sizes that no argument carries.
        own: where the executable defines it itself.
        variables: of arguments that are the executable's variables, by their numbers: where an address of each lies,
            relative to where the executable is loaded, and whether the variable is a pointer to the argument.
        passed: its parameters; empty where they are the other arguments.
        layout: of the structures among them.
    """

    entry: str
    symbol: str
    arguments: tuple[Argument, ...]
    returns: str | None
    sizes: Mapping[str, int]
    own: OwnHead | None = None
    variables: Mapping[int, tuple[int, bool]] = field(default_factory=dict)
    passed: tuple[Passed, ...] = ()
    layout: Layout = field(default_factory=Layout)

    @functools.cached_property
    def views(self) -> Views:
        """Where its arguments are in what it is called with."""
        passed = self.passed or tuple(
            one for one in plainly_passed(self.arguments) if one.argument not in self.variables
        )
        return Views(passed, self.arguments, self.layout)

    @property
    def keeps_memory(self) -> bool:
        """Whether the application's memory is recorded as it is."""
        return any(map(is_address, self.arguments))

    @property
    def names(self) -> dict[str, str]:
        """Each size in C: the argument that carries it, else its value."""
        bound = bound_sizes(self.arguments)
        names = {name: self.number(number) for name, number in bound.items()}
        return names | {name: str(value) for name, value in self.sizes.items() if name not in bound}

    def number(self, number: int) -> str:
        """What a scalar argument carries, in C."""
        return number_text(self.arguments[number], f"a{number}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Declarations of the parameters ``p0``, ``p1`` and so on."""
        return tuple(self.views.parameters)

    @property
    def passed_on(self) -> str:
        """The parameters in a call that passes them on."""
        return ", ".join(f"p{i}" for i in range(len(self.parameters)))

    @property
    def declared(self) -> str:
        """Statements that declare the arguments ``a0``, ``a1`` and so on."""
        found = []
        for number, (address, pointer) in self.variables.items():
            kind = parameter_text(self.arguments[number])
            value = f"{'*' * pointer}*(void *{'*' * pointer}*)(own_base + {address}L)"
            found.append(f"{kind} a{number} = ({kind}){value};")
        lines = [*found, *self.views.lines, *self.views.first_rows(self.names)]
        return "\n".join(f"    {line}" for line in lines)

    @property
    def whole(self) -> str:
        """A condition in C: every structure is there, and rows lie as in one array."""
        return self.views.whole(self.names)

    @property
    def result(self) -> str:
        """The type of what it returns; where the spec does not say, both registers that a number comes back in."""
        return "Returned" if self.returns is None else c_type(self.returns, "what it returns")

    def extent(self, number: int) -> str:
        """The bytes of an array in C; empty for a scalar.

        Raises:
            SpecError: it cannot be computed from the arguments.
        """
        argument = self.arguments[number]
        if argument.shape is None:
            return ""
        sizes = self._extents(number)
        return functools.reduce(lambda bytes_, size: f"times({bytes_}, {size})", sizes, item_text(argument))

    def is_size(self, number: int) -> str:
        """A condition in C: every extent of an array is at least 1, and all its bytes together are a size."""
        parts = [f"{extent} > 0" for extent in self._extents(number)]
        return " && ".join([*parts, f"({self.extent(number)}) <= MOST_BYTES"])

    def _extents(self, number: int) -> list[str]:
        argument = self.arguments[number]
        label = f"the extent of {argument.name!r},"
        return [c_number(extent, self.names, label) for extent in argument.shape or ()]

    @property
    def definition(self) -> str:
        """The first line of the function that stands before it.

        Exported under the symbol, for the dynamic linker to find; an executable's own would be found in its place.
        """
        kind = "EXPORT" if self.own is None else "static __attribute__((used))"
        return f"{kind} {self.result} wrapper_function({', '.join(self.parameters) or 'void'})"

    @property
    def _registers(self) -> str:
        """How many words of arguments find no register, and in which register a value comes back: none, RAX or XMM0."""
        whole, real, stack = 0, 0, 0
        for number, parameter in enumerate(self.parameters):
            if number in self.views.registers:
                kinds = self.views.registers[number]
                wholes, reals = kinds.count("whole"), kinds.count("real")
                fits = not wholes or whole + wholes <= _WHOLE_IN_REGISTERS
                if fits and (not reals or real + reals <= _REAL_IN_REGISTERS):
                    whole, real = whole + wholes, real + reals
                else:
                    # All of it on the stack, and what follows may find a register yet.
                    stack += _WORD * len(kinds)
            elif number in self.views.copies:
                size, alignment = self.views.copies[number]
                stack = -(-stack // alignment) * alignment + -(-size // _WORD) * _WORD
            elif parameter.rpartition(" ")[0] in _REAL:
                real += 1
                stack += _WORD * (real > _REAL_IN_REGISTERS)
            else:
                whole += 1
                stack += _WORD * (whole > _WHOLE_IN_REGISTERS)
        returns = 0 if self.returns is None else 2 if self.result in _REAL else 1
        return f"#define OWN_STACK {stack // _WORD}\n#define OWN_RETURNS {returns}"

    def head(self) -> str:
        """What follows ``common.c``: what both kinds of libraries declare, and what they share."""
        parameters = ", ".join(self.parameters) or "void"
        lines = [
            f"#define SYMBOL {json.dumps(self.symbol)}",
            f"#define ENTRY {json.dumps(self.entry)}",
            "#define WRAPPER ((void *)wrapper_function)",
            "typedef struct { uint64_t whole; double real; } Returned;",
            *self.views.types,
            f"typedef {self.result} (*Function)({parameters});",
            f"{self.definition}{' __asm__(SYMBOL)' if self.own is None else ''};",
            "" if self.own is None else f"{self.own.text()}\n{self._registers}",
            *(
                files(__package__).joinpath(n).read_text(encoding="utf-8")
                for n in ("function.c", "reading.c")
            ),
            HELPERS,
        ]
        return "\n".join(lines)
