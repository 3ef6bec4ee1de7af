"""Goes over a record and checks that every event is what the plan called for: no compiler, no candidate, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.core import statistics
from tuner.core.canonical import canonical_json, from_json
from tuner.core.errors import RecordError, SpecError
from tuner.core.types import Proposal, Status
from tuner.driver.plan import fleet, sharing
from tuner.driver.plan.actions import (
    Action,
    Ask,
    Await,
    BuildOther,
    BuildTrials,
    BuildWithout,
    Compare,
    Consult,
    Control,
    Decide,
    Dissect,
    Examine,
    Final,
    Finished,
    Judge,
    Measure,
    Propose,
    Recall,
    Receive,
    Reduce,
    SetBaseline,
    Share,
    Shorten,
    Simplify,
    Verify,
    Weigh,
)
from tuner.driver.plan.upcoming import next_action
from tuner.driver.proposed import apart, plain
from tuner.driver.state.fold import apply
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.observations import untold
from tuner.driver.state.run import RunState
from tuner.driver.state.strangers import holding_together
from tuner.driver.state.trials import proposal_from_json
from tuner.driver.work.correspondence import expected_reply, waits_for
from tuner.driver.work.lineup import Lineup
from tuner.driver.work.screening import near
from tuner.recorders.record import Recorded

__all__ = ["Difference", "Replay", "replay_events"]

TIE = 1e-6
"""Scores closer than this are a tie: another environment may pick another of them."""

FREE = ("interrupt", "resume", "extend", "abandoned", "lane", "lane_lost")
"""Events that come from outside the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One event that is not what the plan called for.

    ``searcher`` is the variant whose searcher proposes something else; what it proposes later goes on from that.
    ``alone`` is whether the record is wrong here whatever came before.
    """

    seq: int
    kind: str
    message: str
    searcher: int | None = None
    alone: bool = True


@dataclass(slots=True, kw_only=True)
class Replay:
    """What a replay found: counts of what was re-derived, and every difference."""

    events: int = 0
    decisions: int = 0
    proposals: int = 0
    differences: list[Difference] = field(default_factory=list)
    ties: list[Difference] = field(default_factory=list)

    def differs(self, event: Recorded, message: str) -> None:
        """One more event that is not what the plan called for."""
        self.differences.append(Difference(seq=event.seq, kind=event.kind, message=message))


def replay_events(state: RunState, lineup: Lineup, events: Iterable[Recorded], blob: Any) -> Replay:
    """Re-derives every proposal and decision.

    Args:
        state: fresh; holds the run's last state afterwards.
        lineup: fresh, over the same state.
        events: all of the record, in order.
        blob: reads a blob by digest.

    Returns:
        What was found; an event that cannot belong to any run is a difference, and the last one looked at.
    """
    found = Replay()
    for event in events:
        found.events += 1
        try:
            with holding_together("what it says"):
                _replay_event(state, lineup, event, found, blob)
        except RecordError as error:
            found.differs(event, error.message)
            break
    return found


def _replay_event(state: RunState, lineup: Lineup, event: Recorded, found: Replay, blob: Any) -> None:
    if event.kind == "start" and state.start is not None:
        found.differs(event, "a run begins once")
        return
    if event.kind == "start" or event.kind in FREE:
        apply(state, event)
        return
    if event.kind == "reply":
        problem = expected_reply(state, event.body)
        if problem:
            found.differs(event, problem)
        if waits_for(state, event.body["call"]):
            apply(state, event)
        return
    action = _called_for(state, event)
    if isinstance(action, Share) and event.kind == "share":
        _replay_share(state, event, found)
    elif isinstance(action, Consult) and event.kind == "consult":
        _replay_consult(state, lineup, action, event, found)
    elif isinstance(action, Ask) and event.kind == "ask":
        _replay_ask(state, lineup, action, event, found, blob)
    elif isinstance(action, Propose | Receive | Reduce) and event.kind == "variant":
        _replay_variant(state, lineup, action, event, found)
    elif isinstance(action, Judge) and event.kind == "judge":
        _replay_judge(state, lineup, action, event, found)
    elif isinstance(action, Simplify) and event.kind == "simplify":
        _replay_simplify(state, lineup, action, event, found, blob)
    elif isinstance(action, Shorten) and event.kind == "shorten":
        _replay_shorten(state, lineup, event, found)
    elif isinstance(action, Dissect) and event.kind == "dissect":
        _replay_dissect(state, lineup, event, found)
    else:
        problem = _mismatch(action, event)
        if isinstance(action, Decide):
            found.decisions += 1
        if problem:
            found.differs(event, problem)
    apply(state, event)


def _called_for(state: RunState, event: Recorded) -> Action:
    """What the plan called for; of all that may be under way on several devices, what the event is of."""
    if not state.settings.fleet:
        return next_action(state)
    decided = fleet.decision(state)
    if decided is not None:
        return decided
    under_way: list[Action] = []
    for action in fleet.effects(state):
        built = action.trials if isinstance(action, BuildTrials) else ()
        under_way += [BuildTrials(trials=(n,)) for n in built] or [action]
    fitting = [action for action in under_way if not _mismatch(action, event)]
    return (fitting or under_way or [Finished()])[0]


def _replay_ask(
    state: RunState, lineup: Lineup, action: Ask, event: Recorded, found: Replay, blob: Any
) -> None:
    body = event.body
    if (body["first"], body["count"]) != (action.first, action.count):
        found.differs(event, f"the plan asks for {action.count} from trial {action.first}")
    if body.get("variant", ORIGINAL) != action.variant:
        found.differs(event, f"the plan asks the searcher of variant {action.variant}")
        return
    _check_seen(state, event, found)
    searcher = lineup.searcher(action.variant)
    searcher.tell(untold(state, action.variant))
    rng = state.chance(action.first, action.variant)
    recorded = [proposal_from_json(p, blob) for p in body["proposals"]]
    found.proposals += len(recorded)
    derived = searcher.ask(action.count, rng)
    if derived == recorded or plain(derived) == plain(recorded):
        return
    problems = _outside(lineup, action, recorded)
    message = "; ".join(
        [
            "the searcher proposes something else from the same observations: "
            f"{apart(derived, recorded, action.first)}",
            *problems,
        ]
    )
    difference = Difference(
        seq=event.seq, kind="ask", message=message, searcher=action.variant, alone=bool(problems)
    )
    tied = len(derived) == len(recorded) and all(
        a.configuration == b.configuration or _is_rival(a, b) for a, b in zip(derived, recorded, strict=True)
    )
    (found.ties if tied else found.differences).append(difference)
    if recorded:
        searcher.adopt(recorded)


def _outside(lineup: Lineup, action: Ask, recorded: list[Proposal]) -> list[str]:
    """What of an ask in a record nobody can try, which no searcher's proposals are."""
    found = []
    for trial, proposal in enumerate(recorded, action.first):
        try:
            lineup.space(action.variant).resolve(proposal.configuration)
        except SpecError as error:
            found.append(f"trial {trial}: it is outside the space: {error}")
    return found


