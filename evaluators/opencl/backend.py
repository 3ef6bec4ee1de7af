"""The OpenCL backend: kernels on one OpenCL device, compiled and run in worker processes.

Joins compile workers, run workers and the timing lane behind the protocols of :mod:`tuner.core.protocols`. May not
decide what to try next or whether a time is a gain.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import metadata
from typing import Any

import numpy as np

from tuner.core.canonical import digest, digest_json
from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.protocols import BaselineReport, Replacement
from tuner.core.streams import seed_for, stream
from tuner.core.types import Build, BuildRequest, Resolved, Status, Task, Value
from tuner.evaluators.host.bundles import Bundle, make_bundle
from tuner.evaluators.host.freshness import Freshness
from tuner.evaluators.host.harness import Signature
from tuner.evaluators.host.reference import BaselineFailed, Oracle
from tuner.evaluators.host.runner import CandidateFailed, Limits
from tuner.evaluators.host.session import FRESH_AFTER, Inputs, made
from tuner.evaluators.host.supply import Supply, runtime_of
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.lane import TimingLane, cache_sizes
from tuner.evaluators.opencl.compiler import Compiled, Compiler
from tuner.evaluators.opencl.device import Device, choose
from tuner.evaluators.opencl.flags import check_flags
from tuner.evaluators.opencl.limits import Refusal, features, inspect
from tuner.evaluators.opencl.oclgrind import Report, Simulator, oclgrind_version
from tuner.evaluators.opencl.process import OpenClZygote, devices_of_machine
from tuner.evaluators.opencl.program import Program, canonical_text
from tuner.evaluators.opencl.replacement import replacement_of
from tuner.evaluators.opencl.runner import Load, OpenClRunner
from tuner.evaluators.opencl.session import OpenClSession
from tuner.evaluators.sandbox.support import probe
from tuner.evaluators.sensitivity import check_expectations
from tuner.evaluators.verification import AcceptedOutputs
from tuner.evaluators.workloads import Workload
from tuner.spaces.launch import Geometry, geometry

__all__ = ["OpenClBackend", "OpenClEvaluation"]

ALIGNMENT = 128
"""Bytes: every buffer is aligned for the largest type of OpenCL C, as a device's own buffers are."""

_SPARE_MEMORY_BYTES = 6 << 30
_FLUSH_FACTOR = 2.25
_LEAST_FLUSH_BYTES = 64 << 20
_CHEAP_S = 1.0
_PURPOSES = ("search", "confirm")
_FRESH_SLACK_S = 300e-6
"""A launch on the host's own cores waits for their threads: between calls of 20 us that is most of the time."""
_NO_KERNEL_TYPE = ("bool", "complex64", "complex128")


