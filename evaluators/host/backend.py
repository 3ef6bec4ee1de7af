"""The host backend: C and C++ functions on this machine's processor.

Joins the compile side, the run side and the timing lane behind the protocols of :mod:`tuner.core.protocols`. May not
decide what to try next or whether a time is a gain.
"""

from __future__ import annotations

import atexit
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.passing import Layout
from tuner.core.protocols import Peaks, Substitute
from tuner.core.types import Kernel, Resolved, Status, Task
from tuner.evaluators.baseline import refuse_constants
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.build_compiler import asked_compiler
from tuner.evaluators.host.catalogue import pass_catalogue
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.evaluation import HostEvaluation, library_of
from tuner.evaluators.host.exposing import is_static
from tuner.evaluators.host.flags import for_clang, sort_flags
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.openmp import find_openmp, team_variables
from tuner.evaluators.host.peaks import host_peaks
from tuner.evaluators.host.readings import MachineReadings, Readings
from tuner.evaluators.host.structure_layout import asked_layout
from tuner.evaluators.host.symbols import entry_symbol
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain
from tuner.evaluators.lane import cache_sizes
from tuner.evaluators.sandbox.support import probe

__all__ = ["HostBackend", "symbol_of"]

_LANGUAGES = ("c", "c++")

_SHARED: dict[Toolchain, HostCompiler] = {}
"""For questions that belong to no task: one for each LLVM, as each has processes of its own."""
USUAL_LIBRARIES = ("libm.so.6", "libmvec.so.1", "libgcc_s.so.1")
"""What every candidate may call; an application need not have loaded them."""


