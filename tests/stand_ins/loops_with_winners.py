"""A program with two loops, and runs whose winners are known: no clock decides them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tuner.core.types import Resolved, Variant
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

PROGRAM = """\
#include <stdio.h>
#define N 24

static double a[N][N], b[N][N], c[N][N];

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i][j] = i + 2 * j;

    /* Twice the transposed one. */
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            b[j][i] = 2 * a[i][j];
    printf("%g\\n", b[3][4]);

    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            c[j][i] = a[i][j]
                    + 0.5 * b[j][i];
    printf("%.17g\\n", c[5][6]);
    return 3;
}
"""
LINES = (13, 18)


def cost(variant: Variant, resolved: Resolved) -> float:
    return 0.5 if any(edit["op"] == "interchange" for edit in variant.edits) else 1.0


Cost = Callable[[Variant, Resolved], float]


def run_of(folder: Path, line: int, cost: Cost = cost, *, evaluations: int = 16, name: str = "") -> Path:
    """A run whose winner has the loops at a line interchanged, or what else costs little."""
    spec = folder / f"line{line}.yaml"
    spec.write_text(
        first_spec(folder / "app.c", folder=folder, loop=line).text.replace("passes: {", "# passes: {")
    )
    (loaded,) = load_spec(spec)
    backend = SimulatedBackend(seconds=lambda _: 1e-3, of_variant=cost)
    options = Options(
        seed=1, workers=1, evaluations=evaluations, settings={"choose_processes": 2, "confirm_processes": 4}
    )
    result = begin(loaded, folder.parent / f"{name or 'line'}{line}.run", options, backend=backend)
    assert result.summary.improved
    return result.path
