"""Every flag lands somewhere or is an error; nothing is dropped without a word."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError
from tuner.evaluators.host.flags import Flags, sort_flags

_KNOWN = st.sampled_from(
    [
        "-DA=1",
        "-ffast-math",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-march=x86-64-v3",
        "-mavx2",
        "-mno-avx512f",
        "-mtune=znver3",
        "-fno-vectorize",
        "-fno-slp-vectorize",
        "-fno-unroll-loops",
        "-fveclib=libmvec",
        "-mcmodel=large",
        "-Wall",
    ]
)
_ANY = st.text(st.characters(codec="ascii", min_codepoint=33), max_size=12).map("-".__add__)
_PLAIN = Flags()


@settings(deadline=None, max_examples=300)
@given(st.one_of(_KNOWN, _ANY))
@pytest.mark.integration
def test_a_flag_is_placed_or_refused(flag: str) -> None:
    try:
        placed = sort_flags([flag])
    except SpecError:
        return
    where = [
        placed.frontend != _PLAIN.frontend,
        placed.passes != _PLAIN.passes,
        placed.machine != _PLAIN.machine,
        placed.options != _PLAIN.options,
        placed.veclib != _PLAIN.veclib,
    ]
    assert any(where) or flag in _ALREADY_SO


_ALREADY_SO = {"-fvectorize", "-fslp-vectorize", "-ftree-vectorize", "-ftree-slp-vectorize", "-fveclib=none"}


@settings(deadline=None, max_examples=200)
@given(st.lists(_KNOWN, max_size=6))
def test_sorting_is_a_function_of_the_words(words: list[str]) -> None:
    assert sort_flags(words) == sort_flags(list(words))
    assert sort_flags(words).given == tuple(words)


@settings(deadline=None, max_examples=200)
@given(st.lists(_KNOWN, max_size=4), st.lists(_KNOWN, max_size=4))
def test_front_end_flags_keep_their_order(first: list[str], second: list[str]) -> None:
    joined = sort_flags([*first, *second]).frontend
    assert joined == sort_flags(first).frontend + sort_flags(second).frontend