def _check_seen(state: RunState, event: Recorded, found: Replay) -> None:
    if event.body["seen"] != state.seq:
        found.differs(event, f"says it had seen {event.body['seen']} events, but {state.seq} came before it")


def _replay_consult(state: RunState, lineup: Lineup, action: Consult, event: Recorded, found: Replay) -> None:
    _check_seen(state, event, found)
    found.decisions += 1
    derived = from_json(canonical_json(lineup.breeding.consult(action, {})))
    if any(event.body.get(name) != value for name, value in derived.items()):
        found.differs(event, "another request to a model follows from the same events")


def _replay_share(state: RunState, event: Recorded, found: Replay) -> None:
    """What other runs said of themselves comes from outside; that it was this run's turn follows from it."""
    found.decisions += 1
    shared = state.settings.shared
    assert shared is not None
    body = event.body
    own = from_json(canonical_json(sharing.standing(state)))
    if body["standings"][shared.number] != own:
        found.differs(event, "what it says of this run does not follow from its events")
    if not body["last"] and sharing.chosen(body["standings"]) != shared.number:
        found.differs(event, "by what it says another run's turn had come")


def _replay_variant(
    state: RunState, lineup: Lineup, action: Propose | Receive | Reduce, event: Recorded, found: Replay
) -> None:
    body = event.body
    derived = from_json(canonical_json({"number": action.number, **lineup.breeding.bred(action, {})}))
    if any(body.get(name) != derived[name] for name in derived if name != "made"):
        found.differs(event, f"the plan calls for variant proposal {action.number}, to {derived['purpose']}")
    _check_seen(state, event, found)
    found.proposals += 1
    if derived["made"] != body["made"]:
        found.differs(event, "another variant follows from the same judgements")


def _replay_judge(state: RunState, lineup: Lineup, action: Judge, event: Recorded, found: Replay) -> None:
    body = event.body
    if (body["stage"], tuple(body["trials"])) != (action.stage, action.trials):
        found.differs(event, f"the plan judges {len(action.trials)} trials after {action.stage}")
        return
    _check_seen(state, event, found)
    found.decisions += 1
    derived = from_json(canonical_json(lineup.judge(action)))
    recorded = {name: body.get(name) for name in derived}
    if derived == recorded:
        return
    message = "the cost model judges otherwise from the same trials"
    difference = Difference(seq=event.seq, kind="judge", message=message)
    (found.ties if near(derived, recorded, TIE) else found.differences).append(difference)


