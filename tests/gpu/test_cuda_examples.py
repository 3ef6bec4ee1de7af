"""Every CUDA example on a card: checked, and tuned for a few trials.

pytest -m gpu
"""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from cuda_examples import EXAMPLES, load

from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin

pytestmark = [*needs.gpu, *needs.nvrtc]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_checks(path: Path, tmp_path: Path) -> None:
    report = check_spec(load(path, tmp_path))
    assert report.ok, report.lines
    assert "ms a call" in dict(report.lines)["time"]


@pytest.mark.parametrize("path", EXAMPLES[:2], ids=lambda p: p.stem)
def test_example_tunes(path: Path, tmp_path: Path) -> None:
    spec = load(path, tmp_path)
    outcome = begin(spec, tmp_path / "example.run", Options(evaluations=8))
    assert not outcome.failed, outcome.summary.message
    assert outcome.summary.speedup[0] >= 1.0
