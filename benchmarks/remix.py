"""Speed-up of runs that evolve the source, without an LLM, over clang's ``-O3 -march=native`` on one thread.

Each spec is one run of the same length, for each numerics; other compilers' code of the same source is timed beside it
by ``compare:``, Polly's where an installed clang has it. With ``--baselines`` simpler searches get the same time each.
An interrupted benchmark goes on where it was given ``--runs``: finished records are read, unfinished ones resumed.

    python benchmarks/remix.py [--specs DIR] [--examples] [--minutes 10] [--numerics exact] [--numerics reassociate]
                               [--only NAME] [--seed 0] [--baselines] [--runs DIR] [--json]
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _common import EXAMPLES, ROOT, altered, emit, host_specs, machine, note, parser, table

from tuner.api import load
from tuner.core.errors import TunerError
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.rivals import RIVALS
from tuner.driver.rivals import altered as compared
from tuner.driver.runs import begin, resume
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.load import load_spec

KERNELS = ROOT / "benchmarks" / "kernels"
OTHERS = (
    "gcc -O3 -march=native",
    "gcc -O3 -march=native -floop-nest-optimize",
    "clang -O3 -march=native -ffast-math",
    "clang -O3 -march=native -mllvm -enable-loopinterchange",
)
POLLY = "-mllvm -polly -mllvm -polly-vectorizer=stripmine"
UNLIMITED = 1_000_000
OTHERS_MINUTES = 10.0


def others() -> tuple[str, ...]:
    """Commands of other compilers: the fixed ones, and clang with Polly where an installed one has it."""
    for version in range(30, 15, -1):
        clang = shutil.which(f"clang-{version}")
        if clang is None:
            continue
        plugin = Path(clang).resolve().parent.parent / "lib" / "LLVMPolly.so"
        for flags in (POLLY, f"-fplugin={plugin} {POLLY}"):
            command = f"clang-{version} -O3 -march=native {flags}"
            probe = [*shlex.split(command), "-x", "c", "-c", os.devnull, "-o", os.devnull]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return (*OTHERS, command)
    return OTHERS


def short(command: str) -> str:
    """A command as a column's title."""
    if "polly" in command.lower():
        return "polly"
    words = command.replace("-O3 -march=native", "").replace("-mllvm", "").split()
    return " ".join(w.removeprefix("-") for w in words)


def finished(spec: Path, record: Path, changes: dict[str, dict[str, Any]], options: Options) -> Outcome:
    """A run that has ended: the one that is there, the rest of one that was cut short, or a new one."""
    if record.exists():
        outcome = load(record).outcome
        return resume(record) if outcome.interrupted else outcome
    # A resumed run looks for files beside its spec, so the copy stays beside the record.
    folder = record.with_suffix(".spec")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy = altered(spec, folder, changes)
    if not changes:
        copy.write_text(copy.read_text() + f"compare: {list(others())!r}\n")
    (loaded,) = load_spec(copy)
    return begin(loaded, record, options)


def one(spec: Path, runs: Path, given: Any, numerics: str) -> dict[str, Any]:
    """All figures of one spec: the run that evolves it, and one that only times other compilers' code."""
    changes: dict[str, dict[str, Any]] = {"space": {"source": {"evolve": True}}}
    if numerics != "own":
        changes["verify"] = {"numerics": numerics}
    options = Options(minutes=given.minutes, evaluations=UNLIMITED, seed=given.seed)
    name = f"{spec.stem}-{numerics}-{given.minutes:g}-{given.seed}"
    evolved = finished(spec, runs / f"{name}.run", changes, options)
    rivals = {}
    for rival, search in RIVALS.items() if given.baselines else ():
        if search.only_beside_models:
            continue
        changed = compared(options, search)
        rivals[rival] = list(finished(spec, runs / f"{name}-{rival}.run", changes, changed).summary.speedup)
    alone = Options(evaluations=1, minutes=OTHERS_MINUTES, settings={"evolution": None})
    timed = finished(spec, runs / f"{spec.stem}-others.run", {}, alone)
    return {"numerics": numerics, **row_of(evolved, timed), "baselines": rivals}


