"""Candidates with a pass pipeline: clang, passes, NVPTX code and the assembler, several at once; needs no GPU.

What comes out has the form of NVRTC's answers (:mod:`tuner.evaluators.cuda.compile_worker`), so that the rest of the
compile side does not tell them apart. May not load or run what it makes.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, SpecError
from tuner.core.types import BuildRequest, Status, Task
from tuner.evaluators.cuda.clang_flags import ClangFlags, clang_flags
from tuner.evaluators.cuda.device_frontend import DeviceFrontEnd, device_source
from tuner.evaluators.cuda.entries import entry_expression
from tuner.evaluators.cuda.nvjitlink import find_nvjitlink
from tuner.evaluators.cuda.nvrtc import toolkit_folders, wheel_folders
from tuner.evaluators.host.compile_pool import CompilePool, Job, Outcome, with_debug_logging
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.frontend import Unit
from tuner.evaluators.host.toolchain import Toolchain, find_toolchain

__all__ = ["OWN_PIPELINE", "DevicePasses", "find_libdevice", "missing_parts", "parts_environment"]

OWN_PIPELINE = "default<O3>"
"""The one pipeline that is not run here: it stands for NVRTC's own, which is the baseline."""

_INSTALL = "pip install 'remix-tuner[cuda-passes]'"
_WORKER = "tuner.evaluators.cuda.pass_worker"
_LIBDEVICE = "libdevice.10.bc"
_WHEEL_FOLDERS = ("cu13/nvvm/libdevice", "cuda_nvcc/nvvm/libdevice", "cu12/nvvm/libdevice")
_PREPARED_KEPT = 512
_LOG_BYTES = 1 << 20


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
        "code_generator": _file_digest(_llvmlite_library()),
        "libdevice": _file_digest(find_libdevice()),
        "nvjitlink": _file_digest(find_nvjitlink()),
    }


def _llvmlite_library() -> str:
    found = importlib.util.find_spec("llvmlite")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    paths = [p for folder in folders for p in sorted(Path(folder, "binding").glob("libllvmlite.*"))]
    return str(paths[0]) if paths else ""


