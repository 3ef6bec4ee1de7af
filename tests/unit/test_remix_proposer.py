"""The remix proposer: pure, seeded, within the numerics policy, new each time, led by what paid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from product_runs import SUMS

from tuner.core.canonical import canonical_json
from tuner.core.streams import stream
from tuner.core.types import Kernel, Source, Status, Variant
from tuner.search.recipes import RECIPES
from tuner.search.remix import Offspring, Outcome, Proposer, RemixProposer
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
CORNERS = ("mvt", "trmm")
"""Vectors, and a triangle's product; ``test_source_recipes_run.py`` has more kinds, sums over columns too."""
PRODUCT = SUMS.replace("product", "f")


def kernel(text: str = PRODUCT) -> Kernel:
    """With entry f."""
    variant = Variant(files=(Source(name="f.c", text=text),))
    return Kernel(name="f", entry="f", language="c", variant=variant, folder=".")


def generations(proposer: RemixProposer, seed: int, count: int) -> list[Offspring]:
    """A chain of offspring, each from the original or an earlier one."""
    rng = np.random.default_rng(seed)
    pool = [kernel().variant]
    made: list[Offspring] = []
    known: set[str] = set()
    for number in range(count):
        parents = [pool[int(rng.integers(len(pool)))], pool[-1]]
        child = proposer.propose(parents, stream(seed, "propose", number), known)
        if child is not None:
            known.add(child.structure)
            made.append(child)
            pool.append(child.variant)
    return made


def test_it_is_a_proposer() -> None:
    """What the driver needs and no more."""
    assert isinstance(RemixProposer(kernel()), Proposer)


@pytest.mark.integration
def test_equal_seeds_give_equal_variants() -> None:
    """Text, edits and tunables; the edits alone give the text again.

    Buffers without restrict are taken to be separate, and the offspring says so.
    """
    one, two = (generations(RemixProposer(kernel(), "reassociate"), 4, 5) for _ in range(2))
    assert one == two
    assert len(one) >= 4
    assert "separate buffers" in {a for child in one for a in child.note.get("assumes", ())}
    assert len({child.structure for child in one}) == len(one)
    for child in one:
        again = apply_edits(read_program(kernel()), child.variant.edits)
        assert again.variant == child.variant
        assert again.parameters == child.parameters
        assert canonical_json([dict(e) for e in child.variant.edits])
        names = [p.name for p in child.parameters]
        assert len(set(names)) == len(names)


@pytest.mark.integration
def test_exact_numerics_never_reassociate() -> None:
    """Neither an edit nor a parent that a more generous policy made."""
    children = generations(RemixProposer(kernel(), "exact"), 2, 5)
    assert children
    assert not any(e.get("reassociate") for c in children for e in c.variant.edits)


def test_paying_moves_are_tried_more() -> None:
    """And what failed less."""
    proposer = RemixProposer(kernel())
    before = dict(proposer.weights)
    proposer.tell([Outcome(origin="recipe/blocked_product", gain=1.0), Outcome(origin="unroll", gain=None)])
    assert proposer.weights["recipe/blocked_product"] > before["recipe/blocked_product"]
    assert proposer.weights["unroll"] < before["unroll"]
    host = {n for n, o in OPERATORS.items() if "c" in o.languages and not o.opens and not o.openmp}
    assert set(before) == {*host, *(f"recipe/{r}" for r in RECIPES), "crossover", "drop"}


def test_moves_that_paid_in_other_kernels_are_tried_more() -> None:
    """Until it has been tried here; the less, the more often it came to nothing."""
    proposer = RemixProposer(kernel())
    before = dict(proposer.weights)
    proposer.expect({"recipe/jammed": 0.9, "recipe/tiled": 0.9, "recipe/masked": 0.0, "unroll": 0.2})
    after = dict(proposer.weights)
    assert after["recipe/jammed"] > 10 * before["recipe/jammed"]
    assert after["recipe/masked"] < before["recipe/masked"]
    assert after["unroll"] == before["unroll"]
    assert after["recipe/split_product"] == before["recipe/split_product"], "no earlier run has tried it"
    proposer.tell([Outcome(origin="recipe/tiled", gain=None)])
    doubted = proposer.weights["recipe/jammed"]
    assert before["recipe/jammed"] < doubted < after["recipe/jammed"]
    proposer.tell([Outcome(origin="recipe/jammed", gain=1.0)])
    alone = RemixProposer(kernel())
    alone.tell([Outcome(origin="recipe/tiled", gain=None), Outcome(origin="recipe/jammed", gain=1.0)])
    assert proposer.weights["recipe/jammed"] == alone.weights["recipe/jammed"], (
        "what was tried speaks for itself"
    )
    assert proposer.weights["recipe/tiled"] == alone.weights["recipe/tiled"]


def test_raw_edits_are_rare_and_labelled() -> None:
    """They alone are unchecked."""
    weights = RemixProposer(kernel()).weights
    raw = sum(w for n, w in weights.items() if n in OPERATORS and not OPERATORS[n].checked)
    assert 0 < raw < 0.02 * sum(weights.values())


def test_nothing_to_do_is_none() -> None:
    """A function without loops or pointers."""
    proposer = RemixProposer(kernel("int f(int n)\n{\n    return n;\n}\n"))
    assert (
        proposer.propose([kernel("int f(int n)\n{\n    return n;\n}\n").variant], np.random.default_rng(0))
        is None
    )


@pytest.mark.integration
@pytest.mark.parametrize("name", CORNERS)
def test_offspring_of_benchmark_kernels_are_right(name: str) -> None:
    """Generations of variants at random sizes, compiled and run; wrong ones must come from unchecked edits."""
    from dataclasses import replace

    from tuner.core.types import BuildRequest, Problem, Resolved
    from tuner.evaluators.host.backend import HostBackend

    task = load_spec(KERNELS / f"{name}.yaml")[0].task_with(seed=3)
    task = replace(task, problems=tuple(Problem(sizes=p.sizes) for p in task.verify.problems[-1:]))
    proposer = RemixProposer(task.kernel, "reassociate")
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        plain = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
        base = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=plain)])[0]
        assert evaluation.set_baseline(base, plain).status is Status.OK
        pool = [task.kernel.variant]
        for number in range(3):
            rng = stream(9, name, number)
            child = proposer.propose([pool[int(rng.integers(len(pool)))], pool[-1]], rng)
            if child is None:
                continue
            values = {p.name: p.values[int(rng.integers(len(p.values)))] for p in child.parameters}
            resolved = replace(plain, macros=values)
            build = evaluation.build([BuildRequest(trial=1, variant=child.variant, resolved=resolved)])[0]
            if build.status is Status.TIMED_OUT:
                # Blocks of blocks can become more code than the compiler's time limit allows.
                continue
            assert build.status is Status.OK, build.message
            session = evaluation.open(build, resolved, purpose="search", number=number)
            verdict = session.verify()
            session.close()
            if child.checked:
                assert verdict.status is Status.OK, (verdict.message, child.variant.edits, values)
                pool.append(child.variant)
    finally:
        evaluation.close()
