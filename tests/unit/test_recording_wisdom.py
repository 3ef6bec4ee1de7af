"""What a wisdom file says of a recorded kernel: launches that differ in more than their work-items are told apart."""

from __future__ import annotations

import sys
from pathlib import Path

import needs

from tuner.api import load
from tuner.driver.applications.recording import RecordReport, record_kernel
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.wisdom import Wisdom
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

APPLICATION = """
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
x = np.arange(256, dtype=np.float32)

def buffer(data):
    return cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=data)

def program(text):
    return cl.Program(context, text).build(cache_dir=False)
"""

STEPS = """
SUM = '''
__kernel void total(__global const float *x, __global float *y, float f, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++) s += f * x[(get_global_id(0) + i) % 256];
    y[get_global_id(0)] = s;
}
'''
p, y = program(SUM), buffer(np.zeros(64, np.float32))
for n in (16, 200):
    p.total(queue, (64,), (8,), buffer(x), y, np.float32(2), np.int32(n))
queue.finish()
"""

STRUCTURE = """
TEXT = '''
typedef struct { int n; float f; } In;
__kernel void total(__global float *y, In in) { y[get_global_id(0)] = in.f * in.n; }
'''
p, y = program(TEXT), buffer(np.zeros(64, np.float32))
p.total(queue, (64,), (8,), y, np.array([(7, 2.0)], dtype=[("n", np.int32), ("f", np.float32)])[0])
queue.finish()
"""


def record(body: str, tmp_path: Path, instances: int) -> RecordReport:
    path = tmp_path / "application.py"
    path.write_text(APPLICATION + body)
    return record_kernel([sys.executable, str(path)], "total", tmp_path / "out", instances=instances)


def wise(report: RecordReport, tmp_path: Path) -> Wisdom:
    """The wisdom of a run on what was recorded, whose device is simulated and fastest at groups of 32."""
    (spec,) = load_spec(report.specs[0])
    quick = SimulatedBackend(seconds=lambda r: 1e-3 * (1 + abs(int(r.scalars["GROUP_X"]) - 32)))
    path = tmp_path / "a.run"
    begin(spec, path, Options(evaluations=30, settings={"choose_processes": 2}), backend=quick)
    result = load(path)
    assert result.improved
    result.export(tmp_path / "exported")
    (known,) = (tmp_path / "exported").glob("*.wisdom.json")
    return Wisdom.load(known)


@needs.pocl
def test_a_size_that_is_a_scalar_tells_problems_apart(tmp_path: Path) -> None:
    known = wise(record(STEPS, tmp_path, 2), tmp_path)
    own = {"global_x": 64, "x_bytes": 1024, "y_bytes": 256}
    assert sorted(dict(e.problem)["n"] for e in known.entries) == [16, 200]
    assert all(dict(e.problem) == {**own, "n": e.problem["n"]} for e in known.entries)
    for n, how in ((16, "exact"), (200, "exact"), (20, "nearest"), (60, "default"), (100_000, "default")):
        assert known.select(None, {**own, "n": n}).how == how
    # A float is data: what it multiplies takes no longer.
    assert known.select(None, {**own, "n": 16, "f": 3}).how == "exact"
    assert known.select(None, {**own, "n": 16, "x_bytes": 4096}).how == "default"


@needs.pocl
def test_where_a_structure_may_hold_the_size_nothing_is_exact(tmp_path: Path) -> None:
    known = wise(record(STRUCTURE, tmp_path, 1), tmp_path)
    (entry,) = known.entries
    assert entry.untold == ("in",)
    assert Wisdom.from_json(known.to_json()).select(None, entry.problem).how == "nearest"
