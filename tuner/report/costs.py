"""Where the run's time and money went, and what the LLM and the cost model did for it, as far as the record says."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tuner.core.types import Status
from tuner.report.follow import Follower
from tuner.report.screening import screening
from tuner.report.trials import rounded

__all__ = ["costs"]


def costs(follower: Follower) -> dict[str, Any]:
    """Active seconds by what they were spent on, LLM exchanges by model, and what pruning saved.

    ``compile`` is summed over workers that run at the same time, so the parts may come to more than the whole.
    """
    state = follower.state
    done = follower.finished.values()
    final_s = sum(
        s.cost_s for s in (*follower.chosen_from, *state.finals["choose"], *state.finals["confirm"])
    )
    if follower.chosen_from and state.chosen is None:
        final_s = sum(s.cost_s for s in state.finals["choose"])
    parts = {
        "proposing": follower.ask_s,
        "compiling, summed over workers": sum(f.compile_s for f in done),
        "verifying": sum(f.verify_s for f in done),
        "timing": sum(f.timed_s for f in done),
        "choosing and confirming": final_s,
    }
    return {
        "wall_s": rounded(state.clock_s),
        "parts": {name: rounded(value, 4) for name, value in parts.items()},
        "duplicates": _duplicates(follower),
        "pruned": sum(t.status is Status.PRUNED for t in state.trials.values()),
        "screening": screening(follower),
        "llm": _llm(follower),
    }


def _duplicates(follower: Follower) -> dict[str, Any]:
    """How many trials needed no run because their code was known, and what running them would have cost."""
    trials = follower.state.trials.values()
    ran = [
        follower.finished[t.number] for t in trials if t.status is Status.OK and t.number in follower.finished
    ]
    each_s = sum(f.verify_s + f.timed_s for f in ran) / len(ran) if ran else 0.0
    count = sum(t.status is Status.DUPLICATE for t in trials)
    return {"count": count, "saved_s": rounded(count * each_s, 3)}


def _llm(follower: Follower) -> dict[str, Any] | None:
    """Exchanges in the record by model; ``None`` where there were none."""
    if not follower.exchanges:
        return None
    models: dict[str, dict[str, float]] = defaultdict(
        lambda: {"calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "usd": 0.0}
    )
    for exchange in follower.exchanges:
        row = models[str(exchange.get("model", "unknown"))]
        row["calls"] += 1
        for name in ("prompt_tokens", "completion_tokens", "usd"):
            row[name] += exchange.get(name) or 0
    return {"models": [{"model": name, **row} for name, row in sorted(models.items())]}
