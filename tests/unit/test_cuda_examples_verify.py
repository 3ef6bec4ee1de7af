"""Every CUDA example is right under emulation: the baseline, and configurations all over its space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tuner.core.types import Status
from tuner.evaluators.emulation import Emulator
from tuner.spec.load import load_spec

FOLDER = Path(__file__).parents[2] / "examples" / "cuda"
NAMES = sorted(p.stem for p in FOLDER.glob("*.yaml"))


def test_the_six_are_there() -> None:
    assert NAMES == ["conv2d", "matmul", "nbody", "reduction", "softmax", "transpose"]


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_an_example_verifies(name: str) -> None:
    loaded = load_spec(FOLDER / f"{name}.yaml")[0]
    space = loaded.space(None)
    variant = loaded.task.kernel.variant
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), variant)
        assert report.status is Status.OK, report.message
        assert report.reference == "python"
        assert report.call_s == ()
        assert report.notes["emulated"]
        assert not report.notes["unstable"]
        for number, configuration in enumerate(space.sample(np.random.default_rng(3), 2)):
            purpose = ("search", "confirm")[number]
            verdict = emulator.verify(
                space.resolve(configuration), variant, purpose=purpose, number=2 * number
            )
            assert verdict.status is Status.OK, (configuration, verdict.message)
            assert verdict.detail["worst"] <= 1
    finally:
        emulator.close()


@pytest.mark.integration
def test_a_reference_that_is_never_finite_is_no_reference(tmp_path: Path) -> None:
    """As on the other backends: whatever a candidate gave would pass."""
    (tmp_path / "ref.py").write_text("def ref(x, n):\n    return {'y': x * float('inf') * 0}\n")
    (tmp_path / "k.cu").write_text(
        'extern "C" __global__ void k(const float *x, float *y, int n)\n'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }\n"
    )
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: k.cu, entry: k}\ntarget: sm_90\nproblem: {n: 100}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [n]}\n  - {name: y, dtype: float32, shape: [n], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
        'launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}\nspace: {parameters: {BLOCK: [32, 64]}, passes: off}\n'
        'verify: {reference: {python: "ref.py:ref"}}\n'
    )
    (loaded,) = load_spec(tmp_path / "k.yaml")
    space = loaded.space(None)
    emulator = Emulator(loaded.task)
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
    finally:
        emulator.close()
    assert report.status is Status.WRONG_RESULT
    assert report.message.startswith("nothing is compared: what is expected has no finite element")
