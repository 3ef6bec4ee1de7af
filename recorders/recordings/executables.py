"""Functions of an executable or a library: where they are in its file, and which it takes from others.

Reads ELF64 little-endian files as linkers write them for x86-64. May not run or change one.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Code",
    "OwnFunction",
    "code_of",
    "functions_with",
    "is_program",
    "is_static_program",
    "object_file",
    "own_function",
    "variables_of",
]

_ELF = b"\x7fELF"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_KIND = struct.Struct("<I")
_INTERPRETER = 3  # PT_INTERP
_MAGIC = b"\x7fELF\x02\x01"
_EXECUTABLES = (2, 3)  # ET_EXEC, ET_DYN
_X86_64 = 62
_SYMTAB, _DYNSYM, _NOBITS = 2, 11, 8
_VARIABLE, _FUNCTION = 1, 2
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_CHOSEN_WHEN_LOADED = 10
"""Functions of which the dynamic linker takes one that suits the processor."""
_MOST_BYTES = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFunction:
    """A function of an executable.

    Attributes:
        path: of the executable.
        address: where it begins, relative to where the executable is loaded.
        code: its bytes.
    """

    path: Path
    address: int
    code: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A function that a file defines and others may call.

    Attributes:
        symbol: its name in object code.
        code: its bytes.
        exported: whether the dynamic linker knows it.
    """

    symbol: str
    code: bytes
    exported: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Where a function of any kind lies in a file.

    Attributes:
        start, end: the file's own addresses, the last one excluded.
        symbol: its name in object code.
        kind: ``static`` (no other file can call it), ``shared`` (it may be in several files: inline functions, C++
            templates), or ``global``.
    """

    start: int
    end: int
    symbol: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFile:
    """What an executable or a library says of its functions.

    Attributes:
        defined: those that it has; neither ``static`` ones nor those that may be in several files (C++ templates).
        imported: symbols that it takes from other files.
    """

    defined: tuple[Defined, ...]
    imported: frozenset[str]


def object_file(path: Path) -> ObjectFile | None:
    """The functions of a file; ``None`` for what is no executable or library of this machine's kind."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return None
        data = path.read_bytes()
        sections = _sections(data)
        return _functions_of(data, sections) if sections else None
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return None


def code_of(path: Path) -> list[Code]:
    """Every function of a file by address, one for each address; none of what cannot be read."""
    found: dict[int, Code] = {}
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        sections = _sections(data) if data else []
        for _, name, info, index, value, length in _symbols(data, sections):
            if info & 15 not in (_FUNCTION, _CHOSEN_WHEN_LOADED) or not index or not length:
                continue
            kind = {_LOCAL: "static", _WEAK: "shared"}.get(info >> 4, "global")
            before = found.get(value)
            if before is None or (before.kind != "global" and kind == "global"):
                found[value] = Code(start=value, end=value + length, symbol=_text(data, name), kind=kind)
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return []
    return [found[start] for start in sorted(found)]


def _functions_of(data: bytes, sections: list[tuple[int, ...]]) -> ObjectFile:
    defined: dict[str, Defined] = {}
    imported: set[str] = set()
    for dynamic, name, info, index, value, length in _symbols(data, sections):
        if dynamic and not index and info >> 4 != _LOCAL:
            imported.add(_text(data, name))
        if info >> 4 != _GLOBAL or info & 15 != _FUNCTION or not length or not 0 < index < len(sections):
            continue
        _, type_, _, start, at, size, *_ = sections[index]
        if type_ == _NOBITS or not start <= value < start + size:
            continue
        symbol, first = _text(data, name), at + value - start
        if symbol not in defined or dynamic:
            defined[symbol] = Defined(symbol=symbol, code=data[first : first + length], exported=dynamic)
    return ObjectFile(defined=tuple(defined.values()), imported=frozenset(imported))


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("utf-8", "replace")


def own_function(command: str, symbol: str) -> OwnFunction | None:
    """The function of a symbol in the executable that a command's first word names; ``None`` where it has none.

    Functions that other files of the program cannot call (``static``) do not count. ``None`` also for what is no
    executable file of this machine's kind: a script, another architecture, a stripped one.
    """
    found = shutil.which(command)
    if found is None:
        return None
    path = Path(found).resolve()
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        return _search(path, data, symbol.encode()) if data else None
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return None


