"""pyATF's search techniques on recorded spaces: its own space generation and its own loop, answered from the records.

Imports pyATF only when a search is asked for.
"""

from __future__ import annotations

import inspect
import random
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from _search_runs import Case
from _search_scores import Trace

from tuner.core.expressions import Expression, parse
from tuner.core.types import Value
from tuner.evaluators.recorded.spaces import key_of
from tuner.spec.foreign import restriction

__all__ = ["TECHNIQUES", "search"]

TECHNIQUES = {
    "auc_bandit": "AUCBandit",
    "differential_evolution": "DifferentialEvolution",
    "pattern_search": "PatternSearch",
    "round_robin": "RoundRobin",
    "simulated_annealing": "SimulatedAnnealing",
    "torczon": "Torczon",
}
_REPEATS = 50


def search(case: Case, strategy: str, evaluations: int, seeds: Sequence[int]) -> list[Trace]:
    """Traces of one technique; what it proposes again is free, and its CPU time is that of its own steps alone.

    Args:
        case: the recorded space.
        strategy: ``pyatf:`` and one of :data:`TECHNIQUES`.
        evaluations: unique ones, failures counted.
        seeds: of Python's and NumPy's global generators, which pyATF draws from.
    """
    from pyatf import search_techniques
    from pyatf.search_space import SearchSpace

    space = SearchSpace(*_parameters(case), enable_1d_access=False, verbosity=0)
    numbers = {key: i for i, key in enumerate(case.recorded.rows)}
    names = list(case.recorded.parameters)
    traces = []
    for seed in seeds:
        random.seed(seed)
        np.random.seed(seed)
        technique = getattr(search_techniques, TECHNIQUES[strategy.partition(":")[2]])()
        technique.initialize(len(names))
        tried: dict[int, None] = {}
        steps, cpu_s = 0, 0.0
        while len(tried) < evaluations and steps < _REPEATS * evaluations:
            started = time.process_time()
            wanted = sorted(technique.get_next_coordinates())
            found = [space.get_configuration(place) for place in wanted]
            cpu_s += time.process_time() - started
            costs: dict[Any, float | None] = {}
            for place, configuration in zip(wanted, found, strict=True):
                row = numbers[key_of(_plain(configuration[name]) for name in names)]
                if len(tried) < evaluations:
                    tried[row] = None
                seconds = float(case.figures.times[row])
                costs[place] = seconds if np.isfinite(seconds) else None
            steps += len(wanted)
            started = time.process_time()
            technique.report_costs(costs)
            cpu_s += time.process_time() - started
        technique.finalize()
        traces.append(Trace(rows=tuple(tried), cpu_s=cpu_s))
    return traces


def _parameters(case: Case) -> list[Any]:
    """pyATF's tuning parameters: a restriction belongs to the last parameter that it names."""
    from pyatf import TP, Set

    names = list(case.recorded.parameters)
    held: dict[str, list[Expression]] = {name: [] for name in names}
    for text in case.recorded.restrictions or ():
        expression = parse(restriction(text))
        held[max(expression.names, key=names.index)].append(expression)
    return [
        TP(name, Set(*values), _check(name, held[name]) if held[name] else None)
        for name, values in case.recorded.parameters.items()
    ]


def _check(name: str, expressions: Sequence[Expression]) -> Any:
    """A function whose signature names the parameters, which is how pyATF learns of them."""

    def check(**values: Any) -> bool:
        plain = {key: _plain(value) for key, value in values.items()}
        return all(bool(e.evaluate(plain)) for e in expressions)

    named = sorted({name, *(n for e in expressions for n in e.names)})
    kind = inspect.Parameter.KEYWORD_ONLY
    check.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in named])  # type: ignore[attr-defined]
    return check


def _plain(value: Any) -> Value:
    return value.item() if isinstance(value, np.generic) else value
