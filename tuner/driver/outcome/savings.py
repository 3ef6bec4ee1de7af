"""What the cost model saved in a run and what it may have cost, from the trials that it was audited with.

Those are candidates that it spoke against, and, where it ranks a whole space, candidates drawn evenly beside its own.

Pure: reads the state, fits nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from tuner.core.types import Stage, Status
from tuner.driver.state.judged import AUDIT, PASS, PRUNE
from tuner.driver.state.run import RunState
from tuner.search.pooled import RANKED, WATCHED

__all__ = ["Savings", "savings"]

BETTER = 0.02
"""Log time by which an audited trial has to beat the best before it to count as a loss."""

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What came of pruning.

    Attributes:
        pruned: trials that were not built (``ask``) or not run (``build``) because the model spoke against them.
        ranked: trials that were taken from the top of its ranking of the whole space.
        passed_over: proposals that were drawn for the model to choose from and not chosen.
        audits: trials that the model spoke against, or would have passed by, and that were measured all the same.
        losses: audits that were better than everything before them by more than 2%.
        loss_bound: 95% upper bound of the chance that one pruned trial would have been such a loss.
        coverage: share of audits that were no loss; ``None`` without audits.
        fit_s: seconds that the model took.
        cut: place down to which candidates were tried at the end, ``None`` where it abstained, by stage.
        why: why it abstained at the end, by stage.
    """

    pruned: dict[str, int]
    ranked: int
    passed_over: int
    audits: int
    losses: int
    loss_bound: float
    coverage: float | None
    fit_s: float
    cut: dict[str, float | None]
    why: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def savings(state: RunState) -> Savings:
    """Sums up a run, also one that goes on."""
    pruned = {Stage.ASK.value: 0, Stage.BUILD.value: 0}
    seen: Counter[str] = Counter()
    best = 0.0
    for number in state.finished:
        trial = state.trials[number]
        how = trial.proposal.note.get("how") if state.settings.ranked else None
        seen["ranked"] += how == RANKED
        verdicts = {stage: judged.verdict for stage, judged in trial.judged.items()}
        if trial.status is Status.PRUNED:
            stage = next((s for s, v in verdicts.items() if v == PRUNE), None)
            if stage is not None:
                pruned[stage] += 1
            seen["passed"] += PASS in verdicts.values()
        elif AUDIT in verdicts.values() or how == WATCHED:
            seen["audits"] += 1
            seen["losses"] += trial.score is not None and trial.score < best - BETTER
        if trial.status is Status.OK and not trial.raced and trial.score is not None:
            best = min(best, trial.score)
    audits, losses = seen["audits"], seen["losses"]
    return Savings(
        pruned=pruned,
        ranked=seen["ranked"],
        passed_over=seen["passed"],
        audits=audits,
        losses=losses,
        loss_bound=_loss_bound(losses, audits),
        coverage=1.0 - losses / audits if audits else None,
        fit_s=state.fit_s,
        cut={stage: body["cut"] for stage, body in sorted(state.judgings.items())},
        why={stage: body["why"] for stage, body in sorted(state.judgings.items())},
    )


def _loss_bound(losses: int, audits: int) -> float:
    """The upper end of an exact interval for the share of losses (Clopper and Pearson, 1934)."""
    from scipy.special import betaincinv

    return 1.0 if losses == audits else float(betaincinv(losses + 1, audits - losses, CONFIDENCE))
