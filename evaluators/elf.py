"""Sections and symbols of 64-bit little-endian ELF files, such as relocatables and cubins. May not change a file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["HEADER", "Section", "Symbol", "sections_of", "symbols_of"]

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section; ``data`` is empty where the file holds none (zero-filled memory)."""

    name: str
    kind: int
    flags: int
    size: int
    align: int
    entry_size: int
    info: int
    link: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One symbol; ``section`` is the section's index or one of ELF's reserved numbers."""

    name: str
    binding: int
    kind: int
    section: int
    value: int
    size: int


def sections_of(code: bytes) -> list[Section]:
    """All sections of a file in order; raises ``struct.error`` or ``ValueError`` for one that is cut short."""
    fields = HEADER.unpack_from(code)
    offset, count, names = fields[6], fields[12], fields[13]
    raw = [_SECTION.unpack_from(code, offset + i * _SECTION.size) for i in range(count)]
    table = code[raw[names][4] : raw[names][4] + raw[names][5]]
    return [
        Section(
            name=_text(table, name),
            kind=kind,
            flags=flags,
            size=size,
            align=align,
            entry_size=entry_size,
            info=info,
            link=link,
            data=b"" if kind == _NOBITS else code[at : at + size],
        )
        for name, kind, flags, _, at, size, link, info, align, entry_size in raw
    ]


def symbols_of(sections: Sequence[Section]) -> list[Symbol]:
    """The symbols of a file with these sections; raises as :func:`sections_of`."""
    table = next((section for section in reversed(sections) if section.kind == _SYMTAB), None)
    if table is None:
        return []
    strings = sections[table.link].data
    return [
        Symbol(
            name=_text(strings, name),
            binding=info >> 4,
            kind=info & 15,
            section=index,
            value=value,
            size=size,
        )
        for name, info, _, index, value, size in _SYMBOL.iter_unpack(table.data)
    ]


def _text(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode("utf-8", "replace")
