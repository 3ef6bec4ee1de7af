"""The archive of variants: cells, islands, and what is kept."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.core.errors import UsageError
from tuner.core.types import Kernel, Source, Variant
from tuner.search.archive import Archive, Elite
from tuner.search.remix import RemixProposer
from tuner.spaces.source.descriptors import AXES, describe
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program

TEXT = """void f(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}
"""


def elite(born: int, score: float, cell: tuple[int, ...] = (0, 0), structure: str = "") -> Elite:
    """One that is told apart by its number."""
    return Elite(
        edits=({"op": "x", "at": born},),
        structure=structure or f"s{born}",
        cell=cell,
        score=score,
        configuration={"T": born},
        born=born,
    )


def filled(*elites: Elite, islands: int = 1) -> Archive:
    """With elites on the first island."""
    archive = Archive.empty(islands)
    for item in elites:
        archive, _ = archive.add(0, item)
    return archive


def test_cells_keep_the_best_and_what_is_slightly_worse() -> None:
    """Not more than their depth, nothing beyond the margin; other cells keep their own."""
    archive = filled(elite(1, -1.0), elite(2, -0.95), elite(3, -0.5), elite(4, 0.3, (1, 0)))
    assert [e.born for e in archive.islands[0].elites] == [1, 2, 4]
    archive, kept = archive.add(0, elite(5, -2.0))
    assert kept
    assert [e.born for e in archive.islands[0].cells[0, 0]] == [5]
    assert archive.best == elite(5, -2.0)


def test_neutral_variants_stay() -> None:
    """Equal scores: the older first, both kept; the same structure once."""
    archive = filled(elite(1, -1.0), elite(2, -1.0), elite(3, -1.05, structure="s1"))
    assert [e.born for e in archive.islands[0].elites] == [3, 2]
    _, kept = archive.add(0, elite(4, -0.99, structure="s1"))
    assert not kept


def test_parents_are_different_and_repeat_with_the_seed() -> None:
    """From different cells, better ones more often."""
    archive = filled(*(elite(i, i / 10, (i, 0)) for i in range(6)))
    rng = np.random.default_rng
    assert archive.parents(0, 3, rng(1)) == archive.parents(0, 3, rng(1))
    drawn = [e.born for seed in range(300) for e in archive.parents(0, 1, rng(seed))]
    assert drawn.count(0) > drawn.count(5) > 0
    assert len({e.born for e in archive.parents(0, 6, rng(2))}) == 6
    assert Archive.empty(2).parents(1, 2, rng(0)) == []


def test_migration_goes_round_the_ring() -> None:
    """The best of each island, once."""
    archive = filled(elite(1, -1.0), elite(2, 0.0, (1, 1)), islands=3).migrate()
    assert [[e.born for e in i.elites] for i in archive.islands] == [[1, 2], [1], []]


def test_stagnant_islands_begin_anew_with_the_best() -> None:
    """But not the one that holds it."""
    archive = filled(elite(1, -1.0), islands=2)
    archive, _ = archive.add(1, elite(2, -0.1))
    for born in range(3, 8):
        archive, _ = archive.add(1, elite(born, 1.0, (born, 0)))
        archive, _ = archive.add(0, elite(born, 1.0, (born, 0)))
    assert archive.restart_stagnant(50) == archive
    restarted = archive.restart_stagnant(5)
    assert [e.born for e in restarted.islands[1].elites] == [1]
    assert restarted.islands[1].restarts == 1
    assert restarted.islands[0] == archive.islands[0]


def test_wrong_use_is_an_error() -> None:
    """One line."""
    with pytest.raises(UsageError):
        Archive.empty(0)
    with pytest.raises(UsageError, match="no island 3"):
        Archive.empty(2).add(3, elite(1, 0.0))


def test_descriptors_tell_kinds_apart() -> None:
    """The original, a tiled one, and one with vectors in registers lie in different cells."""
    variant = Variant(files=(Source(name="f.c", text=TEXT),))
    kernel = Kernel(name="f", entry="f", language="c", variant=variant, folder=".")
    program = read_program(kernel)

    def size(name: str, value: int) -> dict[str, object]:
        return {"name": name, "values": [value], "default": value}

    tile = {"op": "tile", "function": "f", "loops": ["i", "j"], "parameters": [size("TI", 8), size("TJ", 8)]}
    scalar = {"op": "scalar_replace", "function": "f", "loop": "k", "array": "c"}
    block = {
        "op": "vector_block",
        "function": "f",
        "loops": ["i", "j"],
        "vector": True,
        "parameters": [size("R", 2), size("V", 2), size("L", 8)],
    }
    cells = [describe(apply_edits(program, e).program) for e in ([], [tile], [scalar], [scalar, block])]
    assert len(set(cells)) == 4
    assert all(0 <= level < len(AXES[axis]) for cell in cells for level, axis in zip(cell, AXES, strict=True))
    child = RemixProposer(kernel).propose([variant], np.random.default_rng(0))
    assert child is not None
