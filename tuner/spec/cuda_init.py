"""Writes a first spec from a CUDA kernel's signature, read from the source's text.

A kernel's tunables are macros that nothing defines yet, so no compiler could parse it: the text is read by its looks,
and what is guessed says so in a comment. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.spec.divisions import divided_by, initial_values
from tuner.spec.init_device import LOOPED_ALONE, loops_over, reads_next
from tuner.spec.init_template import namespaces
from tuner.spec.macros import choices
from tuner.spec.signature import first_value
from tuner.spec.structures import structure
from tuner.spec.yaml_places import closest

__all__ = ["CudaKernel", "Parameter", "init_cuda", "kernels_of"]

_NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?(?:extern\s+\w*\s*|static\s+|inline\s+)*__global__\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\("
)
_HOST = re.compile(
    r"\bint\s+main\s*\(|<<<|#[ \t]*include[ \t]*<(?:iostream|cstdio|cstdlib|stdio\.h|stdlib\.h)>"
)
_QUALIFIERS = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|struct)\b|[*&]")
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "long long": "int64",
    "long long int": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "unsigned long long int": "uint64",
    "size_t": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_VECTORS = re.compile(r"(float|double|int|uint|short|ushort|char|uchar)([1234])$")
_ELEMENTS = {"uint": "unsigned int", "ushort": "unsigned short", "uchar": "unsigned char"}
_MACRO = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_KNOWN_MACROS = re.compile(r"(CUDA|NAN|INFINITY|INT|UINT|LLONG|FLT|DBL|M)_\w+|NAN|INFINITY|NULL|EOF")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DEFAULT = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)\s+#[ \t]*define[ \t]+\1[ \t]+(\d+)[ \t]*$", re.MULTILINE
)
_DECLARED = re.compile(r"\b(?:int|unsigned|bool|class|typename|struct|enum|auto|float|long|size_t)\s+(\w+)\b")
_SIZES = {1: 1 << 22, 2: 2048, 3: 256}
_ODD = (67, 129, 35, 41)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel: ``dtype`` is empty for a type that no spec can describe by itself."""

    name: str
    text: str
    dtype: str
    pointer: bool
    constant: bool
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel:
    """A ``__global__`` function: template parameters as written, parameters in order, the text of its body.

    ``scope`` holds the namespaces that it is in.
    """

    name: str
    template: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    body: str
    scope: tuple[str, ...] = ()


def kernels_of(text: str, chosen: Sequence[str] = ()) -> list[CudaKernel]:
    """All kernels that a source defines, in order; found by their looks.

    Args:
        text: the source.
        chosen: what a template's parameters stand for; a type among them is ``float`` where it is not said.
    """
    plain = _NOISE.sub(lambda m: " " * len(m[0]), text)
    found = []
    for match in _KERNEL.finditer(plain):
        close = _closing(plain, match.end() - 1, "()")
        brace = plain.find("{", close)
        if close < 0 or brace < 0 or plain[close + 1 : brace].strip():
            continue
        end = _closing(plain, brace, "{}")
        template = tuple(p.strip() for p in (match["template"] or "").split(",") if p.strip())
        types = {
            p.split("=")[0].split()[-1]: chosen[i] if i < len(chosen) else "float"
            for i, p in enumerate(template)
            if p.startswith(("typename", "class"))
        }
        found.append(
            CudaKernel(
                name=match["name"],
                template=template,
                parameters=tuple(
                    _parameter(p, i, types, plain) for i, p in enumerate(_split(plain[match.end() : close]))
                ),
                body=plain[brace : end + 1],
                scope=tuple(namespaces(plain[: match.start()])),
            )
        )
    return found


def init_cuda(file: str, text: str, *, entry: str | None = None) -> str:
    """The text of a first spec.

    Args:
        file: name of the source, beside which the spec will lie.
        text: the source.
        entry: the kernel; may be left out where the file has only one.

    Raises:
        UsageError: no such kernel, several kernels, or a type that no spec can describe.
    """
    kernel = _choose(file, kernels_of(text), entry)
    host = _HOST.search(_NOISE.sub(" ", text))
    if host is not None and "__CUDACC_RTC__" not in text:
        raise UsageError(
            f"{file} has host code (`{' '.join(host[0].split())}`), which the compiler of kernels alone does not take",
            "put the kernels into a file of their own and include it here, or put host code between "
            "#ifndef __CUDACC_RTC__ and #endif",
        )
    for parameter in kernel.parameters:
        if not parameter.dtype:
            raise UsageError(
                f"argument {parameter.name} of {kernel.name} is of a type that no spec can describe: "
                f"`{parameter.text}`",
                "write a kernel that takes numbers and pointers to numbers and calls it",
            )
    return _Writer(file, text, kernel).text()


