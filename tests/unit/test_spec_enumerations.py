"""Parameters of an enumeration: integers by another name."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_files import spec_in

from tuner.core.errors import SpecError
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
