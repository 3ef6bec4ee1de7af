"""OpenCL candidates with a pass pipeline: clang, passes and SPIR-V, several at once; needs no device to compile.

May not load or run what it makes. Whether a device takes SPIR-V is the device's own word.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from tuner.core.errors import MachineError, SpecError
from tuner.core.types import Source, Status
from tuner.evaluators.device_code.pipelines import (
    Pipelines,
    Plan,
    file_digest,
    llvmlite_library,
    probed_catalogue,
)
from tuner.evaluators.host.compile_pool import Outcome
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.module import SPIRV
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.opencl.spirv import (
    INSTALL,
    SpirvFrontEnd,
    clang_options,
    spirv_source,
    translator,
    triple_of,
)
from tuner.spaces.catalogue import Catalogue

__all__ = ["SpirvPasses", "missing_parts", "parts_environment", "spirv_catalogue"]

_INSTALL = "pip install 'remix-tuner[opencl-passes]'"
_WORKERS = 2
_SAMPLE = """
float term(__global const float *x, int i) { return x[i] > 0 ? native_sin(x[i]) : -x[i]; }
__kernel void probe(__global const float *x, __global float4 *y, int n, __local float *part) {
    const int l = get_local_id(0);
    float sum = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) sum += term(x, i);
    part[l] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 4; j++) sum += part[(l + k * j) % 128] * x[k];
    switch (n & 3) {
        case 0: y[0] = (float4)(sum); break;
        case 1: y[1] = vload4(l, x); break;
        default: y[2].xy = sum / n;
    }
}
"""


def missing_parts(device: Device, language: str = "opencl") -> str:
    """What pass pipelines over a kernel of that language lack here, with the cure; empty where they can be run."""
    if not triple_of(device):
        takes = f"takes {device.il}" if device.il else "takes no intermediate language"
        return f"{device.text} {takes}, and they need SPIR-V"
    if importlib.util.find_spec("llvmlite") is None:
        return f"llvmlite missing: {_INSTALL}"
    if language == SPIRV and not translator():
        return f"llvm-spirv missing: {INSTALL}"
    try:
        find_toolchain()
    except MachineError as error:
        return error.message
    return ""


def parts_environment(device: Device) -> dict[str, str]:
    """What the code of candidates with a pipeline depends on: versions, and digests of the files."""
    toolchain = find_toolchain()
    return {
        "llvm": toolchain.version,
        "llvm_digest": toolchain.digest,
        "code_generator": file_digest(llvmlite_library()),
        "target": triple_of(device),
    }


class SpirvPasses(Pipelines):
    """Front end and compile workers for one device.

    Args:
        device: that takes SPIR-V.
        workers: how many candidates are compiled at once.
        timeout_s: wall time of one candidate's passes and code.

    Raises:
        MachineError: a part is missing; see :func:`missing_parts`.
    """

    def __init__(self, device: Device, *, workers: int = 1, timeout_s: float = 30.0) -> None:
        why = missing_parts(device)
        if why:
            raise MachineError(f"pass pipelines cannot be run for OpenCL: {why}", "write passes: off")
        self._triple = triple_of(device)
        toolchain = find_toolchain()
        super().__init__(
            lambda workers: SpirvFrontEnd(toolchain, device, workers=workers),
            "tuner.evaluators.opencl.pass_worker",
            toolchain.library,
            workers=workers,
            timeout_s=timeout_s,
            broken=("LLVM or llvmlite cannot be loaded", f"reinstall: {_INSTALL}"),
        )
        self.describe = f"LLVM {self._pool.host['llvm']}, SPIR-V by {self._pool.host['generator']}"
        """Who runs the passes and who makes the code, for people."""

    def compile(self, work: Sequence[tuple[Program, str]]) -> list[Outcome]:
        """One outcome for each program with its pipeline, in order.

        The header of those that are ``ok`` has ``local`` (for each parameter of the kernel whether it lies in local
        memory) and ``seconds``; their only blob is the SPIR-V module.
        """
        return self.compile_plans([(self._plan(program), pipeline) for program, pipeline in work])

    def _plan(self, program: Program) -> Plan | Outcome:
        if program.is_module and not translator():
            return Outcome(status=Status.BUILD_ERROR, message=f"llvm-spirv missing: {INSTALL}")
        try:
            options = clang_options(program.options)
        except SpecError as error:
            return Outcome(status=Status.BUILD_ERROR, message=error.message)
        return Plan(
            source=spirv_source(program),
            flags=Flags(frontend=options),
            macros={},
            prepare={"entry": program.entry},
            compile={"triple": self._triple},
        )


def spirv_catalogue(device: Device) -> Catalogue:
    """The passes of the LLVM in use whose results become SPIR-V; see :func:`probed_catalogue`.

    Args:
        device: that takes SPIR-V; a driver is not asked.

    Raises:
        MachineError: LLVM does not list its passes, or a part is missing.
    """
    program = Program(entry="probe", files=(Source(name="probe.cl", text=_SAMPLE),), options=())

    def compile_sample(pipelines: Sequence[str]) -> list[Outcome]:
        passes = SpirvPasses(device, workers=_WORKERS)
        try:
            return passes.compile([(program, pipeline) for pipeline in pipelines])
        finally:
            passes.close()

    return probed_catalogue("spirv", [parts_environment(device), _SAMPLE], compile_sample)
