"""How near a search of 200 trials comes to the best of the whole space, on OpenCL.

For each spec one run of its own strategy within the trials, and a short look at every configuration with a second
one at the fastest. Both winners and the default are then timed in fresh processes, interleaved: only these times are
compared.

    python benchmarks/opencl_speedup.py [--only NAME] [--specs DIR] [--trials 200] [--seed 0] [--largest N]
                                        [--runs DIR] [--json]

With ``--runs`` what was done is kept there, and a rerun goes on from it, in the middle of a look as well.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from _common import EXAMPLES, emit, note, parser, table
from _screening import best_of_all
from host_speedup import compare, configuration, tuned

from tuner.core import statistics
from tuner.driver.options import Options
from tuner.spec.load import LoadedSpec, load_spec

WANTED = 0.95
MINUTES = 600.0


def opencl_specs(folder: Path | None, largest: int | None, only: str | None) -> list[LoadedSpec]:
    """The OpenCL specs below a folder whose spaces can be searched exhaustively."""
    found = []
    for path in sorted((folder or EXAMPLES / "opencl").glob("**/*.yaml")):
        for spec in load_spec(path):
            if only is not None and spec.name != only:
                continue
            count = spec.space(None).count() if spec.task.backend == "opencl" else None
            if count is None or (largest is not None and count > largest):
                note(f"{spec.name}: left out, {count} configurations")
                continue
            found.append(spec)
    return found


def one(spec: LoadedSpec, given: Any, runs: Path) -> dict[str, Any]:
    """All figures of one spec."""
    count = spec.space(None).count() or 0
    note(f"{spec.name}: {given.trials} of {count} configurations")
    searched = tuned(
        spec,
        runs / f"{spec.name}-search-{given.trials}-{given.seed}.run",
        Options(evaluations=given.trials, seed=given.seed, minutes=MINUTES),
    )
    note(f"{spec.name}: a look at all {count} configurations")
    started = time.monotonic()
    everything = best_of_all(spec, runs / f"{spec.name}-all-{given.seed}.jsonl", seed=given.seed)
    looked_s = time.monotonic() - started
    times = compare(spec, {"search": configuration(searched), "all": everything}, given.seed)
    row: dict[str, Any] = {
        "spec": spec.name,
        "configurations": count,
        "device": searched.device,
        "search": configuration(searched),
        "all": everything,
        "wall_s": [searched.summary.wall_s, looked_s],
        "processes": min(len(t) for t in times.values()),
    }
    for name, one_side, other in (
        ("of_best", "all", "search"),
        ("over_default", "baseline", "search"),
    ):
        interval = statistics.log_ratio_interval(times[one_side], times[other], 0.95)
        row[name] = [interval.value, interval.low, interval.high]
    return row


def main() -> None:
    """Runs every spec and prints a row for each."""
    arguments = parser(__doc__)
    arguments.add_argument("--specs", type=Path, help="another folder of specs")
    arguments.add_argument("--only", help="one spec by its kernel's name")
    arguments.add_argument("--trials", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--largest", type=int, help="leave out spaces with more configurations")
    arguments.add_argument("--runs", type=Path, help="folder to keep the records in")
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        runs.mkdir(parents=True, exist_ok=True)
        for spec in opencl_specs(given.specs, given.largest, given.only):
            rows.append(one(spec, given, runs))
    header = ["example", "configurations", "of the best", "over the default", "s, search and all"]

    def shown(value: list[float]) -> str:
        return f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"

    body = [
        [
            r["spec"],
            r["configurations"],
            shown(r["of_best"]),
            shown(r["over_default"]),
            f"{r['wall_s'][0]:.0f} + {r['wall_s'][1]:.0f}",
        ]
        for r in rows
    ]
    reached = sum(r["of_best"][0] >= WANTED for r in rows)
    text = table(header, body) + f"\n{reached} of {len(rows)} reach {WANTED} of the best"
    emit(given.json, {"trials": given.trials, "rows": rows, "reached": reached}, text)


if __name__ == "__main__":
    main()
