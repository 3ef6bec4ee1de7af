"""Kernels of one idea each: honest ones that look suspicious pass, and wrong ones that look honest do not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.protocols import BaselineReport
from tuner.core.types import Status
from tuner.evaluators.emulation import Emulator
from tuner.spec.load import load_spec

SPEC = """\
kernel: {{source: k.cu, entry: "{entry}"}}
target: {target}
problem: {{n: 300}}
arguments:
  - {{name: x, dtype: {dtype}, shape: [n], init: {init}}}
  - {{name: y, dtype: {dtype}, shape: [n], role: {role}, init: zeros}}
  - {{name: n, dtype: int32, value: n}}
launch: {{grid: ["ceil(n / 128)"], block: [{block}], shared_bytes: {shared}}}
verify:
  reference: {{python: ref.py:expected}}
"""
SPEC_OF_ALL = """\
kernel: {{source: k.cu, entry: k}}
target: sm_90
problem: {{n: 300}}
arguments:
  - {{name: x, dtype: float32, shape: [n], init: {{uniform: [-1, 1]}}}}
  - {{name: y, dtype: float32, shape: [n], role: output}}
  - {{name: n, dtype: int32, value: n}}
  - {{name: which, dtype: int32, value: WHICH}}
launch: {{grid: ["ceil(n / 128)"], block: [128]}}
space: {{parameters: {{WHICH: {{low: -1, high: {last}, default: -1, macro: false}}}}}}
"""
REFERENCE = """\
import numpy as np

def expected(x, n):
    return {{"y": {expected}}}
