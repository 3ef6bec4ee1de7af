"""The files that a kernel consists of: sources, and the headers beside them that they include; or a module.

Reads through a function that it is handed, so that a run record can stand in for the file system. May not parse C.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from tuner.core.source_text import text_of_file
from tuner.core.types import Source, Variant
from tuner.evaluators.opencl.module import SPIRV, SUFFIX, module_text
from tuner.spec.models import KernelModel
from tuner.spec.reading.includes import read_headers
from tuner.spec.yaml_places import View, suggestion

__all__ = [
    "Reader",
    "Sources",
    "folder_reader",
    "language_of",
    "mapping_reader",
    "out_of_reach",
    "read_sources",
]

Reader = Callable[[str], str]
"""Gives the text of a file named relative to the spec; raises ``OSError`` or ``ValueError``."""

_MAX_BYTES = 16 << 20
_LANGUAGES = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".c++": "c++",
    ".C": "c++",
    ".cl": "opencl",
    ".cu": "cuda",
    SUFFIX: SPIRV,
    ".json": "recorded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A kernel's files.

    Attributes:
        variant: what is compiled: sources first, then headers from the same folder.
        files: all texts read, by their names relative to the spec.
        include: folders of headers, also those that sources in other folders need.
        headers: those of other folders, by their names relative to the spec.
        language: of the first source.
        notices: about headers that cannot be told.
    """

    variant: Variant
    files: Mapping[str, str] = field(repr=False)
    include: tuple[str, ...]
    headers: tuple[Source, ...]
    language: str
    notices: tuple[str, ...] = ()


def folder_reader(folder: Path) -> Reader:
    """Reads from a folder; of a module its text."""

    def read(name: str) -> str:
        path = folder / name
        if path.is_file() and path.stat().st_size > _MAX_BYTES:
            raise OSError(f"larger than {_MAX_BYTES >> 20} MiB")
        if path.suffix == SUFFIX:
            return module_text(path.read_bytes())
        return text_of_file(path)

    return read


def mapping_reader(files: Mapping[str, str]) -> Reader:
    """Reads from texts by name."""

    def read(name: str) -> str:
        if name not in files:
            raise FileNotFoundError(f"{name} is not recorded")
        return files[name]

    return read


def language_of(name: str) -> str | None:
    """The language that a file's suffix stands for, or ``None``."""
    return _LANGUAGES.get(PurePosixPath(name).suffix)


def read_sources(model: KernelModel, view: View, read: Reader, folder: str) -> Sources:
    """Reads a kernel's sources and the headers that they include.

    Args:
        model: which files.
        view: for places in messages.
        read: how.
        folder: of the spec, to suggest other files from and to see that folders are there; empty for none.

    Raises:
        SpecError: a file or folder is missing, a file is not text, two have the same name, the language is unknown.
    """
    language = model.language or language_of(model.source)
    if language is None:
        hint = f"use one of the suffixes {', '.join(_LANGUAGES)}, or give kernel.language"
        raise view.error(("kernel", "source"), f"the language of {model.source!r} is unknown", hint)
    files: dict[str, str] = {}
    named = [(("kernel", "source"), model.source)]
    named += [(("kernel", "sources", i), name) for i, name in enumerate(model.sources)]  # type: ignore[misc]
    for path, name in named:
        if any(PurePosixPath(name).name == PurePosixPath(other).name for other in files):
            raise view.error(path, f"two sources are called {PurePosixPath(name).name!r}", "rename one")
        files[name] = _read(name, path, view, read, folder)
    for i, name in enumerate(model.include if folder else ()):
        if not Path(folder, name).is_dir():
            message = f"there is no folder {name!r}"
            raise view.error(("kernel", "include", i), message, "paths are relative to the spec")
    sources = list(files)
    quoted, unseen = read_headers(files, model.include, read, macros=_macros(view.data))
    first_folder = posixpath.dirname(model.source)
    # Headers of other folders are found through -I: all files of a variant lie in one folder.
    beside = [n for n in quoted if posixpath.dirname(n) == first_folder and language_of(n) is None]
    compiled = [Source(name=PurePosixPath(name).name, text=files[name]) for name in (*sources, *beside)]
    further = [name for name in files if name not in sources and name not in beside]
    folders = [posixpath.dirname(name) for name in sources]
    extra = tuple(dict.fromkeys(f for f in folders if f and f not in model.include))
    return Sources(
        variant=Variant(files=tuple(compiled)),
        files=files,
        include=(*model.include, *extra),
        headers=tuple(Source(name=name, text=files[name]) for name in further),
        language=language,
        notices=tuple(
            f"{each} is included, and which file that is cannot be told: a change of it goes unseen"
            for each in unseen
        ),
    )


def out_of_reach(sources: Sources, folder: Path) -> tuple[str, ...]:
    """Files that no compiler may read: in neither the spec's folder nor one of ``include``; the sandbox denies them.

    Args:
        sources: that were read.
        folder: of the spec.
    """
    reach = [folder.resolve(), *((folder / each).resolve() for each in sources.include)]
    outside = [name for name in sources.files if name.startswith("../")]
    return tuple(
        name for name in outside if not any((folder / name).resolve().is_relative_to(each) for each in reach)
    )


def _read(name: str, path: Sequence[str | int], view: View, read: Reader, folder: str) -> str:
    try:
        return read(name)
    except FileNotFoundError:
        hint = suggestion(PurePosixPath(name).name, _beside(name, folder), "paths are relative to the spec")
        raise view.error(path, f"there is no file {name!r}", hint) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise view.error(path, f"{name!r} cannot be read: {reason}", "name a readable source file") from None


def _beside(name: str, folder: str) -> list[str]:
    if not folder:
        return []
    try:
        return sorted(p.name for p in (Path(folder) / name).parent.iterdir() if p.is_file())
    except OSError:
        return []


def _macros(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Parameters whose values are texts: a macro of that name may stand for a header."""
    space = data.get("space")
    parameters = space.get("parameters") if isinstance(space, Mapping) else None
    found: dict[str, list[str]] = {}
    for name, given in parameters.items() if isinstance(parameters, Mapping) else ():
        values = given.get("values") if isinstance(given, Mapping) else given
        texts = [v for v in values if isinstance(v, str)] if isinstance(values, list) else []
        if texts:
            found[str(name)] = texts
    return found
