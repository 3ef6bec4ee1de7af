"""``with tuner.record(...)``: launches and calls that this process makes, recorded as those of any other application.

OpenCL and CUDA go through the library that ``tuner record`` preloads, loaded here and put before what other libraries
call; functions of a ctypes library are stood before on that object. May not judge candidates.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.core.passing import Layout
from tuner.core.protocols import NamesFunctions
from tuner.driver.applications.functions import as_given
from tuner.driver.applications.recorded_specs import (
    FOLDER,
    RecordReport,
    Taken,
    file_name,
    notes_of,
    write_specs,
)
from tuner.driver.applications.recording import HERE, collect, interposer, nothing_found, scratch_folder
from tuner.evaluators import registry as backends
from tuner.recorders.recordings.calls import CallRecorder
from tuner.recorders.recordings.capture import Ran, read_logs
from tuner.spec.load import LoadedSpec, load_spec

__all__ = ["Live", "record"]

_INSTANCES = 2
_FROM_SOURCE = {"PYOPENCL_NO_CACHE": "1", "CUPY_CACHE_IN_MEMORY": "1"}


@dataclass(slots=True)
class Live:
    """What is being recorded; ``report`` is there once it has ended."""

    report: RecordReport | None = None

    @property
    def recordings(self) -> tuple[Path, ...]:
        """The files written."""
        return self.report.recordings if self.report else ()

    @property
    def specs(self) -> tuple[Path, ...]:
        """Specs that tune them."""
        return self.report.specs if self.report else ()


@contextmanager
def record(
    spec: str | Path | None = None,
    *,
    kernel: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    instances: int = _INSTANCES,
    library: Any = None,
) -> Iterator[Live]:
    """Records what the block launches of some kernels, or calls of one function.

    The first use has to come before what it follows is made: before ``import cupy``, and for OpenCL before further
    command queues than one are made; kernels, programs and buffers that are there already are known by what the driver
    says of them.

    Args:
        spec: whose kernel; recordings are written beside it.
        kernel: a kernel's name or several, in the place of a spec; a spec of each is written with the recordings.
        out: with ``kernel``: the folder to write to, by default of the first one's name.
        instances: the most recordings of each; launches that differ in geometry, scalars or sizes come first.
        library: for a C function: the ``ctypes.CDLL`` that it is called through, as ``library.NAME(...)``.

    Yields:
        What is recorded; an error in the block is passed on, and what was launched until then is recorded.

    Raises:
        UsageError: neither a spec nor a kernel, or nothing that could be recorded.
        SpecError: a spec that is wrong.
        MachineError: the library cannot be made, or a recording not be written.
    """
    if (spec is None) == (kernel is None):
        raise UsageError("record() takes a spec or a kernel", 'tuner.record(kernel="name", out="folder")')
    kernels = [kernel] if isinstance(kernel, str) else list(dict.fromkeys(kernel or ()))
    if spec is None and not (kernels and all(name.strip() for name in kernels)):
        raise UsageError("the kernel has no name", 'tuner.record(kernel="name", out="folder")')
    if instances < 1:
        raise UsageError(f"instances is {instances}", "1 or more")
    live = Live()
    if spec is None:
        with _launches(live, kernels, Path(out or kernels[0]), instances, with_spec=True):
            yield live
        return
    loaded = _only(spec)
    folder = Path(loaded.path).resolve().parent
    if loaded.task.kernel.language == "c":
        with _calls(live, loaded, library, folder / FOLDER, instances):
            yield live
    elif loaded.task.kernel.language in ("opencl", "cuda"):
        with _launches(live, [loaded.task.kernel.entry], folder, instances, with_spec=False):
            yield live
    else:
        raise UsageError(
            f"functions of {loaded.task.kernel.language} cannot be recorded", "give it a C source"
        )


def _only(spec: str | Path) -> LoadedSpec:
    loaded = load_spec(spec)
    if len(loaded) != 1:
        raise UsageError(f"{spec} has {len(loaded)} kernels", 'record them one by one: record(kernel="name")')
    return loaded[0]


@cache
def _embedded() -> ctypes.CDLL:
    """The library, loaded and followed by whatever calls what it stands before."""
    # Elsewhere these are read when a package is imported: what was imported already keeps its own.
    for name, value in _FROM_SOURCE.items():
        os.environ.setdefault(name, value)
    library = ctypes.CDLL(str(interposer()))
    library.tuner_start.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    library.tuner_follow()
    return library


@contextmanager
def _launches(
    live: Live, kernels: Sequence[str], folder: Path, instances: int, *, with_spec: bool
) -> Iterator[None]:
    library = _embedded()
    recordings = folder / FOLDER
    with scratch_folder(recordings) as name:
        scratch = Path(name)
        begin = time.perf_counter()
        library.tuner_follow()
        if library.tuner_start(os.fsencode(name), "\n".join(kernels).encode(), instances + 1):
            raise UsageError(f"{name} cannot be written", "name another folder with out")
        failed = True
        try:
            yield
            failed = False
        finally:
            library.tuner_stop()
            ran = read_logs(scratch, 0, time.perf_counter() - begin)
            found = collect(ran, scratch, recordings, kernels, instances=instances)
            if found:
                live.report = _report(ran, found, kernels, folder, with_spec=with_spec)
            elif not failed:
                raise nothing_found(ran, HERE, kernels)


def _report(
    ran: Ran, found: list[Taken], kernels: Sequence[str], folder: Path, *, with_spec: bool
) -> RecordReport:
    if with_spec:
        return write_specs(ran, found, kernels, folder, command=HERE)
    return RecordReport(ran=ran, recordings=tuple(t.path for t in found), notes=tuple(notes_of(ran)))


def _layout(spec: LoadedSpec) -> Layout:
    """Of the structures that a function takes."""
    if not spec.task.kernel.passed:
        return Layout()
    backend = backends.create(spec.task.backend)
    assert isinstance(backend, NamesFunctions)
    return backend.layout(spec.task, as_given(spec))


@contextmanager
def _calls(live: Live, spec: LoadedSpec, library: Any, folder: Path, instances: int) -> Iterator[None]:
    entry = spec.task.kernel.function
    if not isinstance(library, ctypes.CDLL):
        raise UsageError(
            f"{entry} is a C function, and there is no library", "record(spec, library=ctypes.CDLL(…))"
        )
    try:
        function = getattr(library, entry)
    except AttributeError:
        raise UsageError(f"the library has no function {entry!r}", "name the library that has it") from None
    recorder = CallRecorder(
        function,
        entry,
        spec.task.own_arguments,
        sizes=spec.task.problems[0].sizes,
        instances=instances,
        passed=spec.task.kernel.passed,
        layout=_layout(spec),
    )
    begin = time.perf_counter()
    setattr(library, entry, recorder)
    failed = True
    try:
        yield
        failed = False
    finally:
        setattr(library, entry, function)
        ran = Ran(status=0, wall_s=time.perf_counter() - begin, seen=True, kernels=(recorder.use,))
        folder.mkdir(parents=True, exist_ok=True)
        found = recorder.write(folder, file_name(entry))
        if found:
            live.report = RecordReport(ran=ran, recordings=found, notes=tuple(notes_of(ran)))
        elif not failed:
            nothing = Ran(status=0, wall_s=0.0, seen=True)
            raise nothing_found(ran if recorder.use.launches else nothing, HERE, [entry], function=True)
