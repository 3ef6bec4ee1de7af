"""Pipelines to choose a portfolio from: LLVM's own in a row, single passes around the base, random ones, children."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from _portfolio_times import BASE, Times

from tuner.core.errors import SpecError
from tuner.spaces.passes import PassSpace

__all__ = ["first_pool", "grown"]

_LEVELS = ("O1", "O2", "O3", "Os", "Oz")
_THREE = (
    ("O1", "O3", "O3"),
    ("O3", "O3", "O3"),
    ("O1", "O1", "O3"),
    ("O2", "O3", "O3"),
    ("O3", "O1", "O3"),
    ("O1", "O3", "O1", "O3"),
)
_PROLOGUE = "sroa,early-cse,loop-simplify,lcssa,loop(loop-rotate)"
"""What loop passes need of code that comes from the frontend."""
_FRONT = (
    "loop-mssa(licm)",
    "loop(loop-idiom,indvars)",
    "loop(indvars)",
    "loop(loop-unroll-full)",
    "loop-unroll",
    "loop(loop-interchange)",
    "loop-distribute",
    "loop-fusion",
    "loop(loop-flatten)",
    "loop-unroll-and-jam",
    "loop-versioning",
    "loop(loop-versioning-licm)",
    "loop-load-elim",
    "loop-vectorize",
    "slp-vectorizer",
    "loop-vectorize,slp-vectorizer",
    "gvn",
    "newgvn",
    "nary-reassociate",
    "reassociate",
    "slsr",
    "separate-const-offset-from-gep",
    "loop-data-prefetch",
    "loop(loop-reduce)",
    "simplifycfg,instcombine",
    "loop(simple-loop-unswitch<nontrivial>)",
    "loop(loop-bound-split)",
    "irce",
    "jump-threading",
    "scalarizer",
    "memcpyopt,dse",
    "loop(loop-predication)",
    "gvn-hoist",
    "gvn-sink",
    "aggressive-instcombine",
    "loop(loop-deletion)",
    "early-cse<memssa>",
    "instcombine",
    "speculative-execution",
    "mldst-motion",
)
_BEHIND = (
    "loop-unroll",
    "loop-vectorize",
    "slp-vectorizer",
    "loop-vectorize,slp-vectorizer",
    "loop-data-prefetch",
    "loop(loop-reduce)",
    "gvn",
    "loop-mssa(licm)",
    "nary-reassociate",
    "slsr",
    "reassociate",
    "separate-const-offset-from-gep",
    "instcombine",
    "early-cse<memssa>",
    "sink",
    "loop-sink",
    "vector-combine",
    "scalarizer",
    "loop-unroll-and-jam",
    "loop(loop-interchange)",
    "loop-distribute",
    "loop-fusion",
    "loop-load-elim",
)
_RANDOM = 80
_PARENTS = 40
_LONGEST = 700
"""Characters: the whole of O3 spelt out is for one version of LLVM only."""


def first_pool(passes: PassSpace, rng: np.random.Generator) -> list[str]:
    """Where it begins: about 200 pipelines."""

    def row(levels: Sequence[str]) -> str:
        return ",".join(f"default<{level}>" for level in levels)

    texts = [BASE, *(row([a]) for a in _LEVELS), *(row([a, b]) for a in _LEVELS for b in _LEVELS)]
    texts += [row(levels) for levels in _THREE]
    texts += [f"function({_PROLOGUE},{name}),{BASE}" for name in _FRONT]
    texts += [f"{BASE},function({name})" for name in _BEHIND]
    texts += [passes.random(rng) for _ in range(_RANDOM)]
    return [t for t in dict.fromkeys(texts) if passes.is_valid(t)]


def grown(passes: PassSpace, times: Times, count: int, rng: np.random.Generator) -> list[str]:
    """Children of those that were worth most in the mean, and some random ones."""
    order = np.argsort(times.gains.mean(axis=0), kind="stable")
    parents = [t for t in (times.pipelines[i] for i in order) if len(t) <= _LONGEST][:_PARENTS]
    made: dict[str, None] = {}
    while len(made) < count:
        one, other = (parents[min(int(rng.exponential(10.0)), len(parents) - 1)] for _ in range(2))
        try:
            text = _child(passes, one, other, rng)
        except SpecError:
            continue
        if len(text) <= _LONGEST and text not in times.pipelines and passes.is_valid(text):
            made[text] = None
    return list(made)


def _child(passes: PassSpace, one: str, other: str, rng: np.random.Generator) -> str:
    way = rng.random()
    if way < 0.35:
        return passes.mutate(one, rng, 1 + int(rng.integers(3)))
    if way < 0.6:
        return passes.crossover(one, other, rng)
    if way < 0.7:
        return f"default<O{int(rng.integers(1, 4))}>,{one}"
    if way < 0.8:
        return f"{one},{BASE}"
    if way < 0.9:
        return one.replace(BASE, f"default<O2>,{BASE}", 1)
    return passes.random(rng)
