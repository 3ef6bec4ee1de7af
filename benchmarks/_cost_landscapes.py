"""Advice on edits in simulated time: two kernels that do the same in other words; what operators are worth is drawn.

The library holds one run of the other kernel, with the same worths (it helps) or the opposite ones (it misleads). It
counts, so no quiet machine is needed; but worths of operators alone are much simpler than kernels.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tuner.core.streams import stream
from tuner.core.types import Resolved, Status, Variant
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

__all__ = ["search_landscapes"]

PRODUCT = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
"""
OTHER = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int p = 0; p < n; p++)
        for (int q = 0; q < n; q++) {
            c[p * n + q] = 0.0f;
            for (int r = 0; r < n; r++)
                c[p * n + q] += 2.0f * a[p * n + r] * b[r * n + q];
        }
}
"""
SPEC = """\
kernel: {source: product.c, entry: product}
problem: {n: 64}
arguments:
  - {name: a, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: c, dtype: float32, shape: [n, n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {WIDTH: [1, 2, 3, 4]}
  passes: off
  source: {evolve: true}
verify: {numerics: reassociate}
search: {strategy: random}
"""
SPREAD = 0.35
WITHIN = 0.05


def search_landscapes(folder: Path, seeds: int, evaluations: int) -> dict[str, list[list[float]]]:
    """By kind of run, for each seed: evaluations to within 5% of the best of all kinds, advised trials, the best score.

    Kinds: ``alone``, ``control`` (alone with another seed), and with a library that ``helps`` or ``misleads``.
    """
    found: dict[str, list[list[float]]] = {}
    for seed in range(seeds):
        place = folder / str(seed)
        shutil.rmtree(place, ignore_errors=True)
        truth = _worths(seed, 1.0)
        runs = {
            "alone": _run(place / "alone", PRODUCT, truth, seed, evaluations, None),
            "control": _run(place / "control", PRODUCT, truth, seed + seeds, evaluations, None),
        }
        for kind, sign in (("helps", 1.0), ("misleads", -1.0)):
            library = place / kind
            source = place / f"{kind}-source"
            _run(source, OTHER, _worths(seed, sign), seed + 2 * seeds, evaluations, library)
            own = place / f"{kind}-library"
            if library.exists():
                # A run adds itself to what it is given.
                shutil.copytree(library, own)
            runs[kind] = _run(place / f"{kind}-run", PRODUCT, truth, seed, evaluations, own)
        goal = min(made[-1] for made, _ in runs.values()) + WITHIN
        for name, (made, advised) in runs.items():
            reached = next((i for i, score in enumerate(made, 1) if score <= goal), evaluations)
            found.setdefault(name, []).append([reached, advised, round(made[-1], 3)])
    return found


def _worths(seed: int, sign: float) -> Callable[[Variant, Resolved], float]:
    def of(variant: Variant, resolved: Resolved) -> float:
        logs = (
            float(np.clip(stream(seed, f"worth/{op}").normal(0.0, SPREAD), -1.0, 1.0))
            for op in {edit["op"] for edit in variant.edits}
        )
        return math.exp(sign * sum(logs))

    return of


def _seconds(resolved: Resolved) -> float:
    return 1e-3 * (1.0 + 0.05 * abs(int(resolved.macros["WIDTH"]) - 3))


def _run(
    place: Path,
    source: str,
    worths: Any,
    seed: int,
    evaluations: int,
    library: Path | None,
) -> tuple[list[float], int]:
    """The best score after each evaluation of the search, and how many trials were of what earlier runs advised."""
    place.mkdir(parents=True)
    (place / "product.c").write_text(source)
    (place / "product.yaml").write_text(SPEC)
    (spec,) = load_spec(place / "product.yaml")
    options = Options(seed=seed, evaluations=evaluations, library=library)
    backend = SimulatedBackend(seconds=_seconds, of_variant=worths, process_noise=0.001, call_noise=0.001)
    begin(spec, place / "a.run", options, backend=backend)
    with RunRecord.read(place / "a.run") as record:
        state, _, _ = open_state(record)
    best, made, advised = 0.0, list[float](), 0
    for number in state.finished:
        trial, variant = state.trials[number], state.variant_of(number)
        if trial.status in (Status.DUPLICATE, Status.PRUNED, Status.LOST) or variant.purpose == "reduce":
            continue
        if trial.score is not None and not trial.raced:
            best = min(best, trial.score)
        advised += variant.origin == "library"
        made.append(best)
    return made, advised
