"""``tuner record``: runs an application with the recording library before its own, and writes what comes of it.

Joins the compiler, the recorders and the specs. May not judge candidates.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.resources import files as package_files
from pathlib import Path

from tuner.core.errors import FullDiskError, MachineError, UsageError
from tuner.core.protocols import NamesFunctions
from tuner.driver.applications.functions import as_given, function_library, function_of
from tuner.driver.applications.recorded_specs import (
    FOLDER,
    RecordReport,
    Taken,
    check_output,
    file_name,
    recordings_of,
    report_for,
    write_specs,
)
from tuner.evaluators import registry as backends
from tuner.evaluators.host.shared import shared_library
from tuner.recorders.recordings.capture import Application, Ran
from tuner.recorders.recordings.function_calls import recording_library
from tuner.recorders.recordings.raw_captures import RawCapture, read_raw, representatives
from tuner.spec.load import LoadedSpec
from tuner.spec.machine import unsaid_return

__all__ = [
    "HERE",
    "RecordReport",
    "application_of",
    "capture",
    "collect",
    "interposer",
    "nothing_found",
    "record_kernel",
    "record_kernels",
    "record_spec",
    "require_run",
    "scratch_folder",
]

HERE = ("this program",)
"""In the place of a command where the application is the process itself."""
_NOT_RUN = (126, 127)
"""The statuses of commands that run others and cannot."""
_PARTS = (
    *("common.c", "captures.c", "plan.c"),
    *("opencl_api.c", "opencl_text.c", "opencl_apply.c"),
    *("opencl_objects.c", "opencl_launches.c", "opencl_extensions.c"),
    *("cuda_api.c", "cuda_memory.c", "cuda_modules.c", "cuda_reach.c", "cuda_apply.c", "cuda_launches.c"),
    *("lookup.c", "embedded.c"),
)


def interposer() -> Path:
    """The library that stands before OpenCL and the CUDA driver, made where it is missing.

    Raises:
        MachineError: it cannot be made.
    """
    folder = package_files("tuner.recorders.recordings")
    parts = (folder.joinpath(name).read_text(encoding="utf-8") for name in _PARTS)
    return shared_library("\n".join(parts), "interposer")


def record_kernel(
    command: Sequence[str], kernel: str, folder: Path, *, instances: int, aside: bool = False
) -> RecordReport:
    """:func:`record_kernels` of one."""
    return record_kernels(command, [kernel], folder, instances=instances, aside=aside)


def record_kernels(
    command: Sequence[str], kernels: Sequence[str], folder: Path, *, instances: int, aside: bool = False
) -> RecordReport:
    """Captures launches of kernels in one run of the application, and writes a spec for each that tunes them.

    Programs that hold a kernel of the same name get a spec each. With several specs, an index
    says what each kernel's share of their time is, and the budgets are in proportion to it.

    Args:
        command: the application.
        kernels: their names.
        folder: for specs, sources, recordings and index.
        instances: the most recordings of each; launches that differ in geometry, scalars or sizes come first.
        aside: whether the application's standard output goes to standard error.

    Raises:
        UsageError: no such command, none of the kernels, or nothing that can be recorded.
        MachineError: the library cannot be made, or a recording not be written.
    """
    names = list(dict.fromkeys(kernels))
    application = application_of(command, aside=aside)
    ran, found = capture(application, names, folder / FOLDER, instances=instances)
    return write_specs(ran, found, names, folder, command=command)


def record_spec(
    command: Sequence[str],
    spec: LoadedSpec,
    *,
    instances: int,
    aside: bool = False,
    output: Path | None = None,
) -> RecordReport:
    """Captures launches of a spec's kernel beside it; arguments as :func:`record_kernel` and :func:`report_for`."""
    check_output(spec, output)
    kernel = spec.task.kernel
    library, unsaid, bound = None, "", False
    backend = backends.create(spec.task.backend)
    if isinstance(backend, NamesFunctions):
        unsaid, returns = unsaid_return(spec.task, spec.tunables)
        resolved = as_given(spec)
        symbol, layout = backend.symbol(spec.task, resolved), backend.layout(spec.task, resolved)
        function = function_of(spec.task, symbol, layout, command)
        text = recording_library(replace(function, returns=function.returns or returns))
        library = function_library(text, f"record-{kernel.function}", symbol)
        bound = function.keeps_memory
    elif kernel.language not in ("opencl", "cuda"):
        raise UsageError(
            f"kernels of {kernel.language} cannot be recorded yet", "record OpenCL, CUDA, C or C++"
        )
    application = application_of(command, aside=aside, library=library)
    folder = recordings_of(spec)
    ran, found = capture(
        replace(application, bound=bound),
        [kernel.function],
        folder,
        instances=instances,
        function=library is not None,
    )
    return report_for(spec, ran, found, unsaid=unsaid, output=output)


