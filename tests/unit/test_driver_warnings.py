"""What the verification would miss is said with a run's result, not by ``tuner check`` alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tuner.api import Result
from tuner.cli.text import print_result
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


@pytest.mark.parametrize("notes", [{}, {"warnings": ["nothing of output 'y' is compared"]}])
def test_a_result_says_what_the_verification_would_miss(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], notes: dict[str, Any]
) -> None:
    (spec,) = load_spec(scale_spec(evaluations=2))
    backend = SimulatedBackend(seconds=lambda _: 1e-3, notes=notes)
    result = Result(outcome=begin(spec, tmp_path / "a.run", Options(seed=1, workers=1), backend=backend))
    assert result.to_json().get("warnings") == notes.get("warnings")
    print_result(result)
    assert ("  warning    nothing of output 'y' is compared" in capsys.readouterr().out) == bool(notes)
