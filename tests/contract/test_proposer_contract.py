"""Proposers by name: the built-in one keeps to the contract, and the suite catches one that does not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import numpy as np
import pytest
from product_runs import KERNEL, SUMS, TASK
from spec_files import spec_in

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import Kernel, Source, Variant
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.search import proposer_conformance, proposers
from tuner.search.remix import Offspring, Outcome, RemixProposer
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

SPEC = f"""\
{TASK}space: {{passes: off, source: {{evolve: true}}}}
search:
  strategy: random
  proposers: [mine, remix]
  budget: {{evaluations: 30}}
"""


class Mine:
    """Half of what the remix operators do, under another name."""

    name = "mine"

    def __init__(self, kernel: Kernel, numerics: str) -> None:
        self._inner = RemixProposer(kernel, numerics, attempts=4)

    def propose(
        self, parents: Sequence[Variant], rng: np.random.Generator, known: Collection[str] = ()
    ) -> Offspring | None:
        return self._inner.propose(parents[:1], rng, known)

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        self._inner.tell(outcomes)


class Claims(Mine):
    """Says that edits are its own which do not make the text."""

    def propose(
        self, parents: Sequence[Variant], rng: np.random.Generator, known: Collection[str] = ()
    ) -> Offspring | None:
        found = super().propose(parents, rng, known)
        if found is None:
            return None
        return replace(found, variant=Variant(files=parents[0].files, edits=found.variant.edits))


@pytest.fixture
def kernel() -> Kernel:
    files = (Source(name="product.c", text=SUMS),)
    return Kernel(name="product", entry="product", language="c", variant=Variant(files=files), folder="")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with a proposer called ``mine``; other groups are as they are."""
    real = proposers.entry_points
    entry = EntryPoint(name="mine", value=f"{__name__}:Mine", group=proposers.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Mine if self.name == "mine" else RemixProposer)

    def entries(*, group: str) -> EntryPoints:
        return EntryPoints([entry]) if group == proposers.GROUP else real(group=group)

    monkeypatch.setattr(proposers, "entry_points", entries)


@pytest.mark.integration
def test_remix_keeps_to_the_contract(kernel: Kernel) -> None:
    proposer_conformance.check_all(RemixProposer, kernel, count=6)


def test_an_untrue_proposer_is_caught(kernel: Kernel) -> None:
    with pytest.raises(AssertionError, match="do not make its texts"):
        proposer_conformance.check_all(Claims, kernel, count=6)


@pytest.mark.integration
def test_a_third_partys_proposer_takes_part(installed: None, tmp_path: Path) -> None:
    """It is asked by name, its variants are its own, and the run is replayed with it."""
    spec = spec_in(tmp_path, "product.c", KERNEL, SPEC)
    result = begin(
        spec, tmp_path / "a.run", Options(seed=1), backend=SimulatedBackend(seconds=lambda _: 1e-3)
    )
    lineage = result.summary.evolution
    assert lineage is not None
    assert set(lineage.by) == {"mine", "remix"}
    with RunRecord.read(tmp_path / "a.run") as record:
        by = [e.body.get("proposer", "remix") for e in record.events(kind="variant")]
    assert {"mine", "remix"} <= set(by)
    assert audit(tmp_path / "a.run").differences == []


def test_an_unknown_proposer_is_a_mistake(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown proposer 'remiks'; did you mean 'remix'"):
        proposers.create("remiks", kernel, "exact")
    (tmp_path / "product.c").write_text(KERNEL)
    (tmp_path / "product.yaml").write_text(SPEC.replace("mine", "remiks"))
    with pytest.raises(SpecError, match=r"product.yaml:\d+:\d+: there is no proposer 'remiks'"):
        load_spec(tmp_path / "product.yaml")
