"""What simpler searches reach with the same budget: runs of their own, whose results go into the main run's record.

Each has the budget, seed and verification of the run that it is compared with, and a record of its own beside it. May
not decide anything about the main run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tuner.core.canonical import digest
from tuner.driver.outcome.curves import best_so_far
from tuner.driver.state.settings import REMIX, Evolution

if TYPE_CHECKING:
    from tuner.driver.options import Options
    from tuner.driver.outcome.outcome import Outcome
    from tuner.spec.load import LoadedSpec

__all__ = ["RIVALS", "altered", "rivals_of", "run_rivals"]

_SAMPLES = Evolution(first=1, rungs=1, explore=1.0, reserve=0.0, independent=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A simpler search.

    Attributes:
        strategy: instead of the run's own; ``None`` for that.
        settings: over the run's own.
        models: whether it may ask the run's models, with a budget of its own.
        only_beside_models: whether it stands beside runs that ask models and no others.
    """

    strategy: str | None = None
    settings: Mapping[str, Any]
    models: bool = False
    only_beside_models: bool = False


RIVALS: Mapping[str, Rival] = {
    # The source stays as it is given.
    "parameters": Rival(settings={"evolution": None}),
    # Every sample is drawn for itself: an edit, a recipe or a reply about the source as given, and random values.
    "samples": Rival(strategy="random", settings={"evolution": _SAMPLES}, models=True),
    # The run itself, were it not for the models.
    "remix": Rival(settings={"proposers": (REMIX,)}, only_beside_models=True),
}
"""By name; each with all of the run's budget."""

_CASSETTE = "cassette:"
_OFF = "off"


def rivals_of(spec: LoadedSpec, llm: str | None) -> dict[str, Rival]:
    """Those that stand beside a run.

    Args:
        spec: of the run; one that does not evolve the source has none, being what it would be compared with.
        llm: what the command line says about models.
    """
    asks = llm != _OFF and (llm is not None or spec.search.llm is not None)
    return {n: r for n, r in RIVALS.items() if spec.evolves and (asks or not r.only_beside_models)}


def altered(options: Options, rival: Rival) -> Options:
    """A run's options as a rival's."""
    # A cassette holds the exchanges of one run, and another search would ask for what it has not.
    models = rival.models and not (options.llm or "").startswith(_CASSETTE)
    return replace(
        options,
        library=None,
        llm=options.llm if models else _OFF,
        strategy=rival.strategy or options.strategy,
        settings={**dict(options.settings or {}), **rival.settings},
    )


def run_rivals(
    spec: LoadedSpec,
    options: Options,
    run: Callable[[str, Options], Outcome],
) -> tuple[str, ...]:
    """Runs every rival of a spec that evolves the source.

    Args:
        spec: of the main run.
        options: of the main run.
        run: carries out the run of a rival by its name.

    Returns:
        For each a text of JSON: its name, what it came to and how, its record's name and digest. Nothing for a spec
        that does not evolve: the run itself is what it would be compared with. An interrupted rival ends the list
        and is not in it: it did not have the budget that it would be compared by.
    """
    found = []
    for name, rival in rivals_of(spec, options.llm).items():
        outcome = run(name, altered(options, rival))
        if outcome.interrupted:
            break
        found.append(json.dumps(_shown(name, outcome), sort_keys=True))
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
        "curve": None if path is None else best_so_far(path),
        "digest": None if path is None else digest(path.read_bytes()),
    }
