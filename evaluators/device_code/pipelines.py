"""Candidates with a pass pipeline: clang, then passes and code in worker processes, several at once.

The workers know two kinds of job: ``prepare`` (a front end's module with everything but the kernel hidden) and
``compile`` (one pipeline and the target's code). May not load or run what they make. Also what the words of
``compare: ["clang -O3"]`` mean to clang and LLVM.

The catalogue of passes for device code is the host's, less what does not run there: every pass that a search might use
is run alone on a small kernel and turned into the target's code. Some ask for a target machine that the LLVM in use
cannot give, others leave IR that the target's code generator does not take. Which are useful is not decided here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError, SpecError
from tuner.core.types import Status, Value
from tuner.evaluators.host.catalogue import alone, pass_catalogue
from tuner.evaluators.host.compile_pool import CompilePool, Job, Outcome
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.flags import Flags
from tuner.evaluators.host.frontend import FrontEnd, Source, Unit
from tuner.evaluators.host.toolchain import cache_folder, find_toolchain, write_fact
from tuner.spaces.catalogue import Catalogue

__all__ = [
    "OWN_PIPELINE",
    "Pipelines",
    "Plan",
    "chosen_pipeline",
    "clang_words",
    "file_digest",
    "is_clang",
    "llvmlite_library",
    "probed_catalogue",
]

OWN_PIPELINE = "default<O3>"
"""The one pipeline that is not run here: it stands for the device compiler's own, which is the baseline."""

_PREPARED_KEPT = 512
_LOG_BYTES = 1 << 20
_LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-Oz")
_FORMAT = 2
_PREFIX = "function(sroa,early-cse,simplifycfg,loop-simplify,lcssa)"


