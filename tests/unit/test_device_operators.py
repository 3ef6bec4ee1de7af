"""Operators for OpenCL and CUDA: variants run on PoCL and under emulation, at odd sizes, launches included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from tuner.core.expressions import parse
from tuner.core.types import BuildRequest, Launch, Resolved, Source, Status, Task, Variant
from tuner.evaluators.emulation import Emulator
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.search.remix import RemixProposer
from tuner.spaces.source.edits import Applied, EditRefused, apply_edits
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

PRODUCT = """void product(const float *a, const float *b, float *c, int n)
{
    const int x = ID0, y = ID1;
    if (x >= n || y >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < n; k++)
        sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
"""
ROWS = """void product(const float *a, const float *b, float *c, int n)
{
    const int row = ID0;
    if (row < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; k++)
            sum += a[row * n + k] * b[k];
        c[row] = sum;
    }
}
"""
SCALED = """void product(const float *a, const float *b, float *c, int n)
{
    int at = ID0;
    if (at < n * n)
        c[at] = 2.5f * a[at] + b[at];
}
"""
BODIES = """void product(const float4 *a, const float *b, float4 *c, int n)
{
    const int i = ID0;
    if (i >= n)
        return;
    float4 own = a[i];
    float4 sum = VECTOR(0.0f, 0.0f, 0.0f, 0.0f);
    for (int k = 0; k < n; k++) {
        float dx = a[k].x - own.x;
        float dy = a[k].y - own.y;
        float weight = a[k].w * b[k] / (dx * dx + dy * dy + 0.5f);
        sum.x += weight * dx;
        sum.y += weight * dy;
    }
    c[i] = sum;
}
"""
CELLS = """typedef struct { float f[3]; int kind; } cell;
void product(const float *a, const cell *b, cell *c, int n)
{
    int i = ID0;
    if (i < n) {
        cell made = b[i];
        float scales[3] = {1.0f, 0.5f};
        for (int k = 0; k < n; k++)
            made.f[k % 3] += scales[k % 3] * b[k].f[2] * a[i];
        c[i].f[0] = made.f[0] + made.f[1];
        c[i].f[1] = made.f[1] - made.f[2];
        c[i].f[2] = b[i].f[0];
        c[i].kind = 0;
    }
}
"""
LAUNCHES = {
    "bodies": 'launch: {grid: ["ceil(n / 32)"], block: [32]}',
    "cells": 'launch: {grid: ["ceil(n / 32)"], block: [32]}',
    "product": 'launch: {grid: ["ceil(n / 8)", "ceil(n / 4)"], block: [8, 4]}',
    "rows": 'launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}\nspace: {parameters: {BLOCK: [32, 64]}}',
    "scaled": 'launch: {grid: ["ceil(n * n / 32)"], block: [32]}',
}
KERNELS = {"product": PRODUCT, "rows": ROWS, "scaled": SCALED, "bodies": BODIES, "cells": CELLS}
SHAPES = {"rows": ("n, n", "n, n", "n"), "bodies": ("n, 4", "n", "n, 4"), "cells": ("n", "n, 4", "n, 4")}
SPEC = """\
kernel: {{source: {source}, entry: product}}
problem: {{n: 37}}
arguments:
  - {{name: a, dtype: float32, shape: [{shapes[0]}], init: {{uniform: [-1, 1]}}}}
  - {{name: b, dtype: float32, shape: [{shapes[1]}], init: {{uniform: [-1, 1]}}}}
  - {{name: c, dtype: float32, shape: [{shapes[2]}], role: output}}
  - {{name: n, dtype: int32, value: n}}
{launch}
verify: {{numerics: reassociate, rtol: 1.0e-5, atol: 1.0e-5, problems: [{{n: 1}}, {{n: 16}}]}}
"""


def task_of(folder: Path, language: str, name: str) -> Task:
    """The task of one kernel in one language."""
    text = KERNELS[name]
    if language == "opencl":
        text = text.replace("ID0", "get_global_id(0)").replace("ID1", "get_global_id(1)")
        text = text.replace("const float *", "__global const float *").replace(
            ", float *", ", __global float *"
        )
        for kind in ("cell", "float4"):
            text = text.replace(f"const {kind} *", f"__global const {kind} *")
            text = text.replace(f" {kind} *c", f" __global {kind} *c")
        text = text.replace("VECTOR", "(float4)").replace("void product", "__kernel void product")
    else:
        for axis, letter in enumerate("xy"):
            number = f"blockIdx.{letter} * blockDim.{letter} + threadIdx.{letter}"
            text = text.replace(f"ID{axis}", number)
        text = text.replace("VECTOR", "make_float4").replace(
            "void product", 'extern "C" __global__ void product'
        )
    source = "k.cl" if language == "opencl" else "k.cu"
    defaults = "#ifndef BLOCK\n#define BLOCK 32\n#endif\n" if name == "rows" else ""
    (folder / source).write_text(defaults + text)
    shapes = SHAPES.get(name, ("n, n",) * 3)
    target = "target: sm_90\n" if language == "cuda" else ""
    launch = target + LAUNCHES[name]
    (folder / "k.yaml").write_text(SPEC.format(source=source, shapes=shapes, launch=launch))
    return load_spec(folder / "k.yaml")[0].task


class OpenClBench:
    """A kernel with its baseline on PoCL."""

    def __init__(self, task: Task, base: Mapping[str, int]) -> None:
        self.task = task
        self.program = read_program(task.kernel, launch=task.launch)
        self.evaluation = OpenClBackend().prepare(task, workers=1)
        plain = Resolved(macros=dict(base), scalars={}, flags=(), pipeline=None)
        (build,) = self.evaluation.build([BuildRequest(trial=0, variant=task.kernel.variant, resolved=plain)])
        report = self.evaluation.set_baseline(build, plain)
        assert report.status is Status.OK, report.message

    def judge(self, variant: Variant, resolved: Resolved) -> tuple[Status, str]:
        """What the verification says."""
        (build,) = self.evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved)])
        if build.status is not Status.OK:
            return build.status, build.message
        session = self.evaluation.open(build, resolved, purpose="search", number=0)
        try:
            verdict = session.verify()
        finally:
            session.close()
        return verdict.status, verdict.message

    def close(self) -> None:
        """Ends its processes."""
        self.evaluation.close()


class CudaBench:
    """A kernel with its baseline under emulation."""

    def __init__(self, task: Task, base: Mapping[str, int]) -> None:
        self.task = task
        self.program = read_program(task.kernel, launch=task.launch)
        self.emulator = Emulator(task)
        plain = Resolved(macros=dict(base), scalars={}, flags=(), pipeline=None)
        report = self.emulator.set_baseline(plain, task.kernel.variant)
        assert report.status is Status.OK, report.message

    def judge(self, variant: Variant, resolved: Resolved) -> tuple[Status, str]:
        """What the verification says."""
        verdict = self.emulator.verify(resolved, variant)
        return verdict.status, verdict.message

    def close(self) -> None:
        """Ends its processes."""
        self.emulator.close()


Benches = dict[tuple[str, str], "OpenClBench | CudaBench"]


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Gives a bench for a language and a kernel; made when first asked for."""
    made: Benches = {}

    def bench(language: str, name: str) -> OpenClBench | CudaBench:
        key = (language, name)
        if key not in made:
            task = task_of(tmp_path_factory.mktemp("kernel"), language, name)
            kind = OpenClBench if language == "opencl" else CudaBench
            made[key] = kind(task, BASE.get(name, {}))
        return made[key]

    yield bench
    for one in made.values():
        one.close()


