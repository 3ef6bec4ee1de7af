"""Files cut at what may change of them: between EVOLVE-BLOCK marks, or around the entry function.

And what the compiler's preprocessor makes of them, cut at the same regions: operators read regions in these texts; what
they make of them is put into the files. Must not preprocess anything, nor read what lies inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.core.errors import Place, SpecError
from tuner.core.source_text import lines_of_text
from tuner.core.types import Preprocessed, Source
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import without_arguments
from tuner.spaces.source.parse import definition_start, function_nodes, parse_file
from tuner.spaces.source.respelling import defined_macros, respelled

__all__ = ["SourceFile", "Units", "cut_at_entry", "cut_at_marks", "units_of", "with_regions"]

_MARK = re.compile(r"EVOLVE-BLOCK-(START|END)")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include", re.MULTILINE)


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


def cut_at_entry(
    files: Sequence[Source], entry: str, language: str, definition: str = ""
) -> list[SourceFile]:
    """Files of which that with the entry function's definition is cut around it.

    Args:
        files: of the kernel.
        entry: with namespaces and classes, of which a definition may name the last ones.
        language: of the files.
        definition: as it is written, where no name in it says whose it is.
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
    for number, source in enumerate(files):
        before, found_here, behind = source.text.partition(definition) if definition else ("", "", "")
        if found_here:
            cut[number] = SourceFile(name=source.name, parts=(before, definition, behind))
            return cut
    raise SpecError(
        f"no definition of {entry!r} is found in {', '.join(f.name for f in files)}",
        "mark what may change with EVOLVE-BLOCK-START and EVOLVE-BLOCK-END comments",
    )


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

    def spelled(self, number: int, part: int, text: str, types: Mapping[str, str]) -> str:
        """A region's text with the author's spelling of lines that are as they were; ``types`` by their names."""
        unit = self.files[number]
        if unit is not None and text == unit.parts[part]:
            return self.given[number].parts[part]
        if unit is None:
            return text
        before = "".join(self.given[number].parts[:part])
        return respelled(
            text,
            unit.parts[part],
            self.given[number].parts[part],
            types,
            line=before.count("\n") + 1,
            macros=defined_macros([file.text for file in self.given]),
        )

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
