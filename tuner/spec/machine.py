"""What a spec needs of this machine: its backend, searcher, flags, and an entry that agrees with it.

Never asked about a recorded run, which has to load anywhere. May not read the file system but through clang.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from tuner.core.errors import MachineError, UsageError
from tuner.core.protocols import Backend
from tuner.core.types import Task, Variant
from tuner.evaluators import registry as backends
from tuner.evaluators.host.flags import meaning_to_clang
from tuner.evaluators.host.openmp import find_openmp
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.module import SPIRV
from tuner.search import proposers
from tuner.search import registry as searchers
from tuner.spec.agreement import check_entry, check_template, defined_function
from tuner.spec.build_compilers import reading_flags
from tuner.spec.cuda_checks import check_cuda_arguments
from tuner.spec.element_checks import check_elements, refuse_structures
from tuner.spec.member_checks import check_wrapped, flat_of
from tuner.spec.models import ArgumentModel, SpecModel
from tuner.spec.modules import check_module
from tuner.spec.parcel_checks import check_parcels
from tuner.spec.reading.c_types import CType
from tuner.spec.reading.given_values import kept_values
from tuner.spec.reading.signature import Function, SourceReader
from tuner.spec.sections import NOT_YET
from tuner.spec.tunables import Tunables
from tuner.spec.variable_checks import check_variables
from tuner.spec.yaml_places import Path as KeyPath
from tuner.spec.yaml_places import View, suggestion

__all__ = [
    "check_flags",
    "check_live",
    "choose_backend",
    "host_reader",
    "moved_pointers",
    "opencl_reader",
    "passes_lacking",
    "passes_missing",
    "unsaid_return",
]

_BACKENDS = {
    "c": "host",
    "c++": "host",
    "opencl": "opencl",
    "spirv": "opencl",
    "cuda": "cuda",
    "recorded": "recorded",
}
_TAKES = {"host": "C and C++", "opencl": "OpenCL C and SPIR-V", "cuda": "CUDA", "recorded": "recorded spaces"}


def choose_backend(model: SpecModel, language: str, view: View, *, live: bool) -> str:
    """The backend that the spec names, or its language's own.

    Args:
        model: of the spec.
        language: of the kernel.
        view: for places.
        live: whether it has to be installed here; a recorded run's need not be.

    Raises:
        SpecError: a backend that takes another language, or is not installed.
    """
    backend = model.backend or _BACKENDS[language]
    if backend in _TAKES and backend != _BACKENDS[language]:
        path: KeyPath = ("backend",) if model.backend else ("kernel", "source")
        raise view.error(
            path,
            f"the {backend} backend takes {_TAKES[backend]}, not {language}",
            "correct backend or source",
        )
    if live and backend not in backends.names():
        path = ("backend",) if model.backend else ("kernel", "source")
        if backend in _BACKENDS.values():
            hint = "only the host backend, for C and C++, is installed"
            raise view.error(path, f"the {backend} backend is {NOT_YET}", hint)
        known = backends.names()
        hint = suggestion(backend, known, "installed are " + ", ".join(known))
        raise view.error(path, f"there is no backend {backend!r}", hint)
    return backend


def passes_lacking(backend: str, target: str, language: str, tunables: Tunables) -> tuple[str, ...]:
    """What to say where passes are asked for and the device's compiler takes none; the rest is tuned."""
    if not tunables.passes_asked or backend == "host":
        return ()
    made = backends.create(backend)
    reason = passes_missing(backend, target, language)
    if not reason and made.pass_catalogue(target) is not None:
        return ()
    why = f" ({reason})" if reason else ""
    return (
        f"space.passes: pass orders are not available on the {backend} backend here{why}; the rest is tuned",
    )


def passes_missing(backend: str, target: str, language: str) -> str:
    """What pass orders of a kernel lack here, as its backend says; empty where it says nothing."""
    made = backends.create(backend)
    of_language = getattr(made, "passes_missing_for", None)
    if callable(of_language):
        return str(of_language(target, language))
    missing = getattr(made, "passes_missing", None)
    return str(missing(target)) if callable(missing) else ""


