"""One task on one OpenCL device: builds, the baseline, and sessions in worker processes of their own.

May not decide what to try next or whether a time is a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tuner.core.canonical import digest
from tuner.core.errors import MachineError, SpecError
from tuner.core.protocols import BaselineReport
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Task, Variant
from tuner.evaluators.baseline import Baseline
from tuner.evaluators.device_code.pipelines import OWN_PIPELINE, clang_words, is_clang
from tuner.evaluators.host.bundles import Bundle
from tuner.evaluators.host.harness import Signature
from tuner.evaluators.host.oracle import Oracle
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.host.runner import CandidateFailed, Limits
from tuner.evaluators.lane import cache_sizes
from tuner.evaluators.opencl.builds import Builder
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.device_passes import missing_parts
from tuner.evaluators.opencl.flags import check_flags
from tuner.evaluators.opencl.limits import launches_of
from tuner.evaluators.opencl.oclgrind import oclgrind_version
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.opencl.runner import Load, OpenClRunner
from tuner.evaluators.opencl.session import OpenClSession
from tuner.evaluators.opencl.simulation import Simulation, has_barrier

__all__ = ["ALIGNMENT", "OpenClEvaluation"]

ALIGNMENT = 128
"""Bytes: every buffer is aligned for the largest type of OpenCL C, as a device's own buffers are."""

_SPARE_MEMORY_BYTES = 6 << 30
_LEAST_FLUSH_BYTES = 64 << 20
_FRESH_SLACK_S = 40e-6
"""A launch on the host's own cores waits for their threads: up to 15 us over its share were seen on a machine with nine
times the work that its processors can do, which a lookup of an answer for calls of less than this could hide in."""


