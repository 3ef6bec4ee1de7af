"""Sources as clang's preprocessor leaves them, for what reads and edits them: no macros, includes or conditionals.

A tunable keeps its name by being defined as itself. Where a conditional asks for one (``-Wundef`` says so) or a macro
pastes it (the text is another with its value), the sources are preprocessed for each of its values. Whether the
result may stand in the place of the original is asked of the preprocessor as well: put there, it has to come out
unchanged, whatever the flags. Must not read C.

Source: https://clang.llvm.org/docs/ClangCommandLineReference.html (``-E``, ``-C``, ``-dD``, ``-dM``, ``-Wundef``).
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Protocol, TypeVar

from tuner.core.errors import BaselineError
from tuner.core.types import Preprocessed, Source, Value
from tuner.evaluators.host.search_words import without_paths
from tuner.spaces.source.lexical import bare_directives
from tuner.spec.reading.device_programs import (
    DEVICE,
    Unanswered,
    answers,
    joined,
    parted,
    require_answered,
    with_empty_headers,
    without_extensions,
)
from tuner.spec.reading.origins import BUILT_IN, MARKER, Run, own_text, with_rows
from tuner.spec.reading.signature import SourceReader

__all__ = ["Asking", "Placed", "each", "expanded", "preprocess"]

_MOST = 128
"""Combinations of values that conditionals ask for, or of flags that define macros."""
_NUMBERS_LINES = re.compile(r"^[ \t]*#[ \t]*(?:line\b|\d)[^\n]*", re.MULTILINE)
_UNDEFINED = re.compile(r"'(\w+)' is not defined, evaluates to 0")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\S")
_DIRECTIVE = re.compile(r"#(?:define|undef) ([A-Za-z_]\w*)")
_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma\b")
_DEFINES = re.compile(r"-[DU]([A-Za-z_]\w*)")
_REACHING = ("-D", "-U", "-I", "-include", "-isystem", "-iquote", "-idirafter", "-fsanitize")
"""Flags that may matter to the preprocessor though they change no macro of the compiler's alone."""
_NUMBER = re.compile(r"\d+")
_MOST_COUNTED = 64
_SHOWN = 2
"""Words before a difference that are shown with it."""

_T = TypeVar("_T")
_R = TypeVar("_R")
Flags = tuple[str, ...]


class Placed(Protocol):
    """Gives the files with preprocessed text in the place of what may be edited, and a line before that."""

    def __call__(self, found: Preprocessed, mark: str = "") -> Sequence[Source]: ...


class _Unseen(Exception):
    """Why the sources cannot be preprocessed: one line."""


def preprocess(
    reader: SourceReader,
    tunables: Mapping[str, Sequence[Value]],
    flags: Sequence[Sequence[Flags]],
    placed: Placed,
    headers: Sequence[Source] = (),
) -> tuple[tuple[Preprocessed, ...], str]:
    """Preprocessed sources for every choice of values that a conditional asks for.

    Args:
        reader: of the sources, with the flags that every build has.
        tunables: the values of those that the compiler is given as macros.
        flags: choices of each group of further ones, the default first; with all of them the sources have to be the
            same.
        placed: for the check that the result may be put into the files.
        headers: of the project, in other folders.

    Returns:
        What was found, and why nothing was: one line, or empty.

    Raises:
        MachineError: there is no clang, or it does not answer.
    """
    groups = [
        [tuple(w for w in words if not w.startswith(("-W", "-w"))) for words in group] for group in flags
    ]
    try:
        if reader.language in DEVICE:
            return _of_device(reader, tunables, groups, placed, headers), ""
        return _found(reader, tunables, groups, placed), ""
    except BaselineError as error:
        return (), error.message
    except (_Unseen, Unanswered) as unseen:
        return (), str(unseen)