"""
HEAD = (
    "#define I (blockIdx.x * blockDim.x + threadIdx.x)\n"
    'extern "C" __global__ void k(const float *x, float *y, int n) '
)

Run = Callable[..., BaselineReport]
Verdicts = dict[str, tuple[Status, str]]


@pytest.fixture
def baseline(tmp_path: Path) -> Run:
    """Verifies a kernel as the baseline of a small spec."""

    def run(
        text: str,
        expected: str = "x",
        *,
        entry: str = "k",
        target: str = "sm_90",
        dtype: str = "float32",
        block: str = "128",
        shared: str = "0",
        role: str = "output",
    ) -> BaselineReport:
        init = "{uniform: [-1, 1]}" if dtype.startswith("float") else "{randint: [0, 50]}"
        zeros = SPEC if role == "inout" else SPEC.replace(", init: zeros", "")
        (tmp_path / "k.cu").write_text(text)
        (tmp_path / "ref.py").write_text(REFERENCE.format(expected=expected))
        values = {
            "entry": entry,
            "target": target,
            "dtype": dtype,
            "block": block,
            "shared": shared,
            "role": role,
        }
        (tmp_path / "k.yaml").write_text(zeros.format(init=init, **values))
        loaded = load_spec(tmp_path / "k.yaml")[0]
        space = loaded.space(None)
        emulator = Emulator(loaded.task)
        try:
            return emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
        finally:
            emulator.close()

    return run


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    """What becomes of each kernel below as a candidate, all built as one whose argument says which it is."""
    folder = tmp_path_factory.mktemp("kernels")
    bodies = [*HONEST.values(), *(body for body, _ in WRONG.values())]
    kernels = [
        f"__device__ void k{i}(const float *x, float *y, int n) {body}\n" for i, body in enumerate(bodies)
    ]
    cases = "".join(f" case {i}: k{i}(x, y, n); break;" for i in range(len(bodies)))
    head = HEAD.replace("int n", "int n, int which")
    (folder / "k.cu").write_text(
        f"{DECLARED}{''.join(kernels)}{head}{{ switch (which) {{{cases} default: if (I < n) y[I] = x[I]; }} }}\n"
    )
    (folder / "k.yaml").write_text(SPEC_OF_ALL.format(last=len(bodies) - 1))
    loaded = load_spec(folder / "k.yaml")[0]
    space = loaded.space(None)
    emulator, found = Emulator(loaded.task), {}
    try:
        report = emulator.set_baseline(space.resolve(space.default()), loaded.task.kernel.variant)
        assert report.status is Status.OK, report.message
        for number, name in enumerate([*HONEST, *WRONG]):
            chosen = space.resolve({**space.default(), "WHICH": number})
            verdict = emulator.verify(chosen, loaded.task.kernel.variant)
            found[name] = verdict.status, verdict.message
    finally:
        emulator.close()
    return found


DECLARED = """\
#include <cmath>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#define I (blockIdx.x * blockDim.x + threadIdx.x)
namespace cg = cooperative_groups;
__constant__ float two[2] = {2.0f, 0.5f};
__device__ int zero;
__device__ float sum;
static __device__ __noinline__ float down(float v, int n) {
    volatile float room[64];
    room[n % 64] = v;
    return n < -1 ? v : down(room[n % 64], n + 1) + room[(n + 1) % 64];
}
"""
HONEST = {
    "one value from many threads": (
        "{ __shared__ int seen; seen = 7; __syncthreads(); if (I < n) y[I] = x[I] + (seen - 7); }"
    ),
    "early return before a barrier": (
        "{ if (I >= n) return; __shared__ float t[128]; t[threadIdx.x] = x[I]; __syncthreads();"
        " y[I] = t[threadIdx.x]; }"
    ),
    "a warp that syncs itself": (
        "{ __shared__ float t[128]; t[threadIdx.x] = I < n ? x[I] : 0; __syncwarp();"
        " float v = t[threadIdx.x ^ 1]; __syncwarp(); t[threadIdx.x] = v; __syncwarp();"
        " if (I < n) y[I] = t[threadIdx.x ^ 1]; }"
    ),
    "half a warp": (
        "{ float v = I < n ? x[I] : 0; if (threadIdx.x % 32 < 16) v = __shfl_xor_sync(0xffff, "
        "__shfl_xor_sync(0xffff, v, 3, 16), 3, 16); if (I < n) y[I] = v; }"
    ),
    "unsigned arithmetic that wraps": (
        "{ unsigned h = I * 2654435761u; h ^= h >> 15; h *= 2246822519u; if (I < n) y[I] = x[I] + (h != h); }"
    ),
    "votes and counts": (
        "{ int all = __syncthreads_and(1), some = __syncthreads_or(threadIdx.x == 5), many ="
        " __syncthreads_count(threadIdx.x < 9); unsigned b = __ballot_sync(~0u, threadIdx.x % 2);"
        " int any = __any_sync(~0u, threadIdx.x % 32 == 3), every = __all_sync(~0u, threadIdx.x < 999);"
        " bool fine = all && some && many == 9 && b == 0xaaaaaaaau && any && every && __popc(b) == 16"
        " && __reduce_add_sync(~0u, 1) == 32"
        " && __match_any_sync(~0u, threadIdx.x % 4) == 0x11111111u << threadIdx.x % 4;"
        " if (I < n) y[I] = fine ? x[I] : -1; }"
    ),
    "threads that are together": (
        "{ float v = 0; if (threadIdx.x % 2) { unsigned m = __activemask(); v = m == 0xaaaaaaaau ?"
        " __shfl_sync(m, 1.0f, 1) : -5; } else v = 1; if (I < n) y[I] = v * x[I]; }"
    ),
    "cooperative groups": (
        "{ auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block); __shared__ float t[128];"
        " t[block.thread_rank()] = I < n ? x[I] : 0; tile.sync(); float v = t[threadIdx.x / 8 * 8 + (tile.thread_rank()"
        " + 3) % 8]; v = tile.shfl(v, (tile.thread_rank() + 5) % 8); cg::sync(block); if (I < n) y[I] = v; }"
    ),
    "vectors and halves": (
        "{ if (I >= n) return; float2 v = make_float2(x[I], 1); double2 d = "
        "make_double2(v.x, 2); half h = __float2half(1.0f); y[I] = (float)d.x * v.y * __half2float(__hmul(h, h)); }"
    ),
    "constants and device variables": (
        "{ if (I < n) y[I] = x[I] * two[0] * two[1] + zero; }"
    ),
    "a local array with a run-time index": (
        "{ float own[8]; for (int i = 0; i < 8; i++) own[(i + n) % 8] = i;"
        " if (I < n) y[I] = x[I] + own[n % 8]; }"
    ),
    "mathematics": (
        "{ if (I < n) { float v = x[I], s, c; sincosf(v, &s, &c); y[I] = v * (s * s + c *"
        " c) * __fdividef(4.0f, 4.0f) * fmaxf(0.5f, 1.0f) * min(1.0f, 2.0f) * rsqrtf(1.0f) * __expf(0.0f)"
        " * (float)max(1,"
        " -1) * fabsf(-1.0f) * __powf(1.0f, 2.0f) * sqrt(1.0f); } }"
    ),
    "inline indices": (
        "{ dim3 d = blockDim; uint3 t = threadIdx; uint3 b = blockIdx; dim3 g = gridDim;"
        " unsigned i = b.x * d.x + t.x;"
        " if (i < n && g.x == 3 && warpSize == 32) y[i] = __ldg(x + i); }"
    ),
}  # fmt: skip


def test_honest_kernels_pass(verdicts: Verdicts) -> None:
    assert {name: verdicts[name] for name in HONEST} == dict.fromkeys(HONEST, (Status.OK, ""))


@pytest.mark.integration
def test_a_lock_orders_what_it_guards(baseline: Run) -> None:
    text = (
        "__device__ int lock;\n"
        + HEAD
        + "{ bool done = I >= n; while (!done) { if (atomicCAS(&lock, 0, 1) == 0) {"
        " y[0] += x[I]; __threadfence(); atomicExch(&lock, 0); done = true; } } }"
    )
    expected = "np.concatenate([[x.sum()], np.zeros(n - 1)])"
    report = baseline(text, expected, role="inout")
    assert report.status is Status.OK, report.message
    report = baseline(text.replace("__threadfence();", ""), expected, role="inout")
    assert report.status is Status.WRONG_RESULT
    assert "data race" in report.message


LAST_BLOCK = """
__device__ float partial[64];
__device__ unsigned int arrived;
extern "C" __global__ void k(const float *x, float *y, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[n - 1 - blockIdx.x] = 0.0f;
        y[blockIdx.x] = (float)blockIdx.x;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) for (int i = threadIdx.x; i < gridDim.x; i += blockDim.x) y[3 + i] = y[i];
    if (last) for (int i = 6 + threadIdx.x; i < n - 3; i += blockDim.x) y[i] = 1.0f;
}
"""


@pytest.mark.integration
def test_the_last_block_may_read_what_the_others_published(baseline: Run) -> None:
    expected = "np.concatenate([[0, 1, 2, 0, 1, 2], np.ones(n - 9), np.zeros(3)])"
    report = baseline(LAST_BLOCK, expected)
    assert report.status is Status.OK, report.message
    report = baseline(LAST_BLOCK.replace("__threadfence();", ""), expected)
    assert report.status is Status.WRONG_RESULT
    assert "nothing orders the two blocks" in report.message


@pytest.mark.integration
def test_templates_and_dynamic_shared_memory(baseline: Run) -> None:
    text = (
        "template <typename T, int BY> __global__ void scale(const T *x, T *y, int n) {"
        " extern __shared__ double room[];"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; T *t = (T *)room; if (i < n) t[threadIdx.x] = x[i];"
        " __syncthreads(); if (i < n) y[i] = t[threadIdx.x] * BY; }"
    )
    report = baseline(text, "3 * x", entry="scale<double, 3>", dtype="float64", shared="128 * 8")
    assert report.status is Status.OK, report.message
    report = baseline(text, "3 * x", entry="scale<double, 3>", dtype="float64", shared="127 * 8")
    assert report.status is Status.CRASHED
    assert (
        "writes dynamic shared memory, byte 1016 (8 bytes), outside of launch.shared_bytes," in report.message
    )


def test_dynamic_shared_memory_that_the_launch_forgets(baseline: Run) -> None:
    report = baseline(HEAD + "{ extern __shared__ float t[]; t[threadIdx.x] = 1; if (I < n) y[I] = x[I]; }")
    assert report.status is Status.CRASHED
    assert "writes dynamic shared memory, byte 0" in report.message


@pytest.mark.integration
def test_other_kernels_of_the_file_do_not_count(baseline: Run) -> None:
    others = "".join(
        f'extern "C" __global__ void other{i}(float *y) {{ __shared__ float t[12000]; t[0] = 1; y[0] = t[0]; }}\n'
        for i in range(14)
    )
    report = baseline(others + HEAD + "{ if (I < n) y[I] = x[I]; }")
    assert report.status is Status.OK, report.message


@pytest.mark.integration
def test_atomics_of_several_types(baseline: Run) -> None:
    text = (
        'extern "C" __global__ void k(const int *x, int *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x;'
        " if (i < n) { atomicAdd(&y[0], x[i]); atomicMax(&y[1], x[i]); atomicSub(&y[2], x[i]); atomicOr(&y[3], x[i]);"
        " atomicXor(&y[4], x[i]); atomicExch(&y[5], 5);"
        " int seen; do { seen = atomicAdd(&y[7], 0);"
        " } while (atomicCAS(&y[7], seen, seen + 2) != seen); } }"
    )
    expected = (
        "np.concatenate([[x.sum(), x.max(), -x.sum(), np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x), 5, 0, 2 * n],"
        " np.zeros(n - 8, int)])"
    )
    report = baseline(text, expected, dtype="int32", role="inout")
    assert report.status is Status.OK, report.message


CAS_LOOP = """
__device__ void add(double *to, double value) {
    unsigned long long *at = (unsigned long long *)to, old = *at, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, __double_as_longlong(value + __longlong_as_double(seen)));
    } while (seen != old);
}
extern "C" __global__ void k(const double *x, double *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) add(y, x[i]);
}
"""


@pytest.mark.integration
def test_a_plain_read_before_an_own_atomic_operation_is_no_race(baseline: Run) -> None:
    expected = "np.concatenate([[x.sum()], np.zeros(n - 1)])"
    report = baseline(CAS_LOOP, expected, dtype="float64", role="inout")
    assert report.status is Status.OK, report.message
    # Without one it is: the sum may not be complete.
    text = CAS_LOOP.replace("add(y, x[i]);", "{ add(y, x[i]); if (i == 0) y[1] = y[0]; }")
    report = baseline(text, expected, dtype="float64", role="inout")
    assert report.status is Status.WRONG_RESULT
    assert re.search(r"(reads|updates) y\[0\], which thread .* (updates|reads) at line", report.message)


@pytest.mark.integration
def test_halves_are_rounded_as_ieee_says(baseline: Run) -> None:
    text = (
        "#include <cuda_fp16.h>\n"
        'extern "C" __global__ void k(const half *x, half *y, int n) {'
        " int i = blockIdx.x * blockDim.x + threadIdx.x;"
        " if (i < n) y[i] = __float2half(__half2float(x[i]) * 0.37f); }"
    )
    report = baseline(text, "(np.float32(x) * np.float32(0.37)).astype(np.float16)", dtype="float16")
    assert report.status is Status.OK, report.message
    assert report.own_error == {"y": 0.0}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            HEAD + '{ int l; asm("mov.u32 %0, %%laneid;" : "=r"(l)); if (I < n) y[I] = x[I] + l; }',
            "inline PTX",
        ),
        ("#include <mma.h>\n" + HEAD + "{ if (I < n) y[I] = x[I]; }", "this header"),
    ],
)
def test_unknown_instructions_are_refused_by_name(baseline: Run, text: str, what: str) -> None:
    report = baseline(text)
    assert report.status is Status.REFUSED
    assert report.message.startswith(f"emulation does not know {what}: ")


PER_BLOCK = "np.concatenate([{} for i in range(0, n, 128)])"
KNOWN_ALGORITHMS = {
    "tree reduction": (
        "template <class T> struct Shared { __device__ operator T *() { extern __shared__ int room[]; return"
        " (T *)room; } };"
        "template <class T, unsigned B> __global__ void k(const T *x, T *y, int n) { T *s = Shared<T>(); unsigned t ="
        " threadIdx.x, i = blockIdx.x * B + t; s[t] = i < n ? x[i] : T(0); __syncthreads(); for (unsigned h ="
        " B / 2; h > 0;"
        " h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); } if (i < n) y[i] = s[0]; }",
        PER_BLOCK.format("np.full(len(x[i : i + 128]), x[i : i + 128].sum())"),
        {"entry": "k<float, 128>", "shared": "512"},
    ),
    "scan in two buffers": (
        HEAD + "{ __shared__ float s[2][128]; int t = threadIdx.x, p = 0; s[0][t] = I < n ? x[I] : 0; __syncthreads();"
        " for (int d = 1; d < 128; d *= 2) { s[1 - p][t] = t >= d ? s[p][t] + s[p][t - d] : s[p][t]; p = 1 - p;"
        " __syncthreads(); } if (I < n) y[I] = s[p][t]; }",
        PER_BLOCK.format("np.cumsum(x[i : i + 128])"),
        {},
    ),
    "bitonic sort": (
        HEAD + "{ __shared__ float s[128]; unsigned t = threadIdx.x; s[t] = I < n ? x[I] : 3e38f; __syncthreads();"
        " for (unsigned k = 2; k <= 128; k <<= 1) for (unsigned j = k >> 1; j > 0; j >>= 1) { unsigned o = t"
        " ^ j; if (o > t)"
        " { bool up = (t & k) == 0; if ((s[t] > s[o]) == up) { float a = s[t]; s[t] = s[o]; s[o] = a; } }"
        " __syncthreads(); }"
        " if (I < n) y[I] = s[t]; }",
        PER_BLOCK.format("np.sort(x[i : i + 128])"),
        {},
    ),
    "histogram": (
        'extern "C" __global__ void k(const int *x, int *y, int n) { __shared__ int h[64]; for (int i ='
        ' threadIdx.x; i < 64;'
        " i += blockDim.x) h[i] = 0; __syncthreads(); for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i +="
        " gridDim.x * blockDim.x) atomicAdd(&h[x[i]], 1); __syncthreads(); for (int i = threadIdx.x; i < 64; i +="
        " blockDim.x) atomicAdd(y + i, h[i]); }",
        "np.concatenate([np.bincount(x, minlength=64), np.zeros(n - 64, int)])",
        {"dtype": "int32", "role": "inout"},
    ),
    "counting by warps": (
        'extern "C" __global__ void k(const int *x, int *y, int n) { int i = blockIdx.x * blockDim.x +'
        ' threadIdx.x; if (i < n'
        " && x[i] > 25) { unsigned m = __activemask(); int leader = __ffs(m) - 1, lane = threadIdx.x % 32, at"
        " = 0; if (lane"
        " == leader) at = atomicAdd(y, __popc(m)); __shfl_sync(m, at, leader); } }",
        "np.concatenate([[(x > 25).sum()], np.zeros(n - 1, int)])",
        {"dtype": "int32", "role": "inout"},
    ),
    "bytes": (
        'extern "C" __global__ void k(const char *x, char *y, int n) { __shared__ char s[128]; int i = blockIdx.x *'
        " blockDim.x + threadIdx.x; s[threadIdx.x] = i < n ? x[i] : 0; __syncthreads(); if (i < n) y[i] ="
        " s[threadIdx.x]; }",
        "x",
        {"dtype": "int8"},
    ),
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("name", KNOWN_ALGORITHMS, ids=lambda n: n.replace(" ", "-"))
def test_a_known_algorithm_passes(baseline: Run, name: str) -> None:
    text, expected, options = KNOWN_ALGORITHMS[name]
    report = baseline(text, expected, **options)
    assert report.status is Status.OK, report.message


WRONG = {
    "a warp that does not sync itself": (
        "{ __shared__ float t[128]; t[threadIdx.x] = x[I % n];"
        " float v = t[threadIdx.x ^ 1]; if (I < n) y[I] = v; }",
        r"(data race|uninitialised): .* shared t",
    ),
    "an output that is read": (
        "{ if (I < n) y[I] += x[I]; }",
        r"k\.cu:\d+: uninitialised: .* reads y\[0\], never written",
    ),
    "masks that differ": (
        "{ float v = threadIdx.x % 2 ? __shfl_sync(~0u, 1.0f, 0) : __shfl_sync(0x55555555, 1.0f, 0);"
        " __syncthreads(); if (I < n) y[I] = v * x[I]; }",
        r"warp operation",
    ),
    "a lane that never comes": (
        "{ float v = 1; if (threadIdx.x % 32 < 31) v = __shfl_sync(~0u, v, 0); __syncthreads();"
        " if (I < n) y[I] = v * x[I]; }",
        r"waits in a warp operation with the mask 0xffffffff for thread \(31, 0, 0\)",
    ),
    "a shuffle of no defined width": (
        "{ float v = __shfl_sync(~0u, x[I % n], (int)threadIdx.x, 24); if (I < n) y[I] = v; }",
        r"k\.cu:\d+: thread \(0, 0, 0\) .* calls a shuffle with the width 24: only 1, 2, 4",
    ),
    "a shuffle down of a width that is computed": (
        "{ float v = __shfl_down_sync(~0u, x[I % n], 0, n / 100); if (I < n) y[I] = v; }",
        r"with the width 3: only",
    ),
    "a shuffle up of more than a warp": (
        "{ float v = __shfl_up_sync(~0u, x[I % n], 0, 64); if (I < n) y[I] = v; }",
        r"with the width 64: only",
    ),
    "a shuffle across no lanes": (
        "{ float v = __shfl_xor_sync(~0u, x[I % n], 0, n - 300); if (I < n) y[I] = v; }",
        r"with the width 0: only",
    ),
    "a sum over a mask that names nobody": (
        "{ int all = __reduce_add_sync(n - 300, 1); if (I < n) y[I] = x[I] + 0 * all; }",
        r"warp operation whose mask 0x00000000 leaves it out",
    ),
    "a vote whose mask leaves a caller out": (
        "{ int any = __any_sync(0x7fffffff, 1); if (I < n) y[I] = x[I] + any - 1; }",
        r"thread \(31, 0, 0\) .* mask 0x7fffffff leaves it out",
    ),
    "a warp's barrier whose mask leaves a caller out": (
        "{ __syncwarp(0xfffffffe); if (I < n) y[I] = x[I]; }",
        r"thread \(0, 0, 0\) .* mask 0xfffffffe leaves it out",
    ),
    "a match whose mask leaves a caller out": (
        "{ unsigned m = __match_any_sync(0xffff, I); if (I < n) y[I] = x[I] + 0 * m; }",
        r"thread \(16, 0, 0\) .* mask 0x0000ffff leaves it out",
    ),
    "a null pointer": ("{ if (I < n) *(float *)(size_t)(n - 300) = x[I]; }", r"null pointer|out of bounds"),
    "a trap": ("{ if (I == 200) __trap(); if (I < n) y[I] = x[I]; }", r"__trap\(\) in thread \(72, 0, 0\)"),
    "an assertion": (
        "{ assert(I != 7); if (I < n) y[I] = x[I]; }",
        r"assertion failed in thread \(7, 0, 0\) of block \(0, 0, 0\)",
    ),
    "division by zero": ("{ int z = n - 300; if (I < n) y[I] = x[I] + n / z; }", r"division by zero"),
    "a stack without end": (
        "{ y[0] = down(x[0], n); }",
        r"stack|out of bounds|SIGSEGV",
    ),
    "device variables without a lock": (
        "{ __shared__ float t; if (I < n) t += x[I]; __syncthreads();"
        " if (I < n) y[I] = t; }",
        r"uninitialised: .* shared t",
    ),
}  # fmt: skip


def test_wrong_kernels_do_not(verdicts: Verdicts) -> None:
    found = {name: verdicts[name] for name in WRONG}
    failed = (Status.WRONG_RESULT, Status.CRASHED)
    passed = {
        name: verdict
        for name, verdict in found.items()
        if verdict[0] not in failed or not re.search(WRONG[name][1], verdict[1]) or "\n" in verdict[1]
    }
    assert passed == {}


def test_a_device_before_independent_threads_waits_for_those_that_ended(baseline: Run) -> None:
    report = baseline(HEAD + HONEST["early return before a barrier"], target="sm_61")
    assert report.status is Status.WRONG_RESULT
    assert "other threads have ended" in report.message
