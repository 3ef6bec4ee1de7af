"""What the cost model is worth: on recorded GPU spaces, in searches over them, and on pass sequences of host kernels.

Needs a folder of recorded spaces (``--spaces``). The part ``edits`` tunes sources with a library of other kernels' runs
(``--earlier``) and without one. The parts ``host``, ``pools``, ``host-search`` and ``host-wall`` keep run records of
the host examples in ``--runs``, the last two in folders of their own, and make what is missing.

Every figure is a mean over spaces of means over seeds, its interval a bootstrap over spaces.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import ROOT, machine, parser
from _cost_bounds import bounds
from _cost_edits import compare_libraries
from _cost_host import KEPT, compare_features, compare_runs, compare_walls, make_runs
from _cost_landscapes import search_landscapes
from _cost_left_out import left_out
from _cost_pools import HOW, evaluations_over_plain, search_pools
from _cost_runs import search
from _cost_transfer import ratios, transfer
from _search_runs import Case, load_case

from tuner.core.protocols import Known
from tuner.core.streams import stream
from tuner.cost_models.calibration import LARGEST_CUT
from tuner.cost_models.configurations import configuration_features
from tuner.cost_models.screen import Screen

MARGINS = (1.0, 1.25, 1.5, 2.0)
OWN_MARGIN = 1.25
REST = 3000


def main() -> int:
    arguments = _arguments()
    paths = sorted(p for p in Path(arguments.spaces).glob("*.json*") if arguments.match in p.name)
    cases = [case for case in map(load_case, paths) if case.complete()]
    if not cases and not arguments.parts.startswith(("host", "edits", "landscapes", "pools")):
        print(
            f"no complete recorded space in {arguments.spaces}; name a folder with --spaces", file=sys.stderr
        )
        return 2
    parts: dict[str, Callable[[], Any]] = {
        "screen": lambda: _screen(cases, arguments.seeds, shuffled=False),
        "shuffled": lambda: _screen(cases, arguments.seeds, shuffled=True),
        "search": lambda: _search(
            cases, arguments.strategies.split(","), arguments.seeds, arguments.evaluations
        ),
        "unseen": lambda: _unseen(
            cases, arguments.strategies.split(","), arguments.seeds, arguments.evaluations
        ),
        "transfer": lambda: _transfer(
            cases, arguments.strategies.split(","), arguments.seeds, arguments.evaluations
        ),
        "edits": lambda: compare_libraries(
            Path(arguments.earlier),
            Path(arguments.runs),
            numerics=arguments.numerics,
            seeds=arguments.seeds,
            evaluations=arguments.evaluations,
            match=arguments.match,
        ),
        "bounds": lambda: bounds(cases, arguments.seeds, arguments.evaluations),
        "host": lambda: _host(Path(arguments.runs), arguments.seeds, arguments.evaluations, arguments.match),
        "host-wall": lambda: compare_walls(
            Path(arguments.runs),
            arguments.strategies.split(",")[0],
            arguments.seeds,
            arguments.evaluations,
            arguments.match,
        ),
        "landscapes": lambda: search_landscapes(Path(arguments.runs), arguments.seeds, arguments.evaluations),
        "pools": lambda: _pools(
            Path(arguments.runs), arguments.seeds, arguments.evaluations, arguments.match
        ),
        "host-search": lambda: _host_search(
            Path(arguments.runs),
            arguments.strategies.split(","),
            arguments.seeds,
            arguments.evaluations,
            arguments.match,
        ),
    }
    result: dict[str, Any] = {"schema_version": 1, "machine": machine(), "seeds": arguments.seeds}
    for name in arguments.parts.split(","):
        started = time.monotonic()
        result[name] = parts[name]()
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        if not arguments.json:
            print(json.dumps({name: result[name]}, indent=1), flush=True)
    if arguments.json:
        print(json.dumps(result))
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--spaces", default=str(ROOT / "spaces-recorded"), help="folder of recorded spaces")
    made.add_argument(
        "--runs",
        default=str(ROOT / "tuner-runs"),
        help="folder of run records of a part host, pools or host-search",
    )
    made.add_argument("--match", default="", help="only spaces or examples whose file name contains this")
    made.add_argument(
        "--parts",
        default="screen,shuffled,search,transfer",
        help="and unseen, bounds, host, pools, host-search, host-wall, edits, landscapes",
    )
    made.add_argument(
        "--strategies",
        default="random,surrogate",
        help="of the parts search (also evolution), transfer, host-search",
    )
    made.add_argument(
        "--earlier", default=str(ROOT / "tuner-runs"), help="folder of finished runs of remix.py, for edits"
    )
    made.add_argument("--numerics", default="exact", help="of the part edits")
    made.add_argument("--seeds", type=int, default=20, help="repetitions on each space")
    made.add_argument("--evaluations", type=int, default=400, help="of one search at most")
    return made.parse_args()


def over_spaces(by_space: Mapping[str, Sequence[float]], draws: int = 2000) -> list[float]:
    """Mean over spaces of the means over seeds, with its 95% interval by resampling spaces."""
    means = np.array([np.mean(values) for values in by_space.values()])
    rng = np.random.default_rng(0)
    drawn = means[rng.integers(len(means), size=(draws, len(means)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return [round(float(v), 4) for v in (means.mean(), low, high)]


def _screen(cases: list[Case], seeds: int, *, shuffled: bool) -> dict[str, Any]:
    """Goals 1, 2 and 4: a random sample is measured, the rest is screened once."""
    found: dict[int, list[dict[str, Any]]] = {}
    for case in cases:
        rows = case.recorded.configurations()
        features = [configuration_features(values) for values, _ in rows]
        noise = _noise(case)
        works = np.flatnonzero(np.isfinite(case.figures.times))
        for count in (50, 100, 300):
            for seed in range(seeds):
                rng = stream(seed, f"screen/{case.name}", count)
                found.setdefault(count, []).append(
                    {"space": case.name, **_one(case, features, works, noise, count, rng, shuffled=shuffled)}
                )
    return {str(count): _scores(ones) for count, ones in found.items()}


def _noise(case: Case) -> float:
    """The larger of 2% and the best row's own spread, as a share of its time."""
    best = list(case.recorded.rows.values())[int(np.argmin(case.figures.times))]
    spread = float(np.std(best.times_s) / np.mean(best.times_s)) if len(best.times_s) > 1 else 0.0
    return max(0.02, spread)


