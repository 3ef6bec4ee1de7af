"""Parameters of an enumeration: integers by another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_files import spec_in

from tuner.core.errors import SpecError
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

KERNEL = """
enum Order { ROWS = 101, COLUMNS };
typedef enum { PLAIN, TURNED } Turn;
void scale(enum Order order, const enum Order other, Turn turn, float *y, int n)
{
    for (int i = 0; i < n; i++) y[i] *= order == ROWS && other == ROWS && turn == PLAIN ? 2 : 3;
}
"""
SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 64, order: 101}
arguments:
  - {name: order, dtype: uint32, value: order}
  - {name: other, dtype: int32, value: 101}
  - {name: turn, dtype: uint32, value: 0}
  - {name: y, dtype: float32, shape: [n], role: inout}
  - {name: n, dtype: int32, value: n}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""


def test_an_enumeration_is_passed_as_an_integer(tmp_path: Path) -> None:
    loaded = spec_in(tmp_path, "scale.c", KERNEL, SPEC)
    assert [a.dtype for a in loaded.task.arguments] == ["uint32", "int32", "uint32", "float32", "int32"]
    (tmp_path / "scale.yaml").write_text(
        SPEC.replace("name: order, dtype: uint32", "name: order, dtype: float32")
    )
    with pytest.raises(SpecError, match="but the spec says float32; write int32"):
        load_spec(tmp_path / "scale.yaml")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "k.c",
            "typedef enum { A = 5, B } mode;\nenum other { P, Q, R };\n"
            "void k(int n, float *a, mode m, enum other *o)\n"
            "{ for (int i = 0; i < n; i++) a[i] *= (m == A) + (o[i] == R); }\n",
        ),
        (
            "k.cpp",
            "namespace ns { enum mode { A = 5, B }; enum class other : int { P, Q, R }; }\n"
            "void k(int n, float *a, ns::mode m, const ns::other *o)\n"
            "{ for (int i = 0; i < n; i++) a[i] *= (m == ns::A) + (o[i] == ns::other::R); }\n",
        ),
    ],
)
def test_first_values_are_among_the_enumerators(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    made = first_spec(tmp_path / name, entry="k").text
    assert "{name: m, dtype: int32, value: 5}" in made
    assert "{name: o, dtype: int32, shape: [n], init: {randint: [0, 3]}}" in made
    (tmp_path / "k.yaml").write_text(made)
    assert load_spec(tmp_path / "k.yaml")


def test_enumerations_of_cpp_are_as_wide_as_they_say(tmp_path: Path) -> None:
    text = (
        "enum class mode : unsigned char { A, B };\nstruct s { double x; mode m; };\n"
        "void k(int n, s *a, mode m) { for (int i = 0; i < n; i++) a[i].x *= m == a[i].m; }\n"
    )
    (tmp_path / "k.cpp").write_text(text)
    made = first_spec(tmp_path / "k.cpp", entry="k").text
    assert "dtype: {x: float64, m: uint8}, shape: [n]" in made
    assert "{name: m, dtype: uint8, value: 1}" in made
    (tmp_path / "k.yaml").write_text(made)
    assert load_spec(tmp_path / "k.yaml")
    (tmp_path / "k.yaml").write_text(made.replace("m: uint8", "m: int32"))
    with pytest.raises(SpecError, match="'m' is not int32"):
        load_spec(tmp_path / "k.yaml")