def chosen_pipeline(pipeline: str | None) -> str:
    """The pipeline that LLVM is to run; empty where the device's own compiler takes the source."""
    return "" if pipeline in (None, OWN_PIPELINE) else str(pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One candidate up to its passes.

    Attributes:
        source: what clang is given.
        flags: for clang, in ``frontend``.
        macros: ``-DNAME=value``.
        prepare: what the job ``prepare`` is told.
        compile: what the job ``compile`` is told beside the pipeline and the symbol.
    """

    source: Source
    flags: Flags
    macros: Mapping[str, Value]
    prepare: Mapping[str, Any]
    compile: Mapping[str, Any]


class Pipelines:
    """A front end with its compile workers; both are closed with it.

    Args:
        front: makes unoptimised IR, told how many candidates are compiled at once.
        program: of the workers, which know both kinds of job.
        load: what a worker loads.
        workers: how many candidates are compiled at once.
        timeout_s: wall time of one candidate's passes and code.
        broken: what is said where that cannot be loaded, and the cure.

    Raises:
        MachineError: it cannot be loaded.
    """

    def __init__(
        self,
        front: Callable[[int], FrontEnd],
        program: str,
        load: str,
        *,
        workers: int,
        timeout_s: float,
        broken: tuple[str, str],
    ) -> None:
        workers = max(1, workers)
        try:
            self._pool = CompilePool(load, workers=workers, timeout_s=timeout_s, program=program)
        except MachineError as error:
            message, hint = broken
            raise MachineError(message, hint) from error
        self._front = front(workers)
        self._prepared: OrderedDict[str, Outcome] = OrderedDict()

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        self._front.close()
        self._pool.close()

    def compile_plans(self, work: Sequence[tuple[Plan | Outcome, str]]) -> list[Outcome]:
        """One outcome for each candidate with its pipeline, in order.

        The headers of those that are ``ok`` hold what both jobs have answered; a plan that failed stays what it is.
        """
        sound = {i: plan for i, (plan, _) in enumerate(work) if isinstance(plan, Plan)}
        units = dict(
            zip(
                sound,
                self._front.compile([(p.source, p.flags, p.macros) for p in sound.values()]),
                strict=True,
            )
        )
        prepared = self._prepare(units, sound)
        jobs = {
            i: _job(sound[i], outcome, work[i][1])
            for i, outcome in prepared.items()
            if outcome.status is Status.OK
        }
        done = dict(zip(jobs, self._pool.run(list(jobs.values())), strict=True))
        outcomes = []
        for i, (plan, _) in enumerate(work):
            if not isinstance(plan, Plan):
                outcomes.append(plan)
            elif i not in done:
                outcomes.append(prepared[i])
            else:
                outcomes.append(self._finished(jobs[i], done[i], prepared[i], units[i].seconds))
        return outcomes

    def _finished(self, job: Job, outcome: Outcome, prepared: Outcome, front_s: float) -> Outcome:
        if outcome.status is Status.CRASHED:
            return replace(outcome, message=self._pool.crashed_in(job, outcome))
        if outcome.status is not Status.OK:
            return outcome
        seconds = {"frontend": front_s, **outcome.header["seconds"]}
        return replace(outcome, header={**prepared.header, **outcome.header, "seconds": seconds})

    def _prepare(self, units: Mapping[int, Unit], plans: Mapping[int, Plan]) -> dict[int, Outcome]:
        """What became of each front end's module; equal ones are prepared once."""
        found: dict[int, Outcome] = {}
        keys: dict[int, str] = {}
        jobs: dict[str, Job] = {}
        for i, unit in units.items():
            if unit.status is not Status.OK:
                found[i] = Outcome(status=unit.status, message=f"clang: {unit.message}", log=unit.output)
                continue
            header = {"op": "prepare", **plans[i].prepare}
            # One module may hold several kernels.
            keys[i] = digest_json([unit.digest, header])
            if keys[i] not in self._prepared:
                jobs[keys[i]] = Job(header=header, modules=unit.modules)
        self._prepared.update(zip(jobs, self._pool.run(list(jobs.values())), strict=True))
        found |= {i: self._prepared[key] for i, key in keys.items()}
        while len(self._prepared) > _PREPARED_KEPT:
            self._prepared.popitem(last=False)
        return found


def _job(plan: Plan, prepared: Outcome, pipeline: str) -> Job:
    header = {
        "op": "compile",
        "pipeline": pipeline,
        "passes": {},
        **prepared.header,
        **plan.compile,
    }
    return Job(header=header, modules=(prepared.blobs[0],), log_bytes=_LOG_BYTES)


def llvmlite_library() -> str:
    """Path of llvmlite's LLVM; empty where it is not installed."""
    found = importlib.util.find_spec("llvmlite")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    paths = [p for folder in folders for p in sorted(Path(folder, "binding").glob("libllvmlite.*"))]
    return str(paths[0]) if paths else ""


@cache
def file_digest(path: str) -> str:
    """SHA-256 of a file; empty for no path."""
    if not path:
        return ""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_clang(command: Sequence[str]) -> bool:
    """Whether a command names clang; the one in use is taken, with the LLVM that passes are run by."""
    return PurePath(command[0]).name in ("clang", "clang++")


def clang_words(command: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The pipeline of clang's level, the last one written, and the other flags.

    >>> clang_words(["clang", "-O3", "-DN=4"])
    ('default<O3>', ('-DN=4',))

    Raises:
        SpecError: no level, or one that LLVM does not have.
    """
    levels = [word for word in command[1:] if word.startswith("-O")]
    if not levels or levels[-1] not in _LEVELS:
        said = levels[-1] if levels else "none"
        raise SpecError(f"{' '.join(command)}: the level is {said}", f"one of {', '.join(_LEVELS)}")
    others = tuple(word for word in command[1:] if not word.startswith("-O"))
    return f"default<{levels[-1][1:]}>", others


def probed_catalogue(
    name: str,
    depends_on: Any,
    compile_sample: Callable[[Sequence[str]], Sequence[Outcome]],
) -> Catalogue:
    """The passes of the LLVM in use that run on a target's code.

    Args:
        name: of the target, for the file's name.
        depends_on: what the result holds for, plain JSON: parts with versions, the sample's text.
        compile_sample: compiles the sample with each of some pipelines; only called where nothing is kept.

    Raises:
        MachineError: LLVM does not list its passes, or a part is missing.
    """
    with HostCompiler(find_toolchain()) as compiler:
        host = pass_catalogue(compiler)
    key = digest_json([_FORMAT, _PREFIX, depends_on, host.to_json()])
    path = cache_folder() / f"{name}-passes-{key[:16]}.json"
    try:
        return Catalogue.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, SpecError):
        pass
    passes = host.usable
    outcomes = compile_sample([f"{_PREFIX},{alone(p, host)}" for p in passes])
    broken = {p.name for p, o in zip(passes, outcomes, strict=True) if o.status is not Status.OK}
    catalogue = replace(host, broken=host.broken | broken)
    write_fact(path, json.dumps(catalogue.to_json()))
    return catalogue
