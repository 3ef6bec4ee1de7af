"""What a run over the source keeps for later ones: fields of the library's entry.

May not judge what it was worth to anybody else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from tuner.core.types import BASELINE, Task, Variant
from tuner.cost_models.promise import worth
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.state.run import RunState
from tuner.search.porting import stages_of
from tuner.search.remix import RECIPE
from tuner.spaces.source import embedding
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

__all__ = ["kept_edits", "shape_of"]

_VARIANTS = 48
"""Variants of a run that are kept, the best."""

_DIGITS = 4
_CODE_DIGITS = 2


def kept_edits(state: RunState, task: Task) -> dict[str, Any]:
    """What an entry of the library says of the source, by field; empty where the source stays."""
    if state.settings.evolution is None:
        return {}
    program = read_program(task.kernel, launch=task.launch)
    about = {"structure": structure_digest(program), "shape": _shape(program)}
    trial = state.trials[BASELINE if state.chosen is None else state.chosen]
    variant = state.variants[trial.variant]
    best = None if state.best is None else state.trials[state.best].score
    if variant.number == ORIGINAL or best is None or best >= 0.0:
        return about
    configuration = trial.proposal.configuration
    tried = [
        v
        for v in state.variants.values()
        if v.number != ORIGINAL and (v.reached or v.outclassed) and v.purpose == "propose"
    ]
    tried.sort(key=lambda v: (math.inf if v.score is None else v.score, v.number))
    return {
        **about,
        "chosen": dict(configuration),
        "steps": tuple(stages_of(program, variant.edits, configuration)),
        "moves": tuple(_moves(state, variant)),
        "variants": tuple((shape_of(task, v.variant), worth(v.score, best)) for v in tried[:_VARIANTS]),
        "paid": _paid(tried, best),
        **_codes(state, best),
    }


def _codes(state: RunState, best: float) -> dict[str, Any]:
    """What variants were built to at their first trials, ablations among them, the best."""
    found: list[tuple[Mapping[str, float], float]] = []
    for variant in state.variants.values():
        trial = state.trials[variant.trials[0]] if variant.trials else None
        if trial is None or trial.score is None or not trial.build or not trial.build.get("features"):
            continue
        found.append((trial.build["features"], worth(trial.score, best)))
    found = sorted(found, key=lambda one: -one[1])[:_VARIANTS]
    columns = sorted({name for features, _ in found for name in features})
    return {
        "columns": tuple(columns),
        "codes": tuple(
            (tuple(round(features.get(n, 0.0), _CODE_DIGITS) for n in columns), round(value, _DIGITS))
            for features, value in found
        ),
    }


def _paid(tried: Sequence[VariantState], best: float) -> dict[str, float]:
    """What the variants of each move were worth in the mean."""
    found: dict[str, list[float]] = {}
    for variant in tried:
        if variant.origin in OPERATORS or variant.origin.startswith(RECIPE):
            found.setdefault(variant.origin, []).append(worth(variant.score, best))
    return {move: round(fmean(worths), _DIGITS) for move, worths in sorted(found.items())}


def _shape(program: Program) -> tuple[float, ...]:
    return tuple(round(value, _DIGITS) for value in embedding.embed(program))


def shape_of(task: Task, variant: Variant) -> tuple[float, ...]:
    """Numbers of what stands in what in a variant's source (:mod:`tuner.spaces.source.embedding`)."""
    return _shape(read_program(task.kernel, variant, launch=variant.launch or task.launch))


def _moves(state: RunState, variant: VariantState) -> Iterator[str]:
    """How a variant and its first parents were made, oldest first."""
    if variant.parents:
        yield from _moves(state, state.variants[variant.parents[0]])
        yield variant.origin
