"""``tuner record --build``: records what nothing can stand before as it is: loops, static and inlined functions.

The application is built in a copy of its folder, by its own command, with the kernel kept a function of its own; then
it is recorded as any other. May not change the application's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath

from tuner.core.errors import UsageError
from tuner.core.passing import Layout
from tuner.core.protocols import NamesFunctions
from tuner.core.source_text import source_bytes, source_text, with_changes
from tuner.core.types import Source, Variable
from tuner.driver.applications.builds import Rebuilt, source_below, tree_with
from tuner.driver.applications.functions import as_given, function_library, head_of
from tuner.driver.applications.included_files import is_source
from tuner.driver.applications.recorded_specs import RecordReport, check_output, recordings_of, report_for
from tuner.driver.applications.recording import capture
from tuner.driver.applications.seen_compilers import compiler_notes
from tuner.driver.applications.trees import Tree
from tuner.driver.applications.watched_builds import build_watched
from tuner.evaluators import registry as backends
from tuner.evaluators.host.symbols import entry_symbol, variable_symbol
from tuner.recorders.recordings.capture import Application
from tuner.recorders.recordings.executables import functions_with, is_program, variables_of
from tuner.recorders.recordings.function import Interposed
from tuner.recorders.recordings.function_calls import recording_library
from tuner.spec.load import LoadedSpec
from tuner.spec.machine import host_reader, unsaid_return
from tuner.spec.reading.nodes import begin_of
from tuner.spec.recorded.workload import FUNCTIONS

__all__ = ["record_rebuilt", "recordable"]

_OWN_FUNCTION = """\
#ifdef __clang__
__attribute__((used, noinline, patchable_function_entry(8)))
#else
__attribute__((used, noipa, patchable_function_entry(8)))
#endif
"""
"""Keeps compilers from giving callers any other code than a call with all arguments; a jump fits into its beginning."""
_APART = re.compile(rb"(\xf3\x0f\x1e\xfa)?(\x90{8}|\x0f\x1f\x84)")
"""How the code of such a function begins: of those of one name in several files only the kernel's does.

