"""The commands of the pages about applications, run in their order on an OpenCL application; and those about shells.

What a command would take long for is said beside it: a run gets a budget of a few evaluations.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.core.errors import MachineError, SpecError
from tuner.evaluators.opencl.backend import OpenClBackend

ROOT = Path(__file__).resolve().parents[2]

APPLICATION = """#!{python}
import numpy as np
import pyopencl as cl

SOURCE = '''
#define KERNEL(name, factor) __kernel void name(__global const float *x, __global float *y, int n) \\\\
{{ int i = get_global_id(0); if (i < n) y[i] = factor * x[i]; }}
KERNEL(work, 2) KERNEL(other, 3)
'''
devices = [d for p in cl.get_platforms() for d in p.get_devices() if "Portable" in p.name]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, SOURCE).build(cache_dir=False)
n = 1 << 16
x = cl.Buffer(context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ones(n, np.float32))
y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * n)
for name in ("work", "other"):
    kernel = cl.Kernel(program, name)
    kernel.set_args(x, y, np.int32(n))
    # Work-groups of one: any other is many times as fast.
    for _ in range(3):
        cl.enqueue_nd_range_kernel(queue, kernel, (n,), (1,))
queue.finish()
print("done", flush=True)
"""


def block(page: str, containing: str) -> list[str]:
    """The commands of the one block of a page that holds a text, without comments."""
    fenced = re.findall(r"^```\w*\n(.*?)^```$", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [text for text in fenced if containing in text]
    return [line.partition("  #")[0].rstrip() for line in found.splitlines() if line.strip()]


def run(line: str, folder: Path, **more: str) -> str:
    """What a command prints; it has to end well."""
    words = shlex.split(line)
    if words[0] == "tune":
        line += " --evaluations 12 --strategy random"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **more}
    done = subprocess.run(
        ["bash", "-euc", line],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=550,
        env=environment,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the application that the pages name."""
    try:
        OpenClBackend().device("pocl")
    except (MachineError, SpecError) as error:
        pytest.skip(f"no PoCL: {error}")
    if Path("/etc/OpenCL/vendors").is_dir() and "OCL_ICD_VENDORS" not in os.environ:
        monkeypatch.setenv("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    (tmp_path / "app").write_text(APPLICATION.format(python=sys.executable))
    (tmp_path / "app").chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_recording_and_putting_back(folder: Path) -> None:
    for line in block("recording.md", "tuner record --list"):
        run(line, folder)
    assert list((folder / "tuner-runs").glob("work-1.run"))


def test_completion_is_put_into_a_home_of_its_own(tmp_path: Path) -> None:
    for line in block("editors.md", "--install-completion"):
        # A shell gives its place to its last command, and which shell it is would not be found out.
        printed = run(f"{line} || exit 1; true", tmp_path, HOME=str(tmp_path))
    assert "_TUNER_COMPLETE" in printed
    assert "completion" in (tmp_path / ".bashrc").read_text()


def test_the_doctor_of_the_first_page(tmp_path: Path) -> None:
    (line,) = [one for one in block("index.md", "tuner doctor") if one.startswith("tuner")]
    assert "backend host" in run(line, tmp_path)
