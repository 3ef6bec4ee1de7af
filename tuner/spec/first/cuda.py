"""Writes a first spec from a CUDA kernel's signature, read from the source's text.

What is guessed says so in a comment. May not compile or run anything.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

from tuner.core.errors import SpecError, UsageError
from tuner.core.expressions import parse
from tuner.core.types import Source, Variant
from tuner.evaluators.cuda.device_part import device_variant
from tuner.spec.device_arguments import first_lines
from tuner.spec.first.cuda_files import CudaFiles
from tuner.spec.first.device import (
    LOOPED_ALONE,
    MISSING_BLOCK,
    counts_on_block,
    fixed_note,
)
from tuner.spec.first.device_texts import (
    MOST_THREADS,
    Blocks,
    array_extents,
    axis_sizes,
    given_numbers,
    loops_over,
    numbers_of,
    one_block_each,
    reads_next,
    usual_values,
    values_from,
)
from tuner.spec.first.host_geometry import launched
from tuner.spec.first.members import EVOLVES
from tuner.spec.first.small_sizes import fitting_size
from tuner.spec.first.unfolding import Unfolded, argument_lines, unfolded
from tuner.spec.first.values import divided_by, first_value, holds, initial_values
from tuner.spec.reading.cuda_kernels import (
    NOISE,
    Parameter,
    base_name,
    chosen_kernel,
    kernels_of,
    scope_of,
    with_types,
)
from tuner.spec.reading.device_variables import device_variables
from tuner.spec.reading.macros import choices, names_used, of_problem
from tuner.spec.reading.source_trees import SourceTree, source_tree

__all__ = ["init_cuda"]

_MACRO = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_KNOWN_MACROS = re.compile(r"(CUDA|NAN|INFINITY|INT|UINT|LLONG|FLT|DBL|M)_\w+|NAN|INFINITY|NULL|EOF")
_DEFAULT = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)\s+#[ \t]*define[ \t]+\1[ \t]+(\d+)[ \t]*$", re.MULTILINE
)
_NUMBER = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)\)?[uU]?[ \t]*$", re.MULTILINE)
_MOST_EMULATED, _LEAST = 1 << 16, 5
_SIZES = {1: 1 << 22, 2: 2048, 3: 256}
_USUAL_VALUES = "[1, 2, 4, 8]   # check: the values"
_ODD = (67, 129, 35, 41)
_ODD_IN_SPACE = (37, 21, 11)


def init_cuda(file: str, files: CudaFiles, *, entry: str | None = None, include: Sequence[str] = ()) -> str:
    """The text of a first spec.

    Args:
        file: name of the source, from where the spec will lie.
        files: that one, what it includes, and others that may launch the kernel, where it does not.
        entry: the kernel; may be left out where the file has only one.
        include: folders of headers, from there too.

    Raises:
        UsageError: no such kernel, several kernels, or a type that no spec can describe.
        MachineError: there is no clang, or it does not answer.
    """
    tree = files.tree
    chosen = chosen_kernel(file, kernels_of(tree, base_name(entry or "")) or kernels_of(tree), entry)
    own = NOISE.sub(" ", f"{files.text}\n{files.headers}")
    reader = tree.reader
    others = (
        replace(reader, files=(host,)).with_missing_headers()
        for host in files.hosts
        if chosen.name in host.text
    )
    trees = [tree, *map(source_tree, others)]
    given = chosen.instance or next((k.instance for t in trees[1:] for k in kernels_of(t, chosen.name)), ())
    numbers = numbers_of(chosen)
    reader = replace(reader, macros={**reader.macros, **dict.fromkeys(numbers.values(), 1)})
    scope = scope_of(chosen, reader, given, numbers)
    found = unfolded(with_types(chosen, scope), scope, numbers, given)
    variables = first_lines(device_variables(tree, chosen.name), chosen.body)
    found = replace(found, variables=tuple(variables))
    kernel = found.kernel
    for parameter in kernel.parameters:
        if not parameter.dtype:
            why = (
                f": {parameter.kind.odd}" if parameter.kind.odd else " is of a type that no spec can describe"
            )
            raise UsageError(
                f"argument {parameter.name} of {kernel.name}{why}: `{parameter.text}`",
                "write a kernel that takes numbers and pointers to numbers and calls it",
            )
    source = Source(name=file, text=files.text)
    (plain,) = device_variant(Variant(files=(source,)), entry=kernel.name).files
    return _Writer(file, plain.text, found, include, trees, every=own, given=given).text()


class _Writer:
    """Puts the YAML together."""

    def __init__(
        self,
        file: str,
        text: str,
        found: Unfolded,
        include: Sequence[str],
        trees: Sequence[SourceTree],
        *,
        every: str,
        given: Sequence[str],
    ) -> None:
        kernel = found.kernel
        self._file = file
        self._source = text
        self._headers = f", include: [{', '.join(include)}]" if include else ""
        self._kernel, self._unfolded = kernel, found
        whole = [p.name for p in kernel.parameters if p.whole]
        self._sizes = list(dict.fromkeys(whole))[:3]
        self._dimensions = 3 if "threadIdx.z" in kernel.body else 2 if "threadIdx.y" in kernel.body else 1
        plain = NOISE.sub(" ", text)
        # `#ifndef NAME`, `#define NAME value`: a default that -DNAME=… replaces.
        self._defaults = {
            name: choices(name, int(value), plain)
            for name, value in _DEFAULT.findall(every)
            if re.search(rf"\b{name}\b", plain)
        }
        self._macros = [
            m
            for m in dict.fromkeys(_MACRO.findall(plain))
            if (m in self._defaults or m in trees[0].undeclared)
            and not _KNOWN_MACROS.fullmatch(m)
            and not (m in self._defaults and of_problem(m))
        ]
        self._defaults = {m: v for m, v in self._defaults.items() if not of_problem(m)}
        numbers = {name: int(value) for name, value in _NUMBER.findall(every)}
        self._fixed = {m: v for m, v in numbers.items() if m not in self._defaults}
        self._shared = re.search(r"extern\s+__shared__", plain) is not None
        self._axes = axis_sizes(kernel.body, self._sizes, self._grid_dimensions())
        self._template, self._types = numbers_of(kernel), given
        self._most = self._most_threads()
        kept = {name: (self._defaults.get(name) or [MISSING_BLOCK])[0] for name in self._macros}
        self._host = launched(kernel, trees, kept=kept, fixed=names_used(plain), trails=found.trails)
        if self._host is not None:
            self._sizes = list(self._host.sizes)
            self._dimensions = len(self._host.block)
        self._given = given_numbers(kernel, given)
        self._blocks_named = Blocks(
            kernel=kernel,
            macros=self._macros,
            fixed=self._fixed,
            template=self._template,
            dimensions=self._dimensions,
            most=self._most,
        )
        self._block = [self._of_host(axis, name) for axis, name in enumerate(self._blocks_named.names())]

    def _grid_dimensions(self) -> int:
        used = [axis for axis in "xyz" if re.search(rf"\bblockIdx\s*\.\s*{axis}\b", self._kernel.body)]
        return max(self._dimensions, "xyz".index(used[-1]) + 1 if used else 1)

    def _most_threads(self) -> int:
        """What the launch bounds allow, where they say it in numbers."""
        try:
            most = parse(self._kernel.bounds).evaluate(self._fixed) if self._kernel.bounds else MOST_THREADS
        except (SpecError, KeyError):
            return MOST_THREADS
        return most if isinstance(most, int) and 0 < most <= MOST_THREADS else MOST_THREADS

    def _of_host(self, axis: int, name: str) -> str:
        """A block's size as the host has it, where the source does not name one."""
        own = self._host.block[axis] if self._host else None
        if own is None or name in self._macros or name in self._template.values():
            return name
        return name if name.startswith("BLOCK_") and own.isdigit() and int(own) > 1 else own

    def text(self) -> str:
        """The spec."""
        kernel = self._kernel
        lines = [
            "# A first spec, guessed from the source's text: look through what says `check`, then run tuner check.",
            f"kernel: {{source: {self._file}, entry: {self._entry()}{self._headers}}}",
            "target: sm_90                           # check: your card's; native where there is one",
        ]
        if self._sizes:
            sizes = ", ".join(f"{name}: {value}" for name, value in self._given_sizes().items())
            lines.append(f"problem: {{{sizes}}}  # check: sizes as in your application")
        lines.append("arguments:                              # in call order")
        lines += argument_lines(self._unfolded, {p.name: self._argument(p) for p in kernel.parameters})
        note = "as the kernel expects it" if self._host is None else "as the host's code was read"
        lines += [f"launch:                                 # check: {note}"]
        lines += [f"  grid: [{', '.join(self._blocks())}]"]
        lines += [f"  block: [{', '.join(self._block)}]"]
        if self._host and self._host.shared:
            own = re.sub(r"\bBLOCK_[XYZ]\b", self._named, self._host.shared)
            lines += [f"  shared_bytes: {_quoted(own)}"] if own != "0" else []
        elif self._shared:
            lines.append(f'  shared_bytes: "4 * {" * ".join(self._block)}"     # check')
        lines += self._space()
        lines += ["verify:", "  rtol: 1.0e-5", "  atol: 1.0e-6"]
        if self._sizes:
            small = ", ".join(f"{name}: {value}" for name, value in self._small_sizes().items())
            lines.append(f"  problems: [{{{small}}}]  # check: odd sizes that must come out right too")
        lines += ["search:", "  budget: {evaluations: 200, minutes: 10}"]
        return "\n".join(lines) + "\n"

    def _space(self) -> list[str]:
        parameters = self._parameters()
        # Another source that this one includes is no file of the spec, whose headers are.
        other = self._kernel.file.endswith(".cu") and PurePath(self._file).name != self._kernel.file
        begin = ["space:", *([] if other else [EVOLVES.layout().rstrip()])]
        if not parameters:
            return [
                *begin,
                '  flags: {registers: ["", "-maxrregcount=64"]}  # -DNAME reaches no macro of this source',
            ]
        lines = [*begin, "  parameters:"]
        lines += [f"    {name}: {values}" for name, values in parameters.items()]
        if not all(size.isdigit() for size in self._block):
            lines.append(f'  constraints: ["{" * ".join(self._block)} <= {self._most}"]')
        lines.append('  # flags: {math: ["", "--use_fast_math"], registers: ["", "-maxrregcount=64"]}')
        return lines

    def _given_sizes(self) -> dict[str, int]:
        """The application's, as far as the host's code says them."""
        size = _SIZES[min(max(len(self._sizes), self._dimensions), 3)]
        if self._dimensions == 1 and loops_over(self._sizes[:1], self._kernel.body):
            size = min(size, LOOPED_ALONE)
        if self._host is None:
            arrays = [
                " * ".join(e.strip('"') for e in self._own(p)) for p in self._kernel.parameters if p.pointer
            ]
            size = fitting_size(size, self._sizes, {}, [each for each in arrays if each], ())
            return dict.fromkeys(self._sizes, size)
        known = {name: value for name, value in self._host.sizes.items() if value and value < 1 << 31}
        unknown = [name for name in self._sizes if name not in known]
        size = fitting_size(size, unknown, known, list(self._host.shapes.values()), self._whole_values())
        return {name: known.get(name, size) for name in self._sizes}

    def _small_sizes(self) -> dict[str, int]:
        """Odd ones where the kernel can do them, with few enough threads to be emulated."""
        odd = _ODD_IN_SPACE if self._dimensions == 3 else _ODD
        host = self._host.small if self._host else {}
        small = {name: host.get(name, odd[i % len(odd)]) for i, name in enumerate(self._sizes)}
        while self._host is None and self._threads(small) > _MOST_EMULATED and max(small.values()) > _LEAST:
            small = {name: max(_LEAST, value // 2 | 1) for name, value in small.items()}
        return small

    def _threads(self, sizes: Mapping[str, int]) -> float:
        """Of a launch with the first choice of every parameter."""
        first = {n: int(m[0]) for n, v in self._parameters().items() if (m := re.search(r"\d+", v))}
        counts = [parse(each.strip('"')) for each in (*self._blocks(), *self._block)]
        return math.prod(float(count.evaluate({**first, **sizes})) for count in counts)

    def _whole_values(self) -> list[str]:
        """What the host passes for arguments of 32 bits."""
        kinds = {p.name: p.dtype for p in self._kernel.parameters if not p.pointer}
        given = self._host.values if self._host else {}
        return [value for name, value in given.items() if kinds.get(name) == "int32"]

    def _entry(self) -> str:
        name = "::".join([*self._kernel.scope, self._kernel.name])
        if not self._kernel.template:
            return f'"{name}"' if self._kernel.scope else name
        parts = []
        for place, part in enumerate(self._kernel.template):
            parameter = part.split("=")[0].split()[-1].lstrip(".")
            own = self._types[place] if place < len(self._types) else "float"
            parts.append(self._template.get(parameter, own))
        return f'"{name}<{", ".join(parts)}>"'

    def _argument(self, p: Parameter) -> str:
        if not p.pointer:
            value = p.name if p.name in self._sizes else first_value(p.dtype)
            if self._host and p.name in self._host.values and holds(p.dtype, self._host.values[p.name]):
                return f"{{name: {p.name}, dtype: {p.dtype}, value: {_quoted(self._host.values[p.name])}}}"
            note = "" if p.name in self._sizes else "  # check: the value"
            return f"{{name: {p.name}, dtype: {p.dtype}, value: {value}}}{note}"
        own = self._own(p)
        indexed = array_extents(p.name, self._kernel.body, self._sizes)
        allocated = self._host is not None and p.name in self._host.shapes
        if self._host and allocated and not (indexed and p.name in self._host.unsure):
            # As it is allocated, whatever its dimensions are.
            own = [_quoted(self._for_all(self._host.shapes[p.name]))]
        shape = ", ".join(own) or "1024"
        if self._dimensions == 1 and not allocated and reads_next(p.name, self._kernel.body):
            shape += " + 1"
        shape += f", {p.lanes}" if p.lanes > 1 else ""
        parts = [f"name: {p.name}", f"dtype: {p.dtype}", f"shape: [{shape}]"]
        notes = ["check: the shape"]
        role = self._role(p)
        if role != "input":
            parts.append(f"role: {role}")
        if p.kind.structure:
            notes.append("the values, init: {members: {…}}")
        elif role != "output":
            init, note = initial_values(p.dtype, "2", divides=divided_by(p.name, self._kernel.body))
            parts.append(init)
            notes += [note] if note else []
        return f"{{{', '.join(parts)}}}  # {'; '.join(notes)}"

    def _for_all(self, shape: str) -> str:
        """A shape for every configuration: parameters of the space as the largest that they may be."""
        chosen = self._parameters()

        def largest(name: re.Match[str]) -> str:
            listed = chosen.get(name[0], "").partition("#")[0]
            return str(max(map(int, re.findall(r"\d+", listed)), default=name[0]))

        return re.sub(r"[A-Za-z_]\w*", largest, shape)

    def _own(self, p: Parameter) -> list[str]:
        """An array's dimensions by what the kernel does with it."""
        return array_extents(p.name, self._kernel.body, self._sizes) or self._extents()

    def _extents(self) -> list[str]:
        """Sizes of an array's dimensions: as many as the blocks have, a single size for all of them."""
        if len(self._axes) == self._dimensions > 1:
            return self._axes[::-1]
        dimensions = min(self._dimensions, 2) if len(self._sizes) < 3 else self._dimensions
        return self._sizes[:dimensions] if len(self._sizes) > 1 else self._sizes * dimensions

    def _role(self, p: Parameter) -> str:
        if p.kind.constant:
            return "input"
        uses = re.findall(rf"\b{p.name}\b(\s*\[[^\]]*\](?:\s*\[[^\]]*\])?\s*=(?!=))?", self._kernel.body)
        written = [u for u in uses if u]
        if written and len(written) == len(uses):
            return "output"
        return "inout" if uses or p.hidden else "input"

    def _blocks(self) -> list[str]:
        """The grid, as the host has it where it is told and the block has the host's names."""
        if self._host is None:
            return [self._grid(i) for i in range(self._grid_dimensions())]
        return [_quoted(re.sub(r"\bBLOCK_[XYZ]\b", self._named, g)) for g in self._host.grid]

    def _named(self, found: re.Match[str]) -> str:
        """What the spec has for a block's size."""
        return dict(zip(("BLOCK_X", "BLOCK_Y", "BLOCK_Z"), self._block, strict=False)).get(found[0], found[0])

    def _grid(self, axis: int) -> str:
        # The first dimension of an array is the slowest, x is the fastest.
        count = self._grid_dimensions()
        sizes = self._axes or (self._sizes[:count][::-1] if count > 1 else self._sizes[:1])
        size = sizes[axis] if axis < len(sizes) else sizes[-1] if sizes else "1024"
        if one_block_each(self._kernel.body, "xyz"[axis]):
            return size
        return f'"ceil({size} / {self._blocks_named.covered(axis, self._block)})"'

    def _parameters(self) -> dict[str, str]:
        usual = {1: ["[128, 32, 64, 256, 512]"], 2: ["[16, 8, 32, 64]", "[16, 4, 8, 32]"]}
        values = usual.get(self._dimensions, ["[8, 16, 32]", "[8, 4, 16]", "[4, 1, 2, 8]"])
        if self._dimensions == 1 and self._most < MOST_THREADS:
            fitting = [n for n in (128, 32, 64, 256, 512) if n <= self._most] or [self._most]
            values = [f"[{', '.join(map(str, fitting))}]"]
        found = {
            name: self._safe(axis, text)
            for axis, (name, text) in enumerate(zip(self._block, values, strict=True))
            if name.isidentifier()
        }
        for name, given in self._defaults.items():
            found[name] = f"[{', '.join(map(str, given))}]   # check: the values; the source's first"
        usual_others = dict.fromkeys(self._macros, _USUAL_VALUES) | usual_values(self._kernel)
        found = {**found, **{name: text for name, text in usual_others.items() if name not in found}}
        # What the host runs is the baseline.
        found |= {name: values_from(value, found[name]) for name, value in self._given.items()}
        return {name: text for name, text in found.items() if self._defaults.get(name) != []}

    def _safe(self, axis: int, values: str) -> str:
        """Sizes of a block that the source does not name; the first alone where results may hang on it."""
        name = self._block[axis]
        if name in self._macros or name in self._template.values():
            return values
        own = self._host.block[axis] if self._host else None
        if self._host and own is not None:
            first = [size for size in values.strip("[]").split(", ") if size != own]
            values = f"[{', '.join([own, *first])}]"
            if not self._host.follows[axis]:
                return f"[{own}]   # the host's, as its grid does not follow from it"
        why = counts_on_block(self._source, "cuda", self._kernel.name, axis)
        return f"[{values.strip('[]').split(',')[0]}]   # {fixed_note(why)}" if why else values


def _quoted(expression: str) -> str:
    """As YAML has it; a name or a number by itself needs no quotes."""
    return expression if re.fullmatch(r"-?[\w.]+", expression) else f'"{expression}"'