def application_of(command: Sequence[str], *, aside: bool, library: Path | None = None) -> Application:
    """A command with the library that records before its own.

    Args:
        command: the application.
        aside: whether its standard output goes to standard error.
        library: that records; the one for OpenCL and CUDA when left out.

    Raises:
        UsageError: there is no command.
        MachineError: the library cannot be made.
    """
    if not command:
        raise UsageError("no command is given", "write it after --, for example -- ./app --size 10")
    return Application(command=tuple(command), libraries=(library or interposer(),), aside=aside)


def require_run(ran: Ran, command: Sequence[str]) -> None:
    """Refuses a run of which nothing was seen, or no launch.

    Raises:
        UsageError: it is one.
    """
    shown = shlex.join(command)
    if not ran.seen and ran.status in _NOT_RUN:
        raise UsageError(f"{shown!r} {ran.ended_badly}: it cannot be run", "check its path")
    if not ran.seen:
        raise UsageError(
            f"{shown!r} did not load the recording library",
            "it has to be a dynamically linked program, without set-user-id and -fsanitize=address or thread",
        )
    if not ran.kernels:
        ended = f" ({ran.ended_badly})" if ran.ended_badly else ""
        raise UsageError(
            f"{shown!r} launched no OpenCL or CUDA kernel{ended}",
            "what is linked in statically is not seen; of C functions a symbol table tells, which `strip` takes away",
        )


def capture(
    application: Application,
    kernels: Sequence[str],
    folder: Path,
    *,
    instances: int,
    function: bool = False,
    scratch: Path | None = None,
) -> tuple[Ran, list[Taken]]:
    """Runs an application and writes recordings of its launches.

    Args:
        application: with the library that records.
        kernels: their names.
        folder: for the recordings.
        instances: the most recordings of each.
        function: whether it is a function of the processor.
        scratch: an empty folder that the application can write to, with room for them; one in ``folder`` if left out.

    Raises:
        UsageError: nothing was recorded.
        FullDiskError: there is no room for it.
        MachineError: a recording cannot be written.
    """
    variables = {
        "TUNER_RECORD_MODE": "record",
        "TUNER_RECORD_KERNEL": "\n".join(kernels),
        # The very first one is kept beside them, for programs whose later calls change nothing.
        "TUNER_RECORD_INSTANCES": str(instances + 1),
    }
    with scratch_folder(folder) if scratch is None else nullcontext(str(scratch)) as name:
        ran = application.run(Path(name), variables)
        found = collect(ran, Path(name), folder, kernels, instances=instances)
    if not found:
        _leave_no_empty(folder)
        if any("written" in why for why in ran.lost):
            place, other = (folder, "name another with -o") if scratch is None else (scratch, "set TMPDIR")
            raise FullDiskError(
                f"{ran.lost[0]} in {place}, as on a full disk", f"make room there, or {other}"
            )
        raise nothing_found(ran, application.command, kernels, function=function)
    return ran, found


