"""Writes a first spec from a kernel's signature and what its source does with its arguments.

Guesses, and says in comments what it guessed. May not run or optimise the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.core.errors import UsageError
from tuner.spec.first.argument_types import described
from tuner.spec.first.compile_commands import Compiled, compiled_as, macro_flags
from tuner.spec.first.cuda import init_cuda
from tuner.spec.first.cuda_files import cuda_files
from tuner.spec.first.device import device_spec
from tuner.spec.first.entries import chosen
from tuner.spec.first.header_folders import header_folders
from tuner.spec.first.host_kernel import host_first_spec
from tuner.spec.first.members import FirstSpec
from tuner.spec.first.project import Project, opened
from tuner.spec.sources import language_of

__all__ = ["FirstSpec", "first_spec", "init_spec"]


def init_spec(kernel_file: str | Path, *, entry: str | None = None) -> str:
    """The text of :func:`first_spec`."""
    return first_spec(kernel_file, entry=entry).text


def first_spec(
    kernel_file: str | Path,
    *,
    entry: str | None = None,
    folder: Path | None = None,
    include: Sequence[str | Path] = (),
    define: Sequence[str] = (),
    loop: int | None = None,
    commands: Path | None = None,
    standard: str | None = None,
    compiler: str | None = None,
    compiled: Compiled | None = None,
    reassociate: bool = False,
) -> FirstSpec:
    """A first spec, and a function that calls the kernel where that is a C++ template.

    Args:
        kernel_file: a C, C++, OpenCL or CUDA source.
        entry: the function; may be left out where the file has one that can be called from outside.
        folder: where the spec will lie; beside the source when left out.
        include: folders of headers that the source needs.
        define: macros for a C or C++ compiler, each ``NAME`` or ``NAME=value``.
        loop: line at which a loop begins that is to be the kernel; for C and C++.
        commands: list of a project's compile commands, or its folder; looked for around the source when left out.
        standard: dialect, such as ``c++17``.
        compiler: of the project's build, with flags; that of the list of commands when left out.
        compiled: how the project's build was seen to compile it, in the place of that list.
        reassociate: whether sums may be in another order, of a kernel in C or C++.

    Raises:
        UsageError: no such file, function or loop, several functions, or a type that no spec can describe.
        BaselineError: clang does not accept the source.
    """
    path = Path(kernel_file)
    language = "cuda" if path.suffix == ".cuh" else language_of(path.name)
    if compiled is not None and compiled.language:
        language = compiled.language
    if language not in ("c", "c++", "opencl", "cuda"):
        raise UsageError(
            f"{path.name} is no C, C++, OpenCL or CUDA", "write the kernel as a function of one of these"
        )
    if compiled is None and language in ("c", "c++"):
        compiled = compiled_as(path, commands)
    folders = [Path(each) for each in (*include, *(compiled.include if compiled is not None else ()))]
    project = Project(
        path=path,
        language=language,
        folder=folder,
        include=(*folders, *map(Path, header_folders(path, folders))),
        flags=(
            *(compiled.flags if compiled is not None else ()),
            *macro_flags(define, language),
            *(() if standard is None else (f"-std={standard}",)),
        ),
        openmp=language != "opencl" and (compiled is None or not compiled.command or compiled.openmp),
        entry=entry,
        loop=loop,
        compiler=compiler,
        compiled=compiled,
        reassociate=reassociate,
    )
    if language in ("c", "c++"):
        return host_first_spec(project)
    if loop is not None:
        raise UsageError("--loop is for C and C++", "name the function alone")
    if compiler is not None:
        raise UsageError("--compiler is for C and C++", "leave it out")
    return FirstSpec(text=(_cuda if language == "cuda" else _opencl)(project))


def _cuda(project: Project) -> str:
    found = cuda_files(project.path, project.entry, project.include)
    if language_of(found.source.name) is None:
        hint = "name the .cu that includes it, or write one that does"
        raise UsageError(f"{project.path.name} is compiled only as a part of others", hint)
    return init_cuda(project.written(found.source), found, entry=project.entry, include=project.headers)


def _opencl(project: Project) -> str:
    source = opened(project)
    text = source.reader.files[0].text
    function = chosen(source.reader, text, project.path.name, project.entry).with_names()
    return device_spec(
        project.name,
        described(function, source.reader),
        text,
        missing=tuple(source.reader.macros),
        include=source.headers,
    )
