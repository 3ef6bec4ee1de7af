"""Structures that CUDA kernels take by value: layouts by NVRTC, verified under emulation and on the stand-in driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.errors import SpecError
from tuner.core.types import (
    Build,
    BuildRequest,
    Parcel,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
)
from tuner.evaluators.cuda.backend import CudaBackend, CudaEvaluation
from tuner.evaluators.cuda.compiler import CudaCompiler, Made
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

pytestmark = needs.nvrtc

KERNEL = """
#include <cstdio>
namespace sim {
struct Box { double lo[3]; char tag; };
struct Params {
    int nx;
    bool on;
    Box box;
    const float *data;
    float4 w;
    int spare[PAD];
    float dt;
    __host__ __device__ float scaled(float a) const { return a * dt; }
};
}
__global__ void step(const float *u, sim::Params p, float *v)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.nx && p.on)
        v[i] = u[i] * p.w.x + p.w.w * (float)p.box.lo[1] * p.data[i] + p.scaled(p.box.tag) + p.spare[0];
}
int main() { sim::Params p{}; step<<<1, 32>>>(nullptr, p, nullptr); puts("done"); }
"""
SPEC = """\
kernel: {source: k.cu, entry: step}
target: sm_90
problem: {n: 3000}
arguments:
  - {name: u, dtype: float32, shape: [n]}
  - name: p
    struct: sim::Params
    by: value
    members:
      - {name: nx, dtype: int32, value: n}
      - {name: "on", dtype: bool, value: 1}
      - name: box
        by: value
        members:
          - {name: lo, dtype: float64, shape: [3], by: value, init: {uniform: [1, 2]}}
          - {name: tag, dtype: int8, value: 7}
      - {name: data, dtype: float32, shape: [n]}
      - name: w
        by: value
        members: [{name: x, dtype: float32, value: 0.5}, {name: w, dtype: float32, value: 3}]
      - {name: dt, dtype: float32, value: 0.25}
  - {name: v, dtype: float32, shape: [n], role: output}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space: {parameters: {BLOCK: [64, 128], PAD: [3, 4]}, passes: off}
verify: {reference: {python: ref.py:step}, problems: [{n: 67}]}
"""
REFERENCE = """
def step(u, p):
    return {"v": u * p.w.x + p.w.w * p.box.lo[1] * p.data + p.dt * p.box.tag}
