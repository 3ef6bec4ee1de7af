"""YAML with places: traps of YAML 1.1, limits, and where things stand."""

from __future__ import annotations

import pytest

from tuner.core.errors import SpecError
from tuner.spec.yaml_places import View, closest, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("off", "off"),
        ("on", "on"),
        ("yes", "yes"),
        ("No", "No"),
        ("true", True),
        ("FALSE", False),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-2.5e+3", -2500.0),
        (".5", 0.5),
        ("3.", 3.0),
        ("1_000_000", 1_000_000),
        ("0x1f", 31),
        ("0o17", 15),
        ("-0b11", -3),
        ("0", 0),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("-.inf", float("-inf")),
        ("~", None),
        ("null", None),
        ("'off'", "off"),
        ("'12'", "12"),
        ("n * m", "n * m"),
        ("default<O3>", "default<O3>"),
        ("1" * 1000, "1" * 1000),
    ],
)
def test_plain_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    data = read_yaml(f"key: {text}\n", "f").data
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


def test_places_of_keys_and_values() -> None:
    document = read_yaml("a:\n  - {b: 1, c: [x, y]}\n", "spec.yaml")
    assert str(document.place(("a", 0, "c", 1))) == "spec.yaml:2:19"
    assert str(document.place(("a", 0, "c"), key=True)) == "spec.yaml:2:12"
    assert str(document.place(("a", 0, "missing", 3))) == "spec.yaml:2:5"
    # A part of the path that only the model knows is passed over.
    assert str(document.place(("a", 0, "model", "c", 0))) == "spec.yaml:2:16"


def test_view_looks_at_own_keys_first() -> None:
    document = read_yaml("common: 1\nkernels:\n  - own: 2\n", "f")
    view = View(document=document, data={"common": 1, "own": 2}, own=("kernels", 0))
    assert view.place(("own",)).line == 3
    assert view.place(("common",)).line == 1


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "'a' stands here twice; it is in line 1 too"),
        ("a:\n\t- 1\n", 2, "indent with spaces"),
        ("a: [1, 2\nb: 3\n", 2, "not YAML"),
        ("a: *b\n", 1, "undefined alias"),
        ("a: *.rec\n", 1, "quotes"),
        ("a: b: c\n", 1, "colon in quotes"),
        ("a: 1\n---\nb: 1\n", 2, "remove the line ---"),
        ("", 1, "empty"),
        ("# nothing\n", 1, "empty"),
        ("a: &x {b: *x}\n", 1, "contains itself"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, "is not allowed"),
        ("a: !!set {b}\n", 1, "is not allowed"),
        ("a: !mine 3\n", 1, "is not allowed"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", 3, "merge keys"),
        ("a: 010\n", 1, "write 10, or 0o10"),
        ("[a, b]: 1\n", 1, "a key is a list"),
        ("a: " + "[" * 60 + "]" * 60, 1, "nested too deeply"),
        ("a: " + "[" * 5000, 0, "nested too deeply"),
        ("a: \x07\n", 0, "not YAML"),
        ("x" * 300_000, 0, "too large"),
    ],
)
@pytest.mark.integration
def test_mistakes_have_one_message_with_a_line(text: str, line: int, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(text, "f.yaml")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.place is not None
    assert caught.value.place.line == line


def test_aliases_are_allowed_within_limits() -> None:
    assert read_yaml("a: &x [1]\nb: *x\n", "f").data == {"a": [1], "b": [1]}
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for i in range(1, 9):
        bomb += f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n"
    with pytest.raises(SpecError, match="too many values"):
        read_yaml(bomb, "f")


def test_closest_ignores_case_and_gives_up() -> None:
    assert closest("TILE", ["tile", "TILES"]) == "tile"
    assert closest("entyr", ["entry", "source"]) == "entry"
    assert closest("zzz", ["entry"]) == ""
