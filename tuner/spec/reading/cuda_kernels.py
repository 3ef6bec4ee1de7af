"""The kernels of a CUDA source: found in its text by their looks, the types of their parameters told by clang."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from tuner.core.errors import UsageError
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.templates import namespaces
from tuner.spec.reading.type_probes import TypeScope
from tuner.spec.yaml_places import closest

__all__ = [
    "NOISE",
    "CudaKernel",
    "Parameter",
    "base_name",
    "chosen_kernel",
    "cuda_functions",
    "kernels_of",
    "scope_of",
    "with_types",
]

NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ATTRIBUTES = rf"(?:(?:static|inline|__[a-z_]+__)\b\s*(?:{_BRACKETS})?\s*)*"
_BOUNDS = re.compile(rf"__launch_bounds__\s*({_BRACKETS})")
_LAST = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$")
_UNKNOWN = CType(text="", base="", odd="not asked yet")
_KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?(?:extern\s+\w*\s*|static\s+|inline\s+)*__global__\s+"
    rf"(?P<before>{_ATTRIBUTES})void\s+(?P<after>{_ATTRIBUTES})(?P<name>\w+)\s*\("
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel as it is declared.

    Attributes:
        name: of it.
        text: of its declaration.
        kind: its type, once clang has been asked.
        hidden: the kernel may write through it where its text does not name it.
    """

    name: str
    text: str
    kind: CType = _UNKNOWN
    hidden: bool = False

    @property
    def dtype(self) -> str:
        """Of the number or of the numbers that it points to; empty for a type that no spec can describe by itself."""
        return "" if self.kind.odd or not self.kind.dtypes else self.kind.dtypes[0]

    @property
    def pointer(self) -> bool:
        """Whether it points to numbers or structures."""
        return self.kind.pointer and not self.kind.odd

    @property
    def constant(self) -> bool:
        """Whether the kernel cannot write there."""
        return self.kind.constant

    @property
    def lanes(self) -> int:
        """Numbers in an element."""
        return self.kind.members or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel:
    """A ``__global__`` function: template parameters as written, parameters in order, the text of its body.

    :func:`with_types` says what their types are.

    ``scope`` holds the namespaces that it is in, ``bounds`` the text of its launch bounds.
    """

    name: str
    template: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    body: str
    scope: tuple[str, ...] = ()
    bounds: str = ""


def kernels_of(text: str) -> list[CudaKernel]:
    """All kernels that a source defines, in order; found by their looks, so that the types are not known."""
    plain = NOISE.sub(lambda m: " " * len(m[0]), text)
    found = []
    for match in _KERNEL.finditer(plain):
        close = _closing(plain, match.end() - 1, "()")
        brace = plain.find("{", close)
        if close < 0 or brace < 0 or plain[close + 1 : brace].strip():
            continue
        found.append(
            CudaKernel(
                name=match["name"],
                template=tuple(p.strip() for p in (match["template"] or "").split(",") if p.strip()),
                parameters=tuple(_parameter(p, i) for i, p in enumerate(_split(plain[match.end() : close]))),
                body=plain[brace : _closing(plain, brace, "{}") + 1],
                scope=tuple(namespaces(plain[: match.start()])),
                bounds=_launch_bounds(match["before"] + match["after"]),
            )
        )
    return found


def with_types(kernel: CudaKernel, scope: TypeScope) -> CudaKernel:
    """The kernel with the types of its parameters.

    Args:
        kernel: as it was found.
        scope: of it, see :func:`scope_of`.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    kinds = scope.kinds([(p.name, p.text) for p in kernel.parameters])
    typed = (replace(p, kind=k) for p, k in zip(kernel.parameters, kinds, strict=True))
    return replace(kernel, parameters=tuple(typed))


def scope_of(
    kernel: CudaKernel,
    reader: SourceReader,
    types: Sequence[str] = (),
    numbers: Mapping[str, str] = MappingProxyType({}),
) -> TypeScope:
    """Where the names in a kernel's signature are looked up.

    Args:
        kernel: as it was found.
        reader: of its source.
        types: what the template's parameters stand for; a type among them is ``float`` where it is not said.
        numbers: what stands for those that are numbers; 1 where it is not said.
    """
    names = []
    for place, part in enumerate(kernel.template):
        name = part.split("=")[0].split()[-1].lstrip(".")
        if part.startswith(("typename", "class")):
            own = part.partition("=")[2].strip() or "float"
            names.append(f"using {name} = {types[place] if place < len(types) else own};")
        else:
            names.append(f"static constexpr {part.split('=')[0]} = {numbers.get(name, '1')};")
    return TypeScope(reader, kernel.scope, tuple(names))


def base_name(entry: str) -> str:
    """A kernel's name without its template's arguments."""
    return entry.partition("<")[0].strip()


def cuda_functions(reader: SourceReader, entry: str) -> list[Function]:
    """The kernels of a name that a source defines, with the types that the entry's template arguments give.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    given = entry.partition("<")[2].rpartition(">")[0]
    chosen = _split(given)
    name = base_name(entry).rpartition("::")[2]
    found = []
    for kernel in kernels_of(reader.files[0].text):
        if kernel.name == name:
            typed = with_types(kernel, scope_of(kernel, reader, chosen))
            parameters = tuple((p.name, _plain(p.kind)) for p in typed.parameters)
            found.append(Function(name=name, parameters=parameters, returns=None, kernel=True))
    return found


def _plain(kind: CType) -> CType:
    """A type that clang does not know, or that no spec can describe, by its looks; its memory is bytes."""
    if not kind.odd:
        return replace(kind, structure="")
    pointer = kind.text.count("*") == 1
    constant = pointer and "const" in kind.text.partition("*")[0].split()
    return replace(kind, odd="", base="", pointer=pointer, constant=constant)


def chosen_kernel(file: str, kernels: Sequence[CudaKernel], entry: str | None) -> CudaKernel:
    """The kernel that a spec is for, or the only one.

    Raises:
        UsageError: no such kernel, or several.
    """
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


def _parameter(text: str, position: int) -> Parameter:
    """A parameter as it is declared, with a name where it has none."""
    text = " ".join(text.split("=")[0].split())
    named = _LAST.search(text)
    if named is None or text == named[1]:
        return Parameter(name=f"argument{position + 1}", text=f"{text} argument{position + 1}")
    return Parameter(name=named[1], text=text)


def _launch_bounds(attributes: str) -> str:
    """The most threads of a block, as the source has it; empty where it does not say."""
    found = _BOUNDS.search(attributes)
    return _split(found[1][1:-1])[0] if found and found[1][1:-1].strip() else ""
