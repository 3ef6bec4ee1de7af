"""What a run has asked models, what that has cost, and how many of the answers were of use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.driver.state.exchanges import Call
from tuner.driver.state.run import RunState

__all__ = ["Correspondence", "correspondence_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Correspondence:
    """What was asked of models and what it has cost; calls without an answer count as dear as they can be.

    Attributes:
        calls: requests.
        purposes: for each purpose how many requests had an answer, and how many of those led to a version that works
            or, for ideas, to a list; in the order in which they were first asked.
        failed: those without a usable answer from the server; ``message`` says why the last one failed.
        prompt_tokens, completion_tokens, usd: all together.
        cassette: whether the replies came from another run's record and nothing was spent now.
    """

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    message: str = ""
    cassette: bool = False
    purposes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; what is beyond the counts is there only where models were asked."""
        plain: dict[str, Any] = {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "usd": self.usd,
        }
        if self.calls:
            plain |= {"failed": self.failed, "message": self.message, "cassette": self.cassette}
            plain["purposes"] = {
                name: {"answers": answers, "work": work} for name, (answers, work) in self.purposes.items()
            }
        return plain


def correspondence_of(state: RunState) -> Correspondence:
    """What a run has asked models; nothing where it asks none."""
    exchanges = state.exchanges
    if exchanges.settings is None:
        return Correspondence()
    replies = [c.reply for c in exchanges.calls if c.reply is not None]
    unusable = [r for r in replies if r["status"] != "ok"]
    open_calls = [c for c in exchanges.calls if c.reply is None]
    most = exchanges.settings.max_tokens
    return Correspondence(
        calls=len(exchanges.calls),
        failed=len(unusable),
        prompt_tokens=sum(r["prompt_tokens"] for r in replies) + sum(c.tokens - most for c in open_calls),
        completion_tokens=sum(r["completion_tokens"] for r in replies) + most * len(open_calls),
        usd=exchanges.usd,
        message=unusable[-1]["message"] if unusable else "",
        cassette=exchanges.settings.cassette,
        purposes=_purposes(state),
    )


def _purposes(state: RunState) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for call in state.exchanges.calls:
        answers, work = found.get(call.purpose.value, (0, 0))
        found[call.purpose.value] = (answers + call.answered, work + _works(state, call))
    return found


def _works(state: RunState, call: Call) -> bool:
    """Whether a reply led to a version that computes what it should, or to a list of ideas."""
    if call.variant is not None:
        return state.variants[call.variant].score is not None
    return any(idea.call == call.number for idea in state.exchanges.ideas)
