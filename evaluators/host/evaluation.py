"""A task made ready on this machine's processor: candidates built, verified and timed in processes of their own.

Made by :mod:`tuner.evaluators.host.backend`. May not decide what to try next or whether a time is a gain.
"""

from __future__ import annotations

import ctypes.util
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tuner.core.errors import MachineError, SpecError
from tuner.core.protocols import BaselineReport
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Task, Variant
from tuner.evaluators.baseline import Baseline
from tuner.evaluators.host.build_compiler import ByBuildCompiler
from tuner.evaluators.host.bundles import Bundle, memory_spans, variable_bytes
from tuner.evaluators.host.clang_itself import baseline_differs, loop_remarks
from tuner.evaluators.host.compiler import BASE_PIPELINE, HostCompiler
from tuner.evaluators.host.flags import for_clang
from tuner.evaluators.host.harness import Signature, harness_text
from tuner.evaluators.host.hot_loops import innermost_loops
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.openmp import find_openmp, team_variables
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.process import Ended, Zygote
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.host.runner import CandidateFailed, Limits, Runner
from tuner.evaluators.host.session import HostSession
from tuner.evaluators.host.structure_layout import Layouts
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain
from tuner.evaluators.lane import cache_sizes

__all__ = ["HostEvaluation", "library_of"]

_DEVICE = "cpu"
_SPARE_MEMORY_BYTES = 1 << 30
_THREAD_BYTES = 160 << 20
"""Address space of a thread: its stack, and the part of the C library's memory that it has for itself."""

_BASELINE_RETRIES = 4
_TEAM_SLACK_S = 10e-6
"""What a single call on new inputs may take longer where several cores fetch them and wait for one another."""


_HARNESSES: OrderedDict[tuple[Toolchain, str, str], bytes] = OrderedDict()
"""Object code by compiler, target and text: kernels with equal parameters have equal harnesses."""
_HARNESSES_KEPT = 64


def _harness(compiler: HostCompiler, text: str) -> bytes:
    """The timing harness's object code.

    Raises:
        MachineError: it does not compile.
    """
    key = (compiler.toolchain, compiler.target, text)
    if key not in _HARNESSES:
        built = compiler.build_text(text, entry="tuner_window")
        if built.status is not Status.OK:
            raise MachineError(f"the timing harness does not compile: {built.message}", "report it")
        _HARNESSES[key] = built.code
        while len(_HARNESSES) > _HARNESSES_KEPT:
            _HARNESSES.popitem(last=False)
    return _HARNESSES[key]


