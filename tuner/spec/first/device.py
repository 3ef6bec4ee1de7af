"""A first spec for a device kernel: arguments, launch geometry and macros, guessed from its signature and its text.

Guesses, and says in comments what it guessed. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.operators.devices.counting import counts_on_group
from tuner.spaces.source.regions import read_program
from tuner.spec.first.members import Line, quoted
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
    return "".join(line.layout() for line in _Writer(function, text, missing).lines(file, include))


class _Writer:
    """Puts the YAML together, by what the text says of a kernel's launch."""

    def __init__(self, function: Function, text: str, missing: Sequence[str]) -> None:
        self._function, self._text = function, text
        self._body = body = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
        numbers = (*_GLOBAL_AXIS.findall(body), *_LOCAL_AXIS.findall(body))
        self._axes = axes = 1 + max(map(int, numbers), default=0)
        whole = [n for n, t in function.parameters if t.whole and not t.pointer]
        sizes = [n for n in whole if _SIZE.match(n)] or whole[:1]
        along = axis_sizes(body, sizes, axes, WORK_ITEMS) if axes > 1 else []
        self._sizes = list(dict.fromkeys((*along, *sizes)))
        known = macros_of(text)
        self._values = known.values
        guarded = {n: v for n, v in known.guarded.items() if not of_problem(n)}
        self._macros = {**guarded, **dict.fromkeys(missing, MISSING_BLOCK)}
        own = ["BLOCK"] if axes == 1 else [f"BLOCK_{_NAMES[i]}" for i in range(axes)]
        told = self._told_blocks(known.fixed)
        self._blocks = told or own
        made = {} if told else dict(zip(own, _BLOCKS[axes], strict=True))
        self._made = {n: v for n, v in made.items() if n not in self._macros}

    def _told_blocks(self, fixed: Mapping[str, int]) -> list[str]:
        """The sizes of a work-group that the source itself has; none where it does not say."""
        required = _REQUIRED.search(self._body)
        if required:
            defined = dict(_DEFINED.findall(self._body))
            written = [part.strip() for part in required[1].split(",")]
            numbers = [part if part in self._macros else defined.get(part, part) for part in written]
            used = 1 + max(i for i, n in enumerate(numbers) if n != "1" or i == 0)
            return numbers[: max(self._axes, used)]
        # `TS * get_group_id(0)`: the one macro that work-group numbers are multiplied with.
        number = r"get_group_id\s*\(\s*\d\s*\)"
        every = {**fixed, **self._macros}
        sides = [n for n in every if re.search(rf"\b{n}\s*\*\s*{number}|{number}\s*\*\s*{n}\b", self._body)]
        if len(sides) != 1:
            return []
        return [sides[0] if sides[0] in self._macros else str(fixed[sides[0]])] * self._axes

    def lines(self, file: str, include: Sequence[str]) -> list[Line]:
        """The spec."""
        parameters, axes = self._function.parameters, self._axes
        small = {1: _ODD[0], 2: _ODD[1]}.get(axes, _ODD[2])
        size = {1: _ONE, 2: _TWO}.get(axes, _THREE)
        if len(self._sizes) > axes > 1:
            # A size beside those of the grid is a loop in every work-item.
            size = _LOOPED
        elif axes == 1 and loops_over(self._sizes[:1], self._body):
            # Work that grows with the square of the size.
            size = LOOPED_ALONE
        headers = (
            f", include: [{', '.join(quoted(each, always=True) for each in include)}]" if include else ""
        )
        local = [n for n, t in parameters if t.local]
        lines = [
            Line(
                "# A first spec, guessed from the source: look through what says `check`, then run tuner check."
            ),
            Line(f"kernel: {{source: {quoted(file, always=True)}, entry: {self._function.name}{headers}}}"),
        ]
        if self._sizes:
            usual = ", ".join(f"{n}: {size}" for n in self._sizes)
            note = "check: sizes as in your application; a call of 1 ms or more"
            lines.append(Line(f"problem: {{{usual}}}", note))
        note = f"in call order; {local[0]} is local memory: see launch" if local else "in call order"
        lines.append(Line("arguments:", note))
        lines += [
            self._argument(n, t, before=floating_scalars(parameters[:i]))
            for i, (n, t) in enumerate(parameters)
            if not t.local
        ]
        lines += [
            self._launch(local=bool(local)),
            *self._space(),
            Line("verify:"),
            Line("  rtol: 1.0e-5", "check: allowed error, relative to the value"),
            Line("  atol: 1.0e-6", "and in units of the output's root mean square"),
        ]
        if self._sizes:
            odd = ", ".join(f"{n}: {small + 2 * i}" for i, n in enumerate(self._sizes))
            note = "sizes that no block divides, where the kernel can do them"
            lines.append(Line(f"  # problems: [{{{odd}}}]", note))
        return [*lines, Line("search:"), Line("  budget: {evaluations: 200, minutes: 10}")]

    def _launch(self, *, local: bool) -> Line:
        sizes = [
            self._sizes[min(axis, len(self._sizes) - 1)] for axis in range(len(self._blocks)) if self._sizes
        ]
        grid = [f'"ceil({size} / {block})"' for size, block in zip(sizes, self._blocks, strict=False)]
        grid = grid or ["1024"] * len(self._blocks)
        parts = [f"grid: [{', '.join(grid)}]", f"block: [{', '.join(self._blocks)}]"]
        note = "check: work-groups, and work-items of each"
        if local:
            parts.append(f'shared_bytes: "4 * {" * ".join(self._blocks)}"')
            note += "; bytes of local memory"
        return Line(f"launch: {{{', '.join(parts)}}}", note)

    def _space(self) -> list[Line]:
        lines = [Line("space:"), Line("  parameters:")]
        for axis, name in enumerate(self._blocks):
            if name not in self._made:
                continue
            default = self._made[name]
            why = counts_on_block(self._text, "opencl", self._function.name, axis)
            low, high = 1 if default < 8 else 4, 512 if len(self._made) == 1 else 64
            values = f"{{low: {low}, high: {high}, log: true, default: {default}}}"
            lines.append(
                Line(f"    {name}: [{default}]", fixed_note(why)) if why else Line(f"    {name}: {values}")
            )
        for name, value in self._macros.items():
            note = "check: values that the source can take, the first is the baseline's"
            listed = ", ".join(map(str, self._values.get(name) or spread(value)))
            lines.append(Line(f"    {name}: [{listed}]", note))
        if len(lines) == 2:
            example = "  # parameters: {TILE: [8, 16, 32]}    # macros of the source, each -DNAME=value at the build"
            lines[-1] = Line(example)
        named = [b for b in self._blocks if not b.isdigit()]
        if len(named) > 1:
            lines.append(Line(f'  constraints: ["{" * ".join(named)} <= 1024"]'))
        flags = (
            '  flags: {math: ["", "-cl-mad-enable"]}  # "-cl-fast-relaxed-math" if the tolerance allows it'
        )
        return [*lines, Line(flags)]

    def _argument(self, name: str, kind: CType, *, before: int) -> Line:
        dtype = kind.usual
        notes = [] if kind.dtypes else [f"check: the type behind `{kind.text}`"]
        if not kind.pointer:
            value = name if name in self._sizes else first_value(dtype, before)
            notes += [] if name in self._sizes else ["check: the value"]
            return Line(f"  - {{name: {name}, dtype: {dtype}, value: {value}}}", "; ".join(notes))
        shape = ", ".join(reversed(self._sizes[: self._axes])) or "1024"
        if self._axes == 1 and reads_next(name, self._text):
            shape += " + 1"
        if kind.members:
            shape += f", {kind.members}"
        elif kind.width > 1:
            shape += f", {4 if kind.width == 3 else kind.width}"
        notes.append("check: the shape")
        parts = [f"name: {name}", f"dtype: {dtype}", f"shape: [{shape}]"]
        role = self._role(name, kind)
        if role != "input":
            parts.append(f"role: {role}")
        if role == "inout":
            notes.append("output if all of it is written before it is read")
        if kind.structure:
            notes.append("the values, init: {members: {…}}")
        elif role != "output":
            divides = divided_by(name, self._body)
            if divides or dtype.startswith("float"):
                init, note = initial_values(dtype, "100", divides=divides)
                notes += [note] if note else []
            else:
                init = f"init: {self._integers(name, dtype)}"
            parts.append(init)
        return Line(f"  - {{{', '.join(parts)}}}", "; ".join(notes))

    def _integers(self, name: str, dtype: str) -> str:
        """Bytes of all values, unless they are indices: else one that is taken for the other kind goes unseen."""
        whole = {"int8": "[-128, 128]", "uint8": "[0, 256]"}.get(dtype)
        index = re.search(rf"\[[^\]]*\b{re.escape(name)}\s*\[", self._text)
        return f"{{randint: {whole if whole and not index else '[0, 100]'}}}"

    def _role(self, name: str, kind: CType) -> str:
        """By const, and by what the text does with the name's elements."""
        if kind.constant:
            return "input"
        element = rf"\b{re.escape(name)}\s*\[[^;]*?\]\s*"
        written = len(re.findall(element + r"=(?!=)", self._body))
        changed = bool(re.search(element + r"(?:[-+*/|&^]=|<<=|>>=|\+\+|--)", self._body))
        read = len(re.findall(rf"\b{re.escape(name)}\b", self._body)) > 1 + written
        # What is neither is only passed on, or stored to by a function such as vstore4.
        return "inout" if changed or read or not written else "output"


def fixed_note(why: str) -> str:
    """What is said of a block that stays as it is, since results may hang on its size."""
    return f"check: one size, as {why}; add others that give the same results"


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
