"""A pipeline without the passes that change no kernel's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from _portfolio_times import Sample, opened

from tuner.core.protocols import Backend
from tuner.core.types import BuildRequest
from tuner.spaces.edits import Edit, EditKind
from tuner.spaces.passes import PassSpace
from tuner.spaces.pipeline import Leaf, Pipeline

__all__ = ["shortened"]


def shortened(backend: Backend, samples: Sequence[Sample], text: str, passes: PassSpace) -> str:
    """Without what can go, alone and then together, so that every sample's code stays the very same."""
    leaves = [leaf for leaf in Pipeline.parse(text).leaves() if passes.catalogue.may_change(leaf.node.name)]
    single = [_without(text, [leaf], passes) for leaf in leaves]
    same = _same(backend, samples, text, single)
    idle = [leaf for leaf, shorter in zip(leaves, single, strict=True) if shorter in same]
    while idle:
        shorter = _without(text, idle, passes)
        if _same(backend, samples, text, [shorter]):
            return shorter
        idle = idle[: len(idle) // 2]
    return text


def _without(text: str, leaves: Sequence[Leaf], passes: PassSpace) -> str:
    pipeline = Pipeline.parse(text)
    # From behind: what is left out moves only what comes after it.
    for leaf in sorted(leaves, key=lambda one: one.path, reverse=True):
        pipeline = Edit(kind=EditKind.DELETE, path=leaf.path).apply(pipeline, passes.catalogue)
    return pipeline.text


def _same(backend: Backend, samples: Sequence[Sample], text: str, others: Sequence[str]) -> set[str]:
    """Those that give every sample the code that the first text gives it."""
    left = list(dict.fromkeys(others))
    for sample in samples:
        with opened(backend, sample) as (evaluation, variant, resolved):
            builds = evaluation.build(
                [
                    BuildRequest(trial=1 + i, variant=variant, resolved=replace(resolved, pipeline=one))
                    for i, one in enumerate([text, *left])
                ]
            )
        left = [one for one, build in zip(left, builds[1:], strict=True) if build.key == builds[0].key]
        if not left:
            break
    return set(left)
