"""The host's compiler: candidates in, builds out. Source to bitcode by clang, the rest in worker processes.

Brings together the front end, the pool of compile workers and the reading of objects. May not execute what it makes.
A candidate that does not build is a status on its build, never an exception.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from tuner.core.canonical import digest_json
from tuner.core.errors import BaselineError, SpecError
from tuner.core.types import Build, BuildRequest, Kernel, Resolved, Source, Status, Value, Variant
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.bundles import variable_bytes
from tuner.evaluators.host.compile_pool import CompilePool, Job, Outcome
from tuner.evaluators.host.flags import VALUE_CHANGING, Flags, sort_flags
from tuner.evaluators.host.objects import Object, refusal
from tuner.evaluators.host.structure_layout import Layouts
from tuner.evaluators.host.toolchain import Toolchain

__all__ = ["BASE_PIPELINE", "HostCompiler"]

BASE_PIPELINE = "default<O3>"
"""The pipeline where passes are off."""

_LISTING_BYTES = 4 << 20
_LINKED_KEPT = 512
_FLOAT_FUNCTIONS_TEXT = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs "
    "fdim floor fma fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 logb lrint lround "
    "llrint llround modf nearbyint nextafter pow remainder remquo rint round scalbn sin sinh sqrt tan "
    "tanh tgamma trunc"
)
_FLOAT_FUNCTIONS = _FLOAT_FUNCTIONS_TEXT.split()
_FLOAT_LIMITS = ("EPSILON", "MAX", "MIN", "TRUE_MIN", "DIG", "MANT_DIG", "MAX_EXP", "MIN_EXP")
_DOUBLE_MACROS: dict[str, Value] = {
    "float": "double",
    **{f"{name}f": name for name in _FLOAT_FUNCTIONS},
    **{f"__builtin_{name}f": f"__builtin_{name}" for name in _FLOAT_FUNCTIONS},
    **{f"FLT_{name}": f"__DBL_{name.replace('TRUE_MIN', 'DENORM_MIN')}__" for name in _FLOAT_LIMITS},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """What one candidate is compiled from, once the front end has been through."""

    flags: Flags
    pipeline: str
    seconds: Mapping[str, float]
    bitcode: bytes = b""
    failed: Build | None = None


class HostCompiler:
    """Builds candidates for this machine's kind of processor. Not thread safe.

    Args:
        toolchain: clang and libLLVM.
        target: ``native`` or a CPU's name as clang's ``-march`` takes it.
        workers: how many compile at once.
        timeout_s: wall time of one candidate's passes and code generation.
        memory_bytes: address space of one worker.
        bare: pretend that the machine has no system headers.

    Raises:
        MachineError: when libLLVM cannot be used.
        SpecError: when clang does not know the target.
    """

    def __init__(
        self,
        toolchain: Toolchain,
        target: str = "native",
        *,
        workers: int = 1,
        timeout_s: float = 10.0,
        memory_bytes: int = 4 << 30,
        bare: bool = False,
    ) -> None:
        self.toolchain = toolchain
        self.target = target
        self._cpu = "" if target == "native" else target
        self._linked: dict[str, Outcome] = {}
        self._listed: frozenset[str] | None = None
        self.pool = CompilePool(
            toolchain.library, workers=workers, timeout_s=timeout_s, memory_bytes=memory_bytes
        )
        self.front = front.FrontEnd(toolchain, target, workers=workers, bare=bare)
        self._layouts = Layouts(self.front)
        try:
            self._check_target()
        except BaseException:
            self.close()
            raise

    def _check_target(self) -> None:
        if self.target != "native":
            try:
                self.front.check(sort_flags([f"-march={self.target}"]))
            except SpecError as error:
                raise SpecError(
                    f"target {self.target!r} is no CPU that clang knows",
                    "write native, or a name as -march takes it, for example x86-64-v3",
                ) from error

    def close(self) -> None:
        """Ends all processes; safe to call twice."""
        self.front.close()
        self.pool.close()

    def __enter__(self) -> HostCompiler:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def environment(self) -> dict[str, str]:
        """What object code depends on: LLVM's version and digest, target, CPU and its features."""
        host = self.pool.host
        return {
            "llvm": self.toolchain.version,
            "llvm_digest": self.toolchain.digest,
            "triple": host["triple"],
            "target": self.target,
            "cpu": self._cpu or host["cpu"],
            "cpu_features": "" if self._cpu else host["features"],
        }

    def check_flags(self, flags: Sequence[str], *, folder: str = "") -> Flags:
        """Sorts flags and asks clang and LLVM whether they take them.

        Args:
            flags: words as on a command line.
            folder: what relative include folders are relative to.

        Raises:
            SpecError: for a flag that cannot be honoured.
        """
        sorted_ = sort_flags(flags, folder=folder)
        for option in sorted_.options:
            self._check_option(option)
        if sorted_.given:
            self.front.check(sorted_)
        if sorted_.veclib:
            self.front.vector_variants(sorted_.veclib)
        return sorted_

    def _check_option(self, option: str) -> None:
        # LLVM ignores an unknown option without a word when it is set through the C API.
        if self._listed is None:
            outcome = self.pool.run(
                [Job(header={"op": "list", "what": "options"}, log_bytes=_LISTING_BYTES)]
            )[0]
            words = (line.split()[0] for line in outcome.log.splitlines() if line.strip().startswith("-"))
            self._listed = frozenset(w.lstrip("-").split("=")[0].split(" ")[0] for w in words)
        name = option.lstrip("-").split("=")[0]
        if not option.startswith("-") or (self._listed and name not in self._listed):
            raise SpecError(
                f"flag -mllvm {option} cannot be honoured: LLVM {self.toolchain.version} has no such option",
                "clang -mllvm --help-hidden lists them",
            )

    def build(
        self,
        kernel: Kernel,
        requests: Sequence[BuildRequest],
        *,
        allowed_imports: Collection[str] | None = frozenset(),
        texts: bool = False,
        wide: bool = False,
    ) -> list[Build]:
        """Compiles candidates; one build for each request, in order.

        Args:
            kernel: whose sources, entry and folders the variants belong to.
            requests: what to build.
            allowed_imports: what objects may import beside libm, libmvec and libc's string and memory functions;
                ``None`` allows everything, for the baseline, whose imports are then what candidates may have.
            texts: also put optimised IR and assembly into the artifacts.
            wide: the macros widen what is narrower than float64, variables included.
        """
        units = self._units(kernel, [(r.variant, r.resolved) for r in requests], wide)
        builds: list[Build | None] = [u.failed for u in units]
        wanted = [i for i, u in enumerate(units) if u.failed is None]
        outcomes = self.pool.run([self._job(units[i], texts) for i in wanted])
        for i, outcome in zip(wanted, outcomes, strict=True):
            builds[i] = self._finish(kernel, requests[i].resolved, units[i], outcome, allowed_imports)
        return [b for b in builds if b is not None]

    def build_text(self, text: str, *, entry: str) -> Build:
        """Builds one C file of the project's own, which may import anything."""
        variant = Variant(files=(Source(name="text.c", text=text),))
        kernel = Kernel(name=entry, entry=entry, language="c", variant=variant, folder="")
        resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=BASE_PIPELINE)
        request = BuildRequest(trial=0, variant=variant, resolved=resolved)
        return self.build(kernel, [request], allowed_imports=None)[0]

    def build_double(
        self, kernel: Kernel, *, macros: Mapping[str, Value], flags: Sequence[str] = ()
    ) -> Build:
        """The kernel with ``double`` in the place of ``float``, for a reference; its failure is no error.

        Works by macros, so a kernel that looks into the bits of its numbers, or counts their bytes, builds and
        means something else: compare with the baseline's output before trusting it. Flags that may change values
        are left out.
        """
        kept = [f for f in flags if not VALUE_CHANGING.match(f)]
        resolved = Resolved(
            macros={**_DOUBLE_MACROS, **macros}, scalars={}, flags=tuple(kept), pipeline=BASE_PIPELINE
        )
        request = BuildRequest(trial=0, variant=kernel.variant, resolved=resolved)
        return self.build(kernel, [request], allowed_imports=None, wide=True)[0]

    def _units(self, kernel: Kernel, wanted: Sequence[tuple[Variant, Resolved]], wide: bool) -> list[_Unit]:
        """Flags sorted, sources compiled to bitcode and linked; everything equal once."""
        flags = [self._flags(resolved, kernel.folder) for _, resolved in wanted]
        sound, work = [], []
        for i, (variant, resolved) in enumerate(wanted):
            sorted_ = flags[i]
            if not isinstance(sorted_, Flags):
                continue
            try:
                source = front.Source.of(self._layouts.kept(kernel, variant, resolved), variant)
            except BaselineError as error:
                flags[i] = SpecError(error.message, error.hint)
                continue
            sound.append(i)
            work.append((source, sorted_, resolved.macros))
        compiled = dict(zip(sound, self.front.compile(work), strict=True))
        linked = self._link(kernel, [(compiled[i], work[n][1]) for n, i in enumerate(sound)], wide)
        links = dict(zip(sound, linked, strict=True))
        units = []
        for i, (_, resolved) in enumerate(wanted):
            sorted_ = flags[i]
            if isinstance(sorted_, SpecError):
                failed = Build(status=Status.BUILD_ERROR, message=str(sorted_))
                units.append(_Unit(flags=Flags(), pipeline="", seconds={}, failed=failed))
            else:
                pipeline = BASE_PIPELINE if resolved.pipeline is None else resolved.pipeline
                units.append(_unit(kernel, sorted_, pipeline, compiled[i], links.get(i)))
        return units

    def _flags(self, resolved: Resolved, folder: str) -> Flags | SpecError:
        try:
            return self.check_flags(resolved.flags, folder=folder)
        except SpecError as error:
            return error

    def _link(
        self, kernel: Kernel, units: Sequence[tuple[front.Unit, Flags]], wide: bool
    ) -> list[Outcome | None]:
        there = variable_bytes(kernel, wide=wide)
        keys = [
            f"{unit.digest}:{kernel.entry}:{kernel.alone}:{flags.veclib}:{there}" for unit, flags in units
        ]
        jobs: dict[str, Job] = {}
        for key, (unit, flags) in zip(keys, units, strict=True):
            if key not in self._linked and unit.status is Status.OK:
                variants = dict(self.front.vector_variants(flags.veclib)) if flags.veclib else {}
                jobs[key] = Job(
                    header={
                        "op": "link",
                        "entry": kernel.entry,
                        "alone": kernel.alone,
                        "variants": variants,
                        "variables": there,
                    },
                    modules=unit.modules,
                )
        done = dict(zip(jobs, self.pool.run(list(jobs.values())), strict=True))
        # What was killed from outside is tried again the next time.
        self._linked.update((key, o) for key, o in done.items() if o.status is not Status.LOST)
        found = [done.get(key, self._linked.get(key)) for key in keys]
        for key in list(self._linked)[: max(0, len(self._linked) - _LINKED_KEPT)]:
            del self._linked[key]
        return found

    def _job(self, unit: _Unit, texts: bool) -> Job:
        machine = unit.flags.machine
        if not machine.cpu and "-march=native" not in unit.flags.frontend:
            machine = replace(machine, cpu=self._cpu)
        header = {
            "op": "compile",
            "pipeline": unit.pipeline,
            "machine": asdict(machine),
            "passes": asdict(unit.flags.passes),
            "texts": texts,
        }
        return Job(header=header, modules=(unit.bitcode,), options=unit.flags.options)

    def _finish(
        self,
        kernel: Kernel,
        resolved: Resolved,
        unit: _Unit,
        outcome: Outcome,
        allowed_imports: Collection[str] | None,
    ) -> Build:
        if outcome.status is not Status.OK:
            return self._failure(unit, outcome)
        started = time.perf_counter()
        code = outcome.blobs[0]
        parsed = Object(code)
        seconds = {**unit.seconds, **outcome.header["seconds"]}
        reason = ""
        if allowed_imports is not None:
            reason = refusal(parsed, allowed_imports=allowed_imports, openmp=kernel.openmp)
        if not reason and kernel.entry not in parsed.exports:
            reason = f"the pass pipeline removed the entry {kernel.entry}"
        artifacts = dict(outcome.header["texts"])
        if reason:
            return Build(status=Status.REFUSED, message=reason, seconds=seconds, artifacts=artifacts)
        scalars = [[name, value] for name, value in sorted(resolved.scalars.items())]
        key = digest_json([parsed.key(kernel.entry), scalars])
        features = {**outcome.header["features"], **parsed.features()}
        seconds["object"] = time.perf_counter() - started
        return Build(
            status=Status.OK,
            code=code,
            digest=hashlib.sha256(code).hexdigest(),
            key=key,
            features=features,
            seconds=seconds,
            artifacts=artifacts,
        )

    def _failure(self, unit: _Unit, outcome: Outcome) -> Build:
        message, log = outcome.message, outcome.log
        if outcome.status is Status.CRASHED:
            message = self.pool.crashed_in(self._job(unit, False), outcome)
        artifacts = {"compiler": log} if log.strip() else {}
        return Build(status=outcome.status, message=message, seconds=unit.seconds, artifacts=artifacts)


def _unit(kernel: Kernel, flags: Flags, pipeline: str, compiled: front.Unit, linked: Outcome | None) -> _Unit:
    seconds = {"frontend": compiled.seconds}
    failed = None
    artifacts = {"compiler": compiled.output} if compiled.output.strip() else {}
    if compiled.status is not Status.OK:
        failed = Build(status=compiled.status, message=compiled.message, seconds=seconds, artifacts=artifacts)
    elif linked is None or linked.status is not Status.OK:
        status = Status.BUILD_ERROR if linked is None else linked.status
        failed = Build(status=status, message=linked.message if linked else "", seconds=seconds)
    elif linked.header["entry"] is None:
        failed = Build(
            status=Status.BUILD_ERROR, message=_no_entry(kernel, linked.header["defined"]), seconds=seconds
        )
    bitcode = linked.blobs[0] if linked is not None and failed is None else b""
    return _Unit(flags=flags, pipeline=pipeline, seconds=seconds, bitcode=bitcode, failed=failed)


def _no_entry(kernel: Kernel, defined: Sequence[str]) -> str:
    found = ", ".join(defined[:5]) or "none (static functions do not count)"
    return f"the source defines no function {kernel.entry} that others can call; it defines: {found}"
