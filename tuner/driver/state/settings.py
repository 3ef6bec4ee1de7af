"""What steers a run besides the task: budget, batch, rounds. Stored in the first event, so a replay has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from tuner.search.llm.exchange import Model

__all__ = ["BUDGET", "CONVERGED", "EVOLVING_CALLS", "LIBRARY", "Evolution", "Llm", "RunSettings", "Shared"]


REMIX = "remix"
"""The proposer that is always there."""

LIBRARY = "library"
"""Who makes variants of what won in earlier runs, as the ``recall`` event has them."""

CONVERGED, BUDGET = "converged", "budget"
"""What may end a search: that nothing better is to be expected, or the budget alone."""


def _known(cls: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of fields that there are."""
    names = {field.name for field in fields(cls)}
    return {name: one for name, one in value.items() if name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """How a run over variants of the source spends its budget.

    Attributes:
        first: trials of a new variant.
        growth: how many times the trials of a rung the next one has; one of as many variants goes up to it.
        rungs: of halving; higher ones come when the time for new variants is over.
        explore: part of the budget for searching that goes to new variants; the best are then tuned on with the rest.
        islands: of the archive.
        migration: judged variants between two migrations.
        patience: variants that an island may go without getting better before it begins anew.
        barren: proposals in a row that give nothing new, after which a variant is tuned on before more are asked for.
        reserve: part of the evaluations and of the time for searching that is kept for taking the winner apart.
        dull: duplicates in a row after which a variant's rung is over: its search finds nothing new.
        calls: least timed calls of one process while choosing and confirming, where a call takes long.
        choose: part of the time left at the end of the search that choosing may take.
        independent: whether every variant is drawn from the source as given, and nothing is learnt from others: what
            evolution is compared with.
        hopeless: log time by which a variant's first trial may be behind the best of all for its search to go on.
        pays: log time that an edit has to be worth to stay in the winner.
        doubtful: log time up to which one that cannot be told from nothing does not stay either.
        near: log time within which of the best a trial has to be to take part in the choice, the best few apart.
        purse: part of the evaluations that variants of earlier runs may lose after the first.
        least: variants that have come to the end of the first rung before any goes on to the next, while new ones can
            be bred.
    """

    first: int = 1
    growth: int = 2
    rungs: int = 6
    explore: float = 0.7
    islands: int = 2
    migration: int = 12
    patience: int = 24
    barren: int = 4
    reserve: float = 0.1
    dull: int = 6
    calls: int = 3
    choose: float = 0.35
    independent: bool = False
    hopeless: float = 1.1
    pays: float = 0.01
    doubtful: float = 0.03
    near: float = 0.25
    purse: float = 0.1
    least: int = 10

    def rung(self, number: int) -> int:
        """Trials of a variant up to the end of a rung."""
        return self.first * int(self.growth**number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Llm:
    """Models that propose variants, and what they may cost.

    Attributes:
        models: to ask.
        max_tokens: that a reply may have.
        timeout_s: of one try of a request.
        retries: where a server refuses for now.
        stream: whether replies come in pieces.
        temperature: ``None`` leaves it to the server.
        usd, tokens, calls: limits; ``None`` is without one.
        when_spent: ``stop`` ends the search when no model can be asked any more, ``go_on`` searches on without.
        concurrent: requests in flight at once at most.
        cassette: whether replies come from another run's record.
    """

    models: tuple[Model, ...]
    max_tokens: int = 8192
    timeout_s: float = 120.0
    retries: int = 3
    stream: bool = True
    temperature: float | None = None
    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    when_spent: str = "stop"
    concurrent: int = 4
    cassette: bool = False

    def model(self, name: str) -> Model:
        """One of them by its name."""
        return next(m for m in self.models if m.name == name)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Llm:
        """From a record."""
        return cls(**{**_known(cls, value), "models": tuple(Model(**m) for m in value["models"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A budget that several runs share, slice by slice.

    Attributes:
        members: names of their kernels, in order.
        number: of this run among them.
        weight: the kernel's part of the application's time, over all members 1.
        evaluations: of all together; ``None`` without limit.
        search_s: active seconds of searching of all together; ``None`` without limit.
    """

    members: tuple[str, ...]
    number: int
    weight: float
    evaluations: int | None
    search_s: float | None


EVOLVING_CALLS = (3, 4, 5)
"""Least timed calls of each racing round where variants are searched: the source as given may be very slow."""


ABLATE_SHARES: Mapping[str, float] = {"auto": 0.05, "full": 0.1}
"""Parts of the time that are kept for taking the winner apart."""

ABLATE_MOST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """Numbers that decisions depend on.

    Attributes:
        strategy: the searcher's name.
        seed: of the run; every random stream is derived from it.
        evaluations: builds or runs that may be started, the baseline included; ``None`` without limit.
        minutes: active time, confirmation included; ``None`` without limit.
        batch: proposals asked for at once (and built in parallel).
        weights: of the problems, summing to 1.
        rounds_s: least timed seconds of each racing round.
        rounds_calls: least timed calls of each racing round.
        enough_s: timed seconds that are enough for a process, and for a round after the first, however few calls they
            are.
        control_every: measured trials between two control measurements of the baseline.
        confirm_share: part of ``minutes`` that is kept for choosing and confirming.
        finalists: candidates that choosing compares.
        choose_processes, confirm_processes: fresh processes for each candidate.
        confirm_least: processes below which nothing is claimed.
        confirm_width: half width of the confirmed log ratio for which a run with a time limit takes more processes than
            ``confirm_processes``, by the spread that choosing found; 0 never does.
        confirm_growth: how many times as many at most.
        final_s: least timed seconds of one process while choosing and confirming.
        proposals_factor: proposals are capped at this many times the evaluations.
        compare: commands of other compilers whose code is timed beside the baseline at the end.
        compare_processes: fresh processes for each of them.
        lost_retries: how often a trial that the machine lost is tried again.
        cost_model: ``auto`` prunes what a learned model thinks little of, ``off`` tries everything.
        ranked: whether a model ranks the whole space beside the searcher (:mod:`tuner.search.pooled`).
        recall: whether earlier runs of similar kernels are looked at before the search.
        pool: proposals asked for at most for each that is tried, where the searcher draws without a model of its own;
            with 1 the cost model does not look at proposals before they are built.
        priced: whether a built candidate is left out only where running it takes longer than finding other code.
        objectives: what is made small: ``time``, and ``energy`` or ``size`` beside it where asked.
        evolution: where variants of the source are searched; ``None`` where the source stays as it is given.
        proposers: that make variants without a model, by name.
        llm: models that make variants; ``None`` where none is asked.
        fleet: whether several devices time candidates at once.
        stocked: whether devices that wait for candidates are given more of them ahead, and more are kept ready the
            longer builds take to come back.
        stop: ``converged`` ends a search that counts no evaluations also when nothing better has come for long and its
            model expects nothing better; ``budget`` never does.
        ablate: whether a confirmed winner is taken apart at the end: ``auto`` with at most one process for three
            evaluations, ``full`` for as long as there is time, ``off``.
        simpler: proposals at the end of the search, at most, that are the best candidate with less changed.
        shared: a budget that other runs share; ``evaluations`` is then all of it.
        searches: whether it searches; not where only what a run found is confirmed.
        from_s, from_evaluations: active time and evaluations at which the run was last gone on with; what is a part of
            the budget is a part of what came since.
    """

    strategy: str
    seed: int
    evaluations: int | None
    minutes: float | None
    batch: int
    weights: tuple[float, ...]
    rounds_s: tuple[float, ...] = (0.003, 0.012, 0.03)
    rounds_calls: tuple[int, ...] = (3, 7, 11)
    enough_s: float = 1.0
    control_every: int = 16
    confirm_share: float = 0.15
    finalists: int = 5
    choose_processes: int = 8
    confirm_processes: int = 12
    confirm_least: int = 4
    confirm_width: float = 0.05
    confirm_growth: int = 3
    final_s: float = 0.04
    proposals_factor: int = 50
    lost_retries: int = 2
    compare: tuple[str, ...] = ()
    compare_processes: int = 8
    cost_model: str = "off"
    pool: int = 1
    ranked: bool = False
    priced: bool = False
    recall: bool = False
    simpler: int = 6
    objectives: tuple[str, ...] = ("time",)
    evolution: Evolution | None = None
    proposers: tuple[str, ...] = (REMIX,)
    llm: Llm | None = None
    fleet: bool = False
    stocked: bool = False
    stop: str = BUDGET
    ablate: str = "off"
    shared: Shared | None = None
    searches: bool = True
    from_s: float = 0.0
    from_evaluations: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RunSettings:
        """The inverse of :meth:`to_json`; what other versions have beside is left out."""
        known: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in _known(cls, value).items()
        }
        if known.get("evolution") is not None:
            known["evolution"] = Evolution(**_known(Evolution, known["evolution"]))
        if known.get("llm") is not None:
            known["llm"] = Llm.from_json(known["llm"])
        if known.get("shared") is not None:
            known["shared"] = Shared(**{**known["shared"], "members": tuple(known["shared"]["members"])})
        return cls(**known)

    @property
    def search_deadline_s(self) -> float:
        """Active seconds at which the search has to end."""
        if not self.searches:
            return self.from_s
        if self.minutes is None:
            return math.inf
        return self.part_s(self.deadline_s, 1 - self.confirm_share) - self.ablate_s

    def part_s(self, end_s: float, share: float) -> float:
        """Active seconds at which a share of the time up to ``end_s`` has gone by."""
        return self.from_s + (end_s - self.from_s) * share

    def part(self, share: float) -> float:
        """Evaluations with which a share of the budget's is used up; infinite without limit."""
        if self.evaluations is None:
            return math.inf
        return self.from_evaluations + (self.evaluations - self.from_evaluations) * share

    @property
    def ablate_s(self) -> float:
        """Seconds kept at the end for taking the winner apart."""
        share = ABLATE_SHARES.get(self.ablate, 0.0)
        return 0.0 if self.minutes is None else min(share * (self.deadline_s - self.from_s), ABLATE_MOST_S)

    @property
    def claim_deadline_s(self) -> float:
        """Active seconds at which choosing and confirming have to end."""
        return self.deadline_s - self.ablate_s

    @property
    def deadline_s(self) -> float:
        """Active seconds at which the run has to end."""
        return math.inf if self.minutes is None else self.minutes * 60

    @property
    def proposals(self) -> float:
        """How many trials may be proposed."""
        return math.inf if self.evaluations is None else self.evaluations * self.proposals_factor
