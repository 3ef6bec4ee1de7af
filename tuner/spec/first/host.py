"""A first spec for a C or C++ function: its arguments, sizes and macros as the source's text and tree show them.

Guesses, and says in comments what it guessed. May not read files, compile or run anything.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.polynomials import variable
from tuner.spec.first.findings import Findings
from tuner.spec.first.members import (
    EVOLVES,
    FirstSpec,
    Line,
    command_text,
    grouped,
    kernel_parts,
    quoted,
    sizes_note,
)
from tuner.spec.first.small_sizes import in_memory, within
from tuner.spec.first.uses import Use
from tuner.spec.first.values import first_value, floating_scalars, initial_values, settled, whole_numbers
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.flattening import Flat
from tuner.spec.reading.frames import MOST_COUNTED
from tuner.spec.reading.macros import Macros, of_problem

__all__ = ["FirstKernel", "host_spec"]

_MARGIN = 2
_SIZES = {0: 1 << 16, 1: 1 << 20, 2: 2048, 3: 160}
"""Sizes by depth of the loop nest, for a call of some milliseconds."""
_DEEP = 48
_EXPONENT = 10
_MOST = {"int8": 100, "uint8": 200, "bool": 1, "int16": 30000, "uint16": 60000}
_RANGES = {
    "int8": "[-128, 128]",
    "uint8": "[0, 256]",
    "int16": "[-100, 100]",
    "int32": "[-1000, 1000]",
    "int64": "[-1000, 1000]",
}
"""Values of elements that are no indices: of all signs, and small enough that sums of a million stay in range."""
_ODD = (67, 129, 35, 41, 19, 23)
_ODD_DEEP = (37, 29, 41, 17, 19, 23)
_MAX_DIMENSIONS = 8
_BUILT = "of your own build: it makes the baseline and all candidates"
_SUMS = "sums in another order, within the tolerance above"
_LARGE = 1000
"""A size by which shapes are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstKernel:
    """What a first spec is written of.

    Attributes:
        file: name of the source.
        flat: the kernel, with a name for every parameter and members in the place of structures.
        findings: what it does with them.
        macros: of the source.
        include: folders of headers.
        sources: further ones that define what it calls.
        doubts: what is said of those that could not be chosen.
        threads: of a kernel with OpenMP; ``None`` for one without.
        defines: flags that every build has.
        variables: of those of the kernel's parameters that are global variables, what a spec has for their names.
        flags: those of the variables that only decide what is done.
        kernel: what is said of the entry where that is not the function.
        values: numbers that arguments have, or what they point to.
        compiler: of the project's build, with flags; none where clang and LLVM make the code.
        reassociate: whether sums may be in another order.
        arguments: lines of the arguments where nothing about them is guessed.
        language: of the source, where its name does not say it.
    """

    file: str
    flat: Flat
    findings: Findings
    macros: Macros
    include: Sequence[str] = ()
    sources: Sequence[str] = ()
    doubts: Sequence[str] = ()
    threads: int | None = None
    defines: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    flags: Collection[str] = ()
    kernel: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    compiler: Sequence[str] = ()
    reassociate: bool = False
    arguments: Sequence[Line] = ()
    language: str = ""


def host_spec(kernel: FirstKernel) -> FirstSpec:
    """The first spec."""
    files = kernel_parts(kernel.include, kernel.sources)
    guesses = _Writer(kernel).guesses

    def at(scale: float, call_s: float | None) -> str:
        return _Writer(kernel, scale, call_s).text(files, kernel.doubts)

    return FirstSpec(text=at(1, None), at_scale=at if guesses else None)


