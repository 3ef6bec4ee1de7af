"""Runs on kernels whose loops lie behind headers of the project: what they reach, and what records derive again."""

from __future__ import annotations

from pathlib import Path

import pytest
from product_runs import SPEC, seconds

from tuner.core.types import Resolved, Status, Variant
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

GRID = (
    "#ifndef GRID_H\n#define GRID_H\n#define IDX(i, j, n) ((i) * (n) + (j))\n"
    "static inline float at(const float *p, int i, int j, int n) { return p[IDX(i, j, n)]; }\n#endif\n"
)
PRODUCT = """#include "grid.h"
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += at(a, i, k, n) * at(b, k, j, n);
            c[IDX(i, j, n)] = sum;
        }
}
"""


@pytest.mark.integration
def test_a_run_reaches_loops_behind_headers(tmp_path: Path) -> None:
    """The record alone derives every variant again, also where the header has changed since."""
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "grid.h").write_text(GRID)
    (tmp_path / "product.c").write_text(PRODUCT)
    path = tmp_path / "product.yaml"
    path.write_text(SPEC.replace("source: product.c", "source: product.c, include: [include]"))
    (spec,) = load_spec(path)

    def cost(variant: Variant, resolved: Resolved) -> float | Status:
        return 0.4 if "interchange" in [e["op"] for e in variant.edits] else 1.0

    backend = SimulatedBackend(seconds=seconds, of_variant=cost, process_noise=0.001, call_noise=0.001)
    result = begin(spec, tmp_path / "a.run", Options(seed=1, workers=1, evaluations=45), backend=backend)
    lineage = result.summary.evolution
    assert lineage is not None
    assert {e["op"] for e in lineage.edits} >= {"configure", "inline_call", "interchange"}
    (tmp_path / "include" / "grid.h").write_text("#error changed\n")
    assert audit(result.path, backend=backend).differences == []
