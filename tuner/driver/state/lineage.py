"""Variants of a run as its events tell of them.

Holds no program and no space: :mod:`tuner.driver.work.lineup` makes those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.core.canonical import canonical_json
from tuner.core.types import Configuration, Launch, Source, Variant
from tuner.spaces.parameters import Parameter

__all__ = ["HOPELESS", "ORIGINAL", "Judgement", "Reduction", "VariantState"]

ORIGINAL = 0
"""The number of the source as given."""

HOPELESS = 2
"""A variant is given up when so many first trials of it have all failed."""


@dataclass(slots=True, kw_only=True)
class VariantState:
    """One variant and how far its inner search has come.

    Attributes:
        number: in the order in which they were proposed; 0 is the source as given.
        files: its texts; empty for the source as given.
        edits: that make it of the original.
        launch: its own geometry, where the edits changed it.
        parameters, constraints: tunables that its edits added.
        origin: how it was made.
        parents: numbers of the variants that it was made from, the first one first.
        digest, structure, cell: of its texts, of its normalised tree, and what kind of variant it is.
        island: of the archive.
        known: how many trials its first parent had finished when it was made: what its search learns from them.
        seed: the configuration that its search begins with; ``None`` for the source as given.
        purpose: ``propose``, or ``reduce`` for a winner with an edit left out.
        rung, target: how many trials it may have by now.
        reached: its best score at the end of each rung, infinite where all failed.
        trials: all of its trials; ``finished`` those that are done, of which the searcher knows ``told``.
        asks: of its searcher: how many finished trials it knew, and the trials that it proposed.
        dull: duplicates in a row since it was last promoted; ``patience`` of them end its rung.
        dry: rungs in a row before this one that duplicates have ended.
        best: its trial with the lowest score.
        outclassed: whether it is so far behind others that its first rung is over.
        chances: it is given up when so many first trials have all failed.
        again: whether it may have a second trial where its first failed and was to be the only one.
        aside: whether it is no part of the search, not yet or not any more: nothing is bred from it, ranked or tuned
            beside it.
    """

    number: int
    files: tuple[Source, ...] = ()
    edits: tuple[Mapping[str, Any], ...] = ()
    launch: Launch | None = None
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[str, ...] = ()
    origin: str = "original"
    parents: tuple[int, ...] = ()
    digest: str = ""
    structure: str = ""
    cell: tuple[int, ...] = ()
    island: int = 0
    known: int = 0
    seed: Configuration | None = None
    purpose: str = "propose"
    rung: int = 0
    target: int = 0
    reached: list[float | None] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    told: int = 0
    asks: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    dull: int = 0
    dry: int = 0
    patience: int = 0
    best: int | None = None
    score: float | None = None
    exhausted: bool = False
    outclassed: bool = False
    chances: int = HOPELESS
    again: bool = False
    aside: bool = False

    @classmethod
    def from_json(cls, number: int, made: Mapping[str, Any], blob: Any) -> VariantState:
        """From the ``made`` of a ``variant`` event; ``blob`` reads a blob by its digest."""

        def text(value: Any) -> Any:
            return blob(value["blob"].removeprefix("blob:")).decode() if isinstance(value, dict) else value

        return cls(
            number=number,
            files=tuple(Source(name=name, text=text({"blob": ref})) for name, ref in made["files"]),
            edits=tuple(made["edits"]),
            launch=Launch.from_json(made["launch"]) if "launch" in made else None,
            parameters=tuple(
                Parameter.choice(p["name"], p["values"], default=p["default"]) for p in made["parameters"]
            ),
            constraints=tuple(made["constraints"]),
            origin=made["origin"],
            parents=tuple(made["parents"]),
            digest=made["digest"],
            structure=made["structure"],
            cell=tuple(made["cell"]),
            island=made["island"],
            seed={name: text(value) for name, value in made["seed"].items()},
        )

    @property
    def variant(self) -> Variant:
        """Its files and edits; not for the source as given."""
        return Variant(files=self.files, edits=self.edits, launch=self.launch)

    @property
    def failed(self) -> bool:
        """Whether it is given up: nothing of it has worked."""
        return self.score is None and len(self.finished) >= min(self.chances, self.wanted)

    @property
    def wanted(self) -> int:
        """How many trials it may have by now."""
        tried = self.again and self.score is None and bool(self.finished)
        return max(self.target, HOPELESS) if tried else self.target

    @property
    def settled(self) -> bool:
        """Whether its search has come to the end of its rung, or can go no further."""
        if len(self.finished) < len(self.trials):
            return False
        over = self.exhausted or self.failed or self.outclassed or self.is_dull
        return over or len(self.trials) >= self.wanted

    @property
    def is_dull(self) -> bool:
        """Whether duplicates have ended its rung."""
        return self.dull >= self.patience > 0

    @property
    def ran_dry(self) -> bool:
        """Whether its search has found nothing new at the end of two rungs."""
        return self.is_dull and self.dry > 0

    def finish(self, trial: int, score: float | None, *, duplicate: bool) -> None:
        """One of its trials is done."""
        self.finished.append(trial)
        self.dull = self.dull + 1 if duplicate else 0
        if score is not None and (self.score is None or score < self.score):
            self.score, self.best = score, trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a variant had reached at the end of a rung, which at the ``first`` says what its origin is worth.

    A ``twin`` is the same compiled code as another variant.
    """

    variant: int
    score: float | None
    configuration: Configuration | None
    first: bool
    twin: bool = False


@dataclass(slots=True, kw_only=True)
class Reduction:
    """How far the winner is taken apart, from its last edit to its first.

    Attributes:
        reason: why the search had stopped.
        variant, trial: what stands now; ``score`` is the winner's own, so that small losses do not add up.
        edit: the next one to leave out; below 0 when all were.
        trying: the variant that is being looked at.
        replaced: variants that a shorter one stands for.
        worth: of edits that stay, by their JSON: log time that is lost without each; infinite where nothing works then.
        without: the trials that showed it, by the same key.
    """

    reason: str
    variant: int
    trial: int
    score: float
    edit: int
    trying: int | None = None
    replaced: set[int] = field(default_factory=set)
    worth: dict[str, float] = field(default_factory=dict)
    without: dict[str, int] = field(default_factory=dict)

    def accept(self, trial: int, edits: int) -> None:
        """The shorter one stands."""
        assert self.trying is not None
        self.replaced.add(self.variant)
        self.variant, self.trial, self.trying = self.trying, trial, None
        self.edit = min(self.edit, edits) - 1

    def refuse(
        self, edit: Mapping[str, Any] | None = None, loss: float | None = None, trial: int | None = None
    ) -> None:
        """The edit stays; ``loss`` is what leaving it out costs in log time, where a ``trial`` found it out."""
        if edit is not None and loss is not None:
            key = canonical_json(dict(edit))
            self.worth[key] = loss
            if trial is not None:
                self.without[key] = trial
        self.trying = None
        self.edit -= 1
