"""Optuna's TPE and GP samplers for parameters and flags; the pipeline stays the incumbent's.

Optuna holds nothing between calls: each ask fills a study in memory from the history and seeds a fresh sampler from
``rng``, so that an ask depends on the history alone. May not touch Optuna's storages on disk.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tuner.core.types import Proposal
from tuner.search.base import SearcherBase
from tuner.search.blas import one_thread
from tuner.search.domain import Point
from tuner.spaces.space import Space

__all__ = ["OptunaSearcher", "make_gp", "make_tpe"]

_STARTUP = 10
_PENDING = 64
_TPE_TRIALS = 300
_GP_TRIALS = 150

SamplerFactory = Callable[[Any, int], Any]
"""Makes a sampler from the ``optuna`` module and a seed."""


class OptunaSearcher(SearcherBase):
    """A searcher around one of Optuna's samplers.

    An ordered axis is an integer distribution over its positions, any other a categorical one. Failures are told as
    violated constraints, pending proposals as running trials. What the sampler wants outside of the valid set, or
    again, becomes the nearest untried valid point.

    Args:
        space: what is searched.
        name: the searcher's name.
        sampler: makes the sampler for one ask.
        trials: how many observations the sampler is given at most: the best and the latest.
    """

    def __init__(self, space: Space, *, name: str, sampler: SamplerFactory, trials: int) -> None:
        super().__init__(space)
        self.name = name
        self._sampler = sampler
        self._most = trials
        self._optuna = importlib.import_module("optuna")
        self._distributions = self._make_distributions()
        self._trials: list[Any] = []

    def _propose(self, count: int, rng: np.random.Generator) -> list[Proposal]:
        pipeline = self.incumbent_pipeline
        if len(self.history.placed) < _STARTUP or not self.history.scored or not self._distributions:
            points = self.pool.draw(rng, count, pipeline=pipeline)
            return [self._proposal(p, pipeline, "uniform") for p in points]
        seed = int(rng.integers(1 << 31))
        proposals: list[Proposal] = []
        taken: set[Point] = set()
        with one_thread(), _quiet(self._optuna):
            study = self._study(seed)
            while len(proposals) < count:
                wished = self._ask(study)
                point = self.pool.nearest(wished, rng, pipeline=pipeline, without=frozenset(taken))
                if point is None:
                    break
                taken.add(point)
                how = "sampler" if np.array_equal(wished, point) else "repaired"
                proposals.append(self._proposal(point, pipeline, how))
        return proposals

    def _ask(self, study: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
        trial = study.ask(self._distributions)
        return np.array(
            [trial.params.get(f"{i:04d}", 0) for i in range(len(self.domain.axes))], dtype=np.float64
        )

    def _study(self, seed: int) -> Any:
        study = self._optuna.create_study(sampler=self._sampler(self._optuna, seed), direction="minimize")
        study.add_trials(self._told())
        for proposal in list(self.history.pending.values())[-_PENDING:]:
            point = self.domain.point(proposal.configuration)
            if point is not None:
                study.add_trial(self._trial(point, self._optuna.trial.TrialState.RUNNING, None))
        return study

    def _told(self) -> list[Any]:
        """Finished trials as Optuna's, made once each; one failed is complete, with a violated constraint."""
        states = self._optuna.trial.TrialState
        for observation, point in self.history.placed[len(self._trials) :]:
            self._trials.append(self._trial(point, states.COMPLETE, observation.score))
        return [self._trials[i] for i in self.history.telling(self._most)]

    def _trial(self, point: Point, state: Any, score: float | None) -> Any:
        finished = state == self._optuna.trial.TrialState.COMPLETE
        value = None
        if finished:
            # The value of a trial with a violated constraint orders nothing, but Optuna wants a number.
            value = score if score is not None else 0.0
        params = {f"{i:04d}": p for i, p in enumerate(point) if f"{i:04d}" in self._distributions}
        return self._optuna.trial.create_trial(
            state=state,
            value=value,
            params=params,
            distributions=self._distributions,
            constraints={"failed": 0.0 if score is not None else 1.0} if finished else None,
        )

    def _make_distributions(self) -> dict[str, Any]:
        kinds = self._optuna.distributions
        made: dict[str, Any] = {}
        for i, axis in enumerate(self.domain.axes):
            if axis.size < 2:
                continue
            if axis.ordered:
                made[f"{i:04d}"] = kinds.IntDistribution(0, axis.size - 1)
            else:
                made[f"{i:04d}"] = kinds.CategoricalDistribution(tuple(range(axis.size)))
        return made

    def _proposal(self, point: Point, pipeline: str | None, how: str) -> Proposal:
        configuration = self.domain.configuration(point, pipeline)
        best = self.history.best
        return Proposal(
            configuration=configuration,
            origin=self.name,
            parent=None if best is None else best.trial,
            note={"how": how},
        )


def make_tpe(space: Space) -> OptunaSearcher:
    """The factory behind the name ``optuna-tpe``.

    Source: Watanabe, Tree-Structured Parzen Estimator, arXiv 2304.11127.
    """
    return OptunaSearcher(space, name="optuna-tpe", sampler=_tpe, trials=_TPE_TRIALS)


def make_gp(space: Space) -> OptunaSearcher:
    """The factory behind the name ``optuna-gp``; needs torch, which is in the extra ``gp``.

    Raises:
        ImportError: torch is not installed.
    """
    torch = importlib.import_module("torch")
    # Some threads fighting over few cores made one ask take seconds.
    torch.set_num_threads(1)
    return OptunaSearcher(space, name="optuna-gp", sampler=_gp, trials=_GP_TRIALS)


def _tpe(optuna: Any, seed: int) -> Any:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=1, multivariate=True, constant_liar=True)


def _gp(optuna: Any, seed: int) -> Any:
    return optuna.samplers.GPSampler(seed=seed, n_startup_trials=1)


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """No messages and no warnings about experimental features; the user's own level comes back afterwards."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
