"""Kernels of odd shapes coarsened: what a larger group would do beyond the launch, or more than once, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import pytest
from same_device_results import Made, differing_kernels

from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS

HEAD = "void f(__global float *a, __global float *b, __global float *c, __global int *p, int n, int m)"
LINE: dict[str, Any] = {"grid": ("ceil(n / 8)",), "block": ("8",)}
PLANE: dict[str, Any] = {"grid": ("ceil(n / 8)", "ceil(m / 4)"), "block": ("8", "4")}
ROWS: dict[str, Any] = {"grid": ("n",), "block": ("8",)}
X = "const int x = get_global_id(0);\n"
XY = "const int x = get_global_id(0), y = get_global_id(1);\n"
IN_LINE = X + "if (x >= n) return;\n"
IN_PLANE = XY + "if (x >= n || y >= m) return;\n"
SUM = "float s = 0;\nfor (int k = 0; k < 3; k++) s += b[k];\n"


def made(body: str, *, before: str = "", grid: tuple[str, ...], block: tuple[str, ...]) -> Made:
    """A kernel of four arrays that are as large as whole groups need."""
    cells = "(n + 7) // 8 * 8 * ((m + 3) // 4 * 4)"
    kinds = {"a": "float", "b": "float", "c": "float", "p": "int"}
    return Made(
        text=f"{before}__kernel {HEAD}\n{{\n{body}\n}}\n",
        arrays={name: (kind, cells) for name, kind in kinds.items()},
        sizes=[{"n": n, "m": m} for n, m in ((5, 7), (8, 4), (19, 13), (1, 1), (40, 3))],
        grid=grid,
        block=block,
    )


def coarsened(kernel: Made) -> tuple[list[Applied], list[str]]:
    """Along each axis and both, and why not."""
    program, found, reasons = kernel.program(), [], []
    for site in OPERATORS["coarsen"].sites(program.functions["f"], False):
        try:
            found.append(apply_edits(program, [{"op": "coarsen", "function": "f", **site}]))
        except EditRefused as refusal:
            reasons.append(refusal.reason)
    return found, reasons


STORE = "a store is not under a condition on its place"
READ = "an element is read that may lie beyond the launch"

REFUSED: dict[str, tuple[Made, str]] = {
    "a guard from below alone": (made(X + "if (x > 0) c[x] = b[x];", **LINE), STORE),
    "a guard that leaves one out": (made(X + "if (x != 2) c[x] = b[x];", **LINE), STORE),
    "one of two guards": (made(X + "if (x < n || m > 3) c[x] = b[x];", **LINE), STORE),
    "the other way round": (made(X + "if (x < n) c[x] = b[x]; else c[x] = 5.0f;", **LINE), STORE),
    "a remainder": (made(X + "if (x % 4 < 2) c[x] = b[x];", **LINE), STORE),
    "a limit that follows": (made(X + "if (x < x + n) c[x] = b[x];", **LINE), STORE),
    "a store by a pointer": (made(X + "*(c + x) = b[x];", **LINE), STORE),
    "a store by a pointer of its own": (made(X + "__global float *q = c;\nq[x] = b[x];", **LINE), STORE),
    "a count without a guard": (made(X + "atomic_add(p, 1);\nif (x < n) c[x] = 1.0f;", **LINE), STORE),
    "below zero without a sign": (
        made("const uint x = get_global_id(0);\nif (x < n - 3) c[x] = b[x];", **LINE),
        STORE,
    ),
    "an early end below zero": (
        made(f"const size_t x = get_global_id(0);\nif (x >= n - 3) return;\n{SUM}c[x] = s;", **LINE),
        STORE,
    ),
    "an element before the guard": (made(X + "const float v = b[x];\nif (x < n) c[x] = v;", **LINE), READ),
    "an element in the guard": (made(X + "if (p[x] > 3 && x < n) c[x] = 1.0f;", **LINE), READ),
    "an element in an early end": (made(X + "if (p[x] > 3 || x >= n) return;\nc[x] = 1.0f;", **LINE), READ),
    "a size that changes": (
        made(f"{X}const int at = x * m;\nif (x >= n) return;\nm = m / 2;\n{SUM}c[at] = s;", **LINE),
        "m changes",
    ),
    "a number that changes": (
        made(f"int x = get_global_id(0);\nif (x >= n) return;\nx = n - 1 - x;\n{SUM}c[x] = s + x;", **LINE),
        "needs x, which changes",
    ),
    "a counter declared before": (
        made(IN_LINE + "float s = 0; int k;\nfor (k = 0; k < 3; k++) s += b[k];\nc[x] = s;", **LINE),
        "counter of loop k is declared before it",
    ),
    "a name that is declared again": (
        made(
            IN_LINE + "float s = 0; float v = x;\nfor (int k = 0; k < 3; k++) { float v = b[k]; s += v; }\n"
            "c[x] = s + v;",
            **LINE,
        ),
        "v is declared again",
    ),
    "a row in a macro": (
        made(f"{IN_PLANE}{SUM}c[ROW + x] = s;", before="#define ROW (y * n)\n", **PLANE),
        "the function names ROW, a macro",
    ),
    "a place in a function": (
        made(
            f"{IN_PLANE}{SUM}c[y * n + place()] = s;",
            before="int place(void) { return get_global_id(0); }\n",
            **PLANE,
        ),
        "asks for its group by get_global_id",
    ),
    "memory that a branch shares": (
        made(
            X + "__local float t[8];\nif (x < n) { t[get_local_id(0)] = b[x]; c[x] = t[get_local_id(0)]; }",
            **LINE,
        ),
        "in an inner scope",
    ),
}

COUNTED = IN_PLANE + SUM + "atomic_add(&p[x], 1);\nc[y * n + x] = s;"
LEFT: dict[str, Made] = {
    "a count that is the same for all": made(COUNTED, **PLANE),
    "a count by a function": made(
        COUNTED.replace("atomic_add(&p[x], 1)", "count(p + x)"),
        before="void count(__global int *at) { atomic_add(at, 1); }\n",
        **PLANE,
    ),
    "a value before two guards": made(
        f"{XY}if (x >= n) return;\nconst float v = b[x];\nif (y >= m) return;\n{SUM}c[y * n + x] = s + v;",
        **PLANE,
    ),
    "a choice of elements": made(X + "const float v = x < n ? b[x] : 0;\nif (x < n) c[x] = v;", **LINE),
    "a guard in a variable": made(X + "const int inside = x < n;\nif (inside) c[x] = b[x];", **LINE),
    "a row by a pointer": made(f"{IN_PLANE}__global float *row = c + y * n;\n{SUM}row[x] = s;", **PLANE),
    "numbers of its own": made(
        IN_PLANE
        + "float v[3];\nfor (int k = 0; k < 3; k++) v[k] = b[k] + x;\nfloat s = 0;\n"
        + "for (int k = 0; k < 3; k++) s += v[k] * y;\nc[y * n + x] = s;",
        **PLANE,
    ),
    "memory that a group shares": made(
        XY
        + "__local float t[4][8];\nconst int u = get_local_id(0), v = get_local_id(1);\n"
        + "t[v][u] = x < n && y < m ? b[y * n + x] : 0;\nbarrier(CLK_LOCAL_MEM_FENCE);\n"
        + "if (x < n && y < m) c[y * n + x] = t[3 - v][7 - u];",
        **PLANE,
    ),
    "vectors": made(IN_LINE + "float4 v = vload4(0, b);\nv *= 2.0f;\nvstore4(v + x, x, c);", **LINE),
    "one array by two names": made(IN_LINE + "__global float *q = c;\nq[x] = b[x];\nc[x] += 1;", **LINE),
    "guards inside one another": made(
        XY + f"if (x < n) {{ const float v = b[x]; if (y < m) {{ {SUM}c[y * n + x] = s * v; }} }}", **PLANE
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_coarsening_beyond_bounds_is_refused(name: str) -> None:
    kernel, reason = REFUSED[name]
    found, reasons = coarsened(kernel)
    # Along an axis that has nothing to do with it there may be no reason.
    assert not found or len(kernel.grid) > 1
    assert any(reason in why for why in reasons), reasons
    assert all("\n" not in why for why in reasons)


@needs.oclgrind
@pytest.mark.integration
def test_coarsened_kernels_give_the_same(tmp_path: Path) -> None:
    """Counts, results and places of reads and stores, at sizes that groups do not divide; all in one process."""
    kernels = []
    for name, kernel in LEFT.items():
        found, reasons = coarsened(kernel)
        assert found, (name, reasons)
        kernels.append((kernel, found))
    assert differing_kernels(kernels, 1, tmp_path) == []
