"""Where an application spent its processor time: what ``sampler.c`` left behind, as places in files.

What is read comes from processes that may have ended at any point: what is not whole counts as nothing.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Samples", "read_samples"]

_SAMPLE = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """How often an application's threads were found where.

    Attributes:
        places: for each file, how often at which of the file's own addresses.
        elsewhere: how often at addresses of no file: code made at run time, or of a library that is gone.
    """

    places: Mapping[Path, Counter[int]] = field(default_factory=dict)
    elsewhere: int = 0

    @property
    def total(self) -> int:
        """All samples."""
        return sum(count.total() for count in self.places.values()) + self.elsewhere


def read_samples(folder: Path) -> Samples:
    """The samples of all processes of an application that has ended."""
    places: dict[Path, Counter[int]] = {}
    elsewhere = 0
    for file in sorted(folder.glob("samples-*")):
        modules = _modules(file.with_name(file.name.replace("samples", "modules", 1)))
        starts = [start for start, *_ in modules]
        data = file.read_bytes()
        for address, count in _SAMPLE.iter_unpack(data[: len(data) // _SAMPLE.size * _SAMPLE.size]):
            at = bisect_right(starts, address) - 1
            if not count:
                continue
            if at < 0 or address >= modules[at][1]:
                elsewhere += count
                continue
            _, _, added, path = modules[at]
            places.setdefault(path, Counter())[address - added] += count
    return Samples(places=places, elsewhere=elsewhere)


def _modules(file: Path) -> list[tuple[int, int, int, Path]]:
    """First address, one past the last, what is added to the file's addresses, and the file; by address."""
    found: dict[int, tuple[int, int, int, Path]] = {}
    for line in file.read_text(errors="replace").splitlines() if file.is_file() else ():
        words = line.split("\t")
        try:
            start, end, added = (int(word, 16) for word in words[:3])
            # What was loaded later lies where something else lay before only when that is gone.
            found[start] = (start, end, added, Path(words[3]))
        except (ValueError, IndexError):
            continue
    return [found[start] for start in sorted(found)]
