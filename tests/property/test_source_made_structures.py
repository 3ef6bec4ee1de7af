"""Programs with structures made up from a seed: every checked operator leaves each byte that they write as it was."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_structures import FILLS, made_structures
from same_results import WRAPPING, program_of, same, variants_of

from tuner.spaces.source.edits import EditRefused, apply_edits


@needs.cc
@given(seed=st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.integration
def test_variants_of_made_up_programs_with_structures_give_the_same(seed: int, tmp_path: Path) -> None:
    text = made_structures(seed)
    given = program_of(text, "f")
    try:
        read = apply_edits(given, [{"op": "read_members", "function": "f"}])
    except EditRefused:
        return
    variants = [read, *variants_of(read.program, seed)]
    assert same(given, "f", variants, tmp_path, trials=20, how=WRAPPING, fills=FILLS) == "", text
