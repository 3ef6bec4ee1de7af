"""OpenCL without a device: which device a target means, build options, equal programs, limits, believable times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tuner.core.errors import MachineError, SpecError
from tuner.core.expressions import parse
from tuner.core.types import Argument, ArgumentRole, Kernel, Resolved, Source, Status, Value, Variant
from tuner.evaluators.host.runner import CandidateFailed
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.evaluators.opencl.compiler import lacking_extension
from tuner.evaluators.opencl.device import Device, choose
from tuner.evaluators.opencl.limits import features, inspect
from tuner.evaluators.opencl.process import driver_environment
from tuner.evaluators.opencl.program import Program, canonical_text
from tuner.evaluators.opencl.session import believe
from tuner.spaces.launch import Geometry

POCL: Mapping[str, Any] = {
    "index": 0,
    "platform": "Portable Computing Language",
    "name": "pthread-x",
    "vendor": "v",
    "version": "OpenCL 3.0",
    "driver": "3.1",
    "c_version": "OpenCL C 1.2",
    "cpu": True,
    "units": 2,
    "max_threads": 4096,
    "max_block": [4096, 4096, 64],
    "local_bytes": 32768,
    "cache_bytes": 1 << 25,
    "doubles": True,
    "il": "",
}


def device(**changes: Any) -> Device:
    """PoCL, or something like it."""
    return Device.from_json({**POCL, **changes})


GPU = device(index=1, platform="NVIDIA CUDA", name="H200", cpu=False)
SIMULATOR = device(index=2, platform="Oclgrind", name="Oclgrind Simulator", cpu=False)


def test_native_is_a_gpu_before_a_cpu_and_never_the_simulator() -> None:
    assert choose([SIMULATOR, device(), GPU], "native") == GPU
    assert choose([SIMULATOR, device()], "native") == device()
    with pytest.raises(MachineError, match="pocl-opencl-icd"):
        choose([SIMULATOR], "native")
    with pytest.raises(MachineError, match="no OpenCL device"):
        choose([], "pocl")


@pytest.mark.parametrize(
    ("target", "index"), [("pocl", 0), ("h200", 1), ("nvidia", 1), ("2", 2), ("OCLGRIND", 2)]
)
def test_a_target_is_a_name_a_number_or_a_part(target: str, index: int) -> None:
    assert choose([device(), GPU, SIMULATOR], target).index == index


def test_the_processor_in_the_name_of_pocls_device_takes_no_target_from_its_own_driver() -> None:
    name = "Intel(R) Xeon(R) Processor"
    pocl = device(name=f"pthread-skylake-avx512-{name}")
    intel = device(index=1, platform="Intel(R) OpenCL", name=name)
    for target in ("intel", "Intel(R) OpenCL", name):
        assert choose([pocl, intel], target) == intel
    assert choose([pocl, intel], "skylake") == pocl
    assert choose([pocl], "intel") == pocl


def test_an_unknown_target_lists_what_there_is() -> None:
    with pytest.raises(SpecError, match=r"'radeon'.*0: pthread-x.*1: H200"):
        choose([device(), GPU], "radeon")


def test_devices_survive_json_and_cpu_devices_share_the_hosts_lane() -> None:
    assert Device.from_json(GPU.to_json()) == GPU
    assert device().lane == "cpu"
    assert GPU.lane != SIMULATOR.lane


def test_the_systems_drivers_are_found_without_a_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    monkeypatch.setattr("tuner.evaluators.opencl.process._VENDORS", tmp_path)
    assert "OCL_ICD_VENDORS" not in driver_environment()
    (tmp_path / "a.icd").write_text("liba.so")
    assert driver_environment()["OCL_ICD_VENDORS"] == str(tmp_path / "a.icd")
    (tmp_path / "b.icd").write_text("libb.so")
    assert driver_environment()["OCL_ICD_VENDORS"] == str(tmp_path)
    monkeypatch.setenv("OCL_ICD_VENDORS", "/mine")
    assert driver_environment()["OCL_ICD_VENDORS"] == "/mine"


def test_build_options() -> None:
    check_flags = OpenClBackend().check_flags
    check_flags(["-cl-fast-relaxed-math", "-cl-std=CL1.2", "-DN=4", "-cl-nv-maxrregcount=32", "-w"])
    with pytest.raises(SpecError, match="did you mean -cl-mad-enable"):
        check_flags(["-cl-mad-enabled"])
    with pytest.raises(SpecError, match=r"kernel\.include"):
        check_flags(["-I/tmp"])
    with pytest.raises(SpecError, match="no build option"):
        check_flags(["-O3"])


def program(text: str, *flags: str, wide: bool = False, **macros: Value) -> Program:
    """A program of one file."""
    variant = Variant(files=(Source(name="k.cl", text=text),))
    kernel = Kernel(name="k", entry="k", language="opencl", variant=variant, folder=".")
    resolved = Resolved(macros=macros, scalars={}, flags=flags, pipeline=None)
    return Program.of(kernel, variant, resolved, wide=wide)


def same(one: Program, other: Program) -> bool:
    """Whether they count as one candidate."""
    clang = find_toolchain().clang
    return canonical_text(one, clang) == canonical_text(other, clang)


def test_sources_equal_after_preprocessing_are_one_program() -> None:
    text = "#ifndef A\n#define A 1\n#endif\n__kernel void k(__global float *x) { x[0] = A; /* note */ }\n"
    assert same(program(text, A=2, B=1), program(text.replace("/* note */", ""), A=2, B=9))
    assert not same(program(text, A=2), program(text, A=3))
    assert not same(program(text, A=2), program(text, "-cl-mad-enable", A=2))
    assert same(program(text), program(text, A=1))


def test_conditions_that_only_the_driver_can_decide_keep_programs_apart() -> None:
    text = "__kernel void k(__global float *x) {\n#ifdef cl_khr_fp64\n x[0] = A;\n#endif\n}\n"
    assert not same(program(text, A=1), program(text, A=2))


def test_a_program_survives_its_code() -> None:
    made = program("__kernel void k(__global float *x) { }", "-w", N=3)
    assert Program.from_code(made.code(), folder=".") == made
    with pytest.raises(ValueError, match="not the code"):
        Program.from_code(b'{"opencl": 99}', folder=".")


def test_the_widened_program_has_no_float_literals() -> None:
    text = "float f = 1.5f + 2e3F + 3.f; int a1f = 0x1f; float4 v = (float4)(0.0f);"
    source = program(text, "-cl-fast-relaxed-math", wide=True, X="2.0f").job()
    assert "1.5 + 2e3 + 3." in source["source"]
    assert "a1f = 0x1f" in source["source"]
    assert "#define float4 double4" in source["source"]
    assert "-DX=2.0" in source["options"]
    assert "-cl-fast-relaxed-math" not in source["options"]


X = Argument(name="x", dtype="float32", shape=(parse("n"),), role=ArgumentRole.OUTPUT)


def kernel(*local: bool, **changes: Any) -> dict[str, dict[str, Any]]:
    """What a driver says of a kernel `k` with these parameters."""
    said: dict[str, Any] = {
        "arguments": [{"local": is_local, "type": ""} for is_local in local],
        "max_threads": 1024,
        "block": [0, 0, 0],
        "local_bytes": 0,
        "private_bytes": 16,
        "preferred_multiple": 8,
    }
    return {"k": {**said, **changes}}


def shape(*block: int, shared: int = 0) -> Geometry:
    """A launch of one work-group."""
    x, y, z = (*block, 1, 1)[:3]
    return Geometry(grid=(1, 1, 1), block=(x, y, z), shared_bytes=shared)


@pytest.mark.parametrize(
    ("said", "geometry", "status", "message"),
    [
        (kernel(False), shape(8192), Status.OUT_OF_RESOURCES, "the device allows 4096"),
        (kernel(False), shape(32, 64), Status.OUT_OF_RESOURCES, "this kernel allows 1024"),
        (kernel(False, max_threads=0), shape(1, 1, 128), Status.OUT_OF_RESOURCES, "128 work-items along z"),
        (kernel(False, local_bytes=40000), shape(8), Status.OUT_OF_RESOURCES, "40000 bytes of local memory"),
        (kernel(False, True, local_bytes=1), shape(8, shared=32768), Status.OUT_OF_RESOURCES, "32769 bytes"),
        (
            kernel(False, block=[8, 8, 1]),
            shape(8, 4),
            Status.BUILD_ERROR,
            "requires work-groups of 8 x 8 x 1",
        ),
        (kernel(False, True), shape(8), Status.BUILD_ERROR, "shared_bytes is missing"),
        (kernel(False), shape(8, shared=4), Status.BUILD_ERROR, "no parameter is in local memory"),
        (kernel(False, True, True), shape(8, shared=4), Status.BUILD_ERROR, "2 parameters in local memory"),
        (kernel(False, False), shape(8), Status.BUILD_ERROR, "takes 2 arguments, the spec lists 1"),
        ({}, shape(8), Status.BUILD_ERROR, "no kernel 'k'"),
    ],
)
def test_impossible_launches_are_known_before(
    said: Any, geometry: Geometry, status: Status, message: str
) -> None:
    with pytest.raises(CandidateFailed, match=message) as caught:
        inspect(said, "k", [X], device(), [geometry])
    assert caught.value.status is status


def test_features_are_numbers_with_units() -> None:
    found = inspect(kernel(True, False, local_bytes=100), "k", [X], device(), [shape(8, 8, shared=28)])
    assert features(found, shape(8, 8, shared=28)) == {
        "work_group_items": 64.0,
        "work_groups": 1.0,
        "local_bytes": 128.0,
        "private_bytes": 16.0,
        "preferred_multiple": 8.0,
        "kernel_max_items": 1024.0,
    }


@pytest.mark.parametrize(
    ("times", "wall", "busy", "why"),
    [
        ([0.01] * 10, 0.101, 0.19, ""),
        ([0.01] * 10, 0.09, None, "have passed"),
        ([-0.01, 0.02], 0.1, None, "have passed"),
        ([0.001] * 10, 0.1, 0.1, "were busy"),
        ([0.0001] * 10, 0.1, None, "of 0.1"),
        ([1e-6], 0.001, 0.001, ""),
        ([0.0001] * 10, 0.1, 0.002, ""),
    ],
)
def test_a_devices_clock_is_held_against_others(
    times: list[float], wall: float, busy: float | None, why: str
) -> None:
    found = believe(times, wall_s=wall, busy_s=busy, units=2)
    assert why in found
    assert bool(found) == bool(why)


def test_an_error_about_what_an_extension_brings_names_it() -> None:
    message = "error: k.cl:6:9: use of undeclared identifier 'sub_group_reduce_add'"
    assert lacking_extension(message, ["cl_khr_fp64"]) == "; this device has no cl_khr_subgroups"
    assert lacking_extension(message, ["cl_khr_subgroups"]) == ""
    assert lacking_extension("error: use of type 'double' requires cl_khr_fp64", []).endswith("cl_khr_fp64")
    assert lacking_extension("error: expected ';'", []) == ""
