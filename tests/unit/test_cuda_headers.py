"""Headers of C in CUDA sources, and what is said of headers that are not there. No GPU is needed."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from spec_files import spec_in

from tuner.core.errors import SpecError
from tuner.driver.check import CheckReport, check_spec
from tuner.evaluators.cuda.nvrtc import OWN_HEADERS
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

pytestmark = needs.nvrtc

SPEC = """\
kernel: {source: k.cu, entry: k}
target: sm_90
problem: {n: 300}
arguments:
  - {name: x, dtype: float32, shape: [n], init: {uniform: [1, 2]}}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / BLOCK)"], block: [BLOCK]}
space: {parameters: {BLOCK: [64, 128]}, PASSES}
"""
HEADERS = "".join(f"#include <{p.name}>\n" for p in sorted(Path(OWN_HEADERS).iterdir()))
USES = """
static_assert(sizeof(std::int64_t) == 8 && UINT32_MAX == 4294967295u && INT_MIN < 0 && offsetof(int2, y) == 4, "");
__constant__ float far = INFINITY;
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    assert(x[i] < FLT_MAX);
    if (x[i] > far) printf("%f", x[i]);
    float v;
    std::memcpy(&v, x + i, sizeof v);
    uint32_t bits = (uint32_t)i & UINT8_MAX;
    y[i] = (float)(std::sqrt(v) * M_PI) + std::fabs(v) + std::pow(v, 2.0f) + bits;
}
"""


def checked(folder: Path, text: str, *, passes: str = "passes: off", entry: str = "k") -> CheckReport:
    """The report on a kernel."""
    spec = spec_in(
        folder, "k.cu", text, SPEC.replace("PASSES", passes).replace("entry: k", f"entry: {entry}")
    )
    return check_spec(spec, faults=False)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")


STD = """
using namespace std;
static_assert(numeric_limits<int>::min() == -2147483647 - 1 && std::numeric_limits<unsigned char>::max() == 255, "");
static_assert(numeric_limits<float>::max_digits10 == 9 && numeric_limits<double>::max_digits10 == 17, "");
static_assert(numeric_limits<double>::infinity() > numeric_limits<double>::max(), "");
static_assert(numeric_limits<long long>::digits10 == 18 && !numeric_limits<unsigned>::is_signed, "");
static_assert(std::is_same_v<std::decay_t<const int &>, int> && std::is_signed<char>::value, "");
static_assert(std::is_same_v<std::common_type_t<int, double>, double> && std::is_unsigned_v<unsigned>, "");
static_assert(std::is_pointer_v<int *const> && !std::is_pointer_v<const int>, "");
static_assert(std::is_integral_v<const long> && std::is_floating_point_v<float>, "");
enum class E : unsigned char { a };
static_assert(std::is_enum_v<E> && std::is_same_v<std::underlying_type_t<E>, unsigned char>, "");
template <class T, std::enable_if_t<std::is_floating_point<T>::value, int> = 0>
__device__ T twice(T x) { return 2 * x; }
__global__ void k(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float low = numeric_limits<float>::lowest(), high = i < n ? x[i] : 0;
    std::swap(low, high);
    if (i < n) y[i] = twice(std::clamp(std::max(low, high), 1.25f, 2.0f)) + (low == numeric_limits<float>::infinity());
}
"""


@pytest.mark.integration
def test_limits_and_type_traits_of_cpp_are_there_for_all_three(tmp_path: Path) -> None:
    # Nothing but a header of the host brings them.
    program = f"#include <iostream>\n{STD}int main() {{ std::cout << 1; return 0; }}\n"
    report = checked(tmp_path, program, passes="passes: {}")
    assert report.ok, report.lines
    assert "no pass pipeline" not in dict(report.lines).get("LLVM", ""), report.lines


@pytest.mark.integration
def test_a_kernel_may_have_the_name_of_a_mathematical_function(tmp_path: Path) -> None:
    text = (
        "__global__ void norm(const float *x, float *y, int n) {\n"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = norm3df(x[i], 0, 0); }"
    )
    report = checked(tmp_path, text, entry="norm", passes="passes: {}")
    assert report.ok, report.lines


def test_two_kernels_of_one_name_are_still_ambiguous(tmp_path: Path) -> None:
    text = "__global__ void k(const float *x, float *y, int n) {}\n__global__ void k(double *x, float *y, int n) {}\n"
    report = checked(tmp_path, text)
    assert not report.ok
    assert "overloaded function" in report.lines[-1][1]


@pytest.mark.integration
def test_headers_of_c_and_the_version_of_cuda_are_known_to_all_three(tmp_path: Path) -> None:
    text = "#if CUDART_VERSION < 3000\nstruct double3 { double x, y, z; };\n#endif\n" + USES
    report = checked(tmp_path, HEADERS + text, passes="passes: {}")
    assert report.ok, report.lines
    assert "no pass pipeline" not in dict(report.lines).get("LLVM", ""), report.lines


@pytest.mark.integration
def test_a_header_of_ones_own_comes_before(tmp_path: Path) -> None:
    (tmp_path / "math.h").write_text("__device__ inline float own(float x) { return x + 1; }\n")
    text = '#include "math.h"\n__global__ void k(const float *x, float *y, int n) {\n'
    report = checked(
        tmp_path, text + "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = own(x[i]); }"
    )
    assert report.ok, report.lines


@pytest.mark.parametrize(
    ("header", "cure"),
    [
        ("own_library.h", "name its folder in kernel.include"),
        ("cub/nothing.cuh", "pip install nvidia-cuda-cccl"),
        ("curand_nothing.h", "pip install nvidia-curand"),
    ],
)
def test_a_header_that_is_missing_is_one_line_with_a_cure(tmp_path: Path, header: str, cure: str) -> None:
    report = checked(tmp_path, f"#include <{header}>\n{USES}using namespace cub;\n")
    assert not report.ok
    message = report.lines[-1][1]
    assert "k.cu(1): cannot open source file" in message
    assert cure in message
    assert "\n" not in message


BROUGHT = {
    "math.h": "(x[i] < INFINITY ? x[i] : 0)",
    "stdint.h": "(uint32_t)i",
    "cuda_fp16.h": "__half2float(__float2half(x[i]))",
}


def of_value(value: str) -> str:
    return (
        "__global__ void k(const float *x, float *y, int n) {\n"
        f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = {value}; }}"
    )


@pytest.mark.integration
def test_a_name_that_nvcc_would_know_is_told_its_header(tmp_path: Path) -> None:
    for header, value in BROUGHT.items():
        message = checked(tmp_path, of_value(value)).lines[-1][1]
        assert "k.cu(2): identifier" in message
        assert message.endswith(f"#include <{header}> brings it")


@needs.cccl
@pytest.mark.integration
def test_cooperative_groups_compile_where_cccl_is_installed(tmp_path: Path) -> None:
    text = (
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void k(const float *x, float *y, int n) { __shared__ float s[128];\n"
        "auto block = cg::this_thread_block(); int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "s[threadIdx.x] = i < n ? x[i] : 0; block.sync(); if (i < n) y[i] = s[threadIdx.x ^ 1]; }"
    )
    report = checked(tmp_path, text)
    assert report.ok, report.lines


def test_gaps_of_emulation_are_no_faults_of_the_kernel(tmp_path: Path) -> None:
    text = (
        "__global__ void k(const float *x, float *y, int n) {\n"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = cyl_bessel_i0f(x[i]); }"
    )
    report = checked(tmp_path, text)
    message = report.lines[-1][1]
    assert message.startswith(
        "does not verify (refused): emulation lacks something that NVRTC compiles: k.cu:2:"
    )
    assert "'cyl_bessel_i0f'" in message


def test_a_kernel_that_prints_is_no_host_code(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("#include <cstdio>\n" + USES)
    assert "entry: k" in init_spec(tmp_path / "k.cu")


@pytest.mark.integration
def test_the_report_says_which_sizes_were_emulated_and_what_is_left_alone(tmp_path: Path) -> None:
    text = (
        "__global__ void k(const float *x, float *y, int n) {\n"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n / BLOCK * BLOCK) y[i] = x[i]; }"
    )
    (tmp_path / "k.cu").write_text(text)
    spec = SPEC.replace("n: 300", "n: 8000000").replace("PASSES", "passes: off")
    (tmp_path / "k.yaml").write_text(spec + 'verify: {problems: [{n: 67}], assume: ["n >= 60"]}\n')
    (loaded,) = load_spec(tmp_path / "k.yaml")
    lines = check_spec(loaded, faults=False).lines
    sizes = dict(lines)["emulated"].split("; ")
    assert "n=67" in sizes
    assert len(sizes) > 1
    assert all(size[:2] == "n=" and int(size[2:]) >= 60 for size in sizes)
    assert ("left out", "n=8000000: its arrays take 64000000 bytes; 8388608 are emulated at most") in lines
    assert ("unwritten", "the kernel leaves elements of y alone; so must candidates") in lines


@pytest.mark.integration
def test_every_size_that_is_too_large_is_named(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(of_value("x[i]"))
    spec = SPEC.replace("n: 300", "n: 8000000").replace("PASSES", "passes: off")
    (tmp_path / "k.yaml").write_text(spec + "verify: {problems: [{n: 500000}]}\n")
    (loaded,) = load_spec(tmp_path / "k.yaml")
    with pytest.raises(
        SpecError, match=r"n=8000000, given: its arrays .*n=500000, .*: the baseline has \d+ threads"
    ):
        check_spec(loaded, faults=False)


def test_an_architecture_that_the_compiler_does_not_know_has_its_place_in_the_spec(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(HEADERS + USES)
    spec = SPEC.replace("sm_90", "sm_42").replace("PASSES", "passes: off")
    (tmp_path / "k.yaml").write_text(spec)
    (loaded,) = load_spec(tmp_path / "k.yaml")
    with pytest.raises(SpecError, match=r"k\.yaml:2:9: target sm_42 is not known to NVRTC"):
        check_spec(loaded, faults=False)
