"""Specs of OpenCL kernels: first ones, the examples, and what is said of mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
import yaml

from tuner.core.errors import SpecError, UsageError
from tuner.driver.audit import audit
from tuner.driver.check import check_spec
from tuner.driver.first_sizes import LEAST_S, MOST_S, with_timed_sizes
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.runs import begin
from tuner.spec.first.init import first_spec, init_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "opencl"
SPECS = sorted(EXAMPLES.glob("*/*.yaml"))

KERNEL = """
float helper(float a) { return a * 2; }
__kernel void blur(__global const float4 *restrict in, __global float4 *out, __constant float *w, int nx, uint ny,
                   float gain, __local float *tmp)
{
    int x = get_global_id(0), y = get_global_id(1);
    tmp[get_local_id(0)] = helper(w[0]);
    if (x < nx && y < ny) out[y * nx + x] = gain * in[y * nx + x];
}
"""


def test_the_five_examples_are_there() -> None:
    assert {p.stem for p in SPECS} == {"matmul", "softmax", "convolution", "reduction", "transpose"}


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_an_example_loads_with_its_defaults_in_the_source(path: Path) -> None:
    (spec,) = load_spec(path)
    assert spec.task.backend == "opencl"
    assert load_recorded(spec.text, spec.files, folder=str(path.parent)).task == spec.task
    source = spec.task.kernel.variant.files[0].text
    for parameter in spec.tunables.parameters:
        assert f"#ifndef {parameter.name}\n#define {parameter.name} {parameter.default}\n" in source
    count = spec.space(None).count()
    assert count is not None
    assert count >= 100


SMALLER = {
    "convolution": {"nx": 64, "ny": 64},
    "reduction": {"rows": 4, "columns": 700},
    "softmax": {"rows": 4, "columns": 100},
}
"""Sizes at which a launch takes little; the transposition has its own. The documentation's tests tune the product."""