RUN_WITH = {"opencl": needs.pocl, "cuda": ()}
"""What a language runs on; CUDA is emulated."""
BASE = {"rows": {"BLOCK": 32}}
STAGE = {"op": "stage", "loop": "k", "parameters": [["TILE_K", 16], ["PAD", 1]]}
BOTH = {**STAGE, "arrays": ["a", "b"]}
COARSE = {"op": "coarsen", "axes": [1, 0], "parameters": [["COARSEN_Y", 2], ["COARSEN_X", 4]]}
LONG = {"op": "coarsen", "axes": [0], "parameters": [["COARSEN_X", 4]]}
STRIDE = {"op": "grid_stride", "axis": 0, "parameters": [["STRIDE_X", 4]]}
VECTOR = {"op": "vector_loads", "loop": "k", "array": "a"}
SUM = {"op": "share_sum", "loop": "k", "reassociate": True, "parameters": [["LANES", 8]]}
BLOCK = {"op": "block_size", "axis": 0, "parameters": [["BLOCK_X", 64]]}
UNROLL = {"op": "unroll", "loop": "k", "parameters": [["UNROLL_K", 4]]}
JAM = {"op": "unroll_and_jam", "loops": ["k"]}
MEMBERS = {"op": "read_members"}
NEAR = {**STAGE, "arrays": ["a", "b"]}
BOUNDS = {"op": "launch_bounds", "parameters": [["MIN_BLOCKS", 2]]}
CASES: list[tuple[str, str, list[dict[str, Any]]]] = [
    ("stage", "product", [BOTH]),
    ("stage_double", "product", [{**BOTH, "double": True}]),
    ("stage_rows", "rows", [BOTH]),
    ("coarsen", "product", [COARSE]),
    ("stride", "product", [STRIDE]),
    ("block_stage", "product", [{**BLOCK, "parameters": [["BLOCK_X", 16]]}, BOTH, COARSE]),
    ("vector", "rows", [VECTOR]),
    ("sum", "rows", [SUM]),
    ("unroll", "rows", [UNROLL]),
    ("stage_members", "bodies", [MEMBERS, NEAR]),
    ("stage_structures", "cells", [MEMBERS, {**NEAR, "arrays": ["b"]}]),
    ("coarsen_structures", "cells", [MEMBERS, LONG]),
    ("told", "product", [{"op": "restrict"}, BOUNDS]),
]
CUDA_CASES = [("read_only", "product", [{"op": "read_only_loads", "array": "a"}])]


