"""What a run's events tell of its exchanges with models: calls, replies, what was spent, what each proposer was worth.

Holds no connection and no prompt. Time is counted in steps, which are the same in every run with the same completions:
events of the search that are no part of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.driver.state.settings import Llm
from tuner.search.bandit import CostBandit
from tuner.search.llm.exchange import Turn
from tuner.search.llm.offspring import origin

__all__ = ["Call", "Exchanges"]

GIVEN_UP = 3
"""Failures in a row (no server, no answer, no right) after which a model is not asked any more."""

_UNBOUNDED_VARIANTS = 50
_ASKED = ("number", "model", "attempt", "parent", "island", "key", "prompt", "tokens", "usd", "before")
"""What a call takes over from its event."""


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to a model and its reply.

    Attributes:
        number: in the order in which they were made.
        model, turn, attempt: as in the cassette's key.
        parent: number of the variant that the new one is made from.
        island: of the archive.
        key: of the exchange in a cassette.
        prompt: blob of its messages.
        tokens, usd: what it may cost at most.
        before: the call of the same proposal whose reply could not be used.
        steps: when it was made.
        reply: the event's body.
        reply_steps: when the reply came.
        read: whether the reply was made use of.
        problems: what was wrong with it.
    """

    number: int
    model: str
    turn: Turn
    attempt: int
    parent: int
    island: int
    key: str
    prompt: str
    tokens: int
    usd: float
    before: int | None
    steps: int
    reply: Mapping[str, Any] | None = None
    reply_steps: int = 0
    read: bool = False
    problems: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether the reply is there and can be read."""
        return self.reply is not None and self.reply["status"] == "ok"

    @property
    def spent_tokens(self) -> int:
        """Tokens that it took, or may yet take."""
        if self.reply is None:
            return self.tokens
        return int(self.reply["prompt_tokens"] + self.reply["completion_tokens"])

    @property
    def spent_usd(self) -> float:
        """US dollars that it took, or may yet take."""
        return self.usd if self.reply is None else float(self.reply["usd"])


@dataclass(slots=True, kw_only=True)
class Exchanges:
    """The fold.

    Attributes:
        settings: ``None`` where no model is asked.
        proposers: by name, beside the models.
        evaluations, first: of the run, and trials of a new variant; for what a variant costs.
        calls: all of them.
        over: models whose next call no budget pays for, with the budget's name.
        steps: of the search so far.
        remarks: of the compiler, by variant, once they were asked for.
        correct: the call whose reply has to be corrected next.
        arms: what proposers and models were worth.
        arm_of: who made a variant.
        chain_of: a variant's last call.
    """

    settings: Llm | None
    proposers: tuple[str, ...]
    evaluations: int | None
    first: int
    calls: list[Call] = field(default_factory=list)
    over: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    remarks: dict[int, Mapping[str, str]] = field(default_factory=dict)
    correct: int | None = None
    arms: CostBandit = field(init=False)
    arm_of: dict[int, str] = field(default_factory=dict)
    chain_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arms = CostBandit((*self.models, *self.proposers))

    @property
    def models(self) -> tuple[str, ...]:
        """Arms that are models."""
        return () if self.settings is None else tuple(origin(m.name) for m in self.settings.models)

    @property
    def waiting(self) -> list[Call]:
        """Calls without a reply."""
        return [c for c in self.calls if c.reply is None]

    @property
    def unread(self) -> Call | None:
        """The first call whose reply was not made use of."""
        return next((c for c in self.calls if c.answered and not c.read), None)

    @property
    def tokens(self) -> int:
        """Tokens that were taken or may yet be."""
        return sum(c.spent_tokens for c in self.calls)

    @property
    def usd(self) -> float:
        """US dollars that were spent or may yet be."""
        return sum(c.spent_usd for c in self.calls)

    def failing(self, model: str) -> bool:
        """Whether a model's last calls have all come to nothing on the way."""
        replies = [c.reply for c in self.calls if c.model == model and c.reply is not None]
        last = replies[-GIVEN_UP:]
        return len(last) == GIVEN_UP and all(r["status"] != "ok" for r in last)

    def attempt(self, model: str, parent: int) -> int:
        """How many proposals a model has begun with this parent."""
        return sum(c.model == model and c.parent == parent and c.turn is Turn.PROPOSE for c in self.calls)

    def begin(self, body: Mapping[str, Any]) -> None:
        """Takes in a ``consult`` event."""
        self.correct = None
        if body["over"] is not None:
            self.over[origin(body["model"])] = body["over"]
            self._abandon(body["before"])
            return
        self.calls.append(
            Call(
                turn=Turn(body["turn"]),
                steps=self.steps,
                **{name: body[name] for name in _ASKED},
            )
        )

    def end(self, body: Mapping[str, Any]) -> None:
        """Takes in a ``reply`` event."""
        call = self.calls[body["call"]]
        call.reply = body
        call.reply_steps = self.steps
        if not call.answered:
            self._abandon(call.number)

    def use(self, body: Mapping[str, Any], variant: int | None) -> None:
        """Takes in a ``variant`` event that a reply led to; ``variant`` is its number where there is one."""
        call = self.calls[body["call"]]
        call.read = True
        call.problems = tuple(body["problems"])
        if variant is not None:
            self.arm_of[variant] = origin(call.model)
            self.chain_of[variant] = call.number
        elif body["final"] or call.turn.next is None or self.out_of_calls:
            self._abandon(call.number)
        else:
            self.correct = call.number

    @property
    def out_of_calls(self) -> bool:
        """Whether the budget of calls is used up."""
        return (
            self.settings is not None
            and self.settings.calls is not None
            and len(self.calls) >= self.settings.calls
        )

    def judge(self, variant: int, gain: float | None, trials: int) -> None:
        """Learns what a new variant was worth.

        Args:
            variant: its number.
            gain: logarithm of its parent's time over its own, both tuned; ``None`` where it failed.
            trials: that it took.
        """
        arm = self.arm_of.get(variant)
        if arm is not None:
            cost = trials / self.first + self._money(self.chain_of.get(variant))
            self.arms.tell(arm, gain, cost)

    def _abandon(self, last: int | None) -> None:
        """A proposal came to nothing."""
        if last is not None:
            self.arms.tell(origin(self.calls[last].model), None, self._money(last))

    def _money(self, last: int | None) -> float:
        """What a proposal's calls cost in variants: all of a budget for models is worth all of one for trials."""
        settings = self.settings
        if settings is None or last is None:
            return 0.0
        chain: list[Call] = []
        number: int | None = last
        while number is not None:
            chain.append(self.calls[number])
            number = chain[-1].before
        shares = [0.0]
        if settings.usd is not None:
            shares.append(sum(c.spent_usd for c in chain) / settings.usd)
        if settings.tokens is not None:
            shares.append(sum(c.spent_tokens for c in chain) / settings.tokens)
        if settings.calls is not None:
            shares.append(len(chain) / settings.calls)
        variants = _UNBOUNDED_VARIANTS if self.evaluations is None else self.evaluations / self.first
        return max(shares) * variants
