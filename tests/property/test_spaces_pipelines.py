"""Random pipelines: reading, editing and distances."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError
from tuner.spaces.edits import random_edit
from tuner.spaces.passes import Catalogue, PassSpace
from tuner.spaces.pipeline import Node, Pipeline

GOLDEN = Path(__file__).parent.parent / "golden"
O3 = (GOLDEN / "llvm23_o3.txt").read_text().strip()
CATALOGUE = Catalogue.from_listing((GOLDEN / "llvm23_passes.txt").read_text(), O3, "23.1.4")
SPACE = PassSpace(CATALOGUE)

leaf = st.builds(
    Node,
    st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(lambda n: n not in {"loop", "module"}),
    st.sampled_from(["", "<>", "<a;b=3>", "<x><y>", "<4>"]),
)
node = st.recursive(
    leaf,
    lambda inner: st.builds(
        Node,
        st.sampled_from(["function", "cgscc", "loop", "loop-mssa", "module"]),
        st.sampled_from(["", "<eager-inv>"]),
        st.lists(inner, min_size=1, max_size=4).map(tuple),
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(node, min_size=1, max_size=5))
@pytest.mark.integration
def test_any_tree_is_read_back_from_its_text(nodes):
    pipeline = Pipeline(tuple(nodes))
    assert Pipeline.parse(pipeline.text) == pipeline


@settings(deadline=None)
@given(st.text(alphabet="ab<>(),;-", max_size=30))
def test_any_text_is_read_unchanged_or_refused(text):
    try:
        pipeline = Pipeline.parse(text)
    except SpecError:
        return
    assert pipeline.text == text


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 8), st.booleans())
def test_a_distance_is_never_more_than_the_edits_made(seed, count, flat):
    draw = np.random.default_rng(seed)
    pipeline = Pipeline.parse(O3 if flat else "default<O3>")
    double = 0
    for _ in range(count):
        edit, pipeline = random_edit(pipeline, CATALOGUE, draw)
        # A replacement that has to move out of its container leaves two traces, as a swap does.
        double += edit.kind in ("swap", "replace")
    assert SPACE.distance(pipeline.text) <= count + double
    assert SPACE.explain(pipeline.text) == ""
