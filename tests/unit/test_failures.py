"""A result says why trials failed, not only how many."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuner
from tuner.cli.text import print_result

KERNEL = """
void scale(const float *a, float *b, int n)
{
#if TRICK == 1 || TRICK == 2
    b[n - TRICK] = 0.0f;
    n -= TRICK;
#elif TRICK == 3
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(41), "D"(2), "S"(1), "d"(0) : "rcx", "r11", "memory");
#elif TRICK == 4
#error not like this
#endif
    for (int i = 0; i < n; i++) b[i] = 2.0f * a[i];
}
"""

SPEC = """\
kernel: {source: scale.c, entry: scale}
problem: {n: 3000}
arguments:
  - {name: a, dtype: float32, shape: [n]}
  - {name: b, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {parameters: {TRICK: {values: [0, 1, 2, 3, 4], default: 0}}, passes: off}
search: {strategy: exhaustive, budget: {evaluations: 5}}
"""


def test_the_commonest_reason_of_each_status_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scale.c").write_text(KERNEL)
    (tmp_path / "scale.yaml").write_text(SPEC)
    result = tuner.tune(tmp_path / "scale.yaml", out=tmp_path / "runs")
    found = {f["status"]: f for f in result.to_json()["failures"]}
    assert set(found) == {"wrong_result", "refused", "build_error"}
    # They differ in the place of the first wrong element alone.
    assert (found["wrong_result"]["count"], found["wrong_result"]["alike"]) == (2, 2)
    refused = found["refused"]
    assert result.rows[refused["trial"]]["message"] == refused["message"]
    print_result(result)
    printed = capsys.readouterr().out
    assert "refused: opens a connection (system call socket)" in printed
    assert "build_error: " in printed
    assert "not like this" in printed


def test_a_run_without_failures_says_nothing_of_them(tmp_path: Path) -> None:
    (tmp_path / "scale.c").write_text(KERNEL)
    (tmp_path / "scale.yaml").write_text(SPEC.replace("[0, 1, 2, 3, 4]", "[0, 5]"))
    result = tuner.tune(tmp_path / "scale.yaml", out=tmp_path / "runs")
    assert "failures" not in result.to_json()
