"""The CUDA backend: kernels on the first NVIDIA GPU that the driver shows, or checked without one.

Joins compile side, run side and timing lane behind the protocols of :mod:`tuner.core.protocols`. May not decide what
to try next or whether a time is a gain. With no device in reach an evaluation compiles, reads resources and verifies
under emulation, and times nothing.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.protocols import BaselineReport, LoadedImage, Session
from tuner.core.streams import seed_for, stream
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Task, Value, Variant
from tuner.evaluators.cuda.compiler import CudaCompiler, check_architecture, nvrtc_library
from tuner.evaluators.cuda.cubin import kernel_symbols, variables
from tuner.evaluators.cuda.device import Device, WorkerPool, describe_device
from tuner.evaluators.cuda.device_passes import device_catalogue, missing_parts, parts_environment
from tuner.evaluators.cuda.driver import LIBRARY
from tuner.evaluators.cuda.emulated import EmulatedRuns
from tuner.evaluators.cuda.flags import check_flags, short_names
from tuner.evaluators.cuda.jobs import entry_expression
from tuner.evaluators.cuda.limits import architecture
from tuner.evaluators.cuda.measured import DeviceRuns
from tuner.evaluators.cuda.nvml import Watch
from tuner.evaluators.cuda.nvrtc import Nvrtc
from tuner.evaluators.cuda.other_compilers import build_with
from tuner.evaluators.cuda.placing import is_pinned
from tuner.spaces.launch import geometry

__all__ = ["CudaBackend", "CudaEvaluation"]

_NATIVE = "native"


class CudaBackend:
    """A :class:`tuner.core.protocols.Backend`; see there.

    Args:
        driver: the driver's library.
    """

    name = "cuda"

    def __init__(self, *, driver: str = LIBRARY) -> None:
        self._driver = driver
        self._device: Device | MachineError | None = None

    def environment(self, target: str) -> Mapping[str, Any]:
        """Device, driver, NVRTC and Python with their versions.

        Raises:
            MachineError: there is no NVRTC; or the target is ``native`` and there is no device.
            SpecError: NVRTC does not know the target.
        """
        library = Nvrtc(nvrtc_library())
        device = self._find()
        arch = self._arch(target)
        check_architecture(arch, library.architectures(), library.version)
        found: dict[str, Any] = {
            "device": f"no GPU in reach: compiled for {arch}, checked under emulation",
            "nvrtc": library.version,
            "target": arch,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        if not missing_parts():
            found["passes"] = parts_environment()
        if isinstance(device, Device):
            watch = Watch(device.uuid)
            facts = {k: v for k, v in device.facts.items() if k not in ("name", "uuid")}
            found |= {
                "device": f"{device.name} ({arch})",
                "uuid": device.uuid,
                "gpu": {**facts, **watch.describe()},
            }
            watch.close()
        return found

    def check_flags(self, flags: Sequence[str]) -> None:
        """Raises ``SpecError`` for a flag that NVRTC cannot honour."""
        check_flags(flags)

    def pass_catalogue(self, target: str = _NATIVE) -> Mapping[str, Any] | None:
        """The passes of the LLVM in use, where there is also something that makes PTX and cubins of its IR.

        The pipeline ``default<O3>`` alone stands for NVRTC's own code, every other one for clang and LLVM.
        """
        if missing_parts():
            return None
        catalogue: Mapping[str, Any] = device_catalogue().to_json()
        return catalogue

    def passes_missing(self, target: str = _NATIVE) -> str:
        """What :meth:`pass_catalogue` lacks here, with the cure; empty where it lacks nothing."""
        return missing_parts()

    def works_apart(self, target: str) -> bool:
        """Whether there is a device."""
        return isinstance(self._find(), Device)

    def replacement(self, task: Task, code: bytes, resolved: Resolved) -> LoadedImage:
        """See :class:`tuner.core.protocols.Replaces`."""
        return image_of(task, code, resolved)

    def prepare(self, task: Task, *, workers: int) -> CudaEvaluation:
        """Starts the compile workers.

        Raises:
            SpecError: a language that is not CUDA, no launch geometry, an architecture that NVRTC does not know, or
                one that is not the device's.
            MachineError: there is no NVRTC; or the target is ``native`` and there is no device.
        """
        if task.kernel.language != "cuda":
            raise SpecError(
                f"the cuda backend runs CUDA, not {task.kernel.language}", "set backend or language"
            )
        if task.launch is None:
            raise SpecError("a CUDA kernel needs a launch geometry", "launch: {grid: [...], block: [...]}")
        if task.kernel.returns is not None:
            raise SpecError("a CUDA kernel returns nothing", "remove kernel.returns")
        device = self._find()
        arch = self._arch(task.target)
        found = device if isinstance(device, Device) else None
        if found is not None and arch.rstrip("af") != found.arch:
            raise SpecError(
                f"target {arch} is not this machine's {found.name}, which is {found.arch}", "target: native"
            )
        kernel, limits = task.kernel, None if found is None else found.limits
        read = [str(Path(kernel.folder, folder)) for folder in kernel.include]
        compiler = CudaCompiler(arch, workers=workers, limits=limits, read=read)
        if found is None and is_pinned(task):
            compiler.close()
            raise SpecError(
                "the recordings need memory at the addresses that it had, which only a GPU gives",
                "tune where there is one",
            )
        if found is None:
            return CudaEvaluation(task, compiler=compiler, runs=EmulatedRuns(task))
        runs = DeviceRuns(task, compiler, device=found, pool=WorkerPool(self._driver))
        return CudaEvaluation(task, compiler=compiler, runs=runs)

    def _arch(self, target: str) -> str:
        if target != _NATIVE:
            architecture(target)
            return target
        device = self._find()
        if isinstance(device, MachineError):
            raise device
        return device.arch

    def _find(self) -> Device | MachineError:
        if self._device is None:
            try:
                self._device = describe_device(self._driver)
            except MachineError as error:
                self._device = error
        return self._device


class CudaEvaluation:
    """A :class:`tuner.core.protocols.Evaluation`; made by :meth:`CudaBackend.prepare`.

    Args:
        task: what is tuned.
        compiler: the compile side; closed with this.
        runs: the run side, on a device or under emulation; closed with this.
    """

    def __init__(self, task: Task, *, compiler: CudaCompiler, runs: DeviceRuns | EmulatedRuns) -> None:
        self._task = task
        self._compiler = compiler
        self._runs = runs
        self.times = isinstance(runs, DeviceRuns)
        self.objectives = ("time", "size")
        """Whether candidates can be timed."""

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Compiles candidates, several at once."""
        builds = self._compiler.build(self._task, requests)
        for request, build in zip(requests, builds, strict=True):
            if build.status is Status.OK:
                self._runs.know(build, request.variant)
        return builds

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """The source by nvcc, where it is installed, or by clang and LLVM."""
        return build_with(self._compiler, self._task, command, resolved)

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Runs the baseline and the reference on everything that the search will use."""
        if build.status is not Status.OK:
            return BaselineReport(status=build.status, message=build.message)
        return self._runs.set_baseline(build, resolved)

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """What a build takes of the architecture, and of the baseline macros that may reach too far."""
        f = build.features
        text = (
            f"{f['registers_count']:.0f} registers, {f['spill_bytes']:.0f} bytes spilled, "
            f"{f['shared_bytes']:.0f} bytes of shared memory a block"
        )
        if "occupancy_share" in f:
            text += (
                f"; {f['resident_blocks_count']:.0f} blocks of {f['block_threads_count']:.0f} threads at once, "
                f"occupancy {f['occupancy_share']:.0%} on {self._compiler.arch}"
            )
        found = {"resources": text}
        if variant is not None:
            return found
        short = short_names(tuple(resolved.macros))
        if short:
            found["macros"] = (
                f"{', '.join(short)}: names this short may replace words of NVRTC's own headers; rename them"
            )
        if resolved.pipeline is not None:
            found["LLVM"] = self._by_llvm(resolved)
        return found

    def _by_llvm(self, resolved: Resolved) -> str:
        """What clang and LLVM's own O3 make of the baseline: whether pass pipelines can be tuned at all."""
        request = BuildRequest(trial=BASELINE, variant=self._task.kernel.variant, resolved=resolved)
        build = self._compiler.build_by_llvm(self._task, request)
        if build.status is not Status.OK:
            return f"no pass pipeline will build ({build.message}); write passes: off"
        f = build.features
        return (
            f"{self._compiler.passes.describe}; O3 takes {f['registers_count']:.0f} registers, "
            f"{f['spill_bytes']:.0f} bytes spilled"
        )

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> Session:
        """A session; its worker is taken when it is verified.

        Raises:
            UsageError: there is no baseline yet, the build has failed, or the purpose is unknown.
        """
        if build.status is not Status.OK:
            raise UsageError(
                f"a build with status {build.status} cannot be run", "open builds with the status ok only"
            )
        if purpose not in ("search", "confirm"):
            raise UsageError(f"unknown purpose {purpose!r}", "one of search, confirm")
        seed = seed_for(self._task.seed, f"addresses/{purpose}/{build.digest}", number)
        rng = stream(seed, "order")
        return self._runs.open(build, resolved, purpose=purpose, number=number, rng=rng)

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        self._runs.close()
        self._compiler.close()