def _leave_no_empty(folder: Path) -> None:
    """Takes the folder for recordings away again, and the one that was made for it, where nothing lies in them."""
    for made in (folder, folder.parent):
        try:
            made.rmdir()
        except OSError:
            return


def collect(ran: Ran, scratch: Path, folder: Path, kernels: Sequence[str], *, instances: int) -> list[Taken]:
    """Writes the recordings of what the library left in a folder; none where it left none.

    Each process of an application keeps one launch of each kernel more: of all of them so many are written.
    """
    kept = _representatives(sorted(scratch.glob("*.raw")), ran, instances)
    found = [_write(raw, folder, ran, kernels) for raw in kept]
    return list({taken.path: taken for taken in found}.values())


def _representatives(raws: Sequence[Path], ran: Ran, instances: int) -> list[Path]:
    """So many of each kernel."""
    kernels: dict[int, list[tuple[Path, RawCapture]]] = {}
    for raw in raws:
        capture = read_raw(raw)
        kernels.setdefault(capture.wanted, []).append((raw, capture))
    kept: set[Path] = set()
    for own in kernels.values():
        entry = own[0][1].recording.entry
        spent = {s: t for use in ran.kernels if use.name == entry for s, (_, t) in use.signatures.items()}
        captures, processes = [capture for _, capture in own], [raw.name.split("-")[1] for raw, _ in own]
        kept.update(own[place][0] for place in representatives(captures, processes, spent, instances))
    return [raw for raw in raws if raw in kept]


def scratch_folder(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder on the file system of the recordings: the machine's own for temporary files may be small."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".capture-", dir=folder)
    except OSError as error:
        raise MachineError(f"{folder} cannot be written: {error.strerror}", "name another with -o") from None


def _write(raw: Path, folder: Path, ran: Ran, kernels: Sequence[str]) -> Taken:
    capture = read_raw(raw)
    if capture.wanted >= len(kernels):
        raise MachineError(f"{raw.name} is damaged", "record it again")
    recording, kernel = capture.recording, kernels[capture.wanted]
    sign = recording.signature
    use = next((u for u in ran.kernels if u.name == recording.entry and sign in u.signatures), None)
    path = capture.write(folder, name=file_name(kernel), use=use)
    count, seconds = use.signatures[sign] if use else (1, recording.seconds)
    return Taken(kernel=kernel, path=path, recording=replace(recording, count=count, seconds=seconds / count))


def nothing_found(
    ran: Ran, command: Sequence[str], kernels: Sequence[str], *, function: bool = False
) -> UsageError:
    """Why there is no recording, of kernels or of a function of the processor."""
    if ran.lost:
        full = "written" in ran.lost[0]
        hint = "make room on the disk" if full else "run it as it is first"
        return UsageError(f"nothing could be recorded: {ran.lost[0]}", hint)
    reasons = [(use.name, why) for use in ran.kernels for why in use.refused]
    if reasons:
        hint = (
            "record calls that pass all that the spec lists"
            if function
            else "tuner record --list shows what can be"
        )
        return UsageError(f"{reasons[0][0]} cannot be recorded: {reasons[0][1]}", hint)
    ended = f" before it {ran.ended_badly}" if ran.ended_badly else ""
    if not ran.seen:
        require_run(ran, command)
    shown = command[0] if tuple(command) == HERE else repr(shlex.join(command))
    named = " or ".join(map(repr, kernels))
    if function:
        where = "in a library or in the executable named first, neither static nor inlined nor stripped, without -flto"
        hint = "call it as an attribute of the library that is named" if tuple(command) == HERE else ""
        return UsageError(f"{shown} never called {named}{ended}", hint or f"it has to be {where}")
    return UsageError(
        f"{shown} launched no OpenCL or CUDA kernel {named}{ended}",
        "tuner record --list names kernels; a C function is recorded by a spec (tuner init FILE): tuner record SPEC",
    )
