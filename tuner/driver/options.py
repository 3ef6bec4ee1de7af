"""What is said beside the spec, and the settings of a run that follow from both. Looks at no device."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.driver.state.settings import EVOLVING_CALLS, REMIX, Evolution, Llm, RunSettings
from tuner.spec.load import LoadedSpec

__all__ = ["Further", "Options", "settings_of", "workers_of"]

DEFAULT_EVALUATIONS = 200
SEVERAL = "surrogate"
"""The searcher that knows several objectives."""
_SEED_MOST = (1 << 63) - 1
"""As in a spec."""
CONFIRM_S = 30.0
"""Least seconds kept for choosing and confirming where the source evolves, as far as that is not most of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line or a library call says beside the spec; ``None`` leaves it to the spec.

    ``require_sandbox`` refuses to run where a protection from generated code is missing.
    ``library`` is the folder of finished runs to learn from and add to.
    ``warm_start`` holds what :func:`tuner.driver.imports.read_sources` gives, ``rivals`` what
    :func:`tuner.driver.rivals.run_rivals` does; they are only written down. ``llm`` is a model's name, ``off``, or
    ``cassette:`` with the path of a run's record or of a file of its exchanges.
    """

    evaluations: int | None = None
    minutes: float | None = None
    seed: int | None = None
    strategy: str | None = None
    workers: int | None = None
    settings: Mapping[str, Any] | None = None
    require_sandbox: bool = False
    warm_start: tuple[str, ...] = ()
    library: Path | None = None
    llm: str | None = None
    rivals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """How much further a run goes that was interrupted or has ended.

    Attributes:
        evaluations, minutes: from now; what is ``None`` is without limit.
        searches: whether it searches on; else what it found is confirmed.
    """

    evaluations: int | None = None
    minutes: float | None = None
    searches: bool = True

    def __post_init__(self) -> None:
        _check_budget(self.evaluations, self.minutes)

    def to_event(self, settings: RunSettings, evaluations: int, clock_s: float) -> dict[str, Any]:
        """The body of an ``extend`` event.

        Args:
            settings: of the run so far.
            evaluations, clock_s: that it has taken.
        """
        minutes = self.minutes
        evolves = settings.evolution is not None and minutes is not None
        return {
            "evaluations": None if self.evaluations is None else evaluations + self.evaluations,
            "minutes": None if minutes is None else clock_s / 60 + minutes,
            "searches": self.searches,
            "confirm_share": _confirm_share(minutes) if evolves and minutes else settings.confirm_share,
            "clock_s": clock_s,
        }


def settings_of(spec: LoadedSpec, options: Options, llm: Llm | None = None) -> RunSettings:
    """The run's settings: the command line over the spec over the defaults; ``llm`` is of the models to ask.

    Raises:
        UsageError: a budget or a seed that is none, or a searcher that does not know several objectives.
    """
    search = spec.search
    evaluations = options.evaluations if options.evaluations is not None else search.evaluations
    minutes = options.minutes if options.minutes is not None else search.minutes
    if evaluations is None and minutes is None:
        evaluations = DEFAULT_EVALUATIONS
    _check_budget(evaluations, minutes)
    seed = search.seed if options.seed is None else options.seed
    if not isinstance(seed, int) or not 0 <= seed <= _SEED_MOST:
        raise UsageError(f"seed is {seed!r}", f"give a whole number from 0 to {_SEED_MOST}")
    total = sum(p.weight for p in spec.task.problems)
    more: dict[str, Any] = {}
    if spec.evolves:
        proposers = search.proposers if llm is not None or search.proposers else (REMIX,)
        more = {"rounds_calls": EVOLVING_CALLS, "evolution": Evolution(), "proposers": proposers, "llm": llm}
        if minutes is not None:
            more["confirm_share"] = _confirm_share(minutes)
    strategy = options.strategy or search.strategy
    if len(spec.objectives) > 1:
        strategy = SEVERAL if strategy == "auto" else strategy
        if strategy != SEVERAL:
            raise UsageError(
                f"the searcher {strategy!r} knows one objective, time",
                f"use --strategy {SEVERAL}, or objective: time",
            )
    return RunSettings(
        strategy=strategy,
        seed=seed,
        evaluations=evaluations,
        minutes=minutes,
        batch=workers_of(options),
        weights=tuple(p.weight / total for p in spec.task.problems),
        compare=tuple(shlex.join(words) for words in spec.compare),
        # It ranks by time: with other objectives a slow candidate may be what is wanted.
        cost_model=search.cost_model if spec.objectives == ("time",) else "off",
        recall=options.library is not None,
        objectives=spec.objectives,
        stop=search.stop,
        ablate=search.ablate,
        **{**more, **dict(options.settings or {})},
    )


def _check_budget(evaluations: int | None, minutes: float | None) -> None:
    if evaluations is not None and (not isinstance(evaluations, int) or evaluations < 1):
        raise UsageError(f"evaluations is {evaluations!r}", "give a whole number of at least 1")
    if minutes is not None and not (isinstance(minutes, int | float) and 0 < minutes < math.inf):
        raise UsageError(f"minutes is {minutes!r}", "give a number above 0")


def _confirm_share(minutes: float) -> float:
    """Where variants are searched: the source as given may take many times as long as the winner, so a short run needs
    more of its time.
    """
    return min(0.4, max(0.15, CONFIRM_S / (60 * minutes)))


def workers_of(options: Options) -> int:
    """Compile workers: as many as said, else one for each core that this process may use.

    Raises:
        UsageError: a number of workers that is none.
    """
    workers = options.workers
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise UsageError(f"workers is {workers!r}", "give a whole number of at least 1")
    return workers or max(1, len(os.sched_getaffinity(0)))