class _Writer:
    """Puts the YAML together."""

    def __init__(self, kernel: FirstKernel, scale: float = 1, call_s: float | None = None) -> None:
        self._given = kernel
        self._scale, self._call_s = scale, call_s
        self._flat, self._findings = kernel.flat, kernel.findings
        self._function = kernel.flat.function
        numbers = whole_numbers(kernel.values)
        findings = kernel.findings
        less = {name for name in findings.pitches - findings.shaping if numbers.get(name, 1) < 1}
        self._sizes = [n for n in findings.sizes if n not in less] or self._likely_sizes()
        self._numbers = {n: v for n, v in numbers.items() if v > 0 or n not in self._sizes}
        whole = [
            n
            for n, kind in self._function.parameters
            if kind.whole and not kind.pointer and n not in self._sizes
        ]
        self._values = settled(kernel.values, self._sizes, whole)
        self._bytes: list[str] = []
        """Of the arrays written so far."""

    def _likely_sizes(self) -> list[str]:
        """The first whole number, where loops or arrays are of a length of which nothing is known."""
        uses = self._findings.uses.values()
        if uses and not self._findings.depth and all(use.known for use in uses):
            return []
        return [n for n, t in self._function.parameters if t.whole and not t.pointer][:1]

    @property
    def guesses(self) -> bool:
        """Whether sizes are guessed."""
        fixed = {*self._numbers, *self._findings.margins, *self._findings.exponents}
        return bool(set(self._sizes) - fixed)

    def text(self, files: str, doubts: Sequence[str]) -> str:
        """The spec, with what is said of files beside the source."""
        size = _SIZES.get(max(self._findings.depth, self._widest()), _DEEP)
        if self._scale != 1:
            size = max(int(float(f"{self._scale * size:.1e}")), 1)
        arguments = [self._argument(i) for i in range(len(self._function.parameters))]
        usual = self._usual(size)
        sizes = ", ".join(f"{n}: {value}" for n, value in usual.items())
        small = ", ".join(f"{n}: {value}" for n, value in self._small(usual).items())
        lines = [
            Line(
                "# A first spec, guessed from the source: look through what says `check`, then run tuner check."
            ),
            *self._kernel(files, doubts),
        ]
        if self._sizes:
            lines.append(Line(f"problem: {{{sizes}}}", sizes_note(self._call_s, own=not self.guesses)))
        lines.append(Line("arguments:", "in call order"))
        lines += self._given.arguments or grouped(self._flat, arguments)
        lines += [
            Line("space:"),
            EVOLVES,
            *self._parameters(),
            *self._made_by(),
            Line("verify:"),
            Line("  rtol: 1.0e-5", "check: allowed error, relative to the value"),
            Line("  atol: 1.0e-6", "and in units of the output's root mean square"),
            Line(f"  {'' if self._given.reassociate else '# '}numerics: reassociate", _SUMS),
        ]
        if small != sizes:
            lines.append(Line(f"  problems: [{{{small}}}]", "check: odd sizes that must come out right too"))
        if self._given.threads is not None:
            comment = "check: as many as your application has, one for a core"
            lines.append(Line(f"measure: {{threads: {self._given.threads}}}", comment))
        lines += [Line("search:"), Line("  budget: {evaluations: 200, minutes: 10}")]
        return "".join(line.layout() for line in lines)

    def _made_by(self) -> list[Line]:
        """Flags and passes; of another compiler than clang the flags alone."""
        groups = (
            [Line(f"    macros: [{quoted(shlex.join(self._given.defines))}]")] if self._given.defines else []
        )
        if not self._given.compiler:
            groups.append(Line('    vectors: ["", "-mprefer-vector-width=128", "-mprefer-vector-width=512"]'))
        math = '    # math: ["", "-ffast-math"]         # if the tolerance below allows it'
        flags = [Line("  flags:"), *groups, Line(math)] if groups else []
        passes = [] if self._given.compiler else [Line('  passes: {base: "default<O3>", max_edits: 40}')]
        return [*flags, *passes]

    def _usual(self, size: int) -> dict[str, int]:
        """Sizes for a call of some milliseconds, by which arrays are long enough and not too large."""
        found = dict.fromkeys(self._sizes, size)
        found |= dict.fromkeys(self._findings.margins & found.keys(), _MARGIN)
        found |= dict.fromkeys(self._findings.exponents & found.keys(), _EXPONENT)
        found = {n: self._numbers.get(n) or self._fitting(n, value) for n, value in found.items()}
        found = in_memory(self._within(found, move=False), self._bytes)
        return self._within(found)

    def _small(self, usual: Mapping[str, int]) -> dict[str, int]:
        """Odd sizes, no two alike where there are enough of them; rows lie further apart than any is long."""
        odd = _ODD_DEEP if self._findings.depth >= 3 else _ODD
        small = {n: odd[i % len(odd)] + 28 * (i // len(odd)) for i, n in enumerate(self._sizes)}
        pitches = [n for n in self._sizes if n in self._findings.pitches]
        longest = max((v for n, v in small.items() if n not in pitches), default=0)
        small |= dict.fromkeys(self._findings.margins & small.keys(), _MARGIN)
        small |= {n: _EXPONENT // 2 + i for i, n in enumerate(self._sizes) if n in self._findings.exponents}
        if longest:
            small |= {n: longest + 2 * (i + 1) for i, n in enumerate(pitches)}
        small = {n: self._fitting(n, value) for n, value in small.items()}
        short = self._within(small)
        # Where arrays are not long enough for an odd size, or calls take too long, another one than theirs.
        most = {n: usual[n] if self._scale < 1 or n in self._numbers else small[n] for n in small}
        small |= {
            n: max(usual[n] - 1 - i, usual[n] // 2, 1)
            for i, n in enumerate(small)
            if min(short[n], most[n]) < small[n]
        }
        return self._within(small)

    def _within(self, sizes: Mapping[str, int], *, move: bool = True) -> dict[str, int]:
        """Sizes by which every index stays inside its array; those that are known may move too, or not."""
        known = {n: value for n, value in self._numbers.items() if not (move and n in sizes)}
        return within(sizes, self._findings.limits, known)

    def _widest(self) -> int:
        """Sizes that are multiplied in the largest array: it has to fit even where one loop goes through all of it."""
        shapes = [use.shape for use in self._findings.uses.values() if use.shape is not None]
        return max((sum(extent.degree for extent in shape) for shape in shapes), default=0)

    def _parameters(self) -> list[Line]:
        macros = self._given.macros
        listed = {name: ", ".join(map(str, values)) for name, values in macros.values.items()}
        guarded = [name for name in macros.guarded if not of_problem(name)]
        lines = []
        if guarded or macros.missing:
            own, others = (
                "check: the values; the first is the baseline's",
                "check: the values; the source defines none",
            )
            lines = [
                Line("  parameters:", "macros of the source, each -DNAME=value at the build"),
                *(Line(f"    {name}: [{listed[name]}]", own) for name in guarded),
                *(Line(f"    {name}: [1, 2, 4, 8]", others) for name in macros.missing),
            ]
        elif not macros.fixed:
            example = "  # parameters: {TILE: [8, 16, 32]}    # macros of the source, each -DNAME=value at the build"
            lines.append(Line(example))
        for name in macros.fixed:
            note = f"to tune {name}, put #ifndef {name} and #endif around its #define, and then here:"
            lines += [Line(f"  # {note}"), Line(f"  # parameters: {{{name}: [{listed[name]}]}}")]
        return lines

    def _fitting(self, size: str, value: int) -> int:
        """A size that its own type can hold."""
        kinds = [kind for name, kind in self._function.parameters if name == size and kind.dtypes]
        return min([value, *(_MOST.get(kind.dtypes[0], value) for kind in kinds)])

    def _kernel(self, files: str, doubts: Sequence[str]) -> list[Line]:
        parts = [f"source: {quoted(self._given.file)}", f"entry: {self._entry()}"]
        returns = self._function.returns
        if returns is not None and returns.dtypes and not returns.pointer:
            parts.append(f"returns: {returns.dtypes[0]}")
        if self._given.language:
            parts.append(f"language: {self._given.language}")
        if self._given.threads is not None:
            parts.append("openmp: true")
        lines = [Line(f"kernel: {{{', '.join(parts)}{files}}}")]
        lines += [Line(f"# check: {doubt}") for doubt in doubts]
        if self._given.compiler:
            lines.append(Line(f"compiler: {command_text(self._given.compiler)}", _BUILT))
        return lines

    def _entry(self) -> str:
        if self._given.kernel is not None:
            return self._given.kernel
        name = self._function.qualified
        return quoted(name) if ":" in name else name

    def _argument(self, position: int) -> Line:
        name, kind = self._function.parameters[position]
        dtype = kind.usual
        if kind.text.startswith(("char", "const char")) and kind.pointer:
            dtype = "uint8"
        notes = [] if kind.dtypes else [f"check: the type behind `{kind.text}`"]
        if not kind.pointer:
            return self._scalar(position, dtype, notes)
        written = self._given.variables.get(name, name)
        if name in self._sizes:
            by = "" if name in self._given.variables else ", by: pointer"
            return Line(f"  - {{name: {written}, dtype: {dtype}, value: {name}{by}}}")
        use = self._findings.uses[position]
        if kind.reference and name in self._given.variables and not dtype.startswith("complex"):
            return self._scalar(position, dtype, notes, self._role(kind, use, notes))
        shape = self._shape(name, kind, use, notes)
        if kind.members:
            shape.append(str(kind.members))
        size = re.search(r"\d+$", dtype)
        self._bytes.append(f"{int(size[0]) // 8 if size else 1} * ({') * ('.join(shape)})")
        role = self._role(kind, use, notes)
        listed = (f'"{extent}"' if "," in extent else extent for extent in shape)
        parts = [f"name: {written}", f"dtype: {dtype}", f"shape: [{', '.join(listed)}]"]
        if role != "input":
            parts.append(f"role: {role}")
        if kind.rows:
            parts.append("rows: pointers")
        members = self._findings.members.get(position, ()) if self._sizes else ()
        if members and role != "output":
            values = (f"{member}: {{randint: [0, {self._sizes[0]}]}}" for member in members)
            parts.append(f"init: {{members: {{{', '.join(values)}}}}}")
            notes.append("check: the values, above all where they are indices")
        elif kind.structure:
            notes.append("check: the values, init: {members: {…}}, above all where some are indices")
        elif role != "output":
            known = self._values.get(name) if shape == ["1"] else None
            if position in self._findings.counts and not dtype.startswith("float"):
                parts.append(f"init: {{randint: [0, {MOST_COUNTED + 1}]}}")
                notes.append("check: how far loops go; as far as other arrays reach")
            elif position in self._findings.elements:
                parts.append(f"init: {{values: [{self._elements(position, shape)}]}}")
            elif name in self._given.flags:
                parts.append("init: zeros")
                notes.append("check: the values; 0 leaves out what they ask for")
            elif kind.values:
                parts.append(f"init: {{randint: [{min(kind.values)}, {max(kind.values) + 1}]}}")
            elif known is not None:
                parts.append(f"init: {{constant: {known}}}")
            else:
                plain = position not in self._findings.indices
                parts.append(self._initial(dtype, notes, divides=use.divides, plain=plain))
        return Line(f"  - {{{', '.join(parts)}}}", "; ".join(notes))

    def _elements(self, position: int, shape: Sequence[str]) -> str:
        """Of an array of sizes the value of each element; of those that nothing depends on 1."""
        names = self._findings.elements[position]
        count = math.prod(map(int, shape)) if all(map(str.isdecimal, shape)) else max(names) + 1
        return ", ".join(names.get(place, "1") for place in range(count))

    def _scalar(self, position: int, dtype: str, notes: list[str], role: str = "input") -> Line:
        name, kind = self._function.parameters[position]
        if name in self._sizes:
            value = name
        elif role == "output":
            value = "0"
        elif name in self._given.flags:
            value = "0"
            notes.append("check: the value; 0 leaves out what it asks for")
        else:
            usual = first_value(dtype, floating_scalars(self._function.parameters[:position]), kind.values)
            value = {**self._findings.least, **self._values}.get(name, usual)
            notes.append("check: the value")
        written = self._given.variables.get(name, name)
        says = "" if role == "input" else f", role: {role}"
        return Line(f"  - {{name: {written}, dtype: {dtype}, value: {value}{says}}}", "; ".join(notes))

    def _shape(self, name: str, kind: CType, use: Use, notes: list[str]) -> list[str]:
        shape = use.shape
        member = self._flat.members.get(name)
        if member is not None and member.extents:
            return [str(extent) for extent in member.extents]
        if kind.rows and (shape is None or len(shape) == 1):
            notes.append("check: the shape")
            rows = shape[0].text() if shape else str(self._sizes[0] if self._sizes else 64)
            return [rows, str(MOST_COUNTED)]
        if shape is None or len(shape) > _MAX_DIMENSIONS or any(e.value == 0 for e in shape):
            notes.append("check: the shape")
            # The declaration may still say how far apart rows lie.
            inner = [e.text() for e in use.declared[1:] if e is not None]
            return [*(self._unknown_shape()[:1] if inner else self._unknown_shape()), *inner]
        if not use.known:
            notes.append("check: the shape")
        # A product of sizes reads better as dimensions only where the source says so.
        return [extent.text() for extent in shape]

    def _unknown_shape(self) -> list[str]:
        """Of an array of which nothing is known: as many elements as the largest other one, or as the loops' sizes."""
        # Nothing that the loops reach is further than all of their sizes together.
        sizes = [variable(name) for name in reversed(self._sizes[: max(1, self._findings.depth)])]
        kinds = [kind for _, kind in self._function.parameters]
        uses = [use for position, use in self._findings.uses.items() if not kinds[position].rows]
        shapes = [use.shape for use in uses if use.shape is not None]
        known = [s for s in shapes if len(s) <= _MAX_DIMENSIONS and all(e.value != 0 for e in s)]
        largest = max([tuple(sizes), *known], key=lambda s: math.prod(e.at(_LARGE) for e in s))
        return [extent.text() for extent in largest] or ["1024"]

    def _role(self, kind: CType, use: Use, notes: list[str]) -> str:
        if kind.constant or not use.written:
            return "input"
        if use.made:
            return "output"
        notes.append("check: output if all of it is written before it is read")
        return "inout"

    def _initial(self, dtype: str, notes: list[str], *, divides: bool, plain: bool) -> str:
        if dtype == "bool":
            return "init: {randint: [0, 2]}"
        if plain and not divides and dtype in _RANGES:
            # Values of one sign only would let a candidate pass that takes a byte for the other kind of byte.
            return f"init: {{randint: {_RANGES[dtype]}}}"
        listed = self._sizes and dtype.endswith(("32", "64"))
        init, note = initial_values(dtype, self._sizes[0] if listed else "100", divides=divides)
        if not dtype.startswith(("float", "complex")):
            note = "check: the values, above all where they are indices"
        notes += [note] if note else []
        return init
