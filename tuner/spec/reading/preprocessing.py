"""Sources as clang's preprocessor leaves them, for what reads and edits them: no macros, includes or conditionals.

A tunable keeps its name by being defined as itself. Where a conditional asks for one (``-Wundef`` says so), the sources
are preprocessed for each of its values. Whether the result may stand in the place of the original is asked of the
preprocessor as well: put there, it has to come out unchanged. Must not read C.

Source: https://clang.llvm.org/docs/ClangCommandLineReference.html (``-E``, ``-C``, ``-P``, ``-dM``, ``-Wundef``).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.core.canonical import canonical_json
from tuner.core.errors import BaselineError
from tuner.core.types import Preprocessed, Source, Value
from tuner.spec.reading.signature import SourceReader

__all__ = ["PREPROCESSED", "from_json", "preprocess", "to_json"]

PREPROCESSED = "preprocessed.json"
"""Under what name a record keeps them."""

_MOST = 64
"""Combinations of values that conditionals ask for."""
_MARKER = re.compile(r'# (\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_UNDEFINED = re.compile(r"'(\w+)' is not defined, evaluates to 0")
_WORD = re.compile(r"[A-Za-z_]\w*")
_DEFINED = re.compile(r"^#define ([A-Za-z_]\w*)", re.MULTILINE)
_SYSTEM = "3"
_BUILT_IN = ("<built-in>", "<command line>")

Placed = Callable[[Preprocessed], Sequence[Source]]
"""Gives the files with preprocessed text in the place of what may be edited."""


def preprocess(
    reader: SourceReader,
    tunables: Mapping[str, Sequence[Value]],
    flags: Sequence[Sequence[str]],
    placed: Placed,
) -> tuple[tuple[Preprocessed, ...], str]:
    """Preprocessed sources for every choice of values that a conditional asks for.

    Args:
        reader: of the sources, with the flags of the first configuration.
        tunables: the values of those that the compiler is given as macros.
        flags: of further configurations; with them the sources have to be the same.
        placed: for the check that the result may be put into the files.

    Returns:
        What was found, and why nothing was: one line, or empty.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    asking = _Asking(reader, tunables)
    try:
        found = tuple(itertools.islice(asking.combinations({}), _MOST + 1))
        if len(found) > _MOST:
            return (), f"conditionals ask for tunables in more than {_MOST} combinations"
        for words in flags:
            other = _Asking(replace(reader, flags=(*reader.flags, *words)), tunables)
            if other.texts(dict(found[0].values))[0] != found[0].files:
                return (), f"the sources are others with {' '.join(words)}"
        for each in found:
            again, _ = asking.texts(dict(each.values), placed(each))
            if [f.text.split() for f in again] != [f.text.split() for f in each.files]:
                return (), "macros would be replaced once more in what the preprocessor makes of the sources"
    except BaselineError as error:
        return (), error.message
    return found, ""


@dataclass(frozen=True, slots=True)
class _Asking:
    reader: SourceReader
    tunables: Mapping[str, Sequence[Value]]

    def combinations(self, fixed: dict[str, Value]) -> Iterator[Preprocessed]:
        """The sources for some values, or for each choice of those that they ask for beside."""
        files, asked = self.texts(fixed)
        if asked:
            for values in itertools.product(*(self.tunables[name] for name in asked)):
                yield from self.combinations({**fixed, **dict(zip(asked, values, strict=True))})
            return
        said = {word for file in files for word in _WORD.findall(file.text)}
        yield Preprocessed(
            values=tuple(sorted((name, int(value)) for name, value in fixed.items())),
            files=files,
            macros=tuple(sorted(self._macros(fixed) - said - self.tunables.keys())),
        )

    def texts(
        self, fixed: Mapping[str, Value], files: Sequence[Source] = ()
    ) -> tuple[tuple[Source, ...], list[str]]:
        """The preprocessed sources, and the tunables that conditionals ask for beyond those with fixed values.

        Args:
            fixed: values of tunables; the others are defined as themselves.
            files: in the place of the reader's.
        """
        made, asked = [], set[str]()
        for unit in self._units(fixed, files):
            text, warnings = unit.preprocessed("-C", "-Wundef")
            asked |= set(_UNDEFINED.findall(warnings))
            made.append(Source(name=unit.files[0].name, text=_own(text)))
        return tuple(made), sorted(asked & self.tunables.keys() - fixed.keys())

    def _macros(self, fixed: Mapping[str, Value]) -> set[str]:
        """Names that are defined at the end of the sources, but those that begin like the compiler's own."""
        printed = (unit.preprocessed("-dM")[0] for unit in self._units(fixed))
        return {name for text in printed for name in _DEFINED.findall(text) if not name.startswith("__")}

    def _units(self, fixed: Mapping[str, Value], files: Sequence[Source] = ()) -> Iterator[SourceReader]:
        macros = {name: fixed.get(name, name) for name in self.tunables}
        reader = replace(self.reader, macros=macros, files=tuple(files) or self.reader.files)
        for index in range(len(reader.files)):
            unit = reader.at(index)
            if unit is not None:
                yield unit


def _own(text: str) -> str:
    """What the preprocessor printed without the text of system headers and without its marks.

    Where it left out lines of a file there are empty ones, so that a passage has as many lines as in the file.
    """
    kept: list[str] = []
    file, next_line, system = "", 1, False
    for line in text.splitlines(keepends=True):
        mark = _MARKER.match(line)
        if mark is None:
            kept += [] if system else [line]
            next_line += 1
            continue
        system = _SYSTEM in mark[3].split() or mark[2] in _BUILT_IN
        if mark[2] == file and not mark[3]:
            kept.append("\n" * max(0, int(mark[1]) - next_line))
        file, next_line = mark[2], int(mark[1])
    return "".join(kept)


def to_json(found: Sequence[Preprocessed]) -> str:
    """As JSON, for a record."""
    return canonical_json(
        [
            {
                "values": dict(each.values),
                "files": {f.name: f.text for f in each.files},
                "macros": list(each.macros),
            }
            for each in found
        ]
    )


def from_json(text: str) -> tuple[Preprocessed, ...]:
    """What :func:`to_json` wrote."""
    return tuple(
        Preprocessed(
            values=tuple(sorted(each["values"].items())),
            files=tuple(Source(name=name, text=made) for name, made in each["files"].items()),
            macros=tuple(each["macros"]),
        )
        for each in json.loads(text)
    )