def _replay_shorten(state: RunState, lineup: Lineup, event: Recorded, found: Replay) -> None:
    _check_seen(state, event, found)
    found.decisions += 1
    said = iter(event.body["same"])
    derived = lineup.shorten(lambda variant, resolved: next(said, False))
    if any(event.body[name] != value for name, value in derived.items()):
        found.differs(event, "another pipeline is left when what does not change the code is left out")


def _replay_dissect(state: RunState, lineup: Lineup, event: Recorded, found: Replay) -> None:
    _check_seen(state, event, found)
    found.decisions += 1
    derived = from_json(canonical_json(lineup.dissect()))
    if event.body["items"] != derived["items"]:
        found.differs(event, "other things of the winner can be taken back")


def _replay_simplify(
    state: RunState, lineup: Lineup, action: Simplify, event: Recorded, found: Replay, blob: Any
) -> None:
    body = event.body
    _check_seen(state, event, found)
    recorded = [proposal_from_json(p, blob) for p in body["proposals"]]
    found.proposals += len(recorded)
    called_for = (body["first"], body["count"], body["reason"]) == (action.first, action.count, action.reason)
    if not called_for or plain(lineup.simpler(action.count)) != plain(recorded):
        found.differs(event, "other trials follow from the best one with less changed")


def _is_rival(derived: Proposal, recorded: Proposal) -> bool:
    """Whether the other proposal was as good within a tie, by the record's own list."""
    best = recorded.rivals[0][1] if recorded.rivals else None
    return any(
        derived.configuration == configuration and best is not None and abs(score - best) <= TIE
        for configuration, score in recorded.rivals
    )


def _mismatch(action: Action, event: Recorded) -> str:
    """Why the event is not what the action leads to; empty where it is."""
    body = event.body
    match action:
        case Decide():
            same = (action.kind, action.trial) == (event.kind, event.trial)
            if same and action.body == body:
                return ""
            wanted = {
                "kind": action.kind,
                "trial": action.trial,
                "body": from_json(canonical_json(action.body)),
            }
            got = {"kind": event.kind, "trial": event.trial, "body": body}
            return "" if wanted == got else f"the rules decide {_short(wanted)}"
        case BuildTrials():
            wanted_event: tuple[str, int | None, Mapping[str, Any]] = ("build", action.trials[0], {})
        case Recall():
            wanted_event = ("recall", None, {})
        case SetBaseline():
            wanted_event = ("baseline", None, {})
        case Verify():
            wanted_event = ("verify", action.trial, {})
        case Measure():
            wanted_event = ("samples", action.trial, {"round": action.round})
        case Control():
            lane = {} if action.lane is None else {"lane": action.lane}
            wanted_event = ("control", 0, {"number": action.number, **lane})
        case Final():
            wanted_event = ("final", action.trial, {"purpose": action.purpose, "number": action.number})
        case BuildOther():
            wanted_event = ("other", None, {"index": action.index})
        case Examine():
            of_variant = {} if action.variant == ORIGINAL else {"variant": action.variant}
            wanted_event = ("remarks", None, of_variant)
        case Await():
            wanted_event = ("waited", None, {})
        case Share():
            wanted_event = ("share", None, {})
        case Compare():
            wanted_event = ("compared", None, {"other": action.other, "number": action.number})
        case BuildWithout():
            wanted_event = ("without", None, {"item": action.items[0]})
        case Weigh():
            wanted_event = ("weighed", None, {"item": action.item, "number": action.number})
        case _:
            return f"the plan calls for {type(action).__name__}"
    kind, trial, fields = wanted_event
    if (
        event.kind == kind
        and kind in ("final", "compared", "weighed")
        and body["medians_s"] != final_medians(body)
    ):
        return "its medians are not those of its samples"
    same = event.kind == kind and event.trial == trial and all(body.get(k) == v for k, v in fields.items())
    return "" if same else f"the plan calls for {_short({'kind': kind, 'trial': trial, **fields})}"


def final_medians(body: Mapping[str, Any]) -> list[float] | None:
    """The medians that a ``final`` event has to state."""
    if body["status"] != Status.OK:
        return None
    return [statistics.median(m["times_s"]) for m in body["measurements"]]


def _short(value: Mapping[str, Any]) -> str:
    text = canonical_json(value)
    return text if len(text) <= 300 else text[:300] + "..."
