"""Checks that every searcher must pass, for this project's and for third parties' (run them from a test).

May not need pytest, a compiler or a device: trials are invented here. Example::

    from tuner.search.conformance import check_all
    check_all(my_factory, space)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.core.canonical import canonical_json
from tuner.core.protocols import Observation, Searcher, configuration_key
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Configuration, Proposal, Status
from tuner.search.history import FAILURES
from tuner.spaces.space import Space

__all__ = [
    "Landscape",
    "check_adopt",
    "check_all",
    "check_all_failing",
    "check_exhaustion",
    "check_foreign",
    "check_out_of_order",
    "check_proposals",
    "check_purity",
    "invented",
    "require",
    "transcript",
]

Factory = Callable[[Space], Searcher]

_OTHERS = (Status.PRUNED, Status.LOST, Status.ABANDONED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape:
    """Invented results, fixed by the configuration alone.

    Attributes:
        failing: share of configurations that fail, 0 to 1.
        score: the score of one that does not; ``None`` for one drawn from its digest.
    """

    failing: float = 0.0
    score: Callable[[Configuration], float] | None = None

    def observe(self, trial: int, proposal: Proposal) -> Observation:
        """What became of a proposal."""
        text = canonical_json(dict(proposal.configuration))
        digest = hashlib.sha256(text.encode()).digest()
        if digest[0] < 256 * self.failing:
            status = FAILURES[digest[1] % len(FAILURES)]
            if digest[2] < 32:
                status = _OTHERS[digest[1] % len(_OTHERS)]
            return Observation(trial=trial, proposal=proposal, status=status, message="invented")
        score = digest[3] / 256 if self.score is None else self.score(proposal.configuration)
        status = Status.DUPLICATE if digest[4] < 8 else Status.OK
        return Observation(trial=trial, proposal=proposal, status=status, score=score, raced=digest[5] < 64)


def check_all(make: Factory, space: Space, *, trials: int = 24, small: Space | None = None) -> None:
    """Every check of this module.

    Args:
        make: the searcher's factory.
        space: with more than ``trials`` configurations.
        trials: how many a check asks for; more than the searcher's random start.
        small: a space of few configurations and no passes, for the exhaustion.

    Raises:
        AssertionError: the searcher breaks the protocol; the message says how.
    """
    for batch in (1, 3):
        check_proposals(make, space, trials=trials, batch=batch)
    check_proposals(make, space, trials=trials, batch=2, landscape=Landscape(failing=0.3))
    check_purity(make, space, trials=trials)
    check_adopt(make, space, trials=trials)
    check_out_of_order(make, space, trials=trials)
    check_foreign(make, space, trials=trials)
    check_all_failing(make, space, trials=trials)
    if small is not None:
        check_exhaustion(make, small)


def check_proposals(
    make: Factory, space: Space, *, trials: int, batch: int, landscape: Landscape | None = None
) -> None:
    """Proposals are valid, never repeat, and are no more than asked for; asking for none gives none."""
    searcher = make(space)
    require(isinstance(searcher, Searcher), f"{make} makes no searcher")
    require(bool(searcher.name), "the searcher has no name")
    require(searcher.ask(0, stream(0, "ask", 0)) == [], "ask(0) proposes something")
    searcher.tell([baseline(space)])
    landscape = landscape or Landscape()
    seen: set[tuple[tuple[str, object], ...]] = set()
    trial = 1
    while trial <= trials:
        proposals = searcher.ask(batch, stream(0, "ask", trial))
        require(0 < len(proposals) <= batch, f"{len(proposals)} proposals for {batch} asked at trial {trial}")
        for proposal in proposals:
            check_proposal(space, proposal)
            key = configuration_key(proposal.configuration)
            require(key not in seen, f"{dict(proposal.configuration)} was proposed twice")
            seen.add(key)
        searcher.tell([landscape.observe(trial + i, p) for i, p in enumerate(proposals)])
        trial += len(proposals)


def check_proposal(space: Space, proposal: Proposal) -> None:
    """One proposal is valid in the space and plain JSON."""
    reason = space.explain(proposal.configuration)
    require(not reason, f"an invalid configuration was proposed: {reason}")
    for name, value in proposal.configuration.items():
        require(type(value) in (int, float, str, bool), f"{name} is of type {type(value).__name__}")
    require(bool(proposal.origin), "a proposal has no origin")
    canonical_json(dict(proposal.note))
    for configuration, value in proposal.rivals:
        require(type(value) is float, f"a rival's score is of type {type(value).__name__}")
        require(not space.explain(configuration), "a rival is no valid configuration")


def check_purity(make: Factory, space: Space, *, trials: int) -> None:
    """Two searchers with the same calls make the same proposals."""
    first = transcript(make, space, trials=trials)
    require(first == transcript(make, space, trials=trials), "the same calls gave other proposals")


def check_adopt(make: Factory, space: Space, *, trials: int) -> None:
    """A searcher that adopted a run's proposals goes on as the one that made them.

    Batches are told late, so that some proposals are pending at every moment.
    """
    landscape = Landscape(failing=0.3)
    made, follower = make(space), make(space)
    for searcher in (made, follower):
        searcher.tell([baseline(space)])
    pending: list[Observation] = []
    trial = 1
    while trial <= trials:
        proposals = made.ask(2, stream(1, "ask", trial))
        if trial > trials - 4:
            own = follower.ask(2, stream(1, "ask", trial))
            require(_plain(own) == _plain(proposals), f"after adopting, proposals differ at trial {trial}")
        else:
            follower.adopt(proposals)
        if not proposals:
            break
        pending += [landscape.observe(trial + i, p) for i, p in enumerate(proposals)]
        trial += len(proposals)
        for searcher in (made, follower):
            searcher.tell(pending[:-1])
        pending = pending[-1:]


def check_out_of_order(make: Factory, space: Space, *, trials: int) -> None:
    """Results may come in any order and late."""
    searcher, landscape = make(space), Landscape(failing=0.3)
    searcher.tell([baseline(space)])
    waiting: list[Observation] = []
    for trial in range(1, trials + 1):
        for proposal in searcher.ask(1, stream(2, "ask", trial)):
            check_proposal(space, proposal)
            waiting.append(landscape.observe(trial, proposal))
        if len(waiting) >= 5:
            searcher.tell(waiting[::-2])
            waiting = [o for i, o in enumerate(waiting[::-1]) if i % 2]
    searcher.tell(waiting)
    searcher.tell([])


def check_foreign(make: Factory, space: Space, *, trials: int) -> None:
    """Others' trials are learnt from and not proposed again; those of another space do no harm."""
    searcher, landscape = make(space), Landscape(failing=0.3)
    searcher.tell([baseline(space)])
    sampled = space.sample(stream(3, "foreign"), trials // 2)
    foreign = [Proposal(configuration=c, origin="another") for c in sampled]
    searcher.tell([landscape.observe(i + 1, p) for i, p in enumerate(foreign)])
    strange = Proposal(configuration={"no_such_name": 1, "passes": "((("}, origin="another")
    searcher.tell([Observation(trial=10_000, proposal=strange, status=Status.OK, score=-5.0)])
    searcher.tell([Observation(trial=10_001, proposal=strange, status=Status.CRASHED)])
    known = {configuration_key(c) for c in sampled}
    for trial in range(trials // 2 + 1, trials + 1):
        proposals = searcher.ask(1, stream(3, "ask", trial))
        for proposal in proposals:
            check_proposal(space, proposal)
            require(
                configuration_key(proposal.configuration) not in known, "another's trial was proposed again"
            )
        searcher.tell([landscape.observe(trial, p) for p in proposals])


def check_all_failing(make: Factory, space: Space, *, trials: int) -> None:
    """A searcher goes on when nothing but the baseline ever works."""
    check_proposals(make, space, trials=trials, batch=1, landscape=Landscape(failing=1.0))


def check_exhaustion(make: Factory, space: Space) -> None:
    """Every valid configuration is proposed once (the baseline not again), then nothing more.

    Args:
        make: the searcher's factory.
        space: with few configurations and no passes, the default valid.
    """
    total = space.count()
    assert total is not None
    searcher = make(space)
    searcher.tell([baseline(space)])
    seen = {configuration_key(space.default())}
    for trial in range(1, total + 10):
        proposals = searcher.ask(2, stream(4, "ask", trial))
        if not proposals:
            break
        for proposal in proposals:
            check_proposal(space, proposal)
            key = configuration_key(proposal.configuration)
            require(key not in seen, "a configuration was proposed twice")
            seen.add(key)
        searcher.tell([Landscape(failing=0.2).observe(100 * trial + i, p) for i, p in enumerate(proposals)])
    require(len(seen) == total, f"{len(seen)} of {total} configurations were tried")
    require(searcher.ask(3, stream(4, "ask", 0)) == [], "there are proposals in an exhausted space")


def baseline(space: Space) -> Observation:
    """Trial 0."""
    proposal = Proposal(configuration=space.default(), origin="baseline")
    return Observation(trial=BASELINE, proposal=proposal, status=Status.OK, score=0.0)


def invented(
    make: Factory, space: Space, *, trials: int, seed: int, landscape: Landscape, batch: int = 1
) -> list[Observation]:
    """A whole invented run, the baseline first; shorter where the space is exhausted."""
    searcher = make(space)
    told = [baseline(space)]
    searcher.tell(told)
    while len(told) <= trials:
        proposals = searcher.ask(batch, stream(seed, "ask", len(told)))
        if not proposals:
            break
        fresh = [landscape.observe(len(told) + i, p) for i, p in enumerate(proposals)]
        searcher.tell(fresh)
        told += fresh
    return told


def transcript(make: Factory, space: Space, *, trials: int) -> str:
    """Every proposal of an invented run with failures as text: equal in every process for equal code."""
    told = invented(make, space, trials=trials, seed=5, landscape=Landscape(failing=0.3), batch=2)
    return _plain([o.proposal for o in told])


def _plain(proposals: Sequence[Proposal]) -> str:
    return json.dumps(
        [
            [dict(p.configuration), p.origin, p.parent, dict(p.note), [[dict(c), v] for c, v in p.rivals]]
            for p in proposals
        ],
        sort_keys=True,
    )


def require(holds: bool, message: str) -> None:
    """Ends a check with its message where something does not hold."""
    if not holds:
        raise AssertionError(message)
