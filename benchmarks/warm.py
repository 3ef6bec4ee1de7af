"""Whether a kernel's first calls in a process are as fast as its later ones, and honest code is ever refused.

    python benchmarks/warm.py [--sessions 12] [--batches 4] [--calls 5] [--runs FOLDER] [SPEC…] [--json]

Opens a session after the other of the same code (the spec's default or, with ``--runs``, the winner of each record in
that folder) and times some batches in each. *first over rest*: least time of the first batch over that of the later
ones, the median over sessions. *spread*: of the sessions' least times without the first batch, 90% over 10% quantile.
*refused*: sessions in which a measurement was not believed; the code is honest, so none should be.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import ROOT, emit, machine, note, parser, table

from tuner.core.protocols import Evaluation
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status, Variant
from tuner.driver.opening import open_lineup
from tuner.driver.state.lineage import ORIGINAL
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec

KERNELS = ROOT / "benchmarks" / "kernels"
Case = tuple[str, LoadedSpec, Resolved, Variant, Resolved]
"""A name, the spec, the baseline's configuration, and what is timed."""


def main() -> int:
    given = _arguments()
    backend, rows = HostBackend(), {}
    for name, spec, default, variant, resolved in _cases(given, backend):
        evaluation = backend.prepare(spec.task_with(seed=0), workers=1)
        try:
            baseline = BuildRequest(trial=BASELINE, variant=spec.task.kernel.variant, resolved=default)
            (base,) = evaluation.build([baseline])
            evaluation.set_baseline(base, default)
            (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved)])
            rows[name] = _row(given, evaluation, build, resolved)
        finally:
            evaluation.close()
        note(f"{name}: {rows[name]}")
    figures = {"machine": machine(), "sessions": given.sessions, "kernels": rows}
    names = ["us", "first over rest", "spread", "refused"]
    emit(
        given.json, figures, table(["kernel", *names], [[k, *(r[n] for n in names)] for k, r in rows.items()])
    )
    return 0


def _arguments() -> Any:
    made = parser(__doc__)
    made.add_argument("specs", nargs="*", type=Path, help="default: all of benchmarks/kernels")
    made.add_argument("--sessions", type=int, default=12, help="processes of each kernel")
    made.add_argument("--batches", type=int, default=4, help="in each")
    made.add_argument("--calls", type=int, default=5, help="in each batch")
    made.add_argument("--runs", type=Path, help="folder of records whose winners are timed instead")
    return made.parse_args()


def _cases(given: Any, backend: HostBackend) -> Iterator[Case]:
    for path in sorted(given.runs.glob("*.run")) if given.runs else ():
        with RunRecord.read(path) as record:
            state, spec, lineup = open_lineup(record)
        if state.best is not None:
            space = lineup.space(ORIGINAL)
            yield path.stem, spec, space.resolve(space.default()), *lineup.of_trial(state.best)
    for path in () if given.runs else given.specs or sorted(KERNELS.glob("*.yaml")):
        (spec,) = load_spec(path)
        space = spec.space(backend.pass_catalogue(spec.task.target) if spec.wants_passes else None)
        default = space.resolve(space.default())
        yield path.stem, spec, default, spec.task.kernel.variant, default


def _row(given: Any, evaluation: Evaluation, build: Build, resolved: Resolved) -> dict[str, Any]:
    firsts, rests, refused = list[float](), list[float](), 0
    for number in range(given.sessions):
        session = evaluation.open(build, resolved, purpose="search", number=number)
        try:
            session.verify()
            made = [session.measure(problem=0, calls=given.calls) for _ in range(given.batches)]
        finally:
            session.close()
        if any(m.status is not Status.OK for m in made):
            refused += 1
            continue
        firsts.append(min(made[0].times_s))
        rests.append(min(t for m in made[1:] for t in m.times_s))
    if not rests:
        return {"us": None, "first over rest": None, "spread": None, "refused": refused}
    low, high = np.quantile(rests, [0.1, 0.9])
    return {
        "us": round(float(np.median(rests)) * 1e6, 1),
        "first over rest": round(float(np.median(np.array(firsts) / np.array(rests))), 2),
        "spread": round(float(high / low), 2),
        "refused": refused,
    }


if __name__ == "__main__":
    sys.exit(main())