gcc fills the room with eight short instructions, clang with a long one; ``endbr64`` may stand before either.
"""
_TABLE = "tuner_recorded_variables"
_POINTER_BYTES = 8
_ELF = b"\x7fELF"
_WAY = "with the kernel as a function of its own"


def record_rebuilt(
    spec: LoadedSpec,
    application: Rebuilt,
    *,
    instances: int,
    aside: bool = False,
    silent: bool = False,
    output: Path | None = None,
) -> RecordReport:
    """Builds an application in a copy of its folder, runs it there, and records calls of a spec's kernel.

    Args:
        spec: of a function or a loop in C or C++.
        application: how it is built and run; nothing of it is judged.
        instances: the most recordings.
        aside: whether the application's standard output goes to standard error.
        silent: whether it is thrown away.
        output: for a copy of the spec that takes the recordings, in the spec's folder; ``None`` for none.

    Raises:
        UsageError: the kernel's source is not in the folder; the build fails; nothing could be recorded.
        SpecError: an extent that cannot be computed from the arguments.
        MachineError: commands cannot be run in copies here, or a recording cannot be written.
    """
    kernel, folder = spec.task.kernel, application.folder.resolve()
    if kernel.language not in FUNCTIONS:
        raise UsageError(f"kernels of {kernel.language} need no build to be recorded", "leave out --build")
    if not application.command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    check_output(spec, output)
    source, text = recordable(spec)
    names = {PurePosixPath(name).name: name for name in spec.files}
    path = source_below(folder, source, Path(kernel.folder, names[source.name]), spec.path)
    made = source_bytes(with_changes(source_text(path.read_bytes()), text))
    unsaid, returns = unsaid_return(spec.task, spec.tunables)
    with tempfile.TemporaryDirectory(prefix="tuner-record-") as name:
        scratch = Path(name)
        with tree_with(application, scratch / "copy", {path.relative_to(folder).as_posix(): made}) as tree:
            cure = "run in --tree, it has to build by paths below that"
            seen = build_watched(tree, application, _WAY, [path], scratch, cure=cure)
            function = _function(spec, tree, application, returns)
            library = function_library(
                recording_library(function, blocks=True), f"record-{kernel.function}", function.symbol
            )
            (scratch / "raw").mkdir()
            ran, found = capture(
                Application(
                    command=application.command,
                    libraries=(tree.readable(library),),
                    aside=aside,
                    silent=silent,
                    around=tree.around(application.here),
                    bound=function.keeps_memory,
                ),
                [kernel.function],
                recordings_of(spec),
                instances=instances,
                function=True,
                scratch=scratch / "raw",
            )
    report = report_for(spec, ran, found, unsaid=unsaid, output=output)
    return replace(report, notes=(*report.notes, *compiler_notes(spec, seen.get(path), path.name, output)))


def recordable(spec: LoadedSpec) -> tuple[Source, str]:
    """The kernel's file as given, and with the kernel as a function that compilers leave as it is.

    Raises:
        UsageError: the kernel is an instance of a template, or a variable that it works on is one of each thread.
    """
    kernel = spec.task.kernel
    first = kernel.variant.files[0]
    reader = replace(host_reader(spec.task, spec.tunables, spec.tunables.view), files=kernel.variant.files)
    if kernel.variables:
        _require_shared(kernel.variables, reader.llvm())
    if spec.loop is not None:
        text = spec.loop.with_mark(_OWN_FUNCTION) + _table(kernel.variables)
        return Source(name=first.name, text=spec.loop.given), text
    if kernel.wrapped and not kernel.flattened:
        cure = "record a function that calls it"
        raise UsageError(f"{kernel.wrapped} is a template, of which programs have several instances", cure)
    begins = {begin_of(f.tree) for f in reader.functions(kernel.function) if f.defined}
    place = begins.pop() if len(begins) == 1 else None
    if place is None:
        raise UsageError(f"{kernel.function} is not defined once in {first.name}", "name another")
    data = first.data
    text = (
        f"{source_text(data[:place])}\n{_OWN_FUNCTION}{source_text(data[place:])}{_table(kernel.variables)}"
    )
    return first, text


def _require_shared(variables: Sequence[Variable], llvm: str) -> None:
    """Refuses variables that are thread-local: their address is another in each thread."""
    apart = set(re.findall(r"^@([\w.$]+) =(?: \w+)* thread_local\b", llvm, re.MULTILINE))
    for variable in variables:
        if variable_symbol(apart, variable.name) is not None:
            cure = "record a function that takes its address"
            raise UsageError(f"{variable.name} is thread-local: it lies elsewhere in each thread", cure)


def _function(spec: LoadedSpec, tree: Tree, application: Rebuilt, returns: str | None) -> Interposed:
    """The kernel as it is in what was built.

    Raises:
        UsageError: it is not in any program there, or what it works on is not.
    """
    task = spec.task
    kernel = task.kernel
    for file in _built(tree, application):
        apart = functions_with(file, _APART)
        symbol = entry_symbol(apart, kernel.function)
        if symbol is not None:
            break
    else:
        raise UsageError(
            f"no program that {application.build!r} makes has the function {kernel.function}",
            f"it has to compile {kernel.variant.files[0].name}, and neither strip the program nor use -flto",
        )
    if not is_program(file):
        message = f"{kernel.function} is in {file.name}, which is no dynamically linked program"
        raise UsageError(message, f"link {kernel.variant.files[0].name} into the program, without -static")
    found, *others = apart[symbol]
    if others:
        name, message = kernel.variant.files[0].name, f"{file.name} has {kernel.function} several times"
        once = f"compile {name} once" if is_source(PurePath(name)) else f"move it from {name} into one source"
        raise UsageError(message, f"{once}, or record another program")
    backend = backends.create(task.backend)
    layout = Layout()
    if isinstance(backend, NamesFunctions):
        layout = backend.layout(task, as_given(spec))
    inside = file.is_relative_to(tree.copy)
    there = tree.original / file.relative_to(tree.copy) if inside else file
    return Interposed(
        entry=kernel.function,
        symbol=symbol,
        arguments=task.own_arguments,
        passed=kernel.passed,
        layout=layout,
        returns=kernel.returns or returns,
        sizes=task.problems[0].sizes,
        own=replace(head_of(found, kernel.function), path=str(there)),
        variables=_variables(spec, file),
    )


def _built(tree: Tree, application: Rebuilt) -> Iterator[Path]:
    """The program that the command names, where it lies now, and then all others in the copy."""
    word = application.command[0]
    named = str(application.here / word) if os.sep in word else shutil.which(word)
    first = None
    if named is not None:
        first = tree.in_copy(Path(named)).resolve()
        if first.is_file():
            yield first
    for path in sorted(tree.copy.rglob("*")):
        if path != first and path.is_file() and not path.is_symlink() and os.access(path, os.X_OK):
            with path.open("rb") as file:
                if file.read(len(_ELF)) == _ELF:
                    yield path


def _table(variables: Sequence[Variable]) -> str:
    """The addresses of variables as a variable of its own, at the end of a source: compilers keep what it names."""
    if not variables:
        return ""
    addresses = ", ".join(f"(void *)&{variable.name}" for variable in variables)
    return f"""
#ifndef {_TABLE.upper()}
#define {_TABLE.upper()}
#ifdef __cplusplus
extern "C" {{
#endif
#ifdef __has_attribute
#if __has_attribute(retain)
__attribute__((retain))
#endif
#endif
__attribute__((used, weak)) void *{_TABLE}[] = {{{addresses}}};
#ifdef __cplusplus
}}
#endif
#endif
"""


def _variables(spec: LoadedSpec, file: Path) -> Mapping[int, tuple[int, bool]]:
    """Where the addresses of the variables lie that stand for arguments, by the arguments' numbers."""
    if not spec.task.kernel.variables:
        return {}
    arguments = {argument.name: i for i, argument in enumerate(spec.task.own_arguments)}
    tables = variables_of(file).get(_TABLE, ())
    if len(tables) != 1:
        cure = "build it without -flto and without -Wl,--gc-sections"
        raise UsageError(f"{file.name} has no single list of the global variables that are arguments", cure)
    ((begin, _),) = tables
    return {
        arguments[variable.name]: (begin + number * _POINTER_BYTES, variable.pointer)
        for number, variable in enumerate(spec.task.kernel.variables)
    }
