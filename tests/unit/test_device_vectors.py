"""Device operators on vector types, types of a template, pointers beside their arrays, and numbers without a sign.

Every operator wherever it applies; OpenCL under Oclgrind, CUDA under emulation, which both find races and bounds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from same_device_results import Made, device_variants, differing_kernels
from spec_files import spec_in

from tuner.core.types import Resolved, Status
from tuner.evaluators.emulation import Emulator
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program, read_program

X = "const int x = get_global_id(0);\nif (x >= n) return;\n"
XY = "const int x = get_global_id(0), y = get_global_id(1);\nif (x >= n || y >= m) return;\n"
FOURS = {"a": ("float", "4 * n * m"), "b": ("float", "4 * max(n, m)"), "c": ("float", "4 * n * m")}
ONES = {"a": ("float", "n * m"), "b": ("float", "max(n, m)"), "c": ("float", "n * m")}
BYTES = dict.fromkeys("abc", ("uchar", "4 * n * m"))


def opencl(body: str, kind: str, arrays: dict[str, tuple[str, str]]) -> Made:
    params = f"__global const {kind} *a, __global const {kind} *b, __global {kind} *c"
    plane = "get_global_id(1)" in body
    return Made(
        text=f"__kernel void f({params}, int n, int m)\n{{\n{body}\n}}\n",
        arrays=arrays,
        sizes=[{"n": n, "m": m} for n, m in ((1, 1), (8, 4), (11, 6))],
        grid=("ceil(n / 8)", "ceil(m / 4)") if plane else ("ceil(n / 8)",),
        block=("8", "4") if plane else ("8",),
    )


SUM = "for (int k = 0; k < n; k++) s += a[y * n + k] * b[k];\nc[y * n + x] = s;"
OPENCL = {
    "a sum of vectors": opencl(XY + f"float4 s = 0;\n{SUM}", "float4", FOURS),
    "small vectors": opencl(X + "uchar4 v = a[x];\nc[x] = v + b[x];", "uchar4", BYTES),
    "a view as numbers": opencl(
        X + "__global const float *q = (__global const float *)a;\nfloat s = 0;\n"
        "for (int k = 0; k < n; k++) s += q[k];\nc[x] = (float4)(s);",
        "float4",
        FOURS,
    ),
    "loads of vectors": opencl(
        XY + "float s = 0;\nfor (int k = 0; k < n / 4; k++) s += dot(vload4(k, a + y * n), vload4(k, b));\n"
        "c[y * n + x] = s;",
        "float",
        ONES,
    ),
    "a pointer into an array": opencl(
        X + "__global float *d = c + n * (m - 1);\nd[x] = a[x];\nfloat s = 0;\n"
        "for (int k = 0; k < m; k++) s += b[k] * d[x];\nc[x] = m > 1 ? s : d[x];",
        "float",
        ONES,
    ),
    "a pointer that walks": opencl(
        XY + "__global const float *r = a + y * n;\nfloat s = 0;\nfor (int k = 0; k < n; k++) s += *r++;\n"
        "c[y * n + x] = s + b[x];",
        "float",
        ONES,
    ),
    "numbers without a sign": opencl(
        "const uint x = get_global_id(0), y = get_global_id(1);\nif (x >= n || y >= m) return;\nfloat s = 0;\n"
        "for (uint k = 0; k < n; k++) s += a[y * n + k] * b[x];\nc[y * n + x] = s;",
        "float",
        ONES,
    ),
}

PLACES = """const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= m) return;
    """
PLAIN = 'extern "C" __global__ void f(const float{v} *a, const float{v} *b, float{v} *c, int n, int m)'
TEMPLATE = "template <typename T, int N> __global__ void f(const T *a, const T *b, T *c, int n, int m)"
CUDA = {
    "a template": (TEMPLATE, "f<float, 3>", "", "T s = T(0);\n" + SUM.replace("= s;", "= s * N;")),
    "vectors": (
        PLAIN.format(v="4"),
        "f",
        ", 4",
        "float4 s = a[y * n + x];\nconst float4 w = b[x];\ns.x += w.w; s.y *= w.x;\nc[y * n + x] = s;",
    ),
    "a reference": (
        PLAIN.format(v=""),
        "f",
        "",
        "const float &v = a[y * n + x];\nfloat &w = c[y * n + x];\nw = v;\n"
        "for (int k = 0; k < n; k++) w += b[k];",
    ),
}
SPEC = """\
kernel: {{source: k.cu, entry: "{entry}"}}
target: sm_90
problem: {{n: 11, m: 6}}
arguments:
  - {{name: a, dtype: float32, shape: [m, n{lanes}], init: {{uniform: [-1, 1]}}}}
  - {{name: b, dtype: float32, shape: [m, n{lanes}], init: {{uniform: [-1, 1]}}}}
  - {{name: c, dtype: float32, shape: [m, n{lanes}], role: output}}
  - {{name: n, dtype: int32, value: n}}
  - {{name: m, dtype: int32, value: m}}
launch: {{grid: ["ceil(n / 8)", "ceil(m / 4)"], block: [8, 4]}}
verify: {{rtol: 1.0e-5, atol: 1.0e-5, problems: [{{n: 1, m: 1}}, {{n: 8, m: 4}}]}}
"""


def everywhere(program: Program, *names: str, most: int = 2) -> Iterator[Applied]:
    """Operators at the last place where they apply, and at the first one."""
    for name in names:
        made = list[Applied]()
        for site in OPERATORS[name].sites(program.functions["f"], False):
            with contextlib.suppress(EditRefused):
                made.append(apply_edits(program, [{"op": name, "function": "f", **site}]))
        yield from (made[-1:] + made[:-1])[:most]


@pytest.mark.integration
@needs.oclgrind
def test_opencl_variants_give_the_same(tmp_path: Path) -> None:
    kernels = [
        (made, [*device_variants(made.program(), 1), *everywhere(made.program(), "coarsen")])
        for made in OPENCL.values()
    ]
    assert all(variants for _, variants in kernels)
    assert differing_kernels(kernels, 1, tmp_path) == []


@pytest.mark.integration
@needs.nvrtc
@pytest.mark.parametrize("name", CUDA)
def test_cuda_variants_give_the_same(name: str, tmp_path: Path) -> None:
    head, entry, lanes, body = CUDA[name]
    spec = spec_in(
        tmp_path, "k.cu", f"{head}\n{{\n    {PLACES}{body}\n}}\n", SPEC.format(entry=entry, lanes=lanes)
    )
    program = read_program(spec.task.kernel, launch=spec.task.launch)
    device = [n for n, o in OPERATORS.items() if "cuda" in o.languages and not o.raw and n != "restrict"]
    emulator = Emulator(spec.task)
    plain: dict[str, Any] = {"scalars": {}, "flags": (), "pipeline": None}
    tried = 0
    try:
        report = emulator.set_baseline(Resolved(macros={}, **plain), spec.task.kernel.variant)
        assert report.status is Status.OK, report.message
        for made in everywhere(program, *device, most=1):
            values = {p.name: p.default for p in made.parameters}
            resolved = Resolved(macros=values, launch=made.variant.launch, **plain)
            verdict = emulator.verify(resolved, made.variant)
            assert verdict.status is Status.OK, (made.variant.edits, verdict.message)
            tried += 1
    finally:
        emulator.close()
    assert tried >= 4
