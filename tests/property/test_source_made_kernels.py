"""Programs made up from a seed: every checked operator leaves each byte that they write as it was, compiled and run."""

from __future__ import annotations

from pathlib import Path

import needs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_kernels import made_kernel
from same_results import WRAPPING, program_of, same, variants_of

from tuner.search.cooking import Attempt
from tuner.search.opening import opened


@needs.cc
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.integration
def test_variants_of_made_up_programs_give_the_same(seed: int, tmp_path: Path) -> None:
    text = made_kernel(seed)
    program = program_of(text, "f")
    variants = variants_of(program, seed)
    assert same(program, "f", variants, tmp_path, trials=20, how=WRAPPING) == "", text


@needs.cc
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.integration
def test_variants_of_made_up_programs_over_rows_give_the_same(seed: int, tmp_path: Path) -> None:
    """Arrays whose rows are found by their addresses, by themselves or through local pointers."""
    text = made_kernel(seed, rows=True)
    given_ = program_of(text, "f")
    start = Attempt(program=given_, edits=(), rng=np.random.default_rng(seed), reassociate=False)
    made = opened(start, {}) or start
    variants = [*variants_of(given_, seed, chains=1), *variants_of(made.program, seed)]
    assert same(given_, "f", variants, tmp_path, trials=20, how=WRAPPING) == "", text
