"""Counters of another process, where the machine has them, and their absence where it has none."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from commands import finding

from tuner.core.types import BuildRequest, Resolved, Status
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.counters import Event, counted, missing, ratios
from tuner.spec.load import load_spec

TASK_CLOCK = Event(name="task_clock", type=1, config=1)
KERNELS = Path(__file__).resolve().parents[2] / "benchmarks" / "kernels"
BUSY = "import sys\nfor line in sys.stdin:\n    sum(range(300_000))\n    print(line, flush=True)\n"


def test_counters_cover_a_block() -> None:
    """By the kernel's own clock of the process, which counts like hardware events and is there without them."""
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with counted(child.pid, [TASK_CLOCK, Event(name="nothing", type=999, config=0)]) as found:
            print("go", file=child.stdin, flush=True)
            child.stdout.readline()
        child.stdin.close()
    if not found:
        pytest.skip("perf events are forbidden here")
    assert set(found) == {"task_clock"}
    assert found["task_clock"] > 0


def test_a_process_that_is_gone_has_no_counts() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with counted(child.pid, [TASK_CLOCK]) as found:
        pass
    assert found == {}


def test_ratios_follow_from_counts_alone() -> None:
    counts = {"instructions": 4000.0, "cycles": 2000.0, "cache_misses": 8.0, "branch_misses": 2.0}
    assert ratios(counts) == {
        "instructions_per_cycle": 2.0,
        "cache_misses_per_1000_instructions": 2.0,
        "branch_misses_per_1000_instructions": 0.5,
    }
    assert ratios({"cycles": 5.0, "cache_misses": 1.0}) == {}


@pytest.mark.integration
def test_measurements_hold_counters_where_the_machine_has_them() -> None:
    """And doctor says the same of the machine."""
    task = load_spec(KERNELS / "atax.yaml")[0].task_with(seed=1)
    task = replace(task, problems=(replace(task.problems[0], sizes={"m": 40, "n": 40}),))
    plain = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    with closing(HostBackend().prepare(task, workers=1)) as evaluation:
        (build,) = evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=plain)])
        assert evaluation.set_baseline(build, plain).status is Status.OK
        with closing(evaluation.open(build, plain, purpose="search", number=0)) as session:
            session.verify()
            notes = session.measure(problem=0, calls=3).notes
        # A variant's remarks are of its own lines.
        longer = task.kernel.variant.files[0]
        longer = replace(longer, text="\n" * 50 + longer.text)
        moved = replace(task.kernel.variant, files=(longer,))
        said = evaluation.remarks(build, plain, moved)["loops"]
    assert ("counters" in notes) == (not missing())
    assert all(
        int(part.split(":")[0].split()[1]) > 50 for part in said.split("; ") if part.startswith("line")
    )
    assert finding("counters")["ok"] == (not missing())
