"""What is known of one trial, and proposals as events hold them. Part of the state of a run: only what events said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.types import Configuration, Proposal, Stage, Status
from tuner.driver.state.judged import Judged
from tuner.driver.state.lineage import ORIGINAL

__all__ = ["FinalSample", "Look", "TrialState", "pack_text", "proposal_from_json", "proposal_to_json"]

LONG_TEXT = 256
"""Strings longer than this (pipelines) are kept once, as blobs."""


def pack_text(value: Any, blobs: dict[str, bytes], digest: Any) -> Any:
    """Replaces long strings of a configuration by ``{"blob": "blob:<digest>"}`` and collects their bytes."""
    if isinstance(value, str) and len(value) > LONG_TEXT:
        data = value.encode()
        name = digest(data)
        blobs[name] = data
        return {"blob": f"blob:{name}"}
    return value


def proposal_to_json(proposal: Proposal, blobs: dict[str, bytes], digest: Any) -> dict[str, Any]:
    """A proposal as an event holds it; texts that went to ``blobs`` have to be stored with the event."""

    def pack(configuration: Configuration) -> dict[str, Any]:
        return {name: pack_text(value, blobs, digest) for name, value in sorted(configuration.items())}

    return {
        "configuration": pack(proposal.configuration),
        "origin": proposal.origin,
        "parent": proposal.parent,
        "note": dict(proposal.note),
        "rivals": [[pack(configuration), score] for configuration, score in proposal.rivals],
    }


def proposal_from_json(value: Mapping[str, Any], blob: Any) -> Proposal:
    """The inverse of :func:`proposal_to_json`; ``blob`` reads a blob by its digest."""

    def unpack(configuration: Mapping[str, Any]) -> dict[str, Any]:
        values = {
            name: blob(v["blob"].removeprefix("blob:")).decode() if isinstance(v, dict) else v
            for name, v in configuration.items()
        }
        wrong = [name for name, v in values.items() if not isinstance(v, bool | int | float | str)]
        if wrong:
            raise ValueError(f"{wrong[0]} is no bool, int, float or str")
        return values

    return Proposal(
        configuration=unpack(value["configuration"]),
        origin=value["origin"],
        parent=value["parent"],
        note=value["note"],
        rivals=tuple((unpack(c), s) for c, s in value["rivals"]),
    )


@dataclass(slots=True, kw_only=True)
class TrialState:
    """What is known of one trial.

    ``rounds`` holds for each racing round the ``samples`` event's measurements; ``series`` is what others are raced
    against once it has ended, kept since it follows from them. ``proposed_s`` is the run's clock when it was proposed;
    ``asked_s``, ``built_s`` and ``ran_s`` are what proposing, building and running it took of the run's time.
    """

    number: int
    proposal: Proposal
    variant: int = ORIGINAL
    attempt: int = 0
    asked_s: float = 0.0
    proposed_s: float = 0.0
    built_s: float = 0.0
    ran_s: float = 0.0
    build: Mapping[str, Any] | None = None
    verify: Mapping[str, Any] | None = None
    rounds: list[Sequence[Mapping[str, Any]]] = field(default_factory=list)
    status: Status | None = None
    stage: Stage = Stage.ASK
    raced: bool = False
    score: float | None = None
    of: int | None = None
    message: str = ""
    judged: dict[str, Judged] = field(default_factory=dict)
    medians_s: tuple[float, ...] | None = None
    lane: int | None = None
    rival: int | None = None
    placed_s: float = 0.0
    series: tuple[float, ...] | None = None
    searched: Proposal | None = None

    @property
    def as_searched(self) -> Proposal:
        """What was proposed: searchers know it so, also where passes that change no code were left out since."""
        return self.searched or self.proposal

    @property
    def build_key(self) -> str:
        """What code it was built to; empty where it is not built."""
        return "" if self.build is None else str(self.build["key"])

    def forget(self) -> None:
        """Starts over: what an unfinished attempt found does not count."""
        self.build = None
        self.verify = None
        self.rounds = []
        self.status = None
        self.stage = Stage.ASK
        self.lane = self.rival = self.series = None
        self.attempt += 1

    def set_back(self) -> None:
        """The device that it was on is gone; what was built stays."""
        build = self.build
        self.forget()
        if build is not None:
            self.build, self.stage = build, Stage.BUILD

    def times_s(self, problem: int) -> list[float]:
        """All timed calls on one problem, in order."""
        return [t for r in self.rounds for m in r if m["problem"] == problem for t in m["times_s"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One problem in one process: a call on the sets that its batch repeated, and the mean of calls on new ones.

    ``slack_s`` is what a single call may take longer on this kind of device for reasons of its own.
    """

    seen_s: float
    fresh_s: float
    slack_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalSample:
    """One fresh process while choosing or confirming: the median of each problem, or why there is none.

    ``waited_s`` is the part of ``cost_s`` in which other tuners on the machine had the device; ``looks`` has for each
    problem what new inputs took, where that was measured.
    """

    trial: int
    number: int
    status: Status
    medians_s: tuple[float, ...]
    cost_s: float
    waited_s: float = 0.0
    message: str = ""
    looks: Mapping[int, Look] = field(default_factory=dict)
