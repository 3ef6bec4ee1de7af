"""Archive and proposer joined: what they breed follows from what they were told, and asking changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from product_runs import SUMS

from tuner.core.streams import stream
from tuner.core.types import Kernel, Source, Variant
from tuner.search.evolution import Bred, Evolution, Judged

PRODUCT = SUMS.replace("product", "f")


def kernel() -> Kernel:
    variant = Variant(files=(Source(name="f.c", text=PRODUCT),))
    return Kernel(name="f", entry="f", language="c", variant=variant, folder=".")


def original(evolution: Evolution) -> Judged:
    structure, cell = evolution.describe_original()
    return Judged(
        number=0,
        variant=kernel().variant,
        origin="original",
        parents=(),
        island=0,
        structure=structure,
        cell=cell,
        score=0.0,
        configuration={"WIDTH": 3},
    )


def judged(number: int, bred: Bred, score: float | None) -> Judged:
    child = bred.offspring
    return Judged(
        number=number,
        variant=child.variant,
        origin=child.origin,
        parents=bred.parents,
        island=bred.island,
        structure=child.structure,
        cell=bred.cell,
        score=score,
        configuration={"WIDTH": number},
    )


@cache
def history(count: int) -> list[Judged]:
    """Judgements of a chain of offspring, some failed, some judged twice."""
    evolution = Evolution(kernel(), "reassociate", migration=3)
    told = [original(evolution)]
    evolution.tell(told)
    known: set[str] = set()
    for number in range(1, count):
        bred = evolution.ask(number, stream(3, "variant", number), known)
        assert bred is not None
        known.add(bred.offspring.structure)
        own = judged(number, bred, None if number % 4 == 3 else -0.05 * number)
        evolution.tell([own])
        told.append(own)
    return told


def after(told: Sequence[Judged], step: int) -> Evolution:
    evolution = Evolution(kernel(), "reassociate", migration=3)
    for at in range(0, len(told), step):
        evolution.tell(told[at : at + step])
    return evolution


@pytest.mark.integration
def test_the_archive_is_a_fold_over_what_was_told() -> None:
    """In whatever portions: byte for byte."""
    told = history(7)
    one, *others = (after(told, step) for step in (1, 2, 100))
    assert all(other.archive == one.archive for other in others)
    bred = [e.ask(9, stream(4, "variant", 9), {j.structure for j in told}) for e in (one, *others)]
    assert bred[0] is not None
    assert bred == [bred[0]] * 3


@pytest.mark.integration
def test_asking_changes_nothing() -> None:
    evolution = after(history(4), 1)
    before = evolution.archive
    first = evolution.ask(5, stream(1, "variant", 5), set())
    assert evolution.ask(5, stream(1, "variant", 5), set()) == first
    assert evolution.archive == before


@pytest.mark.integration
def test_failures_have_no_offspring() -> None:
    told = history(7)
    failed = {j.number for j in told if j.score is None}
    evolution = after(told, 1)
    for number in range(10):
        bred = evolution.ask(number, stream(1, "variant", number), set())
        assert bred is None or failed.isdisjoint(bred.parents)
    assert failed


def test_no_parents_no_offspring() -> None:
    assert Evolution(kernel(), "exact").ask(0, stream(1, "variant"), set()) is None


@pytest.mark.integration
def test_leaving_an_edit_out() -> None:
    """What is left is shorter and stands by itself; each edit can be asked for."""
    evolution = after(history(6), 1)
    longest = max((e for i in evolution.archive.islands for e in i.elites), key=lambda e: len(e.edits))
    variant = Variant(files=(), edits=longest.edits)
    assert len(variant.edits) > 1
    for edit in range(len(variant.edits)):
        made = evolution.reduce(variant, edit)
        assert made is not None
        assert len(made.variant.edits) < len(variant.edits)
        assert made.origin == "ablation"
