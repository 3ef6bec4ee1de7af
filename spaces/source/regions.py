"""Which parts of a kernel's sources may change, and putting changed parts back.

A region lies between two comments that say ``EVOLVE-BLOCK-START`` and ``EVOLVE-BLOCK-END``; where no file has any,
the definition of the entry function is the region. What lies outside is copied byte for byte. May not transform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tuner.core.compilers import CLANG
from tuner.core.errors import SpecError
from tuner.core.types import Kernel, Launch, Preprocessed, Source, Variable, Variant
from tuner.spaces.source.cutting import SourceFile, Units, cut_at_entry, cut_at_marks, units_of
from tuner.spaces.source.definitions import functions_inside, with_file_variables
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.lexical import without_arguments, words
from tuner.spaces.source.memo import Kept
from tuner.spaces.source.number_types import number_types
from tuner.spaces.source.own_names import own_names, with_own_calls
from tuner.spaces.source.parse import parse_file
from tuner.spaces.source.presenting import presented
from tuner.spaces.source.printer import function_text
from tuner.spaces.source.respelling import respelled, unsteady_macros
from tuner.spaces.source.syntax import Function, Opaque, OpaqueStmt
from tuner.spaces.source.walks import declared_names

__all__ = ["Program", "SourceFile", "configured", "outside_differs", "read_program"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a function's changeable text lies: bytes of the region's text."""

    file: int
    part: int
    start: int
    end: int
    indent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The function that is launched, by its bare name, and how it is as given: ``None`` for one that is called.

    ``qualified`` is its name with namespaces and classes.

    ``headers`` are the texts of the project's headers that are not among the program's files. ``openmp``: it is built
    with OpenMP. ``compiler``: whose pragmas are followed. ``preprocessed``, ``variables``, ``members``: as in the
    kernel.
    """

    name: str
    qualified: str
    launch: Launch | None
    headers: tuple[Source, ...] = ()
    openmp: bool = False
    compiler: str = CLANG
    preprocessed: tuple[Preprocessed, ...] = ()
    variables: tuple[Variable, ...] = ()
    members: tuple[Variable, ...] = ()

    def known_in(self, function: Function) -> tuple[Variable, ...]:
        """Arrays and numbers that a function names and does not declare."""
        own = self.members if function.name.rpartition("::")[2] == self.name else ()
        return (*self.variables, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kernel's sources with their changeable functions as trees.

    Attributes:
        language: ``c``, ``c++``, ``opencl`` or ``cuda``.
        files: all of them, in the variant's order.
        functions: by label: the function's name, with ``#2`` and so on where several regions lie in one function.
        entry: of the sources as given.
        units: what the preprocessor makes of the files, where the regions are of that.
    """

    language: str
    files: tuple[SourceFile, ...]
    functions: Mapping[str, Function]
    entry: Entry
    units: Units | None = field(repr=False)
    _launch: Launch | None = field(repr=False)
    _places: Mapping[str, _Place] = field(repr=False)
    _original: Mapping[str, Function] = field(repr=False)
    _edited: bool = field(repr=False)

    @property
    def regions(self) -> tuple[tuple[int, int], ...]:
        """File and part of every region."""
        return tuple((i, p) for i, f in enumerate(self.files) for p in range(1, len(f.parts), 2))

    @property
    def launch(self) -> Launch | None:
        """How the entry is launched now."""
        for label, function in self.functions.items():
            if function.launch is not self._original[label].launch:
                return function.launch
        return self._launch

    def with_function(self, label: str, function: Function) -> Program:
        """The program with one function changed."""
        return replace(self, functions={**self.functions, label: function})

    def with_region(self, file: int, part: int, text: str) -> Program:
        """The program with a region's text replaced and read anew; other changes are kept as text.

        Args:
            file: the region's.
            part: the region's.
            text: new.
        """
        files = list(self._rendered())
        parts = list(files[file].parts)
        parts[part] = text
        files[file] = replace(files[file], parts=tuple(parts))
        return _program(self.language, tuple(files), self.entry, self.launch, units=self.units, edited=True)

    def with_preprocessed(self, found: Preprocessed) -> Program:
        """The program as given with what the preprocessor makes of its regions.

        Raises:
            Refused: it has been edited, or a region is not found there again.
        """
        if self._edited or any(self.functions[label] is not f for label, f in self._original.items()):
            raise Refused("edits of the source as given stand before it")
        given = [Source(name=file.name, text=file.text) for file in self.files]
        units = units_of(given, found, self.entry.qualified, self.language)
        try:
            return _program(self.language, units.built, self.entry, self.launch, units=units)
        except SpecError as error:
            raise Refused(error.message) from None

    def line_of(self, label: str, unknown: Opaque | OpaqueStmt) -> int | None:
        """The line of its file on which a construct of a function begins; ``None`` where edits have moved it.

        Args:
            label: the function's.
            unknown: as it was read.
        """
        place = self._places[label]
        # Trees are of whole files, or of what the preprocessor makes of them.
        unit = self.files[place.file] if self.units is None else self.units.files[place.file]
        assert unit is not None
        above = "".join(unit.parts[: place.part]).count("\n")
        made, numbers = unit.text.split("\n"), range(above, above + unit.parts[place.part].count("\n") + 1)
        lines = numbers if self.units is None else self.units.regions[place.file, place.part].lines
        found = dict(zip(numbers, lines, strict=False)).get(unknown.line - 1, -1)
        return found + 1 if found >= 0 and unknown.text.split("\n")[0] in made[unknown.line - 1] else None

    def region_text(self, file: int, part: int) -> str:
        """A region's text as it is now."""
        return self._rendered()[file].parts[part]

    def inside(self, file: int, part: int) -> list[str]:
        """Labels of a region's functions."""
        return [label for label, p in self._places.items() if (p.file, p.part) == (file, part)]

    def sources(self, *, presentable: bool = False, above: str = "") -> tuple[Source, ...]:
        """The files' texts; as a person would lay them out where they are to be read.

        Args:
            presentable: whether they are.
            above: lines that stand there above each function that was changed.
        """
        return tuple(Source(name=f.name, text=f.text) for f in self._rendered(presentable, above))

    def _rendered(self, presentable: bool = False, lines: str = "") -> tuple[SourceFile, ...]:
        same = {label for label, function in self.functions.items() if function is self._original[label]}
        if len(same) == len(self.functions) and (self.units is None or not presentable):
            return self.files
        parts = [[p.encode() for p in f.parts] for f in self.files]
        places = sorted(self._places.items(), key=lambda item: -item[1].start)
        for label, place in places:
            function = self.functions[label]
            if label in same:
                continue
            text = parts[place.file][place.part]
            lead, given = text[: place.start], text[place.start : place.end].decode()
            wrote = given if self.units is None else self.units.regions[place.file, place.part].wrote
            made = function_text(function, place.indent)
            if presentable:
                fixed = lead if place.start else parts[place.file][place.part - 1]
                above, made = presented(function, self._original[label], given, fixed.decode(), wrote, lines)
                if place.start:
                    lead = above.encode()
                else:
                    parts[place.file][place.part - 1] = above.encode()
            before = (parts[place.file][place.part - 1] + lead)[-1:]
            if made.startswith(("#", "typedef")) and before not in (b"", b"\n"):
                # A preprocessor line has to begin a line.
                made = f"\n{made}"
            parts[place.file][place.part] = lead + made.encode() + text[place.end :]
        for file, part in self.regions if presentable else ():
            text_now = parts[file][part].decode()
            if self.units is not None and same.issuperset(self.inside(file, part)):
                # What an edit of the text changed is no other function than what was read after it.
                changed = text_now != self.units.regions[file, part].made
                before = parts[file][part - 1]
                begin = before.rfind(b"\n") + 1
                parts[file][part - 1] = before[:begin] + lines.encode() * changed + before[begin:]
            parts[file][part] = self._spelled(file, part, text_now).encode()
        return tuple(
            replace(f, parts=tuple(p.decode() for p in made))
            for f, made in zip(self.files, parts, strict=True)
        )

    def _spelled(self, file: int, part: int, text: str) -> str:
        """A region's text with the author's spelling of lines that are as they were."""
        inside = [self.functions[label] for label in self.inside(file, part)]
        declared = {p.name for f in inside for p in f.params}.union(*(declared_names(f.body) for f in inside))
        unit = self.units.files[file] if self.units is not None else self.files[file]
        types = {} if unit is None else number_types(unit.text)
        types = {name: kind for name, kind in types.items() if name not in declared}
        given = self.files[file].parts[part]
        if self.units is None:
            return respelled(text, given, given, types)
        unsteady = unsteady_macros([one.text for one in (*self.units.given, *self.entry.headers)])
        return self.units.regions[file, part].spelled(text, types, unsteady)