def _one(
    case: Case,
    features: list[dict[str, float]],
    works: Any,
    noise: float,
    count: int,
    rng: np.random.Generator,
    *,
    shuffled: bool,
) -> dict[str, Any]:
    times = case.figures.times
    chosen = rng.choice(works, count, replace=False)
    rest = np.setdiff1d(works, chosen)
    best = rest[np.argmin(times[rest])]
    if len(rest) > REST:
        rest = np.union1d(rng.choice(rest, REST, replace=False), [best])
    shown = rng.permutation(len(features)) if shuffled else np.arange(len(features))
    known = [
        Known(trial=i, features=features[shown[r]], tried=True, score=float(np.log(times[r])))
        for i, r in enumerate(chosen)
    ]
    pool = [features[shown[r]] for r in rng.choice(rest, min(512, len(rest)), replace=False)]
    started = time.process_time()
    answer = Screen().screen(known, [features[shown[r]] for r in rest], pool)
    fit_s = time.process_time() - started
    order = np.argsort([g.place for g in answer.guesses], kind="stable")
    places = np.array([g.place for g in answer.guesses])

    def regret(kept: Any) -> float:
        return float(times[rest[kept]].min() / times[best] - 1) if len(kept) else np.inf

    cut = 1.0 if answer.cut is None else answer.cut
    raw = (cut - 1.0 / answer.fitted) / OWN_MARGIN
    by_margin = {}
    for margin in MARGINS:
        own = min(1.0, margin * raw + 1.0 / answer.fitted)
        kept = (
            np.flatnonzero(places <= own)
            if answer.cut is not None and own <= LARGEST_CUT
            else np.arange(len(rest))
        )
        by_margin[str(margin)] = [bool(regret(kept) <= noise), len(kept) / len(rest)]
    kept = np.flatnonzero(places <= cut) if answer.cut is not None else np.arange(len(rest))
    random = rng.choice(len(rest), max(1, len(kept)), replace=False)
    share = int(KEPT * len(rest))
    return {
        "good": bool(regret(kept) <= noise),
        "random_good": bool(regret(random) <= noise),
        "kept": len(kept) / len(rest),
        "abstains": answer.cut is None,
        "best_kept": bool(best in rest[order[:share]]) if answer.why == "" or len(places) else False,
        "random_best_kept": bool(best in rest[rng.choice(len(rest), share, replace=False)]),
        "by_margin": by_margin,
        "fit_s": fit_s,
    }


def _scores(ones: list[dict[str, Any]]) -> dict[str, Any]:
    def column(name: str, some: list[dict[str, Any]] = ones) -> list[float]:
        by: dict[str, list[float]] = {}
        for one in some:
            by.setdefault(one["space"], []).append(float(one[name]))
        return over_spaces(by)

    names = ("good", "random_good", "kept", "abstains", "best_kept", "random_best_kept", "fit_s")
    made: dict[str, Any] = {name: column(name) for name in names}
    made["left_out"] = _left_out(ones)
    return made


def _left_out(ones: list[dict[str, Any]]) -> dict[str, Any]:
    """The margin for each space as the other spaces would choose it: the least that was good in 95% of runs."""
    spaces = sorted({one["space"] for one in ones})
    good: dict[str, list[float]] = {}
    kept: dict[str, list[float]] = {}
    chosen: dict[str, float] = {}
    for space in spaces:
        others = [one for one in ones if one["space"] != space]
        enough = [m for m in MARGINS if np.mean([o["by_margin"][str(m)][0] for o in others]) >= 0.95]
        chosen[space] = enough[0] if enough else MARGINS[-1]
        own = [one["by_margin"][str(chosen[space])] for one in ones if one["space"] == space]
        good[space], kept[space] = [float(o[0]) for o in own], [o[1] for o in own]
    return {"margin": chosen, "good": over_spaces(good), "kept": over_spaces(kept)}


