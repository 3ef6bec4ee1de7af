"""Simulated searches over recorded spaces with the cost model in front of the searcher, by the driver's rules."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from _search_runs import Case

from tuner.core.protocols import Known, Observation, Searcher
from tuner.core.streams import stream
from tuner.core.types import Configuration, Proposal, Stage, Status
from tuner.cost_models.configurations import configuration_features
from tuner.cost_models.screen import FIRST, Screen
from tuner.driver.opening import open_state
from tuner.driver.plan import pruning
from tuner.driver.state import judged
from tuner.driver.work.screening import POOL, Screener, verdict_of
from tuner.evaluators.recorded.spaces import key_of
from tuner.recorders.record import RunRecord
from tuner.search import registry
from tuner.search.pooled import PooledSearcher
from tuner.search.recalling import RecallingSearcher
from tuner.spaces.space import Space

__all__ = ["Searched", "make_searcher", "recorded_runs", "search"]

Features = Mapping[str, float]


_ROWS: dict[str, dict[tuple[str, ...], int]] = {}


def _numbers(case: Case) -> dict[tuple[str, ...], int]:
    """Rows by the key of their values."""
    if case.digest not in _ROWS:
        _ROWS[case.digest] = {key: i for i, key in enumerate(case.recorded.rows)}
    return _ROWS[case.digest]


def make_searcher(
    name: str, space: Space, *, model: bool, numbers: Mapping[str, int] | None = None
) -> Searcher:
    """A searcher of the project; one that moves with the model beside it, as the driver would make it."""
    made = registry.create(name, space)
    return PooledSearcher(made, space, **(numbers or {})) if model and getattr(made, "moves", False) else made


@dataclass(slots=True)
class Searched:
    """One simulated search: rows in the order tried, and what the model did."""

    rows: list[int] = field(default_factory=list)
    pruned: int = 0
    model_s: float = 0.0
    search_s: float = 0.0


def search(
    case: Case,
    space: Space,
    strategy: str,
    seed: int,
    evaluations: int,
    *,
    model: bool,
    first: Sequence[tuple[Configuration, int]] = (),
    enough: float = 1.0,
    numbers: Mapping[str, int] | None = None,
) -> Searched:
    """Runs a searcher one trial at a time until it has found what is within ``enough`` of the optimum.

    Args:
        first: configurations of earlier runs that may be tried, best first, and which run each is of.
        numbers: of the model beside a searcher that moves, other than its own.
    """
    made = Searched()
    rows = _numbers(case)
    searcher = make_searcher(strategy, space, model=model, numbers=numbers)
    # A model that ranks the whole space needs no other to filter what it proposes.
    model = model and not isinstance(searcher, PooledSearcher)
    if first:
        searcher = RecallingSearcher(searcher, [c for c, _ in first], [n for _, n in first])
    screen, known = Screen(), list[Known]()
    pool = [configuration_features(c) for c in space.sample(stream(seed, "pool"), POOL)] if model else []
    kept: list[bool] = []
    screens, asked = False, 1
    goal = case.figures.optimum * enough
    unit_s = _baseline_s(case, space)
    queue: list[Proposal] = []
    while len(made.rows) < evaluations:
        if not queue:
            started = time.process_time()
            count = pruning.wanted(1, kept) if screens else 1
            queue = searcher.ask(count, stream(seed, "ask", asked))
            asked += len(queue)
            made.search_s += time.process_time() - started
            if not queue:
                break
            if model and len(made.rows) >= FIRST:
                started = time.process_time()
                features = [configuration_features(p.configuration) for p in queue]
                found = screen.screen(known, features, pool)
                verdicts = [
                    verdict_of(g, found, stream(seed, "audit/ask", asked + i).random() * len(queue))
                    for i, g in enumerate(found.guesses)
                ]
                screens = found.cut is not None or found.failing_cut is not None
                if screens:
                    kept += [v.verdict == judged.KEEP for v in verdicts]
                    passed = pruning.passed_over(verdicts, 1)
                    ranked = sorted(range(len(queue)), key=lambda i: verdicts[i].place)
                    rest, dropped = [], []
                    for i in ranked:
                        out = verdicts[i].verdict == judged.PRUNE or i in passed
                        (dropped if out else rest).append(queue[i])
                    made.pruned += len(dropped)
                    searcher.tell(
                        [Observation(trial=asked, proposal=p, status=Status.PRUNED) for p in dropped]
                    )
                    known += [
                        Known(trial=asked, features=configuration_features(p.configuration), tried=False)
                        for p in dropped
                    ]
                    queue = rest
                made.model_s += time.process_time() - started
                continue
        proposal = queue.pop(0)
        row = rows.get(key_of(proposal.configuration[name] for name in case.recorded.parameters), -1)
        made.rows.append(row)
        time_s = case.figures.times[row] if row >= 0 else np.inf
        if time_s <= goal:
            break
        score = float(np.log(time_s / unit_s)) if np.isfinite(time_s) else None
        status = Status.OK if score is not None else Status.CRASHED
        started = time.process_time()
        searcher.tell([Observation(trial=len(made.rows), proposal=proposal, status=status, score=score)])
        made.search_s += time.process_time() - started
        features_of = configuration_features(proposal.configuration) if model else {}
        known.append(Known(trial=len(made.rows), features=features_of, tried=True, score=score))
    return made


def _baseline_s(case: Case, space: Space) -> float:
    """The time that scores are relative to: of the default, and where that was not recorded the median."""
    default = space.default()
    row = _numbers(case).get(key_of(default[name] for name in case.recorded.parameters), -1)
    times = case.figures.times
    return float(times[row] if row >= 0 and np.isfinite(times[row]) else np.median(times[np.isfinite(times)]))


def recorded_runs(path: Path) -> list[Known]:
    """The trials of a run record as the cost model sees them after the build."""
    with RunRecord.read(path) as record:
        state, spec, space = open_state(record)
    return Screener(state, space, spec.task.launch).known(Stage.BUILD)
