"""First specs of device kernels whose results hang on the size of a block: it stays as it is, with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.spec.first.init import init_spec

CL = "kernel void k(global const float *x, global float *y, int n{more}) {{ {body} }}\n"
CU = '{before}extern "C" __global__ void k(const float *x, float *y, int n) {{ {body} }}\n'

FREE_CL = {
    "as everyone writes it": "int i = get_global_id(0); if (i < n) y[i] = x[i];",
    "a stride over the launch": "for (int i = get_global_id(0); i < n; i += get_global_size(0)) y[i] = x[i];",
    "by hand": "int i = get_group_id(0) * get_local_size(0) + get_local_id(0); if (i < n) y[i] = x[i];",
    "through variables": "const int l = get_local_id(0), g = get_group_id(0); "
    "int i = l + get_local_size(0) * g; if (i < n) y[i] = x[i];",
}
COUNTED_CL = {
    "a local array": ("local float part[64]; part[get_local_id(0)] = x[get_global_id(0)];", "part"),
    "a value": ("int i = get_global_id(0); if (i < n) y[i] = get_local_id(0) * x[i];", "get_local_id"),
    "the size as a value": ("int i = get_global_id(0); if (i < n) y[i] = x[i] / get_local_size(0);", "get_local_size"),
    "a group for each row": ("int r = get_group_id(0); if (r < n) y[r] = x[r];", "get_group_id"),
    "neighbours": (
        "int l = get_local_id(0), i = get_global_id(0); if (l > 0 && i < n) y[i] = x[i - 1];",
        "get_local_id",
    ),
    "a changed variable": (
        "int l = get_local_id(0); l ^= 1; int i = get_group_id(0) * get_local_size(0) + l; if (i < n) y[i] = x[i];",
        "get_",
    ),
}  # fmt: skip
FREE_CU = {
    "as everyone writes it": "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i];",
    "a cast": "size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i];",
    "through variables": "const int t = threadIdx.x; int i = blockDim.x * blockIdx.x + t; if (i < n) y[i] = x[i];",
    "a stride over the launch": "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; "
    "i += gridDim.x * blockDim.x) y[i] = x[i];",
}
COUNTED_CU = {
    "a shared array": ("", "__shared__ float s[256]; s[threadIdx.x] = x[0]; y[threadIdx.x] = s[0];", "share s"),
    "a lane": ("", "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] * (threadIdx.x % 32);", "threadIdx.x"),
    "in a function": (
        "__device__ int lane() { return threadIdx.x & 31; }\n",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + lane();",
        "threadIdx",
    ),
    "in a macro": (
        "#define SHIFT (threadIdx.x >> 5)\n",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i] + SHIFT;",
        "threadIdx",
    ),
    "a shuffle": (
        "",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = __shfl_down_sync(~0u, x[i], 1);",
        "__shfl_down_sync",
    ),
}  # fmt: skip


def first(folder: Path, name: str, text: str) -> tuple[dict[str, Any], str]:
    (folder / name).write_text(text)
    made = init_spec(folder / name)
    return yaml.safe_load(made), made


def sizes(data: dict[str, Any]) -> list[Any]:
    """What the tunables of the blocks may be."""
    return [v for name, v in data["space"]["parameters"].items() if name.startswith("BLOCK")]


@pytest.mark.parametrize("name", FREE_CL)
def test_a_block_that_nothing_hangs_on_is_a_tunable(name: str, tmp_path: Path) -> None:
    data, text = first(tmp_path, "k.cl", CL.format(body=FREE_CL[name], more=""))
    assert sizes(data) == [{"low": 4, "high": 512, "log": True, "default": 64}]
    assert "one size" not in text


@pytest.mark.parametrize("name", COUNTED_CL)
def test_a_block_that_results_may_hang_on_stays_and_says_why(name: str, tmp_path: Path) -> None:
    body, why = COUNTED_CL[name]
    data, text = first(tmp_path, "k.cl", CL.format(body=body, more=""))
    assert sizes(data) == [[64]]
    (line,) = [line for line in text.splitlines() if "one size" in line]
    assert why in line


def test_local_memory_that_is_passed_counts_too(tmp_path: Path) -> None:
    body = "s[get_local_id(0)] = x[get_global_id(0)]; y[get_global_id(0)] = s[0];"
    data, _ = first(tmp_path, "k.cl", CL.format(body=body, more=", local float *s"))
    assert sizes(data) == [[64]]


@pytest.mark.parametrize("name", FREE_CU)
def test_threads_that_are_only_numbered_leave_the_block_free(name: str, tmp_path: Path) -> None:
    data, text = first(tmp_path, "k.cu", CU.format(before="", body=FREE_CU[name]))
    assert sizes(data) == [[128, 32, 64, 256, 512]]
    assert "one size" not in text


@pytest.mark.parametrize("name", COUNTED_CU)
def test_threads_that_work_together_keep_their_block(name: str, tmp_path: Path) -> None:
    before, body, why = COUNTED_CU[name]
    data, text = first(tmp_path, "k.cu", CU.format(before=before, body=body))
    assert sizes(data) == [[128]]
    (line,) = [line for line in text.splitlines() if "one size" in line]
    assert why in line


def test_each_axis_is_looked_at_by_itself(tmp_path: Path) -> None:
    """Rows are numbered over the launch; along a row a lane is a value."""
    body = (
        "int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y; "
        "if (c < n && r < n) y[r * n + c] = x[r * n + c] * (threadIdx.x & 1);"
    )
    data, _ = first(tmp_path, "k.cu", CU.format(before="", body=body))
    assert sizes(data) == [[16], [16, 4, 8, 32]]


def test_a_block_that_the_source_names_is_its_own_matter(tmp_path: Path) -> None:
    text = (
        "#ifndef BLOCK\n#define BLOCK 64\n#endif\n"
        "kernel void k(global const float *x, global float *y, int n) {\n"
        "    local float part[BLOCK]; part[get_local_id(0)] = x[get_global_id(0)];\n"
        "    barrier(CLK_LOCAL_MEM_FENCE); y[get_global_id(0)] = part[0]; }\n"
    )
    data, made = first(tmp_path, "k.cl", text)
    assert len(data["space"]["parameters"]["BLOCK"]) > 1
    assert "one size" not in made
