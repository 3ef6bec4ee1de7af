"""What the plan can call for. An action with an effect leads to events of one kind; ``Decide`` is the event itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.search.llm.exchange import Purpose

__all__ = [
    "Action",
    "Ask",
    "Await",
    "BuildOther",
    "BuildTrials",
    "BuildWithout",
    "Compare",
    "Consult",
    "Control",
    "Decide",
    "Dissect",
    "Examine",
    "Final",
    "Finished",
    "Judge",
    "Measure",
    "Propose",
    "Recall",
    "Receive",
    "Reduce",
    "SetBaseline",
    "Share",
    "Shorten",
    "Simplify",
    "Verify",
    "Weigh",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Ask a variant's searcher for at most ``count`` proposals, numbered from ``first``; leads to ``ask``."""

    first: int
    count: int
    variant: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """Ask a proposer for a new variant; ``number`` counts what was asked for. Leads to ``variant``."""

    number: int
    proposer: str = "remix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Examine:
    """Ask the backend for its remarks on a variant at its best configuration; leads to ``remarks``.

    Attributes:
        variant: whose.
    """

    variant: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consult:
    """Ask a model; leads to ``consult``.

    Attributes:
        number: of the call.
        model: to ask.
        stage: for what.
        parent: number of the variant that the new one is to be made from.
        other: number of another one to show in full.
        idea: number of the idea to write.
        before: the call whose reply is to be corrected; ``None`` for a new proposal.
    """

    number: int
    model: str
    purpose: Purpose
    parent: int
    other: int | None = None
    idea: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """Make a variant of a call's reply, or say what is wrong with it; leads to ``variant``."""

    number: int
    call: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """Wait for a model, until so many active seconds; leads to ``reply`` or ``waited``.

    ``opening``: at the beginning, where there is something else to do.
    """

    until_s: float
    opening: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """Leave one edit out of a variant, with the configuration of one of its trials; leads to ``variant``."""

    number: int
    variant: int
    trial: int
    edit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTrials:
    """Compile these trials; leads to one ``build`` for each, in order."""

    trials: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Ask the cost model about these trials at a stage, ``ask`` or ``build``; leads to ``judge``.

    ``keep`` is how many of a pool go on at most; ``None``: a batch.
    """

    stage: str
    trials: tuple[int, ...]
    keep: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Wait for a slice of the budget that several runs share; leads to ``share``, which comes from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Look what earlier runs of similar kernels found; leads to ``recall``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simplify:
    """Propose at most ``count`` trials, numbered from ``first``, that are the best one with less changed; leads to
    ``simplify``. The search ended for ``reason``.
    """

    first: int
    count: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBaseline:
    """Run baseline and reference on the workloads; leads to ``baseline``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Open a process for the trial and verify it; leads to ``verify``."""

    trial: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Time the trial in its open process, ``calls`` for each problem; leads to ``samples``."""

    trial: int
    round: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Time the baseline again in a fresh process, to see the machine drift; leads to ``control``."""

    number: int
    calls: tuple[int, ...]
    lane: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """Verify and time a trial in a fresh process with inputs of its own; leads to ``final``."""

    purpose: str
    number: int
    trial: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOther:
    """Compile the baseline's source with another compiler, by its place in the spec; leads to ``other``."""

    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Verify and time another compiler's build (``None``: the baseline) in a fresh process; leads to ``compared``."""

    other: int | None
    number: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shorten:
    """Leave out of the confirmed winner's pipeline what does not change its code; leads to ``shorten``.

    With at most so many ``builds``, and until so many active seconds.
    """

    builds: int
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Dissect:
    """List what of the confirmed winner can be taken back; leads to ``dissect``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildWithout:
    """Compile the winner with each of these items taken back; leads to one ``without`` for each, in order."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weigh:
    """Verify and time the winner without an item (``None``: the winner) in a fresh process; leads to ``weighed``."""

    item: int | None
    number: int
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """A decision: the event to append, whole."""

    kind: str
    body: Mapping[str, Any]
    trial: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Nothing is left to do."""


Action = (
    Ask
    | Propose
    | Examine
    | Consult
    | Receive
    | Await
    | Reduce
    | BuildTrials
    | Judge
    | Recall
    | Simplify
    | Share
    | SetBaseline
    | Verify
    | Measure
    | Control
    | Final
    | BuildOther
    | Compare
    | Shorten
    | Dissect
    | BuildWithout
    | Weigh
    | Decide
    | Finished
)
