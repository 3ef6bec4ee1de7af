"""A device's program for clang's preprocessor: all sources in one text, and what only the device's compiler defines.

Clang is asked without macros of its own and without headers of the device's compiler, so that what those define stays
a name. Where a conditional asks for such a name, each answer that a device may give is tried. Must not read C: of a
conditional it is only looked at which words stand in it.

Source: OpenCL C 3.0, 6.10 (predefined macros); NVRTC 13, "Predefined Macros".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from tuner.core.types import Kernel, Source
from tuner.evaluators.cuda.flags import PRE_INCLUDES, pre_included, split_words
from tuner.spec.reading.signature import SourceReader

__all__ = [
    "DEVICE",
    "OPENCL_WORDS",
    "Answer",
    "Unanswered",
    "answers",
    "cuda_words",
    "joined",
    "parted",
    "preprocessor_flags",
    "require_answered",
    "with_empty_headers",
    "without_extensions",
]

DEVICE = ("opencl", "cuda")
"""Languages whose sources are compiled as one text."""

_OPENCL_HEADERS = (".h", ".hpp", ".clh", ".hcl", "")
_PARTING = "#pragma tuner_next_source\n"
_MOST = 64
"""Combinations of answers."""
_CONDITIONAL = re.compile(r"(?:#|%:)[ \t]*(?:el)?if.*")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_INCLUDED = re.compile(r"#[ \t]*include[ \t]*[<\"]([^>\"\n]+)[>\"]")
_RESERVED = re.compile(r"_\w+|cl_\w+|CL_\w+|CLK_\w+|POCL\w*|CU_\w+|CUDA\w*|CUB_\w+|THRUST_\w+")
_LIBRARY = re.compile(
    r"M_\w+|(?:FLT|DBL|LDBL|HALF)_\w+|U?(?:CHAR|SCHAR|SHRT|INT|LONG|LLONG|INT\d+|SIZE)_(?:MAX|MIN)|CHAR_BIT"
    r"|NULL|NAN|INFINITY|MAXFLOAT|HUGE_VALF?|FP_\w+|assert"
)
_VERSION = re.compile(r"__OPENCL_(?:C_)?VERSION__")
_VERSIONS = ("100", "110", "120", "200", "210", "220", "300", "310")
_OF_A_VERSION = re.compile(r"CL_VERSION_(\d)_(\d)")
_ONE = re.compile(r"cl_\w+|__opencl_c_\w+|__IMAGE_SUPPORT__|__ENDIAN_LITTLE__|__FAST_RELAXED_MATH__")
"""They are 1 where they are defined at all."""
_OTHERS = {"__HIPCC__", "__HIP_DEVICE_COMPILE__", "__HIP_PLATFORM_AMD__", "_OPENMP", "_OPENACC"}
_SETTLED = {
    "opencl": {"__cplusplus", "__CUDACC__", "__CUDA_ARCH__", "__NVCC__", *_OTHERS},
    "cuda": {"__cplusplus", "__OPENCL_VERSION__", "__OPENCL_C_VERSION__", *_OTHERS},
}
"""The language's standard decides, or no compiler of the language has them."""
_EXTENSION = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+OPENCL[ \t]+EXTENSION\b.*", re.MULTILINE)


_BARE = ("-undef", "-nostdinc")
OPENCL_WORDS = (
    *_BARE,
    "-cl-no-stdinc",
    *(f"-U{name}" for name in ("__OPENCL_C_VERSION__", "__ENDIAN_LITTLE__")),
    *(f"-UCL_VERSION_{version}" for version in ("1_0", "1_1", "1_2", "2_0", "3_0", "3_1")),
)
"""Of clang's preprocessor as one that defines nothing for OpenCL C."""
_CUDA_WORDS = (
    *(*_BARE, "-nocudainc", "-nocudalib", "--cuda-device-only", "-Wno-unknown-cuda-version"),
    *("-U__CUDA__", "-U__CUDA_ARCH_LIST__", "-D__CUDACC__=1"),
)


class Unanswered(Exception):
    """A conditional asks for what only the device's compiler can say: one line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a device's compiler may say of its own macros: flags, and those that it has not."""

    flags: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()


def cuda_words(target: str, *, passes: bool) -> tuple[str, ...]:
    """Of clang's preprocessor as one that defines nothing for CUDA but what NVRTC does for this architecture.

    Args:
        target: such as ``sm_90``.
        passes: whether clang compiles some candidates: it does not have ``__CUDACC_RTC__``.
    """
    known = re.fullmatch(r"sm_(\d+)[af]?", target)
    arch = (f"-D__CUDA_ARCH__={10 * int(known[1])}",) if known else ()
    return (*_CUDA_WORDS, *arch, *(() if passes else ("-D__CUDACC_RTC__=1",)))


