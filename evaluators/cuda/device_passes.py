"""Candidates with a pass pipeline: clang, passes, NVPTX code and the assembler, several at once; needs no GPU.

What comes out has the form of NVRTC's answers (:mod:`tuner.evaluators.cuda.compile_worker`), so that the rest of the
compile side does not tell them apart. May not load or run what it makes. Clang 23 cannot read the headers of CUDA 13:
the folder ``include`` beside this module has what CUDA C++ offers without any ``#include``, over clang's own device
headers.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

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
    Value,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.cuda.clang_flags import ClangFlags, clang_flags
from tuner.evaluators.cuda.jobs import entry_expression
from tuner.evaluators.cuda.nvjitlink import find_nvjitlink
from tuner.evaluators.cuda.nvptx import MARK
from tuner.evaluators.cuda.nvrtc import toolkit_folders, wheel_folders
from tuner.evaluators.device_code.pipelines import (
    Pipelines,
    Plan,
    file_digest,
    llvmlite_library,
    probed_catalogue,
)
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.compile_pool import Outcome
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain
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
_INCLUDE = Path(__file__).parent / "include"
_FEATURES = "+ptx83"
"""Of PTX at least, or clang hides instructions that every architecture here has."""
_SOURCES = (".cu",)


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
        entry = entry_expression(task.kernel.entry, {**resolved.macros, **resolved.scalars})
        return Plan(
            source=device_source(task, request.variant, flags, entry=entry, macros=resolved.macros),
            flags=Flags(frontend=flags.clang),
            macros={},
            prepare={
                "reflection": {**flags.reflection, "__CUDA_ARCH": self._capability},
                "variables": [a.name for a in task.arguments if a.in_variable],
            },
            compile={"arch": self._arch, "assembler": list(flags.assembler)},
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


class DeviceFrontEnd(front.FrontEnd):
    """Runs clang for one architecture; see :class:`tuner.evaluators.host.frontend.FrontEnd`.

    Args:
        toolchain: whose clang.
        arch: for example ``sm_90``.
        libdevice: path of NVIDIA's mathematical functions as bitcode; what the kernel needs of it is linked in.
        workers: how many at once.
    """

    def __init__(self, toolchain: Toolchain, arch: str, *, libdevice: str, workers: int = 1) -> None:
        super().__init__(toolchain, arch, workers=workers)
        self._arch = arch
        self._libdevice = libdevice

    def compile(self, work: Sequence[tuple[front.Source, Flags, Mapping[str, Value]]]) -> list[front.Unit]:
        """Unoptimised bitcode for each source; the folders of the header and of libdevice may be read too."""
        own = (str(_INCLUDE), str(Path(self._libdevice).parent))
        return super().compile([(replace(s, include=(*own, *s.include)), f, m) for s, f, m in work])

    def words(self, source: front.Source, flags: Flags, macros: Mapping[str, Value]) -> list[str]:
        """The options of every run; a source's folders are in it, and nothing of the system."""
        words = [
            "-c",
            "-O3",
            "--cuda-device-only",
            f"--cuda-gpu-arch={self._arch}",
            "-nocudainc",
            "-nocudalib",
        ]
        words += ["-nostdlibinc", "-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument"]
        words += ["-fomit-frame-pointer", "-Xclang", "-target-feature", "-Xclang", _FEATURES]
        # Linked by clang, libdevice's functions get the target's attributes; without those nothing inlines them.
        words += ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", self._libdevice]
        # CUDA's own half is a class that braces convert to from anything; here it is a number.
        words += ["-Wno-c++11-narrowing"]
        words += ["-fno-color-diagnostics", "-fno-caret-diagnostics", *flags.frontend]
        return [*words, *source.reading_words]


def device_source(
    task: Task, variant: Variant, flags: ClangFlags, *, entry: str, macros: Mapping[str, Value]
) -> front.Source:
    """What clang is given for one candidate.

    The macros stand behind the header, which they would otherwise reach. A variable with the kernel's
    address instantiates a template and tells the symbol, others those of variables; they are dropped before any pass.

    Args:
        task: whose folders are looked at.
        variant: the files; several sources are included one after the other.
        flags: of the candidate.
        entry: the kernel's name expression, parameters replaced.
        macros: of the configuration.
    """
    first, *others = variant.files
    more = [f for f in others if Path(f.name).suffix in _SOURCES]
    lines = [
        '#include "tuner_device.h"',
        *(f"#define {name} {_text(value)}" for name, value in sorted(macros.items())),
        *flags.prelude,
        f'#line 1 "{first.name}"',
        first.text,
        *(f'#include "{f.name}"' for f in more),
        '#line 1 "the entry"',
        f"namespace {MARK} {{ __device__ decltype(&{entry}) entry = &{entry}; }}",
        *(
            f"namespace {MARK} {{ __device__ decltype(&{name}) variable{i}_ = &{name}; }}"
            for i, name in enumerate(a.name for a in task.arguments if a.in_variable)
        ),
        "",
    ]
    files = (Source(name=first.name, text="\n".join(lines)), *others)
    return front.Source(
        variant=Variant(files=files),
        language="cuda",
        folder=task.kernel.folder,
        include=task.kernel.include,
    )


def _text(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
