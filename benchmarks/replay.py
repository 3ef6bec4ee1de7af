"""One candidate by replay against building and running the whole application; and what recording costs it.

A candidate by replay: built, loaded into a fresh process, verified on the recording, timed for three calls; what it
waits for other tuners on the machine does not count. The application whole: built, and run twice: with a driver that
has not seen its kernels (``new``), as it has not seen a candidate's, and then with one that has (``plain``: PoCL keeps
what it compiled). All ways are taken in turn, medians are compared. Without ``--build`` the application counts with
its run alone. Several specs of one application are compared with the same runs; the mean is by ``--shares``, the
``kernels.json`` that was written with them.

The yardstick is the run that people make: the application with its own settings. Where the recording comes from a run
that was cut short, ``--usual`` is that one: it is run once. Where even that one is only a part (of equal steps),
``--steps CUT,PART,ALL`` says how many steps the two runs and the whole one make, which is computed from them on a
straight line.

    python benchmarks/replay.py SPEC... [--shares kernels.json] [--build "make -B"] [--usual "./app"]
        [--steps 8,100,2955] [--rounds 5] [--runs 5] [--json] -- COMMAND...
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(slots=True, kw_only=True)
class Whole:
    """What the application took, in seconds, by the way that it was run."""

    specs: Sequence[LoadedSpec]
    command: Sequence[str]
    build: Sequence[str]
    times: dict[str, list[float]] = field(default_factory=dict)

    def take(self) -> None:
        """Once each way."""
        plain = Application(command=tuple(self.command), aside=True)
        with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as cache:
            for way in ("new", "plain"):
                self._add(way, plain.run(Path(scratch), {"POCL_CACHE_DIR": cache}).wall_s)
        self._add("recorded", self._recorded())
        if self.build:
            start = time.perf_counter()
            subprocess.run(self.build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._add("build", time.perf_counter() - start)

    def take_usual(self, command: Sequence[str]) -> None:
        """The run that people make, or a part of it."""
        note("the usual run")
        with tempfile.TemporaryDirectory() as scratch:
            self._add("usual", Application(command=tuple(command), aside=True).run(Path(scratch), {}).wall_s)

    def _add(self, way: str, seconds: float) -> None:
        self.times.setdefault(way, []).append(seconds)

    def _recorded(self) -> float:
        if self.specs[0].task.launch is None:
            return record_spec(self.command, self.specs[0], instances=1, aside=True).ran.wall_s
        with tempfile.TemporaryDirectory() as folder:
            entries = [spec.task.kernel.entry for spec in self.specs]
            return record_kernels(self.command, entries, Path(folder), instances=1, aside=True).ran.wall_s


def main() -> None:
    """Takes all ways in turn and prints medians and ratios."""
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    arguments = _arguments(words[:cut])
    command = words[cut + 1 :]
    if not command:
        raise SystemExit("give the application after --")
    specs = [spec for path in arguments.spec for spec in load_spec(path)]
    whole = Whole(specs=specs, command=command, build=shlex.split(arguments.build or ""))
    replays: dict[str, list[float]] = {}
    for place, spec in enumerate(specs):
        runs = (arguments.runs or arguments.rounds) if not place else 0
        replays[spec.name] = _take(spec, whole, rounds=arguments.rounds, runs=runs)
    if arguments.usual:
        whole.take_usual(shlex.split(arguments.usual))
    _print(arguments, whole, replays)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("spec", type=Path, nargs="+")
    made.add_argument(
        "--shares", type=Path, help="kernels.json, by which candidates of several kernels are weighed"
    )
    made.add_argument("--build", help="the command that builds the application")
    made.add_argument("--usual", help="the run that people make, where the recorded one is shorter")
    made.add_argument("--steps", help="steps of the recorded run, of --usual, and of the whole run")
    made.add_argument("--rounds", type=int, default=5, help="candidates of each kernel")
    made.add_argument(
        "--runs", type=int, help="runs of the application each way; as many as rounds when left out"
    )
    return made.parse_args(words)


def _print(arguments: argparse.Namespace, whole: Whole, replays: Mapping[str, Sequence[float]]) -> None:
    found = {name: statistics.median(values) for name, values in whole.times.items() if values}
    each = {name: statistics.median(values) for name, values in replays.items()}
    replay_s = _mean(each, _shares(arguments.shares, each))
    build_s = found.get("build", 0.0)
    runs = _runs(arguments, found)
    ratios = {name: (build_s + seconds) / replay_s for name, seconds in runs.items()}
    result: dict[str, Any] = {
        "kernels": list(each),
        "rounds": arguments.rounds,
        "times_s": {**whole.times, "replay": dict(replays)},
        "medians_s": {**found, "replay": each},
        "replay_s": replay_s,
        "runs_s": runs,
        "whole_over_replay": ratios,
        "run_alone_over_replay": {name: seconds / replay_s for name, seconds in runs.items()},
        "recorded_over_plain": found["recorded"] / found["plain"],
    }
    rows = [[f"a candidate of {name} by replay", f"{seconds:.3f} s", ""] for name, seconds in each.items()]
    if len(each) > 1:
        rows.append(["a candidate by replay, by share", f"{replay_s:.3f} s", ""])
    rows += [["build", f"{build_s:.3f} s", ""]] if build_s else []
    rows += [[name, f"{seconds:.3f} s", f"{ratios[name]:.1f}"] for name, seconds in runs.items()]
    lines = [
        table(["way", "median", "built, over a candidate"], rows),
        f"recording one launch of each kind takes {result['recorded_over_plain']:.2f} times the plain run",
    ]
    emit(arguments.json, result, "\n".join(lines))


def _runs(arguments: argparse.Namespace, found: Mapping[str, float]) -> dict[str, float]:
    """Seconds of the application's runs, by what each is called in the table."""
    kind = "cut short" if arguments.usual else "as people run it"
    runs = {f"run {kind}": found["plain"], f"run {kind}, driver that has not seen its kernels": found["new"]}
    if not arguments.usual:
        return runs
    if not arguments.steps:
        return {**runs, "run as people run it": found["usual"]}
    short, part, all_ = (int(word) for word in arguments.steps.split(","))
    step_s = (found["usual"] - found["plain"]) / (part - short)
    whole_s = found["usual"] + step_s * (all_ - part)
    return {
        **runs,
        f"run of {part} steps": found["usual"],
        f"run as people run it, computed for {all_}": whole_s,
    }


