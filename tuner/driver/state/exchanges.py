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
from tuner.search.llm.exchange import LEADING, MOST_REPAIRS, Purpose
from tuner.search.llm.offspring import origin

__all__ = ["Call", "Exchanges", "Idea", "promising"]

GIVEN_UP = 3
"""Failures in a row (no server, no answer, no right) after which a model is not asked any more."""

_UNBOUNDED_VARIANTS = 50
_MONEY = 0.1
"""What all of a budget for models is worth in budgets for trials: calls cost no time, and are there to be used."""

_ASKED = (
    "number",
    "model",
    "attempt",
    "parent",
    "other",
    "island",
    "key",
    "prompt",
    "tokens",
    "usd",
    "before",
    "idea",
    "clock_s",
)
"""What a call takes over from its event."""

_WORTH = 0.7
"""Part of the best gain so far that an idea has to promise to be written: such estimates are rough."""

_LATENCIES = 4
"""Replies whose delay counts, the latest."""

_STEPS_OF_A_VARIANT = 4
"""Steps that a new variant takes until its first result: it is asked for, made, tried and promoted."""


def promising(gain: float | None, reached: float) -> bool:
    """Whether an idea is worth writing.

    Args:
        gain: over the source as given, as its author expects it.
        reached: that of the best version so far.
    """
    return gain is None or gain >= _WORTH * reached


@dataclass(slots=True, kw_only=True)
class Idea:
    """One idea of a model.

    Attributes:
        text: as it was written.
        gain: over the source as given, as its author expects it; ``None`` where nothing was said.
        call: whose reply listed it.
        taken: whether a model was asked to write it.
    """

    text: str
    gain: float | None
    call: int
    taken: bool = False


