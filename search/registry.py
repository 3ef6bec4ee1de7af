"""Searchers by name: the built-in ones and those of the entry point group ``tuner.searchers``.

A factory takes the space alone and returns a searcher; all randomness comes with ``ask``. Imports a searcher's module
only when that searcher is asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, cast

from tuner.core.canonical import canonical_json
from tuner.core.errors import MachineError, UsageError
from tuner.core.plugins import Returns, entry_points, guarded, loading
from tuner.core.protocols import Searcher
from tuner.core.types import Proposal
from tuner.spaces.space import Space

__all__ = ["BUILT_IN", "GROUP", "Factory", "create", "names"]

GROUP = "tuner.searchers"

Factory = Callable[[Space], Searcher]
"""What an entry point of :data:`GROUP` must be."""

BUILT_IN = {
    "auto": "tuner.search.auto:make",
    "evolution": "tuner.search.regularised:make",
    "exhaustive": "tuner.search.exhaustive:make",
    "optuna-cmaes": "tuner.search.cmaes_search:make",
    "optuna-gp": "tuner.search.optuna_search:make_gp",
    "optuna-tpe": "tuner.search.optuna_search:make_tpe",
    "passes": "tuner.search.passes:make",
    "random": "tuner.search.random_search:make",
    "skopt-forest": "tuner.search.skopt_search:make_forest",
    "skopt-gp": "tuner.search.skopt_search:make_gp",
    "surrogate": "tuner.search.surrogate_search:make",
}

_INSTALL = {
    "torch": "pip install 'remix-tuner[gp]'",
    "optuna": "pip install optuna",
    "skopt": "pip install scikit-optimize",
    "sklearn": "pip install scikit-learn",
    "cmaes": "pip install cmaes",
}


def names() -> tuple[str, ...]:
    """Every searcher's name, sorted."""
    return tuple(sorted({*BUILT_IN, *_installed()}))


def create(name: str, space: Space) -> Searcher:
    """A new searcher for a space.

    Args:
        name: one of :func:`names`. A built-in name cannot be taken over by an entry point.
        space: what is searched.

    Raises:
        UsageError: there is no such searcher, it is none, or it cannot search this space.
        MachineError: a library that it needs is not installed.
        PluginError: it is a third party's, and loading or making it raises an exception.
    """
    target = BUILT_IN.get(name)
    try:
        if target is None:
            return _third_party(name, space)
        module, attribute = target.split(":")
        factory = cast("Factory", getattr(import_module(module), attribute))
        return factory(space)
    except ImportError as error:
        missing = (error.name or str(error)).split(".")[0]
        raise MachineError(
            f"the searcher {name!r} needs {missing}, which cannot be imported ({error})",
            _INSTALL.get(missing, f"install {missing}"),
        ) from error


def _third_party(name: str, space: Space) -> Searcher:
    entry = _installed().get(name)
    if entry is None:
        close = difflib.get_close_matches(name, names(), n=1)
        listed = ", ".join(names())
        hint = f"did you mean {close[0]!r}? There are: {listed}" if close else f"there are: {listed}"
        raise UsageError(f"unknown searcher {name!r}", hint)
    label = f"searcher {name}"
    with loading(label, entry.value):
        loaded = entry.load()
        if not callable(loaded):
            raise UsageError(
                f"the searcher {name!r} is no factory", f"entry point {entry.value} must take a space"
            )
        made = loaded(space)
    if not isinstance(made, Searcher):
        raise UsageError(
            f"the searcher {name!r} is none", f"{entry.value} has to make a tuner.core.protocols.Searcher"
        )
    returns = Returns(kind=Proposal, many=True, wrong=partial(_wrong, space))
    return guarded(made, label, {"ask": returns})


def _wrong(space: Space, proposals: Sequence[Proposal], arguments: Sequence[Any]) -> str:
    """What of a third party's proposals a run could not go on with: said before they are in the record for good."""
    if arguments and len(proposals) > arguments[0]:
        return f"{len(proposals)} proposals where at most {arguments[0]} were asked for"
    for proposal in proposals:
        problem = _problem(space, proposal)
        if problem:
            return f"a proposal that cannot be tried: {problem}"
    return ""


def _problem(space: Space, proposal: Proposal) -> str:
    configuration = proposal.configuration
    if not isinstance(configuration, Mapping):
        return f"its configuration is a {type(configuration).__name__}, no mapping"
    for name, value in configuration.items():
        if type(value) not in (bool, int, float, str):
            return f"{name} = {value!r} is a {type(value).__name__}, no bool, int, float or str"
    problem = space.explain(configuration)
    if problem:
        return problem
    try:
        canonical_json([proposal.origin, proposal.parent, proposal.note, proposal.rivals])
    except (TypeError, ValueError, RecursionError) as error:
        return f"its origin, parent, note or rivals are no plain JSON ({error})"
    return ""


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
