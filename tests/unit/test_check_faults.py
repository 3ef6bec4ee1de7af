"""Faults planted in a baseline: what is planted, and what `tuner check` says of a verification that misses some."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import needs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_files import spec_in

from tuner.cli.main import main
from tuner.core.protocols import Evaluation
from tuner.core.types import Build, BuildRequest, Resolved, Source, Status, Variant, Verdict
from tuner.driver.check import check_spec
from tuner.driver.faults import plant_faults
from tuner.spaces.mutations import ADVICE, faults_of, find_faults, planted, sample
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

KERNEL = """
#define LEAVE 3 + 4
/* 1 + 2 < 3 */
struct pair { int a[2]; };
static const float weights[3] = {0.25f, 0.5f, 0.25f};

void blur(const float *src, float *dst, int n)
{
    // a - b
    for (int i = 1; i < n - 1; i++) {
        float sum = 0.0f;
        sum += 0.25f * src[i - 1] + 0.5f * src[i];
        dst[i] = sum - src[i + 1] / 4.0f;
        if (sum > 2.0f && n != 3) dst[i] = fmaxf(sum, 0x10);
    }
}
"""


def mutants(text: str) -> set[str]:
    source = Source(name="k.c", text=text)
    variant = Variant(files=(source,))
    return {planted(variant, fault).files[0].text for fault in find_faults(source)}


def test_functions_of_old_c_have_faults_too() -> None:
    text = "void k(n, a)\nint n;\ndouble *a;\n{\n    int i;\n    for (i = 0; i < n; i++) a[i] *= 2;\n}\n"
    assert "k.c:6: < made <=" in {str(f) for f in faults_of([Source(name="k.c", text=text)], "k")}


def test_faults_of_every_kind_are_found() -> None:
    faults = find_faults(Source(name="k.c", text=KERNEL))
    assert {f.kind for f in faults} == set(ADVICE) - {"order"}
    assert min(f.line for f in faults) > 7
    lines = KERNEL.splitlines()
    assert all(f.before.strip() in lines[f.line - 1] for f in faults)
    texts = {str(f) for f in faults}
    assert "k.c:10: < made <=" in texts
    assert "k.c:10: 1 made 2" in texts
    assert "k.c:13: sum - src[i + 1] made src[i + 1] - sum" in texts
    assert "k.c:13: 4.0f made 4.04f" in texts
    assert "k.c:14: fmaxf made fminf" in texts
    assert "k.c:14: && made ||" in texts
    assert any(t.endswith(" left out") for t in texts)
    assert not any(t.endswith("made ") for t in texts)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a + b;", {"return a - b;", "return a ;"}),
        ("return a - f(b)[2].c;", {"return a + f(b)[2].c;", "return f(b)[2].c - a;", "return a ;"}),
        ("return -a;", set()),
        ("x = *p;", set()),
        ("float *p = q;", set()),
        ('puts("a + 1");', set()),
        ("x *= y;", {"x += y;", "x = y;"}),
        ("x = c ? a : b;", set()),
        ("x = '+';", set()),
        ("y[i] = x;", {"y[i + 1] = x;"}),
        ("y[i][k] = x;", {"y[i + 1][k] = x;", "y[i][k + 1] = x;"}),
        ("float y[M][M + 1];", set()),
        ("__shared__ float y[16][17], z;", set()),
        ("x = threadIdx.x;", {"x = threadIdx.y;"}),
        ("x = get_group_id(1);", {"x = get_group_id(0);"}),
        ("if (v) __syncthreads();", {"if (v) ;"}),
        ("barrier(CLK_LOCAL_MEM_FENCE);", {";"}),
        ("block.sync();", {";"}),
        ("atomicAdd(&t, f(s, 1));", {"*(&t) += f(s, 1);", "atomicAdd(&t, f(s, 2));"}),
        (
            "if (i < n) y[i] = 0;",
            {
                "if (i > n) y[i] = 0;",
                "if (i <= n) y[i] = 0;",
                "if (i < (n) - 1) y[i] = 0;",
                "if (i < n) y[i + 1] = 0;",
                "if (i < n) y[i] = 1;",
            },
        ),
        (
            "if (threadIdx.x >= n) return;",
            {
                "if (threadIdx.y >= n) return;",
                "if (threadIdx.x <= n) return;",
                "if (threadIdx.x > n) return;",
                "if (threadIdx.x >= (n) - 1) return;",
            },
        ),
        (
            "if (v < 2.0f) x = 0;",
            {
                "if (v > 2.0f) x = 0;",
                "if (v < 2.02f) x = 0;",
                "if (v < 2.0f) x = 1;",
            },
        ),
    ],
)
def test_edits_by_example(body: str, expected: set[str]) -> None:
    wrap = "int f(void) {{ {} }}"
    found = {text for text in mutants(wrap.format(body)) if "[3]" not in text}
    assert found == {wrap.format(text) for text in expected}


@given(text=st.text(alphabet="ab0189.+-*/<>=!&|?:;,(){}[]#\"'\\ \nfor while", max_size=200))
@settings(deadline=None, max_examples=200)
def test_any_text_is_read_to_its_end(text: str) -> None:
    wrapped = f"void f() {{ {text}"
    source = Source(name="k.c", text=wrapped)
    for fault in find_faults(source):
        assert wrapped[fault.start : fault.end] == fault.before
        assert fault.before != fault.after


def test_sample_takes_kinds_in_turn_and_is_the_same_for_a_seed() -> None:
    faults = find_faults(Source(name="k.c", text=KERNEL))
    some = sample(faults, len(ADVICE), np.random.default_rng(1))
    assert {f.kind for f in some} == {f.kind for f in faults}
    assert some == sample(faults, len(ADVICE), np.random.default_rng(1))
    assert sample(faults, 10_000, np.random.default_rng(1)) == sorted(
        faults, key=lambda f: (f.file, f.start, f.after)
    )


SPEC = """\
kernel: {{source: blur.c, entry: blur}}
problem: {{n: 4096}}
arguments:
  - {{name: src, dtype: float32, shape: [n]}}
  - {{name: dst, dtype: float32, shape: [n], role: output}}
  - {{name: n, dtype: int32, value: n}}