def check_live(model: SpecModel, task: Task, tunables: Tunables, view: View) -> tuple[str, ...]:
    """What a look at this machine can refuse: searcher, flags, and an entry that is not what the spec says.

    Returns:
        What a person should know of an entry that agrees.

    Raises:
        SpecError: any of these, with its place.
        BaselineError: clang does not accept the source.
        MachineError: there is no clang.
    """
    _check_name(model.search.strategy, "searcher", searchers.names(), ("search", "strategy"), view)
    for i, name in enumerate(model.search.proposers):
        _check_name(name, "proposer", proposers.names(), ("search", "proposers", i), view)
    if task.backend in ("host", "opencl"):
        _refuse_constants(task, view)
    if task.backend not in ("host", "opencl", "cuda"):
        refuse_structures(task, task.arguments, view)
    if task.kernel.openmp:
        _check_openmp(task, view)
    if task.backend != "host":
        check_flags(backends.create(task.backend), tunables)
        if task.kernel.language == SPIRV:
            check_module(task, tunables, view)
        if task.kernel.language == "opencl":
            _check_opencl(task, tunables, view)
        notes: tuple[str, ...] = ()
        if task.backend == "cuda":
            notes = check_cuda_arguments(task, tunables, model.arguments or [], view)
        if task.kernel.parcels:
            notes += check_parcels(task, tunables, model.arguments or [], view)
        return notes
    notes = _crowded(task)
    function, unlisted = _host_entry(task, tunables, view, model.arguments or [])
    kept = kept_values(function, task.kernel.variant.files[0].text)
    notes = (*notes, *unlisted, *(f"kernel: {each}" for each in kept))
    returned = function.returns
    if returned is None or task.kernel.returns is not None:
        return notes
    cure = f"; write returns: {returned.dtypes[0]} under kernel" if _is_number(returned) else ""
    return (*notes, f"kernel: {task.kernel.entry} returns `{returned.text}`, which is not verified{cure}")


def _crowded(task: Task) -> tuple[str, ...]:
    """That threads have to share processors, so that each waits for the others."""
    threads, there = task.measure.threads, len(os.sched_getaffinity(0))
    if threads <= there:
        return ()
    return (
        f"measure.threads: {threads} threads share {there} processor{'s' if there > 1 else ''} here, so times say "
        f"little; {there} at most have one each",
    )


def _check_openmp(task: Task, view: View) -> None:
    path: KeyPath = ("kernel", "openmp")
    if task.backend != "host":
        hint = "leave out openmp"
        raise view.error(path, f"kernel.openmp is for C and C++, not for {task.backend}", hint, key=True)
    try:
        find_openmp(find_toolchain())
    except MachineError as error:
        raise view.error(path, error.message, error.hint, key=True) from None


def _refuse_constants(task: Task, view: View) -> None:
    for i, argument in enumerate(task.arguments):
        if argument.constant:
            message = (
                f"argument {argument.name!r} is constant, which the {task.backend} backend does not have"
            )
            hint = "remove constant: a pointer is passed"
            raise view.error(("arguments", i, "constant"), message, hint, key=True)


def unsaid_return(task: Task, tunables: Tunables) -> tuple[str, str | None]:
    """What a function of the processor returns where the spec does not say it; an empty text where it does.

    Returns:
        The type's text, and the dtype as which it can be passed on.

    Raises:
        UsageError: a type that a call cannot pass on without being told, or through memory.
        BaselineError: clang does not accept the source.
        MachineError: there is no clang.
    """
    if task.kernel.returns is not None:
        return "", None
    kernel = task.kernel
    if kernel.passed:
        own = replace(host_reader(task, tunables, tunables.view), files=kernel.variant.files)
        returned = defined_function(own, kernel.function, len(kernel.passed), tunables.view).returns
    else:
        reader = host_reader(task, tunables, tunables.view)
        returned = check_entry(reader, kernel.entry, task.parameters, None, tunables.view).returns
    if returned is None:
        return "", None
    if not (returned.pointer or (_is_number(returned) and returned.dtypes[0] != "complex128")):
        raise UsageError(
            f"{task.kernel.function} returns `{returned.text}`, which cannot be passed on to the application",
            "give it a wrapper in the application that returns through a pointer",
        )
    if returned.pointer:
        return returned.text, "uint64"
    # Both halves of such a number come back in one register.
    return returned.text, "float64" if returned.dtypes[0] == "complex64" else returned.dtypes[0]