def _shares(path: Path | None, names: Mapping[str, float]) -> dict[str, float]:
    """By kernel; equal where none are given."""
    if path is None:
        return dict.fromkeys(names, 1.0)
    known = {one["name"]: float(one["share"]) for one in json.loads(path.read_text())["kernels"]}
    return {name: known[name] for name in names}


def _mean(seconds: Mapping[str, float], shares: Mapping[str, float]) -> float:
    """Of what budgets by share buy."""
    return sum(seconds[name] * shares[name] for name in seconds) / sum(shares.values())


def _take(spec: LoadedSpec, whole: Whole, *, rounds: int, runs: int) -> list[float]:
    times: list[float] = []
    backend = backends.create(spec.task.backend)
    space = spec.space(backend.pass_catalogue())
    evaluation = backend.prepare(spec.task, workers=1)
    rng = np.random.default_rng(0)
    try:
        baseline = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=baseline)
        (built,) = evaluation.build([request])
        report = evaluation.set_baseline(built, baseline)
        if report.status is not Status.OK:
            raise SystemExit(f"the baseline fails: {report.message}")
        for number in range(max(rounds, runs)):
            note(f"{spec.name}: round {number + 1} of {max(rounds, runs)}")
            if number < runs:
                whole.take()
            if number < rounds:
                resolved = space.resolve(space.sample(rng, 1)[0])
                times.append(_replayed(spec, evaluation, resolved, number + 1))
    finally:
        evaluation.close()
    return times


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
