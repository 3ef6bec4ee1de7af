"""The files that a first spec of a CUDA kernel is made from: its source, what that includes, and who launches it.

A kernel may stand in a file that is not compiled by itself but included: the spec then names the file that includes it.
By their looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.types import Source
from tuner.spec.first.compile_commands import path_from
from tuner.spec.first.project import read_source
from tuner.spec.first.project_files import INCLUDE, known_text, program_files
from tuner.spec.reading.cuda_kernels import base_name, kernels_of
from tuner.spec.reading.includes import read_headers
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import SourceTree, source_tree
from tuner.spec.sources import folder_reader

__all__ = ["CudaFiles", "cuda_files"]

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
    text = read_source(path).text
    tree = _tree(path, text, include)
    other = _including(path, tree, include)
    if other is not None:
        path, tree = other
        text = known_text(path)
    headers = _included(path, text, include)
    kernels = kernels_of(tree, base_name(entry or "").rpartition("::")[2])
    if kernels and all(kernel.file != path.name for kernel in kernels):
        text, headers = f"{headers}\n{text}", ""
    return CudaFiles(
        source=path,
        text=text,
        tree=tree,
        headers=headers,
        hosts=tuple(_launching(path)),
    )


def _tree(path: Path, text: str, include: Sequence[Path]) -> SourceTree:
    folder = path.resolve().parent
    reader = SourceReader(
        files=(Source(name=path.name, text=text),),
        language="cuda",
        folder=str(folder),
        include=tuple(path_from(folder, each) for each in include),
    )
    return source_tree(reader.with_missing_headers())


def _including(path: Path, tree: SourceTree, include: Sequence[Path]) -> tuple[Path, SourceTree] | None:
    """The one source that includes this file and declares what it needs; none where it needs nothing."""
    found: list[tuple[Path, SourceTree]] = []
    for other in program_files(path) if tree.unknown else ():
        if other.suffix != ".cu" or other == path.resolve():
            continue
        text = known_text(other)
        named = (folder / n for n in INCLUDE.findall(text) for folder in (other.parent, *include))
        if any(each.resolve() == path.resolve() for each in named):
            whole = _tree(other, text, include)
            if tree.unknown - whole.unknown:
                found.append((other, whole))
    return found[0] if len(found) == 1 else None


def _included(path: Path, text: str, include: Sequence[Path]) -> str:
    """What a source includes of its own project, in one text."""
    folder = path.resolve().parent
    files = {path.name: text}
    read_headers(files, [path_from(folder, each) for each in include], folder_reader(folder), macros={})
    return "\n".join(other for named, other in files.items() if named != path.name)


def _launching(path: Path) -> Iterator[Source]:
    """Other sources beside this one that launch kernels."""
    for other in sorted(path.resolve().parent.iterdir()):
        if other.suffix in _SUFFIXES and other.name != path.name and "<<<" in (text := known_text(other)):
            yield Source(name=other.name, text=text)
