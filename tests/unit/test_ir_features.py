"""Static features of optimised IR, taken from real code by the real compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tuner.evaluators.host.ir_features import loop_depths
from tuner.evaluators.host.toolchain import find_toolchain

PROGRAM = """
import json, subprocess, sys
from tuner.evaluators.host.ir_features import module_features
from tuner.evaluators.host.llvm import Module
from tuner.evaluators.host.llvm_library import Library, MachineOptions, PassOptions
clang, library, pipeline = sys.argv[1:]
command = [clang, "-x", "c", "-O3", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", "-o", "-", "-"]
bitcode = subprocess.run(command, input=sys.stdin.buffer.read(), capture_output=True, check=True).stdout
loaded = Library(library)
module = Module(loaded, bitcode)
module.run_passes(pipeline, loaded.machine(MachineOptions(), module.triple), PassOptions())
print(json.dumps(module_features(module)))
"""


def features(source: str, pipeline: str = "default<O3>") -> dict[str, float]:
    """In a process of its own: libLLVM may not be loaded into this one."""
    import json

    found = find_toolchain()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, found.clang, found.library, pipeline],
        input=source.encode(),
        capture_output=True,
        check=True,
    )
    made: dict[str, float] = json.loads(done.stdout)
    return made


def test_counts_stand_at_the_depth_of_their_loop() -> None:
    source = """
    void f(float *a, int n, int m) {
        a[0] = 1.0f;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                a[i * m + j] *= 3.0f;
    }"""
    found = features(source, "function(mem2reg)")
    assert found["ir_loop_depth"] == 2
    assert found["ir_loops_count"] == 2
    assert found["ir_d2_float_operations_count"] == 1
    assert found["ir_d2_loads_count"] == 1
    assert found["ir_d1_stores_count"] == 0
    assert found["ir_stores_count"] == 2
    assert found["ir_loop_carried_count"] == 1


@pytest.mark.parametrize(
    ("index", "walk"),
    [("i", "unit"), ("4 * i", "strided"), ("p[i]", "gathered"), ("n", "fixed")],
)
def test_walks_follow_from_what_the_index_is_made_of(index: str, walk: str) -> None:
    source = f"""
    float f(const float *a, const int *p, long n) {{
        float sum = 0;
        for (long i = 0; i < n; i++) sum += a[{index}];
        return sum;
    }}"""
    found = features(source, "function(mem2reg)")
    expected = {"unit": 0, "strided": 0, "gathered": 0, "fixed": 0}
    expected[walk] += 1
    if walk == "gathered":
        expected["unit"] += 1  # the index itself
    assert {kind: found[f"ir_walk_{kind}_count"] for kind in expected} == expected


def test_vector_code_is_seen_as_such() -> None:
    source = "void f(float *restrict a, const float *restrict b, int n) { for (int i = 0; i < n; i++) a[i] += b[i]; }"
    plain, wide = features(source, "function(mem2reg)"), features(source)
    assert plain["ir_vector_width_bits"] == 0
    assert wide["ir_vector_width_bits"] >= 128
    assert wide["ir_d1_vector_bits"] > plain["ir_d1_vector_bits"]
    assert wide["ir_live_values"] > plain["ir_live_values"]


def test_loops_of_a_graph() -> None:
    # 0 -> 1 -> 2 -> 1, 2 -> 3 -> 1 (two ways back to one header), 3 -> 4
    assert loop_depths([[1], [2], [1, 3], [1, 4], []]) == ([0, 1, 1, 1, 0], 1, [1])
    # A loop in a loop.
    assert loop_depths([[1], [2, 4], [2, 3], [1], []]) == ([0, 1, 2, 1, 0], 2, [2, 1])
    assert loop_depths([]) == ([], 0, [])
