"""Writes a first spec from a kernel's signature and what its source does with its arguments.

Guesses, and says in comments what it guessed. May not run or optimise the kernel.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.core.types import Source
from tuner.evaluators.host.openmp import as_if_openmp
from tuner.spaces.source.outlined import Outlined
from tuner.spec.doubts import has_openmp
from tuner.spec.first.compile_commands import Compiled, compiled_as
from tuner.spec.first.cuda import init_cuda
from tuner.spec.first.cuda_files import cuda_files
from tuner.spec.first.device import MISSING_BLOCK, device_spec
from tuner.spec.first.findings import examine
from tuner.spec.first.further_sources import further_sources
from tuner.spec.first.global_variables import with_globals
from tuner.spec.first.header_folders import header_folders
from tuner.spec.first.host import FirstKernel, host_spec
from tuner.spec.first.host_structures import named_from_outside, without_what_none_fills
from tuner.spec.first.own_builds import build_compiler, doubts_of, macro_flags, path_from
from tuner.spec.models import KernelModel
from tuner.spec.reading.c_types import ROWS
from tuner.spec.reading.declarations import declared
from tuner.spec.reading.flattening import Flat, flattened
from tuner.spec.reading.lookup import entries_of, function_lookup, functions_of
from tuner.spec.reading.macros import macros_of
from tuner.spec.reading.outlining import loop_lines, no_loop, outline
from tuner.spec.reading.signature import Function, SourceReader, walk
from tuner.spec.reading.structures import structure
from tuner.spec.reading.templates import Instance, instance_of
from tuner.spec.sources import folder_reader, language_of, out_of_reach, read_sources
from tuner.spec.yaml_places import Document, View, closest

__all__ = ["FirstSpec", "first_spec", "init_spec"]

_MOST_MISSING = 16
_OLD = re.compile(r"\[-Wimplicit-(?:int|function-declaration)\]")
_OLD_DIALECT = "-std=gnu89"
_UNDECLARED = re.compile(r"use of undeclared identifier '([A-Z][A-Z0-9_]*)'")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSpec:
    """A first spec.

    Attributes:
        text: of the spec.
        beside: texts by the names of further files that it needs beside it.
    """

    text: str
    beside: Mapping[str, str] = field(default_factory=dict)


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
    beside_it = path.resolve().parent
    name = path.name if folder is None else path_from(folder, path)
    if compiled is None and language in ("c", "c++"):
        compiled = compiled_as(path, commands)
    include = [*include, *(compiled.include if compiled is not None else ())]
    include += header_folders(path, [Path(each) for each in include])
    headers = [path_from(folder or beside_it, Path(each)) for each in include]
    defines = (*(compiled.flags if compiled is not None else ()), *macro_flags(define, language))
    defines += () if standard is None else (f"-std={standard}",)
    if language not in ("c", "c++"):
        if loop is not None:
            raise UsageError("--loop is for C and C++", "name the function alone")
        build_compiler(compiler, None, language, openmp=False)
    if language == "cuda":
        found = cuda_files(path, entry, [Path(each) for each in include])
        if language_of(found.source.name) is None:
            hint = "name the .cu that includes it, or write one that does"
            raise UsageError(f"{path.name} is compiled only as a part of others", hint)
        name = path_from(folder or beside_it, found.source)
        text = init_cuda(
            name, found.text, entry=entry, include=headers, headers=found.headers, hosts=found.hosts
        )
        return FirstSpec(text=text)
    if language not in ("c", "c++", "opencl"):
        raise UsageError(
            f"{path.name} is no C, C++, OpenCL or CUDA", "write the kernel as a function of one of these"
        )
    view = View(document=Document(data={}, file=str(path), values={}, keys={}), data={})
    try:
        seen = [path_from(beside_it, Path(each)) for each in include]
        model = KernelModel(source=path.name, entry=entry or "kernel", include=seen)
        sources = read_sources(model, view, folder_reader(beside_it), str(beside_it))
    except SpecError as error:
        # There is no spec yet that a path could be relative to.
        hint = error.hint if error.hint.startswith("did you mean") or path.exists() else "check the path"
        raise UsageError(error.message, hint) from None
    for far in out_of_reach(sources, beside_it):
        needed = path_from(folder or beside_it, (beside_it / far).parent)
        if needed.startswith("..") and needed not in headers:
            headers.append(needed)
    openmp = language != "opencl" and any(map(has_openmp, sources.files.values()))
    command, unnamed = build_compiler(compiler, compiled, language, openmp=openmp)
    reader = SourceReader(
        files=sources.variant.files,
        language=language,
        folder=str(beside_it),
        include=sources.include,
        flags=(*(as_if_openmp() if openmp else ()), *defines),
    )
    text = sources.variant.files[0].text
    reader = _with_missing(reader, text)
    defines += tuple(flag for flag in reader.flags if flag == _OLD_DIALECT and flag not in defines)
    outlined = None if loop is None else _outlined(reader, entry, loop)
    if outlined is not None:
        first, *others = reader.files
        text, entry = outlined.text, outlined.entry
        reader = replace(reader, files=(replace(first, text=text), *others))
    function = _choose(reader, text, path.name, entry)
    file, beside = name, {}
    if function.template:
        instance, reader = _instance(reader, _named(function), path.name)
        function = next(f for f in reader.functions(instance.name) if f.defined)
        file = f"{path.stem}_instance{path.suffix}"
        beside[file] = f'#include "{path.name}"\n\n{instance.text}'
        text += "\n" + instance.text
        if name != path.name:
            # What the instance includes lies elsewhere than the instance, which lies beside the spec.
            headers = [os.path.dirname(name), *headers]
    function = _named(function)
    everything = "\n".join([*sources.files.values(), *([] if outlined is None else [outlined.opening])])
    if language == "opencl":
        function = _described(function, everything, language)
        return FirstSpec(
            text=device_spec(file, function, text, missing=tuple(reader.macros), include=headers)
        )
    symbol = function.tree.get("mangledName") or function.name
    exposed = reader.exposing(function.name)
    further = further_sources(path, exposed, str(symbol), [beside_it / each for each in reader.include])
    added = tuple(Source(name=f.name, text=_read(f)) for f in further.files)
    places = tuple(map(str, (*further.include, *(f.parent for f in further.files))))
    lookup = function_lookup(
        replace(reader, files=(*reader.files, *added), include=(*reader.include, *places))
    )
    whole = with_globals(declared(function, exposed, lookup), lookup, exposed, further.allocated)
    flat, left_out = without_what_none_fills(flattened(whole.function, whole.lookup), everything)
    flat = named_from_outside(flat, reader)
    flat = replace(flat, function=_described(reader.resolved(flat.function), everything, language, flat))
    macros = replace(macros_of(text), missing=tuple(reader.macros))
    return FirstSpec(
        text=host_spec(
            FirstKernel(
                file=file,
                flat=flat,
                findings=examine(flat.function, flat.lookup),
                macros=macros,
                include=[*headers, *(path_from(folder or beside_it, each) for each in further.include)],
                sources=[path_from(folder or beside_it, each) for each in further.files],
                doubts=(
                    *doubts_of(compiled, folder or beside_it),
                    *unnamed,
                    *whole.doubts,
                    *left_out,
                    *further.doubts,
                ),
                variables=whole.names,
                flags=whole.flags,
                defines=defines,
                threads=len(os.sched_getaffinity(0)) if openmp else None,
                kernel=None if outlined is None else f"{outlined.function}, loop: {loop}",
                values={} if outlined is None else outlined.values,
                compiler=command,
                reassociate=reassociate,
            )
        ),
        beside=beside,
    )


def _outlined(reader: SourceReader, entry: str | None, loop: int) -> Outlined:
    """The loop at a line of the first file, of any function where none is named."""
    if entry is not None:
        return outline(reader, entry, loop)
    text = reader.files[0].text
    above = "".join(text.splitlines(keepends=True)[:loop])
    for name in reversed(functions_of(text)):
        if re.search(rf"\b{name}\b", above):
            found = [f for f in reader.functions(name) if f.defined]
            if any(loop in loop_lines(f, text) for f in found):
                return outline(reader, found[0].qualified, loop)
            if any(loop_lines(f, text, loop) for f in found):
                raise no_loop(found, text, loop, "begins")
    raise UsageError(f"no loop begins at line {loop}", "name the line of its for, while or do")


def _instance(reader: SourceReader, template: Function, file: str) -> tuple[Instance, SourceReader]:
    """An instance of a template, and the reader of a source that has it too."""
    first, *others = reader.files
    instance = instance_of(template, first.text)
    if instance is not None:
        longer = replace(first, text=first.text + "\n" + instance.text)
        reader = replace(reader, files=(longer, *others))
        try:
            reader.functions(instance.name)
            return instance, reader
        except BaselineError:
            pass
    raise UsageError(
        f"{template.name!r} in {file} is a template that no plain instance could be made of",
        'write an extern "C" function that calls it with types of your choice, and name that',
    )


def _described(function: Function, text: str, language: str, flat: Flat | None = None) -> Function:
    """The function with arrays of structures as arrays of numbers, and rows as what they are rows of.

    Raises:
        UsageError: an argument is of a type that no spec can describe.
    """
    hint = "write a function that takes numbers and pointers to numbers and calls it"
    made = function.returns
    if flat is not None and made is not None and not (made.dtypes or made.pointer or made.odd):
        raise UsageError(
            f"{function.name} returns `{made.text}`, and a spec has numbers", hint + ", and stores that"
        )
    parameters = []
    for name, kind in function.parameters:
        member = None if flat is None else flat.members.get(name)
        if flat is not None and kind.odd == ROWS and kind.text.count("*") == 2 and kind.dtypes:
            parameters.append((name, replace(kind, odd="", rows=True)))
            continue
        shown = f"argument {name}" if member is None else f"member {'.'.join(member.trail)}"
        found = None if kind.odd or kind.dtypes else structure(kind.base, text, language)
        unused = flat is not None and (name,) in flat.structures
        if unused and found is not None and not (found.element and kind.pointer):
            raise UsageError(
                f"argument {name} of {function.name} is a structure of which no member is used here: `{kind.text}`",
                "write a spec with `struct` and the `members` that other files use",
            )
        if kind.odd or not (kind.dtypes or kind.pointer):
            what = kind.odd or "a type that no spec can describe"
            raise UsageError(f"{shown} of {function.name} is {what}: `{kind.text}`", hint)
        if not kind.dtypes and kind.base not in ("void", ""):
            if found is None or not found.element:
                members = "" if found is None or not found.types else f" ({', '.join(found.types)})"
                raise UsageError(
                    f"{shown} of {function.name} points to structures{members}, and a spec has arrays of "
                    f"one type of number: `{kind.text}`",
                    "write a function that takes an array for each member and calls it, or give all members one type",
                )
            kind = replace(kind, base=found.element, members=found.count)
        parameters.append((name, kind))
    return replace(function, parameters=tuple(parameters))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name a source file") from None


def _with_missing(reader: SourceReader, text: str) -> SourceReader:
    """The reader with a value for macros that C sources use and that only a build defines, or the older dialect.

    What C has no longer since 1999 (types and declarations left out) compilers other than clang still take.
    """
    names = functions_of(text)
    for _ in range(_MOST_MISSING if names else 0):
        try:
            reader.functions(names[0])
            break
        except BaselineError as error:
            if _OLD.search(error.message) and reader.language == "c" and _OLD_DIALECT not in reader.flags:
                reader = replace(reader, flags=(*reader.flags, _OLD_DIALECT))
                continue
            missing = _UNDECLARED.search(error.message)
            if missing is None or missing[1] in reader.macros:
                raise
            value = MISSING_BLOCK if reader.language == "opencl" else 1
            reader = replace(reader, macros={**reader.macros, missing[1]: value})
    return reader


def _choose(reader: SourceReader, text: str, file: str, entry: str | None) -> Function:
    names = functions_of(text)
    if entry is not None:
        found = [f for f in reader.exposing(entry).functions(entry) if f.defined]
        if not found:
            if entry in names:
                text = f"{file} defines {entry!r} only under a condition that does not hold here"
                raise UsageError(text, "name the source that is compiled, or take the condition away")
            named = entries_of(text)
            near = closest(entry, named)
            hint = f"did you mean {near!r}?" if near else "it has " + (", ".join(named[:8]) or "no functions")
            raise UsageError(f"{file} has no function {entry!r}", hint)
        if found[0].hidden:
            hint = "write static itself before it, outside of namespaces without a name: then it can be tuned"
            raise UsageError(f"{entry!r} is hidden from other files by a macro or a namespace", hint)
        if found[0].variadic:
            hint = "write a function that takes its arguments one by one"
            raise UsageError(f"{entry!r} takes a list of arguments of any length", hint)
        if reader.language == "opencl" and not found[0].kernel:
            raise UsageError(f"{entry!r} is no kernel", "write __kernel before it, or name another function")
        return found[0]
    functions = [f for name in names for f in reader.functions(name) if f.defined]
    templates = {f.name: f for f in functions if f.template}
    callable_ = {f.name: f for f in functions if not f.hidden and not f.template and f.name != "main"}
    if reader.language == "opencl":
        callable_ = {name: f for name, f in callable_.items() if f.kernel}
    if len(callable_) == 1:
        return next(iter(callable_.values()))
    if not callable_ and len(templates) == 1 and reader.language == "c++":
        return next(iter(templates.values()))
    if not callable_ and templates:
        raise UsageError(f"{file} has several templates", "choose with --entry: " + ", ".join(templates))
    static = {f.name: f for f in functions if f.hidden and not f.template}
    if not callable_ and static and reader.language != "opencl":
        return _choose(reader, text, file, _root(static, file).name)
    if not callable_:
        raise UsageError(f"{file} has no function that can be called from outside", "name another file")
    return _root(callable_, file)


def _root(functions: Mapping[str, Function], file: str) -> Function:
    """The one that leads to all the others; that is the kernel."""
    calls = {name: _called(f) & set(functions) for name, f in functions.items()}
    roots = [n for n in functions if not any(n in called for other, called in calls.items() if other != n)]
    if len(roots) == 1 and _reached(roots[0], calls) == set(functions):
        return functions[roots[0]]
    raise UsageError(f"{file} has several functions", "choose with --entry: " + ", ".join(functions))


def _called(function: Function) -> set[str]:
    return {
        str(node["referencedDecl"].get("name", ""))
        for node in walk(function.tree)
        if node.get("kind") == "DeclRefExpr" and isinstance(node.get("referencedDecl"), dict)
    }


def _reached(root: str, calls: Mapping[str, set[str]]) -> set[str]:
    reached, waiting = {root}, [root]
    while waiting:
        new = calls[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


def _named(function: Function) -> Function:
    """The function with a name for every argument."""
    parameters = tuple((n or f"argument{i + 1}", t) for i, (n, t) in enumerate(function.parameters))
    return replace(function, parameters=parameters)
