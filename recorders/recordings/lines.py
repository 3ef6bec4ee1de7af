"""Which lines of a source machine code was made of, by the line table that ``-g`` leaves in a file.

Of a function that was inlined it is the line of its own source. May not run anything.

Source: DWARF Debugging Information Format, versions 2 to 5, chapter 6.2 (line number information).
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

__all__ = ["lines_of"]

_MOST_BYTES = 64 << 20
"""Of a file's line tables, which are read by Python."""

_Row = tuple[int, int, tuple[str, int] | None]
"""First address, one past the last, path and line."""


def lines_of(path: Path, addresses: Collection[int]) -> dict[int, tuple[str, int]]:
    """Path and line of addresses of an executable or library; none for what has no line table.

    Args:
        path: of the file.
        addresses: the file's own.
    """
    found: dict[int, tuple[str, int]] = {}
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            if not elf.has_dwarf_info():
                return {}
            info = elf.get_dwarf_info()
            if info.debug_line_sec is None or info.debug_line_sec.size > _MOST_BYTES:
                return {}
            for unit in info.iter_CUs():
                rows = sorted(_rows(info.line_program_for_CU(unit), unit))
                starts = [first for first, _, _ in rows]
                for address in addresses:
                    at = bisect_right(starts, address) - 1
                    place = rows[at][2] if at >= 0 and address < rows[at][1] else None
                    if place is not None:
                        found.setdefault(address, place)
    except (OSError, ELFError, DWARFError, ValueError, KeyError, IndexError, AssertionError):
        # What a compiler wrote that the library does not know is as if it were not there.
        return found
    return found


def _rows(program: Any, unit: Any) -> Iterator[_Row]:
    """What the table has for addresses; line 0 is code of no line."""
    if program is None:
        return
    names = _Names(program, unit)
    before = None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None and not before.end_sequence and before.address < state.address:
            place = (names.path(before.file), before.line) if before.line else None
            yield before.address, state.address, place
        before = state


class _Names:
    """Paths of a line table's files."""

    def __init__(self, program: Any, unit: Any) -> None:
        self._files = program["file_entry"]
        self._folders = [each.decode("utf-8", "replace") for each in program["include_directory"]]
        self._first = 0 if program["version"] >= 5 else 1
        attribute = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
        self._own = attribute.value.decode("utf-8", "replace") if attribute is not None else ""
        self._known: dict[int, str] = {}

    def path(self, number: int) -> str:
        """Of a file by its number."""
        if number not in self._known:
            file = self._files[number - self._first]
            index = file.dir_index - self._first
            folder = self._folders[index] if 0 <= index < len(self._folders) else self._own
            name = file.name.decode("utf-8", "replace")
            self._known[number] = posixpath.normpath(posixpath.join(self._own, folder, name))
        return self._known[number]