def _search(cases: list[Case], strategies: list[str], seeds: int, evaluations: int) -> dict[str, Any]:
    """Goal 3: evaluations to within 2%, and wall time with what evaluations cost as recorded."""
    made: dict[str, Any] = {}
    for strategy in strategies:
        ratios: dict[str, list[float]] = {}
        slower: dict[str, list[float]] = {}
        rows: dict[str, Any] = {}
        for case in cases:
            space = case.space()
            space.listing()
            rare = float((case.figures.times <= 1.02 * case.figures.optimum).mean())
            counts: dict[bool, list[int]] = {False: [], True: []}
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for model in (False, True):
                for seed in range(seeds):
                    done = search(case, space, strategy, seed, evaluations, model=model, enough=1.02)
                    counts[model].append(len(done.rows))
                    tried = [r for r in done.rows if r >= 0]
                    seconds[model].append(
                        float(case.figures.costs[tried].sum()) + done.model_s + done.search_s
                    )
            plain, screened = float(np.mean(counts[False])), float(np.mean(counts[True]))
            rows[case.name] = {
                "within_2pc": round(rare, 5),
                "without": plain,
                "with": screened,
                "unfound": [sum(c >= evaluations for c in counts[m]) / seeds for m in (False, True)],
                "seconds": [round(float(np.mean(seconds[m])), 2) for m in (False, True)],
            }
            print(json.dumps({strategy: {case.name: rows[case.name]}}), file=sys.stderr, flush=True)
            if rare < 0.01:
                ratios[case.name] = [screened / plain]
                slower[case.name] = [float(np.mean(seconds[True]) / np.mean(seconds[False]))]
        made[strategy] = {"ratio": over_spaces(ratios), "seconds_ratio": over_spaces(slower), "spaces": rows}
    return made


def _unseen(cases: list[Case], strategies: list[str], seeds: int, evaluations: int) -> dict[str, Any]:
    """Goal 3 with the ranking's numbers chosen for each kernel by the others."""
    made: dict[str, Any] = {}
    for strategy in strategies:
        found = left_out(cases, strategy, seeds, evaluations)
        for name in ("ratios", "own"):
            found[f"{name}_mean"] = over_spaces({space: [r] for space, r in found[name].items()})
        made[strategy] = found
    return made


def _transfer(cases: list[Case], strategies: list[str], seeds: int, evaluations: int) -> dict[str, Any]:
    """Goal 5: what earlier runs of the same kernel on other cards are worth, and misleading ones."""
    made: dict[str, Any] = {}
    for strategy in strategies:
        rows = transfer(cases, strategy, seeds, evaluations)
        made[strategy] = {"ratios": ratios(rows, over_spaces), "targets": rows}
    return made


def _host(folder: Path, seeds: int, evaluations: int, match: str) -> dict[str, Any]:
    """Goal 6, on the run records of a folder; they are made where there are none."""
    make_runs(folder, evaluations, match)
    found = compare_features(sorted(folder.glob("*.run")), seeds)
    return {
        kind: {
            "within_2pc_at_30pc_kept": over_spaces(one["good"]),
            "place_of_the_best": over_spaces(one["place"]),
            "runs": {name: round(float(np.mean(values)), 3) for name, values in one["place"].items()},
        }
        for kind, one in found.items()
        if one["good"]
    }


def _pools(folder: Path, seeds: int, evaluations: int, match: str) -> dict[str, Any]:
    """Goal 3 on pass trials: the run records of part host, searched again and again."""
    make_runs(folder, evaluations, match)
    found = search_pools(sorted(p for p in folder.glob("*.run") if match in p.stem), seeds)
    over = {name: over_spaces(evaluations_over_plain(found, name)) for name in HOW if found}
    return {"evaluations_over_plain": over, "runs": found}


def _host_search(
    folder: Path, strategies: list[str], seeds: int, evaluations: int, match: str
) -> dict[str, Any]:
    """Goal 3 on the host examples: evaluations and seconds with the model over those without it."""
    made: dict[str, Any] = {}
    for strategy in strategies:
        found = compare_runs(folder, strategy, seeds, evaluations, match)
        ratios = {
            what: {
                name: [float(np.mean([b for _, b in one[what]]) / np.mean([a for a, _ in one[what]]))]
                for name, one in found.items()
            }
            for what in ("evaluations", "seconds")
        }
        made[strategy] = {
            "ratio": over_spaces(ratios["evaluations"]),
            "seconds_ratio": over_spaces(ratios["seconds"]),
            "examples": found,
        }
    return made


if __name__ == "__main__":
    sys.exit(main())
