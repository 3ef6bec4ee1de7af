"""Programs that applications make of SPIR-V: recorded, tuned and put back as modules; where no device takes SPIR-V, as
far as a stand-in for OpenCL's loader goes.
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from opencl_devices import device_with_il, stand_in_loader

from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.in_place import Winner
from tuner.driver.applications.recording import RecordReport, record_kernel
from tuner.driver.check import check_spec
from tuner.evaluators.opencl.backend import OpenClBackend
from tuner.evaluators.opencl.device_passes import SpirvPasses
from tuner.evaluators.opencl.module import entry_point
from tuner.evaluators.opencl.process import wheel_drivers
from tuner.evaluators.opencl.program import Program
from tuner.evaluators.opencl.spirv import triple_of
from tuner.recorders.recordings.format import Recording, RecordingFile
from tuner.spec.load import LoadedSpec, load_recorded, load_spec
from tuner.spec.recorded.first import write_module_spec

pytest.importorskip("llvmlite")

PREFIX = "function(sroa),default<O3>"
SOURCE = """
typedef struct { float a; int b; } Pair;
float twice(float v) { return v + v; }
__kernel void scale(__global const float *x, __global float *y, float f, int n)
{
    int i = get_global_id(0);
    if (i < n) y[i] = f * x[i];
}
__kernel void mixed(Pair p, __global int4 *v, __local float *part, __constant double *c, __global uchar *bytes)
{
    int l = get_local_id(0);
    part[l] = p.a + c[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    v[get_global_id(0)] += (int4)((int)part[0], l, p.b, bytes[0]);
}
__kernel void axes(__global int *y) { y[get_global_id(0)] = get_work_dim(); }
"""
DEVICE = device_with_il("SPIR-V_1.0")
APPLICATION = """
import sys
import numpy as np
import pyopencl as cl

devices = [d for p in cl.get_platforms() for d in p.get_devices() if sys.argv[1] in (d.name, p.name)]
context = cl.Context(devices[:1])
queue = cl.CommandQueue(context)
flags = cl.mem_flags
x, y = np.arange(960, dtype=np.float32), np.zeros(960, np.float32)
a = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x)
b = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=y)
program = cl.Program(context, open(sys.argv[2], "rb").read()).build(options=sys.argv[3:])
kernel = cl.Kernel(program, "scale")
kernel.set_args(a, b, np.float32(2), np.int32(960))
cl.enqueue_nd_range_kernel(queue, kernel, (960,), (8,))
cl.enqueue_copy(queue, y, b)
queue.finish()
print(y.sum(), flush=True)
"""
TOTAL = 2.0 * sum(range(960))


def compiled(text: str, entry: str) -> bytes:
    """A module of one kernel, made without a device."""
    passes = SpirvPasses(DEVICE)
    try:
        program = Program(entry=entry, files=(Source(name="a.cl", text=text),), options=())
        (outcome,) = passes.compile([(program, "default<O1>")])
    finally:
        passes.close()
    assert outcome.status is Status.OK, outcome.message
    return outcome.blobs[0]


@pytest.fixture(scope="module")
def scale() -> bytes:
    """The kernel that the application runs."""
    return compiled(SOURCE, "scale")


@pytest.fixture(scope="module")
def other() -> bytes:
    """Another kernel of its name, which can be told by what it gives."""
    return compiled(SOURCE.replace("f * x[i]", "f * x[i] + 1"), "scale")


@pytest.fixture
def application(tmp_path: Path, scale: bytes) -> Path:
    """A program and its module."""
    (tmp_path / "scale.spv").write_bytes(scale)
    (tmp_path / "application.py").write_text(APPLICATION)
    return tmp_path


def command(folder: Path, device: str, *options: str) -> list[str]:
    return [
        sys.executable,
        "-W",
        "ignore",
        str(folder / "application.py"),
        device,
        str(folder / "scale.spv"),
        *options,
    ]


def recorded(report: RecordReport) -> Recording:
    with RecordingFile(report.recordings[0]) as file:
        return file.recording


# ---- what a module says ----


def test_a_module_says_what_its_kernels_take(scale: bytes) -> None:
    found = entry_point(scale, "scale")
    assert [(p.base, p.pointer, p.constant) for p in found.parameters] == [
        ("float", True, True),
        ("float", True, False),
        ("float", False, False),
        ("int", False, False),
    ]
    assert not found.grouped
    assert not found.asks_axes
    with pytest.raises(BaselineError, match="no kernel 'scala'"):
        entry_point(scale, "scala")


def test_local_memory_structures_vectors_and_constants_are_told_apart() -> None:
    found = entry_point(compiled(SOURCE, "mixed"), "mixed")
    pair, vectors, part, constants, octets = found.parameters
    assert (pair.base, pair.pointer) == ("", False)
    assert (vectors.base, vectors.pointer, vectors.local, vectors.constant) == ("int", True, False, False)
    assert (part.base, part.pointer, part.local) == ("float", True, True)
    assert (constants.base, constants.constant) == ("double", True)
    assert (octets.base, octets.constant) == ("char", True)
    assert found.grouped


def test_a_kernel_that_asks_for_its_axes_says_so() -> None:
    assert entry_point(compiled(SOURCE, "axes"), "axes").asks_axes


def test_one_source_gives_each_of_its_kernels(scale: bytes) -> None:
    # Two kernels of one source, compiled by the same workers, were one module at first.
    passes = SpirvPasses(DEVICE)
    try:
        programs = [
            Program(entry=e, files=(Source(name="a.cl", text=SOURCE),), options=()) for e in ("scale", "axes")
        ]
        outcomes = passes.compile([(program, "default<O1>") for program in programs])
    finally:
        passes.close()
    for outcome, name in zip(outcomes, ("scale", "axes"), strict=True):
        assert entry_point(outcome.blobs[0], name).name == name


def test_a_damaged_module_is_an_error_and_nothing_else(scale: bytes) -> None:
    for at in range(0, len(scale), 12):
        for wrong in (
            scale[:at],
            scale[:at] + b"\xff\xff\xff\xff" + scale[at + 4 :],
            scale[:at] + scale[at + 1 :],
        ):
            with contextlib.suppress(BaselineError):
                entry_point(wrong, "scale")


# ---- specs ----


def written(recording: Recording, folder: Path, *, passes: bool) -> str:
    text, spec = write_module_spec([recording], name="scale", pattern="*.rec", base=folder, passes=passes)
    assert bytes.fromhex(text)[:4] in (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
    return spec


def test_a_module_that_knows_its_work_group_keeps_it(scale: bytes, tmp_path: Path) -> None:
    recording = Recording(
        api="opencl",
        entry="scale",
        form="il",
        text=scale.hex(),
        options="-cl-mad-enable",
        arguments=(),
        global_size=(960,),
        local_size=(8,),
    )
    spec = written(recording, tmp_path, passes=True)
    assert "GROUP_X: {values: [1, 2, 4, 8, 16, 32, 64], default: 8, macro: false}" in spec
    assert "recorded: ['-cl-mad-enable']" in spec
    assert 'passes: {base: "default<O3>"}' in spec
    mixed = replace(recording, entry="mixed", text=compiled(SOURCE, "mixed").hex())
    assert "GROUP_X" not in written(mixed, tmp_path, passes=False)
    assert "passes: off" in written(mixed, tmp_path, passes=False)
    with pytest.raises(SpecError, match="no SPIR-V module"):
        written(replace(recording, text="00"), tmp_path, passes=False)


MODULE = """\
kernel: {source: scale.spv, entry: scale}
problem: {n: 960}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: f, dtype: float32, value: 2.0}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["n // GROUP"], block: [GROUP]}
space: {parameters: {GROUP: {values: [8, 16], macro: false}}, passes: off}
"""


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "", ""),
        (", macro: false", "", "compiled already"),
        ("entry: scale", "entry: scala", "no kernel 'scala'"),
        ("x, dtype: float32", "x, dtype: float64", "write float32"),
        ("x, dtype: float32, shape: [n]", "x, dtype: float32, shape: [n], role: output", "write role: input"),
    ],
)
def test_a_spec_agrees_with_its_module(tmp_path: Path, scale: bytes, old: str, new: str, why: str) -> None:
    (tmp_path / "scale.spv").write_bytes(scale)
    (tmp_path / "a.yaml").write_text(MODULE.replace(old, new, 1))
    if why:
        with pytest.raises((SpecError, BaselineError), match=why):
            load_spec(tmp_path / "a.yaml")
        return
    (loaded,) = load_spec(tmp_path / "a.yaml")
    assert (loaded.task.kernel.language, loaded.task.backend) == ("spirv", "opencl")
    # A record holds the module as text.
    again = load_recorded(loaded.text, loaded.files, folder=str(tmp_path))
    assert (
        Program.of(
            again.task.kernel,
            again.task.kernel.variant,
            again.space(None).resolve(again.space(None).default()),
        ).il
        == scale
    )


# ---- on a stand-in ----


@pytest.fixture
def standing_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scale: bytes, other: bytes) -> str:
    """PoCL behind a loader that takes modules of known sizes; the platform's name."""
    name = stand_in_loader(tmp_path, monkeypatch)
    assert len(scale) != len(other)
    (tmp_path / f"{len(scale)}.cl").write_text(SOURCE)
    (tmp_path / f"{len(other)}.cl").write_text(SOURCE.replace("f * x[i]", "f * x[i] + 1"))
    return name


