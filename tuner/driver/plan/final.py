"""Choosing and confirming: the design's step 7, pure like the rest of the plan.

First the best few and the baseline in fresh processes choose one; then only that one against the baseline in further
fresh processes with inputs of their own decides whether a gain is claimed. Choosing and claiming never use the same
samples.
"""

from __future__ import annotations

import math
from typing import Any

from tuner.core import claims, racing, statistics
from tuner.core.streams import stream
from tuner.core.types import BASELINE, Status
from tuner.driver.plan import ablation, comparison, convergence, evolving, simplest, unseen
from tuner.driver.plan.actions import Action, Decide, Final, Finished
from tuner.driver.state.claimed import CLAIMS
from tuner.driver.state.lineage import ORIGINAL
from tuner.driver.state.run import ENOUGH_PAIRS, RunState
from tuner.driver.state.trials import FinalSample

__all__ = ["finalists", "next_action"]

CONFIRM_FROM = 1000
"""Process numbers of confirmation start here, so that it never shares a number (hence inputs) with choosing."""

CHOOSE_TIME_SHARE = 0.6
"""Share of the time kept for both that choosing may take."""

FAR_AHEAD = math.log(4)
"""Log time by which all finalists have to be ahead of the baseline for it to sit out the choosing."""

FEWEST = 3
"""Finalists that are kept however far behind the best they are."""

CALLS_BETWEEN = (7, 512)


def finalists(state: RunState) -> list[int]:
    """The best-scored trials that look faster than the baseline, best first.

    Where the winner was taken apart, what is left of it stands for all of its variants.
    """
    reduction = state.reduction
    replaced = reduction.replaced if reduction is not None else set[int]()
    scored = [
        (trial.score, number)
        for number, trial in state.trials.items()
        if trial.status is Status.OK and not trial.raced and trial.score is not None and trial.score < 0
        if trial.variant not in replaced or trial.variant == ORIGINAL
    ]
    evolution = state.settings.evolution
    if evolution is not None and scored:
        # What is far behind would only take the time of those that may win; but the best may owe its score to luck,
        # or fail on inputs that the search has not seen.
        bound = min(scored)[0] + evolution.near
        scored = [one for place, one in enumerate(sorted(scored)) if place < FEWEST or one[0] <= bound]
    # What failed on other inputs before the run was gone on with leaves its place to the next.
    found = [n for _, n in sorted(scored) if n not in state.out_of_final][: state.settings.finalists]
    if reduction is not None and reduction.replaced and reduction.trial not in found:
        found = [*found[: state.settings.finalists - 1], reduction.trial]
    found = simplest.finalists(state, found)
    if state.held is not None and state.held.chosen not in (*found, *state.out_of_final):
        found = [*found, state.held.chosen]
    return found


def next_action(state: RunState) -> Action:
    """What choosing and confirming have to do now."""
    alive = [n for n in state.finalists if n not in state.out_of_final]
    if BASELINE in state.out_of_final:
        return _end(state, "the baseline failed on inputs that the search had not seen")
    if not alive:
        return _end(state, "")
    if state.chosen is None or state.chosen in state.out_of_final:
        return _choose(state, alive)
    if state.verdict is None or state.verdict["claim"] == "extend":
        return _confirm(state, state.chosen)
    held = state.held
    if held is not None and state.verdict["claim"] not in CLAIMS and held.chosen in alive:
        return Decide(kind="choice", body={"chosen": held.chosen, "medians": {}})
    return _end(state, "")


def _choose(state: RunState, alive: list[int]) -> Action:
    samples = state.finals["choose"]
    if len(alive) == 1 or (not samples and not _time_for_both(state, alive)):
        return Decide(kind="choice", body={"chosen": alive[0], "medians": {}})
    for number in range(state.settings.choose_processes):
        done = {s.trial for s in samples if s.number == number}
        entrants = alive if _far_ahead(state, alive) else [BASELINE, *alive]
        missing = [n for n in _order(state, "choose", number, entrants) if n not in done]
        if not missing:
            continue
        if number > 0 and not done and not _time_for_choosing(state, len(missing)):
            break
        return Final(purpose="choose", number=number, trial=missing[0], calls=_calls(state, missing[0]))
    by_trial = {n: [_composite(state, s) for s in samples if s.trial == n and _ok(s)] for n in alive}
    fastest = claims.choose(by_trial)
    chosen = simplest.among(state, _simplest(state, fastest, by_trial), by_trial)
    medians = {str(n): statistics.median(v) for n, v in sorted(by_trial.items()) if v}
    body: dict[str, Any] = {"chosen": chosen, "medians": medians, "fastest": fastest}
    pairs = _pairs(state)
    if pairs > state.settings.confirm_processes:
        body["pairs"] = pairs
    return Decide(kind="choice", body=body)


