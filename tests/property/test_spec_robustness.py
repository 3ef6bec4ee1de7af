"""Whatever a spec holds: it loads, or one message for a person says why not."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError
from tuner.core.polynomials import Polynomial
from tuner.spec.load import load_recorded
from tuner.spec.yaml_places import read_yaml

SOURCE = "void k(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = a[i]; }\n"
BASE: dict[str, Any] = {
    "kernel": {"source": "k.c", "entry": "k", "include": ["inc"]},
    "problems": [{"n": 64, "weight": 2.0}, {"n": 128}],
    "arguments": [
        {"name": "a", "dtype": "float32", "shape": ["n"], "init": {"uniform": [-1, 1]}, "fixed": True},
        {"name": "b", "dtype": "float32", "shape": ["n"], "role": "output"},
        {"name": "n", "dtype": "int32", "value": "n"},
    ],
    "space": {
        "parameters": {"TILE": [1, 2, 4], "UNROLL": {"low": 1, "high": 8, "log": True}},
        "constraints": ["TILE <= UNROLL"],
        "flags": {"math": ["", "-ffast-math"]},
        "passes": {"base": "default<O3>", "max_edits": 4},
    },
    "verify": {"rtol": 1e-5, "problems": [{"n": 3}], "assume": ["n >= 1"], "reference": "original"},
    "measure": {"cache": "warm", "threads": 1},
    "compare": ["gcc -O3"],
    "search": {"strategy": "random", "seed": 1, "budget": {"minutes": 1}},
}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["n", "TILE", "n * n", "n / 0", "off", "float32", "-O3", "1 +", "k.c", "python", "csr"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from(["n", "low", "csr", "python", "kernel"]), st.text(max_size=6)), inner
        ),
    ),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


def _changed(data: Any, path: tuple[Any, ...], value: Any, how: str) -> None:
    for part in path[:-1]:
        data = data[part]
    if how == "delete":
        del data[path[-1]]
    elif how == "rename" and isinstance(data, dict):
        data[str(value)[:20]] = data.pop(path[-1])
    else:
        data[path[-1]] = value


@settings(deadline=None, max_examples=60)
@given(st.data())
@pytest.mark.integration
def test_a_changed_spec_loads_or_says_why_in_one_line(data: st.DataObject) -> None:
    spec = copy.deepcopy(BASE)
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(_paths(spec)))
        _changed(spec, path, data.draw(values), data.draw(st.sampled_from(["replace", "delete", "rename"])))
        if not _paths(spec):
            break
    text = yaml.safe_dump(spec, allow_unicode=True, sort_keys=False)
    complaint = ""
    try:
        loaded = load_recorded(text, {"k.c": SOURCE}, folder="/nowhere")
        if not loaded.wants_passes:
            loaded.space(None)
    except SpecError as error:
        complaint = str(error)
    if complaint:
        assert "\n" not in complaint
    else:
        again = load_recorded(text, loaded.files, folder="/nowhere")
        assert again.digest == loaded.digest
        assert again.task == loaded.task


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@ \n\t0.1e?,<"), max_size=60))
def test_any_text_is_yaml_or_a_message(text: str) -> None:
    complaint = ""
    try:
        document = read_yaml(text, "f")
    except SpecError as error:
        complaint = str(error)
    if complaint:
        assert "\n" not in complaint
    else:
        assert set(document.keys) <= set(document.values)


plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=50)
@given(plain)
@pytest.mark.integration
def test_pyyaml_output_is_read_back(value: Any) -> None:
    text = yaml.safe_dump({"value": value})
    assert read_yaml(text, "f").data == {"value": value}


small = st.dictionaries(
    st.lists(st.sampled_from(["n", "m", "@i"]), max_size=2).map(lambda x: tuple(sorted(x))),
    st.integers(-5, 5),
    max_size=4,
).map(Polynomial.of)


def _at(polynomial: Polynomial, env: dict[str, int]) -> int:
    total = 0
    for monomial, coefficient in polynomial.items():
        for name in monomial:
            coefficient *= env[name]
        total += coefficient
    return total


@settings(deadline=None)
@given(
    small,
    small,
    st.fixed_dictionaries({"n": st.integers(0, 9), "m": st.integers(0, 9), "@i": st.integers(0, 9)}),
)
def test_polynomials_compute_like_numbers(a: Polynomial, b: Polynomial, env: dict[str, int]) -> None:
    assert _at(a + b, env) == _at(a, env) + _at(b, env)
    assert _at(a - b, env) == _at(a, env) - _at(b, env)
    assert _at(a * b, env) == _at(a, env) * _at(b, env)
    quotient = a.divided_by(b)
    if quotient is not None:
        assert quotient * b == a
    assert _at(a.rounded_up(), env) >= _at(a, env)
