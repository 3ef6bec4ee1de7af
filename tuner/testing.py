"""A backend whose times come from a formula, for tests and benchmarks of everything above the backends.

It runs nothing. Times are drawn from named streams, so a session gives the same times however often and in whatever
process it is opened: what a resumed run sees is what an uninterrupted one would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.canonical import canonical_json, digest
from tuner.core.protocols import BaselineReport, Peaks
from tuner.core.streams import seed_for, stream
from tuner.core.types import (
    Build,
    BuildRequest,
    Measurement,
    Resolved,
    Status,
    Task,
    Variant,
    Verdict,
)

__all__ = ["SimulatedBackend"]


def _always_ok(_: Resolved) -> Status:
    return Status.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBackend:
    """A :class:`tuner.core.protocols.Backend` over a formula.

    Attributes:
        seconds: the true time of one call of a candidate.
        outcome: what becomes of a candidate: a build status (``build_error``, ``crashed``, ``timed_out``,
            ``refused``) stops it at the build, ``wrong_result`` at the verification.
        same_code: what the object code is made of; candidates with equal values are duplicates.
        same_source: what of a variant the object code is made of; variants with equal values are duplicates.
        process_noise: standard deviation of the log time between processes.
        call_noise: standard deviation of the log time between calls.
        catalogue: passes to offer, in the format of :class:`tuner.spaces.passes.Catalogue`.
        features: static features of a candidate's build.
        features_of_source: those that it has from its source.
        at_best: what the simulated machine does at best, where that is known.
        notes: what is found of the baseline, for its report.
        of_variant: how many times longer a source takes than the one it came from, or what becomes of it.
        on_event: called before each build, verification and measurement with its name, to inject faults.
    """

    seconds: Callable[[Resolved], float]
    outcome: Callable[[Resolved], Status] = _always_ok
    same_code: Callable[[Resolved], Any] | None = None
    same_source: Callable[[Variant], Any] | None = None
    process_noise: float = 0.005
    call_noise: float = 0.01
    catalogue: Mapping[str, Any] | None = None
    name: str = "simulated"
    on_event: Callable[[str], None] | None = None
    of_variant: Callable[[Variant, Resolved], float | Status] | None = None
    features: Callable[[Resolved], Mapping[str, float]] | None = None
    features_of_source: Callable[[Variant], Mapping[str, float]] | None = None
    at_best: Peaks | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def environment(self, target: str) -> Mapping[str, Any]:
        """Nothing of this machine matters."""
        return {"device": "simulated", "target": target}

    def check_flags(self, flags: Sequence[str]) -> None:
        """Any flag will do."""

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """As given."""
        return self.catalogue

    def peaks(self, target: str, threads: int, *, measure: bool) -> Peaks | None:
        """As given."""
        return self.at_best

    def prepare(self, task: Task, *, workers: int) -> _Evaluation:
        """Ready at once."""
        return _Evaluation(backend=self, task=task)

    def notice(self, what: str) -> None:
        """Tells the fault injector, if there is one."""
        if self.on_event is not None:
            self.on_event(what)


@dataclass(slots=True, kw_only=True)
class _Evaluation:
    backend: SimulatedBackend
    task: Task
    _factors: dict[str, float | Status] = field(default_factory=dict)
    times: bool = True

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        return [self._build(r.resolved, r.variant) for r in requests]

    def _build(self, resolved: Resolved, variant: Variant | None = None) -> Build:
        self.backend.notice("build")
        status = self.backend.outcome(resolved)
        factor: float | Status = 1.0
        edited = variant is not None and bool(variant.edits) and self.backend.of_variant is not None
        if variant is not None and edited and self.backend.of_variant is not None:
            factor = self.backend.of_variant(variant, resolved)
            status = factor if isinstance(factor, Status) else status
        if status not in (Status.OK, Status.WRONG_RESULT):
            return Build(status=status, message="as simulated")
        make = self.backend.same_code
        plain = _plain(resolved) if make is None else make(resolved)
        if variant is not None and edited:
            source = self.backend.same_source
            plain = [variant.digest if source is None else source(variant), plain]
        code = canonical_json(plain).encode()
        self._factors[digest(code)] = factor
        features = dict({} if self.backend.features is None else self.backend.features(resolved))
        if self.backend.features_of_source is not None and variant is not None:
            features |= self.backend.features_of_source(variant)
        return Build(status=Status.OK, code=code, digest=digest(code), key=digest(code), features=features)

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        return self._build(resolved)

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        self.backend.notice("baseline")
        call_s = self.backend.seconds(resolved)
        return BaselineReport(
            status=Status.OK, call_s=(call_s,) * len(self.task.problems), notes=self.backend.notes
        )

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        return {} if variant is None else {"edits": ", ".join(str(e["op"]) for e in variant.edits)}

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> _Session:
        return _Session(
            backend=self.backend,
            resolved=resolved,
            factor=self._factors.get(build.key, 1.0),
            seed=seed_for(self.task.seed, f"{purpose}/{build.key}", number),
        )

    def close(self) -> None:
        return None


@dataclass(slots=True, kw_only=True)
class _Session:
    backend: SimulatedBackend
    resolved: Resolved
    factor: float | Status
    seed: int
    _batches: int = 0

    def verify(self) -> Verdict:
        self.backend.notice("verify")
        status = self.factor if isinstance(self.factor, Status) else self.backend.outcome(self.resolved)
        return Verdict(status=status, message="" if status is Status.OK else "as simulated")

    def measure(self, *, problem: int, calls: int) -> Measurement:
        self.backend.notice("measure")
        level = math.log(self.backend.seconds(self.resolved))
        level += 0.0 if isinstance(self.factor, Status) else math.log(self.factor)
        # A stream costs more than all else here, which a benchmark of others does not want to pay.
        if self.backend.process_noise:
            drawn = stream(self.seed, "process", problem).standard_normal()
            level += self.backend.process_noise * float(drawn)
        noise: Iterable[float] = (0.0,) * calls
        if self.backend.call_noise:
            noise = stream(self.seed, f"calls/{problem}", self._batches).standard_normal(calls)
        self._batches += 1
        times = [math.exp(level + self.backend.call_noise * float(abs(n))) for n in noise]
        total = sum(times)
        return Measurement(
            status=Status.OK,
            problem=problem,
            times_s=tuple(times),
            claimed_s=total,
            observed_s=total,
            wall_s=total,
        )

    def close(self) -> None:
        return None


def _plain(resolved: Resolved) -> dict[str, Any]:
    return {
        "macros": dict(resolved.macros),
        "scalars": dict(resolved.scalars),
        "flags": list(resolved.flags),
        "pipeline": resolved.pipeline,
    }
