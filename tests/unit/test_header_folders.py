"""First specs find the headers of the source's own project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.errors import BaselineError
from tuner.driver.check import check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

KERNEL = """
#include "grid.h"
#include "io/log.h"
void smooth(const real *in, real *out, int n) {
    for (int i = 1; i < n - 1; i++) out[i] = LEFT * in[i - 1] + RIGHT * in[i + 1];
}
"""


def project(folder: Path) -> Path:
    """A source whose headers lie in other folders of its project; one of them includes a third."""
    (folder / "src" / "solver").mkdir(parents=True)
    (folder / "include" / "io").mkdir(parents=True)
    (folder / "common").mkdir()
    (folder / "Makefile").write_text("all:\n")
    (folder / "include" / "io" / "log.h").write_text('#include "weights.h"\n')
    (folder / "include" / "weights.h").write_text("#define LEFT 0.5f\n#define RIGHT 0.25f\n")
    (folder / "common" / "grid.h").write_text("typedef float real;\n")
    source = folder / "src" / "solver" / "smooth.c"
    source.write_text(KERNEL)
    return source


@pytest.mark.integration
def test_a_first_spec_of_a_source_in_a_project_checks(tmp_path: Path) -> None:
    source = project(tmp_path)
    spec = source.with_name("smooth.yaml")
    spec.write_text(first_spec(source).text)
    assert "include: [../../common, ../../include]" in spec.read_text()
    (loaded,) = load_spec(spec)
    report = check_spec(loaded, faults=False)
    assert report.ok, report.lines


def test_of_two_none_is_guessed_but_the_one_that_is_given_counts(tmp_path: Path) -> None:
    source = project(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "grid.h").write_text("typedef double real;\n")
    with pytest.raises(BaselineError, match=r"'grid\.h' file not found; name its folder"):
        first_spec(source)
    text = first_spec(source, include=[tmp_path / "old"]).text
    assert "include: [../../old, ../../include]" in text
    assert "dtype: float64" in text


def test_nothing_outside_of_the_project_is_looked_at(tmp_path: Path) -> None:
    source = project(tmp_path / "mine")
    (tmp_path / "mine" / "common" / "grid.h").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "grid.h").write_text("typedef float real;\n")
    with pytest.raises(BaselineError, match=r"'grid\.h' file not found"):
        first_spec(source)


def test_a_source_alone_is_no_project(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "grid.h").write_text("typedef float real;\n")
    (tmp_path / "a" / "k.c").write_text(KERNEL.replace('#include "io/log.h"\n', ""))
    with pytest.raises(BaselineError, match=r"'grid\.h' file not found"):
        first_spec(tmp_path / "a" / "k.c")
