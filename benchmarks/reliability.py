"""What is promised about hostile code, faults and claims, counted on the spot: one row for each promise.

Every count comes from a run made now. Rows that are tests elsewhere run those tests and count what they report.

    python benchmarks/reliability.py [--kills 40] [--flips 400] [--runs 60] [--rows exploits,kills,...] [--json]
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from _common import ROOT, emit, note, parser, table

from tuner.core.errors import MachineError
from tuner.core.streams import stream
from tuner.core.types import Resolved
from tuner.driver.audit import audit
from tuner.driver.faults import ENOUGH
from tuner.driver.options import Options
from tuner.driver.runs import begin, resume
from tuner.evaluators.host.openmp import find_openmp
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.recorders.audit import audit_file
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec, load_spec
from tuner.testing import SimulatedBackend

KERNEL = "void scale(const float *a, float *b, int n) { for (int i = 0; i < n; i++) b[i] = WIDTH * a[i]; }\n"

SPEC = """
kernel: {source: scale.c, entry: scale}
problem: {n: 256}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {WIDTH: {low: 1, high: 64}}
  passes: off
search: {strategy: random, budget: {evaluations: 20}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One promise: how often it was put to the test, how often it held, how often it has to."""

    promise: str
    tried: int
    held: int
    needed: str
    kept: bool


def tests(*words: str) -> tuple[int, int]:
    """How many tests ran and how many passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report}",
            *words,
        ]
        subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        suites = xml.parse(report).getroot().iter("testsuite")
        counts = [{k: int(s.get(k, 0)) for k in ("tests", "failures", "errors", "skipped")} for s in suites]
    ran = sum(c["tests"] - c["skipped"] for c in counts)
    return ran, ran - sum(c["failures"] + c["errors"] for c in counts)


def all_of(promise: str, *words: str) -> Row:
    """A row whose tests all have to pass."""
    ran, passed = tests(*words)
    return Row(promise=promise, tried=ran, held=passed, needed="all", kept=ran == passed > 0)


def spec_in(folder: Path) -> LoadedSpec:
    """A small spec for runs on a simulated backend."""
    (folder / "scale.c").write_text(KERNEL)
    (folder / "scale.yaml").write_text(SPEC)
    (spec,) = load_spec(folder / "scale.yaml")
    return spec


def landscape(resolved: Resolved) -> float:
    """Seconds of a call: every candidate has its own."""
    return 1e-3 * (1 + int(resolved.macros["WIDTH"]) % 17 / 40)


def kills(count: int) -> Row:
    """The tuner killed at random instants and resumed: nothing committed is lost, the result is the same."""
    held = 0
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = spec_in(folder)
        options = Options(seed=3, workers=2)
        started = time.monotonic()
        whole = begin(spec, folder / "whole.run", options, backend=SimulatedBackend(seconds=landscape))
        length_s = time.monotonic() - started
        for turn in range(count):
            path = folder / f"{turn}.run"
            if not _killed(spec, path, options, rng.uniform(0.02, length_s)):
                held += audit(path).clean
                continue
            if not path.exists():
                # Killed before there was a record: nothing to lose.
                held += 1
                continue
            before = _hashes(path)
            result = resume(path, backend=SimulatedBackend(seconds=landscape)) if before else None
            same = result is None or result.summary.speedup == whole.summary.speedup
            held += same and _hashes(path)[: len(before)] == before and (not before or audit(path).clean)
    return Row(
        promise="tuner killed, run resumed: no trial lost, same result",
        tried=count,
        held=held,
        needed="all",
        kept=held == count,
    )


def _killed(spec: LoadedSpec, path: Path, options: Options, after_s: float) -> bool:
    child = os.fork()
    if child == 0:
        try:
            begin(spec, path, options, backend=SimulatedBackend(seconds=landscape))
        finally:
            os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _hashes(path: Path) -> list[str]:
    with RunRecord.read(path) as record:
        return [event.hash for event in record.events()]


def flips(count: int) -> Row:
    """One bit of a closed record turned over, anywhere."""
    found = 0
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "a.run"
        begin(spec_in(folder), path, Options(seed=1, workers=2), backend=SimulatedBackend(seconds=landscape))
        whole = path.read_bytes()
        for _ in range(count):
            data = bytearray(whole)
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            path.write_bytes(bytes(data))
            found += any(finding.error for finding in audit_file(path))
    return Row(promise="a flipped bit is found", tried=count, held=found, needed="all", kept=found == count)


def claims(count: int) -> Row:
    """Runs on identical code, simulated: a gain that is claimed is false."""
    false = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = spec_in(folder)
        for seed in range(count):
            noise = float(stream(seed, "noise").uniform(0.003, 0.02))
            backend = SimulatedBackend(seconds=lambda _: 1e-3, process_noise=noise, call_noise=0.02)
            options = Options(seed=seed, evaluations=40, workers=1)
            false += begin(spec, folder / f"{seed}.run", options, backend=backend).summary.improved
    return Row(
        promise="identical code claims no gain (simulated)",
        tried=count,
        held=count - false,
        needed="95%",
        kept=false <= 0.05 * count,
    )


