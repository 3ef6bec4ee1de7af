"""Fixtures that several test files share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

KERNEL = """
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++)
        b[i] = 2.0f * a[i] + (float)(STEP - STEP) + (float)(WIDTH - WIDTH);
}
"""

SPEC = """\
kernel: {{source: scale.c, entry: scale}}
problem: {{n: 4096}}
arguments:
  - {{name: a, dtype: float32, shape: [n], init: {{uniform: [-1, 1]}}}}
  - {{name: b, dtype: float32, shape: [n], role: output}}
  - {{name: n, dtype: int32, value: n}}
space:
  parameters:
    STEP: {{low: 1, high: 64, log: true}}
    WIDTH: [1, 2, 3, 4, 5, 6, 7, 8]
  flags: {{vector: ["", "-fno-vectorize"]}}
  passes: {passes}
search:
  strategy: {strategy}
  budget: {{evaluations: {evaluations}}}
"""


@pytest.fixture(autouse=True)
def _own_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's library of runs."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def scale_spec(tmp_path: Path) -> Callable[..., Path]:
    """Writes a small real kernel whose parameters change nothing that matters; returns its spec's path."""

    def write(*, passes: str = "off", strategy: str = "random", evaluations: int = 12) -> Path:
        (tmp_path / "scale.c").write_text(KERNEL)
        path = tmp_path / "scale.yaml"
        path.write_text(SPEC.format(passes=passes, strategy=strategy, evaluations=evaluations))
        return path

    return write
