"""Sources of whose other functions the tuner knows only the names: what the kernel does not call may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from spec_files import spec_in

from tuner.driver.check import CheckReport, check_spec

SOURCE = """
void die(int code, const char *why);
extern int verbose;
int post(const float *to, int n);
void scale(const float *in, float *out, int n) {
    for (int i = 0; i < n; i++) { out[i] = 2.0f * in[i]; INSIDE }
}
void allocate(float **to, int n) { if (n < 0) die(n, "too small"); post(*to, n); OUTSIDE }
"""
SPEC = """
kernel: {source: k.c, entry: scale}
problem: {n: 4000}
arguments:
  - {name: in, dtype: float32, shape: [n]}
  - {name: out, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {passes: off, flags: {unroll: ["", "-fno-vectorize"]}}
"""


def checked(folder: Path, *, inside: str = "", outside: str = "") -> CheckReport:
    spec = spec_in(folder, "k.c", SOURCE.replace("INSIDE", inside).replace("OUTSIDE", outside), SPEC)
    return check_spec(spec, faults=False)


def test_callees_of_other_functions_may_be_missing(tmp_path: Path) -> None:
    report = checked(tmp_path)
    assert report.ok, report.lines


@pytest.mark.parametrize(
    "where", ["if (in[i] > -100.0f) die(i, 0);", "if (i == n - 1) out[i] += post(out, n);"]
)
def test_a_kernel_that_calls_what_is_missing_is_refused(where: str, tmp_path: Path) -> None:
    report = checked(tmp_path, inside=where)
    assert not report.ok
    told = report.lines[-1][1]
    assert "calls what neither kernel.sources nor C's and the mathematical library define: die, post" in told


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"inside": "out[i] += verbose;"}, "verbose"),
        ({"outside": "if (verbose) n++; to[n] = 0;"}, "verbose"),
        ({"outside": "void (*f)(int, const char *) = n ? die : 0; to[0] = (float *)f;"}, "die"),
    ],
)
def test_referenced_variables_have_to_be_defined(given: dict[str, str], name: str, tmp_path: Path) -> None:
    report = checked(tmp_path, **given)
    assert not report.ok
    assert f"cannot be loaded: {name}: defined neither in kernel.sources nor" in report.lines[-1][1]