space:
  passes: off
  flags: {{vector: ["", "-fno-vectorize"]}}
verify: {{{verify}}}
"""

BLUR = """
void blur(const float *src, float *dst, int n)
{
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            dst[i + k] = 0.5f * src[i + k] + 1.0f;
    for (; i < n; i++)
        dst[i] = 0.5f * src[i] + 1.0f;
}
"""


def check(folder: Path, verify: str) -> Path:
    (folder / "blur.c").write_text(BLUR)
    path = folder / "blur.yaml"
    path.write_text(SPEC.format(verify=verify))
    return path


@pytest.mark.integration
def test_good_verification_catches_what_is_planted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 6)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(check(tmp_path, "assume: ['n >= 1'], problems: [{n: 37}, {n: 2}]")), "--json"])
    assert ended.value.code == 0
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert faults["planted"] >= 4
    assert faults["caught"] == faults["planted"]
    assert faults["missed"] == []
    (spec,) = load_spec(tmp_path / "blur.yaml")
    few = check_spec(spec, faults=2).faults
    assert few is not None
    assert few.caught == 2
    assert few.untried > 0


@pytest.mark.integration
def test_poor_verification_is_warned_of_with_what_to_add(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 5)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(check(tmp_path, "rtol: 0.5, atol: 0.5"))])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    (warning,) = [line for line in out.splitlines() if "planted faults; add" in line]
    assert "a smaller verify.rtol and verify.atol" in warning or "under verify.problems" in warning
    assert "passes" in out
    assert "blur.c:" in out


@pytest.mark.integration
def test_faults_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", str(check(tmp_path, "")), "--no-faults", "--json"])
    assert json.loads(capsys.readouterr().out)["faults"] is None


def test_backend_whose_builds_are_all_alike_plants_none(scale_spec: Callable[..., Path]) -> None:
    (spec,) = load_spec(scale_spec())
    backend = SimulatedBackend(seconds=lambda _: 1e-3, same_code=lambda _: "same")
    report = check_spec(spec, backend=backend)
    assert report.faults is not None
    assert report.faults.counted == 0
    assert ("faults", "none could be planted") in report.lines
    assert report.ok
    assert report.warnings[-1].startswith("no fault could be planted")


@pytest.mark.integration
def test_a_verification_that_notices_no_fault_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 4)
    (tmp_path / "k.c").write_text(
        "void k(float *a, int n, int on) { if (on) for (int i = 0; i < n; i++) a[i] = a[i] * 2 + 1; }\n"
    )
    (tmp_path / "k.yaml").write_text(
        """
