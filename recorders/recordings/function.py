"""C text of a library that stands before one function of another library, with the extents that a spec gives.

May not compile it; :mod:`tuner.recorders.recordings.capture` runs an application with what was made of it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Argument

__all__ = ["bound_sizes", "function_library"]

_TYPES = {
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
    "bool": "_Bool",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One argument in C: its name, its type, and the bytes that it reaches."""

    name: str
    kind: str
    extent: str


def bound_sizes(arguments: Sequence[Argument]) -> dict[str, int]:
    """Sizes that a scalar argument carries: ``value: n`` binds ``n``; the number of that argument by size."""
    found: dict[str, int] = {}
    for number, argument in enumerate(arguments):
        if argument.value is not None and argument.value.text.strip() in argument.value.names:
            found.setdefault(argument.value.text.strip(), number)
    return found


def function_library(
    entry: str, arguments: Sequence[Argument], returns: str | None, sizes: Mapping[str, int]
) -> str:
    """The text that follows ``common.c``.

    Args:
        entry: the function; calls that reach it through the dynamic linker are seen.
        arguments: in call order.
        returns: dtype of what it returns.
        sizes: the values of sizes that no argument carries.

    Raises:
        SpecError: a type that C does not pass by value here, or an extent that cannot be computed in C.
    """
    bound = bound_sizes(arguments)
    names = {**{name: f"a{number}" for name, number in bound.items()}}
    names |= {name: str(value) for name, value in sizes.items() if name not in bound}
    parts = [_part(argument, number, names) for number, argument in enumerate(arguments)]
    parameters = ", ".join(f"{p.kind} {p.name}" for p in parts) or "void"
    result = "void" if returns is None else _type(returns, "what it returns")
    call = f"function({', '.join(p.name for p in parts)})"
    keep, give = ("", "") if returns is None else (f"{result} result = ", "\n    return result;")
    plain = f"{{ {'return ' if returns else ''}{call}; {'' if returns else 'return; '}}}"
    heads, before, after, signs = _captures(parts)
    return _TEMPLATE.format(
        entry=entry,
        count=len(parts),
        result=result,
        parameters=parameters,
        comma_parameters="".join(f", {p.kind} {p.name}" for p in parts),
        comma_names="".join(f", {p.name}" for p in parts),
        call=call,
        plain=plain,
        keep=keep,
        give=give,
        heads=heads,
        before=before,
        after=after,
        signs=signs,
    )


def _captures(parts: Sequence[_Part]) -> tuple[str, str, str, str]:
    heads: list[str] = []
    before: list[str] = []
    after: list[str] = []
    signs: list[str] = []
    for number, part in enumerate(parts):
        heads.append(f'    number_field(capture, "{number}/address", 0);')
        if not part.extent:
            heads.append(f'    field(capture, "{number}/value", &{part.name}, sizeof {part.name});')
            signs.append(f"    sign = mix(sign, &{part.name}, sizeof {part.name});")
            continue
        heads.append(
            f"    {{ uint64_t words[4] = {{(uint64_t)(uintptr_t){part.name}, 0, (uint64_t)({part.extent}), 0}};"
            f' field(capture, "{number}/buffer", words, sizeof words); }}'
        )
        for lines, when in ((before, "before"), (after, "after")):
            lines.append(
                f'        array_out(&capture, "{number}/{when}", {part.name}, (size_t)({part.extent}));'
            )
        signs.append(f"    if (({part.extent}) <= 0 || ({part.extent}) > (1L << 40)) why = WRONG_EXTENT;")
    return "\n".join(heads), "\n".join(before), "\n".join(after), "\n".join(signs)


def _part(argument: Argument, number: int, names: Mapping[str, str]) -> _Part:
    name = f"a{number}"
    if argument.shape is None:
        return _Part(name=name, kind=_type(argument.dtype, argument.name), extent="")
    sizes = [_c_text(extent, names, argument.name) for extent in argument.shape]
    item = {"complex64": 8, "complex128": 16}.get(argument.dtype, 0)
    unit = str(item) if item else f"(long)sizeof({_type(argument.dtype, argument.name)})"
    return _Part(name=name, kind="void *", extent=" * ".join([*sizes, unit]))