def _choose(file: str, kernels: Sequence[CudaKernel], entry: str | None) -> CudaKernel:
    names = [k.name for k in kernels]
    if not kernels:
        raise UsageError(f"{file} has no __global__ function", "name the file that defines the kernel")
    if entry is None:
        if len(set(names)) > 1:
            raise UsageError(f"{file} has several kernels", "choose with --entry: " + ", ".join(names))
        return kernels[0]
    wanted = entry.partition("<")[0].strip()
    for kernel in kernels:
        if kernel.name == wanted:
            return kernel
    near = closest(wanted, names)
    raise UsageError(
        f"{file} has no kernel {wanted!r}",
        f"did you mean {near!r}?" if near else "it has " + ", ".join(names),
    )


def _closing(text: str, at: int, pair: str) -> int:
    """Where the bracket at ``at`` is closed; -1 where it is not."""
    depth = 0
    for i in range(at, len(text)):
        depth += {pair[0]: 1, pair[1]: -1}.get(text[i], 0)
        if depth == 0:
            return i
    return -1


def _split(text: str) -> list[str]:
    """Parameters apart; commas inside brackets do not count."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]] if p.strip() and p.strip() != "void"]


def _parameter(text: str, position: int, types: Mapping[str, str], source: str) -> Parameter:
    text = " ".join(text.split("=")[0].split())
    array = re.search(r"\[[^\]]*\]$", text)
    bare = text[: array.start()] if array else text
    named = re.search(r"(\w+)\s*$", bare)
    name = named[1] if named else f"argument{position + 1}"
    before = bare[: named.start()] if named else bare
    base = " ".join(_QUALIFIERS.sub(" ", before).split())
    stars = before.count("*") + (1 if array else 0)
    base = types.get(base, base)
    vector = _VECTORS.match(base)
    lanes = 1
    if vector and stars == 1:
        base, lanes = _ELEMENTS.get(vector[1], vector[1]), int(vector[2])
    elif stars == 1 and base not in _DTYPES and (found := structure(base, source, "cuda")) is not None:
        base, lanes = found.element, max(1, found.count)
    dtype = _DTYPES.get(base, "") if stars <= 1 and "&" not in before else ""
    return Parameter(
        name=name,
        text=text,
        dtype=dtype,
        pointer=stars == 1,
        constant=bool(re.search(r"\bconst\b[^*]*\*|\bconst\b", before)) and stars == 1,
        lanes=lanes,
    )


class _Writer:
    """Puts the YAML together."""

    def __init__(self, file: str, text: str, kernel: CudaKernel) -> None:
        self._file = file
        self._kernel = kernel
        whole = [
            p.name
            for p in kernel.parameters
            if not p.pointer and p.dtype.startswith(("int", "uint")) and p.dtype[-1] in "24"
        ]
        self._sizes = whole[:3]
        self._dimensions = 3 if "threadIdx.z" in kernel.body else 2 if "threadIdx.y" in kernel.body else 1
        plain = _NOISE.sub(" ", text)
        # `#ifndef NAME`, `#define NAME value`: a default that -DNAME=… replaces.
        self._defaults = {name: choices(name, int(value), plain) for name, value in _DEFAULT.findall(plain)}
        own = set(_DEFINED.findall(plain)) | set(_DECLARED.findall(plain))
        self._macros = [
            m
            for m in dict.fromkeys(_MACRO.findall(plain))
            if (m in self._defaults or m not in own) and not _KNOWN_MACROS.fullmatch(m)
        ]
        self._template: dict[str, str] = {}
        for part in kernel.template:
            name = part.split("=")[0].split()[-1].lstrip(".")
            if not part.startswith(("typename", "class")):
                # Not the parameter's own name: as a macro it would replace that in the source.
                self._template[name] = f"ARG_{name.upper()}"
        self._block = self._block_names()

    def _block_names(self) -> list[str]:
        chosen = []
        for axis in "XYZ"[: self._dimensions]:
            pattern = rf"(BLOCK|THREADS|TILE|WG|BLOCK_SIZE|BLOCK_DIM)_?{axis}"
            template = list(self._template.items())
            # A template's own name for the block: its shared arrays are as large as that.
            own = [macro for name, macro in template if re.fullmatch(pattern, name, re.IGNORECASE)]
            fits = own + [m for m in self._macros if re.fullmatch(pattern, m)]
            if not fits and self._dimensions == 1:
                alone = r"(BLOCK|THREADS)(_?SIZE|_?DIM)?"
                fits = [macro for name, macro in template if re.fullmatch(alone, name, re.IGNORECASE)]
                fits += [m for m in self._macros if re.fullmatch(alone, m)]
            chosen.append(fits[0] if fits else f"BLOCK_{axis}")
        return chosen

    def text(self) -> str:
        """The spec."""
        lines = [
            "# A first spec, guessed from the source's text: look through what says `check`, then run tuner check.",
            f"kernel: {{source: {self._file}, entry: {self._entry()}}}",
            "target: sm_90                           # check: your card's; native where there is one",
        ]
        if self._sizes:
            size = _SIZES[min(max(len(self._sizes), self._dimensions), 3)]
            if self._dimensions == 1 and loops_over(self._sizes[:1], self._kernel.body):
                size = min(size, LOOPED_ALONE)
            sizes = ", ".join(f"{n}: {size}" for n in self._sizes)
            lines.append(f"problem: {{{sizes}}}  # check: sizes as in your application")
        lines.append("arguments:                              # in call order")
        lines += [f"  - {self._argument(p)}" for p in self._kernel.parameters]
        lines += ["launch:                                 # check: as the kernel expects it"]
        lines += [f"  grid: [{', '.join(self._grid(i) for i in range(self._dimensions))}]"]
        lines += [f"  block: [{', '.join(self._block)}]"]
        if re.search(r"extern\s+__shared__", self._kernel.body):
            lines.append(f'  shared_bytes: "4 * {" * ".join(self._block)}"     # check')
        lines += ["space:", "  parameters:"]
        lines += [f"    {name}: {values}" for name, values in self._parameters().items()]
        lines.append(f'  constraints: ["{" * ".join(self._block)} <= 1024"]')
        lines.append('  # flags: {math: ["", "--use_fast_math"], registers: ["", "-maxrregcount=64"]}')
        lines += ["verify:", "  rtol: 1.0e-5", "  atol: 1.0e-6"]
        if self._sizes:
            small = ", ".join(f"{n}: {_ODD[i % len(_ODD)]}" for i, n in enumerate(self._sizes))
            lines.append(f"  problems: [{{{small}}}]  # check: odd sizes that must come out right too")
        lines += ["search:", "  budget: {evaluations: 200, minutes: 10}"]
        return "\n".join(lines) + "\n"

    def _entry(self) -> str:
        name = "::".join([*self._kernel.scope, self._kernel.name])
        if not self._kernel.template:
            return f'"{name}"' if self._kernel.scope else name
        parts = []
        for part in self._kernel.template:
            parameter = part.split("=")[0].split()[-1].lstrip(".")
            parts.append(self._template.get(parameter, "float"))
        return f'"{name}<{", ".join(parts)}>"'

    def _argument(self, p: Parameter) -> str:
        if not p.pointer:
            value = p.name if p.name in self._sizes else first_value(p.dtype)
            note = "" if p.name in self._sizes else "  # check: the value"
            return f"{{name: {p.name}, dtype: {p.dtype}, value: {value}}}{note}"
        shape = ", ".join(self._extents()) or "1024"
        if self._dimensions == 1 and reads_next(p.name, self._kernel.body):
            shape += " + 1"
        shape += f", {p.lanes}" if p.lanes > 1 else ""
        parts = [f"name: {p.name}", f"dtype: {p.dtype}", f"shape: [{shape}]"]
        notes = ["check: the shape"]
        role = self._role(p)
        if role != "input":
            parts.append(f"role: {role}")
        if role != "output":
            init, note = initial_values(p.dtype, "2", divides=divided_by(p.name, self._kernel.body))
            parts.append(init)
            notes += [note] if note else []
        return f"{{{', '.join(parts)}}}  # {'; '.join(notes)}"

    def _extents(self) -> list[str]:
        """Sizes of an array's dimensions: as many as the blocks have, a single size for all of them."""
        dimensions = min(self._dimensions, 2) if len(self._sizes) < 3 else self._dimensions
        return self._sizes[:dimensions] if len(self._sizes) > 1 else self._sizes * dimensions

    def _role(self, p: Parameter) -> str:
        if p.constant:
            return "input"
        uses = re.findall(rf"\b{p.name}\b(\s*\[[^\]]*\](?:\s*\[[^\]]*\])?\s*=(?!=))?", self._kernel.body)
        written = [u for u in uses if u]
        if written and len(written) == len(uses):
            return "output"
        return "inout" if uses else "input"

    def _grid(self, axis: int) -> str:
        # The first dimension of an array is the slowest, x is the fastest.
        sizes = self._sizes[: self._dimensions][::-1] if self._dimensions > 1 else self._sizes[:1]
        size = sizes[axis] if axis < len(sizes) else sizes[-1] if sizes else "1024"
        return f'"ceil({size} / {self._block[axis]})"'

    def _parameters(self) -> dict[str, str]:
        usual = {1: ["[128, 32, 64, 256, 512]"], 2: ["[16, 8, 32, 64]", "[16, 4, 8, 32]"]}
        values = usual.get(self._dimensions, ["[8, 16, 32]", "[8, 4, 16]", "[4, 1, 2, 8]"])
        found = dict(zip(self._block, values, strict=True))
        for name, given in self._defaults.items():
            found[name] = f"[{', '.join(map(str, given))}]   # check: the values; the source's first"
        for name in (*self._macros, *self._template.values()):
            found.setdefault(name, "[1, 2, 4, 8]   # check: the values")
        return {name: text for name, text in found.items() if self._defaults.get(name) != []}
