"""Functions that an executable defines itself: where they are in its file.

Reads ELF64 little-endian files as linkers write them for x86-64. May not run or change one.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OwnFunction", "own_function"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC = b"\x7fELF\x02\x01"
_EXECUTABLES = (2, 3)  # ET_EXEC, ET_DYN
_X86_64 = 62
_SYMTAB, _DYNSYM, _NOBITS = 2, 11, 8
_FUNCTION = 2
_LOCAL = 0
_MOST_BYTES = 1 << 31


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFunction:
    """A function of an executable.

    Attributes:
        path: of the executable.
        address: where it begins, relative to where the executable is loaded.
        code: its bytes.
        exported: whether the dynamic linker knows it.
    """

    path: Path
    address: int
    code: bytes
    exported: bool


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
        if path.stat().st_size > _MOST_BYTES:
            return None
        data = path.read_bytes()
        return _search(path, data, symbol.encode())
    except (OSError, struct.error, IndexError, ValueError):
        return None


def _search(path: Path, data: bytes, symbol: bytes) -> OwnFunction | None:
    ident, kind, machine, *_, offset, _, _, _, _, _, count, _ = _HEADER.unpack_from(data)
    if ident[:6] != _MAGIC or kind not in _EXECUTABLES or machine != _X86_64:
        return None
    sections = [_SECTION.unpack_from(data, offset + i * _SECTION.size) for i in range(count)]
    best: OwnFunction | None = None
    for address, size, index, exported in _functions(data, sections, symbol):
        _, type_, _, start, at, length, *_ = sections[index]
        if type_ == _NOBITS or not start <= address < start + length:
            continue
        first = at + address - start
        own = OwnFunction(path=path, address=address, code=data[first : first + size], exported=exported)
        if best is None or exported:
            best = own
    return best


def _functions(
    data: bytes, sections: list[tuple[int, ...]], symbol: bytes
) -> Iterator[tuple[int, int, int, bool]]:
    """Address, size, index of the section, and whether it is exported, of each function of that name."""
    for section in sections:
        _, type_, _, _, at, size, link, *_ = section
        if type_ not in (_SYMTAB, _DYNSYM):
            continue
        strings = sections[link][4]
        for name, info, _, index, value, length in _SYMBOL.iter_unpack(data[at : at + size]):
            local = info >> 4 == _LOCAL
            if not name or local or info & 15 != _FUNCTION or not 0 < index < len(sections):
                continue
            start = strings + name
            if data[start : start + len(symbol) + 1] == symbol + b"\0":
                yield value, length, index, type_ == _DYNSYM
