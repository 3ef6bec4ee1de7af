"""What users may supply and what the layers meet through: backends, searchers, observers.

``search`` and ``evaluators`` never import each other: the driver joins them through these. What a backend may be able
to do beside its own work is in :mod:`tuner.core.abilities`, and is named here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tuner.core.abilities import (
    KnowsPeaks,
    LoadedImage,
    NamesFunctions,
    Peaks,
    Replacement,
    Replaces,
    Substitute,
    TellsSteps,
    WorksApart,
)
from tuner.core.types import (
    Build,
    BuildRequest,
    Configuration,
    Measurement,
    Proposal,
    Resolved,
    Status,
    Task,
    Variant,
    Verdict,
)

__all__ = [
    "Backend",
    "BaselineReport",
    "CostModel",
    "Evaluation",
    "Guess",
    "Known",
    "KnowsPeaks",
    "LoadedImage",
    "NamesFunctions",
    "Observation",
    "Observer",
    "Peaks",
    "Replacement",
    "Replaces",
    "Screening",
    "Searcher",
    "Session",
    "Substitute",
    "TellsSteps",
    "WorksApart",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineReport:
    """What the backend learnt from the baseline before anything else runs.

    Attributes:
        status: ``ok``, or why there is no baseline.
        message: one line for people.
        reference: where expected values come from: ``float64``, ``python`` or ``baseline``.
        own_error: largest error of the baseline against the reference by output argument, absolute.
        call_s: rough seconds of one call for each problem, to size batches with.
        notes: anything else worth recording; plain JSON.
    """

    status: Status
    message: str = ""
    reference: str = "baseline"
    own_error: Mapping[str, float] = field(default_factory=dict)
    call_s: tuple[float, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)


class Session(Protocol):
    """One candidate in one fresh process: verified first, then the same loaded object is timed."""

    def verify(self) -> Verdict:
        """Runs every workload of the session's purpose and compares."""
        ...

    def measure(self, *, problem: int, calls: int) -> Measurement:
        """Times one batch of ``calls`` calls of one problem and checks every set's output.

        More may come, and fewer (64 at least) where each call costs far more than it takes.

        A wrong output makes the measurement's status ``wrong_result``.
        """
        ...

    def close(self) -> None:
        """Ends the process; safe to call twice."""
        ...


