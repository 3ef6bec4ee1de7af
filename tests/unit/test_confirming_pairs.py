"""How many pairs of processes confirm: fixed beforehand by the spread that choosing found, where there is time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from product_runs import TASK, seconds
from run_events import events
from spec_files import spec_in

from tuner.core.claims import pairs_for
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.testing import SimulatedBackend

SPEC = f"""\
{TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4]}}
  passes: off
search: {{strategy: random}}
"""


def confirmed(tmp_path: Path, options: Options, noise: float) -> tuple[int, int, dict[str, object]]:
    """Processes of the baseline, of the winner, and the choice."""
    spec = spec_in(
        tmp_path, "product.c", "void product(const float *a, const float *b, float *c, int n) {}\n", SPEC
    )
    backend = SimulatedBackend(
        seconds=lambda resolved: seconds(resolved) / (1.0 if resolved.macros["WIDTH"] == 1 else 5.0),
        process_noise=noise,
        call_noise=0.001,
    )
    result = begin(spec, tmp_path / "a.run", options, backend=backend)
    assert audit(result.path, backend=backend).differences == []
    trials = [t for k, t, b in events(result.path) if k == "final" and b["purpose"] == "confirm"]
    (choice,) = [b for k, _, b in events(result.path) if k == "choice"]
    assert result.summary.improved
    return trials.count(0), len(trials) - trials.count(0), choice


@pytest.mark.parametrize(
    ("minutes", "noise", "most"), [(30.0, 0.2, True), (30.0, 0.004, False), (None, 0.2, False)]
)
def test_a_wide_spread_takes_more_pairs(
    tmp_path: Path, minutes: float | None, noise: float, most: bool
) -> None:
    """Where there is a time limit; the number is in the choice, before anything was confirmed."""
    options = Options(seed=1, evaluations=4, minutes=minutes, workers=1)
    baseline, winner, choice = confirmed(tmp_path, options, noise)
    assert baseline == winner == (36 if most else 12)
    assert choice.get("pairs") == (36 if most else None)


def test_a_run_without_the_setting_takes_what_it_took(tmp_path: Path) -> None:
    """As records from before it."""
    options = Options(seed=1, evaluations=4, minutes=30.0, workers=1, settings={"confirm_width": 0.0})
    assert confirmed(tmp_path, options, 0.2)[:2] == (12, 12)


def test_pairs_by_the_spread() -> None:
    """Twice the spread takes four times as many; without two processes of one nothing is known."""
    narrow = [[math.exp(x) for x in (-0.02, 0.0, 0.02)], [math.exp(x) for x in (1.98, 2.0, 2.02)], [1.0]]
    wide = [[v**2 for v in values] for values in narrow]
    few, many = (pairs_for(values, 0.01) for values in (narrow, wide))
    assert few == math.ceil(2 * 0.0004 * (2.178 / 0.01) ** 2)
    assert 4 * few - 4 <= many <= 4 * few
    assert pairs_for([[1.0], []], 0.05) == 0
