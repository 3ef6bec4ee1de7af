"""The first event of a run: all that it depends on, so that the record says what was asked for. Writes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.protocols import Backend, Searcher
from tuner.core.types import Proposal, Task
from tuner.driver.options import Options
from tuner.driver.outcome import refused_edits
from tuner.driver.plan import pruning
from tuner.driver.state import version
from tuner.driver.state.bounds import light_of
from tuner.driver.state.settings import REMIX, RunSettings
from tuner.driver.state.trials import proposal_to_json
from tuner.driver.warm import KEY, begin_searcher
from tuner.driver.work.breeding import describe_original, refusals_of
from tuner.driver.work.environment import check_flags, search_code, toolchain
from tuner.driver.work.models import CASSETTE
from tuner.spaces.space import Space
from tuner.spec.load import LoadedSpec

__all__ = ["First", "first_event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """What a run begins with.

    Attributes:
        body: of the ``start`` event.
        blobs: what the body refers to, by digest.
        settings: as the body holds them.
        task: with the run's seed.
        space: of the source as given.
    """

    body: Mapping[str, Any]
    blobs: Mapping[str, bytes]
    settings: RunSettings
    task: Task
    space: Space

    def text(self, reference: str) -> str:
        """The text that a reference in the body stands for."""
        return self.blobs[reference.removeprefix("blob:")].decode()


def first_event(
    spec: LoadedSpec, options: Options, settings: RunSettings, backend: Backend, *, cassette: str | None
) -> First:
    """What a run of a spec begins with.

    Args:
        spec: one kernel's.
        options: over the spec's own.
        settings: that follow from both.
        backend: what will build and run.
        cassette: recorded exchanges that stand in for a model.

    Raises:
        SpecError: the spec cannot be run as it is.
        UsageError: a strategy that does not exist or cannot do what is asked.
        MachineError: nothing of this backend can be built here.
    """
    catalogue = backend.pass_catalogue(spec.task.target) if spec.wants_passes else None
    space = spec.space(catalogue)
    check_flags(backend, spec)
    task = spec.task_with(seed=settings.seed)
    blobs: dict[str, bytes] = {}
    body = {
        "tool": metadata.version("remix-tuner"),
        version.KEY: version.VERSION,
        **_spec_body(spec, blobs),
        "catalogue": None if catalogue is None else _store(canonical_json(catalogue), blobs),
        "settings": settings.to_json(),
        "environment": toolchain(backend, task),
        "search_code": search_code(),
        "baseline": proposal_to_json(
            Proposal(configuration=space.default(), origin="baseline"), blobs, digest
        ),
        "backend": backend.name,
        "clock_s": 0.0,
    }
    # A model reckons with what the machine does; that is worth the seconds of measuring it once.
    bound = light_of(task, backend, measure=settings.llm is not None and not settings.llm.cassette)
    if bound is not None:
        body["light"] = bound
    if options.warm_start:
        body[KEY] = [_store(text, blobs) for text in options.warm_start]
    if cassette is not None:
        body[CASSETTE] = _store(cassette, blobs)
    if options.rivals:
        body["rivals"] = [from_json(text) for text in options.rivals]
    if settings.evolution is not None:
        body["variant"] = describe_original(task, settings)
        if REMIX in settings.proposers:
            body[refused_edits.KEY] = refusals_of(task, space)
    # A strategy that cannot be made is said before anything is written.
    searcher = begin_searcher(
        settings.strategy, space, body, lambda r: blobs[r.removeprefix("blob:")].decode()
    )
    settings = _modelled(settings, space, searcher, warm=bool(options.warm_start))
    body["settings"] = settings.to_json()
    return First(body=body, blobs=blobs, settings=settings, task=task, space=space)


def _modelled(settings: RunSettings, space: Space, searcher: Searcher, *, warm: bool) -> RunSettings:
    """What the cost model does in a run: which proposals it looks at, and before what."""
    if settings.cost_model == "off":
        return settings
    if space.passes is not None:
        # What a pass sequence does shows only in the code that it leads to, and many lead to the same.
        return replace(settings, priced=not settings.fleet)
    if getattr(searcher, "cheap", False):
        settings = replace(settings, pool=pruning.POOL_FACTOR)
    moves = getattr(searcher, "moves", False) and settings.evolution is None
    return replace(settings, ranked=bool(moves and not warm))


def _spec_body(spec: LoadedSpec, blobs: dict[str, bytes]) -> dict[str, Any]:
    return {
        "name": spec.name,
        "spec": _store(spec.text, blobs),
        "spec_digest": spec.digest,
        "files": {name: _store(text, blobs) for name, text in sorted(spec.files.items())},
        "folder": str(Path(spec.path).parent),
        "index": spec.index,
    }


def _store(text: str, blobs: dict[str, bytes]) -> str:
    data = text.encode()
    name = digest(data)
    blobs[name] = data
    return f"blob:{name}"
