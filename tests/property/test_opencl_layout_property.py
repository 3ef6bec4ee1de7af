"""Aligned buffers keep their alignment, their guard pages and their distance from each other."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.types import Source
from tuner.evaluators.host.layout import PAGE, Buffer, lay_out
from tuner.evaluators.opencl.program import Program

roles = st.sampled_from(["input", "output", "inout", "scratch"])
sizes = st.integers(min_value=1, max_value=3 * PAGE)
placements = st.sampled_from(["end", "start", "stagger"])


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.lists(st.tuples(roles, sizes), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(min_value=0, max_value=63),
    placements,
    st.integers(min_value=1, max_value=3),
)
def test_every_buffer_is_aligned_and_inside_its_pages(
    entries: list[list[tuple[str, int]]], shift: int, placement: str, copies: int
) -> None:
    buffers = [
        [Buffer(name=f"a{i}", role=role, size_bytes=size) for i, (role, size) in enumerate(entry)]
        for entry in entries
    ]
    layout = lay_out(buffers, [placement] * len(entries), shift=shift, copies=copies, align=128)
    for entry in layout.entries:
        for region in entry.regions:
            assert region.at % 128 == 0
            assert region.skip + region.buffer.size_bytes <= region.span.size_bytes
            if placement == "end":
                past = region.span.at + region.span.size_bytes - region.at - region.buffer.size_bytes
                assert past < 128
    ends = sorted((s.at, s.at + s.size_bytes) for s in layout.spans)
    assert all(b[0] - a[1] >= PAGE for a, b in itertools.pairwise(ends))


@settings(deadline=None, max_examples=200)
@given(st.floats(min_value=0, max_value=1e30, allow_nan=False), st.sampled_from(["f", "F"]))
def test_a_widened_literal_has_the_same_value_in_double(value: float, suffix: str) -> None:
    text = f"x = {value!r}{suffix};"
    program = Program(entry="k", files=(Source(name="k.cl", text=text),), options=(), wide=True)
    line = program.job()["source"].splitlines()[-1]
    assert float(line.removeprefix("x = ").removesuffix(";")) == value
