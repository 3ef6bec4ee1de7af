"""Pass pipelines for OpenCL: clang, LLVM passes and SPIR-V, checked by spirv-val, and run where a device takes it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest
from opencl_devices import device_with_il

from tuner.core.errors import MachineError
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.opencl.backend import OpenClBackend, OpenClEvaluation
from tuner.evaluators.opencl.device_passes import SpirvPasses, missing_parts, spirv_catalogue
from tuner.evaluators.opencl.pass_worker import number_given_twice
from tuner.evaluators.opencl.program import Program, canonical_text
from tuner.evaluators.opencl.spirv import clang_options, triple_of
from tuner.spec.load import LoadedSpec, load_spec

pytest.importorskip("llvmlite")

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "opencl").glob("*/*.yaml"))
O3, SHORT = "default<O3>", "function(sroa,early-cse,simplifycfg)"
PREFIX = "function(sroa),default<O3>"
INTEL = "intel"
DEVICE = device_with_il("SPIR-V_1.0 SPIR-V_1.2")


@pytest.fixture(scope="module")
def passes() -> Iterator[SpirvPasses]:
    """For a device that nobody has: none is needed to compile."""
    made = SpirvPasses(DEVICE, workers=2)
    yield made
    made.close()


def valid(module: bytes, tmp_path: Path) -> None:
    """Asserts what spirv-val says, where it is installed."""
    assert module[:4] == b"\x03\x02\x23\x07"
    validator = shutil.which("spirv-val")
    if validator is None:
        return
    (tmp_path / "a.spv").write_bytes(module)
    done = subprocess.run(
        [validator, "--target-env", "opencl2.2", "a.spv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def program(text: str, *options: str, entry: str = "k") -> Program:
    """One file."""
    return Program(entry=entry, files=(Source(name="k.cl", text=text),), options=options)


def test_a_number_given_twice_is_found() -> None:
    head = [0x07230203, 0x00010000, 0, 9, 0]
    void, float32 = [2 << 16 | 19, 1], [3 << 16 | 22, 2, 32]
    good = struct.pack("<10I", *head, *void, *float32)
    assert number_given_twice(good) is None
    assert number_given_twice(struct.pack("<12I", *head, *void, *float32, 2 << 16 | 19, 2)) == 2
    # A constant's first operand is its type, which many share.
    constants = [4 << 16 | 43, 2, 3, 0, 4 << 16 | 43, 2, 4, 0]
    assert number_given_twice(struct.pack("<18I", *head, *void, *float32, *constants)) is None
    assert number_given_twice(good[:-5]) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
@pytest.mark.integration
def test_every_example_becomes_valid_spirv_by_any_pipeline(
    path: Path, passes: SpirvPasses, tmp_path: Path
) -> None:
    (spec,) = load_spec(path)
    catalogue = spirv_catalogue(DEVICE)
    resolved = spec.space(None).resolve(spec.space(None).default())
    given = Program.of(spec.task.kernel, spec.task.kernel.variant, resolved)
    with_passes = _asking(path, tmp_path).space(catalogue.to_json()).passes
    assert with_passes is not None
    rng = np.random.default_rng(5)
    pipelines = [O3, SHORT, PREFIX, *(with_passes.random(rng) for _ in range(2))]
    for outcome in passes.compile([(given, pipeline) for pipeline in pipelines]):
        assert outcome.status is Status.OK, outcome.message
        valid(outcome.blobs[0], tmp_path)
        local = len(outcome.header["local"]) - len(spec.task.arguments)
        assert sum(outcome.header["local"]) == local


def _asking(path: Path, folder: Path, target: str = "native") -> LoadedSpec:
    """An example whose spec asks for passes, on some device."""
    shutil.copytree(path.parent, folder / "example", dirs_exist_ok=True)
    text = path.read_text(encoding="utf-8")
    text = text.replace("space:\n", "space:\n  passes: {base: default<O3>, max_edits: 8}\n")
    asking = folder / "example" / path.name
    asking.write_text(f"{text}target: {target}\n", encoding="utf-8")
    (spec,) = load_spec(asking)
    return spec


@pytest.mark.integration
def test_one_process_makes_many_modules_one_after_the_other(passes: SpirvPasses) -> None:
    # Its target machine keeps what it has seen of one module and would end the process at one of the next.
    texts = [
        "__kernel void k(__global float *y, int n) { int i = get_global_id(0); "
        f"if (i < n) y[i] = (y[i] * {j}.0f > 1) ? native_sin(y[i]) : y[i] / {j + 1}; }}"
        for j in range(16)
    ]
    outcomes = passes.compile([(program(text), SHORT) for text in texts])
    assert {(o.status, o.message) for o in outcomes} == {(Status.OK, "")}
    assert len({o.blobs[0] for o in outcomes}) == len(texts)


def test_refusals_of_clang_and_pipelines_are_reported(passes: SpirvPasses) -> None:
    good = program("__kernel void k(__global int *y) { y[0] = 1; }")
    wrong = program("__kernel void k(__global int *y) { y[0] = nothing; }")
    other = program("__kernel void other(__global int *y) { y[0] = 1; }")
    slow = program("__kernel void k(__global int *y) { y[0] = 1; }", "-cl-opt-disable")
    found = passes.compile([(good, "function(nonsense)"), (wrong, O3), (other, O3), (slow, O3), (good, O3)])
    assert [o.status for o in found] == [Status.BUILD_ERROR] * 4 + [Status.OK]
    assert "nonsense" in found[0].message
    assert "nothing" in found[1].message
    assert "no kernel 'k'; it has other" in found[2].message
    assert "-cl-opt-disable" in found[3].message


def test_a_device_gets_the_version_and_the_extensions_that_it_has(passes: SpirvPasses) -> None:
    assert triple_of(DEVICE) == "spirv64v1.2-unknown-unknown"
    assert triple_of(replace(DEVICE, il="SPIR-V_1.0 SPIR-V_1.6", address_bits=32)).startswith("spirv32v1.0-")
    assert triple_of(replace(DEVICE, il="")) == ""
    asks = (
        "__kernel void k(__global int *y) {\n#ifdef cl_khr_fp16\n#error half\n#endif\n#ifndef cl_khr_fp64\n"
    )
    asks += "#error no double\n#endif\ny[0] = __OPENCL_VERSION__; }"
    (outcome,) = passes.compile([(program(asks), O3)])
    assert outcome.status is Status.OK, outcome.message


def test_options_go_to_those_who_take_them() -> None:
    options = (
        "-DN=4",
        "-cl-std=CL1.2",
        "-cl-fast-relaxed-math",
        "-cl-intel-greater-than-4GB-buffer-required",
    )
    assert clang_options(options) == options[:3]
    made = replace(program("", *options), il=b"code", local=(False, True))
    assert made.job()["options"] == list(options[2:])
    assert made.job()["local"] == [False, True]
    assert Program.from_code(made.code(), folder="") == made
    assert made.source.job()["source"].strip().startswith("#line")


def test_equal_spirv_is_one_candidate_whatever_it_was_made_of() -> None:
    one = replace(program("a", "-DN=4"), il=b"code")
    assert canonical_text(one, None) == canonical_text(replace(program("b", "-DN=5"), il=b"code"), None)
    assert canonical_text(one, None) != canonical_text(replace(one, il=b"other"), None)
    assert canonical_text(one, None) != canonical_text(one.source, None)


@needs.pocl
def test_a_device_without_spirv_says_so_and_the_space_loses_only_the_passes(tmp_path: Path) -> None:
    backend = OpenClBackend()
    device = backend.device("pocl")
    if device.il:
        pytest.skip("this PoCL takes SPIR-V")
    assert "takes no intermediate language" in missing_parts(device)
    assert backend.pass_catalogue("pocl") is None
    text = EXAMPLES[-1].read_text(encoding="utf-8").replace("space:\n", "space:\n  passes: {max_edits: 8}\n")
    shutil.copytree(EXAMPLES[-1].parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "a.yaml").write_text(f"{text}target: pocl\n", encoding="utf-8")
    (spec,) = load_spec(tmp_path / "a.yaml")
    assert spec.space(backend.pass_catalogue("pocl")).passes is None
    (notice,) = [n for n in spec.notices if "space.passes" in n]
    assert "takes no intermediate language" in notice
    with pytest.raises(MachineError, match="intermediate language"):
        SpirvPasses(device)


class Bench:
    """The reduction example on a device that takes SPIR-V."""

    def __init__(self, folder: Path) -> None:
        path = next(p for p in EXAMPLES if p.stem == "reduction")
        self.spec = _asking(path, folder, INTEL)
        self.backend = OpenClBackend()
        self.task = self.spec.task_with(seed=0)
        self.space = self.spec.space(self.backend.pass_catalogue(INTEL))
        self.evaluation: OpenClEvaluation = self.backend.prepare(self.task, workers=2)

    def resolved(self, pipeline: str | None) -> Resolved:
        """The default with a pipeline."""
        return replace(self.space.resolve(self.space.default()), pipeline=pipeline)

    def build(self, pipeline: str | None, text: str | None = None) -> Build:
        """What becomes of a candidate."""
        first = self.task.kernel.variant.files[0]
        variant = Variant(files=(Source(name=first.name, text=text or first.text),))
        request = BuildRequest(trial=1, variant=variant, resolved=self.resolved(pipeline))
        (build,) = self.evaluation.build([request])
        return build

    def verdict(self, build: Build, pipeline: str | None) -> Any:
        """What the verification says."""
        session = self.evaluation.open(build, self.resolved(pipeline), purpose="search", number=0)
        try:
            return session.verify()
        finally:
            session.close()


@pytest.fixture(scope="module")
def intel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Where Intel's runtime for CPUs is installed: it takes SPIR-V."""
    made = Bench(tmp_path_factory.mktemp("intel"))
    build = made.build(O3)
    report = made.evaluation.set_baseline(build, made.resolved(O3))
    assert report.status is Status.OK, report.message
    yield made
    made.evaluation.close()