def through_opencl(folder: Path, device: str, change: str) -> list[str]:
    """The application with a change between the module and its build, made by OpenCL's own functions."""
    text = APPLICATION.replace(
        'program = cl.Program(context, open(sys.argv[2], "rb").read())',
        f"""
import ctypes
code = open(sys.argv[2], "rb").read()
opencl = ctypes.CDLL("libOpenCL.so.1")
def made(function):
    function.restype = ctypes.c_void_p
    return cl.Program.from_int_ptr(function(ctypes.c_void_p(context.int_ptr), code, ctypes.c_size_t(len(code)), None))
{change}
program = program""",
    )
    (folder / "application.py").write_text(text)
    return command(folder, device)


@needs.pocl
def test_a_module_is_recorded_with_a_spec_and_replaced_by_another(
    application: Path, standing_in: str, scale: bytes, other: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Constants that were given values are refused by name."""
    run = command(application, standing_in)
    report = record_kernel(run, "scale", application / "out", instances=1)
    recording = recorded(report)
    assert (recording.form, bytes.fromhex(recording.text)) == ("il", scale)
    assert (application / "out" / "scale.spv").read_bytes() == scale
    assert "source: 'scale.spv'" in (application / "out" / "scale.yaml").read_text()
    capfd.readouterr()
    winner = Winner(kernel="scale", recording=recording, source="", il=other, options="", local=(16,))
    ran, _ = run_with([winner], run)
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 0)
    assert float(capfd.readouterr().out) == TOTAL + 960
    # Built with other options it is not the recorded program.
    ran, (placed,) = run_with([winner], command(application, standing_in, "-cl-mad-enable"))
    assert (ran.replaced, placed.replaced) == (0, 0)
    assert float(capfd.readouterr().out) == TOTAL
    # A source may take a module's place.
    text = SOURCE.replace("f * x[i]", "f * x[i] - 1")
    own = replace(winner, il=b"", source=text)
    ran, _ = run_with([own], run)
    assert ran.replaced == 1
    assert float(capfd.readouterr().out) == TOTAL - 960
    run = through_opencl(
        application,
        standing_in,
        """
program = made(opencl.clCreateProgramWithIL)
value = ctypes.c_int(8)
status = opencl.clSetProgramSpecializationConstant(ctypes.c_void_p(program.int_ptr), 0, 4, ctypes.byref(value))
assert status == 0
""",
    )
    with pytest.raises(UsageError, match="constants of its SPIR-V were given values"):
        record_kernel(run, "scale", application / "out", instances=1)
    # The recorded module without values is another program.
    capfd.readouterr()
    ran, _ = run_with([own], run)
    assert (ran.status, ran.replaced) == (0, 0)
    assert float(capfd.readouterr().out) == TOTAL


@needs.pocl
def test_a_module_given_to_an_extension_is_recorded(
    application: Path, standing_in: str, scale: bytes
) -> None:
    run = through_opencl(
        application,
        standing_in,
        """
find = opencl.clGetExtensionFunctionAddressForPlatform
find.restype = ctypes.c_void_p
platform = devices[0].platform.int_ptr
address = find(ctypes.c_void_p(platform), b"clCreateProgramWithILKHR")
kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
program = made(kind(address))
""",
    )
    report = record_kernel(run, "scale", application / "out", instances=1)
    recording = recorded(report)
    assert (recording.form, bytes.fromhex(recording.text)) == ("il", scale)


# ---- on a device that takes SPIR-V ----


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of one that does, which applications find as the tuner does."""
    found = [d for d in OpenClBackend().devices() if triple_of(d)]
    assert found
    if wheel_drivers():
        vendors = tmp_path / "vendors"
        vendors.mkdir()
        for driver in wheel_drivers():
            (vendors / f"{Path(driver).stem}.icd").write_text(f"{driver}\n")
        monkeypatch.setenv("OCL_ICD_VENDORS", str(vendors))
    return found[0].name


@pytest.fixture
def spec(application: Path, device: str) -> LoadedSpec:
    """As ``tuner record --kernel`` wrote it."""
    report = record_kernel(command(application, device), "scale", application / "out", instances=1)
    assert not report.notes
    (path,) = report.specs
    (loaded,) = load_spec(path)
    return loaded


@needs.spirv_device
def test_the_spec_of_a_module_tunes_as_it_is(spec: LoadedSpec) -> None:
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    assert spec.task.kernel.language == "spirv"
    assert [a.dtype for a in spec.task.arguments] == ["float32", "float32", "float32", "int32"]
    assert [a.role for a in spec.task.arguments[:2]] == ["input", "inout"]


def build(spec: LoadedSpec, pipeline: str | None) -> tuple[Build, Resolved, object]:
    """A candidate that was verified on the recording."""
    backend = OpenClBackend()
    evaluation = backend.prepare(spec.task, workers=1)
    try:
        space = spec.space(backend.pass_catalogue(spec.task.target) if spec.wants_passes else None)
        own = space.resolve(space.default())
        resolved = replace(own, pipeline=pipeline)
        (base,) = evaluation.build([BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=own)])
        (made,) = evaluation.build(
            [BuildRequest(trial=1, variant=spec.task.kernel.variant, resolved=resolved)]
        )
        assert made.status is Status.OK, made.message
        assert evaluation.set_baseline(base, own).status is Status.OK
        session = evaluation.open(made, resolved, purpose="search", number=1)
        try:
            verdict = session.verify()
        finally:
            session.close()
        assert verdict.status is Status.OK, verdict.message
    finally:
        evaluation.close()
    return made, resolved, base


@needs.spirv_device
def test_a_module_is_launched_in_the_place_of_the_applications(
    spec: LoadedSpec, application: Path, device: str, capfd: pytest.CaptureFixture[str]
) -> None:
    made, resolved, _ = build(spec, None)
    found = OpenClBackend().replacement(spec.task, made.code, resolved)
    (path,) = (application / "out" / "recordings").glob("*.rec")
    with RecordingFile(path) as file:
        recording = file.recording
    capfd.readouterr()
    winner = Winner(
        kernel="scale",
        recording=recording,
        source=found.source,
        il=found.il,
        options=found.options,
        local=(16,),
    )
    ran, _ = run_with([winner], command(application, device))
    assert (ran.status, ran.replaced, ran.left) == (0, 1, 0)
    assert float(capfd.readouterr().out) == TOTAL


@needs.spirv_device
@needs.llvm_spirv
def test_passes_work_on_a_module(spec: LoadedSpec) -> None:
    made, _, base = build(spec, PREFIX)
    assert isinstance(base, Build)
    assert made.key != base.key
    assert {"frontend", "passes", "codegen", "driver"} <= made.seconds.keys()
