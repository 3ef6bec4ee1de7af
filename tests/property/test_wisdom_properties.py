"""Wisdom files: merging is a set union, selecting never leaves the reach, and what is written is read."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tuner
from tuner.core.errors import UsageError
from tuner.recorders.wisdom import Entry, Wisdom, distance

devices = st.sampled_from(["one", "two"])
sizes = st.fixed_dictionaries({"n": st.integers(1, 1 << 40), "m": st.integers(1, 64)})
times = st.none() | st.floats(1e-9, 1e3)
configurations = st.dictionaries(
    st.sampled_from(["A", "B"]), st.integers(0, 9) | st.booleans() | st.text(max_size=3), max_size=2
)
entries = st.builds(
    lambda device, problem, configuration, time_s, run, untold: Entry(
        device=device,
        problem=problem,
        configuration=configuration,
        time_s=time_s,
        run=run,
        untold=untold,
    ),
    devices,
    sizes,
    configurations,
    times,
    st.sampled_from(["a.run", "b.run"]),
    st.sampled_from([(), ("in",)]),
)


def of(found: list[Entry]) -> Wisdom:
    """Wisdom with these entries."""
    empty = Wisdom(kernel="k", backend="host", source="s", default={"A": 0})
    for entry in found:
        empty = empty.merged(
            Wisdom(kernel="k", backend="host", source="s", default={"A": 0}, entries=(entry,))
        )
    return empty


@settings(deadline=None, max_examples=60)
@given(st.lists(entries, max_size=5), st.lists(entries, max_size=5), st.lists(entries, max_size=5))
@pytest.mark.integration
def test_merging_does_not_depend_on_order_or_repetition(
    a: list[Entry], b: list[Entry], c: list[Entry]
) -> None:
    one, two, three = of(a), of(b), of(c)
    assert one.merged(two).to_json() == two.merged(one).to_json()
    assert one.merged(two).merged(three).to_json() == one.merged(two.merged(three)).to_json()
    assert one.merged(one).to_json() == one.to_json()


@settings(deadline=None, max_examples=60)
@given(st.lists(entries, max_size=6), devices, sizes)
def test_selection_is_the_nearest_within_reach(
    found: list[Entry], device: str, problem: dict[str, int]
) -> None:
    known = of(found)
    choice = known.select(device, problem)
    nearest = min(
        (distance(e.problem, problem) for e in known.entries if e.device == device), default=math.inf
    )
    if choice.how == "default":
        assert nearest > known.reach
        assert choice.configuration == known.default
    else:
        assert choice.entry is not None
        assert choice.distance == nearest <= known.reach
        assert choice.entry.device == device
        same = dict(choice.entry.problem) == problem
        assert (choice.how == "exact") == (same and not choice.entry.untold)
        for name, size in choice.entry.problem.items():
            assert size / 2 - 1e-6 * size <= problem[name] <= size * 2 + 1e-6 * size


@settings(deadline=None, max_examples=60)
@given(sizes, sizes, sizes)
def test_the_distance_is_one(a: dict[str, int], b: dict[str, int], c: dict[str, int]) -> None:
    assert distance(a, b) == distance(b, a)
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9


@settings(deadline=None, max_examples=30)
@given(st.lists(entries, max_size=5))
def test_saved_wisdom_is_loaded(found: list[Entry]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.wisdom.json")
        of(found).save(path)
        assert Wisdom.load(path).to_json() == of(found).to_json()
        assert sorted(Path(folder).iterdir()) == [path]


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["format", "version", "entries", "reach", "default"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    )
)
def test_anything_else_is_no_other_error(data: object) -> None:
    whole = of([Entry(device="d", problem={"n": 1}, configuration={})]).to_json()
    for name in (*whole, "problem", "speedup"):
        damaged = json.loads(json.dumps(whole))
        if name in whole:
            damaged[name] = data
        else:
            damaged["entries"][0][name] = data
        with contextlib.suppress(UsageError):
            Wisdom.from_json(damaged)


def test_reading_from_the_library(tmp_path: Path) -> None:
    path = tmp_path / "k.wisdom.json"
    entry = Entry(device="cpu", problem={"n": 1000}, configuration={"A": 7})
    of([entry]).save(path)
    assert tuner.wisdom(path, {"n": 1500}).configuration == {"A": 7}
    assert tuner.Wisdom.load(path).select("cpu", {"n": 1000}).how == "exact"
    assert tuner.Wisdom.load(path).select("cpu", {"n": 2001}).how == "default"
    assert tuner.Wisdom.load(path).select("other", {"n": 1000}).configuration == {"A": 0}
    assert of([Entry(device="d", problem={"n": 0}, configuration={})]).select("d", {"n": 1}).how == "default"
    with pytest.raises(UsageError, match="no size 'n'"):
        tuner.wisdom(path, {"m": 3})
    two = of([entry, Entry(device="gpu", problem={"n": 1}, configuration={})])
    with pytest.raises(UsageError, match="2 devices"):
        two.select(None, {"n": 1})
    with pytest.raises(UsageError, match="another source"):
        two.merged(Wisdom(kernel="k", backend="host", source="t", default={}))
    (tmp_path / "bad.json").write_text('{"format": "tuner-wisdom", "version": 1, "reach": NaN}')
    for bad in ("bad.json", "none.json"):
        with pytest.raises(UsageError):
            tuner.wisdom(tmp_path / bad, {})


def test_a_file_that_took_scalars_for_nothing_is_refused() -> None:
    old = {**of([]).to_json(), "version": 1}
    with pytest.raises(UsageError, match="version 1, not 2") as caught:
        Wisdom.from_json(old)
    assert caught.value.hint == "remove it and export again"
