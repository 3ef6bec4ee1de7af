"""One candidate by replay against building and running the whole application; and what recording costs it.

A candidate by replay: built, loaded into a fresh process, verified on the recording, timed for three calls; what it
waits for other tuners on the machine does not count. The application whole: built, and run twice: with a driver that
knows its kernels from earlier runs (``plain``: PoCL keeps what it compiled), and with one that has not seen them, as it
has not seen a candidate's (``new``). All ways are taken in turn, medians are compared. Without ``--build`` the application counts with its run alone. Where the recording comes from a shorter run
than people make, ``--usual`` is that one: it is run once, and compared as well.

    python benchmarks/replay.py SPEC [--build "make -B"] [--usual "./app"] [--rounds 5] [--json] -- COMMAND...
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _common import emit, note, parser, table

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.driver.applications.recording import record_kernels, record_spec
from tuner.evaluators import registry as backends
from tuner.recorders.recordings.capture import Application
from tuner.spec.load import LoadedSpec, load_spec

CALLS = 3


def main() -> None:
    """Takes all ways in turn and prints medians and ratios."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = _arguments(words[:cut])
    command = words[cut + 1 :]
    if not command:
        raise SystemExit("give the application after --")
    (spec,) = load_spec(arguments.spec)
    times = _take(spec, command, shlex.split(arguments.build or ""), arguments.rounds)
    if arguments.usual:
        note("the usual run")
        with tempfile.TemporaryDirectory() as scratch:
            usual = Application(command=tuple(shlex.split(arguments.usual)), aside=True)
            times["usual"] = [usual.run(Path(scratch), {}).wall_s]
    found = {name: statistics.median(values) for name, values in times.items() if values}
    build_s = found.get("build", 0.0)
    result: dict[str, Any] = {
        "kernel": spec.name,
        "rounds": arguments.rounds,
        "times_s": times,
        "medians_s": found,
        "whole_over_replay": (build_s + found["plain"]) / found["replay"],
        "new_over_replay": (build_s + found["new"]) / found["replay"],
        "recorded_over_plain": found["recorded"] / found["plain"],
    }
    if "usual" in found:
        result["usual_over_replay"] = (build_s + found["usual"]) / found["replay"]
    rows = [[name, f"{1e3 * value:.1f} ms"] for name, value in found.items()]
    lines = [
        table(["way", "median"], rows),
        f"building and running it whole takes {result['whole_over_replay']:.1f} times a candidate by replay, "
        f"{result['new_over_replay']:.1f} with a driver that has not seen its kernels",
        *(
            [f"the usual run, built, takes {result['usual_over_replay']:.1f} times a candidate by replay"]
            if "usual" in found
            else []
        ),
        f"recording one launch of each kind takes {result['recorded_over_plain']:.2f} times the plain run",
    ]
    emit(arguments.json, result, "\n".join(lines))


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("spec", type=Path)
    made.add_argument("--build", help="the command that builds the application")
    made.add_argument("--usual", help="the run that people make, where the recorded one is shorter")
    made.add_argument("--rounds", type=int, default=5)
    return made.parse_args(words)


def _take(
    spec: LoadedSpec, command: Sequence[str], build: Sequence[str], rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"plain": [], "recorded": [], "build": [], "new": [], "replay": []}
    backend = backends.create(spec.task.backend)
    space = spec.space(backend.pass_catalogue())
    evaluation = backend.prepare(spec.task, workers=1)
    plain = Application(command=tuple(command), aside=True)
    rng = np.random.default_rng(0)
    try:
        baseline = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=baseline)
        (built,) = evaluation.build([request])
        report = evaluation.set_baseline(built, baseline)
        if report.status is not Status.OK:
            raise SystemExit(f"the baseline fails: {report.message}")
        with tempfile.TemporaryDirectory() as scratch:
            plain.run(Path(scratch), {})
            for number in range(rounds):
                note(f"round {number + 1} of {rounds}")
                times["plain"].append(plain.run(Path(scratch), {}).wall_s)
                with tempfile.TemporaryDirectory() as cache:
                    times["new"].append(plain.run(Path(scratch), {"POCL_CACHE_DIR": cache}).wall_s)
                times["recorded"].append(_recorded(spec, command))
                if build:
                    start = time.perf_counter()
                    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    times["build"].append(time.perf_counter() - start)
                resolved = space.resolve(space.sample(rng, 1)[0])
                times["replay"].append(_replayed(spec, evaluation, resolved, number + 1))
    finally:
        evaluation.close()
    return times


def _recorded(spec: LoadedSpec, command: Sequence[str]) -> float:
    if spec.task.launch is None:
        return record_spec(command, spec, instances=1, aside=True).ran.wall_s
    with tempfile.TemporaryDirectory() as folder:
        entry = spec.task.kernel.entry
        return record_kernels(command, [entry], Path(folder), instances=1, aside=True).ran.wall_s


def _replayed(spec: LoadedSpec, evaluation: Any, resolved: Resolved, number: int) -> float:
    start, waited = time.perf_counter(), 0.0
    request = BuildRequest(trial=number, variant=spec.task.kernel.variant, resolved=resolved)
    (built,) = evaluation.build([request])
    if built.status is Status.OK:
        session = evaluation.open(built, resolved, purpose="search", number=number)
        try:
            if session.verify().status is Status.OK:
                for problem in range(len(spec.task.problems)):
                    measured = session.measure(problem=problem, calls=CALLS)
                    waited += float(measured.notes.get("waited_s", 0.0))
        finally:
            session.close()
    return time.perf_counter() - start - waited


if __name__ == "__main__":
    main()
