"""Changes to LLVM IR text between clang's steps. Works on text only; knows the few forms that clang writes.

Shared variables get a section of their own, where the runtime finds them, and a gap behind each; dynamic shared
memory becomes the runtime's array; and before every call of the runtime the source line is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["FILLED", "GAP_BYTES", "SECTION", "check_vectors", "make_fillable", "mark_lines", "place_shared"]

GAP_BYTES = 64
SECTION = "emu_shared"
FILLED = "emu_filled"
"""The array in which the launch has the addresses of the variables that it fills."""
_DYNAMIC = "@emu_dynamic"

_NAME = r'@(?:[\w$.-]+|"[^"]+")'
_SHARED = re.compile(
    rf"^({_NAME}) = (?:linkonce_odr |weak_odr |internal |dso_local |local_unnamed_addr )*global (.*) undef"
    r"(?:, comdat(?:\([^)]*\))?)?, align (\d+)((?:, !dbg !\d+)*)$",
    re.MULTILINE,
)
_FILLED = re.compile(rf"^@{FILLED} = .*?\bconstant \[\d+ x ptr\] (\[[^\n]*\])", re.MULTILINE)
_DEFINED = re.compile(rf"^define (?:weak_odr )?dso_local (.*?)({_NAME})\(", re.MULTILINE)
_EXTERN_SHARED = re.compile(rf"^({_NAME}) = external (?:dso_local )?global \[0 x .*$", re.MULTILINE)
_VECTOR = re.compile(
    r"^  (%[\w.]+) = alloca %struct\.(?:u?(?:char|short|int|long|longlong)|float|double)[24], align (\d+)"
)
_COPY = re.compile(
    r"^  call void @llvm\.memcpy\.p0\.p0\.i64\(ptr align (\d+) (%[\w.]+), ptr align (\d+) (%[\w.]+), "
    r"i64 \d+, i1 false\), (!dbg !\d+), !tbaa\.struct "
)
_AT_LOAD = re.compile(r"^@llvm\.(?:global_ctors|used) = .*$", re.MULTILINE)
_CALL = re.compile(r"^\s.*call .*@(?:__tsan_|emu_)\w+\(.*, !dbg (![0-9]+)")
_LOCATION = re.compile(
    r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: \d+)?, scope: (!\d+)(?:, inlinedAt: (!\d+))?"
)
_SCOPE = re.compile(
    r"^(!\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlock|LexicalBlockFile)\(.*?file: (!\d+)"
)
_FILE = re.compile(r'^(!\d+) = !DIFile\(filename: "([^"]*)"')


def place_shared(text: str, entry: str) -> str:
    """Puts ``__shared__`` variables where the runtime finds them, and lets go of what the entry does not use.

    Args:
        text: IR of device code as clang writes it: variables in shared memory are the ones without a value.
        entry: the only function that has to stay.
    """
    text = _DEFINED.sub(lambda m: m[0] if m[2] == f"@{entry}" else f"define linkonce_odr {m[1]}{m[2]}(", text)
    for name in set(_EXTERN_SHARED.findall(text)):
        text = re.sub(rf"{re.escape(name)}(?![\w$.-])", _DYNAMIC, text)
    lines: list[str] = []
    declared = False
    for line in text.split("\n"):
        if line.startswith(f"{_DYNAMIC} = external"):
            if declared:
                continue
            declared = True
        lines.append(line)
    return _SHARED.sub(_placed, "\n".join(lines))


def make_fillable(text: str) -> str:
    """Lets the variables that are filled be written to: what is known to be constant is read from its initial value.

    Args:
        text: IR of device code in which :data:`FILLED` is an array of their addresses.
    """
    listed = _FILLED.search(text)
    names = "|".join(map(re.escape, re.findall(_NAME, listed[1]))) if listed else ""
    return (
        re.sub(rf"^((?:{names}) = [^\n]*?)\bconstant ", r"\1global ", text, flags=re.MULTILINE)
        if names
        else text
    )


def _placed(match: re.Match[str]) -> str:
    name, kind, align, debug = match.groups()
    # 16 bytes at least: vectors of a tile are as aligned on a device.
    return (
        f"{name} = linkonce_odr global {{ {kind}, [{GAP_BYTES} x i8] }} undef, "
        f'section "{SECTION}", align {max(16, int(align))}{debug}'
    )


def check_vectors(text: str) -> str:
    """Has the runtime look at each address that a vector is copied from or to as a whole.

    Clang's own check believes the declaration of an array: of a vector in an array of shared floats it asks no more
    than a float's alignment, and a device asks for the vector's.
    """
    lines: list[str] = []
    vectors: dict[str, int] = {}
    found = False
    for line in text.split("\n"):
        if line.startswith("define "):
            vectors = {}
        elif vector := _VECTOR.match(line):
            vectors[vector[1]] = int(vector[2])
        elif copy := _COPY.match(line):
            sides = ((copy[2], int(copy[3]), copy[4]), (copy[4], int(copy[1]), copy[2]))
            for local, known, address in sides:
                if vectors.get(local, 0) > known:
                    found = True
                    lines.append(f"  call void @emu_aligned(ptr {address}, i64 {vectors[local]}), {copy[5]}")
        lines.append(line)
    return "\n".join([*lines, *(["declare void @emu_aligned(ptr, i64)", ""] if found else [])])


@dataclass(slots=True)
class _Locations:
    """Source places by metadata number."""

    lines: dict[str, tuple[int, str, str | None]] = field(default_factory=dict)
    scopes: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: list[str]) -> _Locations:
        made = cls()
        for line in text:
            if not line.startswith("!"):
                continue
            if found := _LOCATION.match(line):
                made.lines[found[1]] = (int(found[2]), found[3], found[4])
            elif found := _SCOPE.match(line):
                made.scopes[found[1]] = found[2]
            elif found := _FILE.match(line):
                made.files[found[1]] = found[2]
        return made

    def line(self, number: str, own: str) -> int:
        """The innermost line in one file that a place was inlined into; 0 where there is none."""
        at: str | None = number
        while at is not None and at in self.lines:
            line, scope, outer = self.lines[at]
            if self.files.get(self.scopes.get(scope, ""), "").endswith(own):
                return line
            at = outer
        return 0


def mark_lines(text: str, own: str) -> str:
    """Notes the line of the source before each call of the runtime, and drops what would run at load.

    Args:
        text: instrumented IR.
        own: name of the kernel's file; code of headers counts as the line that uses it.
    """
    lines = _AT_LOAD.sub("", text).split("\n")
    places = _Locations.of(lines)
    cache: dict[str, int] = {}
    return "\n".join(_marked(lines, places, cache, own))


def _marked(lines: list[str], places: _Locations, cache: dict[str, int], own: str) -> Iterator[str]:
    declared = False
    for line in lines:
        if not declared and line.startswith(("@", "define", "declare")):
            declared = True
            if not any(other.startswith("@emu_line =") for other in lines):
                yield "@emu_line = external global i32, align 4"
        found = _CALL.match(line)
        if found:
            if found[1] not in cache:
                cache[found[1]] = places.line(found[1], own)
            # Stored even where it is not known: the one before would be wrong.
            yield f"  store i32 {cache[found[1]]}, ptr @emu_line, align 4"
        yield line
