"""Every CUDA example on a card: checked, and tuned for a few trials.

pytest -m gpu
"""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import LoadedSpec, load_spec

pytestmark = [*needs.gpu, *needs.nvrtc]

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "cuda").glob("*.yaml"))


def load(path: Path, folder: Path) -> LoadedSpec:
    """The example for whatever card there is."""
    for file in path.parent.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    copy = folder / path.name
    copy.write_text(path.read_text().replace("target: sm_90", "target: native"))
    (spec,) = load_spec(copy)
    return spec


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
