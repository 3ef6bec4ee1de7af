"""The engine's correspondence: sends calls once they are committed, and brings replies in as events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tuner.core.canonical import from_json
from tuner.core.errors import UsageError
from tuner.driver.plan.actions import Await, Consult
from tuner.driver.state.run import RunState
from tuner.driver.work.correspondence import Correspondent, reply_event
from tuner.driver.work.lineup import Lineup
from tuner.recorders.record import Event, Recorded
from tuner.search.llm.exchange import Answer

__all__ = ["Desk"]

_LOOK_S = 0.1
"""How often an interruption is looked for while waiting."""

Made = tuple[list[Event], dict[str, bytes]]


class Desk:
    """What an engine needs of it.

    Args:
        state: of the run.
        lineup: its variants.
        correspondent: ``None`` where no model is asked.
        now_s: active seconds of the run.
        interrupted: whether the run is to stop.
    """

    def __init__(
        self,
        state: RunState,
        lineup: Lineup,
        correspondent: Correspondent | None,
        now_s: Callable[[], float],
        interrupted: Callable[[], bool],
    ) -> None:
        self._state = state
        self._lineup = lineup
        self._correspondent = correspondent
        self._now_s = now_s
        self._interrupted = interrupted

    def consult(self, action: Consult) -> Made:
        """The event of a call; it is sent when that is committed.

        Raises:
            UsageError: a cassette has no reply to it.
        """
        blobs: dict[str, bytes] = {}
        made = self._lineup.breeding.consult(action, blobs)
        self._carrier().check(made)
        body = {**made, "seen": self._state.seq, "clock_s": self._now_s()}
        return [Event(kind="consult", body=body)], blobs

    def committed(self, event: Recorded) -> None:
        """Sends a call that is in the record now."""
        if event.kind == "consult" and event.body["over"] is None:
            self._send(event.body["number"])

    def arrived(self) -> Made:
        """A reply that has come, looked for while the search goes on: between two batches of trials on one device."""
        state = self._state
        correspondent = self._correspondent
        # On several devices there always is a trial in the works.
        between = not state.queue or (state.settings.fleet and state.settings.evolution is not None)
        idle = between and state.search_stop is None and state.reduction is None
        if (
            correspondent is None
            or not idle
            or state.exchanges.unread is not None
            or not state.exchanges.waiting
        ):
            return [], {}
        answer = correspondent.take(state.exchanges, 0.0)
        return ([], {}) if answer is None else self._reply(answer)

    def wait(self, action: Await) -> Made:
        """A reply, or at the end of the time for one that nothing came; nothing where the run is to stop.

        A cassette whose next reply came when the beginning was over makes nobody wait for it.
        """
        carrier = self._carrier()
        later = action.opening and carrier.repeatable
        while not self._interrupted():
            answer = carrier.take(self._state.exchanges, 0.0 if later else _LOOK_S)
            if answer is not None:
                return self._reply(answer)
            if later or self._now_s() >= action.until_s:
                return [Event(kind="waited", body={"clock_s": self._now_s()})], {}
        return [], {}

    def go_on(self) -> Made:
        """After a resume: calls that were under way are made again where that is free, else counted as spent."""
        correspondent = self._correspondent
        if correspondent is None:
            return [], {}
        events, blobs = [], dict[str, bytes]()
        for call in self._state.exchanges.waiting:
            if correspondent.repeatable:
                self._send(call.number)
                continue
            lost = Answer(
                number=call.number, status="lost", message="the run was ended while the model was asked"
            )
            made, texts = self._reply(lost)
            events += made
            blobs |= texts
        return events, blobs

    def _reply(self, answer: Answer) -> Made:
        state = self._state
        settings = state.exchanges.settings
        assert settings is not None
        event, blobs = reply_event(
            state.exchanges.calls[answer.number], answer, settings, clock_s=self._now_s()
        )
        return [event], blobs

    def _send(self, number: int) -> None:
        call = self._state.exchanges.calls[number]
        messages: list[Mapping[str, Any]] = from_json(self._state.text(call.prompt))
        self._carrier().send(call, messages)

    def _carrier(self) -> Correspondent:
        if self._correspondent is None:
            raise UsageError("the run asks a model, and there is no way to one", "resume it with --llm")
        return self._correspondent
