"""Writes a first spec of a function in C or C++, or of a loop of one, with all that it needs of its project.

May not run or optimise the kernel.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace

from tuner.core.errors import BaselineError, UsageError
from tuner.core.source_text import lines_of_text
from tuner.spaces.source.outlined import Outlined
from tuner.spec.first.argument_types import described
from tuner.spec.first.compile_commands import build_compiler, doubts_of
from tuner.spec.first.entries import chosen
from tuner.spec.first.findings import examine
from tuner.spec.first.further_sources import further_sources
from tuner.spec.first.global_variables import with_globals
from tuner.spec.first.host import FirstKernel, host_spec
from tuner.spec.first.host_structures import named_from_outside, without_what_none_fills
from tuner.spec.first.members import FirstSpec
from tuner.spec.first.project import OLD_DIALECT, Opened, Project, opened, read_source
from tuner.spec.reading.declarations import declared
from tuner.spec.reading.first_values import call_values
from tuner.spec.reading.flattening import flattened
from tuner.spec.reading.lookup import callers_of, function_lookup, functions_of
from tuner.spec.reading.macros import macros_of
from tuner.spec.reading.outlining import loop_lines, no_loop, outline
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.reading.templates import instance_of
from tuner.spec.sources import language_of

__all__ = ["host_first_spec"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """The function that is called: of the source itself, a loop of it, or an instance of a template.

    Attributes:
        function: with a name for every parameter.
        reader: of the source that has it.
        file: that the spec names.
        outlined: the loop, where it is one.
        beside: text of the file, where the spec brings it.
    """

    function: Function
    reader: SourceReader
    file: str
    outlined: Outlined | None = None
    beside: str = ""


def host_first_spec(project: Project) -> FirstSpec:
    """A first spec, and a function that calls the kernel where that is a C++ template.

    Raises:
        UsageError: no such file, function or loop, several functions, or a type that no spec can describe.
        BaselineError: clang does not accept the source.
    """
    source = opened(project)
    command, unnamed = build_compiler(project.compiler, project.compiled, openmp=source.openmp)
    kernel = _kernel(project, source)
    headers = list(source.headers)
    if kernel.beside and project.name != project.path.name:
        # What the instance includes lies elsewhere than the instance, which lies beside the spec.
        headers.insert(0, os.path.dirname(project.name))
    first = replace(
        _first_kernel(project, kernel, source),
        threads=len(os.sched_getaffinity(0)) if source.openmp else None,
        compiler=command,
        reassociate=project.reassociate,
        language="" if language_of(kernel.file) else project.language,
    )
    doubts = (*doubts_of(project.compiled, project.folder or project.beside), *unnamed, *first.doubts)
    spec = host_spec(replace(first, include=[*headers, *first.include], doubts=doubts))
    return replace(spec, beside={kernel.file: kernel.beside}) if kernel.beside else spec


def _kernel(project: Project, source: Opened) -> _Kernel:
    reader, file = source.reader, project.name
    entry, outlined = project.entry, None
    if project.loop is not None:
        outlined = _outlined(reader, entry, project.loop)
        entry, reader = outlined.entry, reader.with_text(outlined.text)
    function = chosen(reader, reader.files[0].text, project.path.name, entry)
    if not function.template:
        return _Kernel(function=function.with_names(), reader=reader, file=file, outlined=outlined)
    name, text, reader = _instance(reader, function.with_names(), project.path.name)
    function = reader.defined(name)[0]
    return _Kernel(
        function=function.with_names(),
        reader=reader,
        file=f"{project.path.stem}_instance{project.path.suffix}",
        beside=f'#include "{project.path.name}"\n\n{text}',
    )


def _first_kernel(project: Project, kernel: _Kernel, source: Opened) -> FirstKernel:
    """The kernel with what it needs beside its own text."""
    function, reader, outlined = kernel.function, kernel.reader, kernel.outlined
    exposed = reader.exposing(function.name)
    symbol = str(function.tree.get("mangledName") or function.name)
    include = [project.beside / each for each in reader.include]
    further = further_sources(project.path, exposed, symbol, include)
    places = map(str, (*further.include, *(f.parent for f in further.files)))
    files = (*reader.files, *map(read_source, further.files))
    lookup = function_lookup(replace(reader, files=files, include=(*reader.include, *places)))
    whole = with_globals(declared(function, exposed, lookup), lookup, exposed, further.allocated)
    everything = source.everything if outlined is None else f"{source.everything}\n{outlined.opening}"
    flat, left_out = without_what_none_fills(flattened(whole.function, whole.lookup), everything)
    flat = named_from_outside(flat, reader)
    flat = replace(flat, function=described(reader.resolved(flat.function), reader, flat))
    callers = {name for each in files for name in callers_of(each.text, function.name)}
    values = call_values(function, filter(None, map(lookup, sorted(callers))))
    return FirstKernel(
        file=kernel.file,
        flat=flat,
        findings=examine(flat.function, flat.lookup),
        macros=replace(macros_of(reader.files[0].text), missing=tuple(reader.macros)),
        include=list(map(project.written, further.include)),
        sources=list(map(project.written, further.files)),
        doubts=(*whole.doubts, *left_out, *further.doubts),
        variables=whole.names,
        flags=whole.flags,
        # The older dialect where the source needs it.
        defines=(*project.flags, *({OLD_DIALECT} & {*reader.flags} - {*project.flags})),
        kernel=None if outlined is None else f"{outlined.function}, loop: {project.loop}",
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