"""


def spec_of(folder: Path, text: str = SPEC, kernel: str = KERNEL) -> LoadedSpec:
    (folder / "k.cu").write_text(kernel)
    (folder / "ref.py").write_text(REFERENCE)
    (folder / "k.yaml").write_text(text)
    (loaded,) = load_spec(folder / "k.yaml")
    return loaded


def setting(pad: int = 3, pipeline: str | None = None) -> Resolved:
    return Resolved(macros={"BLOCK": 64, "PAD": pad}, scalars={}, flags=(), pipeline=pipeline)


class Bench:
    """The kernel without a device."""

    def __init__(self, folder: Path) -> None:
        self.loaded = spec_of(folder)
        self.evaluation: CudaEvaluation = CudaBackend().prepare(self.loaded.task, workers=1)

    def build(self, kernel: str = KERNEL, resolved: Resolved | None = None) -> Build:
        variant = Variant(files=(Source(name="k.cu", text=kernel),))
        request = BuildRequest(trial=1, variant=variant, resolved=resolved or setting())
        (build,) = self.evaluation.build([request])
        return build

    def verdict(self, kernel: str) -> tuple[Status, str]:
        build = self.build(kernel)
        assert build.status is Status.OK, build.message
        session = self.evaluation.open(build, setting(), purpose="search", number=0)
        verdict = session.verify()
        return verdict.status, verdict.message


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """With its baseline."""
    made = Bench(tmp_path_factory.mktemp("structures"))
    report = made.evaluation.set_baseline(made.build(), setting())
    assert report.status is Status.OK, report.message
    assert report.reference == "python"
    yield made
    made.evaluation.close()


@pytest.mark.integration
def test_members_reach_the_kernel_under_emulation_and_faults_are_found(bench: Bench) -> None:
    assert bench.loaded.task.kernel.parcels == (Parcel(name="p", kind="sim::Params"),)
    assert bench.loaded.notices == ("arguments: p.spare is used by step and not listed, so it is zero",)
    assert bench.verdict(KERNEL.replace("u[i] * p.w.x", "p.w.x * u[i]"))[0] is Status.OK
    for old, new in (
        ("p.w.x", "p.w.w"),
        ("p.data[i]", "p.data[i / 2]"),
    ):
        assert bench.verdict(KERNEL.replace(old, new))[0] is Status.WRONG_RESULT, new
    status, message = bench.verdict(KERNEL.replace("p.data[i]", "p.data[i + 64]"))
    assert (status, "p.data[" in message) == (Status.CRASHED, True), message


@pytest.mark.parametrize(
    "pipeline", [None, pytest.param("function(sroa),default<O3>", marks=needs.cuda_passes)]
)
@pytest.mark.integration
def test_a_candidate_that_lays_a_structure_out_otherwise_does_not_build(
    bench: Bench, pipeline: str | None
) -> None:
    resolved = setting(pipeline=pipeline)
    assert bench.build(resolved=resolved).status is Status.OK
    others = (
        KERNEL.replace("int nx;\n    bool on;", "bool on;\n    int nx;"),
        KERNEL.replace("int spare[PAD];\n", ""),
        KERNEL.replace("double lo[3]; char tag;", "double lo[4]; char tag;"),
    )
    for text in others[:1] if pipeline else others:
        assert text != KERNEL
        build = bench.build(text.replace("+ p.spare[0]", ""), resolved)
        assert build.status is Status.BUILD_ERROR
        assert "not laid out as in the kernel as given" in build.message


@pytest.mark.integration
def test_a_macro_may_change_a_structure_with_its_layout(bench: Bench) -> None:
    sizes = {}
    with CudaCompiler("sm_90") as compiler:
        for pad in (3, 9):
            found: Any = compiler.layouts(bench.loaded.task, setting(pad))
            sizes[pad] = found["p"].leaves["p.dt"].offset
        typed = replace(bench.loaded.task.kernel, parcels=(Parcel(name="p", kind="Own<PAD>"),), entry="k")
        text = "template <int N> struct Own { float w[N]; int nx; };\n__global__ void k(Own<1> p) {}\n"
        typed = replace(typed, variant=Variant(files=(Source(name="k.cu", text=text),)))
        task = replace(bench.loaded.task, kernel=typed, arguments=bench.loaded.task.arguments[1:2])
        named: list[Any] = [compiler.layouts(task, setting(pad)) for pad in (3, 9)]
    assert [found["p"].size for found in named] == [16, 40]
    assert sizes[9] - sizes[3] == 24
    assert bench.build(resolved=setting(9)).status is Status.OK


VIEWS = """
#include <cuda_fp16.h>
template <typename T> struct View {
    T *__restrict__ data; int n, pitch;
    __device__ T &operator()(int y, int x) const { return data[y * pitch + x]; }
};
enum class Mode : unsigned char { plain, twice };
struct Opt { Mode mode; half h; float2 *pairs; const int *count; size_t big; double m[2][3]; };
template <typename T, int BX>
__global__ void blur(View<const T> in, View<T> out, const Opt __grid_constant__ o)
{
    int x = blockIdx.x * BX + threadIdx.x, y = blockIdx.y;
    if (x >= in.n || x >= *o.count) return;
    T s = in(y, x);
    if (x + 1 < in.n) s += in(y, x + 1);
    s *= o.mode == Mode::twice ? 2 : 1;
    out(y, x) = s + __half2float(o.h) + (T)o.m[1][2] + o.pairs[x].y + o.big;
}
"""
VIEWS_SPEC = """\
kernel: {source: k.cu, entry: "blur<float, WIDTH>"}
target: sm_90
problem: {n: 300, m: 4}
arguments:
  - name: in
    struct: View<const float>
    by: value
    members:
      - {name: data, dtype: float32, shape: [m, n]}
      - {name: n, dtype: int32, value: n}
      - {name: pitch, dtype: int32, value: n}
  - name: out
    struct: View<float>
    by: value
    members: [{name: data, dtype: float32, shape: [m, n], role: output}, {name: pitch, dtype: int32, value: n}]
  - name: o
    struct: Opt
    by: value
    members:
      - {name: mode, dtype: uint8, value: 1}
      - {name: h, dtype: float16, value: 0.5}
      - {name: pairs, dtype: float32, shape: [n, 2]}
      - {name: count, dtype: int32, value: n, by: pointer}
      - {name: big, dtype: uint64, value: 3}
      - {name: m, dtype: float64, shape: [2, 3], by: value}
launch: {grid: ["ceil(n / WIDTH)", m], block: [WIDTH]}
space: {parameters: {WIDTH: [64, 128]}, passes: off}
verify: {reference: {python: ref.py:blur}, problems: [{n: 67, m: 3}]}
"""
VIEWS_REFERENCE = """
import numpy as np
def blur(o, **given):
    x = given["in"].data
    s = 2 * (x + np.pad(x, ((0, 0), (0, 1)))[:, 1:])
    return {"out.data": s + o.h + o.m[1, 2] + o.pairs[:, 1] + o.big}
