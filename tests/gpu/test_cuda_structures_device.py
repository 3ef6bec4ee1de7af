"""Structures by value on a card: right in single and in double precision, faults found, timed.

pytest -m gpu
"""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from by_path import load

from tuner.core.types import BuildRequest, Resolved, Source, Status, Variant
from tuner.evaluators.cuda.backend import CudaBackend

pytestmark = [*needs.gpu, *needs.nvrtc]


@pytest.mark.parametrize("reference", ["python", "double"])
def test_members_reach_the_kernel(tmp_path: Path, reference: str) -> None:
    unit = load("unit/test_cuda_structures.py")
    spec = unit.SPEC.replace("target: sm_90", "target: native")
    if reference == "double":
        spec = spec.replace("reference: {python: ref.py:step}, ", "")
    loaded = unit.spec_of(tmp_path, spec)
    resolved: Resolved = unit.setting()
    kernels = [unit.KERNEL, unit.KERNEL.replace("lo[1]", "lo[2]")]
    evaluation = CudaBackend().prepare(loaded.task, workers=1)
    try:
        builds = evaluation.build(
            [
                BuildRequest(
                    trial=i, variant=Variant(files=(Source(name="k.cu", text=text),)), resolved=resolved
                )
                for i, text in enumerate(kernels)
            ]
        )
        report = evaluation.set_baseline(builds[0], resolved)
        assert report.status is Status.OK, report.message
        assert report.reference == ("python" if reference == "python" else "float64")
        found = []
        for build in builds:
            session = evaluation.open(build, resolved, purpose="search", number=0)
            found.append(session.verify().status)
            if found[-1] is Status.OK:
                measured = session.measure(problem=0, calls=10)
                assert measured.status is Status.OK, measured.message
            session.close()
    finally:
        evaluation.close()
    assert found == [Status.OK, Status.WRONG_RESULT]
