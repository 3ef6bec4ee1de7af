"""C text of a library that stands before one function: records its calls with the extents that a spec gives.

What such libraries have in common (:class:`Interposed`) also serves to put another function in the place of one. May
not compile anything; :mod:`tuner.recorders.recordings.capture` runs an application with what was made of it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from tuner.core.passing import Layout, Passed
from tuner.core.types import Argument, ArgumentRole
from tuner.recorders.recordings.c_text import (
    HELPERS,
    bound_sizes,
    c_number,
    c_type,
    item_text,
    number_text,
    parameter_text,
)
from tuner.recorders.recordings.views import Views, plainly_passed

__all__ = ["Interposed", "OwnHead", "recording_library"]


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
    """

    path: str
    address: int
    first: bytes
    moved: bytes
    targets: tuple[tuple[int, int, int], ...]

    def text(self) -> str:
        """Declarations in C."""
        targets = ", ".join("{" + ", ".join(map(str, t)) + "}" for t in self.targets) or "{0}"
        return "\n".join(
            [
                f"#define OWN_PATH {json.dumps(self.path)}",
                f"#define OWN_ADDRESS {self.address}L",
                f"#define OWN_TARGETS {len(self.targets)}",
                f"static const unsigned char own_first[] = {{{', '.join(map(str, self.first))}}};",
                f"static const unsigned char own_moved[] = {{{', '.join(map(str, self.moved))}}};",
                f"static const long own_targets[][3] = {{{targets}}};",
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
        found = [
            f"void *a{number} = {'*' * pointer}*(void *{'*' * pointer}*)(own_base + {address}L);"
            for number, (address, pointer) in self.variables.items()
        ]
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


def recording_library(function: Interposed) -> str:
    """The text that follows ``common.c``.

    Raises:
        SpecError: a type that C does not pass by value here, or an extent that cannot be computed in C.
    """
    heads, before, after, signs = _captures(function)
    reasons = "\n".join(
        f"    if (!why && ({bad})) why = {json.dumps(why)};" for bad, why in _reasons(function)
    )
    call = f"function({function.passed_on})"
    parameters = "".join(f", {parameter_text(a)} a{i}" for i, a in enumerate(function.arguments))
    names = "".join(f", a{i}" for i in range(len(function.arguments)))
    return function.head() + _TEMPLATE.format(
        definition=function.definition,
        count=len(function.arguments),
        comma_parameters=parameters,
        comma_names=names,
        call=call,
        plain=f"return {call};",
        result=function.result,
        declared=function.declared,
        reasons=reasons,
        heads=heads,
        before=before,
        after=after,
        signs=signs,
    )


def _captures(function: Interposed) -> tuple[str, str, str, str]:
    heads: list[str] = []
    before: list[str] = []
    after: list[str] = []
    signs: list[str] = []
    for number in range(len(function.arguments)):
        name, extent = f"a{number}", function.extent(number)
        argument = function.arguments[number]
        heads.append(f'    number_field(capture, "{number}/address", 0);')
        if argument.by_pointer and argument.role is ArgumentRole.INPUT:
            # As a scalar, whose value is what lies there: problem sizes are read from scalars.
            heads.append(f'    field(capture, "{number}/value", {name}, (size_t)({extent}));')
            signs.append(f"    if ({name}) sign = mix(sign, {name}, (size_t)({extent}));")
            continue
        if not extent:
            heads.append(f'    field(capture, "{number}/value", &{name}, sizeof {name});')
            signs.append(f"    sign = mix(sign, &{name}, sizeof {name});")
            continue
        heads.append(
            f"    {{ uint64_t words[4] = {{(uint64_t)(uintptr_t){name}, 0, (uint64_t)({extent}), 0}};"
            f' field(capture, "{number}/buffer", words, sizeof words); }}'
        )
        for lines, when in ((before, "before"), (after, "after")):
            lines.append(
                f'        array_out(&capture, "{number}/{when}", {name}, (size_t)({extent}), {_unread(argument)});'
            )
    return "\n".join(heads), "\n".join(before), "\n".join(after), "\n".join(signs)


def _unread(argument: Argument) -> str:
    return json.dumps(f"{argument.name} is shorter than the spec says, or leads to no memory")


def _reasons(function: Interposed) -> Iterator[tuple[str, str]]:
    """Conditions in C under which a call cannot be captured, and why; each holds once those before it do not."""
    yield from function.views.missing
    arrays = [i for i, a in enumerate(function.arguments) if a.is_array and not a.by_pointer]
    for i in arrays:
        name = function.arguments[i].name
        yield f"!({function.is_size(i)})", f"an extent of the spec is no size here: of {name}"
    for i, condition in function.views.in_rows(function.names).items():
        yield f"!{condition}", f"the rows of {function.arguments[i].name} do not lie one behind the other"
    for i in arrays:
        yield f"!a{i}", f"{function.arguments[i].name} is a null pointer"
        yield f"!reaches(a{i}, {function.extent(i)})", json.loads(_unread(function.arguments[i]))


_TEMPLATE = """
static void begin_more(const char *mode) {{ (void)mode; }}

/* The kernel refuses to read what is not mapped, where a copy would end the application. */
static const char *unread;

__attribute__((unused)) static void array_out(
    Capture *capture, const char *name, const void *from, size_t size, const char *why)
{{
    field_head(capture, name, size);
    if (capture->failed) return;
    bytes_out(capture, from, size);
    if (capture->failed && *__errno_location() == 14) unread = why;
}}

static void heads(Capture *capture, uint64_t sign{comma_parameters})
{{
    text_field(capture, "kernel", ENTRY);
    text_field(capture, "form", "none");
    text_field(capture, "text", "");
    text_field(capture, "options", "");
    text_field(capture, "api", "c");
    number_field(capture, "signature", sign);
    number_field(capture, "arguments", {count});
{heads}
}}

static int others;
static Capture capture; /* of the call that is watched; there is one at most */
static uint64_t watched; /* its number; 0 while there is none */
static int capturing; /* 1 while its file is open, 2 while that is put in place */
static __thread char *frame; /* where this thread's watched call lies on the stack */
static char **owner; /* the frame of the thread whose call is watched */

/* A call that an exception or a jump left never came back here. The stack shows it: what its thread calls next lies no
 * deeper than it did. A signal's handler may leave this one, too: frame is forgotten last.
 */
static void forget_left(char *here)
{{
    if (!frame || here < frame) return;
    if (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) == &frame) {{
        if (capturing == 1) close(capture.file);
        if (capturing) unlink(capture.path);
        capturing = 0;
        say("launch\t%s\t0\t0\t0.0\tit was left by an exception or a jump", ENTRY);
        __atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&owner, NULL, __ATOMIC_RELEASE);
    }}
    frame = NULL;
}}

{definition}
{{
    static uint64_t calls;
    begin();
    Function function = (Function)original(__builtin_return_address(0));
    forget_left(__builtin_frame_address(0));
    if (frame || !mode_record) {plain}
    if (!is_meant((void *)function)) {{
        say("launch\t%s\t1\t0\t0.0\tanother function of that name, of another library", ENTRY);
        {plain}
    }}
    char **none = NULL;
    frame = __builtin_frame_address(0);
    if (!__atomic_compare_exchange_n(&owner, &none, &frame, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {{
        /* Another thread is in it: what either changes would be taken for the other's. */
        frame = NULL;
        __atomic_store_n(&others, 1, __ATOMIC_RELEASE);
        say("launch\t%s\t0\t0\t0.0\tcalls of several threads at once", ENTRY);
        {plain}
    }}
    uint64_t own = watched = ++calls;
    const char *why = NULL;
    uint64_t sign = 0xCBF29CE484222325u;
{declared}
{reasons}
{signs}
    __atomic_store_n(&others, 0, __ATOMIC_RELEASE);
    unread = NULL;
    capturing = !why && is_wanted(sign) && open_capture(&capture);
    if (capturing) {{
        heads(&capture, sign{comma_names});
{before}
    }}
    double start = now();
    {result} result = {call};
    double seconds = now() - start;
    if (capturing && capture.process != getpid()) {{
        /* The function has made another process of itself; the recording is the first one's. */
        close(capture.file);
        capturing = 0;
        why = "it goes on in another process";
    }}
    /* Taken for one that was left: it runs on a stack of its own. */
    if (__atomic_load_n(&watched, __ATOMIC_ACQUIRE) != own) return result;
    if (capturing) {{
{after}
        if (__atomic_load_n(&others, __ATOMIC_ACQUIRE)) why = "calls of several threads at once";
        if (unread) why = unread, capture.failed = 0;
        capturing = 2;
        close_capture(&capture, seconds, !why, sign);
    }}
    say("launch\\t%s\\t0\\t%016lx\\t%.9f\\t%s", ENTRY, (unsigned long)sign, seconds, why ? why : "");
    capturing = 0;
    __atomic_store_n(&watched, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&owner, NULL, __ATOMIC_RELEASE);
    frame = NULL;
    return result;
}}
"""