def _found(
    reader: SourceReader,
    tunables: Mapping[str, Sequence[Value]],
    groups: Sequence[Sequence[Flags]],
    placed: Placed,
    missing: frozenset[str] = frozenset(),
) -> tuple[Preprocessed, ...]:
    """As :func:`preprocess`, for one answer of the compiler to what only it can say."""
    asking = Asking(reader.with_flags(_first(groups)), tunables, _names(groups), missing)
    found = tuple(asking.combinations({}))
    for words in _macro_changing(reader, groups, asking):
        other = replace(asking, reader=reader.with_flags(words))
        texts = each(lambda pair: pair[0].texts(dict(pair[1].values)), [(other, one) for one in found])
        if [one.files for one in texts] != [one.files for one in found]:
            raise _Unseen(f"they are others with {' '.join(words)}")
    return tuple(each(lambda one: asking.unchanged(one, placed), found))


def each(ask: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """What is answered to each, in order; clang runs for several at once."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(ask, items))


def _of_device(
    reader: SourceReader,
    tunables: Mapping[str, Sequence[Value]],
    groups: Sequence[Sequence[Flags]],
    placed: Placed,
    headers: Sequence[Source],
) -> tuple[Preprocessed, ...]:
    """What every compiler of a device would see that compiles the sources at all."""
    texts = [file.text for file in (*reader.files, *headers)]
    reader = with_empty_headers(reader, texts)
    defined = Asking(reader, {}, frozenset()).defined({})
    tried, names = answers(reader, texts, {*tunables, *_names(groups)}, defined)
    made: list[tuple[Preprocessed, ...]] = []
    for answer in tried:
        try:
            made.append(_found(reader.with_flags(answer.flags), tunables, groups, placed, answer.missing))
        except BaselineError as error:
            broken = error
    if not made:
        raise broken
    first, *others = made
    if any(_seen(other, placed) != _seen(first, placed) for other in others):
        raise _Unseen(f"they are others by what the device's compiler says of {', '.join(names)}")
    return first


def _seen(found: Sequence[Preprocessed], placed: Placed) -> list[object]:
    """What has to be the same for every device: the regions, and all else but extensions that are switched on."""
    return [
        (each.values, placed(each), [without_extensions(file.text) for file in each.files]) for each in found
    ]


def _first(groups: Sequence[Sequence[Flags]]) -> Flags:
    return tuple(word for group in groups for word in group[0])


def _names(groups: Sequence[Sequence[Flags]]) -> frozenset[str]:
    """Macros that some choice of flags defines or takes back."""
    words = (word for group in groups for choice in group for word in choice)
    return frozenset(m[1] for word in words if (m := _DEFINES.match(word)))


def _macro_changing(
    reader: SourceReader, groups: Sequence[Sequence[Flags]], asking: Asking
) -> Iterator[Flags]:
    """Flags of every further combination of choices that define other macros than the first, or may."""
    usual, kept = asking.macro_text(), []
    for number, group in enumerate(groups):
        others = [
            choice
            for choice in group[1:]
            if any(word.startswith(_REACHING) for word in (*choice, *group[0]))
            or replace(
                asking, reader=reader.with_flags(_first([*groups[:number], [choice], *groups[number + 1 :]]))
            ).macro_text()
            != usual
        ]
        kept.append([group[0], *others])
    if math.prod(map(len, kept)) > _MOST:
        raise _Unseen(f"flags define macros in more than {_MOST} combinations")
    for choices in list(itertools.product(*kept))[1:]:
        yield tuple(word for choice in choices for word in choice)


@dataclass(frozen=True, slots=True)
class _Texts:
    """The preprocessed sources; the tunables that they ask for beyond those with fixed values; why there are none."""

    files: tuple[Source, ...]
    origins: tuple[tuple[Run, ...], ...]
    asked: tuple[str, ...]
    broken: BaselineError | None


@dataclass(frozen=True, slots=True)
class Asking:
    """Questions about sources to the preprocessor, with every tunable defined as itself."""

    reader: SourceReader
    tunables: Mapping[str, Sequence[Value]]
    further: frozenset[str]
    """Macros of other flags."""
    missing: frozenset[str] = frozenset()
    """Macros that a device's compiler is taken not to have."""

    def combinations(self, fixed: Mapping[str, Value], most: int = _MOST) -> Iterator[Preprocessed]:
        """The sources for some values, or for each choice of those that they ask for beside."""
        texts = self.texts(fixed)
        asked = texts.asked or (() if texts.broken is not None else self._pasted(fixed))
        if asked:
            values = [self.tunables[name] for name in asked]
            if math.prod(map(len, values)) > most:
                raise _Unseen(f"they ask for {', '.join(asked)} in more than {_MOST} combinations")
            if any(isinstance(value, str) for each in values for value in each):
                raise _Unseen(f"they ask for {', '.join(asked)}, of which values are no numbers")
            left = most // math.prod(map(len, values))
            chosen = [{**fixed, **dict(zip(asked, c, strict=True))} for c in itertools.product(*values)]
            made = each(lambda one: self._built(one, left), chosen)
            # No candidate builds with the values of the others.
            found = [each for one in made if not isinstance(one, BaselineError) for each in one]
            if not found:
                raise next(one for one in made if isinstance(one, BaselineError))
            yield from found
            return
        if texts.broken is not None:
            raise texts.broken
        if any("-Wundef" in file.text for file in texts.files):
            raise _Unseen("they silence the warning that tells which tunables a conditional asks for")
        yield Preprocessed(
            values=tuple(sorted((name, int(value)) for name, value in fixed.items())),
            files=texts.files,
            origins=texts.origins,
            macros=tuple(sorted(self.further | self.defined(fixed))),
        )

    def _built(self, fixed: Mapping[str, Value], most: int) -> list[Preprocessed] | BaselineError:
        try:
            return list(self.combinations(fixed, most))
        except BaselineError as error:
            return error

    def texts(
        self, fixed: Mapping[str, Value], files: Sequence[Source] = (), *, comments: bool = True
    ) -> _Texts:
        """The sources with some values.

        Args:
            fixed: values of tunables; the others are defined as themselves.
            files: in the place of the reader's.
            comments: whether they are kept.
        """
        words = (*(("-C",) if comments else ()), "-Wundef", "-Wsystem-headers")
        names = {PurePath(file.name).name: number for number, file in enumerate(self.reader.files)}
        made, origins, asked, broken = [], [], set[str](), None
        for given in self._units(fixed, files):
            # A comment that is kept hides the directive behind it.
            unit = replace(given, files=tuple(replace(f, text=bare_directives(f.text)) for f in given.files))
            text, warnings, error = joined(unit).preprocessed(*words)
            asked |= set(_UNDEFINED.findall(warnings))
            broken = broken or error
            plain = [replace(file, text=_NUMBERS_LINES.sub("#", file.text)) for file in unit.files]
            there = text
            if [file.text for file in plain] != [file.text for file in unit.files]:
                # Without these the lines are told as they are.
                there = joined(replace(unit, files=tuple(plain))).preprocessed(*words)[0]
            for (source, part), (_, placed) in zip(parted(unit, text), parted(unit, there), strict=False):
                own, runs = own_text(placed, names)
                made.append(Source(name=source.name, text=with_rows(own, part)))
                origins.append(runs)
        asks = tuple(sorted(asked & self.tunables.keys() - fixed.keys()))
        if self.reader.language in DEVICE:
            require_answered(asked - self.tunables.keys() - self.missing)
        return _Texts(files=tuple(made), origins=tuple(origins), asked=asks, broken=broken)

    def macro_text(self) -> str:
        """All macros that the compiler has before it reads a source, with what they stand for."""
        nothing = (Source(name="nothing", text=""),)
        plain = replace(self.reader, files=nothing, macros={}, folder="", include=(), empty=())
        plain = replace(plain, flags=without_paths(plain.flags))
        languages = dict.fromkeys(unit.language for unit in self._units({}))
        return "".join(replace(plain, language=each).preprocessed("-dM")[0] for each in languages)

    def unchanged(self, found: Preprocessed, placed: Placed) -> Preprocessed:
        """What was found where it is the same after the preprocessor in the files, with what that needs behind it.

        Raises:
            _Unseen: it is not the same.
            BaselineError: it does not compile there.
        """
        first = self._apart(found, placed)
        if not first:
            return found
        numbered = replace(found, numbered=True)
        counts = [_NUMBER.search(words[-1]) for words in self._apart(numbered, placed)[1:] if words]
        more = int(counts[0][0]) - int(counts[1][0]) if len(counts) == 2 and counts[0] and counts[1] else 0
        counted = more if 0 < more <= _MOST_COUNTED else 0
        for one in (numbered, replace(found, counted=counted), replace(numbered, counted=counted)):
            if not self._apart(one, placed):
                return one
        (name,), old, new = first
        would = f"{' '.join(old)!r} would be {' '.join(new)!r}"
        raise _Unseen(f"with its function written without macros, {name} would be another text: {would}")

    def _apart(self, found: Preprocessed, placed: Placed) -> Sequence[Sequence[str]]:
        """The first file that is another one so, and the words of both up to where it is; nothing where none is."""
        files = placed(found)
        if [file.text for file in files] == [file.text for file in self.reader.files]:
            # Nothing else was preprocessed in the first place.
            return ()
        again = self.texts(dict(found.values), files)
        if again.broken is not None:
            raise again.broken
        for before, after in zip(found.files, again.files, strict=True):
            old, new = before.text.split(), after.text.split()
            at = next((i for i, (one, two) in enumerate(itertools.zip_longest(old, new)) if one != two), None)
            if at is not None:
                shown = slice(max(0, at - _SHOWN), at + 1)
                return [before.name], old[shown], new[shown]
        return ()

    def _pasted(self, fixed: Mapping[str, Value]) -> tuple[str, ...]:
        """The tunables with whose values the text is another than with their names in it: pasted, or made a string."""
        left = [name for name in self.tunables if name not in fixed]
        if not left:
            return ()
        # A comment keeps the names of tunables.
        files = self.texts(fixed, comments=False).files
        if self._substituted(fixed, left, files):
            return ()
        return tuple(name for name in left if not self._substituted(fixed, [name], files))

    def _substituted(self, fixed: Mapping[str, Value], names: Sequence[str], files: Sequence[Source]) -> bool:
        for end in (0, -1):
            values = {name: self.tunables[name][end] for name in names}
            made = self.texts({**fixed, **values}, comments=False)
            shown = {n: str(int(v) if isinstance(v, bool) else v) for n, v in values.items()}
            pairs = zip(files, made.files, strict=True)
            if made.broken is None and not all(_same(b.text, a.text, shown) for b, a in pairs):
                return False
        return True

    def defined(self, fixed: Mapping[str, Value]) -> set[str]:
        """Names that the sources define or take back anywhere, but those that begin like the compiler's own."""
        found: set[str] = set()
        for unit in self._units(fixed):
            built_in = True
            for line in joined(unit).preprocessed("-dD")[0].splitlines():
                mark = MARKER.match(line)
                if mark is not None:
                    built_in = mark[2] in BUILT_IN
                elif not built_in and (named := _DIRECTIVE.match(line)) and not named[1].startswith("__"):
                    found.add(named[1])
        return found

    def _units(self, fixed: Mapping[str, Value], files: Sequence[Source] = ()) -> Iterator[SourceReader]:
        macros = {name: fixed.get(name, name) for name in self.tunables}
        reader = replace(self.reader, macros=macros, files=tuple(files) or self.reader.files)
        for index in range(1 if reader.language in DEVICE else len(reader.files)):
            unit = reader.at(index)
            if unit is not None:
                yield unit


def expanded(reader: SourceReader, tunables: Mapping[str, Value]) -> str:
    """The first file as the preprocessor leaves it, without what it includes of the system.

    Args:
        reader: of it.
        tunables: macros that stay names, but where a conditional asks for them: there they have these values.
    """
    named = replace(reader, macros={**reader.macros, **{name: name for name in tunables}})
    asked = tunables.keys() & set(_UNDEFINED.findall(named.preprocessed("-Wundef")[1]))
    fixed = replace(named, macros={**named.macros, **{name: tunables[name] for name in asked}})
    return own_text(fixed.preprocessed()[0], {})[0]


def _same(named: str, valued: str, shown: Mapping[str, str]) -> bool:
    """Whether a text with values is that with names and the values in their places; a pragma may keep the names."""
    before, after = named.splitlines(), valued.splitlines()
    kept = [old for old, new in zip(before, after, strict=False) if old == new and _PRAGMA.match(old)]
    wanted = (t if line in kept else shown.get(t, t) for line in before for t in _TOKEN.findall(line))
    return "".join(" ".join(wanted).split()) == "".join(valued.split())
