"""From candidates to builds: through passes where they have some, through the driver, against the device's limits.

How much local memory a source declares is asked of clang, for drivers that do not say what a kernel takes: it makes
assembly for this machine, in which variables in local memory are plain ones with their sizes. May not run a kernel. A
candidate's failure is a status.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tuner.core.canonical import digest, digest_json
from tuner.core.errors import MachineError
from tuner.core.reaching import reachable
from tuner.core.types import Build, BuildRequest, Resolved, Status, Task
from tuner.evaluators.device_code.pipelines import chosen_pipeline
from tuner.evaluators.host.compile_pool import Outcome
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.supply import runtime_of
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.compiler import Compiled, Compiler
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.device_passes import SpirvPasses
from tuner.evaluators.opencl.limits import features, inspect, launches_of
from tuner.evaluators.opencl.module import SPIRV
from tuner.evaluators.opencl.process import OpenClZygote
from tuner.evaluators.opencl.program import Program, canonical_text
from tuner.evaluators.sandbox.compiling import run_compiler

__all__ = ["Builder", "declared_local_bytes"]

_TIMEOUT_S = 20.0
_MOST_BYTES = 64 << 20
_ASSEMBLY = "program.s"
_LOCAL = re.compile(r"\b(?:__)?local\b")
_VARIABLE = re.compile(r"^\s*\.local\s+(\S+)\s+\.comm\s+\1,(\d+)", re.MULTILINE)
_FUNCTION = re.compile(r"^(\w+):(.*?)^\.Lfunc_end\d+:", re.MULTILINE | re.DOTALL)
_SYMBOL = re.compile(r"[A-Za-z_][\w.$]*")
_WORDS = ["-x", "cl", "-O0", "-w", "--target=x86_64-unknown-linux-gnu", "-S", "-o", _ASSEMBLY, "program.cl"]


class Builder:
    """Compile workers for one task on one device; started when first needed.

    Args:
        task: what is tuned.
        device: to compile for.
        workers: how many candidates are compiled at once.
    """

    def __init__(self, task: Task, device: Device, *, workers: int) -> None:
        self._task = task
        self._device = device
        self._workers = workers
        self._zygote: OpenClZygote | None = None
        self._compiler: Compiler | None = None
        self._passes: SpirvPasses | None = None

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        if self._passes is not None:
            self._passes.close()
            self._passes = None
        if self._compiler is not None:
            self._compiler.close()
            self._compiler = None
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    @property
    def zygote(self) -> OpenClZygote:
        """What workers are forked from; another one where the last has ended."""
        if self._zygote is None or not self._zygote.alive:
            self._zygote = OpenClZygote()
            self._compiler = None
        return self._zygote

    @property
    def passes(self) -> SpirvPasses:
        """Runs pass pipelines.

        Raises:
            MachineError: there is nothing here that runs them, or the device takes no SPIR-V.
        """
        if self._passes is None:
            self._passes = SpirvPasses(self._device, workers=self._workers)
        return self._passes

    def compile(self, programs: Sequence[Program]) -> list[Compiled]:
        """What the driver makes of programs, in order."""
        if not programs:
            return []
        zygote = self.zygote
        if self._compiler is None:
            self._compiler = Compiler(zygote, self._device, workers=self._workers)
        return self._compiler.compile(programs)

    def build(self, requests: Sequence[BuildRequest], *, by_llvm: str = "") -> list[Build]:
        """One build for each candidate, in order; over a known limit is ``out_of_resources``.

        Args:
            requests: the candidates.
            by_llvm: the pipeline of those that have none; empty: the driver's own compiler takes them.

        Raises:
            MachineError: one has a pass pipeline and there is nothing here that runs it.
        """
        programs = [Program.of(self._task.kernel, r.variant, r.resolved) for r in requests]
        pipelines = [chosen_pipeline(r.resolved.pipeline) or by_llvm for r in requests]
        work = [(p, pipeline) for p, pipeline in zip(programs, pipelines, strict=True) if pipeline]
        passed = iter(self.passes.compile(work) if work else ())
        outcomes = [next(passed) if pipeline else None for pipeline in pipelines]
        programs = [_with_il(p, o) for p, o in zip(programs, outcomes, strict=True)]
        sound = [i for i, o in enumerate(outcomes) if o is None or o.status is Status.OK]
        compiled = dict(zip(sound, self.compile([programs[i] for i in sound]), strict=True))
        builds = []
        for i, outcome in enumerate(outcomes):
            if outcome is not None and i not in compiled:
                log = _log(outcome.log)
                builds.append(Build(status=outcome.status, message=outcome.message, artifacts=log))
            else:
                builds.append(self._build(requests[i].resolved, programs[i], compiled[i], outcome))
        return builds

    def wide(self, resolved: Resolved) -> Program | None:
        """The kernel in double, where it can be built and run; SPIR-V has its types for good."""
        kernel = self._task.kernel
        if kernel.language == SPIRV:
            return None
        program = Program.of(kernel, kernel.variant, resolved, wide=True)
        (compiled,) = self.compile([program])
        if compiled.status is not Status.OK or "float16" in {a.dtype for a in self._task.arguments}:
            return None
        try:
            self._inspect(resolved, program, compiled)
        except CandidateFailed:
            return None
        return program

    @cached_property
    def _clang(self) -> str | None:
        try:
            return find_toolchain().clang
        except MachineError:
            return None

    def _inspect(self, resolved: Resolved, program: Program, compiled: Compiled) -> Mapping[str, object]:
        shape = launches_of(self._task, resolved, wide=program.wide)
        geometries = [shape(problem.sizes) for problem in self._task.problems]
        entry = self._task.kernel.entry
        # PoCL says zero of what another kernel that this one calls declares, and of what its compiler left out.
        silent = not compiled.kernels.get(entry, {}).get("local_bytes", 1)
        declared = declared_local_bytes(program, self._clang) if silent else None
        return inspect(
            compiled.kernels,
            entry,
            self._task.arguments,
            self._device,
            geometries,
            declared_bytes=declared or 0,
        )

    def _build(
        self, resolved: Resolved, program: Program, compiled: Compiled, outcome: Outcome | None
    ) -> Build:
        seconds = {"driver": compiled.seconds}
        if outcome is not None:
            seconds |= outcome.header["seconds"]
        log = _log(compiled.log)
        if compiled.status is not Status.OK:
            return Build(status=compiled.status, message=compiled.message, seconds=seconds, artifacts=log)
        try:
            found = self._inspect(resolved, program, compiled)
        except CandidateFailed as refusal:
            return Build(status=refusal.status, message=refusal.message, seconds=seconds, artifacts=log)
        shape = launches_of(self._task, resolved)
        geometries = [shape(problem.sizes) for problem in self._task.problems]
        code = program.code()
        key = {
            "text": canonical_text(program, self._clang),
            "entry": program.entry,
            "geometry": [[list(g.grid), list(g.block), g.shared_bytes] for g in geometries],
            "runtime": runtime_of(self._task, resolved),
        }
        return Build(
            status=Status.OK,
            code=code,
            digest=digest(code),
            key=digest_json(key),
            features=features(found, geometries[0]),
            seconds=seconds,
            artifacts=log,
        )


def _with_il(program: Program, outcome: Outcome | None) -> Program:
    if outcome is None or outcome.status is not Status.OK:
        return program
    return replace(program, il=outcome.blobs[0], local=tuple(outcome.header["local"]))


def _log(text: str) -> dict[str, str]:
    return {"log": text} if text.strip() else {}


def declared_local_bytes(program: Program, clang: str | None) -> int | None:
    """Bytes of the variables in local memory that the entry, or what it calls, uses; ``None`` where it is not known.

    Args:
        program: with source.
        clang: path of a clang; ``None`` for none.
    """
    if clang is None or program.is_module:
        return None
    job = program.source.job()
    headers = [*job["headers"], *((name, text) for _, name, text in job["included"])]
    if not any(_LOCAL.search(text) for text in (job["source"], *(t for _, t in headers), *job["options"])):
        return 0
    assembly = _assembly(clang, job["source"], headers, job["options"])
    if assembly is None:
        return None
    sizes = {name: int(size) for name, size in _VARIABLE.findall(assembly)}
    used = {name: set(_SYMBOL.findall(body)) for name, body in _FUNCTION.findall(assembly)}
    if program.entry not in used:
        return None
    reached = reachable([program.entry], lambda name: used.get(name, ()))
    return sum(size for name, size in sizes.items() if name in reached)


def _assembly(clang: str, source: str, headers: list[tuple[str, str]], options: list[str]) -> str | None:
    kept = [o for o in options if o.startswith(("-D", "-U", "-cl-std="))]
    with tempfile.TemporaryDirectory(prefix="tuner-opencl-local-") as scratch:
        for name, text in headers:
            path = Path(scratch, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        Path(scratch, "program.cl").write_text(source, encoding="utf-8")
        try:
            ended = run_compiler(
                [clang, *_WORDS, "-I", scratch, *kept], scratch, timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES
            )
        except OSError:
            return None
        return (
            Path(scratch, _ASSEMBLY).read_text(encoding="utf-8", errors="replace")
            if ended.status == 0
            else None
        )