@needs.pocl
@needs.oclgrind
@pytest.mark.parametrize("path", [p for p in SPECS if p.stem != "matmul"], ids=lambda p: p.stem)
def test_an_example_checks_on_pocl(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its verification catches what is planted: faults until one is caught, however long they take."""
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 6)
    monkeypatch.setattr("tuner.driver.faults.BUDGET_S", 600.0)
    (spec,) = load_spec(path)
    (given,) = spec.task.problems
    problem = replace(given, sizes=SMALLER.get(path.stem, given.sizes))
    report = check_spec(replace(spec, task=replace(spec.task, problems=(problem,))), faults=1)
    assert report.ok, report.lines
    assert not report.warnings
    assert report.faults is not None
    assert report.faults.counted
    assert [text for name, text in report.lines if name == "oclgrind"][1] == "the kernel as given: clean"


def first(tmp_path: Path, source: str, entry: str | None = None) -> tuple[str, LoadedSpec]:
    """The first spec of a source, and what it loads to."""
    (tmp_path / "k.cl").write_text(source)
    text = init_spec(tmp_path / "k.cl", entry=entry)
    (tmp_path / "k.yaml").write_text(text)
    (loaded,) = load_spec(tmp_path / "k.yaml")
    return text, loaded


def test_a_first_spec_has_vectors_local_memory_and_a_launch(tmp_path: Path) -> None:
    text, spec = first(tmp_path, KERNEL)
    found = {a.name: (a.role.value, a.dtype, [str(e) for e in a.shape or ()]) for a in spec.task.arguments}
    assert found == {
        "in": ("input", "float32", ["ny", "nx", "4"]),
        "out": ("output", "float32", ["ny", "nx", "4"]),
        "w": ("input", "float32", ["ny", "nx"]),
        "nx": ("input", "int32", []),
        "ny": ("input", "uint32", []),
        "gain": ("input", "float32", []),
    }
    assert spec.task.launch is not None
    assert [str(e) for e in spec.task.launch.grid] == ["ceil(nx / BLOCK_X)", "ceil(ny / BLOCK_Y)"]
    assert str(spec.task.launch.shared_bytes) == "4 * BLOCK_X * BLOCK_Y"
    assert "tmp is local memory" in text


def test_a_required_work_group_size_and_the_sources_macros_are_taken_over(tmp_path: Path) -> None:
    source = (
        "#ifndef UNROLL\n#define UNROLL 4\n#endif\n"
        "__attribute__((reqd_work_group_size(32, 1, 1))) __kernel void k(__global float *x, int n)\n"
        "{ int i = get_global_id(0); if (i < n) x[i] += UNROLL; }\n"
    )
    _, spec = first(tmp_path, source)
    assert spec.task.launch is not None
    assert [str(e) for e in spec.task.launch.block] == ["32"]
    (parameter,) = spec.tunables.parameters
    assert (parameter.name, parameter.default) == ("UNROLL", 4)
    assert spec.task.arguments[0].role.value == "inout"


def test_only_kernels_are_entries(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(KERNEL)
    assert yaml.safe_load(init_spec(tmp_path / "k.cl"))["kernel"]["entry"] == "blur"
    with pytest.raises(UsageError, match="'helper' is no kernel"):
        init_spec(tmp_path / "k.cl", entry="helper")
    (tmp_path / "v.cl").write_text("__kernel void v(__global float *x, float2 s) { x[0] = s.x; }")
    with pytest.raises(UsageError, match="a vector by value"):
        init_spec(tmp_path / "v.cl")


GOOD: dict[str, Any] = {
    "kernel": {"source": "k.cl", "entry": "add"},
    "problem": {"n": 1000},
    "arguments": [
        {"name": "x", "dtype": "float32", "shape": ["n"]},
        {"name": "y", "dtype": "float32", "shape": ["n"], "role": "output"},
        {"name": "n", "dtype": "int32", "value": "n"},
    ],
    "launch": {"grid": ["ceil(n / BLOCK)"], "block": ["BLOCK"], "shared_bytes": "4 * BLOCK"},
    "space": {"parameters": {"BLOCK": [64, 128]}},
}
ADD = (
    "void f(void) {}\n"
    "__kernel void add(__global const float *x, __global float *y, __local float *t, int n)\n"
    "{ int i = get_global_id(0); t[get_local_id(0)] = 1; if (i < n) y[i] = x[i] + 1; }\n"
)


def load(tmp_path: Path, source: str = ADD, **changes: Any) -> LoadedSpec:
    """A spec with some sections otherwise; ``None`` leaves one out."""
    (tmp_path / "k.cl").write_text(source)
    data = {k: v for k, v in {**GOOD, **changes}.items() if v is not None}
    (tmp_path / "k.yaml").write_text(json.dumps(data))
    (loaded,) = load_spec(tmp_path / "k.yaml")
    return loaded


def test_a_local_parameter_is_not_among_the_arguments(tmp_path: Path) -> None:
    assert [a.name for a in load(tmp_path).task.arguments] == ["x", "y", "n"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"launch": None}, "an OpenCL kernel needs a launch"),
        ({"launch": {"grid": [1], "block": [1]}}, "'t' is in local memory and has no size"),
        ({"kernel": {"source": "k.cl", "entry": "f"}}, "'f' is no kernel"),
        ({"kernel": {"source": "k.cl", "entry": "addd"}}, "did you mean 'add'"),
        ({"arguments": GOOD["arguments"][:2]}, "add takes 3 arguments, the spec lists 2"),
        ({"backend": "host"}, "the host backend takes C and C\\+\\+, not opencl"),
        ({"space": {**GOOD["space"], "flags": {"m": ["-O3"]}}}, "flag -O3 is no build option of OpenCL"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        load(tmp_path, **changes)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_shared_bytes_without_local_memory_are_a_mistake(tmp_path: Path) -> None:
    plain = ADD.replace("__local float *t, ", "").replace("t[get_local_id(0)] = 1; ", "")
    with pytest.raises(SpecError, match="'add' has no parameter in local memory"):
        load(tmp_path, plain)
    twice = ADD.replace("__local float *t", "__local float *t, __local float *u")
    with pytest.raises(SpecError, match="2 parameters in local memory"):
        load(tmp_path, twice)


def test_passes_that_are_asked_for_are_a_notice(tmp_path: Path) -> None:
    spec = load(tmp_path, space={**GOOD["space"], "passes": {"base": "default<O3>"}})
    assert any("pass orders are not available on the opencl backend" in n for n in spec.notices)
    assert spec.space(None).passes is None
    assert load_recorded(spec.text, spec.files, folder=str(tmp_path)).space(None).passes is None


@needs.pocl
@pytest.mark.usefixtures("no_oclgrind")
def test_a_run_is_audited_and_exported(tmp_path: Path) -> None:
    plain = ADD.replace("t[get_local_id(0)] = 1;", "t[get_local_id(0)] = x[0];")
    (tmp_path / "run").mkdir()
    spec = load(tmp_path, plain, problem={"n": 100_000}, search={"strategy": "exhaustive"})
    outcome = begin(spec, tmp_path / "run" / "add.run", Options(evaluations=3))
    assert not outcome.failed
    report = audit(tmp_path / "run" / "add.run", rebuild=True)
    assert (report.clean, report.rebuilt) == (True, 2), report.differences
    assert not any("toolchain" in note for note in report.notes)
    export(tmp_path / "run" / "add.run", tmp_path / "out")
    launch = json.loads((tmp_path / "out" / "launch.json").read_text())
    block = launch["launches"][0]["block"][0]
    assert launch["options"] == [f"-DBLOCK={block}"]
    assert launch["launches"][0]["grid"][0] == -(-100_000 // block)


MACROS = """
#ifndef TS
#define TS 16
#endif
#define IDX(i, j) ((i) * n + (j))
#define FOREACH(v, N) for (int v = 0; v < (N); v++)
#define ROW get_global_id(1)
#if TS > 8
# define SCALED(x) ((x) * 0.5f)
#else
# define SCALED(x) (x)
#endif
__kernel __attribute__((reqd_work_group_size(TS, TS, 1)))
void mm(const int n, __global const float *a, __global const float *b, __global float *c, __global float2 *sums)
{
    const int i = ROW, j = get_global_id(0);
    float s = 0;
    if (i >= n || j >= n) return;
    FOREACH(k, n) s += a[IDX(i, k)] * b[IDX(k, j)];
    c[IDX(i, j)] = SCALED(s);
    if (j == 0) sums[i].x = s;
}
"""


def test_a_first_spec_sees_through_the_sources_macros(tmp_path: Path) -> None:
    text, spec = first(tmp_path, MACROS)
    shapes = {a.name: [str(e) for e in a.shape] for a in spec.task.arguments if a.shape}
    assert shapes == {"a": ["n", "n"], "b": ["n", "n"], "c": ["n", "n"], "sums": ["n", "2"]}
    assert {a.name: a.role.value for a in spec.task.arguments}["c"] == "output"
    assert "block: [TS, TS]" in text
    assert [p.name for p in spec.tunables.parameters] == ["TS"]
    # Its loop goes over n in every work-item: a first size of 1024 would keep PoCL and Oclgrind busy for long.
    assert spec.task.problems[0].sizes == {"n": 256}


def test_guards_say_how_far_work_items_go(tmp_path: Path) -> None:
    source = (
        "__kernel void k(__global const int *a, __global int *b, int n, int m)\n"
        "{ int i = get_global_id(0) + 1; if (i > 1 && i < n - 1) b[i * m + 2] = a[i - 1] + a[i + 1]; }\n"
    )
    _, spec = first(tmp_path, source)
    shapes = {a.name: [str(e) for e in a.shape] for a in spec.task.arguments if a.shape}
    assert shapes == {"a": ["n"], "b": ["n", "m"]}


def test_sizes_are_those_by_which_a_call_takes_some_milliseconds(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(MACROS)

    def call_s(path: Path, text: str) -> float:
        return float(yaml.safe_load(text)["problem"]["n"]) ** 3 * 1e-9

    found = with_timed_sizes(first_spec(tmp_path / "k.cl"), tmp_path / "k.yaml", call_s)
    assert LEAST_S <= yaml.safe_load(found.text)["problem"]["n"] ** 3 * 1e-9 <= MOST_S
    assert "ms here" in found.text
