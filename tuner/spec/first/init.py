"""Writes a first spec from a kernel's signature and what its source does with its arguments.

Of a function or a loop in C or C++ with all that it needs of its project. Guesses, and says in comments what it
guessed. May not run or optimise the kernel.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tuner.core.errors import BaselineError, UsageError
from tuner.core.source_text import lines_of_text
from tuner.core.thread_counts import threads_of_programs
from tuner.spaces.source.outlined import Outlined
from tuner.spec.first.compile_commands import (
    Compiled,
    build_compiler,
    compiled_as,
    doubts_of,
    library_flags,
    macro_flags,
)
from tuner.spec.first.cuda import init_cuda
from tuner.spec.first.cuda_files import cuda_files
from tuner.spec.first.device import DeviceKernel, device_spec
from tuner.spec.first.findings import Findings, examine
from tuner.spec.first.functions import (
    address_lines,
    chosen,
    described,
    named_from_outside,
    without_what_none_fills,
)
from tuner.spec.first.global_variables import with_globals
from tuner.spec.first.host import FirstKernel, host_spec
from tuner.spec.first.members import FirstSpec
from tuner.spec.first.project import Opened, Project, opened, read_source
from tuner.spec.first.project_files import further_sources, header_folders
from tuner.spec.first.size_macros import size_macros, with_size_macros
from tuner.spec.instances import is_instance
from tuner.spec.reading.declarations import declared, with_numbers
from tuner.spec.reading.first_values import call_values
from tuner.spec.reading.flattening import Flat, flattened
from tuner.spec.reading.lookup import callers_of, function_lookup, functions_of
from tuner.spec.reading.macros import macros_of
from tuner.spec.reading.outlining import loop_lines, loop_places, no_loop, outline
from tuner.spec.reading.preprocessing import expanded
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.templates import instance_of
from tuner.spec.sources import language_of

__all__ = ["FirstSpec", "first_spec", "init_spec"]

_MOST_LOOPS = 6
"""How many loops of a function that no spec can describe are tried."""


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
    by_address: bool = False,
) -> FirstSpec:
    """A first spec, and a function that calls the kernel where that is a C++ template.

    Args:
        kernel_file: a C, C++, OpenCL or CUDA source.
        entry: the function; may be left out where the file has one that can be called from outside.
        folder: where the spec will lie; beside the source when left out.
        include: folders of headers that the source needs.
        define: macros for a C or C++ compiler, each ``NAME``, ``NAME=value`` or ``NAME(x)=value``.
        loop: line at which a loop begins that is to be the kernel; for C and C++.
        commands: list of a project's compile commands, or its folder; looked for around the source when left out.
        standard: dialect, such as ``c++17``.
        compiler: of the project's build, with flags; that of the list of commands when left out.
        compiled: how the project's build was seen to compile it, in the place of that list.
        reassociate: whether sums may be in another order, of a kernel in C or C++.
        by_address: whether of pointers nothing is said but that, as for a recording that keeps memory as it is.

    Raises:
        UsageError: no such file, function or loop, several functions, or a type that no spec can describe.
        BaselineError: clang does not accept the source.
    """
    path = Path(kernel_file)
    language = "cuda" if path.suffix == ".cuh" else language_of(path.name)
    if compiled is not None and compiled.language:
        language = compiled.language
    if language not in ("c", "c++", "opencl", "cuda"):
        hint = "write the kernel as a function of one of these, or name the source that includes it, with --entry"
        raise UsageError(f"{path.name} is no C, C++, OpenCL or CUDA", hint)
    # Of what is recorded the recording has the sizes.
    recorded = compiled is not None
    if compiled is None and language in ("c", "c++"):
        compiled = compiled_as(path, commands)
    # Compilers pass over folders that are not there; a spec that names one is refused.
    built = filter(Path.is_dir, compiled.include if compiled is not None else ())
    folders = [*map(Path, include), *built]
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
        library=library_flags(_build_command(compiler, compiled), language),
        openmp=language != "opencl" and (compiled is None or not compiled.command or compiled.openmp),
        entry=entry,
        loop=loop,
        compiler=compiler,
        compiled=compiled,
        reassociate=reassociate,
        by_address=by_address,
    )
    if language in ("c", "c++"):
        return host_first_spec(project) if recorded else _with_sizes(project)
    if loop is not None:
        raise UsageError("--loop is for C and C++", "name the function alone")
    if compiler is not None:
        raise UsageError("--compiler is for C and C++", "leave it out")
    return FirstSpec(text=_cuda(project)) if language == "cuda" else _opencl(project)


def _build_command(given: str | None, compiled: Compiled | None) -> Sequence[str]:
    if given is not None:
        with suppress(ValueError):
            return shlex.split(given)
    return () if compiled is None else compiled.command


def _cuda(project: Project) -> str:
    found = cuda_files(project.path, project.entry, project.include)
    if language_of(found.source.name) is None:
        hint = "name the .cu that includes it, or write one that does"
        raise UsageError(f"{project.path.name} is compiled only as a part of others", hint)
    return init_cuda(project.written(found.source), found, entry=project.entry, include=project.headers)


def _opencl(project: Project) -> FirstSpec:
    source = opened(project)
    reader = source.reader
    text = reader.files[0].text
    function = with_numbers(chosen(reader, text, project.path.name, project.entry).with_names(), reader)
    macros = replace(macros_of(text), missing=tuple(reader.macros))
    return device_spec(
        DeviceKernel(
            file=project.name,
            function=described(function, reader),
            lookup=function_lookup(reader),
            text=text,
            expanded=expanded(reader, {**reader.macros, **macros.guarded}),
            macros=macros,
            include=source.headers,
        )
    )


def host_first_spec(project: Project) -> FirstSpec:
    """A first spec, and a function that calls the kernel where that is a C++ template.

    The kernel is a function of the source itself, a loop of it, or an instance of a template; of a function that no
    spec can describe, such as one that takes an object, the largest loop that one can.

    Raises:
        UsageError: no such file, function or loop, several functions, or a type that no spec can describe.
        BaselineError: clang does not accept the source.
    """
    return _readable(project, opened(project))


def _with_sizes(project: Project) -> FirstSpec:
    """The same, with macros of the source and its headers that are sizes as the problem."""
    source = opened(project)

    def read(values: Mapping[str, int]) -> FirstSpec:
        left = [flag for flag in project.flags if flag[2:].partition("=")[0] not in values]
        made = [f"-D{name}={value}" for name, value in values.items()]
        return host_first_spec(replace(project, flags=(*left, *made)))

    return with_size_macros(_readable(project, source), size_macros(source.reader.files, project.flags), read)


def _readable(project: Project, source: Opened) -> FirstSpec:
    try:
        return _host_spec(project, source)
    except UsageError as refused:
        known = project.loop is not None or project.by_address
        name, lines = ("", []) if known else _loops_of(project, source.reader)
        for line in lines[:_MOST_LOOPS]:
            others = ", ".join(str(each) for each in sorted(lines) if each != line)
            further = f"; other loops begin at lines {others}" if others else ""
            doubt = f"one loop alone, as {refused.message}{further}"
            with suppress(UsageError, BaselineError):
                return _host_spec(replace(project, entry=name, loop=line), source, doubt)
        raise


def _loops_of(project: Project, reader: SourceReader) -> tuple[str, list[int]]:
    """The function's name and the lines at which its loops begin: the deepest nests first, then the longest."""
    text = reader.files[0].text
    with suppress(UsageError):
        function = chosen(reader, text, project.path.name, project.entry)
        places = loop_places(function, text)
        depths = {p.start: sum(p.start <= q.start and q.stop <= p.stop for q in places) for p in places}
        ordered = sorted(places, key=lambda p: (-depths[p.start], -len(p)))
        return function.qualified, list(dict.fromkeys(p.start for p in ordered))
    return "", []


