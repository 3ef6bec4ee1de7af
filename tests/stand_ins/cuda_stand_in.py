"""CUDA without a GPU, for tests: the stand-in driver built, and a compile side that makes what it can call.

Loaded by path (:func:`load` in the tests that use it), as tests are no package.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtual_clock import FreeLane

from tuner.core.canonical import digest
from tuner.core.expressions import parse
from tuner.core.types import (
    Argument,
    ArgumentRole,
    Build,
    BuildRequest,
    Kernel,
    Launch,
    MeasurePolicy,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.cuda.backend import CudaEvaluation
from tuner.evaluators.cuda.compiler import Made
from tuner.evaluators.cuda.device import DeviceWorker, WorkerPool, describe_device
from tuner.evaluators.cuda.limits import Usage
from tuner.evaluators.cuda.loaded import Clock, MachineClock
from tuner.evaluators.cuda.measured import DeviceRuns
from tuner.evaluators.cuda.nvml import Watch
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.frontend import macro_flags

CC = shutil.which("cc")

HEAD = """
typedef unsigned u;
double stand_in_worked;
#define work_us(us) (stand_in_worked += (us) * 1e-6)
int axpy(void **args, const u *grid, const u *block, u shared) {
    float a = *(float *)args[0];
    const float *x = *(const float **)args[1];
    float *y = *(float **)args[2], *z = *(float **)args[3];
    int n = *(int *)args[4];
    work_us(1500);
"""
"""Begins every kernel here. It says how long a device would work, which needs none of this host's processors: the
stand-in's clock counts just that. Who waits for the device sleeps until it would be done, or moves a
virtual clock on."""
GOOD = HEAD + "for (int i = 0; i < n; i++) { z[i] = a * x[i] + y[i]; y[i] = 2 * z[i]; } return 0; }"


def build_driver(folder: Path, *, clocks: Path | None = None) -> str:
    """The stand-in, built; its path.

    Args:
        folder: for it.
        clocks: where its processes note their virtual time; they have the machine's when left out.
    """
    texts = [Path(__file__).with_name(name).read_text() for name in ("cuda_driver.c", "cuda_driver_more.c")]
    virtual = [] if clocks is None else [f'-DCLOCKS="{clocks}"']
    # Its own calls stay its own, whatever is preloaded.
    return compile_shared(folder / "libcuda.so", "\n".join(texts), "-Wl,-Bsymbolic", *virtual)


@dataclass
class NotedClock:
    """The parent's clock where the stand-in's is virtual: a :class:`tuner.evaluators.cuda.loaded.Clock`.

    Attributes:
        folder: where workers note their time.
        late_s: seconds that pass between any two readings beside what the worker has noted.
        waited: seconds of these that both processes waited for a processor, by the kernel's account.
    """

    folder: Path
    late_s: float = 0.0
    waited: float = 0.0
    _looks: Counter[str] = field(default_factory=Counter)

    def wall_s(self, worker: DeviceWorker) -> float:
        self._looks["wall"] += 1
        noted: float = struct.unpack("d", (self.folder / str(worker.pid)).read_bytes())[0]
        return noted + self.late_s * self._looks["wall"]

    def waited_s(self, worker: DeviceWorker) -> float:
        self._looks["waited"] += 1
        return self.waited * self._looks["waited"]


def timed_driver(folder: Path) -> tuple[str, Clock]:
    """The stand-in with the clock of the running test, built; its path, and what reads that clock here."""
    if not HostBackend.readings.virtual:
        return build_driver(folder), MachineClock()
    clocks = folder / "clocks"
    clocks.mkdir(exist_ok=True)
    return build_driver(folder, clocks=clocks), NotedClock(clocks)


def device_runs(
    task: Task,
    compiler: Any,
    driver: str,
    clock: Clock,
    *,
    pool: WorkerPool | None = None,
    watch: Watch | None = None,
) -> DeviceRuns:
    """What an evaluation does on the stand-in, which needs nobody's leave to be timed."""
    return DeviceRuns(
        task,
        compiler,
        device=describe_device(driver),
        pool=pool or WorkerPool(driver),
        watch=watch,
        lane=FreeLane(),
        clock=clock,
    )


def build_nvrtc(folder: Path) -> str:
    """The stand-in for NVRTC, built; its path."""
    return compile_shared(folder / "libnvrtc.so", Path(__file__).with_name("nvrtc.c").read_text())


def build_nvml(folder: Path) -> str:
    """The stand-in for NVML, built; its path."""
    return compile_shared(folder / "libnvml.so", Path(__file__).with_name("nvml.c").read_text())


def compile_shared(path: Path, text: str, *flags: str) -> str:
    """A shared object."""
    source = path.with_suffix(".c")
    source.write_text(text)
    assert CC is not None
    subprocess.run([CC, "-O1", "-w", "-shared", "-fPIC", *flags, "-o", path, source, "-ldl"], check=True)
    return str(path)


class HostCompiled:
    """Stands where the compile side does; its "cubins" are shared objects of the host."""

    arch = "sm_90"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(self, task: Task, requests: Sequence[BuildRequest]) -> list[Build]:
        """One after the other."""
        return [self._one(r.variant.files[0].text, r.resolved) for r in requests]

    def _one(self, text: str, resolved: Resolved) -> Build:
        flags = macro_flags(resolved.macros)
        path = self._folder / f"{digest(repr((text, flags)).encode())}.so"
        try:
            compile_shared(path, text, *flags)
        except subprocess.CalledProcessError:
            return Build(status=Status.BUILD_ERROR, message="does not compile")
        code = path.read_bytes()
        features = {"registers_count": 16.0, "spill_bytes": 0.0, "shared_bytes": 0.0}
        return Build(status=Status.OK, code=code, digest=digest(code), key=digest(code), features=features)

    def build_double(self, task: Task, resolved: Resolved) -> Build:
        """With double for float."""
        return self._one("#define float double\n" + task.kernel.variant.files[0].text, resolved)

    def made(self, build: Build) -> Made:
        """Nothing to speak of."""
        return Made(symbol="axpy", usage=Usage(registers=16))

    def close(self) -> None:
        """Nothing is held."""


PROBLEMS = (Problem(sizes={"n": 30_000}), Problem(sizes={"n": 5_000}, weight=2.0))


def make_task(
    text: str = GOOD,
    *,
    cache: str = "warm",
    shared: str | None = None,
    problems: tuple[Problem, ...] = PROBLEMS,
) -> Task:
    """One kernel with an input, an inout, an output."""
    n = (parse("n"),)
    return Task(
        kernel=Kernel(
            name="axpy",
            entry="axpy",
            language="cuda",
            variant=Variant(files=(Source(name="axpy.cu", text=text),)),
            folder=".",
        ),
        backend="cuda",
        target="native",
        arguments=(
            Argument(name="a", dtype="float32", value=parse("0.5")),
            Argument(name="x", dtype="float32", shape=n),
            Argument(name="y", dtype="float32", shape=n, role=ArgumentRole.INOUT),
            Argument(name="z", dtype="float32", shape=n, role=ArgumentRole.OUTPUT),
            Argument(name="n", dtype="int32", value=parse("n")),
        ),
        problems=problems,
        verify=VerifyPolicy(assume=(parse("n >= 1"),)),
        measure=MeasurePolicy(cache=cache),
        launch=Launch(
            grid=(parse("ceil(n / 128)"),),
            block=(parse("BLOCK"),),
            shared_bytes=None if shared is None else parse(shared),
        ),
        seed=5,
    )


RESOLVED = Resolved(macros={"BLOCK": 128}, scalars={}, flags=(), pipeline=None)


def request(trial: int, text: str) -> BuildRequest:
    """A candidate of this text."""
    variant = Variant(files=(Source(name="axpy.cu", text=text),))
    return BuildRequest(trial=trial, variant=variant, resolved=RESOLVED)


class StandInBackend:
    """The CUDA backend over the stand-in; its times are what kernels say."""

    name = "cuda"

    def __init__(self, folder: Path, *, nvml: str | None = None) -> None:
        self._folder = folder
        self._nvml = nvml
        self.driver, self.clock = timed_driver(folder)

    def environment(self, target: str) -> Mapping[str, Any]:
        """The stand-in's own words."""
        return {"device": describe_device(self.driver).name, "target": target}

    def check_flags(self, flags: Sequence[str]) -> None:
        """Any flag will do."""

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """None."""
        return None

    def works_apart(self, target: str) -> bool:
        """As a card does."""
        return True

    def prepare(self, task: Task, *, workers: int) -> CudaEvaluation:
        """Ready at once."""
        compiler: Any = HostCompiled(self._folder)
        watch = None if self._nvml is None else Watch(describe_device(self.driver).uuid, library=self._nvml)
        runs = device_runs(task, compiler, self.driver, self.clock, watch=watch)
        return CudaEvaluation(task, compiler=compiler, runs=runs)
