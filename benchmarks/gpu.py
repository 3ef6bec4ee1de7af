"""CUDA examples on a card: best found against default, nvcc, Kernel Tuner, a vendor library and the roofline.

For each spec one run of this tuner and, where it is installed, one of Kernel Tuner over the same parameters for the
same time; where pass pipelines can be run (extra `cuda-passes`), one more with them. Then the default, the winners,
LLVM's own O3 of the default and nvcc's code for it are timed in fresh processes, interleaved.
One command, which ends by itself within ten minutes:

    python benchmarks/gpu.py [--specs DIR] [--minutes 9] [--seed 0] [--out FILE] [--json]
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from _common import EXAMPLES, altered, emit, note, parser, table
from _gpu_rivals import Unavailable, kernel_tuner_best, library_call_s, work_of

from tuner.core import statistics
from tuner.core.errors import MachineError
from tuner.core.streams import stream
from tuner.core.types import Build, BuildRequest, Resolved, Status
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.cuda.device import Device, describe_device
from tuner.evaluators.cuda.nvml import Watch
from tuner.spaces.space import PASSES, Space
from tuner.spec.load import LoadedSpec, load_spec

PROCESSES = 8
CALLS = 15
COMPARE_FROM = 60_000
LANES = 128
"""Single-precision lanes of a multiprocessor, compute capability 8.6 and newer data-centre parts."""
COMPARE_SHARE = 0.35


def own_best(
    spec: LoadedSpec, minutes: float, seed: int, folder: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our run: the best configuration, claimed or not, and the run's figures."""
    outcome = begin(spec, folder / f"{spec.name}.run", Options(minutes=minutes, seed=seed))
    summary = outcome.summary
    trial = summary.candidate or summary.best
    return dict(trial.proposal.configuration), outcome.to_json()