"""


@pytest.mark.integration
def test_templates_with_methods_enumerations_and_vectors(tmp_path: Path) -> None:
    (tmp_path / "views.yaml").write_text(VIEWS_SPEC)
    (tmp_path / "k.cu").write_text(VIEWS)
    (tmp_path / "ref.py").write_text(VIEWS_REFERENCE)
    (loaded,) = load_spec(tmp_path / "views.yaml")
    resolved = Resolved(macros={"WIDTH": 64}, scalars={}, flags=(), pipeline=None)
    evaluation = CudaBackend().prepare(loaded.task, workers=1)
    try:
        request = BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)
        (build,) = evaluation.build([request])
        report = evaluation.set_baseline(build, resolved)
    finally:
        evaluation.close()
    assert report.status is Status.OK, report.message


MISTAKES = {
    "struct: sim::Params": ("struct: Params", "'Params' is no structure of the source"),
    "name: nx": ("name: nq", r"`sim::Params` has no member 'nq'; it has nx, on, box"),
    "name: lo": ("name: low", r"`sim::Box` has no member 'low'; did you mean 'lo'"),
    "name: nx, dtype: int32": (
        "name: nx, dtype: float32",
        "'p.nx' is a whole number of 4 bytes.*write int32",
    ),
    "name: data, dtype: float32": (
        "name: data, dtype: float64",
        "'p.data' is a pointer to a floating number of 4",
    ),
    "name: data, dtype: float32, shape: [n]": (
        "name: data, dtype: float32, value: 1",
        "'p.data' is a pointer .* but the spec gives a value",
    ),
    "shape: [3], by: value": ("shape: [4], by: value", r"an array of 3.*write shape: \[3\]"),
    "shape: [3], by: value,": ("shape: [n], by: value,", "'p.box.lo' lies in the structure itself"),
    "value: 0.25}": ("value: 0.25, role: output}", "'p.dt' is passed by value: what the kernel writes"),
    "    by: value\n    members": ("    members", "structure 'p' is passed by pointer"),
    "by: value\n    members": (
        "by: value\n    constant: true\n    members",
        "structure 'p' has constant; one in __constant__",
    ),
    "box\n        by: value": ("box", "'p.box' points to a structure"),
    "shape: [n]}\n      - name: w": ("shape: [n, 2], rows: pointers}\n      - name: w", "'p.data' has rows"),
}


@pytest.mark.parametrize("old", list(MISTAKES))
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str) -> None:
    new, said = MISTAKES[old]
    assert SPEC.count(old) == 1
    with pytest.raises(SpecError, match=r"k\.yaml:\d+:\d+: .*" + said) as caught:
        spec_of(tmp_path, SPEC.replace(old, new))
    assert "\n" not in str(caught.value)


@pytest.mark.integration
def test_a_recorded_spec_has_its_structures_without_a_compiler(bench: Bench, tmp_path: Path) -> None:
    loaded = bench.loaded
    again = load_recorded(loaded.text, loaded.files, folder=str(tmp_path))
    assert again.task.kernel.parcels == loaded.task.kernel.parcels
    assert again.task.arguments == loaded.task.arguments


NUMBERS: dict[str, Any] = {
    "bool": (ctypes.c_bool, "bool"),
    "signed char": (ctypes.c_byte, "int8"),
    "unsigned short": (ctypes.c_ushort, "uint16"),
    "int": (ctypes.c_int, "int32"),
    "float": (ctypes.c_float, "float32"),
    "double": (ctypes.c_double, "float64"),
    "const long long": (ctypes.c_longlong, "int64"),
}


@pytest.fixture(scope="module")
def compiler() -> Iterator[CudaCompiler]:
    """Of layouts."""
    with CudaCompiler("sm_90") as made:
        yield made


@settings(max_examples=8, deadline=None)
@given(
    members=st.lists(st.tuples(st.sampled_from(sorted(NUMBERS)), st.integers(0, 3)), min_size=1, max_size=9)
)
def test_layouts_are_those_of_the_hosts_own_compiler(
    bench: Bench, compiler: CudaCompiler, members: list[tuple[str, int]]
) -> None:
    fields, lines, arguments = [], [], []
    like = bench.loaded.task.arguments[1]
    array = next(a for a in bench.loaded.task.arguments if a.passing == "inside")
    for i, (kind, count) in enumerate(members):
        own, dtype = NUMBERS[kind]
        fields.append((f"m{i}", own * count if count else own))
        lines.append(f"{kind} m{i}{f'[{count}]' if count else ''};")
        given = array if count else like
        arguments.append(replace(given, name=f"p.m{i}", dtype=dtype))
    shape = type("Shape", (ctypes.Structure,), {"_fields_": fields})
    text = f"struct S {{ {' '.join(lines)} __host__ __device__ S(); }};\n__global__ void k(S p) {{}}\n"
    kernel = replace(
        bench.loaded.task.kernel,
        entry="k",
        variant=Variant(files=(Source(name="k.cu", text=text),)),
        parcels=(Parcel(name="p", kind="S"),),
    )
    task = replace(bench.loaded.task, kernel=kernel, arguments=tuple(arguments))
    found: Any = compiler.layouts(task, setting())
    assert found["p"].size == ctypes.sizeof(shape)
    for name, _ in fields:
        leaf = found["p"].leaves[f"p.{name}"]
        assert (leaf.offset, leaf.size) == (getattr(shape, name).offset, getattr(shape, name).size)


C_PART = """
struct Box { double lo[3]; char tag; };
typedef struct { float x, y, z, w; } __attribute__((aligned(16))) float4;
struct Params {
    int nx;
    _Bool on;
    struct Box box;
    const float *data;
    float4 w;
    int spare[PAD];
    float dt;
};
typedef unsigned u;
double stand_in_worked;
#define work_us(us) (stand_in_worked += (us) * 1e-6)
int axpy(void **args, const u *grid, const u *block, u shared) {
    const float *in = *(const float **)args[0];
    struct Params p = *(struct Params *)args[1];
    float *v = *(float **)args[2];
    work_us(500);
    for (int i = 0; i < p.nx && p.on; i++)
        v[i] = in[i] * p.w.x + p.w.w * (float)p.box.lo[1] * p.data[i] + p.dt * p.box.tag + p.spare[0];
    return 0;
}
"""


class Packing(stand_in.HostCompiled):
    """The stand-in's compile side with the layouts that NVRTC says of the CUDA source."""

    def __init__(self, folder: Path, task: Task) -> None:
        super().__init__(folder)
        self._wide = ""
        with CudaCompiler("sm_90") as compiler:
            request = BuildRequest(trial=0, variant=task.kernel.variant, resolved=setting())
            (plain,) = compiler.build(task, [request])
            double = compiler.build_double(task, setting())
            assert (plain.status, double.status) == (Status.OK, Status.OK), double.message
            # As it travels to another machine.
            self._layouts = [Made.from_json(build.artifacts["made"]).layouts for build in (plain, double)]

    def build_double(self, task: Task, resolved: Resolved) -> Build:
        """Notes which one it is."""
        build: Build = super().build_double(task, resolved)
        self._wide = build.digest
        return build

    def made(self, build: Build) -> Made:
        """With the layouts."""
        made: Made = super().made(build)
        return replace(made, layouts=self._layouts[build.digest == self._wide])


