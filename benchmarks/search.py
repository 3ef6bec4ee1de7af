"""Searchers on recorded GPU search spaces: fraction of the optimum at small budgets, and the community's score P.

``--spaces`` names folders of recorded spaces (complete ones in any format that ``tuner import`` reads), or ``made`` for
made-up ones, which need no data. Strategies are the project's searchers by name (Optuna's and scikit-optimize's among
them), ``surrogate-without-PART`` for what a part is worth, ``kernel-tuner:NAME`` and ``pyatf:NAME`` for the peers' own,
which ``pip install 'remix-tuner[bench]'`` brings, best into an environment of their own; or a group of them:
``kernel-tuner``, ``pyatf``, ``optuna``, ``skopt``, ``peers`` for all of these, ``parts``.

Prints one table and the paired differences, and writes one plot. What is slow (hundreds of milliseconds a proposal) may
be given fewer seeds and a smaller budget, and has no score P.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
from _common import ROOT, machine, parser
from _search_made import write_made
from _search_peers import expanded, runner
from _search_plot import write_plot
from _search_runs import Cache, Case, load_case
from _search_scores import Trace, best_so_far, fractions, horizon, interval, median_and_quartiles, score_p
from _search_tables import table

from tuner.core.errors import TunerError

DEFAULT = "surrogate,random"
MADE = "made"
SLOW = ("optuna-gp", "skopt-", "kernel-tuner:skopt")


def main() -> int:
    arguments = _arguments()
    try:
        return _run(arguments)
    except TunerError as error:
        print(error, file=sys.stderr)
        return 2


def _run(arguments: Any) -> int:
    budgets = arguments.budgets
    strategies = expanded(arguments.strategies.split(","))
    runs = {strategy: runner(strategy) for strategy in strategies}
    cases = _cases(arguments.spaces.split(","), arguments.match.split(","), Path(arguments.cache))
    if not cases:
        named = f" whose name contains {' or '.join(arguments.match.split(','))}" if arguments.match else ""
        cure = "leave out --match" if arguments.match else "name a folder with --spaces"
        print(f"no complete recorded space in {arguments.spaces}{named}; {cure}", file=sys.stderr)
        return 2
    cache = Cache(Path(arguments.cache))
    found: dict[str, dict[str, list[Trace]]] = {}
    reach: dict[str, list[int]] = {}
    scored: set[str] = set()
    for strategy, run in runs.items():
        slow = strategy.startswith(SLOW)
        reach[strategy] = [b for b in budgets if not slow or b <= arguments.slow_budget] or budgets[:1]
        seeds = min(arguments.seeds, arguments.slow_seeds) if slow else arguments.seeds
        if not arguments.no_score and not slow:
            scored.add(strategy)
        for case in cases:
            print(f"{strategy} on {case.name}", file=sys.stderr, flush=True)
            # Half as many again: a search that keeps to cheap configurations gets through more of them.
            after = 3 * horizon(case.figures) // 2 if strategy in scored else 0
            traces = cache.traces(case, strategy, max(*reach[strategy], after), seeds, run)
            found.setdefault(strategy, {})[case.name] = traces
    result = _result(cases, found, reach, scored, arguments)
    plot = Path(arguments.plot or Path(arguments.cache) / "search.svg")
    curves = {s: _curve(cases, found[s], max(reach[s])) for s in strategies}
    write_plot(plot, curves, result["paired"])
    print(f"plot: {plot}", file=sys.stderr)
    print(json.dumps(result) if arguments.json else table(result))
    return 0


def _whole_number(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _budgets(text: str) -> list[int]:
    return sorted({_whole_number(part) for part in text.split(",")})


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--spaces", default=MADE, help="folders of recorded spaces, and 'made', with commas")
    made.add_argument("--match", default="", help="only spaces whose names contain one of these, with commas")
    made.add_argument("--strategies", default=DEFAULT, help="names and groups, with commas")
    made.add_argument(
        "--budgets", type=_budgets, default="25,50,100,200", help="unique evaluations, failures counted"
    )
    made.add_argument("--seeds", type=_whole_number, default=30, help="searches of each space")
    made.add_argument("--slow-seeds", type=int, default=10, help="of " + ", ".join(SLOW) + "…, at most")
    made.add_argument("--slow-budget", type=int, default=200, help="of these, at most")
    made.add_argument("--cache", default=str(ROOT / "build" / "search-benchmark"), help="folder of traces")
    made.add_argument(
        "--no-score", action="store_true", help="no P, and searches end at the last budget (much quicker)"
    )
    made.add_argument("--plot", default="", help="SVG file to write; search.svg in the cache when left out")
    return made.parse_args()


def _cases(folders: list[str], matches: list[str], cache: Path) -> list[Case]:
    paths = []
    for folder in folders:
        paths += write_made(cache / MADE, matches) if folder == MADE else sorted(Path(folder).glob("*.json*"))
    wanted = [path for path in paths if any(match in path.name for match in matches)]
    return [case for case in map(load_case, wanted) if case.complete()]


def _result(
    cases: list[Case],
    found: dict[str, dict[str, list[Trace]]],
    reach: dict[str, list[int]],
    scored: set[str],
    arguments: Any,
) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    parts: dict[str, dict[str, list[list[float]]]] = {}
    for strategy, by_case in found.items():
        budgets = reach[strategy]
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
        "command": f"python benchmarks/search.py --spaces DIR --strategies {arguments.strategies} "
        f"--seeds {arguments.seeds} --budgets {','.join(map(str, arguments.budgets))}"
        + " --no-score"
        * arguments.no_score,
        "seeds": arguments.seeds,
        "budgets": sorted({b for each in reach.values() for b in each}),
        "strategies": rows,
        "paired": _paired(parts, reach),
    }


def _mean_fraction(spaces: dict[str, Any], budgets: list[int]) -> dict[str, float]:
    """The mean over spaces of the median fraction at each budget."""
    return {str(b): sum(s["fraction"][str(b)][0] for s in spaces.values()) / len(spaces) for b in budgets}


def _mean_p(cases: list[Case], by_case: dict[str, list[Trace]]) -> tuple[float, float, float]:
    """P averaged over spaces, seed by seed, with the 95% interval over seeds."""
    scores = [score_p(case.figures, by_case[case.name]) for case in cases]
    return interval([sum(column) / len(column) for column in zip(*scores, strict=True)])


def _paired(parts: dict[str, dict[str, list[list[float]]]], reach: dict[str, list[int]]) -> dict[str, Any]:
    """The first strategy minus each other: mean over spaces, seed by seed of both, with its 95% interval.

    One seed has no interval, so nothing is said of it.
    """
    first, *others = parts
    made: dict[str, Any] = {}
    for other in others:
        made[other] = {}
        for budget in sorted({*reach[first]} & {*reach[other]}):
            i, j = reach[first].index(budget), reach[other].index(budget)
            columns = [
                [a[i] - b[j] for a, b in zip(parts[first][c], parts[other][c], strict=False)]
                for c in parts[first]
            ]
            differences = [sum(c) / len(c) for c in zip(*columns, strict=True)]
            if len(differences) > 1:
                made[other][str(budget)] = interval(differences)
    return {other: found for other, found in made.items() if found}


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


if __name__ == "__main__":
    sys.exit(main())
