"""Carries a run's calls to models and their replies back, live or from a cassette. May not decide who is asked.

A reply is an event from outside: it is looked for between two batches of trials and committed before anything depends
on it. A cassette gives each reply at the step at which it came in the run that it was taken from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tuner.core.canonical import canonical_json, digest, from_json
from tuner.core.errors import UsageError
from tuner.driver.state.exchanges import Call, Exchanges
from tuner.driver.state.run import RunState
from tuner.driver.state.settings import Llm
from tuner.recorders.record import Event
from tuner.search.llm.client import Client
from tuner.search.llm.exchange import Answer, Request

__all__ = ["Cassette", "Correspondent", "Live", "expected_reply", "reply_event", "waits_for"]


class Correspondent(Protocol):
    """Where replies come from.

    Attributes:
        repeatable: whether a call that was under way when a run was killed can be made again for nothing.
    """

    repeatable: bool

    def check(self, body: Mapping[str, Any]) -> None:
        """Before a ``consult`` event is committed.

        Raises:
            UsageError: there can be no reply to it.
        """
        ...

    def send(self, call: Call, messages: Sequence[Mapping[str, str]]) -> None:
        """A call that was committed."""
        ...

    def take(self, exchanges: Exchanges, timeout_s: float) -> Answer | None:
        """A reply, if there is one by then; with a time-out above 0 nothing else is left to do."""
        ...

    def close(self) -> None:
        """Ends what is under way; safe to call twice."""
        ...


@dataclass(slots=True)
class Live:
    """Models behind servers.

    Args:
        settings: whom to ask and how.

    Raises:
        MachineError: there is no key, or openai is not installed.
    """

    settings: Llm
    client: Client
    repeatable: bool = False

    def check(self, body: Mapping[str, Any]) -> None:
        """Any call can be made."""

    def send(self, call: Call, messages: Sequence[Mapping[str, str]]) -> None:
        """Hands the call to the process that talks to servers."""
        settings = self.settings
        self.client.send(
            Request(
                number=call.number,
                model=settings.model(call.model),
                messages=messages,
                max_tokens=settings.max_tokens,
                timeout_s=settings.timeout_s,
                retries=settings.retries,
                stream=settings.stream,
                temperature=settings.temperature,
            )
        )

    def take(self, exchanges: Exchanges, timeout_s: float) -> Answer | None:
        """What has come."""
        return self.client.take(timeout_s)

    def close(self) -> None:
        """Ends the process that talks to servers."""
        self.client.close()


class Cassette:
    """Exchanges of another run.

    Args:
        entries: as :func:`tuner.driver.work.cassettes.read_cassette` gives them.
    """

    repeatable = True

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._entries = {e["key"]: e for e in entries}

    def check(self, body: Mapping[str, Any]) -> None:
        """Whether the cassette has the exchange."""
        if body["over"] is None and body["key"] not in self._entries:
            raise UsageError(
                f"the cassette has no reply for call {body['number']} ({body['model']}, {body['purpose']}, variant "
                f"{body['parent']}, attempt {body['attempt']})",
                "the run has come another way than the recorded one (seed, spec, budget and times decide): ask the "
                "model itself, or use --llm off",
            )

    def send(self, call: Call, messages: Sequence[Mapping[str, str]]) -> None:
        """Nothing is sent."""

    def take(self, exchanges: Exchanges, timeout_s: float) -> Answer | None:
        """The first reply whose step has come; where there is nothing else to do, the one that is due next."""
        # What failed takes no step; after a reply that can be read the next one comes a step later.
        due = [(c.steps + self._delay(c), self._can_be_read(c), c.number) for c in exchanges.waiting]
        if not due:
            return None
        step, _, number = min(due)
        if math.isinf(step) and timeout_s > 0:
            raise UsageError(
                f"the cassette ends before a reply to call {number} came",
                "the recorded run was interrupted there",
            )
        if math.isinf(step) or (step > exchanges.steps and timeout_s <= 0):
            return None
        return Answer(**{**self._entries[exchanges.calls[number].key]["answer"], "number": number})

    def close(self) -> None:
        """Nothing is open."""

    def _can_be_read(self, call: Call) -> bool:
        entry = self._entries.get(call.key)
        return entry is not None and entry["answer"] is not None and entry["answer"]["status"] == "ok"

    def _delay(self, call: Call) -> float:
        entry = self._entries.get(call.key)
        return math.inf if entry is None or entry["answer"] is None else float(entry["delay"])


def reply_event(
    call: Call, answer: Answer, settings: Llm, *, clock_s: float
) -> tuple[Event, dict[str, bytes]]:
    """A reply as the record holds it, with its text, and what it has cost."""
    data = answer.text.encode()
    prompt, completion = _tokens(call, answer, settings)
    body = {
        "call": call.number,
        "status": answer.status,
        "text": f"blob:{digest(data)}",
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "usd": settings.model(call.model).usd(prompt, completion),
        "finish": answer.finish,
        "message": answer.message,
        "tries": answer.tries,
        "wall_s": answer.wall_s,
        "clock_s": clock_s,
    }
    return Event(kind="reply", body=body), {digest(data): data}


def expected_reply(state: RunState, body: Mapping[str, Any]) -> str:
    """What of a ``reply`` event cannot be, one line; empty where all can."""
    exchanges, number = state.exchanges, body["call"]
    if exchanges.settings is None or not waits_for(state, number):
        return f"there was no call {number} that waits for a reply"
    call = exchanges.calls[number]
    usd = exchanges.settings.model(call.model).usd(body["prompt_tokens"], body["completion_tokens"])
    return "" if from_json(canonical_json(usd)) == body["usd"] else "its price is not that of its tokens"


def waits_for(state: RunState, call: int) -> bool:
    """Whether a call of that number has no reply yet."""
    return any(c.number == call for c in state.exchanges.waiting)


def _tokens(call: Call, answer: Answer, settings: Llm) -> tuple[int, int]:
    """By the server's count; where it does not say, as many as there can have been."""
    if answer.free:
        return answer.prompt_tokens or 0, answer.completion_tokens or 0
    prompt = call.tokens - settings.max_tokens
    completion = settings.max_tokens
    if answer.status == "ok":
        # A token has at least one byte.
        completion = min(completion, len(answer.text.encode()))
    return (
        prompt if answer.prompt_tokens is None else answer.prompt_tokens,
        completion if answer.completion_tokens is None else answer.completion_tokens,
    )