class HostBackend:
    """A :class:`tuner.core.protocols.Backend`; see there.

    Attributes:
        readings: of the machine, while candidates are timed.
    """

    name = "host"
    readings: Readings = MachineReadings()

    def environment(self, target: str) -> Mapping[str, Any]:
        """Processor, caches, kernel, C library, LLVM, Python with their versions, and what confines candidates.

        Raises:
            MachineError: there is no usable LLVM.
            SpecError: clang does not know the target.
        """
        if target == "native":
            tools = self._tools().environment()
        else:
            with HostCompiler(find_toolchain(), target) as compiler:
                tools = compiler.environment()
        caches = cache_sizes()
        return {
            "device": _processor(),
            "cpu": tools["cpu"],
            "cpu_features": tools["cpu_features"],
            "caches": {
                "l1_bytes": caches.l1_bytes,
                "l2_bytes": caches.l2_bytes,
                "last_level_bytes": caches.last_level_bytes,
            },
            "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release(),
            "libc": " ".join(platform.libc_ver()),
            "llvm": {"version": tools["llvm"], "digest": tools["llvm_digest"], "triple": tools["triple"]},
            "target": target,
            "sandbox": probe().to_json(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        }

    def environment_of(self, task: Task) -> Mapping[str, Any]:
        """What a task needs beside :meth:`environment`: its build's compiler, OpenMP's library and how its team is set
        up."""
        kernel = task.kernel
        if kernel.compiler is not None:
            try:
                own = asked_compiler(kernel.compiler.command)
            except SpecError as error:
                return {"compiler": {"missing": error.message}}
            command = shlex.join(own.command)
            return {"compiler": {"command": command, "version": own.version, "digest": own.digest}}
        if not kernel.openmp:
            return {}
        try:
            found = find_openmp(find_toolchain())
        except MachineError as error:
            return {"openmp": {"missing": error.message}}
        variables = team_variables(task.measure.threads)
        return {
            "openmp": {
                "library": Path(found.library).name,
                "version": found.version,
                "digest": found.digest,
                "threads": task.measure.threads,
                "bind": variables["OMP_PROC_BIND"],
                "places": variables.get("OMP_PLACES", ""),
                "spin_ms": int(variables["KMP_BLOCKTIME"]),
            }
        }

    def check_flags(self, flags: Sequence[str]) -> None:
        """Raises ``SpecError`` for a flag that neither clang nor LLVM here can honour."""
        self._tools().check_flags(flags)

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """The passes of this LLVM for any target, probed once and kept in the user's cache folder."""
        catalogue: Mapping[str, Any] = pass_catalogue(self._tools()).to_json()
        return catalogue

    def peaks(self, target: str, threads: int, *, measure: bool) -> Peaks | None:
        """Bandwidth and operations at best of one core times ``threads``; kept in the user's cache folder."""
        return host_peaks(self, target, threads, measure=measure, virtual=self.readings.virtual)

    def prepare(self, task: Task, *, workers: int) -> HostEvaluation:
        """Starts the compile workers and compiles the harness.

        Raises:
            SpecError: a language, a dtype or a launch geometry that the host does not have.
            MachineError: there is no usable LLVM.
        """
        if task.kernel.language not in _LANGUAGES:
            raise SpecError(
                f"the host backend runs C and C++, not {task.kernel.language}", "set backend or language"
            )
        if task.launch is not None:
            raise SpecError("a function on the host has no launch geometry", "remove `launch`")
        refuse_constants(task)
        return HostEvaluation(task, workers=workers, readings=self.readings)

    def symbol(self, task: Task, resolved: Resolved) -> str:
        """What the kernel's entry is called in an application's object code.

        Raises:
            UsageError: the source does not build here, or has no such function.
        """
        return symbol_of(self._tools(), task.kernel, for_clang(task.kernel, resolved))

    def layout(self, task: Task, resolved: Resolved) -> Layout:
        """Where members lie in the structures that the kernel takes, in the source as given.

        Raises:
            BaselineError: the source does not build here.
        """
        kernel = task.kernel
        return (
            asked_layout(self._tools().front, kernel, for_clang(kernel, resolved))
            if kernel.passed
            else Layout()
        )

    def replacement(self, task: Task, code: bytes, resolved: Resolved) -> Substitute:
        """The winner's object, to be called in the place of an application's own function.

        Raises:
            UsageError: see :meth:`symbol`.
            MachineError: it needs OpenMP's library, and there is none.
        """
        libraries = tuple(library_of(name, task.kernel.folder) for name in task.kernel.link)
        openmp = task.kernel.openmp
        symbol = self.symbol(task, resolved)
        return Substitute(
            code=code,
            symbol=symbol,
            exported=symbol if task.kernel.flattened else task.kernel.entry,
            layout=self.layout(task, resolved),
            libraries=(*USUAL_LIBRARIES, *libraries),
            before=(find_openmp(find_toolchain()).library,) if openmp else (),
            threads=task.measure.threads if openmp else 0,
        )

    def _tools(self) -> HostCompiler:
        toolchain = find_toolchain()
        if toolchain not in _SHARED:
            _SHARED[toolchain] = HostCompiler(toolchain)
        return _SHARED[toolchain]


@atexit.register
def _close_shared() -> None:
    # At the end and not when a backend is collected: a collection may run in a thread that the sandbox confines.
    while _SHARED:
        _SHARED.popitem()[1].close()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.machine()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine() or sys.platform


def symbol_of(compiler: HostCompiler, kernel: Kernel, resolved: Resolved) -> str:
    """What the kernel's entry is called in object code: a C++ function has its mangled name there.

    Args:
        compiler: that makes the object.
        kernel: as given.
        resolved: a configuration that it builds with.

    Raises:
        UsageError: the source does not build here, or has no such function or several; it uses global variables, or is
            a loop.
    """
    name = kernel.function
    if kernel.alone:
        raise UsageError(
            f"{name} is a loop, which no application calls",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if is_static(kernel.variant, name, kernel.language):
        raise UsageError(
            f"{name} is static in its file, so nothing from outside can take its place",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if kernel.variables:
        raise UsageError(
            f"{name} finds {kernel.variables[0].name} in a global variable, which is unknown outside of its file",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if kernel.language == "c":
        return name
    if kernel.wrapped and not kernel.flattened:
        raise UsageError(
            f"{kernel.wrapped} is a template: an application calls its own instance of it, or has it inlined",
            'record and replace an extern "C" function that calls it',
        )
    flags = sort_flags(resolved.flags, folder=kernel.folder)
    status, output, code = compiler.front.object_of(front.Source.of(kernel), flags, resolved.macros)
    if status is not Status.OK:
        said = output.strip().split("\n")[0]
        raise UsageError(f"the source of {name} does not compile here: {said}", "correct it")
    symbol = entry_symbol(Object(code).exports, name)
    if symbol is None:
        raise UsageError(
            f"the source has no function {name!r} that others can call, or several of that name",
            "name it with its namespaces, such as space::name",
        )
    return symbol
