"""What the compiler's preprocessor makes of a kernel's files, cut at the same regions as the files.

Operators read regions in these texts; what they make of them is put into the files. Must not preprocess anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import SpecError
from tuner.core.types import Preprocessed
from tuner.spaces.source.cutting import SourceFile, cut_at_entry, cut_at_marks
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.spelling import respelled

__all__ = ["Units", "units_of", "with_regions"]

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What the preprocessor makes of the files: each cut as the file is, and ``None`` for a header.

    ``given`` are the files as they were; ``macros`` the names that would be replaced in what is put into a region.
    """

    files: tuple[SourceFile | None, ...]
    given: tuple[SourceFile, ...]
    macros: frozenset[str]

    def text(self, number: int, file: SourceFile) -> str:
        """A unit with what a file's regions are now; empty for a header."""
        unit = self.files[number]
        if unit is None:
            return ""
        return "".join(with_regions(unit.parts, file.parts))

    def spelled(self, number: int, part: int, text: str) -> str:
        """A region's text with the author's spelling of lines that are as they were."""
        unit = self.files[number]
        if unit is not None and text == unit.parts[part]:
            return self.given[number].parts[part]
        return text if unit is None else respelled(text, unit.parts[part], self.given[number].parts[part])

    def joined(self, number: int, file: SourceFile) -> SourceFile:
        """The same of a source, cut."""
        unit = self.files[number]
        assert unit is not None
        return SourceFile(name=file.name, parts=with_regions(unit.parts, file.parts))


def units_of(files: Sequence[SourceFile], found: Preprocessed, entry: str, language: str) -> Units:
    """What the preprocessor made of the files, cut as they are.

    Args:
        files: as given, cut at their regions.
        found: what it made of them.
        entry: the name, with namespaces and classes, of the function that is the region where no marks are.
        language: of the files.

    Raises:
        Refused: a region is not found there again.
    """
    texts = {source.name: source for source in found.files}
    made: list[SourceFile | None] = []
    for file in files:
        source = texts.get(file.name)
        if any(map(_INCLUDE.search, file.parts[1::2])):
            # What system headers bring would be missing.
            raise Refused(f"a region of {file.name} includes a header")
        if source is None and len(file.parts) > 1:
            raise Refused(f"{file.name} is no source of its own")
        if source is None or len(file.parts) == 1:
            made.append(None if source is None else SourceFile(name=file.name, parts=(source.text,)))
            continue
        try:
            unit = cut_at_marks(source)
            if len(unit.parts) == 1:
                (unit,) = cut_at_entry([source], entry, language)
        except SpecError as error:
            raise Refused(error.message) from None
        if len(unit.parts) != len(file.parts):
            raise Refused(f"the regions of {file.name} are not found again after the preprocessor")
        made.append(unit)
    return Units(files=tuple(made), given=tuple(files), macros=frozenset(found.macros))


def with_regions(parts: Sequence[str], regions: Sequence[str]) -> tuple[str, ...]:
    """Parts of a file with the regions of another that is cut alike."""
    return tuple(regions[i] if i % 2 else part for i, part in enumerate(parts))
