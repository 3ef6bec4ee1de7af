"""A product of 768 by 768 matrices from its naive loops, against OpenBLAS on one thread.

The spec in ``benchmarks/naive`` is tuned without an LLM; what the run has confirmed is exported and linked, and its
calls alternate with NumPy's product in fresh processes, in which OpenBLAS takes the code that it has for this
processor: what the environment says about that is left out. A run that is there already is gone on with.

    python benchmarks/matmul.py [--minutes 10] [--evaluations N] [--seed 0] [--run FILE] [--processes 12] [--json]
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _one_thread  # noqa: F401
import numpy as np
from _common import ROOT, emit, machine, note, parser
from threadpoolctl import threadpool_info

from tuner.api import load
from tuner.core.statistics import log_ratio_interval
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.runs import begin, resume
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.load import load_spec

SPEC = ROOT / "benchmarks" / "naive" / "matmul.yaml"
N = 768
CALLS = 15
UNLIMITED = 1_000_000


def tuned(record: Path, minutes: float, evaluations: int, seed: int) -> Outcome:
    """The run: the one that is there, the rest of one that was cut short, or a new one."""
    if record.exists():
        found = load(record).outcome
        return resume(record) if found.interrupted else found
    (spec,) = load_spec(SPEC)
    return begin(spec, record, Options(minutes=minutes, evaluations=evaluations, seed=seed))


def library(record: Path, folder: Path) -> Path:
    """The exported object as a shared library."""
    (code,) = [p for p in export(record, folder) if p.suffix == ".o"]
    made = folder / "matmul.so"
    subprocess.run([str(find_toolchain().clang), "-shared", str(code), "-o", str(made), "-lm"], check=True)
    return made


def alternating(path: Path) -> dict[str, Any]:
    """Medians of calls that take turns, in seconds of this thread, and the largest difference of the results."""
    product = ctypes.CDLL(str(path)).matmul
    rng = np.random.default_rng()
    a, b = (rng.uniform(-1, 1, (N, N)).astype(np.float32) for _ in range(2))
    ours, theirs = (np.zeros((N, N), np.float32) for _ in range(2))
    places = [ctypes.c_void_p(m.ctypes.data) for m in (a, b, ours)]
    times: dict[str, list[float]] = {"tuned": [], "openblas": []}
    for number in range(CALLS + 1):
        begin_s = time.thread_time()
        product(*places, ctypes.c_int(N))
        between_s = time.thread_time()
        np.matmul(a, b, out=theirs)
        end_s = time.thread_time()
        if number:  # the first calls warm up
            times["tuned"].append(between_s - begin_s)
            times["openblas"].append(end_s - between_s)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {**medians, "difference": float(np.abs(ours - theirs).max()), "code": code_of_openblas()}


def code_of_openblas() -> str:
    """Which processor's code NumPy's OpenBLAS has taken; SciPy may have brought another one."""
    loaded = [found for found in threadpool_info() if found["internal_api"] == "openblas"]
    return str(min(loaded, key=lambda found: "numpy" not in found["filepath"])["architecture"])


def free_choice() -> dict[str, str]:
    """The environment without what chooses OpenBLAS's code for another processor than this one."""
    kept = {"OPENBLAS_NUM_THREADS"}
    return {name: v for name, v in os.environ.items() if not name.startswith("OPENBLAS_") or name in kept}


def compared(path: Path, processes: int) -> dict[str, Any]:
    """Figures over fresh processes: our time over OpenBLAS's with an interval of 95%."""
    samples = []
    for _ in range(processes):
        command = [sys.executable, str(Path(__file__).resolve()), "--pair", str(path)]
        made = subprocess.run(command, check=True, capture_output=True, text=True, env=free_choice())
        samples.append(json.loads(made.stdout))
    ratio = log_ratio_interval([s["tuned"] for s in samples], [s["openblas"] for s in samples])
    return {
        "tuned_s": statistics.median(s["tuned"] for s in samples),
        "openblas_s": statistics.median(s["openblas"] for s in samples),
        "ratio": [ratio.value, ratio.low, ratio.high],
        "largest_difference": max(s["difference"] for s in samples),
        "openblas_code": samples[0]["code"],
        "processes": processes,
    }


def main() -> None:
    """Tunes, exports, compares."""
    arguments = parser(__doc__)
    arguments.add_argument("--minutes", type=float, default=10.0)
    arguments.add_argument(
        "--evaluations",
        type=int,
        default=UNLIMITED,
        help="end the search earlier; the rest is for confirming",
    )
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--run", type=Path, help="the record; kept, and gone on with where it is there")
    arguments.add_argument("--processes", type=int, default=12)
    arguments.add_argument("--pair", type=Path, help="only time this library, as one of the processes")
    given = arguments.parse_args()
    if given.pair is not None:
        print(json.dumps(alternating(given.pair)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        record = given.run or Path(scratch) / "matmul.run"
        record.parent.mkdir(parents=True, exist_ok=True)
        outcome = tuned(record, given.minutes, given.evaluations, given.seed)
        note(f"confirmed: {outcome.summary.claim}, {outcome.summary.speedup[0]:.1f} times the naive loops")
        figures = compared(library(record, Path(scratch) / "exported"), given.processes)
    lineage = outcome.summary.evolution
    figures |= {
        "machine": machine(),
        "minutes": given.minutes,
        "claim": outcome.summary.claim,
        "speedup": list(outcome.summary.speedup),
        "edits": [] if lineage is None else [e["op"] for e in lineage.edits],
        "trials": dict(outcome.summary.trials),
        "wall_s": outcome.summary.wall_s,
    }
    ratio = figures["ratio"]
    text = (
        f"tuned {1e3 * figures['tuned_s']:.2f} ms, "
        f"OpenBLAS ({figures['openblas_code']}) {1e3 * figures['openblas_s']:.2f} ms: "
        f"{ratio[0]:.2f} [{ratio[1]:.2f}, {ratio[2]:.2f}] of its time; {figures['claim']}, "
        f"{figures['speedup'][0]:.0f} times the naive loops; {' '.join(figures['edits'])}"
    )
    emit(given.json, figures, text)


if __name__ == "__main__":
    main()