class OpenClBackend:
    """A :class:`tuner.core.protocols.Backend`; see there.

    Args:
        share_memory: whether kernels work on the tuner's own pages; where the device is the host's processor when
            left out.
    """

    name = "opencl"

    def __init__(self, *, share_memory: bool | None = None) -> None:
        self._share_memory = share_memory

    def environment(self, target: str) -> Mapping[str, Any]:
        """The device with its limits, driver and versions.

        Raises:
            MachineError: no pyopencl, no driver, no device.
            SpecError: no device fits the target.
        """
        device = self.device(target)
        return {
            "sandbox": probe().to_json(),
            "device": device.text,
            "opencl": device.to_json(),
            "target": target,
            "kernel": platform.release(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyopencl": metadata.version("pyopencl"),
            "oclgrind": oclgrind_version(),
        }

    def devices(self) -> tuple[Device, ...]:
        """All OpenCL devices of this machine; raises as :meth:`environment`."""
        return devices_of_machine()

    def device(self, target: str) -> Device:
        """The device that a target means; raises as :meth:`environment`."""
        return choose(self.devices(), target)

    def check_flags(self, flags: Sequence[str]) -> None:
        """Raises ``SpecError`` for an option that OpenCL does not have."""
        check_flags(flags)

    def pass_catalogue(self) -> Mapping[str, Any] | None:
        """None: drivers take source, not IR."""
        return None

    def replacement(self, task: Task, code: bytes, resolved: Resolved) -> Replacement:
        """See :class:`tuner.core.protocols.Replaces`."""
        return replacement_of(task, code, resolved)

    def prepare(self, task: Task, *, workers: int) -> OpenClEvaluation:
        """Finds the device and starts the zygote.

        Raises:
            SpecError: a language, dtype, launch or target that this backend does not have.
            MachineError: no pyopencl, no driver, no device.
        """
        if task.kernel.language != "opencl":
            raise SpecError(
                f"the opencl backend runs OpenCL C, not {task.kernel.language}", "set backend or language"
            )
        if task.launch is None:
            raise SpecError(
                "an OpenCL kernel needs a launch", 'for example launch: {grid: ["ceil(n / 64)"], block: [64]}'
            )
        if task.kernel.returns is not None:
            raise SpecError("a kernel returns nothing", "remove returns")
        for argument in task.arguments:
            if argument.dtype in _NO_KERNEL_TYPE and not argument.is_array:
                raise SpecError(
                    f"the argument {argument.name} has the dtype {argument.dtype}, which no kernel takes by value",
                    "use an integer or floating type",
                )
        device = self.device(task.target)
        if any(a.dtype == "float64" for a in task.arguments) and not device.doubles:
            raise SpecError(f"{device.text} has no double precision", "use float32, or another target")
        shared = device.cpu if self._share_memory is None else self._share_memory
        return OpenClEvaluation(task, device=device, workers=workers, shared=shared)


class OpenClEvaluation:
    """A :class:`tuner.core.protocols.Evaluation`; made by :meth:`OpenClBackend.prepare`.

    Args:
        task: what is tuned.
        device: where.
        workers: how many candidates are compiled at once.
        shared: whether kernels work on the tuner's own pages.
    """

    def __init__(self, task: Task, *, device: Device, workers: int, shared: bool) -> None:
        self.times = not device.simulated
        """Whether its times mean anything."""
        self._task = task
        self._device = device
        self._workers = workers
        self._shared = shared
        self._signature = Signature.of(task)
        self._zygote: OpenClZygote | None = None
        self._compiler: Compiler | None = None
        self._supply: Supply | None = None
        self._accepted = AcceptedOutputs()
        self._baseline = ""
        self._freshness = Freshness(slack_s=_FRESH_SLACK_S)
        caches = cache_sizes().last_level_bytes
        self._cache_bytes = caches if device.cpu else max(device.cache_bytes, _LEAST_FLUSH_BYTES)
        cold = task.measure.cache == "cold"
        self._flush_bytes = int(_FLUSH_FACTOR * self._cache_bytes) // 4096 * 4096 if cold else 0
        self._lane = TimingLane(device.lane)
        self._simulator: Simulator | None = None
        self._small: Bundle | None = None
        self._simulated: dict[str, str] = {}
        self._judged: frozenset[str] = frozenset()

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Compiles candidates; over a known limit of the device or the driver is ``out_of_resources``."""
        programs = [Program.of(self._task.kernel, r.variant, r.resolved) for r in requests]
        if not programs:
            return []
        compiled = self._ready().compile(programs)
        return [
            self._build(request, program, result)
            for request, program, result in zip(requests, programs, compiled, strict=True)
        ]

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """Refused: a device takes the code of its own driver's compiler."""
        return Build(
            status=Status.REFUSED, message="only the device's own compiler makes code for an OpenCL device"
        )

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use."""
        if build.status is not Status.OK:
            return BaselineReport(status=build.status, message=build.message)
        self._baseline = build.digest
        if self._supply is not None:
            self._supply.close()
        wide = self._wide(resolved)
        oracle = Oracle(
            self._task,
            start=lambda as_double, bundle: self._start(
                wide if as_double and wide is not None else self._program(build),
                resolved,
                bundle=bundle,
            ),
            has_double=wide is not None,
            align=ALIGNMENT,
        )
        runtime = runtime_of(self._task, resolved)
        self._supply = supply = Supply(
            self._task, oracle=oracle, base=runtime, cache_bytes=self._cache_bytes, align=ALIGNMENT
        )
        self._accepted = AcceptedOutputs()
        try:
            verify = supply.verify("search", 0, runtime)
            for problem in range(len(self._task.problems)):
                supply.timed("search", 0, runtime, problem=problem)
        except BaselineFailed as failed:
            return BaselineReport(status=failed.status, message=failed.message, reference=oracle.kind)
        expectations = [{n: e.expectation for n, e in entry.items()} for entry in verify.expected]
        warnings = check_expectations(supply.workloads, expectations, self._task.verify)
        simulated = self._examine_baseline(build, resolved, supply.workloads)
        if simulated is not None and simulated.finding:
            warnings.append(f"the kernel as given, under Oclgrind: {simulated.finding}")
        supply.forget()
        return BaselineReport(
            status=Status.OK,
            reference=oracle.kind,
            own_error=dict(oracle.findings.own_error),
            call_s=tuple(max(s, 1e-9) for s in supply.call_s),
            notes=self._notes(oracle, supply, verify)
            | {"warnings": warnings, "oclgrind": _simulation_note(simulated)},
        )

    def remarks(self, build: Build, resolved: Resolved) -> Mapping[str, str]:
        """What the driver says of the kernel, and whether it takes an intermediate language."""
        found = build.features
        shown = ", ".join(f"{name} {value:g}" for name, value in found.items())
        il = self._device.il or "none"
        return {
            "oclgrind": oclgrind_version()
            or "not installed: pip install 'remix-tuner[oclgrind]' finds races",
            "kernel": shown or "the driver says nothing of it",
            "il": f"{il}; pass orders are not available on this device",
        }

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> OpenClSession:
        """A session; its process is forked when it is verified.

        Raises:
            UsageError: there is no baseline yet, the build has failed, or the purpose is unknown.
        """
        if self._supply is None:
            raise UsageError("there is no baseline to compare with", "call set_baseline() first")
        if build.status is not Status.OK:
            raise UsageError(
                f"a build with status {build.status} cannot be run", "open builds with the status ok only"
            )
        if purpose not in _PURPOSES:
            raise UsageError(f"unknown purpose {purpose!r}", f"one of {', '.join(_PURPOSES)}")
        supply, runtime = self._supply, runtime_of(self._task, resolved)
        seed = seed_for(self._task.seed, f"addresses/{purpose}/{build.digest}", number)
        return OpenClSession(
            task=self._task,
            device=self._device,
            inputs=Inputs(
                verify=lambda: made(lambda: supply.verify(purpose, number, runtime)),
                timed=lambda problem: made(lambda: supply.timed(purpose, number, runtime, problem=problem)),
                fresh=lambda problem: made(lambda: supply.fresh(purpose, number, runtime, problem=problem)),
                fresh_after=FRESH_AFTER[purpose],
                freshness=self._freshness,
                trusted=build.digest == self._baseline,
                accepted=self._accepted,
                flush_bytes=self._flush_bytes,
                lane=self._lane,
            ),
            start=lambda: self._start(self._program(build), resolved, seed=seed),
            rng=stream(self._task.seed, f"order/{purpose}/{build.digest}", number),
            examine=lambda: self._examine(build, resolved, purpose),
        )

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        if self._simulator is not None:
            self._simulator.close()
            self._simulator = None
        if self._small is not None:
            self._small.close()
            self._small = None
        if self._supply is not None:
            self._supply.close()
            self._supply = None
        if self._compiler is not None:
            self._compiler.close()
            self._compiler = None
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    @cached_property
    def _clang(self) -> str | None:
        try:
            return find_toolchain().clang
        except MachineError:
            return None

    def _ready(self) -> Compiler:
        if self._zygote is None or not self._zygote.alive:
            self._zygote = OpenClZygote()
            self._compiler = None
        if self._compiler is None:
            self._compiler = Compiler(self._zygote, self._device, workers=self._workers)
        return self._compiler

    def _program(self, build: Build) -> Program:
        return Program.from_code(build.code, folder=self._task.kernel.folder)

    def _build(self, request: BuildRequest, program: Program, compiled: Compiled) -> Build:
        seconds = {"driver": compiled.seconds}
        artifacts = {"log": compiled.log} if compiled.log.strip() else {}
        if compiled.status is not Status.OK:
            return Build(
                status=compiled.status, message=compiled.message, seconds=seconds, artifacts=artifacts
            )
        shape = self._geometry(request.resolved)
        try:
            geometries = [geometry_of(shape, problem.sizes) for problem in self._task.problems]
            found = inspect(
                compiled.kernels, self._task.kernel.entry, self._task.arguments, self._device, geometries
            )
        except Refusal as refusal:
            return Build(status=refusal.status, message=refusal.message, seconds=seconds, artifacts=artifacts)
        code = program.code()
        runtime = runtime_of(self._task, request.resolved)
        key = {
            "text": canonical_text(program, self._clang),
            "entry": program.entry,
            "geometry": [[list(g.grid), list(g.block), g.shared_bytes] for g in geometries],
            "runtime": runtime,
        }
        return Build(
            status=Status.OK,
            code=code,
            digest=digest(code),
            key=digest_json(key),
            features=features(found, geometries[0]),
            seconds=seconds,
            artifacts=artifacts,
        )

    def _geometry(self, resolved: Resolved, *, wide: bool = False) -> Callable[[Mapping[str, int]], Geometry]:
        launch = self._task.launch
        assert launch is not None
        values: dict[str, Value] = {**resolved.macros, **resolved.scalars}

        def compute(sizes: Mapping[str, int]) -> Geometry:
            made = geometry(launch, values, sizes)
            # Local memory that holds floats holds doubles in the reference.
            return replace(made, shared_bytes=made.shared_bytes * (2 if wide else 1))

        return compute

    def _wide(self, resolved: Resolved) -> Program | None:
        """The program in double, where it can be built and run."""
        if (
            not self._signature.widens
            or not self._device.doubles
            or self._task.verify.reference.kind in ("python", "recording")
        ):
            return None
        kernel = self._task.kernel
        program = Program.of(kernel, kernel.variant, resolved, wide=True)
        (compiled,) = self._ready().compile([program])
        if compiled.status is not Status.OK or "float16" in {a.dtype for a in self._task.arguments}:
            return None
        shape = self._geometry(resolved, wide=True)
        try:
            geometries = [geometry_of(shape, problem.sizes) for problem in self._task.problems]
            inspect(compiled.kernels, kernel.entry, self._task.arguments, self._device, geometries)
        except Refusal:
            return None
        return program

    def _start(
        self, program: Program, resolved: Resolved, *, bundle: Bundle | None = None, seed: int = 0
    ) -> OpenClRunner:
        (compiled,) = self._ready().compile([program])
        if compiled.status is not Status.OK:
            raise CandidateFailed(compiled.status, compiled.message)
        assert self._zygote is not None
        known = 0 if self._supply is None else self._supply.largest_bytes
        space = known + (0 if bundle is None else bundle.layout.space_bytes)
        shape = self._geometry(resolved, wide=program.wide)
        arguments = compiled.kernels[program.entry]["arguments"]
        load = Load(
            device=self._device,
            digest=digest(program.code()),
            binary=compiled.binary,
            entry=program.entry,
            local=tuple(i for i, a in enumerate(arguments) if a["local"]),
            geometry=self._failing(shape),
            shared=self._shared,
        )
        memory = _SPARE_MEMORY_BYTES + 2 * space + 2 * self._flush_bytes
        return OpenClRunner(self._zygote, load, limits=Limits(memory_bytes=memory), seed=seed)

    def _examine_baseline(
        self, build: Build, resolved: Resolved, workloads: Sequence[Workload]
    ) -> Report | None:
        """Runs the baseline under Oclgrind, and decides when candidates are.

        Those that are confirmed are, where the baseline could be and is clean; all are where it is cheap.
        """
        self._judged = frozenset()
        if oclgrind_version() is None or self._device.simulated:
            return None
        smallest = min(workloads, key=lambda w: sum(a.nbytes for a in w.arrays.values()))
        if self._small is not None:
            self._small.close()
        self._small = make_bundle(self._task, [smallest], ["start"], key="oclgrind", align=ALIGNMENT)
        try:
            if self._simulator is None:
                self._simulator = Simulator()
            report = self._simulator.examine(
                self._program(build), self._small, self._failing(self._geometry(resolved)), build.digest
            )
        except MachineError as error:
            return Report(ran=False, note=error.message)
        if report.ran and not report.finding:
            self._judged = frozenset(_PURPOSES if report.seconds < _CHEAP_S else ("confirm",))
        return report

    def _examine(self, build: Build, resolved: Resolved, purpose: str) -> str:
        if purpose not in self._judged or self._simulator is None or self._small is None:
            return ""
        runtime = digest_json([build.key, runtime_of(self._task, resolved)])
        if runtime not in self._simulated:
            report = self._simulator.examine(
                self._program(build), self._small, self._failing(self._geometry(resolved)), build.digest
            )
            self._simulated[runtime] = report.finding
        return self._simulated[runtime]

    @staticmethod
    def _failing(
        compute: Callable[[Mapping[str, int]], Geometry],
    ) -> Callable[[Mapping[str, int]], Geometry]:
        """A geometry whose absence is a candidate's failure."""

        def failing(sizes: Mapping[str, int]) -> Geometry:
            try:
                return geometry_of(compute, sizes)
            except Refusal as refusal:
                raise CandidateFailed(refusal.status, refusal.message) from None

        return failing

    def _notes(self, oracle: Oracle, supply: Supply, verify: Bundle) -> dict[str, Any]:
        findings = oracle.findings
        return {
            "workloads": list(verify.labels),
            "dropped": dict(supply.dropped),
            "fallbacks": dict(findings.fallbacks),
            "deterministic": not findings.unstable,
            "unstable": sorted(findings.unstable),
            "partly_written": sorted(findings.untouched),
            "inputs": "sealed: a candidate that writes to one faults"
            if self._shared
            else "copied to the device",
        }


def _simulation_note(report: Report | None) -> str:
    if report is None:
        return "not installed"
    if report.finding:
        return report.finding
    return "clean" if report.ran else f"not simulated: {report.note}"


def geometry_of(compute: Callable[[Mapping[str, int]], Geometry], sizes: Mapping[str, int]) -> Geometry:
    """The geometry, or a :class:`~tuner.evaluators.opencl.limits.Refusal` where there is none."""
    try:
        return compute(sizes)
    except SpecError as error:
        raise Refusal(Status.OUT_OF_RESOURCES, error.message) from None
