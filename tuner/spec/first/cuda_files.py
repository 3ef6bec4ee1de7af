"""The files that a first spec of a CUDA kernel is made from: its source, what that includes, and who launches it.

A kernel may stand in a file that is not compiled by itself but included: the spec then names the file that includes it.
By their looks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.errors import UsageError
from tuner.core.source_text import text_of_file
from tuner.core.types import Source
from tuner.spec.first.header_folders import program_files
from tuner.spec.reading.cuda_kernels import NOISE, kernels_of
from tuner.spec.reading.declared import declared_names
from tuner.spec.reading.includes import read_headers
from tuner.spec.reading.signature import SourceReader
from tuner.spec.sources import folder_reader

__all__ = ["CudaFiles", "cuda_files"]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_SUFFIXES = (".cu", ".cuh", ".h", ".hpp")


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaFiles:
    """What :func:`tuner.spec.first.cuda.init_cuda` reads.

    Attributes:
        source: the file that is compiled.
        text: of it, what it includes in it where the kernel stands there.
        reader: of it.
        headers: what else it includes of its own project.
        hosts: other sources that launch kernels.
    """

    source: Path
    text: str
    reader: SourceReader
    headers: str
    hosts: tuple[Source, ...]


def cuda_files(path: Path, entry: str | None, include: Sequence[Path]) -> CudaFiles:
    """The files of a kernel.

    Args:
        path: the source, or a file that another source includes.
        entry: the kernel.
        include: folders of headers.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        text = text_of_file(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name a source file") from None
    headers = _included(path, text, include)
    other = _including(path, text, headers, include)
    if other is not None:
        path, text = other, _text(other)
        headers = _included(path, text, include)
    folder = path.resolve().parent
    reader = SourceReader(
        files=(Source(name=path.name, text=text),),
        language="cuda",
        folder=str(folder),
        include=tuple(os.path.relpath(each.resolve(), folder) for each in include),
    )
    wanted = None if entry is None else entry.partition("<")[0].strip().rpartition("::")[2]
    own, brought = ({k.name for k in kernels_of(each)} for each in (text, headers))
    if (wanted in brought - own) if wanted else (not own and brought):
        text, headers = f"{headers}\n{text}", ""
    return CudaFiles(
        source=path,
        text=text,
        reader=reader.with_missing_headers(),
        headers=headers,
        hosts=tuple(_launching(path)),
    )


def _including(path: Path, text: str, headers: str, include: Sequence[Path]) -> Path | None:
    """The one source that includes this file and declares before that what it needs; none where it needs nothing."""
    own = NOISE.sub(" ", f"{text}\n{headers}")
    needed = set(_NAME.findall(NOISE.sub(" ", text))) - _declared(own)
    found: list[Path] = []
    for other in program_files(path):
        if other.suffix != ".cu" or other == path.resolve() or path.name not in (there := _text(other)):
            continue
        at = next((m.start() for m in _INCLUDE.finditer(there) if _same(m[1], other, path, include)), None)
        if at is None:
            continue
        before = there[:at]
        if needed & _declared(NOISE.sub(" ", f"{before}\n{_included(other, before, include)}")):
            found.append(other)
    return found[0] if len(found) == 1 else None


def _declared(text: str) -> set[str]:
    return {*declared_names(text), *_DEFINED.findall(text)}


def _same(written: str, file: Path, path: Path, include: Sequence[Path]) -> bool:
    return any((folder / written).resolve() == path.resolve() for folder in (file.parent, *include))


def _included(path: Path, text: str, include: Sequence[Path]) -> str:
    """What a source includes of its own project, in one text."""
    folder = path.resolve().parent
    files = {path.name: text}
    places = [os.path.relpath(each.resolve(), folder) for each in include]
    read_headers(files, places, folder_reader(folder), macros={})
    return "\n".join(other for named, other in files.items() if named != path.name)


def _launching(path: Path) -> Iterator[Source]:
    """Other sources beside this one that launch kernels."""
    for other in sorted(path.resolve().parent.iterdir()):
        if other.suffix in _SUFFIXES and other.name != path.name and "<<<" in (text := _text(other)):
            yield Source(name=other.name, text=text)


def _text(path: Path) -> str:
    try:
        return text_of_file(path)
    except (OSError, ValueError):
        return ""
