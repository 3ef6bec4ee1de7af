"""The examples and the JSON Schema: every example loads, and the schema describes every key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import needs
import pytest
import yaml

from tuner.core.errors import SpecError
from tuner.spec.json_schema import schema
from tuner.spec.load import load_recorded, load_spec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MATMUL = EXAMPLES / "matmul" / "matmul.yaml"
SPECS = sorted(EXAMPLES.glob("*/*.yaml"))


def test_the_six_examples_are_there() -> None:
    assert {p.stem for p in SPECS} >= {"matmul", "stencil", "nbody", "softmax", "spmv", "histogram"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=needs.openmp if "openmp: true" in p.read_text() else ()) for p in SPECS],
    ids=lambda p: p.stem,
)
def test_an_example_loads_and_can_be_recorded(path: Path) -> None:
    (spec,) = load_spec(path)
    assert spec.wants_passes
    assert load_recorded(spec.text, spec.files, folder=str(path.parent)).task == spec.task
    space = spec.tunables
    source = spec.files[spec.task.kernel.variant.files[0].name]
    for parameter in (p for p in space.parameters if p.macro):
        # Each parameter is a macro that the source looks at, with the baseline's value as its own default, or a
        # number of the launch alone.
        if parameter.name not in source:
            assert spec.task.launch is not None
            assert any(parameter.name in e.names for e in (*spec.task.launch.grid, *spec.task.launch.block))
            continue
        assert f"#ifndef {parameter.name}\n#define {parameter.name} {parameter.default}\n" in source
        assert source.count(parameter.name) >= 3
    assert all(choices[0] == "" for choices in space.flags.values())
    assert spec.task.verify.problems
    assert spec.task.verify.assume


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_an_example_fits_the_schema(path: Path) -> None:
    whole = schema()
    _fits(yaml.safe_load(path.read_text()), whole["$defs"]["Kernel"], whole["$defs"], "spec")


def known_keys(path: str) -> list[str]:
    """Those that the message for an unknown one lists."""
    document = yaml.safe_load(MATMUL.read_text())
    part = document
    for key in filter(None, path.split(".")):
        part = part[int(key)] if key.isdecimal() else part.setdefault(key, {})
    part["zzzzzz"] = 1
    with pytest.raises(SpecError) as raised:
        load_recorded(yaml.safe_dump(document), {"matmul.c": "void matmul(void) {}"}, folder=".")
    (listed,) = re.findall(r"known keys: (.*)", str(raised.value))
    return listed.split(", ")


def _fits(value: Any, rule: dict[str, Any], definitions: dict[str, Any], where: str) -> None:
    """Enough of JSON Schema for these schemas."""
    if "$ref" in rule:
        rule = definitions[rule["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in rule:
        problems = []
        for choice in rule["anyOf"]:
            try:
                return _fits(value, choice, definitions, where)
            except AssertionError as error:
                problems.append(str(error))
        raise AssertionError("; ".join(problems))
    if "enum" in rule:
        assert value in rule["enum"], where
    if "const" in rule:
        assert value == rule["const"], where
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    wanted = rule.get("type")
    if wanted is not None:
        names = wanted if isinstance(wanted, list) else [wanted]
        assert any(isinstance(value, kinds[n]) for n in names), f"{where} is no {wanted}"  # type: ignore[arg-type]
    if isinstance(value, dict):
        properties = rule.get("properties", {})
        for key in rule.get("required", []):
            assert key in value, f"{where} lacks {key}"
        for key, item in value.items():
            inner = properties.get(key, rule.get("additionalProperties"))
            assert inner is not False, f"{where}.{key} is not in the schema"
            if isinstance(inner, dict):
                _fits(item, inner, definitions, f"{where}.{key}")
    if isinstance(value, list) and isinstance(rule.get("items"), dict):
        for i, item in enumerate(value):
            _fits(item, rule["items"], definitions, f"{where}[{i}]")
    return None


def test_the_schema_is_json_and_names_every_key() -> None:
    whole = json.loads(json.dumps(schema()))
    kernel = whole["$defs"]["Kernel"]
    assert sorted(kernel["properties"]) == sorted(known_keys(""))
    assert kernel["additionalProperties"] is False
    several = whole["anyOf"][1]["properties"]
    assert set(several) == {"kernels", *kernel["properties"]}
    with pytest.raises(AssertionError, match="not in the schema"):
        _fits({"kernel": {"source": "a.c", "entry": "a", "entyr": 1}}, kernel, whole["$defs"], "spec")


def test_keys_have_descriptions() -> None:
    bare = []
    for name, definition in schema()["$defs"].items():
        for key, rule in definition.get("properties", {}).items():
            if not any(word in rule for word in ("description", "$ref", "anyOf")):
                bare.append(f"{name}.{key}")
    assert not [b for b in bare if not b.endswith(("prompt", "completion", "model"))]


def test_known_keys_follow_paths() -> None:
    assert known_keys("search.budget") == ["evaluations", "minutes", "usd", "tokens", "calls"]
    assert "dtype" in known_keys("arguments.0")
    assert "low" in known_keys("space.parameters.NEW")