@needs.spirv_device
@pytest.mark.parametrize("pipeline", [PREFIX, SHORT, "default<O1>"])
def test_spirv_runs_verifies_and_is_timed(intel: Bench, pipeline: str) -> None:
    build = intel.build(pipeline)
    assert build.status is Status.OK, build.message
    assert {"frontend", "passes", "codegen", "driver"} <= build.seconds.keys()
    session = intel.evaluation.open(build, intel.resolved(pipeline), purpose="search", number=0)
    try:
        verdict = session.verify()
        assert verdict.status is Status.OK, verdict.message
        measured = session.measure(problem=0, calls=3)
        assert measured.status is Status.OK, measured.message
        assert min(measured.times_s) > 0
    finally:
        session.close()


@needs.spirv_device
def test_the_base_alone_is_the_drivers_own_compiler(intel: Bench) -> None:
    own, base = intel.build(None), intel.build(O3)
    assert own.key == base.key
    assert not Program.from_code(base.code, folder="").il
    passed = intel.build(PREFIX)
    assert Program.from_code(passed.code, folder="").il
    assert passed.key != base.key
    # Two ways to the same code.
    assert intel.build("function(sroa),function(sroa),default<O3>").key == passed.key


@needs.spirv_device
def test_wrong_spirv_is_found_wrong(intel: Bench) -> None:
    text = intel.task.kernel.variant.files[0].text
    wrong = text.replace("get_group_id(0)", "(get_group_id(0) / 2 * 2)", 1)
    assert wrong != text
    build = intel.build(PREFIX, wrong)
    assert build.status is Status.OK, build.message
    assert intel.verdict(build, PREFIX).status is Status.WRONG_RESULT


@needs.spirv_device
def test_check_says_who_makes_the_code(intel: Bench) -> None:
    report = check_spec(intel.spec, faults=False)
    facts = dict(report.lines)
    assert report.ok
    assert "SPIR-V by" in facts["il"]
    assert "passes to edit default<O3>" in facts["passes"]


@needs.spirv_device
def test_a_candidate_with_passes_is_put_in_place_as_spirv(intel: Bench) -> None:
    build = intel.build(PREFIX)
    found = intel.backend.replacement(intel.task, build.code, intel.resolved(PREFIX))
    assert (found.source, found.il) == ("", Program.from_code(build.code, folder="").il)
    own = intel.build(O3)
    assert intel.backend.replacement(intel.task, own.code, intel.resolved(O3)).source
