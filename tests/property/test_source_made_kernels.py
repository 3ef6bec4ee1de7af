"""Programs made up from a seed: every checked operator leaves each byte that they write as it was, compiled and run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_kernels import made_kernel
from same_results import CC, WRAPPING, program_of, same, variants_of


@pytest.mark.skipif(CC is None, reason="needs cc to link")
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_variants_of_made_up_programs_give_the_same(seed: int, tmp_path: Path) -> None:
    text = made_kernel(seed)
    program = program_of(text, "f")
    variants = variants_of(program, seed)
    assert same(program, "f", variants, tmp_path, trials=20, how=WRAPPING) == "", text
