"""The commands of the pages about applications, run in their order on OpenCL applications.

What a command would take long for is said beside it: a run gets a budget of a few evaluations, ``tuner ab`` few pairs.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import needs
import pytest
from applications import compiled
from opencl_machine import system_drivers
from pages import ROOT, block, run

APPLICATION = """#!{python}
import numpy as np
import pyopencl as cl

SOURCE = '''
#define KERNEL(name, factor) __kernel void name(__global const float *x, __global float *y, int n) \\\\
{{ int i = get_global_id(0); if (i < n) y[i] = factor * x[i]; }}
KERNEL({first}, 2) KERNEL({second}, 3)
'''
devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build(cache_dir=False)
n = 1 << 16
x = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(n, np.float32))
y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n)
for name in ("{first}", "{second}"):
    kernel = cl.Kernel(program, name)
    kernel.set_args(x, y, np.int32(n))
    # Work-groups of one: any other is many times as fast.
    for _ in range(3):
        cl.enqueue_nd_range_kernel(queue, kernel, (n,), (1,))
queue.finish()
print("done", flush=True)
"""

pytestmark = pytest.mark.integration


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for an application, which finds the system's drivers."""
    system_drivers(monkeypatch)
    return tmp_path


def application(path: Path, first: str = "work", second: str = "other") -> None:
    path.write_text(APPLICATION.format(python=sys.executable, first=first, second=second))
    path.chmod(0o755)


def run_few(line: str, folder: Path) -> str:
    """A command of a page, in less time than a user would give it."""
    if line.startswith(("tune ", "tuner tune ")):
        line += " --evaluations 12 --strategy random"
    return run(line.replace("tuner ab ", "tuner ab --pairs 4 "), folder)


@needs.pocl
@pytest.mark.measured
def test_recording(folder: Path) -> None:
    """The page on recording; what the first page says is the same under other names."""
    application(folder / "app")
    lines = block("docs/recording.md", "tuner record --list")
    first = [line.replace("NAME", "work") for line in block("README.md", "tuner record --list")]
    first = [line.replace("recorded/*", "work/work").replace("recorded", "work") for line in first]
    assert first == [line.replace(" --size 1000", "") for line in lines]
    said = [run_few(line, folder) for line in lines]
    assert list((folder / "tuner-runs").glob("work-1.run"))
    assert "work" in said[0]
    assert "done" in said[3]


@needs.pocl
@pytest.mark.measured
def test_several_kernels_and_putting_them_back(folder: Path) -> None:
    """The page on scaling records and tunes two kernels; that on putting back has their runs under its own names."""
    application(folder / "application", "blur", "sharpen")
    for line in block("docs/scaling.md", "tuner record --kernel blur"):
        run_few(line, folder)
    (folder / "app").rename(folder / "work")
    (folder / "application").rename(folder / "app")
    for name, run_name in (("work", "blur"), ("a", "blur"), ("b", "sharpen")):
        shutil.copy(folder / "tuner-runs" / f"{run_name}-1.run", folder / f"{name}.run")
    shutil.copytree(folder / "tuner-runs", folder / "out")
    for line in block("docs/putting-back.md", "tuner ab work.run"):
        said = run_few(line, folder)
        assert "tuner apply" not in line or "done" in said
        if "tuner export" in line:
            (folder / "build" / "blur.wisdom.json").rename(folder / "build" / "work.wisdom.json")


GRID = """
#include <stdlib.h>
#include "grid.h"
int main(int count, char **words)
{
    int n = atoi(words[1]);
    struct grid g = {n, n + 3, 0, 0.1};
    double *k = malloc(sizeof(double) * n * (n + 3));
    g.u = malloc(sizeof(double) * n * (n + 3)), g.next = calloc(n * (n + 3), sizeof(double)), g.k = k;
    for (int i = 0; i < n * (n + 3); i++) g.u[i] = i % 17, k[i] = 1 + i % 5;
    for (int t = 0; t < 3; t++) diffuse(&g);
    return g.change > 0 ? 0 : 1;
}
"""


def test_a_function_that_takes_a_structure(tmp_path: Path) -> None:
    """The example of the page on structures, in an application."""
    shutil.copytree(ROOT / "examples" / "structures", tmp_path, dirs_exist_ok=True)
    (tmp_path / "main.c").write_text(GRID)
    compiled("-o", "app", "main.c", "diffuse.c", "-lm", folder=tmp_path)
    (line,) = block("docs/structures.md", "tuner record diffuse.yaml")
    run(line, tmp_path)
    spec = (tmp_path / "diffuse.yaml").read_text().replace("  problems:", "  # ").replace("  assume:", "  # ")
    spec = spec.replace("verify:\n", "workload: recordings/diffuse-*.rec\nverify:\n  reference: recording\n")
    (tmp_path / "recorded.yaml").write_text(spec)
    said = run("tuner check recorded.yaml --no-faults", tmp_path)
    assert "at recording=1, nx=400, ny=403" in said
