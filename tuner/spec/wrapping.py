"""The function around a kernel that takes structures or the addresses of rows: it fills them and calls the kernel.

It is compiled with the kernel's own source, so that the compiler says where members lie, and it calls the kernel as the
application does: through an address that the compiler knows nothing of, so that neither is made for the other. May not
read files or compile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.dtypes import C_TYPES, is_structured
from tuner.core.expressions import Expression, parse
from tuner.core.passing import Passed
from tuner.core.source_text import free_name
from tuner.core.types import Argument, ArgumentRole, Initial, Source, Variable
from tuner.spec.models import ArgumentModel
from tuner.spec.reading.methods import THIS

__all__ = ["Wrapper", "rows_of", "start_name", "start_of", "wrapper_of"]

_WRITTEN = (ArgumentRole.OUTPUT, ArgumentRole.INOUT)
_ANY = """\
template <class tuner_t> struct tuner_number { typedef tuner_t tuner_is; };
template <class tuner_t> struct tuner_number<tuner_t *> {};
struct tuner_any {
    void *tuner_at;
    template <class tuner_t> operator tuner_t *() const { return (tuner_t *)tuner_at; }
    template <class tuner_t, class = typename tuner_number<tuner_t>::tuner_is> operator tuner_t &() const
    {
        return *(tuner_t *)tuner_at;
    }
};
"""
"""A pointer to anything, or what it points to where a function takes a reference; no name that a macro may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A function that calls one of the sources.

    Attributes:
        wrapped: name of the one that it calls, with namespaces.
        symbol: its own.
        text: of it, to follow the source.
        passed: what the one that it calls takes, where that is not what it takes itself.
        members: arrays that a method reaches by their names, through pointers in its object.
    """

    wrapped: str
    symbol: str
    text: str
    passed: tuple[Passed, ...] = ()
    members: tuple[Variable, ...] = ()


def start_name(array: str) -> str:
    """The name of the number that says where in an array a pointer to it leads."""
    return f"{array}, element that is pointed to"


def start_of(array: Argument, elements: Expression) -> Argument:
    """What a wrapper needs to pass the address of an element that is not the first.

    Args:
        array: whose elements it has.
        elements: how many lie before that one.
    """
    return Argument(name=start_name(array.name), dtype="int64", value=elements, passing="wrapper")


def rows_of(array: Argument) -> tuple[Argument, Argument, Argument]:
    """What a wrapper needs to make the addresses of an array's rows: their place, their number, the length of one."""
    assert array.shape is not None
    rows, *rest = array.shape
    length = parse(" * ".join(f"({extent.text})" for extent in rest))
    place = Argument(
        name=f"{array.name}, row pointers",
        dtype="int64",
        shape=(rows,),
        role=ArgumentRole.SCRATCH,
        initial=Initial(kind="zeros"),
        passing="wrapper",
    )
    number = Argument(name=f"{array.name}, rows", dtype="int64", value=rows, passing="wrapper")
    each = Argument(name=f"{array.name}, length of a row", dtype="int64", value=length, passing="wrapper")
    return place, number, each


def wrapper_of(
    entry: str,
    given: Sequence[ArgumentModel],
    arguments: Sequence[Argument],
    returns: str | None,
    files: Sequence[Source],
    language: str,
) -> Wrapper:
    """The wrapper of a kernel.

    Args:
        entry: the kernel.
        given: its arguments as the spec has them.
        arguments: what they consist of, in order: the wrapper's own.
        returns: dtype of what it returns.
        files: the sources, for a name that is free.
        language: ``c`` or ``c++``.
    """
    symbol = free_name(f"{entry.rpartition('::')[2]}_wrapped", [f.text for f in files])
    own = [argument.name for argument in arguments if argument.passing not in ("wrapper", "memory")]
    numbers = {name: number for number, name in enumerate(own)}
    return Wrapper(
        wrapped=entry,
        symbol=symbol,
        text=_Writer(arguments, language).text(entry, symbol, given, returns),
        passed=tuple(_passed(argument, numbers, outer="") for argument in given),
        members=tuple(
            Variable(name=one.name, dtype=one.dtype, count=0, pointer=True)
            for one in (given[0].members or () if language == "c++" and given[0].name == THIS else ())
            if one.dtype in C_TYPES and one.shape is not None and one.by is None and one.rows is None
        ),
    )


def _passed(given: ArgumentModel, numbers: Mapping[str, int], *, outer: str) -> Passed:
    name = outer + given.name
    return Passed(
        name=name,
        argument=None if given.members is not None else numbers[name],
        kind=given.struct or "",
        # A number of a structure lies in it.
        by_value=given.by == "value"
        or (given.by == "address" and given.struct is not None)
        or (bool(outer) and given.value is not None and given.by != "pointer"),
        rows=given.rows is not None,
        members=tuple(_passed(member, numbers, outer=f"{name}.") for member in given.members or ()),
    )


