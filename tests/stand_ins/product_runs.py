"""Products whose variants cost what a formula says: for runs over variants that need no compiler's time."""

from __future__ import annotations

from typing import Any

from tuner.core.types import Resolved, Status, Variant
from tuner.testing import SimulatedBackend

SUMS = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int k = 0; k < n; k++)
                sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}
"""
"""Of matrices, which has more to refuse: making variants of it takes several times as long."""

KERNEL = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            c[i * n + k] = 2.0f * a[i * n + k] * b[k * n + i] + 0.5f;
}
"""

TASK = """\
kernel: {source: product.c, entry: product}
problem: {n: 64}
arguments:
  - {name: a, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: b, dtype: float32, shape: [n, n], init: {uniform: [-1, 1]}}
  - {name: c, dtype: float32, shape: [n, n], role: output}
  - {name: n, dtype: int32, value: n}
"""

SPEC = f"""\
{TASK}space:
  parameters: {{WIDTH: [1, 2, 3, 4]}}
  passes: off
  source: {{evolve: true}}
verify: {{numerics: reassociate}}
search:
  strategy: random
  budget: {{evaluations: 60}}
"""


def seconds(resolved: Resolved) -> float:
    return 1e-3 * (1.0 + 0.05 * abs(int(resolved.macros["WIDTH"]) - 3))


def factor(variant: Variant, resolved: Resolved) -> float | Status:
    """Interchange helps, restrict helps, reversing breaks, jamming does not build; a tile of 32 is best."""
    ops = [e["op"] for e in variant.edits]
    if "fuse" in ops or "reverse" in ops:
        return Status.WRONG_RESULT
    if "unroll" in ops or "unroll_and_jam" in ops:
        return Status.BUILD_ERROR
    value = 1.0
    for op, gain in (("interchange", 0.6), ("restrict", 0.8), ("tile", 0.7)):
        value *= gain if op in ops else 1.0
    tiles = [v for name, v in resolved.macros.items() if name.startswith("TILE")]
    return value * (1.0 + 0.1 * sum(t != 32 for t in tiles))


def backend(**more: Any) -> SimulatedBackend:
    return SimulatedBackend(**{"seconds": seconds, "of_variant": factor, **more})
