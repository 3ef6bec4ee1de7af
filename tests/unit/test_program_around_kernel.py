"""Kernels in a C++ file that is a whole program: what surrounds them is neither loaded nor run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.driver.check import CheckReport, check_spec
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

PROGRAM = """
#include <vector>
extern "C" double sin(double);
extern "C" int printf(const char *, ...);
double table[4] = {sin(1.0), sin(2.0), 1, 2};
static const double fixed[2] = {sin(3.0), 3.0};
static std::vector<double> results;
void given(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= table[i & 3]; }
void computed(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= fixed[i & 1]; }
int main() {
    std::vector<double> x(8);
    given(&x[0], 8); computed(&x[0], 8);
    results.push_back(x.at(7));
    printf("%g\\n", results[0]);
}
"""

COMPUTED = """
extern "C" double sin(double);
static const double fixed[2] = {sin(3.0), 3.0};
struct Kept { double *at; Kept() : at(new double[2]) {} ~Kept() { delete[] at; } };
static Kept results;
void computed(double *x, int n) { for (int i = 0; i < n; i++) x[i] *= fixed[i & 1]; }
int main() { double x[8] = {}; computed(x, 8); results.at[0] = x[7]; return results.at[0] > 0; }
"""


def checked(entry: str, folder: Path, text: str = PROGRAM) -> CheckReport:
    (folder / "k.cc").write_text(text)
    (folder / "k.yaml").write_text(init_spec(folder / "k.cc", entry=entry).replace("n: 1048576", "n: 1000"))
    (spec,) = load_spec(folder / "k.yaml")
    return check_spec(spec, faults=False)


@pytest.mark.integration
def test_a_program_around_a_kernel_is_left_out(tmp_path: Path) -> None:
    report = checked("given", tmp_path)
    assert report.ok, report.lines


@pytest.mark.integration
def test_constructors_at_load_are_reported(tmp_path: Path) -> None:
    report = checked("computed", tmp_path, COMPUTED)
    assert not report.ok
    assert "_ZL5fixed gets its value when a program is loaded" in dict(report.lines)["baseline"]
