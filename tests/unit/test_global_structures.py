"""Global variables that are structures, or arrays of some: on the host and in a device's memory."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.core.errors import SpecError
from tuner.driver.check import CheckReport, check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

BODIES = """
struct body { double x[3]; double m; int id; };
static struct body bodies[50];
static struct { int scale; double bias; } set = {2, 0.5};
typedef struct { float re, im; } pair;
pair spectrum[4][8];
struct list { double v; struct list *next; } chain[4];
static double moved(double d, int j) { return d * bodies[j].m * set.scale + set.bias; }
void accumulate(int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            bodies[i].x[1] += moved(bodies[j].x[0] - bodies[i].x[0], j);
    for (int i = 0; i < 4; i++)
        spectrum[i][n & 7].im = spectrum[i][1].re + bodies[n - 1].id;
}
void other(void) { chain[0].v = 1; bodies[0].id = 2; }
"""
HOST = (
    "{name: bodies, global: true, dtype: {x: [float64, 3], m: float64, id: int32}, shape: [50], role: inout}",
    "{name: set, global: true, dtype: {scale: int32, bias: float64}, shape: [1]}",
    "{name: spectrum, global: true, dtype: float32, shape: [4, 8, 2], role: inout, init: normal}",
)
DEVICE = """
namespace sim {
struct Params { int n; float scale; struct { float lo, hi; } range; };
__constant__ Params params;
struct Cell { float v[4]; int kind; unsigned char alive; };
__device__ Cell cells[64];
static __device__ struct { double sum; unsigned count; } total;
}
__global__ void run(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = in[i] * sim::params.scale + sim::params.range.hi;
    if (i < 64) {
        sim::cells[i].v[1] += out[i];
        sim::cells[i].kind++;
    }
    atomicAdd(&sim::total.count, 1u);
}
"""
ON_DEVICE = (
    '{name: "sim::params", global: true, dtype: {n: int32, scale: float32, range: {lo: float32, hi: float32}}, '
    "shape: [1]}",
    '{name: "sim::cells", global: true, dtype: {v: [float32, 4], kind: int32, alive: uint8}, shape: [64], role: inout}',
    '{name: "sim::total", global: true, dtype: {sum: float64, count: uint32}, shape: [1], role: inout}',
)


def written(
    folder: Path, name: str, text: str, *changes: tuple[str, str], entry: str, compiler: str = ""
) -> Path:
    """The first spec of a kernel, changed."""
    (folder / name).write_text(text)
    spec = first_spec(folder / name, entry=entry, compiler=compiler or None).text.replace(
        "n: 4194304", "n: 700"
    )
    for old, new in changes:
        assert old in spec
        spec = spec.replace(old, new)
    (folder / "k.yaml").write_text(spec)
    return folder / "k.yaml"


def caught(report: CheckReport) -> tuple[str, str]:
    """How many faults are caught, and how many were planted."""
    assert report.ok, report.lines
    found, _, planted, *_ = dict(report.lines)["faults"].split()
    return found, planted


@pytest.mark.integration
@pytest.mark.parametrize("name", ["k.c", "k.cc"])
def test_a_first_spec_lists_structures(name: str, tmp_path: Path) -> None:
    text = written(tmp_path, name, BODIES, entry="accumulate").read_text()
    for line in HOST:
        assert line in text
    assert load_spec(tmp_path / "k.yaml")


@pytest.mark.integration
def test_macros_may_stand_for_members(tmp_path: Path) -> None:
    """As f2c writes Fortran's common blocks, which no file of the project need define."""
    text = (
        "extern struct { double a[11], b[11]; int n; } common_;\n#define a common_.a\n#define b common_.b\n"
        "void k(void) { for (int i = 1; i <= common_.n; ++i) a[i] += b[i]; }\n"
    )
    (tmp_path / "k.c").write_text(text)
    made = first_spec(tmp_path / "k.c").text
    assert "{name: common_, global: true, dtype: {a: [float64, 11], b: [float64, 11], n: int32}" in made


def test_structures_with_pointers_stay_as_they_are(tmp_path: Path) -> None:
    text = written(tmp_path, "k.c", BODIES, entry="other").read_text()
    assert "# check: no argument can stand for the global chain, `struct list[4]`" in text
    assert "name: bodies, global: true" in text


@pytest.mark.integration
@pytest.mark.parametrize("compiler", ["", pytest.param("gcc -O3", marks=needs.gcc)])
def test_faults_in_structures_are_caught(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 16)
    path = written(tmp_path, "k.c", BODIES, entry="accumulate", compiler=compiler)
    found, planted = caught(check_spec(load_spec(path)[0]))
    assert found == planted == "16"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("shape: [50]", "shape: [51]"), "but the spec gives 51 elements; write shape: .50."),
        (("m: float64, id: int32", "m: float64, id: int64"), "whose member 'id' is not int64"),
        (
            ("{x: [float64, 3], m: float64,", "{x: [float64, 3],"),
            "whose member 'id' lies at byte 32, and by the spec",
        ),
        (("{scale: int32, bias: float64}", "float64"), "but the spec says float64"),
        (("shape: [4, 8, 2]", "shape: [4, 8]"), "the global 'spectrum' is .* write shape: .4, 8, 2."),
        (("bodies, global: true", "bodies, global: pointer"), "one of structures, which cannot have global"),
    ],
)
def test_a_structure_that_the_source_does_not_have_is_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    path = written(tmp_path, "k.c", BODIES, change, entry="accumulate")
    with pytest.raises(SpecError, match=message) as error:
        load_spec(path)
    assert error.value.place is not None


@pytest.mark.integration
def test_a_first_spec_lists_structures_of_a_device(tmp_path: Path) -> None:
    text = written(tmp_path, "k.cu", DEVICE, entry="run").read_text()
    for line in ON_DEVICE:
        assert line in text
    wrong = text.replace("kind: int32, alive", "kind: float32, alive")
    with pytest.raises(SpecError, match="whose member 'kind' is not float32"):
        load_spec(tmp_path / "k.yaml", text=wrong)


@needs.nvrtc
@pytest.mark.integration
def test_faults_in_structures_of_a_device_are_caught(tmp_path: Path) -> None:
    path = written(tmp_path, "k.cu", DEVICE, entry="run")
    report = check_spec(load_spec(path)[0])
    found, planted = caught(report)
    assert found == planted
    assert not report.warnings
