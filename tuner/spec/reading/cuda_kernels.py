"""The kernels of a CUDA source with their parameters, read from its text by their looks.

A kernel's tunables are macros that nothing defines yet, so no compiler could parse it. May not compile or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.errors import UsageError
from tuner.spec.reading.structures import structure
from tuner.spec.reading.templates import namespaces
from tuner.spec.yaml_places import closest

__all__ = [
    "NOISE",
    "CudaKernel",
    "Parameter",
    "chosen_kernel",
    "kernels_of",
    "number_names",
    "read_parameter",
]

NOISE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_BRACKETS = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ATTRIBUTES = rf"(?:(?:static|inline|__[a-z_]+__)\b\s*(?:{_BRACKETS})?\s*)*"
_ALIAS = re.compile(
    r"\btypedef\s+(?P<as>[\w\s]+?)\s+(?P<a>\w+)\s*;|\busing\s+(?P<b>\w+)\s*=\s*(?P<bs>[\w\s]+?)\s*;"
    r"|^[ \t]*#[ \t]*define[ \t]+(?P<c>\w+)[ \t]+(?P<cs>[a-z][\w \t]*?)[ \t]*$",
    re.MULTILINE,
)
_BOUNDS = re.compile(rf"__launch_bounds__\s*({_BRACKETS})")
_KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^{};]*?)>\s*)?(?:extern\s+\w*\s*|static\s+|inline\s+)*__global__\s+"
    rf"(?P<before>{_ATTRIBUTES})void\s+(?P<after>{_ATTRIBUTES})(?P<name>\w+)\s*\("
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
    "long int": "int64",
    "unsigned long int": "uint64",
    "long long": "int64",
    "long long int": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "unsigned long long int": "uint64",
    "size_t": "uint64",
    "clock_t": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_VECTORS = re.compile(r"(float|double|u?int|u?short|u?char|u?long|u?longlong)([1234])$|(half|__half)(2)$")
_ELEMENTS = {
    **{f"u{name}": f"unsigned {name}" for name in ("int", "short", "char", "long")},
    "longlong": "long long",
    "ulonglong": "unsigned long long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of a kernel: ``dtype`` is empty for a type that no spec can describe by itself.

    ``hidden``: the kernel may write through it where its text does not name it.
    """

    name: str
    text: str
    dtype: str
    pointer: bool
    constant: bool
    lanes: int = 1
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel:
    """A ``__global__`` function: template parameters as written, parameters in order, the text of its body.

    ``scope`` holds the namespaces that it is in, ``bounds`` the text of its launch bounds.
    """

    name: str
    template: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    body: str
    scope: tuple[str, ...] = ()
    bounds: str = ""


def kernels_of(text: str, chosen: Sequence[str] = (), *, headers: str = "") -> list[CudaKernel]:
    """All kernels that a source defines, in order; found by their looks.

    Args:
        text: the source.
        chosen: what a template's parameters stand for; a type among them is ``float`` where it is not said.
        headers: what it includes, for names of types and for structures.
    """
    plain = NOISE.sub(lambda m: " " * len(m[0]), text)
    every = f"{NOISE.sub(' ', headers)}\n{plain}" if headers else plain
    found = []
    aliases = number_names(every)
    for match in _KERNEL.finditer(plain):
        close = _closing(plain, match.end() - 1, "()")
        brace = plain.find("{", close)
        if close < 0 or brace < 0 or plain[close + 1 : brace].strip():
            continue
        end = _closing(plain, brace, "{}")
        template = tuple(p.strip() for p in (match["template"] or "").split(",") if p.strip())
        types = {
            **aliases,
            **{
                p.split("=")[0].split()[-1]: chosen[i] if i < len(chosen) else "float"
                for i, p in enumerate(template)
                if p.startswith(("typename", "class"))
            },
        }
        found.append(
            CudaKernel(
                name=match["name"],
                template=template,
                parameters=tuple(
                    read_parameter(p, i, types, every)
                    for i, p in enumerate(_split(plain[match.end() : close]))
                ),
                body=plain[brace : end + 1],
                scope=tuple(namespaces(plain[: match.start()])),
                bounds=_launch_bounds(match["before"] + match["after"]),
            )
        )
    return found


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


def number_names(text: str) -> dict[str, str]:
    """Names that a source gives to numbers' types: ``typedef float real;`` and the like."""
    given = {m["a"] or m["b"] or m["c"]: m["as"] or m["bs"] or m["cs"] for m in _ALIAS.finditer(text)}
    found: dict[str, str] = {}
    for name, meant in given.items():
        words = " ".join(meant.split())
        for _ in given:
            words = given.get(words, words)
        if words in _DTYPES:
            found[name] = words
    return found


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


def read_parameter(text: str, position: int, types: Mapping[str, str], source: str) -> Parameter:
    """A parameter as it is declared; ``types`` are names for those of numbers, ``source`` has the structures."""
    text = " ".join(text.split("=")[0].split())
    array = re.search(r"\[[^\]]*\]$", text)
    bare = text[: array.start()] if array else text
    named = re.search(r"(\w+)\s*$", bare)
    name = named[1] if named else f"argument{position + 1}"
    before = bare[: named.start()] if named else bare
    base = " ".join(_QUALIFIERS.sub(" ", before).split()).removeprefix("std::")
    stars = before.count("*") + (1 if array else 0)
    base = types.get(base, base)
    vector = _VECTORS.match(base)
    lanes = 1
    if vector and stars == 1:
        name_of, count = vector[1] or vector[3], vector[2] or vector[4]
        base, lanes = _ELEMENTS.get(name_of, name_of), int(count)
    elif stars == 1 and base not in _DTYPES and (found := structure(base, source, "cuda")) is not None:
        base, lanes = found.element, max(1, found.count)
    dtype = _DTYPES.get(base, "") if stars <= 1 and "&" not in before else ""
    return Parameter(
        name=name,
        text=text,
        dtype=dtype,
        pointer=stars == 1,
        # In `float *const a` the pointer is constant, not what it points to.
        constant=stars == 1 and re.search(r"\bconst\b", before.partition("*")[0]) is not None,
        lanes=lanes,
    )


def _launch_bounds(attributes: str) -> str:
    """The most threads of a block, as the source has it; empty where it does not say."""
    found = _BOUNDS.search(attributes)
    return _split(found[1][1:-1])[0] if found and found[1][1:-1].strip() else ""