_READ: Kept[Program] = Kept(128)
"""By language, entry and texts: one program is the same tree wherever it is asked for."""


def read_program(kernel: Kernel, variant: Variant | None = None, *, launch: Launch | None = None) -> Program:
    """The changeable parts of a kernel.

    Args:
        kernel: for its entry and language.
        variant: its sources as given; the kernel's own by default.
        launch: of the kernel, where it has one.

    Raises:
        SpecError: marks that do not pair up or cut through a statement; no marks and no entry function.
    """
    files = (variant or kernel.variant).files
    texts = ((f.name, f.text) for f in files)
    qualified = _qualified(kernel)
    entry = Entry(
        name=qualified.split("::")[-1],
        qualified=qualified,
        launch=launch,
        headers=kernel.headers,
        openmp=kernel.openmp,
        compiler=CLANG if kernel.compiler is None else kernel.compiler.family,
        preprocessed=kernel.preprocessed,
        variables=kernel.variables,
        members=kernel.members,
    )
    key = (kernel.language, entry, *texts)
    found = _READ.get(key)
    if found is None:
        cut = [cut_at_marks(f) for f in files]
        if all(len(f.parts) == 1 for f in cut):
            cut = _cut_at_entry(kernel, files, qualified)
        found = _program(kernel.language, tuple(cut), entry, launch)
        _READ.put(key, found)
    return found


