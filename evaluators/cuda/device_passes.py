"""Candidates with a pass pipeline: clang, passes, NVPTX code and the assembler, several at once; needs no GPU.

What comes out has the form of NVRTC's answers (:mod:`tuner.evaluators.cuda.compile_worker`), so that the rest of the
compile side does not tell them apart. May not load or run what it makes.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence

from tuner.core.errors import MachineError, SpecError
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    BuildRequest,
    Kernel,
    MeasurePolicy,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.cuda.clang_flags import clang_flags
from tuner.evaluators.cuda.device_frontend import DeviceFrontEnd, device_source
from tuner.evaluators.cuda.jobs import entry_expression
from tuner.evaluators.cuda.nvjitlink import find_nvjitlink
from tuner.evaluators.cuda.nvrtc import toolkit_folders, wheel_folders
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
from tuner.spaces.catalogue import Catalogue

__all__ = ["DevicePasses", "device_catalogue", "find_libdevice", "missing_parts", "parts_environment"]

_INSTALL = "pip install 'remix-tuner[cuda-passes]'"
_LIBDEVICE = "libdevice.10.bc"
_WHEEL_FOLDERS = ("cu13/nvvm/libdevice", "cuda_nvcc/nvvm/libdevice", "cu12/nvvm/libdevice")
_ARCH = "sm_80"
_WORKERS = 2
_SAMPLE = """
static __device__ float term(const float *x, int i) { return x[i] > 0 ? sinf(x[i]) : -x[i]; }
extern "C" __global__ void probe(const float *x, float *y, int n) {
    __shared__ float part[128];
    float sum = 0;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += term(x, i);
    for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(~0u, sum, by);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 4; j++) sum += part[(threadIdx.x + k * j) % 128] * x[k];
    switch (n & 3) {
        case 0: y[0] = sum; break;
        case 1: atomicAdd(&y[1], sum); break;
        default: y[2] = sum / n;
    }
}
"""


def find_libdevice() -> str:
    """Path of libdevice: the pip wheel's, else a toolkit's; empty where there is none."""
    for folder in (*wheel_folders(_WHEEL_FOLDERS), *toolkit_folders("nvvm/libdevice")):
        if (folder / _LIBDEVICE).is_file():
            return str(folder / _LIBDEVICE)
    return ""


def missing_parts() -> str:
    """What pass pipelines for CUDA lack here, with the cure; empty where they can be run."""
    missing = []
    if importlib.util.find_spec("llvmlite") is None:
        missing.append("llvmlite")
    if not find_libdevice():
        missing.append("libdevice")
    if not find_nvjitlink():
        missing.append("nvJitLink")
    try:
        find_toolchain()
    except MachineError as error:
        return error.message
    return f"{', '.join(missing)} missing: {_INSTALL}" if missing else ""


def parts_environment() -> dict[str, str]:
    """What the code of candidates with a pipeline depends on: versions, and digests of the files."""
    toolchain = find_toolchain()
    return {
        "llvm": toolchain.version,
        "llvm_digest": toolchain.digest,
        "code_generator": file_digest(llvmlite_library()),
        "libdevice": file_digest(find_libdevice()),
        "nvjitlink": file_digest(find_nvjitlink()),
    }


class DevicePasses(Pipelines):
    """Front end and compile workers for one architecture.

    Args:
        arch: what to compile for, ``sm_90``.
        workers: how many candidates are compiled at once.
        timeout_s: wall time of one candidate's passes and code.

    Raises:
        MachineError: a part is missing; see :func:`missing_parts`.
    """

    def __init__(self, arch: str, *, workers: int = 1, timeout_s: float = 30.0) -> None:
        why = missing_parts()
        if why:
            raise MachineError(f"pass pipelines cannot be run for CUDA: {why}", f"{_INSTALL}, or passes: off")
        self._arch = arch
        toolchain = find_toolchain()
        super().__init__(
            lambda workers: DeviceFrontEnd(toolchain, arch, libdevice=find_libdevice(), workers=workers),
            "tuner.evaluators.cuda.pass_worker",
            json.dumps({"llvm": toolchain.library, "nvjitlink": find_nvjitlink()}),
            workers=workers,
            timeout_s=timeout_s,
            broken=("LLVM, llvmlite or nvJitLink cannot be loaded", f"reinstall: {_INSTALL}"),
        )
        self.describe = f"LLVM {self._pool.host['llvm']}, code by {self._pool.host['generator']}"
        """Who runs the passes and who makes the code, for people."""

    def compile(self, task: Task, work: Sequence[tuple[BuildRequest, str]]) -> list[Outcome]:
        """One outcome for each candidate with the pipeline that it is to have, in order.

        Those that are ``ok`` have the header and blobs of NVRTC's worker.
        """
        return self.compile_plans([(self._plan(task, request), pipeline) for request, pipeline in work])

    def _plan(self, task: Task, request: BuildRequest) -> Plan | Outcome:
        resolved = request.resolved
        try:
            flags = clang_flags(
                resolved.flags, folder=task.kernel.folder, files=[f.name for f in request.variant.files]
            )
        except SpecError as error:
            return Outcome(status=Status.BUILD_ERROR, message=error.message)
        constants = [a.name for a in task.arguments if a.constant]
        entry = entry_expression(task.kernel.entry, {**resolved.macros, **resolved.scalars})
        return Plan(
            source=device_source(task, request.variant, flags, entry=entry, macros=resolved.macros),
            flags=Flags(frontend=flags.clang),
            macros={},
            prepare={
                "reflection": {**flags.reflection, "__CUDA_ARCH": self._capability},
                "constants": constants,
            },
            compile={"arch": self._arch, "assembler": list(flags.assembler), "constants": constants},
        )

    @property
    def _capability(self) -> int:
        """As ``__CUDA_ARCH__`` has it: 900 for ``sm_90``."""
        return 10 * int("".join(c for c in self._arch if c.isdigit()))


def device_catalogue() -> Catalogue:
    """The passes of the LLVM in use that run on CUDA's device code; see :func:`probed_catalogue`.

    Raises:
        MachineError: LLVM does not list its passes, or a part is missing.
    """
    return probed_catalogue("cuda", [parts_environment(), _SAMPLE], _compile_sample)


def _compile_sample(pipelines: Sequence[str]) -> list[Outcome]:
    task = _task()
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    request = BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)
    device = DevicePasses(_ARCH, workers=_WORKERS)
    try:
        return device.compile(task, [(request, pipeline) for pipeline in pipelines])
    finally:
        device.close()


def _task() -> Task:
    size = (parse("n"),)
    return Task(
        kernel=Kernel(
            name="probe",
            entry="probe",
            language="cuda",
            variant=Variant(files=(Source(name="probe.cu", text=_SAMPLE),)),
            folder="",
        ),
        backend="cuda",
        target=_ARCH,
        arguments=(
            Argument(name="x", dtype="float32", shape=size),
            Argument(name="y", dtype="float32", shape=size, role=ArgumentRole.OUTPUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=(Problem(sizes={"n": 4}),),
        verify=VerifyPolicy(),
        measure=MeasurePolicy(),
    )
