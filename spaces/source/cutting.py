"""Files cut at what may change of them: between EVOLVE-BLOCK marks, or around the entry function.

May not read what lies inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.errors import Place, SpecError
from tuner.core.source_text import lines_of_text
from tuner.core.types import Source
from tuner.spaces.source.parse import definition_start, function_nodes, parse_file

__all__ = ["SourceFile", "cut_at_entry", "cut_at_marks"]

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
            for name, node in function_nodes(parse_file(text, language))
            if f"::{entry}".endswith(f"::{name}")
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