def _cut_at_entry(kernel: Kernel, files: Sequence[Source], entry: str) -> list[SourceFile]:
    """The files cut around the entry function, or around what the preprocessor makes it of."""
    try:
        return cut_at_entry(files, entry, kernel.language)
    except SpecError:
        if not kernel.preprocessed:
            raise
        return units_of(files, kernel.preprocessed[0], entry, kernel.language).as_given()


def configured(kernel: Kernel, found: Preprocessed) -> Units:
    """A kernel's files with what the preprocessor makes of their regions, and what else it made.

    Raises:
        Refused: a region is not found there again.
    """
    return units_of(kernel.variant.files, found, _qualified(kernel), kernel.language)


def _qualified(kernel: Kernel) -> str:
    return without_arguments(kernel.wrapped or kernel.entry)


def outside_differs(program: Program, variant: Variant) -> str:
    """What of a variant differs from the program outside its regions, one line; empty when nothing does."""
    if [f.name for f in program.files] != [f.name for f in variant.files]:
        return "the variant has other files"
    for file, source in zip(program.files, variant.files, strict=True):
        position = 0
        for number, fixed in enumerate(file.parts[::2]):
            last = number == len(file.parts) // 2
            found = len(source.text) - len(fixed) if last else source.text.find(fixed, position)
            if found < position or (number == 0 and found) or not source.text.startswith(fixed, found):
                line = file.text[: file.text.find(fixed)].count("\n") + 1
                return f"{file.name} differs outside its regions, after line {line}"
            position = found + len(fixed)
    return ""


def _program(
    language: str,
    files: tuple[SourceFile, ...],
    entry: Entry,
    launch: Launch | None,
    *,
    units: Units | None = None,
    edited: bool = False,
) -> Program:
    # Tunables have one name in all files.
    meant = [*(f.text for f in files), *(h.text for h in entry.headers)]
    given = frozenset[str]()
    if units is not None:
        # With macros replaced the text before that says nothing.
        given = words("\n".join([*meant, *(f.text for f in units.given)]))
        meant = [units.joined(number, file).text for number, file in enumerate(files)]
    everything = "\n".join(meant)
    own = own_names(meant, language)
    functions: dict[str, Function] = {}
    places: dict[str, _Place] = {}
    for number, file in enumerate(files):
        if len(file.parts) == 1:
            continue
        beside: tuple[str, ...] = ()
        if units is not None:
            beside = tuple(text for i, text in enumerate(meant) if i != number and text)
            file = units.joined(number, file)
        root = parse_file(file.text.encode(), language)
        begin = 0
        for part, text in enumerate(file.parts):
            end = begin + len(text.encode())
            if part % 2:
                for function, start, stop, indent in functions_inside(root, begin, end, file):
                    count = sum(f.name == function.name for f in functions.values())
                    label = f"{function.name}#{count + 1}" if count else function.name
                    functions[label] = replace(
                        with_own_calls(
                            with_file_variables(
                                replace(function, language=language), file.text, entry.known_in(function)
                            ),
                            own,
                        ),
                        source=everything,
                        file=file.text,
                        beside=beside,
                        macros=frozenset() if units is None else units.macros,
                        words=given,
                        launch=launch if function.name == entry.name else None,
                        openmp=entry.openmp,
                        compiler=entry.compiler,
                    )
                    places[label] = _Place(
                        file=number, part=part, start=start - begin, end=stop - begin, indent=indent
                    )
            begin = end
    return Program(
        language=language,
        files=files,
        functions=functions,
        entry=entry,
        units=units,
        _launch=launch,
        _places=places,
        _original=functions,
        _edited=edited,
    )