@cache
def _file_digest(path: str) -> str:
    if not path:
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A candidate before its passes, or what became of it."""

    flags: ClangFlags
    seconds: float = 0.0
    symbol: str = ""
    bitcode: bytes = b""
    failed: Outcome | None = None


class DevicePasses:
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
        toolchain: Toolchain = find_toolchain()
        places = {
            "llvm": toolchain.library,
            "nvjitlink": find_nvjitlink(),
        }
        try:
            self._pool = CompilePool(
                json.dumps(places), workers=max(1, workers), timeout_s=timeout_s, program=_WORKER
            )
        except MachineError as error:
            raise MachineError(
                "LLVM, llvmlite or nvJitLink cannot be loaded", f"reinstall: {_INSTALL}"
            ) from error
        self._front = DeviceFrontEnd(toolchain, arch, libdevice=find_libdevice(), workers=max(1, workers))
        self._prepared: OrderedDict[str, Outcome] = OrderedDict()
        self.describe = f"LLVM {self._pool.host['llvm']}, code by {self._pool.host['generator']}"
        """Who runs the passes and who makes the code, for people."""

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        self._front.close()
        self._pool.close()

    def compile(self, task: Task, work: Sequence[tuple[BuildRequest, str]]) -> list[Outcome]:
        """One outcome for each candidate with the pipeline that it is to have, in order.

        Those that are ``ok`` have the header and blobs of NVRTC's worker.
        """
        units = self._prepare(task, [request for request, _ in work])
        jobs = {
            i: self._job(unit, pipeline)
            for i, (unit, (_, pipeline)) in enumerate(zip(units, work, strict=True))
            if unit.failed is None
        }
        done = dict(zip(jobs, self._pool.run(list(jobs.values())), strict=True))
        outcomes = []
        for i, unit in enumerate(units):
            if unit.failed is not None:
                outcomes.append(unit.failed)
                continue
            outcome = done[i]
            if outcome.status is Status.CRASHED:
                outcome = self._named(jobs[i], outcome)
            if outcome.status is Status.OK:
                seconds = {"frontend": unit.seconds, **outcome.header["seconds"]}
                outcome = replace(outcome, header={**outcome.header, "seconds": seconds})
            outcomes.append(outcome)
        return outcomes

    def _named(self, job: Job, outcome: Outcome) -> Outcome:
        """A crash with the pass that it happened in."""
        (again,) = self._pool.run([with_debug_logging(job)])
        ran = [line for line in again.log.splitlines() if line.startswith("Running pass: ")]
        if again.status is not Status.CRASHED or not ran:
            return outcome
        return replace(outcome, message=f"{outcome.message} in {ran[-1].removeprefix('Running pass: ')}")

    def _job(self, unit: _Prepared, pipeline: str) -> Job:
        header = {
            "op": "compile",
            "pipeline": pipeline,
            "passes": {},
            "arch": self._arch,
            "symbol": unit.symbol,
            "assembler": list(unit.flags.assembler),
        }
        return Job(header=header, modules=(unit.bitcode,), log_bytes=_LOG_BYTES)

    def _prepare(self, task: Task, requests: Sequence[BuildRequest]) -> list[_Prepared]:
        flags = [self._flags(task, request) for request in requests]
        sound = [i for i, f in enumerate(flags) if isinstance(f, ClangFlags)]
        work = []
        for i in sound:
            taken = flags[i]
            assert isinstance(taken, ClangFlags)
            work.append(self._source(task, requests[i], taken))
        units = dict(zip(sound, self._front.compile(work), strict=True))
        linked = self._link({i: units[i] for i in sound}, flags)
        prepared = []
        for i, taken in enumerate(flags):
            if isinstance(taken, Outcome):
                prepared.append(_Prepared(flags=ClangFlags(clang=()), failed=taken))
                continue
            outcome = linked[i]
            ok = outcome.status is Status.OK
            prepared.append(
                _Prepared(
                    flags=taken,
                    seconds=units[i].seconds,
                    symbol=str(outcome.header["symbol"]) if ok else "",
                    bitcode=outcome.blobs[0] if ok else b"",
                    failed=None if ok else outcome,
                )
            )
        return prepared

    @staticmethod
    def _flags(task: Task, request: BuildRequest) -> ClangFlags | Outcome:
        try:
            return clang_flags(request.resolved.flags, folder=task.kernel.folder)
        except SpecError as error:
            return Outcome(status=Status.BUILD_ERROR, message=error.message)

    @staticmethod
    def _source(task: Task, request: BuildRequest, flags: ClangFlags) -> tuple[Any, Flags, dict[str, Any]]:
        resolved = request.resolved
        entry = entry_expression(task.kernel.entry, {**resolved.macros, **resolved.scalars})
        source = device_source(task, request.variant, flags, entry=entry, macros=resolved.macros)
        return source, Flags(frontend=flags.clang), {}

    def _link(self, units: Mapping[int, Unit], flags: Sequence[ClangFlags | Outcome]) -> dict[int, Outcome]:
        """What became of each front end's module; equal ones are prepared once."""
        found: dict[int, Outcome] = {}
        keys: dict[int, str] = {}
        jobs: dict[str, Job] = {}
        for i, unit in units.items():
            if unit.status is not Status.OK:
                found[i] = Outcome(status=unit.status, message=f"clang: {unit.message}", log=unit.output)
                continue
            taken = flags[i]
            assert isinstance(taken, ClangFlags)
            keys[i] = unit.digest
            if unit.digest not in self._prepared:
                header = {
                    "op": "prepare",
                    "reflection": {**taken.reflection, "__CUDA_ARCH": self._capability},
                }
                jobs[unit.digest] = Job(header=header, modules=unit.modules)
        self._prepared.update(zip(jobs, self._pool.run(list(jobs.values())), strict=True))
        found |= {i: self._prepared[key] for i, key in keys.items()}
        while len(self._prepared) > _PREPARED_KEPT:
            self._prepared.popitem(last=False)
        return found

    @property
    def _capability(self) -> int:
        """As ``__CUDA_ARCH__`` has it: 900 for ``sm_90``."""
        return 10 * int("".join(c for c in self._arch if c.isdigit()))
