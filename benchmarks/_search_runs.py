"""Simulated searches over recorded spaces, cached by content: a rerun costs only what changed."""

from __future__ import annotations

import ast
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from _common import ROOT
from _search_scores import Figures, Trace

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.evaluators.recorded.formats import read_file
from tuner.evaluators.recorded.spaces import RecordedSpace
from tuner.search import registry
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space
from tuner.spec.foreign import restriction

__all__ = ["Cache", "Case", "load_case", "simulate"]

Peer = Callable[["Case", str, int, Sequence[int]], list[Trace]]

_KEPT = 5
"""Seeds after which traces are written, so that a benchmark that is stopped goes on from there."""

_LIBRARIES = {
    "optuna": ("optuna", "torch", "cmaes"),
    "skopt": ("scikit-optimize", "scikit-learn"),
    "kernel-tuner": ("kernel-tuner", "scikit-optimize", "scikit-learn"),
    "pyatf": ("pyatf",),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded space made ready."""

    name: str
    digest: str
    recorded: RecordedSpace
    figures: Figures

    def space(self) -> Space:
        """A fresh space: listing it is part of no searcher's time."""
        return Space(
            [Parameter.choice(name, list(values)) for name, values in self.recorded.parameters.items()],
            [parse(restriction(text)) for text in self.recorded.restrictions or ()],
        )

    def complete(self) -> bool:
        """Whether every valid configuration is recorded: on others a search would fail for want of data."""
        count = self.space().count()
        return count is not None and count <= len(self.recorded.rows)


def load_case(path: Path) -> Case:
    """A space from a file; the cost of a row is compiling, verifying and timing it as recorded."""
    recorded = read_file(path)
    rows = list(recorded.rows.values())
    times = np.array([float(np.mean(r.times_s)) if r.times_s else np.inf for r in rows])
    costs = np.array([r.compile_s + r.run_s for r in rows])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Case(path.name.split(".")[0], digest, recorded, Figures(times=times, costs=costs))


class Cache:
    """Traces by the content of everything that they depend on.

    Args:
        folder: where to keep them.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def traces(self, case: Case, strategy: str, evaluations: int, seeds: int, run: Peer) -> list[Trace]:
        """Traces of seeds 0, 1, …; those that are missing are simulated.

        The project's searchers know nothing of a budget, so what was kept of a longer search serves a shorter one.
        """
        own = ":" not in strategy
        code = _code_digest(strategy.partition("-without-")[0]) if own else ""
        length = None if own else evaluations
        key = json.dumps([case.digest, strategy, length, code, _versions(strategy)])
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
        kept: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        # A search that ended before its time found the optimum or tried everything: it would not go on.
        missing = [
            seed
            for seed in range(seeds)
            if str(seed) not in kept or len(kept[str(seed)][0]) == kept[str(seed)][2] < evaluations
        ]
        for part in (missing[i : i + _KEPT] for i in range(0, len(missing), _KEPT)):
            for seed, trace in zip(part, run(case, strategy, evaluations, part), strict=True):
                kept[str(seed)] = [trace.rows, trace.cpu_s, evaluations]
            waiting = path.with_suffix(".part")
            waiting.write_text(json.dumps(kept))
            waiting.rename(path)
        return [_cut(*kept[str(seed)][:2], evaluations) for seed in range(seeds)]


def _cut(rows: Sequence[int], cpu_s: float, evaluations: int) -> Trace:
    return Trace(rows=tuple(rows[:evaluations]), cpu_s=cpu_s * min(1.0, evaluations / max(1, len(rows))))


def simulate(
    case: Case, strategy: str, evaluations: int, seeds: Sequence[int], source: Sequence[Observation] = ()
) -> list[Trace]:
    """Runs one of the project's searchers until it has found the optimum, after which nothing changes.

    Its CPU time is that of ``ask`` and ``tell`` alone. ``source`` is for a warm start.
    """
    space = case.space()
    space.listing()
    numbers = {key: i for i, key in enumerate(case.recorded.rows)}
    rows = list(case.recorded.rows.values())
    keys = list(case.recorded.parameters)
    best = int(np.argmin(case.figures.times))
    traces = []
    for seed in seeds:
        searcher: Any = registry.create(strategy, space)
        if source:
            searcher.warm_start(source)
        tried: list[int] = []
        cpu_s = 0.0
        while len(tried) < evaluations:
            started = time.process_time()
            proposals = searcher.ask(1, stream(seed, "ask", 1 + len(tried)))
            cpu_s += time.process_time() - started
            if not proposals:
                break
            configuration = proposals[0].configuration
            number = numbers.get(_key(configuration, keys), -1)
            tried.append(number)
            if number == best:
                break
            status = rows[number].status if number >= 0 else Status.REFUSED
            score = float(np.log(case.figures.times[number])) if status is Status.OK else None
            seen = Observation(trial=len(tried), proposal=proposals[0], status=status, score=score)
            started = time.process_time()
            searcher.tell([seen])
            cpu_s += time.process_time() - started
        traces.append(Trace(rows=tuple(tried), cpu_s=cpu_s))
    return traces


def _key(configuration: object, keys: Sequence[str]) -> tuple[str, ...]:
    from tuner.evaluators.recorded.spaces import key_of

    return key_of(configuration[name] for name in keys)  # type: ignore[index]


def _versions(strategy: str) -> dict[str, str]:
    family = strategy.partition(":")[0] if ":" in strategy else strategy.partition("-")[0]
    found = {}
    for name in ("numpy", "scipy", *_LIBRARIES.get(family, ())):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@cache
def _code_digest(strategy: str) -> str:
    """Of the project's modules that a searcher imports, directly or not."""
    target = registry.BUILT_IN.get(strategy)
    waiting = ["tuner.search.registry"] if target is None else [target.partition(":")[0]]
    texts: dict[str, bytes] = {}
    while waiting:
        module = waiting.pop()
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        if module in texts or not path.is_file():
            continue
        texts[module] = path.read_bytes()
        for node in ast.walk(ast.parse(texts[module])):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return hashlib.sha256(b"".join(text for _, text in sorted(texts.items()))).hexdigest()
