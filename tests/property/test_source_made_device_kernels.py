"""Kernels made up from a seed: what operators make of them stores the same and reads nothing that is not there."""

from __future__ import annotations

import contextlib
from pathlib import Path

import needs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_device_kernels import made_device_kernel
from same_device_results import device_variants, differing_variants

from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

_MOST = 12


def coarsened(program: Program) -> list[Applied]:
    """Along each axis and both, where that is not refused; nothing shows of this operator that it keeps results."""
    found = []
    for site in OPERATORS["coarsen"].sites(program.functions["f"], False):
        with contextlib.suppress(EditRefused):
            found.append(apply_edits(program, [{"op": "coarsen", "function": "f", **site}]))
    return found


@needs.oclgrind
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.integration
def test_variants_of_made_up_kernels_give_the_same(seed: int, tmp_path: Path) -> None:
    made = made_device_kernel(seed)
    variants = device_variants(made.program(), seed, reassociate=True)
    chosen = variants[seed % 3 :: max(1, len(variants) // _MOST)]
    assert differing_variants(made, chosen, seed, tmp_path, rounding=2e-3) == [], made.text


@pytest.mark.integration
@needs.oclgrind
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_coarsened_made_up_kernels_give_the_same(seed: int, tmp_path: Path) -> None:
    """It is not shown to; and yet bit for bit, with no read or store where there is nothing."""
    made = made_device_kernel(seed)
    assert differing_variants(made, coarsened(made.program()), seed, tmp_path) == [], made.text