def _type(dtype: str, what: str) -> str:
    if dtype not in _TYPES:
        raise SpecError(f"{what} is {dtype}, which cannot be recorded by value", "pass it through a pointer")
    return _TYPES[dtype]


def _c_text(extent: Expression, names: Mapping[str, str], argument: str) -> str:
    """An extent in C: whole numbers, names, ``+ - * // %``, ``min``, ``max`` and ``ceil(a / b)``."""

    def walk(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int(value)):
                return f"{value}L"
            case ast.Name(id=name) if name in names:
                return f"(long){names[name]}"
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as operator, right=right):
                return f"({walk(left)} {_OPERATORS[type(operator)]} {walk(right)})"
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=right):
                return f"divided({walk(left)}, {walk(right)})"
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return f"({walk(left)} - {walk(right)} * divided({walk(left)}, {walk(right)}))"
            case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(left=left, op=ast.Div(), right=right)]):
                return f"-divided(-{walk(left)}, {walk(right)})"
            case ast.Call(func=ast.Name(id="min" | "max" as which), args=[one, other]):
                return f"{which}imum({walk(one)}, {walk(other)})"
        raise SpecError(
            f"the extent {extent.text!r} of {argument!r} cannot be computed from the arguments",
            "use scalar arguments with value: NAME, whole numbers, + - * // %, min, max, ceil(a / b)",
        )

    return walk(ast.parse(extent.text, mode="eval").body)


_TEMPLATE = """
#define WRONG_EXTENT "an extent of the spec is no size here"

typedef {result} (*Function)({parameters});

static void begin_more(const char *mode) {{ (void)mode; }}

__attribute__((unused)) static long divided(long a, long b)
{{
    if (!b) return 0;
    long q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}}
__attribute__((unused)) static long minimum(long a, long b) {{ return a < b ? a : b; }}
__attribute__((unused)) static long maximum(long a, long b) {{ return a > b ? a : b; }}

/* The kernel refuses to read what is not mapped, where a copy would end the application. */
__attribute__((unused)) static void array_out(Capture *capture, const char *name, const void *from, size_t size)
{{
    field_head(capture, name, size);
    if (capture->failed) return;
    bytes_out(capture, from, size);
    if (capture->failed && *__errno_location() == 14) capture->failed = 2;
}}

static void heads(Capture *capture, uint64_t sign{comma_parameters})
{{
    text_field(capture, "kernel", "{entry}");
    text_field(capture, "form", "none");
    text_field(capture, "text", "");
    text_field(capture, "options", "");
    text_field(capture, "api", "c");
    number_field(capture, "signature", sign);
    number_field(capture, "arguments", {count});
{heads}
}}

static int others;

EXPORT {result} {entry}({parameters})
{{
    static Function function;
    Capture capture;
    begin();
    if (!function) *(void **)&function = real_dlsym(NEXT, "{entry}");
    if (inside || !mode_record) {plain}
    if (__atomic_exchange_n(&launch_lock, 1, __ATOMIC_ACQUIRE)) {{
        /* Another thread is in it: what either changes would be taken for the other's. */
        __atomic_store_n(&others, 1, __ATOMIC_RELEASE);
        say("launch\\t{entry}\\t0\\t0\\t0.0\\tcalls of several threads at once");
        {plain}
    }}
    inside++;
    const char *why = NULL;
    uint64_t sign = 0xCBF29CE484222325u;
{signs}
    __atomic_store_n(&others, 0, __ATOMIC_RELEASE);
    int capturing = !why && is_wanted(sign) && open_capture(&capture);
    if (capturing) {{
        heads(&capture, sign{comma_names});
{before}
    }}
    double start = now();
    {keep}{call};
    double seconds = now() - start;
    if (capturing) {{
{after}
        if (__atomic_load_n(&others, __ATOMIC_ACQUIRE)) why = "calls of several threads at once";
        close_capture(&capture, seconds, !why, sign);
    }}
    say("launch\\t{entry}\\t0\\t%016lx\\t%.9f\\t%s", (unsigned long)sign, seconds, why ? why : "");
    inside--;
    release(&launch_lock);{give}
}}
"""