def edits_of(language: str, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whole edits; a tunable's default is one that is not its first value."""
    made = []
    for step in steps:
        edit = {"function": "product", **step}
        if "parameters" in step:
            edit["parameters"] = [{"name": n, "values": [v], "default": v} for n, v in step["parameters"]]
        if language == "opencl" and step["op"] == "launch_bounds":
            del edit["parameters"]
        if language == "cuda" and step["op"] == "restrict":
            edit["language"] = "c++"
        made.append(edit)
    return made


def resolved_of(made: Applied, name: str) -> Resolved:
    """The variant at its defaults."""
    values = {p.name: p.default for p in made.parameters} | BASE.get(name, {})
    return Resolved(macros=values, scalars={}, flags=(), pipeline=None, launch=made.variant.launch)


RULES_ALONE = {
    *("stage_rows", "stage_double", "stage_members", "stride", "block_stage"),
    *("stage_structures", "coarsen_structures", "unroll"),
}
"""Cases of an operator's rules only, which both languages share: they run where it is quickest and races are seen. The
others write what each language spells in its own way: numbers of threads, barriers, shared memory, vectors."""


def in_both() -> Iterator[Any]:
    """Each edit in each of the languages in which it is written in another way."""
    for case in CASES:
        for language, marks in RUN_WITH.items():
            if language == "opencl" and case[0] in RULES_ALONE:
                continue
            yield pytest.param(language, *case, id=f"{case[0]}-{language}", marks=marks)


@pytest.mark.integration
@pytest.mark.parametrize(("language", "label", "name", "steps"), [*in_both()])
def test_a_variant_computes_the_same(
    language: str, label: str, name: str, steps: list[dict[str, Any]], benches: Any
) -> None:
    bench = benches(language, name)
    made = apply_edits(bench.program, edits_of(language, steps))
    verdict = bench.judge(made.variant, resolved_of(made, name))
    assert verdict[0] is Status.OK, f"{verdict[1]}\n{made.variant.files[0].text}\n{made.variant.launch}"


@pytest.mark.parametrize(("label", "name", "steps"), CUDA_CASES, ids=[c[0] for c in CUDA_CASES])
@pytest.mark.integration
def test_a_cuda_variant_computes_the_same(
    label: str, name: str, steps: list[dict[str, Any]], benches: Any
) -> None:
    test_a_variant_computes_the_same("cuda", label, name, steps, benches)


@needs.pocl
def test_a_changed_launch_is_part_of_the_variant(benches: Any) -> None:
    """Without its launch a coarsened variant is wrong; with it, it is another variant than its text alone."""
    bench = benches("opencl", "product")
    made = apply_edits(bench.program, edits_of("opencl", [COARSE]))
    assert made.variant.launch is not None
    assert [e.text for e in made.variant.launch.grid] == [
        "ceil((ceil(n / 8)) / COARSEN_X)",
        "ceil((ceil(n / 4)) / COARSEN_Y)",
    ]
    assert replace(made.variant, launch=None).digest != made.variant.digest
    assert Launch.from_json(made.variant.launch.to_json()) == made.variant.launch
    fewer = replace(made.variant.launch, grid=(parse("ceil(n / 64)"), parse("ceil(n / 4)")))
    verdict = bench.judge(made.variant, replace(resolved_of(made, "product"), launch=fewer))
    assert verdict[0] is Status.WRONG_RESULT


@pytest.mark.integration
def test_a_missing_barrier_is_seen_under_emulation(benches: Any) -> None:
    """The race detector says so, whatever the order of the threads gives."""
    bench = benches("cuda", "product")
    steps = edits_of("cuda", [BOTH])
    text = apply_edits(bench.program, steps).variant.files[0].text
    line = next(n for n in text.splitlines(keepends=True) if "__syncthreads" in n)
    made = apply_edits(bench.program, steps)
    files = (Source(name="k.cu", text=text.replace(line, "", 1)),)
    status, message = bench.judge(replace(made.variant, files=files), resolved_of(made, "product"))
    assert status is not Status.OK
    assert "race" in message or "same time" in message or "barrier" in message, message


REFUSED = [
    (
        "coarsen",
        "product",
        [COARSE, {**STRIDE, "parameters": [["STRIDE_X", 2]]}],
        "are not numbered by variables",
    ),
    (
        "stage_twice",
        "product",
        [BOTH, {**BOTH, "parameters": [["T", 8], ["P", 0]]}],
        "are not numbered by variables",
    ),
    ("sum_of_two", "product", [SUM], "more than one axis"),
    ("no_leave", "rows", [{**SUM, "reassociate": False}], "has no leave"),
    ("odd_array", "product", [{**STAGE, "arrays": ["c"]}], "is not only read"),
    ("no_axis", "rows", [{**LONG, "axes": [1]}], "no such axes"),
]


@pytest.mark.parametrize(("label", "name", "steps", "reason"), REFUSED, ids=[c[0] for c in REFUSED])
@pytest.mark.integration
def test_inapplicable_operators_say_why(
    label: str, name: str, steps: list[dict[str, Any]], reason: str, tmp_path: Path
) -> None:
    task = task_of(tmp_path, "opencl", name)
    with pytest.raises(EditRefused, match=reason):
        apply_edits(read_program(task.kernel, launch=task.launch), edits_of("opencl", steps))


def test_an_unguarded_kernel_is_not_coarsened(tmp_path: Path) -> None:
    """Its last group would store beyond the launch as it was."""
    task = task_of(tmp_path, "opencl", "scaled")
    text = task.kernel.variant.files[0].text.replace("    if (at < n * n)\n    ", "")
    variant = Variant(files=(Source(name="k.cl", text=text),))
    program = read_program(task.kernel, variant, launch=task.launch)
    with pytest.raises(EditRefused, match="under a condition on its place"):
        apply_edits(program, edits_of("opencl", [LONG]))


@pytest.mark.parametrize("name", ["product", "cells"])
@pytest.mark.integration
def test_proposed_variants_compute_the_same(name: str, benches: Any) -> None:
    """Whatever the proposer makes of a kernel, at its defaults; raw edits aside.

    Under emulation, which is quicker and sees races.
    """
    bench = benches("cuda", name)
    task = bench.task
    proposer = RemixProposer(task.kernel, "reassociate", launch=task.launch)
    known: set[str] = set()
    for number in range(3):
        made = proposer.propose([task.kernel.variant], np.random.default_rng(number), known)
        assert made is not None
        known.add(made.structure)
        if raw(made):
            continue
        values = {p.name: p.default for p in made.parameters} | BASE.get(name, {})
        resolved = Resolved(macros=values, scalars={}, flags=(), pipeline=None, launch=made.variant.launch)
        verdict = bench.judge(made.variant, resolved)
        assert verdict[0] is Status.OK, f"{verdict[1]}\n{made.variant.files[0].text}\n{made.variant.launch}"


def raw(made: Any) -> bool:
    """Whether the variant rests on an edit that may change results; those without an operator never do."""
    return any(e["op"] in OPERATORS and OPERATORS[e["op"]].raw for e in made.variant.edits)


EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cuda"


@pytest.mark.integration
def test_proposed_variants_of_an_example_compute_the_same() -> None:
    """A kernel with barriers and shared memory of its own; groups merge with those in step."""
    spec = load_spec(EXAMPLES / "matmul.yaml")[0]
    base = {k: int(v) for k, v in spec.space(None).default().items()}
    small = replace(spec.task.verify, problems=spec.task.verify.problems[:1])
    bench = CudaBench(replace(spec.task, verify=small), base)
    try:
        proposer = RemixProposer(spec.task.kernel, "reassociate", launch=spec.task.launch)
        known: set[str] = set()
        for number in range(2):
            made = proposer.propose([spec.task.kernel.variant], np.random.default_rng(number), known)
            if made is None or raw(made):
                continue
            known.add(made.structure)
            values = base | {p.name: p.default for p in made.parameters}
            resolved = Resolved(
                macros=values, scalars={}, flags=(), pipeline=None, launch=made.variant.launch
            )
            status, message = bench.judge(made.variant, resolved)
            # What does not fit on a device is no fault of the variant.
            assert status in (Status.OK, Status.OUT_OF_RESOURCES), (
                f"{message}\n{made.variant.files[0].text}\n{made.variant.launch}"
            )
    finally:
        bench.close()