@dataclass(slots=True, kw_only=True)
class Call:
    """One request to a model and its reply.

    Attributes:
        number: in the order in which they were made.
        model, purpose: whom and for what.
        attempt: requests that repair nothing, to the same model for the same parent, before it.
        parent: number of the variant that the new one is made from.
        other: number of a second one that is shown in full.
        idea: number of the idea that is to be written.
        leading: the purpose that is credited: its own, or for a repair of an unusable reply that of the first request.
        repairs: corrections of the same request that came before and with it.
        clock_s: active seconds of the run when it was made.
        island: of the archive.
        key: of the exchange in a cassette.
        prompt: blob of its messages.
        tokens, usd: what it may cost at most.
        before: the call of the same proposal whose reply could not be used.
        steps: when it was made.
        reply: the event's body.
        reply_steps: when the reply came.
        read: whether the reply was made use of.
        repaired: whether a correction of it was asked for.
        variant: number of the variant that its reply gave.
        problems: what was wrong with the reply.
        summary: what the reply says that it does.
    """

    number: int
    model: str
    purpose: Purpose
    attempt: int
    parent: int
    other: int | None
    idea: int | None
    leading: Purpose
    repairs: int
    clock_s: float
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
    repaired: bool = False
    variant: int | None = None
    problems: tuple[str, ...] = ()
    summary: str = ""

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
        correct: calls whose replies have to be corrected, in that order.
        waited: whether the time to wait for replies was over once.
        vain: requests in a row that came to nothing, since the last version by a model or the last promotion.
        ideas: that models have listed.
        arms: what proposers and models were worth; ``purposes`` what each kind of request was.
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
    correct: list[int] = field(default_factory=list)
    waited: bool = False
    vain: int = 0
    ideas: list[Idea] = field(default_factory=list)
    arms: CostBandit = field(init=False)
    purposes: CostBandit = field(init=False)
    arm_of: dict[int, str] = field(default_factory=dict)
    chain_of: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.arms = CostBandit((*self.models, *self.proposers))
        self.purposes = CostBandit(LEADING)

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
        """How many requests that repair nothing a model was sent for this parent."""
        return sum(
            c.model == model and c.parent == parent and c.purpose is not Purpose.REPAIR for c in self.calls
        )

    def unwritten(self, reached: float) -> int | None:
        """The idea to be written next: the one that promises most, and of equals the first.

        Args:
            reached: gain over the source as given of the best version so far; what clearly promises less is left.
        """
        left = [
            (-(idea.gain or reached), number)
            for number, idea in enumerate(self.ideas)
            if not idea.taken and promising(idea.gain, reached)
        ]
        return min(left)[1] if left else None

    @property
    def listing(self) -> bool:
        """Whether a list of ideas, or the first version of one of them, is under way."""
        asked = (Purpose.IDEAS, Purpose.WRITE)
        return any(c.purpose in asked and not c.read and (c.reply is None or c.answered) for c in self.calls)

    @property
    def in_flight(self) -> int:
        """How many calls are to be under way at once.

        As many as variants are through while one reply comes: then a model that answers at once sees what became of its
        last answer before it gives the next, and one that takes long is not waited for.
        """
        assert self.settings is not None
        delays = [c.reply_steps - c.steps for c in self.calls if c.answered][-_LATENCIES:]
        mean = sum(delays) / len(delays) if delays else 0.0
        return max(1, min(self.settings.concurrent, round(mean / _STEPS_OF_A_VARIANT)))

    def begin(self, body: Mapping[str, Any]) -> None:
        """Takes in a ``consult`` event."""
        if body["before"] in self.correct:
            self.correct.remove(body["before"])
        if body["over"] is not None:
            self.over[origin(body["model"])] = body["over"]
            self._abandon(body["before"])
            return
        purpose, repairs = Purpose(body["purpose"]), 0
        # Ideas are there to be written, and a model may write one at once.
        leading = Purpose.WRITE if purpose is Purpose.IDEAS else purpose
        if body["before"] is not None:
            before = self.calls[body["before"]]
            before.repaired, repairs = True, before.repairs + 1
            leading = Purpose.REPAIR if before.variant is not None else before.leading
        if body["idea"] is not None:
            self.ideas[body["idea"]].taken = True
        self.calls.append(
            Call(
                purpose=purpose,
                leading=leading,
                repairs=repairs,
                steps=self.steps,
                **{name: body[name] for name in _ASKED},
            )
        )
        while self.correct and self.out_of_calls:
            self._abandon(self.correct.pop())

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
        call.summary = body.get("summary", "")
        if variant is not None:
            call.variant = variant
            self.vain = 0
            self.arm_of[variant] = origin(self._chain(call.number)[-1].model)
            self.chain_of[variant] = call.number
        elif body.get("ideas"):
            self.ideas += [Idea(text=text, gain=gain, call=call.number) for text, gain in body["ideas"]]
            if body["final"]:
                self._abandon(call.number)
        elif body["final"] or call.repairs >= MOST_REPAIRS or self.out_of_calls:
            self._abandon(call.number)
        else:
            self.correct.append(call.number)

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
        arm, last = self.arm_of.get(variant), self.chain_of.get(variant)
        if arm is not None:
            cost = trials / self.first + self._money(last)
            self.arms.tell(arm, gain, cost)
            if last is not None:
                self.purposes.tell(self.calls[last].leading, gain, cost)

    def _abandon(self, last: int | None) -> None:
        """A proposal came to nothing."""
        if last is None:
            return
        call, money = self.calls[last], self._money(last)
        self.vain += 1
        self.arms.tell(origin(self._chain(last)[-1].model), None, money)
        # Where calls cost nothing, one kind of them that brings nothing would be the best for ever.
        self.purposes.tell(call.leading, None, max(money, 1.0))

    def _chain(self, last: int) -> list[Call]:
        """A call and those that it corrects, the first one last."""
        chain = [self.calls[last]]
        while chain[-1].before is not None:
            chain.append(self.calls[chain[-1].before])
        return chain

    def _money(self, last: int | None) -> float:
        """What a proposal's calls cost in variants: all of a budget for models is worth a part of one for trials.

        A list of ideas is paid for by the first of them that is written.
        """
        settings = self.settings
        if settings is None or last is None:
            return 0.0
        chain = self._chain(last)
        idea = chain[-1].idea
        if idea is not None:
            source = self.ideas[idea].call
            written = [
                c.number for c in self.calls if c.idea is not None and self.ideas[c.idea].call == source
            ]
            if written[0] == chain[-1].number:
                chain.append(self.calls[source])
        shares = [0.0]
        if settings.usd is not None:
            shares.append(sum(c.spent_usd for c in chain) / settings.usd)
        if settings.tokens is not None:
            shares.append(sum(c.spent_tokens for c in chain) / settings.tokens)
        if settings.calls is not None:
            shares.append(len(chain) / settings.calls)
        variants = _UNBOUNDED_VARIANTS if self.evaluations is None else self.evaluations / self.first
        return _MONEY * max(shares) * variants
