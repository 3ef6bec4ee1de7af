"""When long searches of recorded spaces end by themselves, and what that loses, on the clock of what was recorded.

Whole runs of the product over recorded spaces: what compiling and running a configuration took when it was recorded
goes by on the run's clock, so that an hour is over in a minute. The loss is against the optimum of the space, which is
at least what the rest of the budget could have found.

    python benchmarks/converged.py --spaces DIR [--match A,B] [--seeds 4] [--minutes 60] [--stop budget] [--json]
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
import yaml
from _common import emit, note, parser, table
from _search_runs import Case, load_case

from tuner.core.errors import TunerError
from tuner.core.types import Value
from tuner.driver.imports import import_file
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.recorded.spaces import key_of
from tuner.spec.load import load_spec


def main() -> int:
    given = _arguments()
    try:
        return _run(given)
    except TunerError as error:
        print(error, file=sys.stderr)
        return 2


def _run(given: Any) -> int:
    paths = [
        p for p in sorted(given.spaces.glob("*.json*")) if any(m in p.name for m in given.match.split(","))
    ]
    cases = [(path, case) for path in paths if (case := load_case(path)).complete()]
    if not cases:
        print(f"no complete recorded space in {given.spaces}", file=sys.stderr)
        return 2
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in range(given.seeds):
        for path, case in cases:
            one = searched(path, case, seed, given.minutes, given.stop)
            found.setdefault(case.name, []).append(one)
            note(f"{case.name} {seed}: {one}")
    rows = [_row(name, runs) for name, runs in found.items()]
    rows.append(_row("all", [one for runs in found.values() for one in runs]))
    header = ("space", "runs", "converged", "evaluations", "minutes", "saved", "least", "loss", "worst")
    emit(given.json, {"runs": found}, table(header, rows))
    return 0


def searched(path: Path, case: Case, seed: int, minutes: float, stop: str) -> dict[str, Any]:
    """One run of a space: why it ended, how much of its time is left, and by how much its best misses the optimum."""
    clock = RecordedClock()
    with tempfile.TemporaryDirectory() as folder:
        written = import_file(path, Path(folder)).spec
        document = yaml.safe_load(written.read_text())
        document["search"] = {
            "strategy": "surrogate",
            "seed": seed,
            "stop": stop,
            "ablate": "off",
            "budget": {"minutes": minutes},
        }
        written.write_text(yaml.safe_dump(document))
        (spec,) = load_spec(written)
        record = Path(folder) / "a.run"
        outcome = begin(spec, record, Options(workers=1), observers=[clock], clock=clock.now)
    summary = outcome.summary
    best = (
        summary.candidate.proposal.configuration
        if summary.candidate
        else summary.baseline.proposal.configuration
    )
    counts = summary.trials
    return {
        "stopped_by": summary.stopped_by,
        "evaluations": counts["total"] - counts["duplicate"] - counts["pruned"],
        "minutes": summary.wall_s / 60,
        "saved": summary.unspent_s / (60 * minutes),
        "loss": _loss(case, best),
    }


def _loss(case: Case, best: Mapping[str, Value]) -> float:
    """By how much what a run ended with takes longer than the optimum."""
    keys = list(case.recorded.rows)
    own = keys.index(key_of(best[name] for name in case.recorded.parameters))
    return float(case.figures.times[own] / np.nanmin(case.figures.times) - 1)


class RecordedClock:
    """Goes on by what each event says that its work took when the space was recorded."""

    def __init__(self) -> None:
        self._now_s = 0.0

    def now(self) -> float:
        """Seconds."""
        return self._now_s

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """One committed event of the run."""
        if kind == "build":
            self._now_s += float(body["seconds"].get("recorded_compile", 0.0))
        elif kind == "verify":
            self._now_s += float(body["detail"].get("virtual_s", 0.0))
        for measurement in body.get("measurements") or ():
            self._now_s += float(measurement["notes"].get("virtual_s", 0.0))


def _row(name: str, runs: list[dict[str, Any]]) -> tuple[object, ...]:
    def of(key: str) -> Any:
        return np.array([one[key] for one in runs])

    return (
        name,
        len(runs),
        int(sum(one["stopped_by"] == "converged" for one in runs)),
        f"{np.median(of('evaluations')):.0f}",
        f"{np.median(of('minutes')):.1f}",
        f"{np.median(of('saved')):.0%}",
        f"{of('saved').min():.0%}",
        f"{np.median(of('loss')):.2%}",
        f"{of('loss').max():.2%}",
    )


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--spaces", type=Path, required=True, help="folder of recorded spaces")
    made.add_argument("--match", default="", help="only spaces whose names contain one of these")
    made.add_argument("--seeds", type=int, default=4)
    made.add_argument(
        "--minutes", type=float, default=60.0, help="budget of each run, on the clock of its space"
    )
    made.add_argument("--stop", default="converged", choices=("converged", "budget"))
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(main())