class Evaluation(Protocol):
    """A backend made ready for one task. Not thread safe.

    Attributes:
        times: whether candidates can be timed; without a device in reach some backends only build and verify.

    One that can say more of a candidate than its time has ``objectives`` too: ``("time", "size")`` with the code's
    size in a build's features, ``("time", "energy")`` with ``energy_j`` in a measurement's notes.
    """

    times: bool

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Compiles candidates, several at once where there are workers; one result for each, in order."""
        ...

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """The source as given, compiled by another compiler for ``compare:``; a failure is a status of the build.

        Args:
            command: the compiler with its flags, split into words.
            resolved: of the baseline, for the macros.
        """
        ...

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """Fixes what is expected: runs the baseline and the reference on every workload."""
        ...

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """Facts about a build for ``tuner check`` and for models, by a label of one word; may compile, runs nothing.

        Args:
            build: of the baseline, or of the variant.
            resolved: that it was built with.
            variant: whose build it is; ``None`` for the source as given.
        """
        ...

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> Session:
        """A fresh process for one candidate.

        Args:
            build: with status ``ok``.
            resolved: for the run-time scalars.
            purpose: ``"search"`` or ``"confirm"``: confirmation uses inputs that the search never saw.
            number: which process of that purpose this is; seeds what may vary between processes (addresses, and
                for ``"confirm"`` the inputs).
        """
        ...

    def close(self) -> None:
        """Ends all workers; safe to call twice."""
        ...


class Backend(Protocol):
    """A kind of device with its compiler. Entry point group ``tuner.backends``; made without arguments."""

    name: str

    def environment(self, target: str) -> Mapping[str, Any]:
        """What results depend on, plain JSON: ``device`` (text), CPU features, toolchain and digests.

        ``sandbox`` says under ``missing`` which protections from generated code this machine cannot give; a
        backend without it has none.
        """
        ...

    def check_flags(self, flags: Sequence[str]) -> None:
        """Raises ``SpecError`` for a flag that this backend cannot honour."""
        ...

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """The passes that can be run for a target (format: :class:`tuner.spaces.passes.Catalogue`), or ``None``.

        The pipeline ``default<O3>`` alone is what the backend's own compiler does at its highest level. A backend
        that has passes for some targets or on some machines only may say what is lacking by a method
        ``passes_missing`` of the target, or ``passes_missing_for`` of the target and the kernel's language.
        """
        ...

    def prepare(self, task: Task, *, workers: int) -> Evaluation:
        """Makes everything ready that is common to all candidates; nothing is run yet."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a searcher is told of one finished trial.

    Attributes:
        trial: its number.
        proposal: as the searcher made it (or another searcher, or the baseline).
        status: failures are information, not numbers.
        score: natural logarithm of the time relative to the baseline (lower is better, 0 is the baseline), drift
            corrected, weighted over problems; ``None`` unless the status is ``ok`` (a ``duplicate`` has the score of
            the trial that it repeats).
        raced: whether it was dropped after a few samples, so that the score is rough.
        others: values of the objectives beside time, in the spec's order, lower is better; empty where there are
            none or where one could not be had.
        features: static features of the build.
        message: why it failed, one line.
        repeats: of a ``duplicate`` the trial whose code it has, where that is known.
    """

    trial: int
    proposal: Proposal
    status: Status
    score: float | None = None
    raced: bool = False
    others: tuple[float, ...] = ()
    features: Mapping[str, float] = field(default_factory=dict)
    message: str = ""
    repeats: int | None = None


@runtime_checkable
class Searcher(Protocol):
    """Proposes configurations.

    Order of calls: ``tell`` the baseline; then any number of ``ask`` and ``tell``. Everything asked is told sooner
    or later, in any order; observations of others' proposals may be told too. What ``ask`` returns is a pure
    function of the calls so far and of ``rng``: a record is replayed by making the same calls. ``adopt`` stands
    for an ``ask`` whose answer is known from a record: afterwards the searcher is in the state that the ``ask``
    would have left.
    """

    name: str

    def ask(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        """At most ``count`` proposals, all different; an empty list means that the space is exhausted."""
        ...

    def adopt(self, proposals: Sequence[Proposal]) -> None:
        """Takes proposals from a record as its own."""
        ...

    def tell(self, observations: Sequence[Observation]) -> None:
        """Learns what became of trials."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One finished trial as a cost model is told of it.

    Attributes:
        trial: its number.
        features: by name, units in the names; what a trial has not is left out.
        tried: whether it ran or failed; one that was pruned is known by its features only.
        score: as in :class:`Observation`; ``None`` for one that failed or was not tried.
        raced: whether the score is rough.
    """

    trial: int
    features: Mapping[str, float]
    tried: bool
    score: float | None = None
    raced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """What a cost model thinks of one candidate.

    Attributes:
        place: which part of the candidates is expected to be better, from 0 (none) to 1.
        failing: the chance that it fails to build, verify or run; 0 where nothing is known of failures.
    """

    place: float
    failing: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screening:
    """A cost model's answer. It ranks or abstains; it never accepts.

    Attributes:
        guesses: of the candidates in order; empty where the model has nothing to say.
        cut: places above it need not be tried; ``None``: the model abstains from pruning by place.
        failing_cut: chances above it need not be tried; ``None``: it abstains from pruning by failure.
        fitted: how many tried trials it has learnt from.
        why: why it abstains, one line; empty where it does not.
    """

    guesses: tuple[Guess, ...] = ()
    cut: float | None = None
    failing_cut: float | None = None
    fitted: int = 0
    why: str = ""


class CostModel(Protocol):
    """Guesses before paying. What it answers is a pure function of the arguments, however calls were split."""

    def screen(
        self,
        known: Sequence[Known],
        candidates: Sequence[Mapping[str, float]],
        pool: Sequence[Mapping[str, float]],
    ) -> Screening:
        """Ranks candidates.

        Args:
            known: every finished trial in the order of completion: of a later call the same and more.
            candidates: features of those to judge.
            pool: features of what may be proposed, drawn evenly; empty where that cannot be drawn. The same at
                every call.
        """
        ...


class Observer(Protocol):
    """Watches a run; may not change it. Called in the driver's process after each commit.

    What it raises ends the run with one line and a record that can be resumed; one that may fail, for example because
    it needs a network, has to catch that itself.
    """

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """One committed event."""
        ...


def configuration_key(configuration: Configuration) -> tuple[tuple[str, object], ...]:
    """A hashable form of a configuration; equal configurations have equal keys."""
    return tuple(sorted((name, value) for name, value in configuration.items()))