def image_of(task: Task, code: bytes, resolved: Resolved) -> LoadedImage:
    """What is loaded in the place of the recorded kernel.

    Args:
        task: that was tuned.
        code: of the winner's build, a cubin.
        resolved: the winner's configuration.

    Raises:
        UsageError: it is no cubin, its kernel cannot be told from others, or kernels may write to variables of it.
    """
    name = task.kernel.name
    try:
        symbols, found = kernel_symbols(code), variables(code)
    except ValueError:
        raise UsageError(f"the winner of {name} is no cubin", "tune again with this version") from None
    written = sorted(variable for variable, constant in found.items() if not constant)
    if written:
        raise UsageError(
            f"the winner of {name} has the variable {written[0]}, which kernels may write to",
            "the application's own would not follow; declare it __constant__, or pass it as an argument",
        )
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    launch = resolved.launch_of(task)
    return LoadedImage(
        code=code,
        symbol=_symbol(symbols, entry_expression(task.kernel.entry, values), name),
        constants=tuple(sorted(found)),
        geometries=tuple(geometry(launch, values, problem.sizes) for problem in task.problems),
    )


def _symbol(symbols: list[str], entry: str, name: str) -> str:
    """The kernel that an entry names among those of an image."""
    base = entry.partition("<")[0].strip().rpartition("::")[2]
    mangled = re.compile(rf"_Z.*(?<!\d){len(base)}{re.escape(base)}")
    same = [s for s in symbols if s == base] or [s for s in symbols if mangled.match(s)]
    if len(same) != 1 and len(symbols) != 1:
        shown = ", ".join(sorted(symbols)) or "none"
        raise UsageError(
            f"the winner of {name} has several kernels that may be {entry}: {shown}",
            "leave the others out of the source, and tune again",
        )
    return (same or symbols)[0]
