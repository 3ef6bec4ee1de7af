"""Workers killed from outside at events of a real run: the run ends, and its record holds."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from spec_files import spec_in

from tuner.core.types import Status
from tuner.driver.audit import audit
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord

KERNEL = """
void scale(const float *restrict a, float *restrict b, int n) {
    for (int i = 0; i < n; i++)
        b[i] = 2.0f * a[i] + 0.0f * (float)STEP;
    if (n < 0) b[0] = STEP;
}
"""

SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 4096}
arguments:
  - {name: a, dtype: float32, shape: [n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
  parameters: {STEP: {low: 1, high: 64}}
  passes: off
search: {strategy: random, budget: {evaluations: 8}}
"""
SETTINGS = {"choose_processes": 2, "confirm_processes": 4, "lost_retries": 6}
PARTS = ("ask", "build", "verify", "samples")
"""Events of an attempt that may still be lost."""


def children(pid: int) -> list[int]:
    """Children of all its threads."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:
        pass
    return found


def is_clang(pid: int) -> bool:
    try:
        return "clang" in os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False


def targets(kind: str) -> list[int]:
    """Processes of a kind: clang, or of ``compile`` or ``run`` the zygote or what it has forked."""
    if kind == "clang":
        return [pid for pid in children(os.getpid()) if is_clang(pid)]
    module = {"compile": b"compile_worker", "run": b"host.zygote"}[kind.split()[0]]
    zygotes = []
    for pid in children(os.getpid()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if module in words:
            zygotes.append(pid)
    return zygotes if kind.endswith("zygote") else [p for zygote in zygotes for p in children(zygote)]


class Killer:
    """Kills a process at some of the run's events: the first one of its kind that is there from then on.

    Few enough between two results that no job meets more than it is tried for.
    """

    def __init__(self, kinds: list[str], rng: random.Random, every: int) -> None:
        self.killed: list[str] = []
        self._kinds, self._rng, self._every = kinds, rng, every
        self._events = self._since = 0
        self._due, self._over = threading.Semaphore(0), False
        self._thread = threading.Thread(target=self._work)

    def event(self, kind: str, body: Mapping[str, Any]) -> None:
        """An observer's."""
        if kind not in PARTS and body.get("status") != Status.LOST:
            self._since = 0
        self._events += 1
        if self._events % self._every == 0 and self._since < 2:
            self._since += 1
            self._due.release()

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over = True
        self._due.release()
        self._thread.join()

    def _work(self) -> None:
        while True:
            self._due.acquire()
            kind = self._rng.choice(self._kinds)
            while not self._over and not self._kill(kind):
                pass
            if self._over:
                return

    def _kill(self, kind: str) -> bool:
        for pid in targets(kind)[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.killed.append(kind)
            return True
        return False


def run_under_fire(folder: Path, kinds: list[str], *, seed: int, every: int) -> int:
    """Kills survived in one run that ended as it should."""
    spec = spec_in(folder, "scale.c", KERNEL, SPEC)
    path = folder / f"{seed}.run"
    with Killer(kinds, random.Random(seed), every) as killer:
        options = Options(seed=seed, workers=2, settings=SETTINGS)
        outcome = begin(spec, path, options, observers=[killer])
    assert not outcome.failed
    assert not outcome.interrupted
    with RunRecord.read(path) as record:
        state, _, _ = open_state(record)
    # Equal but for a constant that nothing reads: no trial may be blamed for what the machine did.
    assert {t.status for t in state.trials.values()} <= {
        Status.OK,
        Status.DUPLICATE,
        Status.LOST,
        Status.PRUNED,
    }
    assert audit(path).differences == []
    return len(killer.killed)


@pytest.mark.parametrize("kind", ["run worker", "compile worker"])
def test_killed_workers_are_started_again(tmp_path: Path, kind: str) -> None:
    assert run_under_fire(tmp_path, [kind], seed=1, every=5) > 0


@pytest.mark.integration
def test_a_killed_clang_blames_no_trial(tmp_path: Path) -> None:
    assert run_under_fire(tmp_path, ["clang"], seed=1, every=1) > 0


@pytest.mark.parametrize(
    "wanted",
    [pytest.param(8, marks=pytest.mark.integration), pytest.param(300, marks=pytest.mark.measured)],
)
def test_kills_of_any_worker(tmp_path: Path, wanted: int) -> None:
    kinds = ["run worker", "run zygote", "compile worker", "compile zygote"]
    kills = seed = 0
    while kills < wanted:
        seed += 1
        kills += run_under_fire(tmp_path, kinds, seed=seed, every=3)
    assert kills >= wanted
