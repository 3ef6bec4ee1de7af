"""The OpenCL backend: which devices there are, what they can be given, and what a task needs to run on one.

Joins nothing itself: :mod:`tuner.evaluators.opencl.evaluation` does. May not decide what to try next or whether a time
is a gain.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import numpy as np

from tuner.core.errors import MachineError, SpecError, UsageError
from tuner.core.protocols import Replacement
from tuner.core.types import Resolved, Task, Value
from tuner.evaluators.baseline import refuse_constants
from tuner.evaluators.host.readings import MachineReadings, Readings
from tuner.evaluators.opencl.device import Device, choose
from tuner.evaluators.opencl.device_passes import missing_parts, parts_environment, spirv_catalogue
from tuner.evaluators.opencl.evaluation import OpenClEvaluation
from tuner.evaluators.opencl.flags import check_flags
from tuner.evaluators.opencl.module import SPIRV
from tuner.evaluators.opencl.oclgrind import oclgrind_version
from tuner.evaluators.opencl.process import devices_of_machine
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.opencl.spirv import translator, translator_digest, triple_of
from tuner.evaluators.sandbox.support import probe
from tuner.spaces.launch import geometry

__all__ = ["OpenClBackend"]

_NATIVE = "native"
_NO_KERNEL_TYPE = ("bool", "complex64", "complex128")


class OpenClBackend:
    """A :class:`tuner.core.protocols.Backend`; see there.

    Args:
        share_memory: whether kernels work on the tuner's own pages; where the device is the host's processor when
            left out.

    Attributes:
        readings: of the machine, while candidates are timed.
    """

    name = "opencl"
    readings: Readings = MachineReadings()

    def __init__(self, *, share_memory: bool | None = None) -> None:
        self._share_memory = share_memory

    def environment(self, target: str) -> Mapping[str, Any]:
        """The device with its limits, driver and versions.

        Raises:
            MachineError: no pyopencl, no driver, no device.
            SpecError: no device fits the target.
        """
        device = self.device(target)
        found: dict[str, Any] = {
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
        if not missing_parts(device):
            found["passes"] = parts_environment(device)
            if translator():
                found["passes"]["translator"] = translator_digest()
        return found

    def devices(self) -> tuple[Device, ...]:
        """All OpenCL devices of this machine; raises as :meth:`environment`."""
        return devices_of_machine()

    def device(self, target: str) -> Device:
        """The device that a target means; raises as :meth:`environment`."""
        return choose(self.devices(), target)

    def check_flags(self, flags: Sequence[str]) -> None:
        """Raises ``SpecError`` for an option that OpenCL does not have."""
        check_flags(flags)

    def pass_catalogue(self, target: str = _NATIVE) -> Mapping[str, Any] | None:
        """The passes of the LLVM in use, where the device takes SPIR-V and there is something here that makes it.

        The pipeline ``default<O3>`` alone stands for the driver's own compiler, every other one for clang and LLVM.
        """
        if self.passes_missing(target):
            return None
        catalogue: Mapping[str, Any] = spirv_catalogue(self.device(target)).to_json()
        return catalogue

    def passes_missing(self, target: str = _NATIVE) -> str:
        """What :meth:`pass_catalogue` lacks here, with the cure; empty where it lacks nothing."""
        return self.passes_missing_for(target, "opencl")

    def passes_missing_for(self, target: str, language: str) -> str:
        """As :meth:`passes_missing`, for kernels of a language."""
        try:
            return missing_parts(self.device(target), language)
        except (MachineError, SpecError) as error:
            return error.message

    def works_apart(self, target: str) -> bool:
        """Whether the device is not the processor that compiles."""
        try:
            return not self.device(target).cpu
        except (MachineError, SpecError):
            return False

    def replacement(self, task: Task, code: bytes, resolved: Resolved) -> Replacement:
        """See :class:`tuner.core.protocols.Replaces`."""
        return replacement_of(task, code, resolved)

    def prepare(self, task: Task, *, workers: int) -> OpenClEvaluation:
        """Finds the device and starts the zygote.

        Raises:
            SpecError: a language, dtype, launch or target that this backend does not have.
            MachineError: no pyopencl, no driver, no device.
        """
        if task.kernel.language not in ("opencl", SPIRV):
            raise SpecError(
                f"the opencl backend runs OpenCL C and SPIR-V, not {task.kernel.language}",
                "set backend or language",
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
        refuse_constants(task)
        device = self.device(task.target)
        if task.kernel.language == SPIRV and not triple_of(device):
            raise SpecError(f"{device.text} takes no SPIR-V", "name a device that does as target")
        if any(a.dtype == "float64" for a in task.arguments) and not device.doubles:
            raise SpecError(f"{device.text} has no double precision", "use float32, or another target")
        shared = device.cpu if self._share_memory is None else self._share_memory
        return OpenClEvaluation(task, device=device, workers=workers, shared=shared, readings=self.readings)


def replacement_of(task: Task, code: bytes, resolved: Resolved) -> Replacement:
    """What takes the recorded program's place.

    Args:
        task: that was tuned.
        code: of the winner's build.
        resolved: the winner's configuration.

    Raises:
        UsageError: the winner needs files beside its source, or has options that hold blanks.
    """
    program = Program.from_code(code, folder=task.kernel.folder)
    job = program.job()
    if not program.il and (job["headers"] or "-I" in job["options"]):
        raise UsageError(
            f"the winner of {task.kernel.name} includes files", "put them into the source, and tune again"
        )
    if any(" " in option for option in job["options"]):
        raise UsageError("an option of the winner holds a blank", "such a winner cannot be put in place")
    launch = resolved.launch_of(task)
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    return Replacement(
        source="" if program.il else job["source"],
        il=program.il,
        options=" ".join(job["options"]),
        geometries=tuple(geometry(launch, values, problem.sizes) for problem in task.problems),
    )
