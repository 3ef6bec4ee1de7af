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
from tuner.core.types import Source
from tuner.spec.first.header_folders import program_files
from tuner.spec.reading.cuda_kernels import NOISE, base_name, kernels_of
from tuner.spec.reading.declared import declared_names
from tuner.spec.reading.includes import read_headers
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import SourceTree, source_tree
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
        tree: of it.
        headers: what else it includes of its own project.
        hosts: other sources that launch kernels.
    """

    source: Path
    text: str
    tree: SourceTree
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
        BaselineError: clang's tree of it is too large.
        MachineError: there is no clang, or it does not answer.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
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
    tree = source_tree(reader.with_missing_headers())
    wanted = None if entry is None else base_name(entry).rpartition("::")[2]
    kernels = [kernel for kernel in kernels_of(tree) if wanted in (None, kernel.name)]
    if kernels and all(kernel.file != path.name for kernel in kernels):
        text, headers = f"{headers}\n{text}", ""
    return CudaFiles(
        source=path,
        text=text,
        tree=tree,
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
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
