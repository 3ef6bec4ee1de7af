"""What PoCL's front end made of a program goes to the process that runs it: only what is launched is compiled."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from spec_files import spec_in

from tuner.core.types import BuildRequest, Status
from tuner.evaluators.opencl import front_end
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.evaluators.opencl.compiler import Compiler
from tuner.evaluators.opencl.device import Device
from tuner.evaluators.opencl.process import OpenClZygote
from tuner.evaluators.opencl.program import Program
from tuner.spec.load import load_spec

SOURCE = """
#ifndef FACTOR
#define FACTOR 2
#endif
__kernel void scale(__global const float *x, __global float *y) { int i = get_global_id(0); y[i] = FACTOR * x[i]; }
__kernel void other(__global float *y) { y[get_global_id(0)] = 1; }
"""

SPEC = """\
kernel: {source: scale.cl, entry: scale}
target: pocl
problem: {n: 256}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
launch: {grid: ["n / 64"], block: [64]}
space: {flags: {math: ["", "-cl-mad-enable"]}, passes: off}
"""


@pytest.fixture(scope="module")
def device() -> Device:
    """PoCL."""
    return OpenClBackend().device("pocl")


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_a_program_runs_as_it_was_built(tmp_path: Path, device: Device) -> None:
    """With a header; those without are in ``test_opencl_runs``."""
    (tmp_path / "scale.cl").write_text('#include "factor.h"\n' + SOURCE)
    (tmp_path / "factor.h").write_text("#define FACTOR 3\n")
    (tmp_path / "scale.yaml").write_text(SPEC.replace("entry: scale", "entry: scale, sources: [factor.h]"))
    (loaded,) = load_spec(tmp_path / "scale.yaml")
    evaluation = OpenClBackend().prepare(loaded.task, workers=1)
    try:
        space = loaded.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        assert build.status is Status.OK, build.message
        assert evaluation.set_baseline(build, resolved).status is Status.OK
    finally:
        evaluation.close()


@needs.pocl
def test_front_end_output_is_found(tmp_path: Path, device: Device) -> None:
    loaded = spec_in(tmp_path, "scale.cl", SOURCE, SPEC)
    space = loaded.space(None)
    resolved = space.resolve(space.default())
    program = Program.of(loaded.task.kernel, loaded.task.kernel.variant, resolved)
    zygote = OpenClZygote()
    compiler = Compiler(zygote, device, workers=1)
    try:
        (compiled,) = compiler.compile([program])
        assert compiled.status is Status.OK, compiled.message
        assert sorted(compiled.kernels) == ["other", "scale"]
        cache = tmp_path / "cache"
        made = front_end.put(cache, compiled.binary)
        assert made is not None
        source, options = made
        assert SOURCE.strip() in source
        assert "-cl-kernel-arg-info" in options
        (code,) = cache.glob("*/*/program.bc")
        assert front_end.take(cache, frozenset(), source, options) == compiled.binary
        assert front_end.take(cache, front_end.known(cache), source, options) == b""
        # It stays as it is where it is there already.
        code.write_bytes(b"there")
        assert front_end.put(cache, compiled.binary) == made
        assert code.read_bytes() == b"there"
    finally:
        compiler.close()
        zygote.close()


def test_a_driver_s_binary_is_left_to_the_driver(tmp_path: Path) -> None:
    assert front_end.put(tmp_path, b"poclbin and more") is None
    assert not list(tmp_path.iterdir())