def row_of(outcome: Outcome, timed: Outcome) -> dict[str, Any]:
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
            c.command: None if c.speedup is None else list(c.speedup) for c in timed.summary.compared
        },
    }


def geometric_mean(values: Sequence[float]) -> float:
    """NaN where there is none."""
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


def shown(value: Sequence[float] | None) -> str:
    """A speed-up with its interval."""
    return "-" if value is None else f"{value[0]:.2f} [{value[1]:.2f}, {value[2]:.2f}]"


def plain(value: Sequence[float] | None) -> str:
    """A speed-up without its interval."""
    return "-" if value is None else f"{value[0]:.2f}"


def text_of(rows: Sequence[dict[str, Any]], means: dict[str, float]) -> str:
    """The table and the means under it."""
    commands = list(dict.fromkeys(c for r in rows for c in r["compare"]))
    rivals = list(dict.fromkeys(n for r in rows for n in r["baselines"]))
    header = [
        "kernel",
        "numerics",
        "tuned",
        "claim",
        *rivals,
        *map(short, commands),
        "variants",
        "edits",
        "s",
    ]
    body = [
        [
            r["spec"],
            r["numerics"],
            shown(r["speedup"]),
            r["claim"],
            *(shown(r["baselines"].get(n)) for n in rivals),
            *(plain(r["compare"].get(c)) for c in commands),
            r["variants"],
            " ".join(r["edits"]) or "-",
            f"{r['wall_s']:.0f}",
        ]
        for r in rows
    ]
    lines = [f"geometric mean of {name}: {mean:.2f}" for name, mean in means.items()]
    return "\n".join([table(header, body), "", *lines])


def means_of(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Geometric means: of what was tuned for each numerics, of simpler searches, and of other compilers' code."""
    means: dict[str, float] = {}
    for numerics in dict.fromkeys(r["numerics"] for r in rows):
        own = [r for r in rows if r["numerics"] == numerics]
        means[f"tuned, {numerics} ({len(own)} kernels)"] = geometric_mean([r["speedup"][0] for r in own])
        for rival in dict.fromkeys(n for r in own for n in r["baselines"]):
            values = [r["baselines"][rival][0] for r in own if rival in r["baselines"]]
            means[f"{rival}, {numerics} ({len(values)} kernels)"] = geometric_mean(values)
    kernels = {r["spec"]: r for r in rows}.values()
    for command in dict.fromkeys(c for r in kernels for c in r["compare"]):
        found = [r["compare"][command][0] for r in kernels if r["compare"].get(command)]
        if found:
            means[f"{command} ({len(found)} kernels)"] = geometric_mean(found)
    return means


def main() -> None:
    """Runs every spec and prints a row for each, then the geometric means."""
    arguments = parser(__doc__)
    arguments.add_argument("--specs", type=Path, help="another folder of specs")
    arguments.add_argument("--examples", action="store_true", help="the host examples beside the kernels")
    arguments.add_argument("--minutes", type=float, default=10.0, help="of each run")
    arguments.add_argument(
        "--numerics",
        choices=("exact", "reassociate"),
        action="append",
        help="instead of the specs' own; may be repeated for both",
    )
    arguments.add_argument(
        "--baselines", action="store_true", help="simpler searches with the same time each"
    )
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
        folders = [given.specs] if given.specs else [KERNELS, EXAMPLES] if given.examples else [KERNELS]
        for spec in (s for folder in folders for s in host_specs(folder)):
            if given.only and spec.stem not in given.only:
                continue
            for numerics in given.numerics or ["own"]:
                note(f"{spec.stem}, {numerics}: {given.minutes:g} minutes")
                try:
                    rows.append(one(spec, runs, given, numerics))
                except TunerError as error:
                    note(f"{spec.stem}: {error}")
                    continue
                note(f"{spec.stem}, {numerics}: {shown(rows[-1]['speedup'])}")
    means = means_of(rows)
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
