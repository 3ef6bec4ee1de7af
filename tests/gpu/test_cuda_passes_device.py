"""What LLVM's code for CUDA computes, on a card: every example with pass pipelines, against its reference.

    pytest -m gpu

Skipped with the reason where there is no card, or where pass pipelines cannot be run.
"""

from __future__ import annotations

from pathlib import Path

import needs
import numpy as np
import pytest
from cuda_examples import EXAMPLES, load

from tuner.core.types import BuildRequest, Status
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.evaluators.cuda.backend import CudaBackend

pytestmark = [*needs.gpu, *needs.nvrtc, *needs.cuda_passes]

RANDOM = 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_code_of_llvm_verifies_and_can_be_timed(path: Path, tmp_path: Path) -> None:
    spec = load(path, tmp_path)
    backend = CudaBackend()
    space = spec.space(backend.pass_catalogue())
    assert space.passes is not None
    rng = np.random.default_rng(11)
    texts = [space.passes.flattened, "function(sroa),default<O3>", "function(sroa,early-cse,simplifycfg)"]
    texts += [space.passes.random(rng) for _ in range(RANDOM)]
    variant = spec.task.kernel.variant
    points = [space.default(), *({**space.default(), "passes": text} for text in texts)]
    requests = [
        BuildRequest(trial=i, variant=variant, resolved=space.resolve(p)) for i, p in enumerate(points)
    ]
    evaluation = backend.prepare(spec.task_with(seed=0), workers=4)
    try:
        builds = evaluation.build(requests)
        report = evaluation.set_baseline(builds[0], requests[0].resolved)
        assert report.status is Status.OK, report.message
        found: dict[str, tuple[Status, str]] = {}
        for text, request, build in zip(texts, requests[1:], builds[1:], strict=True):
            if build.status is not Status.OK:
                found[text] = (build.status, build.message)
                continue
            session = evaluation.open(build, request.resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
                found[text] = (verdict.status, verdict.message)
                if verdict.status is Status.OK:
                    assert session.measure(problem=0, calls=5).status is Status.OK
            finally:
                session.close()
    finally:
        evaluation.close()
    # LLVM's own sequences have to be right; of random ones a few may miscompile, which is what verification is for.
    for text in texts[:3]:
        assert found[text][0] is Status.OK, (text, found[text])
    right = sum(status is Status.OK for status, _ in found.values())
    assert right >= len(found) - 2, found


def test_a_run_with_passes_ends_with_a_verdict(tmp_path: Path) -> None:
    spec = load(next(p for p in EXAMPLES if p.stem == "matmul"), tmp_path)
    outcome = begin(spec, tmp_path / "matmul.run", Options(evaluations=24))
    assert not outcome.failed, outcome.summary.message
    assert outcome.summary.speedup[0] >= 1.0