@dataclass(slots=True)
class _Writer:
    """Puts a wrapper's text together."""

    arguments: Sequence[Argument]
    language: str
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    structures: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = {argument.name: i for i, argument in enumerate(self.arguments)}

    def text(self, entry: str, symbol: str, given: Sequence[ArgumentModel], returns: str | None) -> str:
        """The whole function."""
        parameters = ", ".join(
            f"{self._type(a.dtype)} {'*' if a.is_array else ''}tuner_{i}"
            for i, a in enumerate(self.arguments)
        )
        plus = self.language == "c++"
        passed = [self._argument(argument) for argument in given]
        # In C that is a name as others are.
        method = plus and given[0].name == THIS
        call = f"tuner_call({', '.join(passed)});"
        if method:
            call = f"({passed[0]}->*tuner_call)({', '.join(passed[1:])});"
        result = "void" if returns is None else self._type(returns)
        lines = [
            *self.before,
            f"__typeof__(&{entry}) tuner_call = {entry};" if not plus else f"auto tuner_call = &{entry};",
            # A method's address is more than one word.
            f'__asm__("" : "+{"m" if method else "r"}"(tuner_call));',
            call if returns is None else f"{result} tuner_result = {call}",
            *self.after,
            *([] if returns is None else ["return tuner_result;"]),
        ]
        body = "".join(f"    {line}\n" for line in lines)
        head = f'{_ANY}extern "C" ' if plus else ""
        # An empty line ends a comment that a backslash goes on with.
        return f"\n\n{head}{result} {symbol}({parameters or 'void'})\n{{\n{body}}}\n"

    def _type(self, dtype: str) -> str:
        if is_structured(dtype):
            return "char"
        return "bool" if dtype == "bool" and self.language == "c++" else C_TYPES[dtype]

    def _argument(self, given: ArgumentModel) -> str:
        """What is passed for an argument."""
        if given.members is not None:
            made = self._structure(given.struct or "", given, given.name)
            return f"*{made}" if given.by == "value" else made
        number = self.numbers[given.name]
        if given.by == "address":
            place = f"tuner_{number}"
            if given.struct is not None:
                return f"*({given.struct} *){place}"
        elif not self.arguments[number].is_array:
            return f"tuner_{number}"
        else:
            place = self._rows(given.name) if given.rows else self._pointer(given.name)
        return f"tuner_any{{(void *){place}}}" if self.language == "c++" else f"(void *){place}"

    def _structure(self, kind: str, given: ArgumentModel, name: str) -> str:
        """A structure, all zero but for its members; gives the name of a pointer to it."""
        made = f"tuner_structure_{self.structures}"
        self.structures += 1
        self.before += [
            f"unsigned char {made}_[sizeof({kind})] __attribute__((__aligned__(__alignof__({kind}))));",
            f"__builtin_memset({made}_, 0, sizeof {made}_);",
            f"{kind} *{made} = ({kind} *)(void *){made}_;",
        ]
        self._members(given, f"{made}->", f"{name}.")
        return made

    def _members(self, given: ArgumentModel, place: str, outer: str) -> None:
        for member in given.members or ():
            at, name = place + member.name, outer + member.name
            if member.members is None:
                self._member(member, at, name)
            elif member.by == "value":
                self._members(member, f"{at}.", f"{name}.")
            else:
                inner = self._structure(member.struct or f"__typeof__(*{at})", member, name)
                self._fill(at, f"&{inner}", inner)

    def _member(self, member: ArgumentModel, at: str, name: str) -> None:
        number = self.numbers[name]
        argument, own = self.arguments[number], f"tuner_{number}"
        written = argument.role in _WRITTEN
        if member.rows:
            place = self._rows(name)
            self._fill(at, f"&{place}", place)
        elif argument.shape is not None and member.shape is not None and member.by == "value":
            self._copy(at, own, f"sizeof {at}", back=written)
        elif argument.is_array and member.value is not None and member.by != "pointer":
            # A number that the kernel writes: it comes back through the array of one element that it is for others.
            self._copy(at, own, f"sizeof *{own}", back=written)
        elif argument.is_array:
            self._pointed(at, name)
        else:
            self._fill(at, f"&{own}", own)
            self._keep(at, f"&{own}", f"sizeof {own}")

    def _pointer(self, name: str) -> str:
        """An array's address, or that of an element that is pointed to."""
        start = self.numbers.get(start_name(name))
        own = f"tuner_{self.numbers[name]}"
        return own if start is None else f"({own} + tuner_{start})"

    def _pointed(self, at: str, name: str) -> None:
        """A member that is a pointer."""
        own = f"tuner_{self.numbers[name]}"
        place = self._pointer(name)
        if place != own:
            self.before.append(f"void *{own}_start = {place};")
            own = f"{own}_start"
        self._fill(at, f"&{own}", own)

    def _fill(self, at: str, source: str, sized: str) -> None:
        self._assert(f"sizeof {at} == sizeof {sized}", at)
        self.before.append(f"__builtin_memcpy((void *)&{at}, {source}, sizeof {at});")

    def _copy(self, at: str, own: str, size: str, *, back: bool) -> None:
        self.before.append(f"__builtin_memcpy((void *)&{at}, {own}, {size});")
        if back:
            self.after.append(f"__builtin_memcpy({own}, (const void *)&{at}, {size});")
        else:
            self._keep(at, own, size)

    def _keep(self, at: str, own: str, size: str) -> None:
        # As an array that is an input lies in memory that cannot be written to.
        self.after.append(f"if (__builtin_memcmp((const void *)&{at}, {own}, {size})) __builtin_trap();")

    def _assert(self, condition: str, at: str) -> None:
        word = "static_assert" if self.language == "c++" else "_Static_assert"
        self.before.append(f'{word}({condition}, "{at.partition("->")[2]}");')

    def _rows(self, name: str) -> str:
        """The addresses of the rows of an array, made anew at each call: the kernel may have changed them."""
        number = self.numbers[name]
        place, rows, length = (f"tuner_{number + i}" for i in range(1, 4))
        values = self._pointer(name)
        made = f"{place}_rows"
        self.before += [
            f"void **{made} = (void **)(void *){place};",
            f"for (long tuner_i = 0; tuner_i < {rows}; tuner_i++) {made}[tuner_i] = {values} + tuner_i * {length};",
        ]
        return made
