"""Kernels that find arrays and numbers in variables of namespaces and classes."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.core.errors import SpecError
from tuner.driver.check import check_spec
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_spec

TEXT = """
static double scale = 2;
double x[33];
namespace other { double x[33]; }
namespace phys {
static const int MOST = 33;
constexpr double HALF = 0.5;
double x[33][20];
namespace { double hidden[33][20]; }
inline namespace v1 { static double coef = 0.25; }
struct Total { static double sum; static double *line; };
double Total::sum;
double *Total::line;
static void add(int i)
{
    for (int j = 0; j < 20; j++)
        x[i][j] += coef * hidden[i][j] * HALF;
}
void step(int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        add(i);
        sum += x[i][0] * scale + Total::line[i] + MOST;
    }
    Total::sum = sum;
}
}
"""
LINES = (
    '{name: "phys::x", global: true, dtype: float64, shape: [33, 20], role: inout, init: normal}',
    '{name: "phys::hidden", global: true, dtype: float64, shape: [33, 20], init: normal}',
    '{name: "phys::v1::coef", global: true, dtype: float64, value: 0.75}',
    "{name: scale, global: true, dtype: float64, value: ",
    '{name: "phys::Total::sum", global: true, dtype: float64, value: 0, role: output}',
    '{name: "phys::Total::line", global: pointer, dtype: float64, shape: [n],',
)


def written(folder: Path, *changes: tuple[str, str], compiler: str = "") -> Path:
    """The first spec of the kernel, changed."""
    (folder / "k.cc").write_text(TEXT)
    text = init_spec(folder / "k.cc", entry="phys::step")
    if compiler:
        text = text.replace("arguments:", f"compiler: {compiler}\narguments:", 1)
        text = text.replace('  passes: {base: "default<O3>", max_edits: 40}\n', "")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "k.yaml").write_text(text)
    return folder / "k.yaml"


def loaded(folder: Path, *changes: tuple[str, str], compiler: str = "") -> LoadedSpec:
    """That spec."""
    return load_spec(written(folder, *changes, compiler=compiler))[0]


@pytest.mark.integration
def test_a_first_spec_names_variables_with_their_namespaces(tmp_path: Path) -> None:
    text = written(tmp_path).read_text()
    for line in LINES:
        assert line in text
    assert text.count("global:") == len(LINES)
    assert "no argument can stand for" not in text


@pytest.mark.integration
def test_one_name_of_two_variables_is_said(tmp_path: Path) -> None:
    (tmp_path / "k.cc").write_text(
        f"{TEXT}void both(int i) {{ other::x[i] = x[i]; phys::Total::sum = 1; }}\n"
    )
    text = init_spec(tmp_path / "k.cc", entry="both")
    assert (
        "# check: no argument can stand for the variable x: the end of the file cannot name it, or some"
        in text
    )
    assert '"phys::Total::sum", global: true' in text


@pytest.mark.integration
def test_variables_of_other_files_are_said(tmp_path: Path) -> None:
    (tmp_path / "other.cc").write_text(
        "namespace phys { static double own[8]; double far(int i) { return own[i]++; } }\n"
    )
    text = TEXT.replace("static void add", "double far(int i);\nstatic void add").replace(
        "MOST;", "MOST + far(i);"
    )
    (tmp_path / "k.cc").write_text(text)
    spec = init_spec(tmp_path / "k.cc", entry="phys::step")
    assert "sources: [other.cc]" in spec
    assert "# check: no argument can stand for the variable own: the end of the file cannot name it" in spec
    assert "MOST" not in spec


@pytest.mark.integration
@pytest.mark.parametrize("compiler", ["", pytest.param("g++ -O3", marks=needs.gcc)])
def test_changes_of_variables_in_namespaces_are_verified(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 12)
    report = check_spec(loaded(tmp_path, compiler=compiler))
    assert report.ok, report.lines
    number, _, planted, *_ = dict(report.lines)["faults"].split()
    assert int(number) == int(planted) == 12


@pytest.mark.integration
def test_operators_see_arrays_of_a_namespace(tmp_path: Path) -> None:
    kernel = loaded(tmp_path, ("step", "add"), ("{name: n,", "{name: i,")).task.kernel
    function = read_program(kernel).functions["add"]
    known = {d.name: d.type for d in function.variables}
    assert (known["coef"], known["hidden"]) == ("double", "double")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("phys::hidden", "phys::hides"),
            "'phys::hides' is no global variable of k.cc; name it with the namesp",
        ),
        (("phys::hidden", "hidden"), "'hidden' is no global variable of k.cc"),
        (
            ('"phys::v1::coef", global: true', '"phys::MOST", global: true'),
            "but the spec says float64|which nothing can write",
        ),
        (("{name: n,", '{name: "phys::n",'), "has a name with ::"),
    ],
)
def test_a_variable_that_no_namespace_has_is_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match=message) as error:
        loaded(tmp_path, change)
    assert error.value.place is not None
