"""A first spec for a device kernel: arguments, launch geometry and macros, guessed from its signature and its text.

Guesses, and says in comments what it guessed. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.operators.devices.counting import counts_on_group
from tuner.spaces.source.regions import read_program
from tuner.spec.first.values import divided_by, first_value, floating_scalars, initial_values
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.macros import macros_of, of_problem, spread
from tuner.spec.reading.signature import Function

__all__ = [
    "LOOPED_ALONE",
    "MISSING_BLOCK",
    "array_extents",
    "axis_sizes",
    "counts_on_block",
    "device_spec",
    "fixed_note",
    "loops_over",
    "one_block_each",
    "reads_next",
]

MISSING_BLOCK = 16
"""A value for macros that only a build defines: right for the side of a work-group."""

_ONE = 1 << 20
_TWO = 1024
_THREE = 96
_LOOPED = 256
LOOPED_ALONE = 4096
"""The size of a kernel whose work-items each go over all elements."""
_ODD = (1027, 67, 37)
_BLOCKS = {1: (64,), 2: (16, 16), 3: (8, 8, 4)}
_NAMES = "XYZ"
_GLOBAL_AXIS = re.compile(r"\bget_(?:global|group)_id\s*\(\s*([012])\s*\)")
_LOCAL_AXIS = re.compile(r"\bget_local_id\s*\(\s*([012])\s*\)")
_SIZE = re.compile(
    r"^(n|m|k|[nwh][xyz]?|.*(?:size|count|width|height|rows?|cols?|columns|length|len|dim).*)$", re.I
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\d+)[ \t]*$", re.MULTILINE)
_REQUIRED = re.compile(r"reqd_work_group_size\s*\(([^)]*)\)")
_BLOCK_NUMBERS = tuple(rf"blockIdx\s*\.\s*{axis}\b" for axis in "xyz")
WORK_ITEMS = tuple(rf"get_global_id\s*\(\s*{axis}\s*\)" for axis in "012")
"""OpenCL's number of a work-item along each axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    """What the text says of a kernel's launch."""

    axes: int
    sizes: tuple[str, ...]
    macros: dict[str, int]
    blocks: tuple[str, ...]
    defined: dict[str, int]
    values: dict[str, list[int]]
    doubts: dict[str, str] = field(default_factory=dict)


def device_spec(
    file: str, function: Function, text: str, *, missing: Sequence[str] = (), include: Sequence[str] = ()
) -> str:
    """The text of a first spec.

    Args:
        file: name of the source.
        function: the kernel, with a name for every parameter.
        text: the source.
        missing: macros that it uses and does not define.
        include: folders of headers.
    """
    guess = _guess(function, text, missing)
    small = {1: _ODD[0], 2: _ODD[1]}.get(guess.axes, _ODD[2])
    size = {1: _ONE, 2: _TWO}.get(guess.axes, _THREE)
    if len(guess.sizes) > guess.axes > 1:
        # A size beside those of the grid is a loop in every work-item.
        size = _LOOPED
    elif guess.axes == 1 and loops_over(guess.sizes[:1], _without_comments(text)):
        # Work that grows with the square of the size.
        size = LOOPED_ALONE
    lines = ["# A first spec, guessed from the source: look through what says `check`, then run tuner check."]
    headers = f", include: [{', '.join(map(_quoted, include))}]" if include else ""
    lines.append(f"kernel: {{source: {_quoted(file)}, entry: {function.name}{headers}}}")
    if guess.sizes:
        sizes = ", ".join(f"{n}: {size}" for n in guess.sizes)
        lines.append(
            _noted(f"problem: {{{sizes}}}", "check: sizes as in your application; a call of 1 ms or more")
        )
    local = [n for n, t in function.parameters if t.local]
    note = f"in call order; {local[0]} is local memory: see launch" if local else "in call order"
    lines.append(_noted("arguments:", note))
    lines += [
        _argument(n, t, guess, text, before=floating_scalars(function.parameters[:i]))
        for i, (n, t) in enumerate(function.parameters)
        if not t.local
    ]
    lines += _launch(guess, bool(local))
    lines += _space(guess)
    lines += [
        "verify:",
        _noted("  rtol: 1.0e-5", "check: allowed error, relative to the value"),
        _noted("  atol: 1.0e-6", "and in units of the output's root mean square"),
    ]
    if guess.sizes:
        sizes = ", ".join(f"{n}: {small + 2 * i}" for i, n in enumerate(guess.sizes))
        lines.append(
            _noted(
                f"  # problems: [{{{sizes}}}]", "sizes that no block divides, where the kernel can do them"
            )
        )
    lines += ["search:", "  budget: {evaluations: 200, minutes: 10}"]
    return "\n".join(lines) + "\n"


def _guess(function: Function, text: str, missing: Sequence[str]) -> _Guess:
    body = _without_comments(text)
    axes = 1 + max([int(a) for a in (*_GLOBAL_AXIS.findall(body), *_LOCAL_AXIS.findall(body))], default=0)
    whole = [n for n, t in function.parameters if t.whole and not t.pointer]
    sizes = tuple([n for n in whole if _SIZE.match(n)] or whole[:1])
    along = axis_sizes(body, sizes, axes, WORK_ITEMS) if axes > 1 else []
    sizes = tuple(dict.fromkeys((*along, *sizes)))
    known = macros_of(text)
    guarded = {n: v for n, v in known.guarded.items() if not of_problem(n)}
    macros = {**guarded, **dict.fromkeys(missing, MISSING_BLOCK)}
    required = _REQUIRED.search(body)
    side = _side(body, {**known.fixed, **macros})
    if required:
        defined = dict(_DEFINED.findall(body))
        written = [part.strip() for part in required[1].split(",")]
        numbers = [part if part in macros else defined.get(part, part) for part in written]
        names = numbers[: max(axes, 1 + max(i for i, n in enumerate(numbers) if n != "1" or i == 0))]
    elif side is not None:
        # `TS * get_group_id(0)`: the source itself says how large a work-group is.
        names = [side if side in macros else str(known.fixed[side])] * axes
    else:
        names = ["BLOCK"] if axes == 1 else [f"BLOCK_{_NAMES[i]}" for i in range(axes)]
    own = {} if required or side is not None else dict(zip(names, _BLOCKS[axes], strict=True))
    made = {n: v for n, v in own.items() if n not in macros}
    return _Guess(
        axes=axes,
        sizes=sizes,
        macros=macros,
        blocks=tuple(names),
        defined=made,
        values=known.values,
        doubts={
            name: why
            for axis, name in enumerate(names)
            if name in made and (why := counts_on_block(text, "opencl", function.name, axis))
        },
    )


def _side(body: str, macros: Mapping[str, int]) -> str | None:
    """The one macro that work-group numbers are multiplied with."""
    number = r"get_group_id\s*\(\s*\d\s*\)"
    found = [n for n in macros if re.search(rf"\b{n}\s*\*\s*{number}|{number}\s*\*\s*{n}\b", body)]
    return found[0] if len(found) == 1 else None


def _launch(guess: _Guess, local: bool) -> list[str]:
    grid = []
    for axis, block in enumerate(guess.blocks):
        if not guess.sizes:
            grid.append("1024")
            continue
        size = guess.sizes[min(axis, len(guess.sizes) - 1)]
        grid.append(f'"ceil({size} / {block})"')
    parts = [f"grid: [{', '.join(grid)}]", f"block: [{', '.join(guess.blocks)}]"]
    note = "check: work-groups, and work-items of each"
    if local:
        product = " * ".join(guess.blocks)
        parts.append(f'shared_bytes: "4 * {product}"')
        note += "; bytes of local memory"
    return [_noted(f"launch: {{{', '.join(parts)}}}", note)]


def _space(guess: _Guess) -> list[str]:
    lines = ["space:", "  parameters:"]
    for name, default in guess.defined.items():
        if name in guess.doubts:
            lines.append(_noted(f"    {name}: [{default}]", fixed_note(guess.doubts[name])))
            continue
        high = 512 if len(guess.defined) == 1 else 64
        lines.append(
            f"    {name}: {{low: {1 if default < 8 else 4}, high: {high}, log: true, default: {default}}}"
        )
    for name, value in guess.macros.items():
        note = "check: values that the source can take, the first is the baseline's"
        values = guess.values.get(name) or spread(value)
        lines.append(_noted(f"    {name}: [{', '.join(map(str, values))}]", note))
    if not guess.defined and not guess.macros:
        lines[-1] = (
            "  # parameters: {TILE: [8, 16, 32]}    # macros of the source, each -DNAME=value at the build"
        )
    named = [b for b in guess.blocks if not b.isdigit()]
    if len(named) > 1:
        lines.append(f'  constraints: ["{" * ".join(named)} <= 1024"]')
    lines.append(
        '  flags: {math: ["", "-cl-mad-enable"]}  # "-cl-fast-relaxed-math" if the tolerance allows it'
    )
    return lines


def fixed_note(why: str) -> str:
    """What is said of a block that stays as it is, since results may hang on its size."""
    return f"check: one size, as {why}; add others that give the same results"


def _argument(name: str, kind: CType, guess: _Guess, text: str, *, before: int) -> str:
    dtype = kind.usual
    notes = [] if kind.dtypes else [f"check: the type behind `{kind.text}`"]
    if not kind.pointer:
        value = name if name in guess.sizes else first_value(dtype, before)
        if name not in guess.sizes:
            notes.append("check: the value")
        return _noted(f"  - {{name: {name}, dtype: {dtype}, value: {value}}}", "; ".join(notes))
    shape = ", ".join(reversed(guess.sizes[: guess.axes])) or "1024"
    if guess.axes == 1 and reads_next(name, text):
        shape += " + 1"
    if kind.members:
        shape += f", {kind.members}"
    elif kind.width > 1:
        shape += f", {4 if kind.width == 3 else kind.width}"
    notes.append("check: the shape")
    parts = [f"name: {name}", f"dtype: {dtype}", f"shape: [{shape}]"]
    role = _role(name, kind, text)
    if role != "input":
        parts.append(f"role: {role}")
        if role == "inout":
            notes.append("output if all of it is written before it is read")
    if kind.structure:
        notes.append("the values, init: {members: {…}}")
    elif role != "output":
        divides = divided_by(name, _without_comments(text))
        if divides or dtype.startswith("float"):
            init, note = initial_values(dtype, "100", divides=divides)
            notes += [note] if note else []
        else:
            init = f"init: {_integers(name, dtype, text)}"
        parts.append(init)
    return _noted(f"  - {{{', '.join(parts)}}}", "; ".join(notes))


def _integers(name: str, dtype: str, text: str) -> str:
    """Bytes of all values, unless they are indices: else one that is taken for the other kind goes unseen."""
    whole = {"int8": "[-128, 128]", "uint8": "[0, 256]"}.get(dtype)
    index = re.search(rf"\[[^\]]*\b{re.escape(name)}\s*\[", text)
    return f"{{randint: {whole if whole and not index else '[0, 100]'}}}"


def reads_next(name: str, text: str) -> bool:
    """Whether an element and the one after it are read, as the row pointers of a sparse matrix are."""
    element = rf"\b{re.escape(name)}\s*\[\s*(\w+)\s*"
    after = {m[1] for m in re.finditer(element + r"\+\s*1\s*\]", text)}
    return any(m[1] in after for m in re.finditer(element + r"\]", text))


def loops_over(sizes: Sequence[str], text: str) -> bool:
    """Whether a work-item goes in a loop over as many elements as there are work-items, not in strides of them all."""
    for found in re.finditer(r"\bfor\s*\(([^;]*);([^;]*);([^{;]*)", text):
        start, condition, step = found.groups()
        all_of_them = r"get_global_(?:id|size)|gridDim|blockIdx"
        if re.search(all_of_them, start + step) or re.search(r"=\s*(?:i|gid|idx|tid|index)\b", start):
            continue
        if any(re.search(rf"<=?\s*{re.escape(size)}\b", condition) for size in sizes):
            return True
    return False


def _role(name: str, kind: CType, text: str) -> str:
    """By const, and by what the text does with the name's elements."""
    if kind.constant:
        return "input"
    body = _without_comments(text)
    element = rf"\b{re.escape(name)}\s*\[[^;]*?\]\s*"
    written = bool(re.search(element + r"=(?!=)", body))
    changed = bool(re.search(element + r"(?:[-+*/|&^]=|<<=|>>=|\+\+|--)", body))
    read = len(re.findall(rf"\b{re.escape(name)}\b", body)) > 1 + len(re.findall(element + r"=(?!=)", body))
    if not written and not changed:
        # Only passed on, or stored to by a function such as vstore4.
        return "inout"
    return "inout" if changed or read else "output"


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _noted(text: str, comment: str) -> str:
    return f"{text}{' ' * max(2, 40 - len(text))}# {comment}" if comment else text


