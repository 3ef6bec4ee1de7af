"""Searchers on recorded GPU search spaces: fraction of the optimum at small budgets, and the community's score P.

Needs a folder of recorded spaces (``--spaces``): complete ones in any format that ``tuner import`` reads. Strategies
are the project's searchers by name (Optuna's and scikit-optimize's among them), ``surrogate-without-PART`` for what a
part is worth, and ``kernel-tuner:NAME`` and ``pyatf:NAME`` for the peers' own, which ``pip install
'remix-tuner[bench]'`` brings, best into an environment of their own. The slowest get ten seeds and no score P.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
from _common import ROOT, machine, parser
from _search_peers import runner
from _search_plot import write_plot
from _search_runs import Cache, Case, load_case
from _search_scores import Trace, best_so_far, fractions, horizon, interval, median_and_quartiles, score_p

DEFAULT = "surrogate,random"
SLOW = ("optuna-", "skopt-", "kernel-tuner:skopt")
SLOW_SEEDS = 10


def main() -> int:
    arguments = _arguments()
    budgets = [int(b) for b in arguments.budgets.split(",")]
    strategies = arguments.strategies.split(",")
    folder = Path(arguments.spaces)
    paths = sorted(p for p in folder.glob("*.json*") if arguments.match in p.name)
    cases = [case for case in map(load_case, paths) if _complete(case)]
    if not cases:
        print(f"no complete recorded space in {folder}; name a folder with --spaces", file=sys.stderr)
        return 2
    cache = Cache(Path(arguments.cache))
    found: dict[str, dict[str, list[Trace]]] = {}
    scored: set[str] = set()
    for strategy in strategies:
        run = runner(strategy)
        slow = strategy.startswith(SLOW)
        if not arguments.no_score and not slow:
            scored.add(strategy)
        for case in cases:
            print(f"{strategy} on {case.name}", file=sys.stderr, flush=True)
            # Half as many again: a search that keeps to cheap configurations gets through more of them.
            longest = max(max(budgets), 3 * horizon(case.figures) // 2 if strategy in scored else 0)
            seeds = min(arguments.seeds, SLOW_SEEDS) if slow else arguments.seeds
            traces = cache.traces(case, strategy, longest, seeds, run)
            found.setdefault(strategy, {})[case.name] = traces
    result = _result(cases, found, budgets, arguments.seeds, scored)
    if arguments.plot:
        curves = {s: _curve(cases, found[s], max(budgets)) for s in strategies}
        write_plot(Path(arguments.plot), curves)
    print(json.dumps(result) if arguments.json else _table(result, budgets))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--spaces", default=str(ROOT / "spaces-recorded"), help="folder of recorded spaces")
    made.add_argument("--match", default="", help="only files whose name contains this")
    made.add_argument("--strategies", default=DEFAULT, help="names, separated by commas")
    made.add_argument("--budgets", default="25,50,100,200", help="unique evaluations, failures counted")
    made.add_argument("--seeds", type=int, default=30, help="searches of each space")
    made.add_argument("--cache", default=str(ROOT / "build" / "search-benchmark"), help="folder of traces")
    made.add_argument(
        "--no-score", action="store_true", help="searches end at the last budget; P means nothing"
    )
    made.add_argument("--plot", default="", help="SVG file to write")
    return made.parse_args()


def _complete(case: Case) -> bool:
    """Whether every valid configuration is recorded: on others a search would fail for want of data."""
    count = case.space().count()
    return count is not None and count <= len(case.recorded.rows)


def _result(
    cases: list[Case],
    found: dict[str, dict[str, list[Trace]]],
    budgets: list[int],
    seeds: int,
    scored: set[str],
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    parts: dict[str, dict[str, list[list[float]]]] = {}
    for strategy, by_case in found.items():
        spaces: dict[str, Any] = {}
        for case in cases:
            traces = by_case[case.name]
            each = [fractions(case.figures, t, budgets) for t in traces]
            parts.setdefault(strategy, {})[case.name] = each
            columns = {str(b): [e[i] for e in each] for i, b in enumerate(budgets)}
            spaces[case.name] = {
                "needle": case.figures.needle,
                "seeds": len(traces),
                "fraction": {b: median_and_quartiles(column) for b, column in columns.items()},
                "mean": {b: interval(column)[0] for b, column in columns.items()},
                "p": interval(score_p(case.figures, traces)) if strategy in scored else None,
                "cpu_ms": 1e3 * sum(t.cpu_s for t in traces) / sum(len(t.rows) for t in traces),
            }
        plain = {name: space for name, space in spaces.items() if not space["needle"]}
        rows[strategy] = {
            "spaces": spaces,
            "fraction": _mean_fraction(spaces, budgets),
            "without_needles": _mean_fraction(plain, budgets) if plain else None,
            "p": _mean_p(cases, by_case) if strategy in scored else None,
            "cpu_ms": sum(s["cpu_ms"] for s in spaces.values()) / len(spaces),
        }
    return {
        "schema_version": 1,
        "machine": machine(),
        "command": f"python benchmarks/search.py --spaces DIR --strategies {','.join(found)} --seeds {seeds} "
        f"--budgets {','.join(map(str, budgets))}",
        "seeds": seeds,
        "budgets": budgets,
        "strategies": rows,
        "paired": _paired(parts, budgets),
    }


def _mean_fraction(spaces: dict[str, Any], budgets: list[int]) -> dict[str, float]:
    """The mean over spaces of the median fraction at each budget."""
    return {str(b): sum(s["fraction"][str(b)][0] for s in spaces.values()) / len(spaces) for b in budgets}


def _mean_p(cases: list[Case], by_case: dict[str, list[Trace]]) -> tuple[float, float, float]:
    """P averaged over spaces, seed by seed, with the 95% interval over seeds."""
    scores = [score_p(case.figures, by_case[case.name]) for case in cases]
    return interval([sum(column) / len(column) for column in zip(*scores, strict=True)])


def _paired(parts: dict[str, dict[str, list[list[float]]]], budgets: list[int]) -> dict[str, Any]:
    """The first strategy minus each other: mean over spaces, seed by seed of both, with its 95% interval."""
    first, *others = parts
    made: dict[str, Any] = {}
    for other in others:
        made[other] = {}
        for i, budget in enumerate(budgets):
            columns = [
                [a[i] - b[i] for a, b in zip(parts[first][c], parts[other][c], strict=False)]
                for c in parts[first]
            ]
            made[other][str(budget)] = interval([sum(c) / len(c) for c in zip(*columns, strict=True)])
    return made


def _curve(cases: list[Case], by_case: dict[str, list[Trace]], length: int) -> list[float]:
    """The mean over spaces of the median fraction after each evaluation."""
    total = [0.0] * length
    for case in cases:
        columns = []
        for trace in by_case[case.name]:
            best = (case.figures.optimum / best_so_far(case.figures, trace)).tolist()
            columns.append((best + [best[-1]] * length)[:length])
        for i, column in enumerate(zip(*columns, strict=True)):
            total[i] += median_and_quartiles(column)[0] / len(cases)
    return total


def _table(result: dict[str, Any], budgets: list[int]) -> str:
    head = ["strategy", "space", "seeds", *map(str, budgets), "P", "ms/eval"]
    lines = [head]
    for strategy, row in result["strategies"].items():
        seeds = str(min(space["seeds"] for space in row["spaces"].values()))
        mean = [f"{row['fraction'][str(b)]:.3f}" for b in budgets]
        p = "-" if row["p"] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*row["p"])
        lines.append([strategy, "all", seeds, *mean, p, f"{row['cpu_ms']:.2f}"])
        if row["without_needles"] is not None and any(s["needle"] for s in row["spaces"].values()):
            plain = [f"{row['without_needles'][str(b)]:.3f}" for b in budgets]
            lines.append([strategy, "all but needles", seeds, *plain, "", ""])
        lines += [_space_line(strategy, name, space, budgets) for name, space in row["spaces"].items()]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [result["command"], ""]
    text += [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines
    ]
    for other, by_budget in result["paired"].items():
        shown = ", ".join(f"{b}: {m:+.3f} [{lo:+.3f}, {hi:+.3f}]" for b, (m, lo, hi) in by_budget.items())
        text.append(f"{next(iter(result['strategies']))} minus {other}, mean of paired differences: {shown}")
    return "\n".join(text)


def _space_line(strategy: str, name: str, space: dict[str, Any], budgets: list[int]) -> list[str]:
    cells = []
    for b in budgets:
        middle, lower, upper = space["fraction"][str(b)]
        cells.append(f"{middle:.3f} ({lower:.3f}-{upper:.3f})")
    shown = f"{name} (needle)" if space["needle"] else name
    p = "-" if space["p"] is None else f"{space['p'][0]:.3f}"
    return [strategy, shown, str(space["seeds"]), *cells, p, f"{space['cpu_ms']:.2f}"]


if __name__ == "__main__":
    sys.exit(main())