def _has_openmp() -> bool:
    try:
        find_openmp(find_toolchain())
    except MachineError:
        return False
    return True


def faults() -> Row:
    """Faults planted in the example kernels and caught by their verification."""
    from tuner.driver.check import check_spec

    planted = caught = 0
    for path in sorted((ROOT / "examples").glob("*/*.yaml")):
        if "openmp: true" in path.read_text() and not _has_openmp():
            continue
        for spec in load_spec(path):
            if spec.task.backend == "host":
                found = check_spec(spec).faults
                if found is not None:
                    planted, caught = planted + found.counted, caught + found.caught
    return Row(
        promise="a fault in an example kernel is caught",
        tried=planted,
        held=caught,
        needed=f"{ENOUGH:.0%}",
        kept=caught >= ENOUGH * planted > 0,
    )


def fuzzed(seconds: int) -> Row:
    """Bytes that coverage leads to, or that are made up where atheris is not installed, fed to all that reads such."""
    engine = "hypothesis" if importlib.util.find_spec("atheris") is None else "atheris"
    command = [sys.executable, str(Path(__file__).with_name("fuzz.py")), "--json"]
    command += ["--seconds", str(seconds), "--engine", engine]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    targets = json.loads(done.stdout)["fuzz"]["targets"].values() if done.stdout else []
    cases = sum(target["cases"] for target in targets)
    faults = sum(len(target["faults"]) for target in targets)
    return Row(
        promise=f"bytes of a stranger: no traceback, no hang ({engine})",
        tried=cases,
        held=cases - faults,
        needed="all",
        kept=cases > 0 == faults,
    )


EXPLOITS = "tests/exploits"


def main() -> None:
    """Runs all rows, or those that are named."""
    arguments = parser(__doc__)
    arguments.add_argument("--kills", type=int, default=40, help="of the tuner")
    arguments.add_argument("--flips", type=int, default=400)
    arguments.add_argument("--runs", type=int, default=60, help="on identical code")
    arguments.add_argument("--fuzz-seconds", type=int, default=20, help="for each of nine targets")
    arguments.add_argument("--rows", default="", help="comma separated; all when left out")
    given = arguments.parse_args()
    rows: dict[str, Callable[[], Row]] = {
        "exploits": lambda: all_of(
            "an exploit is rejected, with its reason", EXPLOITS, "-k", "not look_alike"
        ),
        "look-alikes": lambda: all_of("its honest look-alike is accepted", EXPLOITS, "-k", "look_alike"),
        "hostile": lambda: all_of(
            "a crashing or hostile candidate costs one trial", "tests/unit/test_host_run_hostile.py"
        ),
        "sandbox": lambda: all_of(
            "what is out of reach is out of reach",
            "tests/unit/test_sandbox_confinement.py",
            "tests/unit/test_sandbox_degraded.py",
            "tests/property/test_sandbox_filter_property.py",
        ),
        "faults": faults,
        "kills": lambda: kills(given.kills),
        "worker-kills": lambda: all_of(
            "a worker killed at random, the run goes on", "tests/unit/test_host_kills.py"
        ),
        "machine": lambda: all_of(
            "a full disk, a second writer, a leaping clock, sleep, a lost device",
            "tests/unit/test_record_life.py",
            "tests/unit/test_record_writers.py",
            "tests/unit/test_driver_clocks.py",
        ),
        "flips": lambda: flips(given.flips),
        "signatures": lambda: all_of("a forged signature is found", "tests/unit/test_record_signature.py"),
        "claims": lambda: claims(given.runs),
        "disturbed": lambda: all_of(
            "a disturbed measurement is marked and made once more (host, OpenCL, CUDA)",
            "tests/unit/test_disturbed_sessions.py",
            "tests/unit/test_disturbance.py",
        ),
        "light": lambda: all_of("a time below what the work takes is refused", "tests/unit/test_light.py"),
        "forged": lambda: all_of("a forged record is found, in one line", "tests/unit/test_strangers.py"),
        "coverage": lambda: fuzzed(given.fuzz_seconds),
        "fuzz": lambda: all_of(
            "made-up specs, records and pipelines: no traceback", "tests/property", "-k", "not sandbox"
        ),
    }
    wanted = [name for name in given.rows.split(",") if name] or list(rows)
    unknown = sorted(set(wanted) - set(rows))
    if unknown:
        arguments.error(f"no row {', '.join(unknown)}; there are {', '.join(rows)}")
    results = {}
    for name in wanted:
        note(name)
        results[name] = rows[name]()
    body = [[r.promise, r.tried, r.held, r.needed, "kept" if r.kept else "BROKEN"] for r in results.values()]
    figures = {"reliability": {name: asdict(row) for name, row in results.items()}}
    emit(given.json, figures, table(["promise", "tried", "held", "needed", ""], body))
    sys.exit(0 if all(row.kept for row in results.values()) else 1)


if __name__ == "__main__":
    main()
