"""Functions that take structures and call others, made up from a seed: when changed they write the same bytes."""

from __future__ import annotations

import contextlib
from pathlib import Path

import needs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_calls import compared, made_calls
from same_results import program_of

from tuner.search.cooking import Attempt, edit_at, places
from tuner.search.opening import opened
from tuner.spaces.source.edits import Applied, EditRefused, applied, apply_edits
from tuner.spaces.source.operators import OPERATORS

FOLLOWING = ("interchange", "reverse", "tile", "fission", "fuse", "hoist", "scalar_replace", "unroll_and_jam")


def variants(text: str, language: str) -> tuple[list[Applied], list[Applied]]:
    """Every opening edit by itself and all of them; and what may follow those."""
    given = program_of(text, "f", language)
    found: list[Applied] = []
    following: list[Applied] = []
    for name, operator in OPERATORS.items():
        for place in places(given, name, reassociate=False) if operator.opens else ():
            with contextlib.suppress(EditRefused):
                found.append(apply_edits(given, [edit_at(given, name, place.function, place.site)]))
    start = Attempt(program=given, edits=(), rng=np.random.default_rng(0), reassociate=False)
    made = opened(start, {})
    if made is None:
        return found, following
    found.append(applied(made.program, made.edits))
    for name in FOLLOWING:
        for place in places(made.program, name, reassociate=False):
            edit = edit_at(made.program, name, place.function, place.site)
            with contextlib.suppress(EditRefused):
                following.append(apply_edits(given, [*made.edits, edit]))
    return found, following


@needs.cc
@pytest.mark.integration
@given(seed=st.integers(0, 1 << 20), language=st.sampled_from(["c", "c++"]))
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_functions_with_calls_write_the_same(seed: int, language: str, tmp_path: Path) -> None:
    text = made_calls(seed, language)
    opening, following = variants(text, language)
    # A product and a sum of one expression are rounded once there, so that what moves into one is seen.
    how = ("-ffp-contract=on", "-march=native")
    assert compared(text, opening, tmp_path, one=True, language=language, how=how) == "", text
    assert compared(text, following, tmp_path, one=False, language=language) == "", text