kernel: {source: k.c, entry: k}
problem: {n: 50}
arguments:
  - {name: a, dtype: float32, shape: [n], role: inout}
  - {name: n, dtype: int32, value: n}
  - {name: on, dtype: int32, value: 0}
"""
    )
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec)
    assert not report.ok
    assert report.lines[-1][1].startswith("the verification sees nothing: the verification catches 0 of ")


class _Lenient:
    """An evaluation that finds nothing, in the place of the parts that planting needs.

    Args:
        times: whether there is a device.
    """

    def __init__(self, times: bool) -> None:
        self.times = times

    def build(self, requests: list[BuildRequest]) -> list[Build]:
        """Each has code of its own."""
        return [Build(status=Status.OK, key=str(r.trial)) for r in requests]

    def open(self, *_: object, **__: object) -> Any:
        """A session in which everything is right."""
        right = Verdict(status=Status.OK, detail={"worst": 0.0})
        return SimpleNamespace(verify=lambda: right, close=lambda: None)


@pytest.mark.parametrize("times", [True, False])
def test_a_barrier_that_a_device_does_not_miss_is_not_called_harmless(times: bool) -> None:
    text = "void k() { f(); barrier(CLK_LOCAL_MEM_FENCE); x = y * 2; }"
    found = plant_faults(
        cast("Evaluation", _Lenient(times)),
        Build(status=Status.OK, key="baseline"),
        Variant(files=(Source(name="k.cl", text=text),)),
        Resolved(macros={}, scalars={}, flags=(), pipeline=None),
        entry="k",
        seed=0,
        sizes_vary=True,
    )
    assert [f.kind for f in found.missed] == (["order"] if times else [])
    assert len(found.harmless) >= 3


CUDA_SPEC = """\
kernel: {source: turn.cu, entry: turn}
target: sm_90
problem: {n: 100}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
launch: {grid: ["ceil(n / 32)"], block: [32]}
space: {passes: off, flags: {ftz: ["", "--ftz=true"]}}
verify: {assume: ["n >= 1"], problems: [{n: 32}, {n: 7}]}
"""

TURN = """
extern "C" __global__ void turn(const float *x, float *y, int n) {
    __shared__ float part[32];
    const int i = blockIdx.x * 32 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = part[31 - threadIdx.x];
}
"""


@pytest.mark.integration
@needs.nvrtc
def test_faults_are_planted_in_cuda_kernels_under_emulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.BUDGET_S", 60.0)
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 3)
    spec = spec_in(tmp_path, "turn.cu", TURN, CUDA_SPEC)
    planned = {f.kind for f in find_faults(spec.task.kernel.variant.files[0])}
    assert planned >= {"order", "index", "bound", "edge"}
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path / "turn.yaml"), "--json"])
    assert ended.value.code == 0
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert faults["untried"] == 0
    assert faults["planted"] >= 3
    assert faults["caught"] == faults["planted"], faults["missed"]
