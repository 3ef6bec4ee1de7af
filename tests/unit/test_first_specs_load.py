"""First specs of code as it is found load: odd launches, files that others include, odd structures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import pytest
import yaml

from tuner.core.errors import UsageError
from tuner.driver.check import check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"


def first(source: Path, text: str, entry: str | None = None) -> tuple[dict[str, Any], LoadedSpec]:
    """The document, and the spec as it loads."""
    source.write_text(text)
    spec = source.with_name("first.yaml")
    spec.write_text(first_spec(source, entry=entry, folder=source.parent).text)
    (loaded,) = load_spec(spec)
    return yaml.safe_load(spec.read_text()), loaded


@needs.nvrtc
def test_arrays_that_are_allocated_by_bytes_of_other_types(tmp_path: Path) -> None:
    text = (
        f"__global__ void k(const int4 *a, int4 *b, int n) {{ {INDEX} if (i < n) b[i] = a[i]; }}\n"
        "int main(int c, char **v) { int n = atoi(v[1]); int rows = atoi(v[2]); int4 *a, *b;\n"
        "cudaMalloc(&a, sizeof(short) * rows * n); cudaMalloc(&b, n * sizeof(int4));\n"
        "k<<<(n + 127) / 128, 128>>>(a, b, n); }\n"
    )
    spec, _ = first(tmp_path / "k.cu", text)
    assert spec["arguments"][0]["shape"] == ["2 * rows * n // 16", 4]


@needs.nvrtc
def test_numbers_stay_within_their_types_and_arrays_within_a_card(tmp_path: Path) -> None:
    text = (
        f"__global__ void k(float *a, int volume, int mask, int low) {{ {INDEX}"
        " if (i < volume && i > low) a[i] += mask; }\n"
        "int main(int c, char **v) { int n = atoi(v[1]); float *a; int low = -5;\n"
        "cudaMalloc(&a, n * n * n * sizeof(float));\n"
        "k<<<(n * n * n + 127) / 128, 128>>>(a, n * n * n, 0xdeadbeef, low); }\n"
    )
    spec, _ = first(tmp_path / "k.cu", text)
    (size,) = spec["problem"].values()
    values = {a["name"]: a.get("value") for a in spec["arguments"]}
    assert values["mask"] == 1
    assert size <= 1 << 31
    assert "low" not in spec["problem"]


@needs.nvrtc
def test_sizes_may_have_names_that_python_reserves(tmp_path: Path) -> None:
    text = f"__global__ void k(float *x, int in) {{ {INDEX} if (i < in) x[i] += 1; }}\n"
    spec, _ = first(tmp_path / "k.cu", text)
    assert spec["problem"].keys() == {"in"}


@needs.nvrtc
def test_declared_names_in_capitals_are_no_macros(tmp_path: Path) -> None:
    (tmp_path / "k.h").write_text("const int WIDTH_OF_IT = 4;\ntypedef float REAL;\n")
    text = (
        '#include "k.h"\n__global__ void k(REAL *x, int COUNT) '
        f"{{ float R11, R22 = 2, R33; {INDEX} R11 = R33 = R22;\n"
        "if (i < COUNT) x[i] += R11 + R33 * WIDTH_OF_IT * TILE; }\n"
    )
    spec, _ = first(tmp_path / "k.cu", text)
    assert list(spec["space"]["parameters"]) == ["BLOCK_X", "TILE"]


@needs.nvrtc
def test_shapes_are_as_large_as_any_configuration_needs(tmp_path: Path) -> None:
    text = (
        "#ifndef CHUNK\n#define CHUNK 8\n#endif\n"
        f"__global__ void k(float *x, int n) {{ {INDEX} if (i < n) x[i * CHUNK] += 1; }}\n"
        "int main() { int n = 1 << 16; float *x; cudaMalloc(&x, n * CHUNK * sizeof(float));\n"
        "k<<<(n + 127) / 128, 128>>>(x, n); }\n"
    )
    spec, _ = first(tmp_path / "k.cu", text)
    most = max(spec["space"]["parameters"]["CHUNK"])
    assert spec["arguments"][0]["shape"] == [f"n * {most}"]


@needs.nvrtc
def test_small_sizes_have_few_enough_threads_to_be_emulated(tmp_path: Path) -> None:
    text = (
        "__global__ void k(float *x, int n) { int i = blockIdx.x, j = blockIdx.y; __shared__ float s[128];\n"
        "s[threadIdx.x] = x[j * n + i]; __syncthreads(); if (i < n && j < n) x[j * n + i] = s[0] + 1; }\n"
    )
    spec, _ = first(tmp_path / "k.cu", text)
    (small,) = spec["verify"]["problems"]
    assert small["n"] ** 2 * 128 <= 1 << 16


PARTS = {
    "settings.h": "#define FACTOR 3.0f\n",
    "kernels.cu": f"__global__ void k(real *x, int n) {{ {INDEX} if (i < n) x[i] = twice(x[i]) * FACTOR; }}\n",
    "main.cu": (
        '#include "settings.h"\n#include <vector>\ntypedef float real;\n'
        '__device__ real twice(real x) { return 2 * x; }\n#include "kernels.cu"\n'
        "int main() { std::vector<float> h; int n = 5000; float *x; cudaMalloc(&x, n * sizeof(float));\n"
        "k<<<(n + 127) / 128, 128>>>(x, n); }\n"
    ),
}


@pytest.mark.integration
@needs.nvrtc
@pytest.mark.parametrize("named", ["kernels.cu", "kernels.cuh"])
def test_a_kernel_in_a_file_that_another_one_includes(named: str, tmp_path: Path) -> None:
    parts = {
        n.replace("kernels.cu", "kernels.cuh") if named.endswith("h") else n: t for n, t in PARTS.items()
    }
    parts["main.cu"] = parts["main.cu"].replace(
        "kernels.cu", next(n for n in parts if n.startswith("kernels"))
    )
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
    spec, loaded = first(tmp_path / named, parts[named], "k")
    assert (spec["kernel"]["source"], spec["problem"]) == ("main.cu", {"n": 5000})
    assert check_spec(loaded, faults=False).ok


@needs.nvrtc
def test_a_file_that_needs_nothing_of_those_that_include_it_is_the_source_itself(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text('#define OTHER 1\n#include "kernels.cu"\nint main() {}\n')
    text = f"__global__ void k(float *x, int n) {{ {INDEX} if (i < n) x[i] += 1; }}\n"
    spec, _ = first(tmp_path / "kernels.cu", text)
    assert spec["kernel"]["source"] == "kernels.cu"


def test_a_part_that_nobody_includes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.cuh").write_text("__global__ void k(float *x) { x[0] = 1; }\n")
    with pytest.raises(UsageError, match="compiled only as a part of others"):
        first_spec(tmp_path / "k.cuh", entry="k")


@pytest.mark.integration
def test_bit_fields_and_arrays_of_pointers_are_left_out_and_said(tmp_path: Path) -> None:
    text = (
        "struct other { unsigned n : 3; };\n"
        "struct flags { unsigned on : 1, kind : 3; int n; double *x, *w[3]; };\n"
        "void k(struct flags *f) { for (int i = 0; i < f->n; i++) f->x[i] += f->on ? f->w[2][i] : f->kind; }\n"
    )
    spec, loaded = first(tmp_path / "k.c", text)
    assert {m["name"] for m in spec["arguments"][0]["members"]} == {"n", "x"}
    assert "# check: f.kind is a bit-field, which no spec fills: it is zero" in loaded.text
    assert "# check: f.w is an array of pointers, which no spec fills: they are null" in loaded.text
    assert check_spec(loaded, faults=False).ok


@pytest.mark.integration
def test_structures_of_a_namespace_have_its_name(tmp_path: Path) -> None:
    text = (
        "struct Plain { double f; };\n"
        "namespace q { namespace r { struct A { int n; double *x; }; struct B { A a; double f; };\n"
        "void k(A *a, B &b, Plain *p) { for (int i = 0; i < a->n; i++) a->x[i] *= b.f + b.a.x[0] + p->f; } } }\n"
    )
    spec, loaded = first(tmp_path / "k.cpp", text)
    assert [a["struct"] for a in spec["arguments"]] == ["q::r::A", "q::r::B", "Plain"]
    assert check_spec(loaded, faults=False).ok
