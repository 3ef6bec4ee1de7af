"""Winners in the place of kernels of a CUDA application on a card, through the driver itself.

pytest -m gpu
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
from by_path import load

from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.in_place import ImageWinner, LaunchPlan
from tuner.driver.applications.recording import record_kernel
from tuner.evaluators.cuda.backend import CudaBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import load_spec

pytestmark = [*needs.gpu, *needs.nvrtc]

RESULT = """
out = (c_float * 4096)()
ok(cu.cuMemcpyDtoH_v2(out, y, c_size_t(4 * 4096)))
print(out[1], out[3999], flush=True)
"""
FACTOR = """
at, room, four = c_uint64(), c_size_t(), c_float(4)
ok(cu.cuModuleGetGlobal_v2(byref(at), byref(room), module, b"factor"))
ok(cu.cuMemcpyHtoD_v2(at, byref(four), c_size_t(4)))
"""


def test_a_winner_with_a_geometry_of_its_own_and_the_application_s_constants(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    applications = load("gpu/test_recording_cuda_device.py")
    words = applications.driver_application(FACTOR + applications.PLAIN + RESULT, tmp_path)
    report = record_kernel(words, "scale", tmp_path / "out", instances=1)
    # x is i, y begins as 7 + i, and three launches add twice x each.
    assert capfd.readouterr().out.split() == ["14.0", "28000.0"]
    with RecordingFile(report.recordings[0]) as file:
        recording = file.recording
    (loaded,) = load_spec(report.specs[0])
    variant = loaded.task.kernel.variant
    text = variant.files[0].text.replace("y[i] += f * x[i];", "y[i] += f * x[i] + factor * 100;")
    changed = replace(variant, files=(replace(variant.files[0], text=text),))
    resolved = loaded.space(None).resolve(loaded.space(None).default())
    backend = CudaBackend()
    evaluation = backend.prepare(loaded.task, workers=1)
    try:
        (build,) = evaluation.build([BuildRequest(trial=1, variant=changed, resolved=resolved)])
    finally:
        evaluation.close()
    assert build.status is Status.OK, build.message
    image = backend.replacement(loaded.task, build.code, resolved)
    assert "factor" in image.constants
    plan = LaunchPlan(own=(16, 1, 1, 256, 1, 1, 0), other=(32, 1, 1, 128, 1, 1, 1024))
    winner = ImageWinner(kernel="scale", recording=recording, image=image, launches=(plan,))
    ran, (placed,) = run_with([winner], words)
    assert (ran.status, placed.replaced, placed.left) == (0, 3, 0), placed.why
    assert capfd.readouterr().out.split() == ["1214.0", "29200.0"]