class HostEvaluation:
    """A :class:`tuner.core.protocols.Evaluation`; made by :meth:`HostBackend.prepare`.

    Args:
        task: what is tuned.
        workers: how many candidates are compiled at once.
        readings: of the machine, while candidates are timed.
    """

    times = True
    objectives = ("time", "size")

    def __init__(self, task: Task, *, workers: int, readings: Readings) -> None:
        self._task = task
        self._readings = readings
        signature = Signature.of(task)
        # First, as nothing is there to be closed yet where it is missing.
        self._openmp = find_openmp(find_toolchain()) if task.kernel.openmp else None
        self._compiler = HostCompiler(find_toolchain(), task.target, workers=max(1, workers))
        try:
            text = harness_text(signature, team=self._openmp is not None, virtual=readings.virtual)
            self._harness = _harness(self._compiler, text)
            self._builder = self._made_builder(max(1, workers))
        except BaseException:
            self._compiler.close()
            raise
        self._widens = signature.widens
        self._zygote: Zygote | None = None
        self._imports: frozenset[str] | None = None
        caches = cache_sizes()
        self._baseline = Baseline(
            task,
            device=_DEVICE,
            readings=readings,
            cache_bytes=caches.last_level_bytes,
            near_bytes=caches.l2_bytes,
            inputs="sealed: a candidate that writes to one faults",
            slack_s=_TEAM_SLACK_S if task.kernel.openmp else None,
        )

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Compiles candidates; they may import what the baseline imports, beside what every kernel may."""
        builds: list[Build] = []
        kernel = self._task.kernel
        builder = self._builder or self._compiler
        for free, part in _runs(requests):
            allowed = None if free else self._imports or frozenset()
            part_builds = builder.build(kernel, part, allowed_imports=allowed)
            for request, build in zip(part, part_builds, strict=True):
                if request.trial == BASELINE and build.status is Status.OK:
                    self._imports = Object(build.code).imports
            builds += part_builds
        return builds

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """The source by another compiler on this machine."""
        kernel = self._task.kernel
        # Other flags than macros are for the compiler that the search has.
        macros = tuple(flag for flag in resolved.flags if flag.startswith(("-D", "-U")))
        request = BuildRequest(
            trial=BASELINE, variant=kernel.variant, resolved=replace(resolved, flags=macros)
        )
        try:
            other = ByBuildCompiler(command)
        except SpecError as error:
            return Build(status=Status.BUILD_ERROR, message=error.message)
        try:
            return other.build(kernel, [request], allowed_imports=None)[0]
        finally:
            other.close()

    def _made_builder(self, workers: int) -> ByBuildCompiler | None:
        compiler = self._task.kernel.compiler
        if compiler is None:
            return None
        layouts = Layouts(self._compiler.front)
        return ByBuildCompiler(compiler.command, layouts=layouts, workers=workers)

    def tell(self, step: Callable[[str], None]) -> None:
        """See :class:`tuner.core.abilities.TellsSteps`."""
        self._baseline.step = step

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use; the machine's faults are
        tried again."""
        report = self._set_baseline(build, resolved)
        for _ in range(_BASELINE_RETRIES):
            if report.status is not Status.LOST:
                break
            report = self._set_baseline(build, resolved)
        return report

    def _set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        if build.status is not Status.OK:
            return BaselineReport(status=build.status, message=build.message)
        self._imports = Object(build.code).imports
        double = self._double(resolved)
        oracle = Oracle(
            self._task,
            start=lambda wide, bundle: self._start(
                double.code if wide and double else build.code, bundle, wide
            ),
            has_double=double is not None,
        )
        return self._baseline.establish(build, resolved, oracle)

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """What clang's vectoriser says of loops, whether the baseline's code is that of ``clang -O3`` itself, and the
        innermost loops in assembly.

        Of code that another compiler makes only the last.
        """
        code = innermost_loops(build.code) if build.code else ""
        assembly = {"assembly": code} if code else {}
        return {**self._said_by_clang(resolved, variant), **assembly}

    def _said_by_clang(self, resolved: Resolved, variant: Variant | None) -> Mapping[str, str]:
        if self._task.kernel.compiler is not None:
            return {}
        if variant is not None:
            loops = loop_remarks(self._compiler, self._task.kernel, resolved.flags, resolved.macros, variant)
            return {"loops": loops} if loops else {}
        found = baseline_differs(self._compiler, self._task.kernel, resolved.flags, macros=resolved.macros)
        remarks = {"clang": found.message or "the baseline's code is that of clang -O3"}
        if resolved.pipeline not in (None, BASE_PIPELINE) and found.same is not None:
            remarks = {"clang": "the baseline has the pipeline of passes.base, not that of clang -O3"}
        loops = loop_remarks(self._compiler, self._task.kernel, resolved.flags, resolved.macros)
        return {**remarks, "loops": loops} if loops else remarks

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> HostSession:
        """A session; its process is forked when it is verified.

        Raises:
            UsageError: there is no baseline yet, the build has failed, or the purpose is unknown.
        """
        return HostSession(
            task=self._task,
            inputs=self._baseline.inputs(build, resolved, purpose=purpose, number=number),
            start=lambda: self._start(
                build.code, None, False, seed=self._baseline.seed(build, purpose=purpose, number=number)
            ),
            rng=self._baseline.rng(build, purpose=purpose, number=number),
        )

    def close(self) -> None:
        """Ends the zygote with all its children and the compile workers; safe to call twice."""
        self._baseline.close()
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None
        if self._builder is not None:
            self._builder.close()
        self._compiler.close()

    def _double(self, resolved: Resolved) -> Build | None:
        if not self._widens or self._task.verify.reference.kind in ("python", "recording"):
            return None
        kernel = self._task.kernel
        flags = for_clang(kernel, resolved).flags
        build = self._compiler.build_double(kernel, macros=resolved.macros, flags=flags)
        return build if build.status is Status.OK else None

    def _start(self, code: bytes, bundle: Bundle | None, wide: bool, *, seed: int = 0) -> Runner:
        if self._zygote is None or not self._zygote.alive:
            if self._zygote is not None:
                self._zygote.close()
            libraries = [library_of(name, self._task.kernel.folder) for name in self._task.kernel.link]
            if self._openmp is not None:
                libraries.insert(0, self._openmp.library)
            try:
                self._zygote = Zygote(
                    llvm=self._compiler.toolchain.library,
                    libraries=libraries,
                    harness=self._harness,
                    team=self._openmp is not None,
                    virtual=self._readings.virtual,
                )
            except Ended:
                self._zygote = None
                raise CandidateFailed(Status.LOST, "the run worker's zygote was killed") from None
        space = self._baseline.largest_bytes + (0 if bundle is None else bundle.layout.space_bytes)
        memory = _SPARE_MEMORY_BYTES + 2 * space + 2 * self._baseline.flush_bytes
        threads, openmp = self._task.measure.threads, None
        if self._openmp is not None:
            openmp = team_variables(threads)
            memory += threads * _THREAD_BYTES
        # What is expected comes from the whole team.
        limits = Limits(memory_bytes=memory, threads=threads, openmp=openmp, varies=bundle is None)
        return Runner(
            self._zygote,
            code,
            symbol=self._task.kernel.entry,
            limits=limits,
            wide=wide,
            seed=seed,
            variables=variable_bytes(self._task.kernel, wide=wide),
            memory=memory_spans(self._task),
        )


def _runs(requests: Sequence[BuildRequest]) -> list[tuple[bool, list[BuildRequest]]]:
    """Requests in order, the baseline's apart: it alone may import what it likes."""
    runs: list[tuple[bool, list[BuildRequest]]] = []
    for request in requests:
        free = request.trial == BASELINE
        if runs and runs[-1][0] == free:
            runs[-1][1].append(request)
        else:
            runs.append((free, [request]))
    return runs


def library_of(name: str, folder: str) -> str:
    """What the loader is given for a word of ``link``: a path beside the kernel, a file name, or ``m`` for libm."""
    beside = Path(folder, name)
    if "/" in name or beside.is_file():
        return str(beside.resolve())
    if ".so" in name:
        return name
    return ctypes.util.find_library(name) or f"lib{name}.so"