def _pairs(state: RunState) -> int:
    """Processes of each side that confirming takes, by the spread that choosing found on this machine.

    Fixed before the first of them is measured: to stop when the interval is narrow enough would be a look at it.
    """
    settings = state.settings
    if not settings.confirm_width or settings.minutes is None:
        return settings.confirm_processes
    spreads: dict[int, list[float]] = {}
    for sample in state.finals["choose"]:
        if _ok(sample):
            spreads.setdefault(sample.trial, []).append(_composite(state, sample))
    found = claims.pairs_for(list(spreads.values()), settings.confirm_width)
    return max(settings.confirm_processes, min(found, settings.confirm_growth * settings.confirm_processes))


def _far_ahead(state: RunState, alive: list[int]) -> bool:
    """Whether the baseline has no part in the choice and would take most of its time; confirming has it anyway."""
    scores = [state.trials[n].score for n in alive]
    return all(s is not None and s < -FAR_AHEAD for s in scores)


def _simplest(state: RunState, chosen: int, by_trial: dict[int, list[float]]) -> int:
    """What is left of the winner where it is as good as the one chosen, within what an edit has to be worth."""
    reduction, evolution = state.reduction, state.settings.evolution
    if reduction is None or evolution is None or not by_trial.get(reduction.trial):
        return chosen
    medians = {n: statistics.median(by_trial[n]) for n in (chosen, reduction.trial)}
    as_good = medians[reduction.trial] <= medians[chosen] * math.exp(evolution.pays)
    return reduction.trial if as_good else chosen


def _confirm(state: RunState, chosen: int) -> Action:
    settings = state.settings
    samples = state.finals["confirm"]
    looks = state.verdicts
    offset = CONFIRM_FROM * (1 + len(state.out_of_final) + state.extended)
    wanted = int(state.choice.get("pairs", settings.confirm_processes)) * (looks + 1)
    done = len({s.number for s in samples})
    for number in range(offset, offset + wanted):
        missing = [
            n
            for n in _order(state, "confirm", number, [BASELINE, chosen])
            if not any(s.trial == n and s.number == number for s in samples)
        ]
        if not missing:
            continue
        if len(missing) == 2 and not _time_for_pair(state, number - offset):
            break
        return Final(purpose="confirm", number=number, trial=missing[0], calls=_calls(state, missing[0]))
    baseline = [_composite(state, s) for s in samples if s.trial == BASELINE and _ok(s)]
    candidate = [_composite(state, s) for s in samples if s.trial == chosen and _ok(s)]
    processes = min(len(baseline), len(candidate))
    verdict = claims.confirm_verdict(baseline, candidate, look=2 if looks else 1, before=state.decided)
    if verdict.interval is None or processes < settings.confirm_least:
        return Decide(kind="verdict", body=_verdict_body("not_confirmed", processes=processes))
    claim = "none" if verdict.claim == "extend" and (looks or done < wanted) else verdict.claim
    gone = _gone(state, chosen) if claim in ("improved", "negligible") else None
    body = _verdict_body(claim if gone is None else "not_confirmed", processes=processes)
    if gone is not None:
        body["unseen"] = list(gone)
    body["speedup"] = [verdict.interval.value, verdict.interval.low, verdict.interval.high]
    for name, values in (("baseline_s", baseline), ("candidate_s", candidate)):
        interval = statistics.mean_interval(values)
        body[name] = [interval.value, interval.low, interval.high]
    return Decide(kind="verdict", body=body)