def _host_spec(project: Project, source: Opened, doubt: str = "") -> FirstSpec:
    command, unnamed = build_compiler(project.compiler, project.compiled, openmp=source.openmp)
    reader, file, headers = source.reader, project.name, list(source.headers)
    entry, outlined, beside = project.entry, None, dict[str, str]()
    if project.loop is not None:
        outlined = _outlined(reader, entry, project.loop)
        entry, reader = outlined.entry, reader.with_text(outlined.text)
    function, arguments = _function(reader, project.path.name, entry)
    if function.template:
        name, text, reader = _instance(reader, function, project.path.name)
        function, outlined = reader.defined(name)[0].with_names(), None
        file = f"{project.path.stem}_instance{project.path.suffix}"
        beside = {file: f'#include "{project.path.name}"\n\n{text}'}
        if project.name != project.path.name:
            # What the instance includes lies elsewhere than the instance, which lies beside the spec.
            headers.insert(0, os.path.dirname(project.name))
    first = _first_kernel(project, function, reader, outlined)
    build = doubts_of(project.compiled, project.folder or project.beside)
    doubts = (*filter(None, (doubt,)), *build, *unnamed, *first.doubts)
    first = replace(
        first,
        file=file,
        # Another compiler has its library by itself.
        defines=(*first.defines, *(() if command else project.library[:1])),
        include=[*headers, *first.include],
        doubts=doubts,
        kernel=f'"{function.qualified}<{arguments}>"' if arguments else first.kernel,
        threads=threads_of_programs() if source.openmp else None,
        compiler=command,
        reassociate=project.reassociate,
        language="" if language_of(file) else project.language,
    )
    return replace(host_spec(first), beside=beside)


