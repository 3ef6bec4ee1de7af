"""Kernels made up from a seed: what operators make of them stores the same and reads nothing that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_device_kernels import made_device_kernel
from same_device_results import device_variants, differing_variants

from tuner.evaluators.opencl.oclgrind import oclgrind_version

_MOST = 12


@pytest.mark.skipif(oclgrind_version() is None, reason="needs Oclgrind")
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_variants_of_made_up_kernels_give_the_same(seed: int, tmp_path: Path) -> None:
    made = made_device_kernel(seed)
    variants = device_variants(made.program(), seed, reassociate=True)
    chosen = variants[seed % 3 :: max(1, len(variants) // _MOST)]
    assert differing_variants(made, chosen, seed, tmp_path, rounding=2e-3) == [], made.text
