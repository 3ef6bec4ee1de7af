"""Files cut at what may change of them: between EVOLVE-BLOCK marks, or around the entry function.

And what the compiler's preprocessor makes of them, cut at the same regions: operators read regions in these texts; what
they make of them is put into the files. Must not preprocess anything, nor read what lies inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.errors import Place, SpecError
from tuner.core.source_text import lines_of_text
from tuner.core.types import Preprocessed, Source
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import without_arguments
from tuner.spaces.source.parse import definition_start, function_nodes, parse_file
from tuner.spaces.source.spans import Region, placed_regions, with_spans

__all__ = ["SourceFile", "Units", "cut_at_entry", "cut_at_marks", "units_of", "with_regions"]

_MARK = re.compile(r"EVOLVE-BLOCK-(START|END)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file cut at its regions: ``parts`` alternate between fixed text and a region's, fixed first and last."""

    name: str
    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole file."""
        return "".join(self.parts)


def cut_at_marks(source: Source) -> SourceFile:
    """A file cut at its EVOLVE-BLOCK marks, in one part where it has none."""
    parts: list[str] = [""]
    inside = 0
    for number, line in enumerate(lines_of_text(source.text), 1):
        found = _MARK.search(line)
        place = Place(file=source.name, line=number)
        if found is None:
            parts[-1] += line
        elif found[1] == "START":
            if inside:
                raise SpecError(
                    "EVOLVE-BLOCK-START inside a block", f"end the one of line {inside} first", place=place
                )
            inside = number
            parts[-1] += line
            parts.append("")
        else:
            if not inside:
                raise SpecError(
                    "EVOLVE-BLOCK-END without a start", "add EVOLVE-BLOCK-START above", place=place
                )
            inside = 0
            parts.append(line)
    if inside:
        place = Place(file=source.name, line=inside)
        raise SpecError("EVOLVE-BLOCK-START without an end", "add EVOLVE-BLOCK-END below", place=place)
    return SourceFile(name=source.name, parts=tuple(parts))


def cut_at_entry(files: Sequence[Source], entry: str, language: str) -> list[SourceFile]:
    """Files of which that with the entry function's definition is cut around it.

    Args:
        files: of the kernel.
        entry: with namespaces and classes, of which a definition may name the last ones.
        language: of the files.
    """
    cut = [SourceFile(name=f.name, parts=(f.text,)) for f in files]
    for number, source in enumerate(files):
        text = source.text.encode()
        found = [
            (len(name), node)
            for name, node in function_nodes(parse_file(text, language), references=True)
            if f"::{entry}".endswith(f"::{without_arguments(name)}")
        ]
        if found:
            longest = max(length for length, _ in found)
            node = [node for length, node in found if length == longest][-1]
            start = definition_start(node)
            pieces = (text[:start], text[start : node.end_byte], text[node.end_byte :])
            cut[number] = SourceFile(name=source.name, parts=tuple(p.decode() for p in pieces))
            return cut
    raise SpecError(
        f"no definition of {entry!r} is found in {', '.join(f.name for f in files)}",
        "mark what may change with EVOLVE-BLOCK-START and EVOLVE-BLOCK-END comments",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What the preprocessor makes of the files, and the files with its regions in the place of the author's.

    Attributes:
        given: the author's files.
        built: those with the regions, cut at them.
        files: what regions are read in: for each file with some the source that they are found in, cut alike; for
            others their own text, and ``None`` for a header.
        regions: by file and part.
        macros: names that would be replaced in what is put into a region.
    """

    given: tuple[Source, ...]
    built: tuple[SourceFile, ...]
    files: tuple[SourceFile | None, ...]
    regions: Mapping[tuple[int, int], Region] = field(repr=False)
    macros: frozenset[str]

    def as_given(self) -> list[SourceFile]:
        """The author's files, cut around the lines that regions stand for."""
        cut = []
        for number, file in enumerate(self.given):
            own = [region for (home, _), region in self.regions.items() if home == number]
            cut.append(SourceFile(name=file.name, parts=with_spans(file.text, own, built=False)))
        return cut

    def sources(self, mark: str = "") -> tuple[Source, ...]:
        """The files with the regions as they were preprocessed; with a line in front of the first of each file."""
        cut = ((file.name, *file.parts) for file in self.built)
        return tuple(
            Source(name=name, text="".join((first, mark * bool(rest), *rest))) for name, first, *rest in cut
        )

    def joined(self, number: int, file: SourceFile) -> SourceFile:
        """A unit with what a file's regions are now; without any text for a header without any."""
        unit = self.files[number]
        return SourceFile(name=file.name, parts=() if unit is None else with_regions(unit.parts, file.parts))


def units_of(files: Sequence[Source], found: Preprocessed, entry: str, language: str) -> Units:
    """What the preprocessor made of the files, and these with the regions of that.

    Args:
        files: as given.
        found: what it made of them.
        entry: the name, with namespaces and classes, of the function that is the region where no marks are.
        language: of the files.

    Raises:
        Refused: a region is not found there again.
    """
    cut = _cut(found, entry, language)
    numbers = {file.name: number for number, file in enumerate(files)}
    units: list[SourceFile | None] = [None] * len(files)
    built = [SourceFile(name=file.name, parts=(file.text,)) for file in files]
    regions: dict[tuple[int, int], Region] = {}
    for unit, runs in zip(cut, found.origins, strict=True):
        home = numbers[unit.name]
        units[home] = unit
        places = placed_regions(unit.parts, runs, files, counted=found.counted, numbered=found.numbered)
        owner = next((place.file for place in places), home)
        if any(place.file != owner for place in places):
            raise Refused(f"regions are in {unit.name} and in what it includes")
        if not places or len(built[owner].parts) > 1:
            units[home] = SourceFile(name=unit.name, parts=("".join(unit.parts),))
            continue
        units[home], units[owner] = None, unit
        built[owner] = SourceFile(name=files[owner].name, parts=with_spans(files[owner].text, places))
        regions |= {(owner, 2 * i + 1): place for i, place in enumerate(places)}
    return Units(
        given=tuple(files),
        built=tuple(built),
        files=tuple(units),
        regions=regions,
        macros=frozenset(found.macros),
    )


def _cut(found: Preprocessed, entry: str, language: str) -> list[SourceFile]:
    """The sources after the preprocessor, cut at their marks, or the first one with the entry's definition at that."""
    try:
        cut = [cut_at_marks(source) for source in found.files]
        if all(len(file.parts) == 1 for file in cut):
            return cut_at_entry(found.files, entry, language)
    except SpecError as error:
        raise Refused(error.message) from None
    return cut


def with_regions(parts: Sequence[str], regions: Sequence[str]) -> tuple[str, ...]:
    """Parts of a file with the regions of another that is cut alike."""
    return tuple(regions[i] if i % 2 else part for i, part in enumerate(parts))
