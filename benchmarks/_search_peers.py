"""Peers as strategies: Kernel Tuner in its simulation mode, pyATF. None is imported before it is asked for."""

from __future__ import annotations

import contextlib
import io
import json
import random
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import _search_ablation as without
import numpy as np
from _search_pyatf import TECHNIQUES, search
from _search_runs import Case, Peer, simulate
from _search_scores import Trace

from tuner.core.errors import MachineError, UsageError
from tuner.core.types import Status
from tuner.evaluators.recorded.spaces import key_of
from tuner.search import registry
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space

__all__ = ["KERNEL_TUNER", "expanded", "runner"]

KERNEL_TUNER = (
    "adaptive_tabu_greywolf",
    "basinhopping",
    "bayes_opt",
    "diff_evo",
    "dual_annealing",
    "firefly_algorithm",
    "genetic_algorithm",
    "greedy_ils",
    "greedy_mls",
    "hybrid_vndx",
    "minimize",
    "mls",
    "ordered_greedy_mls",
    "pso",
    "simulated_annealing",
)
"""Kernel Tuner's strategies: those of its documentation, and the two made by language models that it has since 1.4
(``adaptive_tabu_greywolf``, ``hybrid_vndx``)."""

_PYATF = tuple(f"pyatf:{name}" for name in TECHNIQUES)
_OPTUNA = ("optuna-tpe", "optuna-gp")
_SKOPT = ("skopt-gp", "skopt-forest")
_KERNEL_TUNER = tuple(f"kernel-tuner:{name}" for name in KERNEL_TUNER)
_GROUPS = {
    "kernel-tuner": _KERNEL_TUNER,
    "pyatf": _PYATF,
    "optuna": _OPTUNA,
    "skopt": _SKOPT,
    "peers": (*_KERNEL_TUNER, *_PYATF, *_OPTUNA, *_SKOPT),
    "parts": tuple(f"surrogate-without-{part}" for part in without.WITHOUT),
}

_WORDS = {Status.BUILD_ERROR: "CompilationFailedConfig", Status.CRASHED: "RuntimeFailedConfig"}


def expanded(names: Iterable[str]) -> list[str]:
    """Strategies, groups of them written out, each once and in order."""
    return list(dict.fromkeys(one for name in names for one in _GROUPS.get(name, (name,))))


def runner(strategy: str) -> Peer:
    """What runs a strategy.

    Args:
        strategy: a searcher's name, ``surrogate-without-PART``, or ``FAMILY:NAME``; options of Kernel Tuner's
            strategies follow, as in ``kernel-tuner:skopt;learner=GP``.

    Raises:
        UsageError: an unknown family or technique.
        MachineError: its package is not installed.
    """
    family, _, name = strategy.partition(":")
    if not name:
        return _own(strategy)
    try:
        if family == "kernel-tuner":
            from kernel_tuner.interface import strategy_map

            plain = name.partition(";")[0]
            if plain not in strategy_map:
                raise UsageError(
                    f"Kernel Tuner has no strategy {plain!r}", "one of " + ", ".join(strategy_map)
                )
            return _kernel_tuner
        if family == "pyatf":
            import pyatf  # noqa: F401

            if name not in TECHNIQUES:
                raise UsageError(f"pyATF has no technique {name!r}", "one of " + ", ".join(TECHNIQUES))
            return search
    except ImportError as error:
        raise MachineError(f"{strategy} cannot run ({error})", "pip install 'remix-tuner[bench]'") from error
    raise UsageError(f"unknown family {family!r}", "kernel-tuner:NAME, pyatf:NAME, or a searcher's name")


def _own(strategy: str) -> Peer:
    """One of the project's searchers, whole or with a part left out."""
    name, _, part = strategy.partition("-without-")
    if part:
        without.check(part)
    elif strategy == without.ARM:
        return without.search
    registry.create(name, Space([Parameter.choice("A", [1, 2])]))
    return without.search if part else simulate


def _kernel_tuner(case: Case, strategy: str, evaluations: int, seeds: Sequence[int]) -> list[Trace]:
    from kernel_tuner import tune_kernel

    recorded = case.recorded
    numbers = {key: i for i, key in enumerate(recorded.rows)}
    name, *options = strategy.partition(":")[2].split(";")
    given = dict(option.split("=", 1) for option in options)
    traces = []
    # Its space and its results are made anew for each seed: it writes into both.
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(_cache_file(case)))
        for seed in seeds:
            random.seed(seed)
            np.random.seed(seed)
            started = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                results, _ = tune_kernel(
                    recorded.kernel,
                    "__global__ void nothing() {}",
                    (1, 1),
                    [],
                    {name: list(values) for name, values in recorded.parameters.items()},
                    restrictions=list(recorded.restrictions or ()),
                    cache=str(cache),
                    simulation_mode=True,
                    strategy=name,
                    strategy_options={"max_fevals": evaluations, **given},
                    verbose=False,
                    quiet=True,
                )
            rows = [numbers.get(key_of(r[k] for k in recorded.parameters), -1) for r in results]
            unique = tuple(dict.fromkeys(rows))[:evaluations]
            traces.append(Trace(rows=unique, cpu_s=time.process_time() - started))
    return traces


def _cache_file(case: Case) -> dict[str, Any]:
    recorded = case.recorded
    entries = {}
    for configuration, row in recorded.configurations():
        times = [1e3 * t for t in row.times_s]
        entries[",".join(str(v) for v in configuration.values())] = {
            **configuration,
            "time": float(np.mean(times)) if times else _WORDS.get(row.status, "InvalidConfig"),
            "times": times,
            "compile_time": 1e3 * row.compile_s,
            "verification_time": 0,
            "benchmark_time": 1e3 * row.run_s,
            "strategy_time": 0,
            "framework_time": 0,
            "timestamp": "2024-01-01 00:00:00+00:00",
        }
    return {
        "device_name": recorded.device or "recorded",
        "kernel_name": recorded.kernel,
        "problem_size": [1, 1],
        "tune_params_keys": list(recorded.parameters),
        "tune_params": {name: list(values) for name, values in recorded.parameters.items()},
        "objective": "time",
        "cache": entries,
    }