def axis_sizes(
    body: str, sizes: Sequence[str], dimensions: int, numbers: Sequence[str] = _BLOCK_NUMBERS
) -> list[str]:
    """The size that bounds each axis, x first; empty where one is not found. ``numbers`` are patterns by axis.

    >>> axis_sizes("int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y; if (r >= rows || c >= cols) return;",
    ...            ["rows", "cols"], 2)
    ['cols', 'rows']
    """
    found = []
    for number in numbers[:dimensions]:
        names = re.findall(rf"\b(\w+)\s*=\s*[^;=,]*?\b{number}", body)
        bounds = [size for name in names for size in _bounds_of(name, body, sizes)]
        if not bounds:
            return []
        found.append(bounds[0])
    return found if len(set(found)) == len(found) or len(set(sizes)) < dimensions else []


def one_block_each(body: str, axis: str) -> bool:
    """Whether a block's number along an axis is itself an index, with no threads beside it: a block for each row.

    >>> one_block_each("int row = blockIdx.x; for (int c = threadIdx.x; c < cols; c += blockDim.x) s += x[c];", "x")
    True
    """
    number = rf"\bblockIdx\s*\.\s*{axis}\b"
    with_others = rf"{number}\s*\*|\*\s*\(?\s*(?:\w+\s*\)\s*)?{number}"
    own = re.search(rf"=\s*(?:\(\w+\)\s*)?{number}\s*[;,]", body) is not None
    return own and re.search(with_others, body) is None


