"""Launch geometry in numbers."""

from __future__ import annotations

import pytest

from tuner.core.errors import SpecError
from tuner.core.expressions import parse
from tuner.core.types import Launch
from tuner.spaces.launch import geometry


def launch(grid, block, shared=None):
    return Launch(
        grid=tuple(map(parse, grid)),
        block=tuple(map(parse, block)),
        shared_bytes=None if shared is None else parse(shared),
    )


def test_geometry():
    made = geometry(
        launch(["ceil(n / BX)", "ceil(n / (BY * TILE))"], ["BX", "BY"], "4 * BX * BY * TILE"),
        {"BX": 32, "BY": 8, "TILE": 2, "MODE": "x"},
        {"n": 1000},
    )
    assert made.grid == (32, 63, 1)
    assert made.block == (32, 8, 1)
    assert made.threads == 256
    assert made.shared_bytes == 2048


@pytest.mark.parametrize(
    ("grid", "block", "shared", "message"),
    [
        (["n / 3"], ["1"], None, "grid.x.*not a whole number"),
        (["n"], ["1", "n - 8"], None, "block.y is 0.*at least 1"),
        (["n"], ["1"], "0 - n", "shared_bytes is -8.*with n = 8.*at least 0"),
        (["2 ** 40"], ["1"], None, "at most 2147483647"),
        (["n", "1", "1", "1"], ["1"], None, "4 dimensions"),
        (["q"], ["1"], None, "unknown name 'q'"),
        (["n % 0"], ["1"], None, "division by zero"),
    ],
)
def test_mistakes(grid, block, shared, message):
    with pytest.raises(SpecError, match=message):
        geometry(launch(grid, block, shared), {}, {"n": 8})