def _function(reader: SourceReader, file: str, entry: str | None) -> tuple[Function, str]:
    """The kernel, and the template arguments of one that is an instance."""
    name, _, given = (entry or "").partition("<") if is_instance(entry or "") else (entry, "", "")
    function = chosen(reader, reader.files[0].text, file, name or None).with_names()
    if not function.template:
        return function, ""
    wanted = "".join(given.rpartition(">")[0].split())
    if wanted:
        # What asks for its address makes it, where nothing else does.
        reader = reader.with_text(f"{reader.files[0].text}\nstatic auto *tuner_instance_ = &{entry};\n")
    try:
        found = reader.instances(function.name)
    except BaselineError:
        hint = "its name with namespaces, and arguments that it takes"
        raise UsageError(f"{file} makes no instance {entry!r}", hint) from None
    made = {a: f for a, f in found.items() if not wanted or "".join(a.split()) == wanted}
    if len(made) > 1:
        listed = ", ".join(f"'{function.name}<{arguments}>'" for arguments in made)
        raise UsageError(f"{file} has several instances of {function.name}", f"choose with --entry: {listed}")
    for arguments, instance in made.items():
        return instance.with_names(), arguments
    return function, ""


def _first_kernel(
    project: Project, function: Function, reader: SourceReader, outlined: Outlined | None
) -> FirstKernel:
    """The kernel with what it needs beside its own text."""
    exposed = reader.exposing(function.name)
    symbol = str(function.tree.get("mangledName") or function.name)
    include = [project.beside / each for each in reader.include]
    further = further_sources(project.path, exposed, symbol, include)
    places = map(str, (*further.include, *(f.parent for f in further.files)))
    files = (*reader.files, *map(read_source, further.files))
    lookup = function_lookup(replace(reader, files=files, include=(*reader.include, *places)))
    first = FirstKernel(
        file=project.name,
        flat=Flat(function=replace(function, parameters=()), members={}, structures={}, lookup=lookup),
        findings=Findings(uses={}, sizes=[], depth=0),
        macros=replace(
            macros_of(reader.files[0].text).without(flag[2:].partition("=")[0] for flag in project.flags),
            missing=tuple(reader.macros),
        ),
        include=list(map(project.written, further.include)),
        sources=list(map(project.written, further.files)),
        defines=tuple(dict.fromkeys((*project.flags, *(f for f in reader.flags if f.startswith("-Wno-"))))),
        kernel=None if outlined is None else f"{outlined.function}, loop: {project.loop}",
    )
    if project.by_address:
        return replace(first, doubts=further.doubts, arguments=address_lines(function, lookup, exposed))
    function = with_numbers(declared(function, exposed, lookup), reader)
    whole = with_globals(function, lookup, exposed, further.allocated)
    flat = named_from_outside(flattened(whole.function, whole.lookup), reader)
    flat, left_out = without_what_none_fills(flat, reader)
    flat = replace(flat, function=described(reader.resolved(flat.function), reader, flat))
    callers = {name for each in files for name in callers_of(each.text, function.name)}
    values = call_values(function, filter(None, map(lookup, sorted(callers))))
    return replace(
        first,
        flat=flat,
        findings=examine(flat.function, flat.lookup),
        doubts=(*whole.doubts, *left_out, *further.doubts),
        variables=whole.written,
        flags=whole.flags,
        values=values if outlined is None else outlined.values,
    )


def _outlined(reader: SourceReader, entry: str | None, loop: int) -> Outlined:
    """The loop at a line of the first file, of any function where none is named."""
    if entry is not None:
        return outline(reader, entry, loop)
    text = reader.files[0].text
    above = "".join(lines_of_text(text)[:loop])
    for name in reversed(functions_of(text)):
        if re.search(rf"\b{name}\b", above):
            found = reader.defined(name)
            if any(loop in loop_lines(f, text) for f in found):
                return outline(reader, found[0].qualified, loop)
            if any(loop_lines(f, text, loop) for f in found):
                raise no_loop(found, text, loop, "begins")
    raise UsageError(f"no loop begins at line {loop}", "name the line of its for, while or do")


def _instance(reader: SourceReader, template: Function, file: str) -> tuple[str, str, SourceReader]:
    """Name and text of an instance of a template, and the reader of a source that has it too."""
    text = reader.files[0].text
    instance = instance_of(template, text)
    if instance is not None:
        name, made = instance
        reader = reader.with_text(f"{text}\n{made}")
        try:
            reader.functions(name)
            return name, made, reader
        except BaselineError:
            pass
    raise UsageError(
        f"{template.name!r} in {file} is a template that no plain instance could be made of",
        'write an extern "C" function that calls it with types of your choice, and name that',
    )
