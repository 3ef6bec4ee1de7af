"""The tuner's own time for each trial: ask, tell and record, with a kernel that takes nothing.

A simulated backend answers at once, so what is left is the search, the decisions and the run record on disk.

    python benchmarks/overhead.py [--trials 1000,10000] [--searchers random,...] [--json]
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _common import emit, note, parser, table

from tuner.core.types import Resolved
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

KERNEL = "void nothing(float *out, int n) { out[0] = (float)n; }\n"

SPEC = """
kernel: {source: nothing.c, entry: nothing}
problem: {n: 16}
arguments:
  - {name: out, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters:
%s
  constraints: ["P0 + P1 <= 12", "P2 <= P3 + 4"]
  flags: {math: ["", "-ffast-math"]}
  passes: off
"""

PARAMETERS = 10
SLOW_LIMIT = {
    "skopt-gp": 60,
    "skopt-forest": 100,
    "optuna-gp": 40,
    "optuna-cmaes": 1000,
    "optuna-tpe": 1000,
    "auto": 1000,
}


class Stamps:
    """Notes when each trial ended and how long the searcher took to propose it."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.ask_s: list[float] = []

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        if kind == "trial":
            self.ends.append(time.perf_counter())
        elif kind == "ask":
            self.ask_s.append(body["ask_s"])


def seconds(resolved: Resolved) -> float:
    """A smooth landscape; only its cost in time matters here, and that is none."""
    return 1e-6 * (1 + sum(abs(int(v) - 4) for v in resolved.macros.values() if not isinstance(v, str)))


def measure(searcher: str, trials: int, folder: Path) -> dict[str, float]:
    """Milliseconds for each trial over the whole run and over its last tenth."""
    lines = "\n".join(f"    P{i}: {{low: 1, high: 8}}" for i in range(PARAMETERS))
    (folder / "nothing.c").write_text(KERNEL)
    (folder / "nothing.yaml").write_text(SPEC % lines)
    (spec,) = load_spec(folder / "nothing.yaml")
    stamps = Stamps()
    options = Options(evaluations=trials, seed=1, strategy=searcher, workers=1)
    begin(
        spec,
        folder / f"{searcher}-{trials}.run",
        options,
        backend=SimulatedBackend(seconds=seconds),
        observers=[stamps],
    )
    ends = stamps.ends
    last = max(1, len(ends) // 10)
    return {
        "trials": len(ends),
        "ms_a_trial": (ends[-1] - ends[0]) / max(1, len(ends) - 1) * 1e3,
        "ms_a_trial_last_tenth": (ends[-1] - ends[-1 - last]) / last * 1e3
        if len(ends) > last
        else float("nan"),
        "ask_ms_a_trial": sum(stamps.ask_s) / max(1, len(ends) - 1) * 1e3,
        "record_bytes_a_trial": (folder / f"{searcher}-{trials}.run").stat().st_size / len(ends),
    }


def main() -> None:
    """Runs it and prints one row for each searcher and length."""
    arguments = parser(__doc__)
    arguments.add_argument("--trials", default="1000,10000", help="run lengths for random, comma separated")
    arguments.add_argument(
        "--searchers",
        default="random,optuna-tpe,optuna-cmaes,skopt-forest,skopt-gp,auto",
        help="comma separated",
    )
    given = arguments.parse_args()
    rows = {}
    for searcher in given.searchers.split(","):
        lengths = [int(n) for n in given.trials.split(",")]
        if searcher in SLOW_LIMIT:
            lengths = sorted({min(n, SLOW_LIMIT[searcher]) for n in lengths})
        for length in lengths:
            note(f"{searcher}, {length} trials")
            with tempfile.TemporaryDirectory() as folder:
                rows[f"{searcher}/{length}"] = {
                    "searcher": searcher,
                    **measure(searcher, length, Path(folder)),
                }
    header = ["searcher", "trials", "ms a trial", "last tenth", "of it asking", "record, bytes a trial"]
    body = [
        [
            r["searcher"],
            r["trials"],
            f"{r['ms_a_trial']:.2f}",
            f"{r['ms_a_trial_last_tenth']:.2f}",
            f"{r['ask_ms_a_trial']:.2f}",
            f"{r['record_bytes_a_trial']:.0f}",
        ]
        for r in rows.values()
    ]
    emit(given.json, {"overhead": rows}, table(header, body))


if __name__ == "__main__":
    main()
