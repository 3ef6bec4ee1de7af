"""What a first spec makes of the host's arithmetic has the value that C gives it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.expressions import parse
from tuner.core.types import Source
from tuner.spec.first.host_arithmetic import Node, names_of, replaced, shown
from tuner.spec.first.host_geometry import host_launches
from tuner.spec.reading.signature import SourceReader
from tuner.spec.reading.source_trees import source_tree

NAMES = ("n", "m", "block")
LEAVES = st.sampled_from([*NAMES, "1", "2", "3", "16", "255", "256u", "0x20", "sizeof(float)"])


def _made(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Sums, products, and divisions as hosts have them: down and up, all of positive numbers."""
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} + {p[1]})"),
        pair.map(lambda p: f"{p[0]} * {p[1]}"),
        pair.map(lambda p: f"({p[0]}) / ({p[1]})"),
        pair.map(lambda p: f"({p[0]}) % ({p[1]})"),
        pair.map(lambda p: f"(({p[0]}) + ({p[1]}) - 1) / ({p[1]})"),
        pair.map(lambda p: f"(({p[0]}) - 1) / ({p[1]}) + 1"),
        pair.map(lambda p: f"(int)ceil((float)({p[0]}) / ({p[1]}))"),
        pair.map(lambda p: f"std::min((int)({p[0]}), (int)({p[1]}))"),
        st.tuples(inner, st.integers(0, 3)).map(lambda p: f"(({p[0]}) << {p[1]})"),
        st.tuples(inner, st.integers(0, 3)).map(lambda p: f"(({p[0]}) >> {p[1]})"),
        inner.map(lambda p: f"(size_t)({p})"),
    )


EXPRESSIONS = st.recursive(LEAVES, _made, max_leaves=8)
VALUES = st.fixed_dictionaries({name: st.integers(1, 5000) for name in NAMES})


def in_c(text: str, values: dict[str, int]) -> int:
    """C's value: of numbers that are not negative, its divisions are Python's that round down."""
    text = re.sub(r"\(int\)ceil\(\(float\)", "up(", text)
    text = re.sub(r"\((?:size_t|int)\)", "", text).replace("std::min", "min").replace("256u", "256")
    text = text.replace("sizeof(float)", "4")
    # `up((a) / (b))` is a fraction rounded up, every other division drops the rest.
    return int(eval(_exact(text), {"min": min}, dict(values)))


def _exact(text: str) -> str:
    out, at = "", 0
    while (start := text.find("up(", at)) >= 0:
        out += _floor(text[at:start])
        depth, end = 0, start + 2
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        inner = text[start + 3 : end - 1]
        left, right = _split(inner)
        out += f"(-((-({_exact(left)})) // ({_exact(right)})))"
        at = end
    return out + _floor(text[at:])


def _floor(text: str) -> str:
    return text.replace("/", "//")


def _split(text: str) -> tuple[str, str]:
    depth = 0
    for i, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "/" and depth == 0:
            return text[:i], text[i + 1 :]
    raise AssertionError(text)


def read(texts: list[str]) -> list[Node | None]:
    """As the reader of launches reads them: clang is asked once for many."""
    launches = "".join(f"    k<<<1, 1>>>({text});\n" for text in texts)
    source = f"""#include <algorithm>
__global__ void k(long v) {{}}
void run(int n, int m, int block) {{
{launches}}}
"""
    reader = SourceReader(files=(Source(name="k.cu", text=source),), language="cuda")
    return [
        launch.values[0] for launch in host_launches(source_tree(reader), "k", kept={}, fixed=(), trails={})
    ]


MANY = st.lists(EXPRESSIONS, min_size=20, max_size=40)


@settings(max_examples=5, deadline=None)
@given(MANY, VALUES)
@pytest.mark.integration
def test_expressions_have_the_value_of_c(texts: list[str], values: dict[str, int]) -> None:
    nodes = read(texts)
    assert len(nodes) == len(texts)
    for text, node in zip(texts, nodes, strict=True):
        try:
            wanted = in_c(text, values)
        except ZeroDivisionError:
            continue
        if node is None:  # A division by a number that is nothing.
            continue
        assert parse(shown(node)).evaluate(values) == wanted, (text, shown(node))
        renamed = replaced(node, lambda part: {"n": "width"}.get(part) if isinstance(part, str) else None)
        assert set(names_of(renamed)) <= {"width", "m", "block"}
        assert parse(shown(renamed)).evaluate({**values, "width": values["n"]}) == wanted