def _gone(state: RunState, chosen: int) -> tuple[float, float] | None:
    """What new inputs take away of a gain, where that is too much."""
    samples = [s for s in state.finals["confirm"] if _ok(s)]
    baseline, candidate = ([s for s in samples if s.trial == n] for n in (BASELINE, chosen))
    return unseen.missing(baseline, candidate, state.settings.weights)


def _verdict_body(claim: str, *, processes: int) -> dict[str, Any]:
    return {"claim": claim, "processes": processes, "speedup": None, "baseline_s": None, "candidate_s": None}


def _end(state: RunState, message: str) -> Action:
    if state.end is not None:
        return Finished()
    if BASELINE not in state.out_of_final:
        action = comparison.next_action(state, _calls(state, BASELINE))
        if action is None and state.chosen is not None:
            action = ablation.next_action(state, _calls(state, state.chosen))
        if action is not None:
            return action
    message = message or convergence.described(state)
    return Decide(kind="end", body={"stopped_by": state.search_stop, "message": message})


def _ok(sample: FinalSample) -> bool:
    return sample.status is Status.OK


def _composite(state: RunState, sample: FinalSample) -> float:
    return math.exp(
        sum(w * math.log(m) for w, m in zip(state.settings.weights, sample.medians_s, strict=True))
    )


def _order(state: RunState, role: str, number: int, trials: list[int]) -> list[int]:
    rng = stream(state.settings.seed, f"order/{role}", number)
    return [trials[i] for i in rng.permutation(len(trials))]


def _calls(state: RunState, trial: int) -> tuple[int, ...]:
    low, high = CALLS_BETWEEN
    if state.settings.evolution is not None:
        low = state.settings.evolution.calls
    calls = []
    for problem in range(len(state.settings.weights)):
        call_s, base_s = (statistics.median(state.trials[n].times_s(problem)) for n in (trial, BASELINE))
        # Where the baseline's calls are long there are few sets of inputs, for all: more calls only repeat them.
        least = racing.least_calls(low, base_s, state.settings.enough_s)
        calls.append(min(max(math.ceil(state.settings.final_s / max(call_s, 1e-9)), least), high))
    return tuple(calls)


def _cost_s(state: RunState) -> float:
    """Seconds that one process takes, by those that ran."""
    costs = [s.cost_s for role in ("choose", "confirm") for s in state.finals[role]]
    return statistics.median(costs) if costs else 0.1


def _time_for_both(state: RunState, alive: list[int]) -> bool:
    """Whether the fewest pairs that can claim anything fit behind a first look at each; else the search has chosen."""
    first_s, next_s = state.process_s
    looks = len(alive) + (not _far_ahead(state, alive))
    needed_s = first_s + (looks - 1) * next_s + state.settings.confirm_least * (first_s + next_s)
    return state.clock_s + needed_s <= state.deadline_s


def _time_for_choosing(state: RunState, processes: int) -> bool:
    start = state.search_deadline_s
    if math.isinf(state.claim_deadline_s):
        return True
    start = min(start, state.claim_deadline_s)
    evolution = state.settings.evolution
    if evolution is not None:
        start = evolving.search_end_s(state)
    # The source as given may take many times as long as the finalists, so confirming costs more than choosing.
    share = CHOOSE_TIME_SHARE if evolution is None else evolution.choose
    end = start + (state.claim_deadline_s - start) * share
    end = min(end, state.claim_deadline_s - _confirming_s(state))
    return state.clock_s + processes * _cost_s(state) <= end


def _confirming_s(state: RunState) -> float:
    """Seconds that confirming needs, by what choosing took.

    The first process of each number also makes its inputs and what is expected of them, which may take far longer than
    the others' calls; every pair has such a first one.
    """
    costs = sorted(s.cost_s for s in state.finals["choose"])
    firsts = len({s.number for s in state.finals["choose"]})
    pair_s = statistics.median(costs[-firsts:]) + statistics.median(costs)
    return ENOUGH_PAIRS * state.settings.confirm_least * pair_s


def _time_for_pair(state: RunState, pairs: int) -> bool:
    end = state.claim_deadline_s
    if pairs < state.settings.confirm_least:
        # Without a claim there is no winner to take apart.
        end = state.deadline_s
    return state.clock_s + 2 * _cost_s(state) <= end
