"""The syntax tree of a whole CUDA source and of its project's headers, in spite of what clang does not know in them.

A tree with all headers is large, so declarations are taken apart as text and read once they are asked for. Knows
nothing of kernels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from tuner.core.source_text import source_bytes
from tuner.spec.reading.nodes import Node, walk
from tuner.spec.reading.signature import SourceReader

__all__ = ["SourceTree", "source_tree"]

_BEGIN = "\n    {\n"
_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")
_NO_TYPE = re.compile(r"(?:unknown type name|no template named|no type named) '(\w+)'")
_NUMBER = re.compile(
    rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)[uUlL]*\)?[ \t\r]*(?:/[/*].*)?$", re.MULTILINE
)
_FILE = re.compile(r'"file": "([^"]*)",\n\s*"line"')
_OWN = r"(?!/usr/|<|[^\"]*/lib/clang/|[^\"]*/evaluators/(?:emulation|cuda)/include/)[^\"]"
"""How the name of a file begins that is none of the system's, of clang's, or of those that stand for NVIDIA's."""
_FIRST = re.compile(rf'"file": "{_OWN}')


@dataclass(slots=True)
class SourceTree:
    """Declarations of a source outside of any other, in order.

    Attributes:
        reader: of the source.
        texts: JSON of each, with the file that it stands in.
        undeclared: names of values that nothing declares or defines.
        unknown: those, and names of types.
    """

    reader: SourceReader
    texts: Sequence[tuple[str, str]]
    undeclared: frozenset[str]
    unknown: frozenset[str]
    _read: dict[int, Node] = field(default_factory=dict)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _having: dict[str, list[int]] = field(default_factory=dict)

    def declarations(self, part: str) -> Iterator[tuple[Node, str]]:
        """The declarations that have a text somewhere in their JSON, and where they stand."""
        if part not in self._having:
            self._having[part] = [i for i, (text, _) in enumerate(self.texts) if part in text]
        for place in self._having[part]:
            text, file = self.texts[place]
            if place not in self._read:
                self._read[place] = json.loads(text)
                self._nodes |= {str(node["id"]): node for node in walk(self._read[place]) if "id" in node}
            yield self._read[place], file

    def node(self, identity: str) -> Node:
        """A declaration by its identity; empty where it is not of the project."""
        for _ in self.declarations(f'"{identity}"') if identity and identity not in self._nodes else ():
            if identity in self._nodes:
                break
        return self._nodes.get(identity, {})

    def text_of(self, file: str) -> bytes:
        """The text of a file as clang counts its places."""
        own = {PurePath(each.name).name: each.text for each in self.reader.files}
        return Path(file).read_bytes() if Path(file).is_absolute() else source_bytes(own[PurePath(file).name])

    def number_macros(self) -> dict[int, str]:
        """Macros of the source that are one whole number each, by the place of that."""
        text = self.text_of(self.reader.files[0].name)
        return {found.start(2): found[1].decode() for found in _NUMBER.finditer(text)}

    def with_constants(self, constants: Mapping[str, int]) -> SourceTree:
        """The same with macros as constants: they stay names in clang's tree, and are numbers where it wants some."""
        if not constants:
            return self
        declared = "".join(f"static constexpr int {name} = {value};" for name, value in constants.items())
        reader = self.reader.with_text(f"{declared}\n#line 1\n{self.reader.files[0].text}")
        macros = {**reader.macros, **{name: name for name in constants}}
        return source_tree(replace(reader, macros=macros))


def source_tree(reader: SourceReader) -> SourceTree:
    """What a source and the project's headers declare.

    Raises:
        BaselineError: it is too large.
        MachineError: there is no clang, or it does not answer.
    """
    output, errors = reader.whole_tree()
    undeclared = frozenset(_UNDECLARED.findall(errors))
    found: list[tuple[str, str]] = []
    file = ""
    first = _FIRST.search(output)
    # Before it stands only what every source has.
    begin = output.rfind(_BEGIN, 0, first.start()) if first else len(output)
    for text in output[begin:].split(_BEGIN)[1:]:
        # Clang names a file where it is another one than that of the place before.
        named = _FILE.findall(text, 0, text.find('"range": {'))
        own = named[-1] if named else file
        if own and re.match(_OWN, own):
            found.append((f"{{{text[: text.rindex('    }')]}}}", own))
        last = _FILE.findall(text)
        file = last[-1] if last else file
    return SourceTree(
        reader=reader,
        texts=found,
        undeclared=undeclared,
        unknown=undeclared | frozenset(_NO_TYPE.findall(errors)),
    )
