"""Warm starts on recorded spaces: fraction of the optimum with and without another card's measurements.

For each pair of spaces of one kernel (files ``KERNEL__CARD``): cold, warm from all of the source's measurements, and
copying the source's best alone. ``--match`` takes some of the pairs.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import ROOT, machine, parser
from _search_runs import Case, load_case, simulate
from _search_scores import Trace, best_so_far, fractions, interval

from tuner.core.protocols import Observation
from tuner.core.types import Proposal, Status

GOOD = 0.95


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--spaces", default=str(ROOT / "spaces-recorded"), help="folder of recorded spaces")
    made.add_argument(
        "--match", default="", help="only pairs whose name contains this, as in gemm__A->gemm__B"
    )
    made.add_argument("--budgets", default="5,10,25,50", help="unique evaluations, failures counted")
    made.add_argument("--seeds", type=int, default=60, help="searches of each pair")
    arguments = made.parse_args()
    budgets = [int(b) for b in arguments.budgets.split(",")]
    paths = sorted(Path(arguments.spaces).glob("*.json*"))
    rows = {}
    for source, target in itertools.permutations(paths, 2):
        name = f"{_stem(source)}->{_stem(target)}"
        same = _stem(source).partition("__")[0] == _stem(target).partition("__")[0]
        if same and arguments.match in name:
            print(name, file=sys.stderr, flush=True)
            rows[name] = _pair(load_case(source), load_case(target), budgets, arguments.seeds)
    if not rows:
        print(f"no two spaces of one kernel in {arguments.spaces}", file=sys.stderr)
        return 2
    result = {
        "schema_version": 1,
        "machine": machine(),
        "budgets": budgets,
        "seeds": arguments.seeds,
        "pairs": rows,
    }
    print(json.dumps(result) if arguments.json else _table(result))
    return 0


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _pair(source: Case, target: Case, budgets: list[int], seeds: int) -> dict[str, Any]:
    observations = _observations(source)
    longest = max(budgets)
    found = {
        "cold": simulate(target, "surrogate", longest, range(seeds)),
        "warm": simulate(target, "surrogate", longest, range(seeds), observations),
        "copied": [_copied(source, target, longest)],
    }
    return {how: _figures(target, traces, budgets, longest) for how, traces in found.items()}


def _figures(target: Case, traces: Sequence[Trace], budgets: list[int], longest: int) -> dict[str, Any]:
    each = [fractions(target.figures, trace, budgets) for trace in traces]
    needed = []
    for trace in traces:
        good = target.figures.optimum / best_so_far(target.figures, trace) >= GOOD
        needed.append(int(np.argmax(good)) + 1 if good.any() else longest + 1)
    return {
        "fraction": {str(b): interval([e[i] for e in each])[0] for i, b in enumerate(budgets)},
        "evaluations_to_95": float(np.median(needed)),
        "mean_evaluations_to_95": float(np.mean(needed)),
    }


def _observations(source: Case) -> list[Observation]:
    rows = source.recorded.configurations()
    return [
        Observation(
            trial=number,
            proposal=Proposal(configuration=configuration, origin="warm start"),
            status=Status.OK,
            score=float(np.log(np.mean(row.times_s))),
        )
        for number, (configuration, row) in enumerate(rows)
        if row.times_s
    ]


def _copied(source: Case, target: Case, count: int) -> Trace:
    numbers = {key: i for i, key in enumerate(target.recorded.rows)}
    order = np.argsort(source.figures.times, kind="stable")
    keys = list(source.recorded.rows)
    rows = [numbers[keys[i]] for i in order if keys[i] in numbers]
    return Trace(rows=tuple(rows[:count]), cpu_s=0.0)


def _table(result: dict[str, Any]) -> str:
    budgets = [str(b) for b in result["budgets"]]
    lines = [["pair", "how", *budgets, "to .95", "mean"]]
    for name, row in result["pairs"].items():
        for how, figures in row.items():
            cells = [f"{figures['fraction'][b]:.3f}" for b in budgets]
            mean = f"{figures['mean_evaluations_to_95']:.1f}"
            lines.append([name, how, *cells, f"{figures['evaluations_to_95']:.0f}", mean])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