def preprocessor_flags(words: Sequence[str], kernel: Kernel) -> tuple[str, ...]:
    """Those of a device compiler's flags that its preprocessor takes, as clang takes them."""
    if kernel.language == "opencl":
        return tuple(word for word in words if word.startswith(("-D", "-cl-std=")))
    files = [file.name for file in kernel.variant.files]
    kept: list[str] = []
    for flag, argument in split_words(words):
        name, value = flag.lstrip("-"), argument or ""
        if name in ("D", "define-macro", "U", "undefine-macro"):
            kept.append(f"-{name[0].upper()}{value}")
        elif name in ("I", "include-path"):
            kept.append(f"-I{PurePosixPath(kernel.folder, value)}")
        elif flag in PRE_INCLUDES:
            kept += ["-include", pre_included(value, folder=kernel.folder, files=files)]
        elif name == "std":
            kept.append(f"-std={value}")
    return tuple(kept)


def with_empty_headers(reader: SourceReader, texts: Sequence[str]) -> SourceReader:
    """A reader for which headers that are nowhere else have nothing in them: those of CUDA's compilers.

    Args:
        reader: of the sources.
        texts: of those and of the project's headers.
    """
    if reader.language != "cuda":
        return reader
    names = (PurePosixPath(name.strip()) for text in texts for name in _INCLUDED.findall(text))
    empty = {str(n) for n in names if not n.is_absolute() and ".." not in n.parts and n.parts}
    return replace(reader, empty=tuple(sorted(empty)))


def joined(reader: SourceReader) -> SourceReader:
    """The sources as a device's compiler gets them, one behind the other; C and C++ as they are."""
    sources = _sources(reader)
    if len(sources) == 1:
        return reader
    parts = (f'#line 1 "{source.name}"\n{source.text}\n' for source in sources)
    return reader.with_text(_PARTING.join(parts))


def parted(reader: SourceReader, text: str) -> Iterator[tuple[Source, str]]:
    """Each source with what the preprocessor made of it."""
    return zip(_sources(reader), text.split(_PARTING), strict=False)


def _sources(reader: SourceReader) -> list[Source]:
    first, *others = reader.files
    suffixes = {file: PurePosixPath(file.name).suffix for file in others}
    if reader.language == "cuda":
        return [first, *(file for file in others if suffixes[file] == ".cu")]
    return [first, *(f for f in others if reader.language == "opencl" and suffixes[f] not in _OPENCL_HEADERS)]


def answers(
    reader: SourceReader, texts: Sequence[str], known: Collection[str], defined: Collection[str]
) -> tuple[list[Answer], list[str]]:
    """What a device's compiler may say of the names that conditionals ask for, and those names.

    Args:
        reader: of the sources.
        texts: of those and of the project's headers.
        known: names that flags or values settle.
        defined: names that the sources define themselves, such as guards of headers.

    Raises:
        Unanswered: it may say too much.
    """
    settled = {*known, *(flag[2:].partition("=")[0] for flag in reader.flags if flag.startswith("-D"))}
    asked = {word for text in texts for word in _asked(text)} - settled - _SETTLED[reader.language]
    names = sorted(n for n in asked if _LIBRARY.fullmatch(n) or (_RESERVED.fullmatch(n) and n not in defined))
    choices = [_choices(name) for name in names]
    if math.prod(map(len, choices)) > _MOST or any(name.startswith("__has_") for name in names):
        raise Unanswered(f"they ask the device's compiler for {', '.join(names)}")
    made = []
    for chosen in itertools.product(*choices):
        pairs = list(zip(names, chosen, strict=True))
        flags = tuple(f"-U{name}" if value is None else f"-D{name}={value}" for name, value in pairs)
        made.append(Answer(flags, frozenset(name for name, value in pairs if value is None)))
    return made, names


def require_answered(asked: Collection[str]) -> None:
    """Refuses that the value counts of what a device's compiler may define: names that were no macros."""
    own = sorted(n for n in asked if _RESERVED.fullmatch(n) or _LIBRARY.fullmatch(n))
    if own:
        raise Unanswered(f"they ask the device's compiler for the value of {own[0]}")


def _choices(name: str) -> tuple[str | None, ...]:
    if _VERSION.fullmatch(name):
        return _VERSIONS
    if (version := _OF_A_VERSION.fullmatch(name)) is not None:
        return None, f"{version[1]}{version[2]}0"
    # Of one that stands for itself the preprocessor says where its value counts.
    return None, "1" if _ONE.fullmatch(name) else name


def _asked(text: str) -> Iterator[str]:
    """Words of all conditionals, and perhaps more."""
    whole = text.replace("\\\n", "")
    for part in (whole, _COMMENT.sub(" ", whole)):
        for line in _CONDITIONAL.findall(part):
            yield from _WORD.findall(line)


def without_extensions(text: str) -> list[str]:
    """A text's words without what switches extensions on and off."""
    return _EXTENSION.sub("", text).split()
