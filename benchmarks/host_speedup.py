"""Speed-up over ``-O3 -march=native`` for each example, and what passes add to flags and parameters.

For each spec two runs of the same length: a joint search, and one with the passes left alone. Both winners are then
timed against each other and against the baseline in fresh processes, interleaved.

    python benchmarks/host_speedup.py [--specs DIR] [--trials 300] [--seed 0] [--runs DIR] [--json]

With ``--runs`` the records are kept there, and a rerun goes on from those that are finished.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

from _common import altered, emit, host_specs, note, parser, table

from tuner.api import load
from tuner.core import statistics
from tuner.core.streams import stream
from tuner.core.types import BuildRequest, Status
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin
from tuner.evaluators import registry as backends
from tuner.spec.load import LoadedSpec, load_spec

PROCESSES = 12
COMPARE_FROM = 50_000


def tuned(spec: LoadedSpec, path: Path, options: Options) -> Outcome:
    """A finished run: the one that is there, or a new one."""
    if path.exists():
        outcome = load(path).outcome
        if not outcome.interrupted:
            return outcome
        path.unlink()
    return begin(spec, path, options)


def configuration(outcome: Outcome) -> dict[str, Any]:
    """The best that the run found, claimed or not: the comparison decides here."""
    summary = outcome.summary
    trial = summary.candidate or summary.best
    return dict(trial.proposal.configuration)


def compare(spec: LoadedSpec, configurations: dict[str, dict[str, Any]], seed: int) -> dict[str, list[float]]:
    """Median seconds of each configuration in each of several fresh processes, in random order."""
    backend = backends.create(spec.task.backend)
    catalogue = backend.pass_catalogue() if spec.wants_passes else None
    space = spec.space(catalogue)
    evaluation = backend.prepare(spec.task_with(seed=seed), workers=1)
    names = ["baseline", *configurations]
    try:
        resolved = {"baseline": space.resolve(space.default())}
        for name, chosen in configurations.items():
            resolved[name] = space.resolve({**space.default(), **chosen})
        variant = spec.task.kernel.variant
        requests = [BuildRequest(trial=i, variant=variant, resolved=resolved[n]) for i, n in enumerate(names)]
        builds = dict(zip(names, evaluation.build(requests), strict=True))
        evaluation.set_baseline(builds["baseline"], resolved["baseline"])
        times: dict[str, list[float]] = {n: [] for n in names}
        for process in range(PROCESSES):
            order = stream(seed, "order/compare", process).permutation(len(names))
            for name in (names[i] for i in order):
                session = evaluation.open(
                    builds[name], resolved[name], purpose="confirm", number=COMPARE_FROM + process
                )
                try:
                    if session.verify().status is Status.OK:
                        measurement = session.measure(problem=0, calls=25)
                        if measurement.status is Status.OK:
                            times[name].append(statistics.median(measurement.times_s))
                finally:
                    session.close()
    finally:
        evaluation.close()
    return times


def one(path: Path, given: Any, runs: Path) -> dict[str, Any]:
    """All figures of one spec."""
    (spec,) = load_spec(path)
    options = Options(evaluations=given.trials, seed=given.seed, minutes=given.minutes)
    note(f"{spec.name}: joint search")
    joint = tuned(spec, runs / f"{spec.name}-joint-{given.trials}-{given.seed}.run", options)
    note(f"{spec.name}: without passes")
    with tempfile.TemporaryDirectory() as folder:
        (without,) = load_spec(altered(path, Path(folder), {"space": {"passes": "off"}}))
        alone = tuned(without, runs / f"{spec.name}-alone-{given.trials}-{given.seed}.run", options)
    base_passes = {"passes": "default<O3>"} if spec.wants_passes else {}
    times = compare(
        spec, {"joint": configuration(joint), "alone": {**configuration(alone), **base_passes}}, given.seed
    )
    row: dict[str, Any] = {"spec": spec.name, "claimed": [joint.summary.claim, alone.summary.claim]}
    for name, one_side, other in (
        ("joint", "baseline", "joint"),
        ("alone", "baseline", "alone"),
        ("passes_on_top", "alone", "joint"),
    ):
        if min(len(times[one_side]), len(times[other])) < 4:
            row[name] = None
            continue
        interval = statistics.log_ratio_interval(times[one_side], times[other], 0.95)
        row[name] = [interval.value, interval.low, interval.high]
    row["joint_run_speedup"] = list(joint.summary.speedup)
    row["joint_wall_s"], row["alone_wall_s"] = joint.summary.wall_s, alone.summary.wall_s
    return row


def main() -> None:
    """Runs every spec and prints a row for each, then the geometric mean."""
    arguments = parser(__doc__)
    arguments.add_argument("--specs", type=Path, help="another folder of specs")
    arguments.add_argument("--trials", type=int, default=300)
    arguments.add_argument(
        "--minutes", type=float, help="at most this long for each of the two runs of a spec"
    )
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--runs", type=Path, help="folder to keep the records in")
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        runs.mkdir(parents=True, exist_ok=True)
        for path in host_specs(given.specs):
            rows.append(one(path, given, runs))
    values = [r["joint"][0] for r in rows if r["joint"]]
    mean = math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan
    passes = sum(1 for r in rows if r["passes_on_top"] and r["passes_on_top"][0] >= 1.15)
    header = ["example", "joint", "flags and parameters", "passes on top", "the run's own claim", "s"]

    def shown(value: list[float] | None) -> str:
        return "-" if value is None else f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"

    body = [
        [
            r["spec"],
            shown(r["joint"]),
            shown(r["alone"]),
            shown(r["passes_on_top"]),
            f"{r['claimed'][0]} {r['joint_run_speedup'][0]:.2f}",
            f"{r['joint_wall_s']:.0f} + {r['alone_wall_s']:.0f}",
        ]
        for r in rows
    ]
    text = (
        table(header, body)
        + f"\ngeometric mean of the joint search {mean:.2f}; passes add 1.15 or more in {passes}"
    )
    figures = {"trials": given.trials, "rows": rows, "geometric_mean": mean, "passes_add_115": passes}
    emit(given.json, figures, text)


if __name__ == "__main__":
    main()
