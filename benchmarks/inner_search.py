"""Searches inside variants of recorded runs: how soon each finds the best of a variant's tunables, flags and passes.

Every variant that a recorded run gave a dozen trials is searched anew from where it began, with the searcher that a run
would give it, until so many new codes are seen. Times are shared with ``advice.py``, which makes the runs.
Two versions of the tuner are compared by two files:

    python benchmarks/advice.py --folder DIR --arm alone --evaluations 100
    python benchmarks/inner_search.py --folder DIR --out A.json [--arm alone] [--origin library] [--codes 32]
    python benchmarks/inner_search.py --figures A.json B.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import note, parser, table
from _shared_times import SharedTimes, Table
from _timing import Timing

from tuner.core.protocols import Observation, Searcher
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.driver.opening import open_lineup
from tuner.driver.state.lineage import ORIGINAL, VariantState
from tuner.driver.work.lineup import Lineup
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord

LEAST = 12
MOMENTS = (1, 4, 8, 16, 24, 32)
FEW, MANY = 4, 12
DRAWS = 4000


def main() -> int:
    given = _arguments()
    if given.figures:
        print(_figures(given.figures))
        return 0
    if given.folder is None or given.out is None:
        print("say --folder and --out, or --figures", file=sys.stderr)
        return 2
    done: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    backend = SharedTimes(HostBackend(), Table(given.folder / "times.sqlite"))
    try:
        for path in sorted((given.folder / given.arm).glob("*.run")):
            with RunRecord.read(path) as record:
                state, spec, lineup = open_lineup(record)
            timing = None
            for own in state.variants.values():
                key = f"{path.stem}/{own.number}"
                wanted = own.number != ORIGINAL and own.parameters and len(own.finished) >= LEAST
                if not wanted or key in done or given.origin not in (None, own.origin):
                    continue
                timing = timing or Timing(backend, spec, lineup)
                done[key] = _searched(lineup, timing, own, key, given)
                note(f"{key}: {done[key]['best'][-1]:.3f}")
                given.out.write_text(json.dumps(done))
    finally:
        backend.close()
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("--folder", type=Path, help="of advice.py")
    made.add_argument(
        "--out", type=Path, help="what was found, to be compared; is gone on with where it is there"
    )
    made.add_argument("--arm", default="alone", help="whose runs")
    made.add_argument("--origin", help="only variants of this origin")
    made.add_argument("--codes", type=int, default=MOMENTS[-1], help="new codes of each search")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--figures", nargs=2, type=Path, metavar="FILE", help="compare two")
    return made.parse_args()


def _searched(lineup: Lineup, timing: Timing, own: VariantState, key: str, given: Any) -> dict[str, Any]:
    """The best score after each new code."""
    searcher: Searcher = lineup.fresh(own.number)
    space = lineup.space(own.number)
    best: list[float] = []
    known: dict[str, tuple[int, float | None]] = {}
    for asked in range(4 * given.codes):
        proposals = searcher.ask(1, stream(given.seed, key, asked))
        if len(best) == given.codes or not proposals:
            break
        (proposal,) = proposals
        resolved = replace(space.resolve(proposal.configuration), launch=own.variant.launch)
        build = timing.build(own.variant, resolved)
        if build.key in known:
            of, score = known[build.key]
            told = Observation(
                trial=asked, proposal=proposal, status=Status.DUPLICATE, score=score, repeats=of
            )
        else:
            status, score = timing.score(build, resolved)
            known[build.key or str(asked)] = asked, score
            told = Observation(trial=asked, proposal=proposal, status=status, score=score)
            best.append(min([*best[-1:], *([] if score is None else [score])], default=0.0))
        searcher.tell([told])
    return {"tunables": len(own.parameters), "best": best}


def _figures(paths: Sequence[Path]) -> str:
    """Log time over the best that either found, by how many tunables the variants have."""
    one, two = (json.loads(path.read_text()) for path in paths)
    both = sorted(set(one) & set(two))
    least = {key: min(one[key]["best"][-1], two[key]["best"][-1]) for key in both}
    kinds = {
        "all": both,
        f"up to {FEW}": [k for k in both if one[k]["tunables"] <= FEW],
        f"{FEW + 1} to {MANY}": [k for k in both if FEW < one[k]["tunables"] <= MANY],
        f"more than {MANY}": [k for k in both if one[k]["tunables"] > MANY],
    }
    rng = np.random.default_rng(0)
    rows = []
    for kind, keys in kinds.items():
        if not keys:
            continue
        gaps = [np.array([_gaps(found[k]["best"], least[k]) for k in keys]) for found in (one, two)]
        apart = gaps[1] - gaps[0]
        drawn = apart[rng.integers(len(keys), size=(DRAWS, len(keys)))].mean(axis=1)
        low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
        for path, found in zip(paths, gaps, strict=True):
            rows.append([kind, str(len(keys)), path.stem, *(f"{v:.3f}" for v in found.mean(axis=0))])
        shown = [
            f"{v:+.3f} [{a:+.3f}, {b:+.3f}]" for v, a, b in zip(apart.mean(axis=0), low, high, strict=True)
        ]
        rows.append([kind, str(len(keys)), "apart", *shown])
    return table(["tunables", "variants", "", *(f"after {m}" for m in MOMENTS)], rows)


def _gaps(best: Sequence[float], least: float) -> list[float]:
    return [best[min(moment, len(best)) - 1] - least for moment in MOMENTS]


if __name__ == "__main__":
    sys.exit(main())
