"""Speed-up of runs that evolve the source, without an LLM, over clang's ``-O3 -march=native`` on one thread.

Each spec is one run of the same length; other compilers' code of the same source is timed beside it by ``compare:``.
An interrupted benchmark goes on: finished records are read, unfinished ones resumed.

    python benchmarks/remix.py [--specs DIR] [--minutes 10] [--numerics exact or reassociate] [--only NAME]
                               [--seed 0] [--runs DIR] [--json]
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import ROOT, altered, emit, host_specs, machine, note, parser, table

from tuner.api import load
from tuner.core.errors import TunerError
from tuner.driver.runs import Options, Outcome, begin, resume
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.load import load_spec

KERNELS = ROOT / "benchmarks" / "kernels"
OTHERS = (
    "gcc -O3 -march=native",
    "gcc -O3 -march=native -floop-nest-optimize",
    "clang -O3 -march=native -ffast-math",
    "clang -O3 -march=native -mllvm -enable-loopinterchange",
)
UNLIMITED = 1_000_000
OTHERS_MINUTES = 10.0


def finished(spec: Path, record: Path, changes: dict[str, dict[str, Any]], options: Options) -> Outcome:
    """A run that has ended: the one that is there, the rest of one that was cut short, or a new one."""
    if record.exists():
        outcome = load(record).outcome
        return resume(record) if outcome.interrupted else outcome
    with tempfile.TemporaryDirectory() as folder:
        copy = altered(spec, Path(folder), changes)
        if not changes:
            copy.write_text(copy.read_text() + f"compare: {list(OTHERS)!r}\n")
        (loaded,) = load_spec(copy)
        return begin(loaded, record, options)


def one(spec: Path, runs: Path, given: Any) -> dict[str, Any]:
    """All figures of one spec: the run that evolves it, and one that only times other compilers' code."""
    changes: dict[str, dict[str, Any]] = {"space": {"source": {"evolve": True}}}
    if given.numerics:
        changes["verify"] = {"numerics": given.numerics}
    options = Options(minutes=given.minutes, evaluations=UNLIMITED, seed=given.seed)
    name = f"{spec.stem}-{given.numerics or 'own'}-{given.minutes:g}-{given.seed}"
    evolved = finished(spec, runs / f"{name}.run", changes, options)
    alone = Options(evaluations=1, minutes=OTHERS_MINUTES, settings={"evolution": None})
    others = finished(spec, runs / f"{spec.stem}-others.run", {}, alone)
    return row_of(evolved, others)


def row_of(outcome: Outcome, others: Outcome) -> dict[str, Any]:
    """The figures of one spec's two runs."""
    summary = outcome.summary
    lineage = summary.evolution
    return {
        "spec": outcome.kernel,
        "claim": summary.claim,
        "speedup": list(summary.speedup),
        "measured": None if summary.measured is None else list(summary.measured),
        "edits": [] if lineage is None else [e["op"] for e in lineage.edits],
        "left_out": 0 if lineage is None else lineage.left_out,
        "variants": 0 if lineage is None else lineage.total,
        "trials": dict(summary.trials),
        "baseline_s": summary.baseline_s[0],
        "wall_s": summary.wall_s,
        "compare": {
            c.command: None if c.speedup is None else list(c.speedup) for c in others.summary.compared
        },
    }


def geometric_mean(values: Sequence[float]) -> float:
    """NaN where there is none."""
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


def shown(value: Sequence[float] | None) -> str:
    """A speed-up with its interval."""
    return "-" if value is None else f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"


def text_of(rows: Sequence[dict[str, Any]], means: dict[str, float]) -> str:
    """The table and the means under it."""
    header = ["kernel", "tuned", "claim", "gcc", "variants", "edits", "s"]
    body = [
        [
            r["spec"],
            shown(r["speedup"]),
            r["claim"],
            shown(r["compare"].get(OTHERS[0])),
            r["variants"],
            " ".join(r["edits"]) or "-",
            f"{r['wall_s']:.0f}",
        ]
        for r in rows
    ]
    lines = [f"geometric mean of {name}: {mean:.2f}" for name, mean in means.items()]
    return "\n".join([table(header, body), "", *lines])


def main() -> None:
    """Runs every spec and prints a row for each, then the geometric means."""
    arguments = parser(__doc__)
    arguments.add_argument("--specs", type=Path, help="another folder of specs")
    arguments.add_argument("--minutes", type=float, default=10.0, help="of each run")
    arguments.add_argument("--numerics", choices=("exact", "reassociate"), help="instead of the specs' own")
    arguments.add_argument("--only", action="append", help="a spec by name; may be repeated")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--runs", type=Path, help="folder to keep the records in")
    given = arguments.parse_args()
    # The clang that the tuner itself uses is the one to compare with.
    os.environ["PATH"] = os.pathsep.join([str(Path(find_toolchain().clang).parent), os.environ["PATH"]])
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        runs = given.runs or Path(scratch)
        runs.mkdir(parents=True, exist_ok=True)
        for spec in host_specs(given.specs or KERNELS):
            if given.only and spec.stem not in given.only:
                continue
            note(f"{spec.stem}: {given.minutes:g} minutes")
            try:
                rows.append(one(spec, runs, given))
            except TunerError as error:
                note(f"{spec.stem}: {error}")
                continue
            note(f"{spec.stem}: {shown(rows[-1]['speedup'])}")
    means = {"tuned": geometric_mean([r["speedup"][0] for r in rows])}
    for command in OTHERS:
        found = [r["compare"][command][0] for r in rows if r["compare"].get(command)]
        if found:
            means[f"{command} ({len(found)} kernels)"] = geometric_mean(found)
    figures = {
        "machine": machine(),
        "minutes": given.minutes,
        "numerics": given.numerics,
        "rows": rows,
        "geometric_means": means,
    }
    emit(given.json, figures, text_of(rows, means))


if __name__ == "__main__":
    main()