def counts_on_block(text: str, language: str, entry: str, axis: int) -> str:
    """Why a kernel's results may hang on the size of its blocks along an axis: one clause; empty where they do not.

    >>> counts_on_block("__global__ void k(float *y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }", "cuda", "k", 0)
    ''
    >>> counts_on_block("__global__ void k(float *y) { y[blockIdx.x] = threadIdx.x; }", "cuda", "k", 0)
    'blockIdx.x is used for more than the number of an item'
    """
    source = Variant(files=(Source(name="kernel", text=text),))
    kernel = Kernel(name=entry, entry=entry, language=language, variant=source, folder="")
    try:
        found = read_program(kernel).functions.get(entry)
    except SpecError:
        found = None
    return "" if found is None or not found.whole else counts_on_group(found, axis)


def array_extents(name: str, body: str, sizes: Sequence[str]) -> list[str]:
    """The rows and the row length of an array that is indexed by a product with a size; empty where none is.

    >>> array_extents("A", "if (r0 + r < M) s += A[(r0 + r) * K + k];", ["M", "N", "K"])
    ['M', 'K']
    >>> array_extents("x", "const float *p = x + (size_t)row * cols;", ["rows", "cols"])
    ['rows', 'cols']
    """
    row = r"(\((?:[^()]|\([^()]*\))*\)|\w+)"
    cast = r"(?:\(\s*(?:size_t|long|long\s+long)\s*\)\s*)?"
    used = rf"\b{re.escape(name)}\s*(?:\[|\+)\s*{cast}{row}\s*\*\s*(\w+)"
    for place, pitch in re.findall(used, body):
        # A size inside: one more dimension than rows.
        if pitch not in sizes or set(re.findall(r"\w+", place)) & set(sizes):
            continue
        inner = place[1:-1].strip() if place.startswith("(") else place
        others = [size for size in sizes if size != pitch]
        rows = [s for s in _bounds_of(inner, body, sizes) if s != pitch] or others or [pitch]
        return [rows[0], pitch]
    return []


def _bounds_of(text: str, body: str, sizes: Sequence[str]) -> list[str]:
    """The sizes that an expression is compared with."""
    written = r"\s*".join(re.escape(part) for part in re.findall(r"\w+|[^\w\s]", text))
    if not written:
        return []
    after = re.findall(rf"(?<![\w.]){written}\s*(?:<=?|>=?)\s*(\w+)", body)
    before = re.findall(rf"\b(\w+)\s*(?:<=?|>=?)\s*{written}(?![\w.])", body)
    return [size for size in (*after, *before) if size in sizes]
