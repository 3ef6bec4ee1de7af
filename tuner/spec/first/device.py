"""A first spec for a device kernel: arguments, launch geometry and macros, guessed from its signature and its text.

Guesses, and says in comments what it guessed. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.errors import SpecError
from tuner.core.polynomials import Polynomial
from tuner.core.types import Kernel, Source, Variant
from tuner.spaces.source.operators.devices.counting import counts_on_group
from tuner.spaces.source.regions import read_program
from tuner.spec.first.device_texts import WORK_ITEMS, axis_sizes, loops_over, reads_next
from tuner.spec.first.findings import examine_items
from tuner.spec.first.members import EVOLVES, FirstSpec, Line, quoted, sizes_note
from tuner.spec.first.small_sizes import in_memory
from tuner.spec.first.uses import Lookup, Use
from tuner.spec.first.values import divided_by, first_value, floating_scalars, initial_values
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.macros import Macros, of_problem, spread
from tuner.spec.reading.signature import Function

__all__ = [
    "LOOPED_ALONE",
    "MISSING_BLOCK",
    "DeviceKernel",
    "counts_on_block",
    "device_spec",
    "fixed_note",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKernel:
    """What a first spec is written of.

    Attributes:
        file: name of the source.
        function: the kernel, with a name for every parameter.
        lookup: gives other functions of the source and its headers by name.
        text: the source as it is written.
        expanded: as the preprocessor leaves it, with the names of macros that could be tuned.
        macros: of the source, those too that it uses and does not define.
        include: folders of headers.
    """

    file: str
    function: Function
    lookup: Lookup
    text: str
    expanded: str
    macros: Macros
    include: Sequence[str] = ()


def device_spec(kernel: DeviceKernel) -> FirstSpec:
    """The first spec."""

    def at(scale: float, call_s: float | None) -> str:
        return "".join(line.layout() for line in _Writer(kernel, scale, call_s).lines())

    return FirstSpec(text=at(1, None), at_scale=at)


class _Writer:
    """Puts the YAML together, by what the text says of a kernel's launch."""

    def __init__(self, kernel: DeviceKernel, scale: float, call_s: float | None) -> None:
        self._kernel, self._function = kernel, kernel.function
        self._scale, self._call_s = scale, call_s
        self._written = re.sub(r"/\*.*?\*/|//[^\n]*", " ", kernel.text, flags=re.DOTALL)
        self._body = body = kernel.expanded
        numbers = (*_GLOBAL_AXIS.findall(body), *_LOCAL_AXIS.findall(body))
        self._axes = axes = 1 + max(map(int, numbers), default=0)
        whole = [n for n, t in self._function.parameters if t.whole and not t.pointer]
        sizes = [n for n in whole if _SIZE.match(n)] or whole[:1]
        along = axis_sizes(body, sizes, axes, WORK_ITEMS) if axes > 1 else []
        self._sizes = list(dict.fromkeys((*along, *sizes)))
        self._over = [self._sizes[min(axis, len(self._sizes) - 1)] for axis in range(3) if self._sizes]
        """The size that each axis of the launch covers."""
        self._uses = examine_items(self._function, kernel.lookup, self._over).uses
        self._shapes = {position: _shape(use, whole) for position, use in self._uses.items()}
        named = {n for shape in self._shapes.values() for extent in shape for n in extent.names}
        self._sizes += [n for n in whole if n in named and n not in self._sizes]
        known = kernel.macros
        self._values = known.values
        guarded = {n: v for n, v in known.guarded.items() if not of_problem(n)}
        self._macros = {**guarded, **dict.fromkeys(known.missing, MISSING_BLOCK)}
        own = ["BLOCK"] if axes == 1 else [f"BLOCK_{_NAMES[i]}" for i in range(axes)]
        told = self._told_blocks(known.fixed)
        self._blocks = told or own
        made = {} if told else dict(zip(own, _BLOCKS[axes], strict=True))
        self._made = {n: v for n, v in made.items() if n not in self._macros}
        self._bytes: list[str] = []
        """Of the arrays written so far."""

    def _told_blocks(self, fixed: Mapping[str, int]) -> list[str]:
        """The sizes of a work-group that the source itself has; none where it does not say."""
        required = _REQUIRED.search(self._written)
        if required:
            defined = dict(_DEFINED.findall(self._written))
            written = [part.strip() for part in required[1].split(",")]
            numbers = [part if part in self._macros else defined.get(part, part) for part in written]
            used = 1 + max(i for i, n in enumerate(numbers) if n != "1" or i == 0)
            return numbers[: max(self._axes, used)]
        # `TS * get_group_id(0)`: the one macro that work-group numbers are multiplied with.
        number = r"get_group_id\s*\(\s*\d\s*\)"
        every = {**fixed, **self._macros}
        sides = [
            n for n in every if re.search(rf"\b{n}\s*\*\s*{number}|{number}\s*\*\s*{n}\b", self._written)
        ]
        if len(sides) != 1:
            return []
        return [sides[0] if sides[0] in self._macros else str(fixed[sides[0]])] * self._axes

    def lines(self) -> list[Line]:
        """The spec."""
        parameters = self._function.parameters
        folders = ", ".join(quoted(each, always=True) for each in self._kernel.include)
        headers = f", include: [{folders}]" if folders else ""
        local = [n for n, t in parameters if t.local]
        arguments = [
            self._argument(i, n, t, before=floating_scalars(parameters[:i]))
            for i, (n, t) in enumerate(parameters)
            if not t.local
        ]
        note = f"in call order; {local[0]} is local memory: see launch" if local else "in call order"
        file = quoted(self._kernel.file, always=True)
        return [
            Line(
                "# A first spec, guessed from the source: look through what says `check`, then run tuner check."
            ),
            Line(f"kernel: {{source: {file}, entry: {self._function.name}{headers}}}"),
            *self._problem(),
            Line("arguments:", note),
            *arguments,
            self._launch(local=bool(local)),
            *self._space(),
            Line("verify:"),
            Line("  rtol: 1.0e-5", "check: allowed error, relative to the value"),
            Line("  atol: 1.0e-6", "and in units of the output's root mean square"),
            *self._small(),
            Line("search:"),
            Line("  budget: {evaluations: 200, minutes: 10}"),
        ]

    def _problem(self) -> list[Line]:
        if not self._sizes:
            return []
        size = {1: _ONE, 2: _TWO}.get(self._axes, _THREE)
        if len(self._sizes) > self._axes > 1 or loops_over(self._sizes[: self._axes], self._body):
            # Every work-item goes over a size: work grows by one more power of it.
            size = LOOPED_ALONE if self._axes == 1 else _LOOPED
        if self._scale != 1:
            size = max(int(float(f"{self._scale * size:.1e}")), 1)
        sizes = in_memory(dict.fromkeys(self._sizes, size), self._bytes)
        usual = ", ".join(f"{n}: {value}" for n, value in sizes.items())
        return [Line(f"problem: {{{usual}}}", sizes_note(self._call_s))]

    def _small(self) -> list[Line]:
        if not self._sizes:
            return []
        small = {1: _ODD[0], 2: _ODD[1]}.get(self._axes, _ODD[2])
        odd = ", ".join(f"{n}: {small + 2 * i}" for i, n in enumerate(self._sizes))
        if self._guarded:
            return [
                Line(f"  problems: [{{{odd}}}]", "check: sizes that no block divides must come out right too")
            ]
        return [
            Line(f"  # problems: [{{{odd}}}]", "sizes that no block divides, where the kernel can do them")
        ]

    @property
    def _guarded(self) -> bool:
        """Whether no work-item beyond a size does anything, also for others of its group."""
        bounds = axis_sizes(self._body, self._sizes, self._axes, WORK_ITEMS)
        return len(bounds) == self._axes and not re.search(r"\b(?:__)?local\b", self._body)

    def _launch(self, *, local: bool) -> Line:
        grid = [f'"ceil({size} / {block})"' for size, block in zip(self._over, self._blocks, strict=False)]
        grid = grid or ["1024"] * len(self._blocks)
        parts = [f"grid: [{', '.join(grid)}]", f"block: [{', '.join(self._blocks)}]"]
        note = "check: work-groups, and work-items of each"
        if local:
            parts.append(f'shared_bytes: "4 * {" * ".join(self._blocks)}"')
            note += "; bytes of local memory"
        return Line(f"launch: {{{', '.join(parts)}}}", note)

    def _space(self) -> list[Line]:
        lines = [Line("space:"), EVOLVES, Line("  parameters:")]
        for axis, name in enumerate(self._blocks):
            if name not in self._made:
                continue
            default = self._made[name]
            why = counts_on_block(self._body, "opencl", self._function.name, axis)
            low, high = 1 if default < 8 else 4, 512 if len(self._made) == 1 else 64
            values = f"{{low: {low}, high: {high}, log: true, default: {default}}}"
            lines.append(
                Line(f"    {name}: [{default}]", fixed_note(why)) if why else Line(f"    {name}: {values}")
            )
        for name, value in self._macros.items():
            note = "check: values that the source can take, the first is the baseline's"
            listed = ", ".join(map(str, self._values.get(name) or spread(value)))
            lines.append(Line(f"    {name}: [{listed}]", note))
        if len(lines) == 3:
            example = "  # parameters: {TILE: [8, 16, 32]}    # macros of the source, each -DNAME=value at the build"
            lines[-1] = Line(example)
        named = [b for b in self._blocks if not b.isdigit()]
        if len(named) > 1:
            lines.append(Line(f'  constraints: ["{" * ".join(named)} <= 1024"]'))
        flags = (
            '  flags: {math: ["", "-cl-mad-enable"]}  # "-cl-fast-relaxed-math" if the tolerance allows it'
        )
        return [*lines, Line(flags)]

    def _argument(self, position: int, name: str, kind: CType, *, before: int) -> Line:
        dtype = kind.usual
        notes = [] if kind.dtypes else [f"check: the type behind `{kind.text}`"]
        if not kind.pointer:
            value = name if name in self._sizes else first_value(dtype, before)
            notes += [] if name in self._sizes else ["check: the value"]
            return Line(f"  - {{name: {name}, dtype: {dtype}, value: {value}}}", "; ".join(notes))
        use = self._uses[position]
        shape = self._extents(position, name, kind)
        size = re.search(r"\d+$", dtype)
        self._bytes.append(f"{int(size[0]) // 8 if size else 1} * ({') * ('.join(shape)})")
        notes.append("check: the shape")
        listed = (f'"{extent}"' if "," in extent else extent for extent in shape)
        parts = [f"name: {name}", f"dtype: {dtype}", f"shape: [{', '.join(listed)}]"]
        role = _role(kind, use)
        if role != "input":
            parts.append(f"role: {role}")
        if role == "inout":
            notes.append("output if all of it is written before it is read")
        if kind.structure:
            notes.append("the values, init: {members: {…}}")
        elif role != "output":
            divides = use.divides or divided_by(name, self._body)
            if divides or dtype.startswith("float"):
                init, note = initial_values(dtype, "100", divides=divides)
                notes += [note] if note else []
            else:
                init = f"init: {self._integers(name, dtype)}"
            parts.append(init)
        return Line(f"  - {{{', '.join(parts)}}}", "; ".join(notes))

    def _extents(self, position: int, name: str, kind: CType) -> list[str]:
        """As far as indices go; where that is not known, as long as the sizes of the launch."""
        found = [extent.text() for extent in self._shapes[position]]
        if not found:
            found = [*reversed(self._sizes[: self._axes])] or ["1024"]
            if self._axes == 1 and reads_next(name, self._body):
                found[-1] += " + 1"
        if kind.members:
            found.append(str(kind.members))
        elif kind.width > 1:
            found.append(str(4 if kind.width == 3 else kind.width))
        return found

    def _integers(self, name: str, dtype: str) -> str:
        """Bytes of all values, unless they are indices: else one that is taken for the other kind goes unseen."""
        whole = {"int8": "[-128, 128]", "uint8": "[0, 256]"}.get(dtype)
        index = re.search(rf"\[[^\]]*\b{re.escape(name)}\s*\[", self._body)
        return f"{{randint: {whole if whole and not index else '[0, 100]'}}}"


def _shape(use: Use, whole: Sequence[str]) -> tuple[Polynomial, ...]:
    """What all accesses speak of, where that is made of the kernel's own numbers; else nothing."""
    shape = use.shape if use.known else None
    names = {name for extent in shape or () for name in extent.names}
    return shape if shape and names and names <= {*whole} else ()


def _role(kind: CType, use: Use) -> str:
    """By const, and by what happens to elements; what is handed to a function may be changed by it."""
    if kind.constant:
        return "input"
    return "output" if use.made else "inout"


def fixed_note(why: str) -> str:
    """What is said of a block that stays as it is, since results may hang on its size."""
    return f"check: one size, as {why}; add others that give the same results"


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