class OpenClEvaluation:
    """A :class:`tuner.core.protocols.Evaluation`; made by :class:`tuner.evaluators.opencl.backend.OpenClBackend`.

    Args:
        task: what is tuned.
        device: where.
        workers: how many candidates are compiled at once.
        shared: whether kernels work on the tuner's own pages.
        readings: of the machine, while candidates are timed.
    """

    def __init__(self, task: Task, *, device: Device, workers: int, shared: bool, readings: Readings) -> None:
        self.times = not device.simulated
        """Whether its times mean anything."""
        self._task = task
        self._device = device
        self._shared = shared
        self._builder = Builder(task, device, workers=workers)
        self._simulation = Simulation(task, device, align=ALIGNMENT)
        host = cache_sizes().last_level_bytes
        self._baseline = Baseline(
            task,
            device=device.lane,
            readings=readings,
            cache_bytes=host if device.cpu else max(device.cache_bytes, _LEAST_FLUSH_BYTES),
            inputs="sealed: a candidate that writes to one faults" if shared else "copied to the device",
            align=ALIGNMENT,
            slack_s=_FRESH_SLACK_S,
        )

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Compiles candidates; over a known limit of the device or the driver is ``out_of_resources``."""
        return self._builder.build(requests)

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """The source by clang and LLVM, where the device takes SPIR-V; refused for any other compiler."""
        if not is_clang(command):
            text = f"{command[0]} makes no code for an OpenCL device: clang does, where it takes SPIR-V"
            return Build(status=Status.REFUSED, message=text)
        try:
            pipeline, flags = clang_words(command)
            check_flags(flags)
            by_clang = replace(resolved, flags=flags, pipeline=None)
            request = BuildRequest(trial=BASELINE, variant=self._task.kernel.variant, resolved=by_clang)
            (build,) = self._builder.build([request], by_llvm=pipeline)
        except (SpecError, MachineError) as error:
            return Build(status=Status.BUILD_ERROR, message=error.message)
        return build

    def tell(self, step: Callable[[str], None]) -> None:
        """See :class:`tuner.core.abilities.TellsSteps`."""
        self._baseline.step = step

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use."""
        if build.status is not Status.OK:
            return BaselineReport(status=build.status, message=build.message)
        diverged = self._simulation.divergence_of_baseline(build, resolved) if self._device.cpu else ""
        if diverged:
            # GPUs may make do with it; where a processor runs work-items in turns it hangs or writes anywhere.
            text = f"under Oclgrind: {diverged}: not every work-item of a group comes to this barrier"
            return BaselineReport(status=Status.WRONG_RESULT, message=text)
        wide = self._wide(resolved)
        oracle = Oracle(
            self._task,
            start=lambda as_double, bundle: self._start(
                wide if as_double and wide is not None else self._program(build), resolved, bundle=bundle
            ),
            has_double=wide is not None,
            align=ALIGNMENT,
        )
        report = self._baseline.establish(
            build,
            resolved,
            oracle,
            look=lambda workloads: self._simulation.examine_baseline(build, resolved, workloads),
        )
        blind = oclgrind_version() is None and has_barrier(self._program(build))
        if report.status is Status.TIMED_OUT and blind:
            cure = "does every work-item of a group come to its barriers? pip install 'remix-tuner[oclgrind]' tells"
            return replace(report, message=f"{report.message}; {cure}")
        if report.status is Status.TIMED_OUT and self._simulation.too_large:
            cure = f"Oclgrind did not look at its barriers: {self._simulation.too_large}"
            return replace(report, message=f"{report.message}; {cure}")
        return report

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """What the driver says of the kernel, and of the baseline whether pass orders can be tuned for the device."""
        found = build.features
        shown = ", ".join(f"{name} {value:g}" for name, value in found.items())
        if variant is not None:
            return {"kernel": shown} if shown else {}
        return {
            "oclgrind": oclgrind_version()
            or "not installed: pip install 'remix-tuner[oclgrind]' finds races",
            "kernel": shown or "the driver says nothing of it",
            "il": self._by_llvm(resolved),
        }

    def _by_llvm(self, resolved: Resolved) -> str:
        """What clang and LLVM make of the baseline for the device: whether pass pipelines can be tuned at all."""
        why = missing_parts(self._device)
        if why:
            return f"no pass orders: {why}"
        if resolved.pipeline is None:
            return f"{self._device.il}; pass orders can be tuned, the spec does not ask for them"
        request = BuildRequest(trial=BASELINE, variant=self._task.kernel.variant, resolved=resolved)
        (build,) = self._builder.build([request], by_llvm=OWN_PIPELINE)
        if build.status is not Status.OK:
            return f"no pass pipeline will build ({build.message}); write passes: off"
        return self._builder.passes.describe

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> OpenClSession:
        """A session; its process is forked when it is verified.

        Raises:
            UsageError: there is no baseline yet, the build has failed, or the purpose is unknown.
        """
        seed = self._baseline.seed(build, purpose=purpose, number=number)
        return OpenClSession(
            task=self._task,
            device=self._device,
            inputs=self._baseline.inputs(build, resolved, purpose=purpose, number=number),
            start=lambda: self._start(self._program(build), resolved, seed=seed),
            rng=self._baseline.rng(build, purpose=purpose, number=number),
            examine=lambda: self._simulation.examine(build, resolved, purpose),
            divergence=lambda: self._simulation.divergence(build, resolved, purpose),
        )

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        self._simulation.close()
        self._baseline.close()
        self._builder.close()

    def _program(self, build: Build) -> Program:
        return Program.from_code(build.code, folder=self._task.kernel.folder)

    def _wide(self, resolved: Resolved) -> Program | None:
        """The program in double, where it would be believed."""
        if (
            not Signature.of(self._task).widens
            or not self._device.doubles
            or self._task.verify.reference.kind in ("python", "recording")
        ):
            return None
        return self._builder.wide(resolved)

    def _start(
        self, program: Program, resolved: Resolved, *, bundle: Bundle | None = None, seed: int = 0
    ) -> OpenClRunner:
        (compiled,) = self._builder.compile([program])
        if compiled.status is not Status.OK:
            raise CandidateFailed(compiled.status, compiled.message)
        space = self._baseline.largest_bytes + (0 if bundle is None else bundle.layout.space_bytes)
        arguments = compiled.kernels[program.entry]["arguments"]
        load = Load(
            device=self._device,
            digest=digest(program.code()),
            binary=compiled.binary,
            entry=program.entry,
            local=tuple(i for i, a in enumerate(arguments) if a["local"]),
            geometry=launches_of(self._task, resolved, wide=program.wide),
            shared=self._shared,
        )
        memory = _SPARE_MEMORY_BYTES + 2 * space + 2 * self._baseline.flush_bytes
        return OpenClRunner(self._builder.zygote, load, limits=Limits(memory_bytes=memory), seed=seed)
