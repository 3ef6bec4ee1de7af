"""What a proposal of the searcher ``surrogate`` costs: CPU milliseconds of ask and tell, fits included.

Spaces are made up: ordered, categorical and boolean parameters under a constraint, of about the sizes asked for.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import machine, parser

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Status
from tuner.search import registry
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space


def main() -> int:
    made = parser(__doc__)
    made.add_argument("--sizes", default="1000,10000,100000,1000000", help="configurations, about")
    made.add_argument("--trials", default="50,100,200,500", help="where to look")
    made.add_argument("--strategy", default="surrogate", help="a searcher by name")
    arguments = made.parse_args()
    trials = [int(t) for t in arguments.trials.split(",")]
    rows = [_row(int(size), trials, arguments.strategy) for size in arguments.sizes.split(",")]
    result = {"schema_version": 1, "machine": machine(), "strategy": arguments.strategy, "rows": rows}
    print(json.dumps(result) if arguments.json else _table(rows))
    return 0


def _space(size: int) -> Space:
    """Seven parameters; the length of one makes up the size, of which the constraint takes a part."""
    fixed = 5 * 5 * 4 * 3 * 2 * 2
    steps = max(2, round(1.35 * size / fixed))
    return Space(
        [
            Parameter.choice("BX", [16, 32, 64, 128, 256]),
            Parameter.choice("BY", [1, 2, 4, 8, 16]),
            Parameter.choice("TX", [1, 2, 3, 4]),
            Parameter.choice("ORDER", ["row", "column", "tiled"]),
            Parameter.choice("PAD", [False, True]),
            Parameter.choice("VEC", [1, 2]),
            Parameter.choice("STEP", list(range(1, steps + 1))),
        ],
        [parse("BX * BY <= 1024")],
    )


def _row(size: int, trials: list[int], strategy: str) -> dict[str, Any]:
    space = _space(size)
    space.listing()
    searcher = registry.create(strategy, space)
    rng = np.random.default_rng(0)
    spent = []
    for trial in range(max(trials)):
        started = time.process_time()
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        asked = time.process_time() - started
        c = proposal.configuration
        score = abs(np.log2(c["BX"] * c["BY"]) - 8) + 0.1 * c["TX"] + 0.3 * c["PAD"] + 0.01 * rng.random()  # type: ignore[operator]
        failed = rng.random() < 0.1
        status = Status.CRASHED if failed else Status.OK
        seen = Observation(
            trial=trial, proposal=proposal, status=status, score=None if failed else float(score)
        )
        started = time.process_time()
        searcher.tell([seen])
        spent.append(asked + time.process_time() - started)
    return {
        "configurations": len(space.listing() or ()),
        "mean_ms": {str(t): 1e3 * float(np.mean(spent[max(0, t - 30) : t])) for t in trials},
        "median_ms": {str(t): 1e3 * float(np.median(spent[max(0, t - 30) : t])) for t in trials},
    }


def _table(rows: list[dict[str, Any]]) -> str:
    lines = ["CPU ms a proposal, mean (median) of the 30 up to the trial"]
    for row in rows:
        cells = [f"{t}: {row['mean_ms'][t]:.1f} ({row['median_ms'][t]:.1f})" for t in row["mean_ms"]]
        lines.append(f"{row['configurations']:>9} configurations  " + "  ".join(cells))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