def moved_pointers(task: Task, tunables: Tunables, variant: Variant) -> tuple[str, ...]:
    """The members that are pointers and that a function leaves pointing elsewhere, or may.

    Args:
        task: of a function that takes structures.
        tunables: of its spec.
        variant: the sources to look at.

    Raises:
        BaselineError: clang does not accept them.
        MachineError: there is no clang.
    """
    kernel = task.kernel
    reader = replace(host_reader(task, tunables, tunables.view), files=variant.files)
    function = defined_function(reader, kernel.function, len(kernel.passed), tunables.view)
    flat = flat_of(function, reader, [one.name for one in kernel.passed])
    moved = (m for m in flat.members.values() if m.written and m.kind.pointer and not m.extents)
    return tuple(sorted(".".join(member.trail) for member in moved))


def _is_number(returned: CType) -> bool:
    return bool(returned.dtypes) and not returned.pointer and returned.width == 1


def _host_entry(
    task: Task, tunables: Tunables, view: View, given: Sequence[ArgumentModel]
) -> tuple[Function, tuple[str, ...]]:
    """The kernel as the source has it, and what a person should know of it."""
    kernel, reader = task.kernel, host_reader(task, tunables, view)
    check_variables(reader, task, given, view)
    if kernel.flattened:
        return check_wrapped(reader, task, [one for one in given if not one.variable], view)
    if kernel.wrapped:
        check_template(replace(reader, files=kernel.variant.files), kernel.wrapped, reader, view)
    function = check_entry(reader, kernel.entry, task.parameters, kernel.returns, view)
    check_elements(reader, function, task.parameters, view)
    return function, ()


def host_reader(task: Task, tunables: Tunables, view: View) -> SourceReader:
    """Of the sources as a compiler gets them in the first configuration."""
    kernel = task.kernel
    flags = [*meaning_to_clang(kernel.compiler, kernel.language, kernel.folder)]
    for group, choices in tunables.flags.items():
        for i, choice in enumerate(choices):
            with view.at(("space", "flags", group, i)):
                found = reading_flags(choice, kernel.compiler, kernel.folder)
            if i == 0:
                flags += found
    if kernel.flattened and kernel.language == "c++":
        flags.append("-fno-access-control")
    if kernel.openmp:
        flags += ["-fopenmp", "-idirafter", find_openmp(find_toolchain()).include]
    return SourceReader(
        files=kernel.compiled().files,
        language=kernel.language,
        folder=kernel.folder,
        include=kernel.include,
        macros={p.name: p.default for p in tunables.parameters if p.macro},
        flags=tuple(flags),
    )


def opencl_reader(task: Task, tunables: Tunables) -> SourceReader:
    """Of the sources as clang reads OpenCL in the first configuration."""
    flags = [f for choices in tunables.flags.values() for f in shlex.split(choices[0])]
    return SourceReader(
        files=task.kernel.variant.files,
        language="opencl",
        folder=task.kernel.folder,
        include=task.kernel.include,
        macros={p.name: p.default for p in tunables.parameters if p.macro},
        flags=tuple(f for f in flags if f.startswith(("-D", "-cl-std="))),
    )


def _check_opencl(task: Task, tunables: Tunables, view: View) -> None:
    if task.launch is None:
        hint = 'for example launch: {grid: ["ceil(n / 64)"], block: [64]}'
        raise view.error((), "an OpenCL kernel needs a launch", hint)
    shared = task.launch.shared_bytes is not None
    reader = opencl_reader(task, tunables)
    function = check_entry(
        reader, task.kernel.entry, task.arguments, task.kernel.returns, view, shared=shared
    )
    check_elements(reader, function, task.arguments, view)


def _check_name(name: str, kind: str, known: Sequence[str], path: KeyPath, view: View) -> None:
    if name not in known:
        hint = suggestion(name, known, "one of " + ", ".join(known))
        raise view.error(path, f"there is no {kind} {name!r}", hint)


def check_flags(backend: Backend, tunables: Tunables) -> None:
    """Every choice of every flag group can be honoured, or a ``SpecError`` says which cannot, and where it stands."""
    for group, choices in tunables.flags.items():
        for i, choice in enumerate(choices):
            with tunables.view.at(("space", "flags", group, i)):
                backend.check_flags(shlex.split(choice))
