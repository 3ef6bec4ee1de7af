"""The catalogue of passes for CUDA's device code: a kernel to try them on. May not decide which are useful."""

from __future__ import annotations

from collections.abc import Sequence

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
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.cuda.device_passes import DevicePasses, parts_environment
from tuner.evaluators.device_code.catalogue import probed_catalogue
from tuner.evaluators.host.compile_pool import Outcome
from tuner.spaces.catalogue import Catalogue

__all__ = ["device_catalogue"]

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
