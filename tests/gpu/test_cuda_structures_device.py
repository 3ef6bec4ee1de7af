"""Structures by value on a card: right in single and in double precision, faults found, timed.

pytest -m gpu
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import needs
import pytest

from tuner.core.types import BuildRequest, Resolved, Source, Status, Variant
from tuner.evaluators.cuda.backend import CudaBackend

pytestmark = [*needs.gpu, *needs.nvrtc]


def _unit() -> Any:
    path = Path(__file__).parents[1] / "unit" / "test_cuda_structures.py"
    found = importlib.util.spec_from_file_location("structures_without_a_card", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("reference", ["python", "double"])
def test_members_reach_the_kernel(tmp_path: Path, reference: str) -> None:
    unit = _unit()
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