@needs.cc
@pytest.mark.integration
def test_a_device_gets_the_structure_and_so_does_the_double_precision_reference(
    bench: Bench, tmp_path: Path
) -> None:
    given = replace(
        bench.loaded.task,
        verify=replace(bench.loaded.task.verify, reference=stand_in.make_task().verify.reference),
    )
    variant = Variant(files=(Source(name="axpy.cu", text=C_PART),))
    task = replace(given, kernel=replace(given.kernel, variant=variant))
    compiler: Any = Packing(tmp_path, given)
    runs = stand_in.device_runs(task, compiler, *stand_in.timed_driver(tmp_path))
    evaluation = CudaEvaluation(task, compiler=compiler, runs=runs)
    texts = [
        C_PART,
        C_PART.replace("lo[1]", "lo[2]"),
        C_PART.replace("p.data[i]", "p.data[i + 1]"),
        C_PART.replace("p.spare[0]", "1e-3f * p.nx"),
    ]
    try:
        builds = evaluation.build(
            [
                BuildRequest(
                    trial=i, variant=Variant(files=(Source(name="axpy.cu", text=t),)), resolved=setting()
                )
                for i, t in enumerate(texts)
            ]
        )
        report = evaluation.set_baseline(builds[0], setting())
        assert report.status is Status.OK, report.message
        assert (report.reference, report.notes["fallbacks"]) == ("float64", {})
        assert 0 < report.own_error["v"] < 1e-4
        found = []
        for build in builds:
            session = evaluation.open(build, setting(), purpose="search", number=0)
            found.append(session.verify().status)
            if len(found) == 1:
                measured = session.measure(problem=0, calls=4)
                assert measured.status is Status.OK, measured.message
            session.close()
    finally:
        evaluation.close()
    assert found == [Status.OK, Status.WRONG_RESULT, Status.WRONG_RESULT, Status.WRONG_RESULT]
