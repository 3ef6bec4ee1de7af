"""A project's source that a first spec is written from: where it lies, what it includes, how clang reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.core.source_text import text_of_file
from tuner.core.types import Source
from tuner.evaluators.host.openmp import as_if_openmp
from tuner.spec.doubts import has_openmp
from tuner.spec.first.compile_commands import Compiled, path_from
from tuner.spec.first.device import MISSING_BLOCK
from tuner.spec.models import KernelModel
from tuner.spec.reading.signature import SourceReader
from tuner.spec.sources import folder_reader, out_of_reach, read_sources
from tuner.spec.yaml_places import Document, View

__all__ = ["Project", "opened", "read_source"]

_MOST_MISSING = 16
_DIALECTS = ("c++20", "c++23", "c++11")
"""Newer than clang's own, C++17, and one that has what that has no more."""
_WARNING_ELSEWHERE = re.compile(r"\[-W([a-z][a-z0-9+-]*)\]$")
_UNDECLARED = re.compile(r"use of undeclared identifier '([A-Z][A-Z0-9_]*)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What a first spec is written from.

    Attributes:
        path: of the source.
        language: of it.
        folder: where the spec will lie; beside the source when left out.
        include: folders of headers that are given or found.
        flags: macros and dialect of the build.
        library: flags for the standard library of C++ that the build's compiler has.
        openmp: whether directives of OpenMP have threads; they have none in a build without.
        entry: the function; may be left out where the file has one that can be called from outside.
        loop: line at which a loop begins that is to be the kernel.
        compiler: of the project's build, with flags.
        compiled: how the project's build compiles the file.
        reassociate: whether sums may be in another order.
        by_address: whether of pointers nothing is said but that.
    """

    path: Path
    language: str
    folder: Path | None
    include: tuple[Path, ...]
    flags: tuple[str, ...]
    library: tuple[str, ...]
    openmp: bool
    entry: str | None
    loop: int | None
    compiler: str | None
    compiled: Compiled | None
    reassociate: bool
    by_address: bool = False

    @property
    def beside(self) -> Path:
        """The source's folder."""
        return self.path.resolve().parent

    @property
    def name(self) -> str:
        """The source as the spec names it."""
        return self.path.name if self.folder is None else self.written(self.path)

    @property
    def headers(self) -> list[str]:
        """The folders of headers as the spec names them."""
        return [self.written(each) for each in self.include]

    def written(self, path: Path) -> str:
        """A path as the spec names it."""
        return path_from(self.folder or self.beside, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A source that clang can be asked about.

    Attributes:
        reader: of it and of what it includes.
        headers: folders of headers as the spec names them.
        openmp: whether it has threads of its own.
    """

    reader: SourceReader
    headers: list[str]
    openmp: bool


def opened(project: Project) -> Opened:
    """Reads the source and what it includes.

    Raises:
        UsageError: a file or folder is missing, or is not text.
        BaselineError: clang does not accept the source.
    """
    path, beside = project.path, project.beside
    view = View(document=Document(data={}, file=str(path), values={}, keys={}), data={})
    try:
        include = [path_from(beside, each) for each in project.include]
        named = {"source": path.name, "entry": "kernel", "language": project.language, "include": include}
        model = KernelModel.model_validate(named)
        sources = read_sources(model, view, folder_reader(beside), str(beside))
    except SpecError as error:
        # There is no spec yet that a path could be relative to.
        hint = error.hint if error.hint.startswith("did you mean") or path.exists() else "check the path"
        raise UsageError(error.message, hint) from None
    headers = project.headers
    for far in out_of_reach(sources, beside):
        needed = project.written((beside / far).parent)
        if needed.startswith("..") and needed not in headers:
            headers.append(needed)
    openmp = project.openmp and any(map(has_openmp, sources.files.values()))
    reader = SourceReader(
        files=sources.variant.files,
        language=project.language,
        folder=str(beside),
        include=sources.include,
        flags=(*(as_if_openmp() if openmp else ()), *project.flags, *project.library),
    )
    # The kernel will be asked for, and whoever calls it.
    reader = _with_missing(reader, (project.entry or "main").partition("<")[0])
    return Opened(reader=reader, headers=headers, openmp=openmp)


def read_source(path: Path) -> Source:
    """A further source.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return Source(name=path.name, text=text_of_file(path))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name a source file") from None


def _with_missing(reader: SourceReader, name: str) -> SourceReader:
    """The reader with a value for macros that C sources use and that only a build defines.

    And without what clang takes for an error by default alone, as of declarations that were left out before
    1999, or pointers to structures that begin alike: other compilers take it, and pass over options of that form that
    they do not know.
    """
    for _ in range(_MOST_MISSING):
        try:
            next(reader.exposing(name).trees(name), None)
            break
        except BaselineError as error:
            warning = _WARNING_ELSEWHERE.search(error.message)
            flag = f"-Wno-{warning[1]}" if warning else ""
            if flag and flag not in reader.flags:
                reader = reader.with_flags([flag])
                continue
            missing = _UNDECLARED.search(error.message)
            if missing is None or missing[1] in reader.macros:
                raise _of_another_dialect(reader, error) from None
            value = MISSING_BLOCK if reader.language == "opencl" else 1
            reader = replace(reader, macros={**reader.macros, missing[1]: value})
    return reader


def _of_another_dialect(reader: SourceReader, error: BaselineError) -> BaselineError:
    """The error, with the dialect of C++ in which the source has none where no dialect is said."""
    said = any(flag.startswith("-std=") for flag in reader.flags)
    for dialect in _DIALECTS if reader.language == "c++" and not said else ():
        try:
            reader.with_flags([f"-std={dialect}"]).llvm()
        except BaselineError:
            continue
        return BaselineError(f"{error.message}; as {dialect} it does", f"tuner init --std {dialect}")
    return error