def functions_with(path: Path, begin: re.Pattern[bytes]) -> dict[str, list[OwnFunction]]:
    """By symbol, the functions of a file whose code begins in a way, static ones too; none of what cannot be read."""
    found: dict[str, dict[int, OwnFunction]] = {}
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        sections = _sections(data) if data else []
        for _, name, info, index, address, size in _symbols(data, sections):
            code = _code(data, sections, index, address, size) if info & 15 == _FUNCTION else b""
            if begin.match(code):
                own = OwnFunction(path=path, address=address, code=code)
                found.setdefault(_text(data, name), {})[address] = own
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return {}
    return {symbol: list(own.values()) for symbol, own in found.items()}


def is_program(path: Path) -> bool:
    """Whether the dynamic linker loads a file as a program: no shared library, and none that is linked statically."""
    try:
        with path.open("rb") as file:
            _, _, _, _, _, offset, *_, size, count, _, _, _ = _HEADER.unpack(file.read(_HEADER.size))
            file.seek(offset)
            headers = file.read(size * count)
        return any(_KIND.unpack_from(headers, at)[0] == _INTERPRETER for at in range(0, len(headers), size))
    except (OSError, struct.error, ValueError):
        return False


def is_static_program(path: Path) -> bool:
    """Whether a command's file is code that runs without the dynamic linker: a script is none."""
    try:
        with path.open("rb") as file:
            code = file.read(len(_ELF)) == _ELF
    except OSError:
        return False
    return code and not is_program(path)


def variables_of(path: Path) -> dict[str, tuple[tuple[int, int], ...]]:
    """Addresses, relative to where a file is loaded, and bytes of its variables by symbol; none if it is unreadable."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    try:
        data = path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b""
        for _, name, info, index, value, length in _symbols(data, _sections(data)) if data else ():
            if info & 15 == _VARIABLE and index and length:
                symbol = _text(data, name)
                found[symbol] = tuple(sorted({*found.get(symbol, ()), (value, length)}))
    except (OSError, struct.error, IndexError, ValueError, OverflowError):
        return {}
    return found


def _search(path: Path, data: bytes, symbol: bytes) -> OwnFunction | None:
    sections = _sections(data)
    best: OwnFunction | None = None
    for address, size, index, exported in _functions(data, sections, symbol):
        code = _code(data, sections, index, address, size)
        if code and (best is None or exported):
            best = OwnFunction(path=path, address=address, code=code)
    return best


def _code(data: bytes, sections: list[tuple[int, ...]], index: int, address: int, size: int) -> bytes:
    """Empty where a symbol's section holds none at its address."""
    if not 0 < index < len(sections):
        return b""
    _, type_, _, start, at, length, *_ = sections[index]
    if type_ == _NOBITS or not start <= address < start + length:
        return b""
    first = at + address - start
    return data[first : first + size]


def _sections(data: bytes) -> list[tuple[int, ...]]:
    """None of what is no executable or library of this machine's kind."""
    ident, kind, machine, *_, offset, _, _, _, _, _, count, _ = _HEADER.unpack_from(data)
    if ident[:6] != _MAGIC or kind not in _EXECUTABLES or machine != _X86_64:
        return []
    return [_SECTION.unpack_from(data, offset + i * _SECTION.size) for i in range(count)]


def _symbols(data: bytes, sections: list[tuple[int, ...]]) -> Iterator[tuple[bool, int, int, int, int, int]]:
    """Of each symbol: whether the dynamic linker knows it, place of the name, kind, section, address, size."""
    for _, type_, _, _, at, size, link, *_ in sections:
        if type_ in (_SYMTAB, _DYNSYM):
            strings = sections[link][4]
            for name, info, _, index, value, length in _SYMBOL.iter_unpack(data[at : at + size]):
                if name:
                    yield type_ == _DYNSYM, strings + name, info, index, value, length


def _functions(
    data: bytes, sections: list[tuple[int, ...]], symbol: bytes
) -> Iterator[tuple[int, int, int, bool]]:
    """Address, size, index of the section, and whether it is exported, of each function of that name."""
    for dynamic, start, info, index, value, length in _symbols(data, sections):
        if info >> 4 == _LOCAL or info & 15 != _FUNCTION or not 0 < index < len(sections):
            continue
        if data[start : start + len(symbol) + 1] == symbol + b"\0":
            yield value, length, index, dynamic
