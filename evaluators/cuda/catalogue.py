"""The catalogue of passes for device code: the host's, less what does not run there.

Every pass that a search might use is run alone on a small kernel and turned into a cubin: some ask for a target
machine, which an LLVM without NVPTX cannot give. Kept for later runs. May not decide which passes are useful.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tuner.core.canonical import digest_json
from tuner.core.errors import SpecError
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
from tuner.evaluators.cuda.device_passes import DevicePasses, parts_environment
from tuner.evaluators.host.catalogue import alone, pass_catalogue
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain, write_fact
from tuner.spaces.catalogue import Catalogue

__all__ = ["device_catalogue"]

_FORMAT = 1
_ARCH = "sm_80"
_WORKERS = 2
_PREFIX = "function(sroa,early-cse,simplifycfg,loop-simplify,lcssa)"
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


def device_catalogue(*, folder: Path | None = None) -> Catalogue:
    """The passes of the LLVM in use that run on device code.

    Args:
        folder: where the catalogue is kept between runs; the user's cache folder where left out.

    Raises:
        MachineError: LLVM does not list its passes, or a part is missing.
    """
    with HostCompiler(find_toolchain()) as compiler:
        host = pass_catalogue(compiler, folder=folder)
    key = digest_json([_FORMAT, parts_environment(), host.to_json(), _SAMPLE])
    path = (folder or cache_folder()) / f"cuda-passes-{key[:16]}.json"
    try:
        return Catalogue.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, SpecError):
        pass
    catalogue = replace(host, broken=host.broken | _broken(host))
    write_fact(path, json.dumps(catalogue.to_json()))
    return catalogue


def _broken(catalogue: Catalogue) -> frozenset[str]:
    task = _task()
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    request = BuildRequest(trial=0, variant=task.kernel.variant, resolved=resolved)
    passes = catalogue.usable
    work = [(request, f"{_PREFIX},{alone(p, catalogue)}") for p in passes]
    device = DevicePasses(_ARCH, workers=_WORKERS)
    try:
        outcomes = device.compile(task, work)
    finally:
        device.close()
    return frozenset(p.name for p, o in zip(passes, outcomes, strict=True) if o.status is not Status.OK)


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
