"""What simpler searches reach with the same budget: runs of their own, whose results go into the main run's record.

Each has the budget, seed and verification of the run that it is compared with, and a record of its own beside it. May
not decide anything about the main run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.canonical import digest
from tuner.driver.state.settings import Evolution

if TYPE_CHECKING:
    from tuner.driver.options import Options
    from tuner.driver.outcome.outcome import Outcome
    from tuner.spec.load import LoadedSpec

__all__ = ["RIVALS", "run_rivals"]

_SAMPLES = Evolution(first=1, rungs=1, explore=1.0, reserve=0.0, independent=True)

RIVALS: Mapping[str, tuple[str | None, Mapping[str, Any]]] = {
    # The source stays as it is given.
    "parameters": (None, {"evolution": None}),
    # Every sample is drawn for itself: an edit or recipe of the source as given, and random values.
    "samples": ("random", {"evolution": _SAMPLES}),
}
"""By name: the strategy instead of the run's own, and settings over the run's own."""


def run_rivals(
    spec: LoadedSpec,
    options: Options,
    place: Callable[[str], Path],
    run: Callable[[LoadedSpec, Path, Options], Outcome],
) -> tuple[str, ...]:
    """Runs every rival of a spec that evolves the source.

    Args:
        spec: of the main run.
        options: of the main run.
        place: gives the record's path for a rival's name.
        run: carries out a run.

    Returns:
        For each a text of JSON: its name, what it came to, its record's name and digest. Nothing for a spec that does
        not evolve: the run itself is what it would be compared with. An interrupted rival ends the list.
    """
    if not spec.evolves:
        return ()
    found = []
    for name, (strategy, settings) in RIVALS.items():
        changed = replace(
            options,
            library=None,
            strategy=strategy or options.strategy,
            settings={**dict(options.settings or {}), **settings},
        )
        outcome = run(spec, place(name), changed)
        found.append(json.dumps(_shown(name, outcome), sort_keys=True))
        if outcome.interrupted:
            break
    return tuple(found)


def _shown(name: str, outcome: Outcome) -> dict[str, Any]:
    summary = outcome.summary
    path = outcome.path
    return {
        "name": name,
        "claim": summary.claim,
        "speedup": {"value": summary.speedup[0], "ci95": list(summary.speedup[1:])},
        "trials": dict(summary.trials),
        "wall_s": summary.wall_s,
        "stopped_by": summary.stopped_by,
        "run": None if path is None else path.name,
        "digest": None if path is None else digest(path.read_bytes()),
    }