def compare(
    spec: LoadedSpec, space: Space, configurations: Mapping[str, Mapping[str, Any]], seed: int, until: float
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Median seconds in fresh processes by side, in random order, and why a side is missing."""
    backend = CudaBackend()
    evaluation = backend.prepare(spec.task_with(seed=seed), workers=4)
    missing: dict[str, str] = {}
    try:
        sides = _sides(spec, space, evaluation, configurations, missing)
        evaluation.set_baseline(*sides["default"])
        times: dict[str, list[float]] = {name: [] for name in sides}
        for process in range(PROCESSES):
            if process >= 4 and time.monotonic() > until:
                break
            for i in stream(seed, "order/compare", process).permutation(len(sides)):
                name = list(sides)[i]
                build, resolved = sides[name]
                session = evaluation.open(build, resolved, purpose="confirm", number=COMPARE_FROM + process)
                try:
                    verdict = session.verify()
                    if verdict.status is not Status.OK:
                        missing[name] = f"{verdict.status}: {verdict.message}"
                        continue
                    measured = session.measure(problem=0, calls=CALLS)
                    if measured.status is Status.OK:
                        times[name].append(statistics.median(measured.times_s))
                    else:
                        missing[name] = f"{measured.status}: {measured.message}"
                finally:
                    session.close()
        return times, missing
    finally:
        evaluation.close()


def _sides(
    spec: LoadedSpec,
    space: Space,
    evaluation: CudaEvaluation,
    configurations: Mapping[str, Mapping[str, Any]],
    missing: dict[str, str],
) -> dict[str, tuple[Build, Resolved]]:
    variant = spec.task.kernel.variant
    sides: dict[str, tuple[Build, Resolved]] = {}
    for name, chosen in {"default": {}, **configurations}.items():
        resolved = space.resolve({**space.default(), **chosen})
        (build,) = evaluation.build([BuildRequest(trial=len(sides), variant=variant, resolved=resolved)])
        if build.status is Status.OK:
            sides[name] = (build, resolved)
        else:
            missing[name] = build.message
    _, resolved = sides["default"]
    nvcc = evaluation.build_with(["nvcc", "-O3"], resolved)
    if nvcc.status is Status.OK:
        sides["nvcc"] = (nvcc, resolved)
    else:
        missing["nvcc"] = nvcc.message
    return sides


def one(path: Path, given: Any, device: Device, until: float, folder: Path) -> dict[str, Any]:
    """All figures of one spec; ends about at ``until``."""
    (spec,) = load_spec(altered_target(path, folder / path.stem, passes="off"))
    (with_passes,) = load_spec(altered_target(path, folder / f"{path.stem}-passes", passes={}))
    catalogue = CudaBackend().pass_catalogue()
    space, wide = spec.space(None), with_passes.space(catalogue)
    runs = 3 if catalogue is not None else 2
    left = (until - time.monotonic()) * (1 - COMPARE_SHARE)
    note(f"{spec.name}: {left:.0f} s for searching")
    row: dict[str, Any] = {"spec": spec.name, "problem": dict(spec.task.problems[0].sizes)}
    missing: dict[str, str] = {}
    chosen: dict[str, Mapping[str, Any]] = {}
    best, row["run"] = own_best(spec, left / runs / 60, given.seed, folder)
    chosen["best"] = best
    if wide.passes is None:
        missing["passes"] = CudaBackend().passes_missing()
    else:
        best, row["run_with_passes"] = own_best(
            with_passes, left / runs / 60, given.seed, folder / f"{path.stem}-passes"
        )
        chosen["passes"] = best
        chosen["llvm"] = {PASSES: wide.passes.flattened}
    try:
        chosen["kernel_tuner"] = kernel_tuner_best(spec.task, space, left / runs)
    except Unavailable as error:
        missing["kernel_tuner"] = str(error)
    times, more = compare(with_passes, wide, chosen, given.seed, until)
    row["times_s"], row["configurations"] = times, {k: dict(v) for k, v in chosen.items()}
    flush = max(64 << 20, 8 * device.l2_bytes)
    operations, moved = work_of(spec.name, spec.task)
    try:
        warm = spec.task.measure.cache == "warm" and 2 * moved <= device.l2_bytes
        row["library_s"] = library_call_s(spec.name, spec.task, flush_bytes=flush, warm=warm)
    except Unavailable as error:
        missing["library"] = str(error)
    row["missing"] = missing | more
    row["floor_s"] = floor_s(device, operations, moved)
    return row


def altered_target(path: Path, folder: Path, *, passes: Any) -> Path:
    """The spec for whatever card there is, with its passes set."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = altered(path, folder, {"space": {"passes": passes}})
    copy.write_text(copy.read_text().replace("target: sm_90", "target: native"))
    return copy


def floor_s(device: Device, operations: float, moved: float) -> float:
    """The roofline's time: bytes over the memory's bandwidth or operations over the peak, the longer."""
    facts = device.facts
    # Two transfers a clock; the driver gives the bus width in bits.
    bandwidth = 2.0 * facts["memory_clock_khz"] * 1e3 * facts["memory_bus_bits"] / 8
    watch = Watch(device.uuid)
    mhz = watch.describe().get("most_sm_mhz", facts["clock_khz"] / 1e3)
    watch.close()
    peak = 2.0 * LANES * facts["multiprocessors"] * mhz * 1e6
    return max(moved / bandwidth if bandwidth else 0.0, operations / peak if peak else 0.0)


def shown(row: Mapping[str, Any], name: str) -> str:
    """The ratio default / best against a side with its interval, or why there is none."""
    times = row["times_s"]
    if min(len(times.get(name, [])), len(times.get("best", []))) < 4:
        return "-"
    interval = statistics.log_ratio_interval(times[name], times["best"], 0.95)
    return f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


def report(rows: list[dict[str, Any]]) -> str:
    """The short table that comes last."""
    header = [
        "example",
        "default us",
        "best us",
        "default",
        "nvcc -O3",
        "LLVM O3",
        "with passes",
        "Kernel Tuner",
        "library",
        "of roofline",
    ]
    body, ratios = [], []
    for row in rows:
        best = statistics.median(row["times_s"]["best"]) if row["times_s"].get("best") else math.nan
        default = row["times_s"]["default"]
        library = f"{row['library_s'] / best:.2f}" if row.get("library_s") and best == best else "-"
        body.append(
            [
                row["spec"],
                f"{statistics.median(default) * 1e6:.1f}" if default else "-",
                f"{best * 1e6:.1f}",
                shown(row, "default"),
                shown(row, "nvcc"),
                shown(row, "llvm"),
                shown(row, "passes"),
                shown(row, "kernel_tuner"),
                library,
                f"{row['floor_s'] / best:.0%}" if best == best else "-",
            ]
        )
        if row["times_s"].get("kernel_tuner") and best == best:
            ratios.append(statistics.median(row["times_s"]["kernel_tuner"]) / best)
    text = (
        table(header, body)
        + "\nColumns from `default` on: that side's time over ours; over 1 ours is faster. `with passes` is our own"
        + "\nrun over pass pipelines too: under 1 the pipelines pay; `best` and `default` are NVRTC's code."
    )
    reasons = [f"{r['spec']}: {k}: {v}" for r in rows for k, v in r["missing"].items()]
    if reasons:
        text += "\nMissing: " + "; ".join(reasons)
    if ratios:
        mean = geometric_mean(ratios)
        text += f"\nGeometric mean over Kernel Tuner at equal time: {mean:.3f}"
    return text


def main() -> int:
    """Runs every spec within the time and prints the table."""
    arguments = parser(__doc__)
    arguments.add_argument("--specs", type=Path, default=EXAMPLES / "cuda", help="a folder of CUDA specs")
    arguments.add_argument("--minutes", type=float, default=9.0, help="for everything together")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--out", type=Path, help="also write all figures to this file")
    given = arguments.parse_args()
    try:
        device = describe_device()
    except MachineError as error:
        print(f"no GPU to measure on: {error}", file=sys.stderr)
        return 2
    paths = sorted(given.specs.glob("**/*.yaml"))
    end = time.monotonic() + 60 * given.minutes
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for i, path in enumerate(paths):
            now = time.monotonic()
            until = now + (end - now) / (len(paths) - i)
            rows.append(one(path, given, device, until, Path(scratch)))
    environment = dict(CudaBackend().environment("native"))
    figures = {"device": device.name, "environment": environment, "rows": rows}
    if given.out is not None:
        given.out.write_text(json.dumps(figures, indent=1))
    emit(
        given.json, figures, f"{device.name}, driver {environment['gpu'].get('driver', '?')}\n{report(rows)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
