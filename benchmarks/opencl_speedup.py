"""How near a search of 200 trials comes to the best that an exhaustive search of the same space finds, on OpenCL.

For each spec two runs: the spec's own strategy within the trials, and every configuration. Both winners and the default
are then timed in fresh processes, interleaved: only these times are compared.

    python benchmarks/opencl_speedup.py [--specs DIR] [--trials 200] [--seed 0] [--largest N] [--runs DIR] [--json]

With ``--runs`` the records are kept there, and a rerun goes on from those that are finished.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from _common import EXAMPLES, emit, note, parser, table
from host_speedup import compare, configuration, tuned

from tuner.core import statistics
from tuner.driver.runs import Options
from tuner.spec.load import LoadedSpec, load_spec

WANTED = 0.95
MINUTES = 600.0


def opencl_specs(folder: Path | None, largest: int | None) -> list[LoadedSpec]:
    """The OpenCL specs below a folder whose spaces can be searched exhaustively."""
    found = []
    for path in sorted((folder or EXAMPLES / "opencl").glob("**/*.yaml")):
        for spec in load_spec(path):
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
    note(f"{spec.name}: all {count} configurations")
    everything = tuned(
        spec,
        runs / f"{spec.name}-all-{given.seed}.run",
        Options(evaluations=count + 1, seed=given.seed, minutes=MINUTES, strategy="exhaustive"),
    )
    times = compare(spec, {"search": configuration(searched), "all": configuration(everything)}, given.seed)
    row: dict[str, Any] = {
        "spec": spec.name,
        "configurations": count,
        "device": searched.device,
        "search": configuration(searched),
        "all": configuration(everything),
        "wall_s": [searched.summary.wall_s, everything.summary.wall_s],
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
    arguments.add_argument("--trials", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--largest", type=int, help="leave out spaces with more configurations")
    arguments.add_argument("--runs", type=Path, help="folder to keep the records in")
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        runs.mkdir(parents=True, exist_ok=True)
        for spec in opencl_specs(given.specs, given.largest):
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
