"""Loops in files that sources include: which sources those are, how the files are read, recorded and put back."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.driver.applications.app_regions import as_it_is, sources_below
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.included_files import Inclusions
from tuner.driver.applications.region_specs import region_specs
from tuner.spec.applications import Region

FILES = {
    "relax.hpp": """\
#pragma once
#include "sizes.h"
extern double weight;
static inline void relax(double *a, const double *b, int n)
{
    for (int k = 0; k < SWEEPS; k++)
        for (int i = 1; i < n - 1; i++)
            a[i] = weight * (b[i - 1] + b[i + 1]) + bool(k) * a[i];
}
""",
    "sizes.h": "#define SWEEPS 3\n",
    "parts/blur.inc": """\
void blur(double *a, const double *b, int n)
{
    for (int i = 1; i < n; i++)
        a[i] = (b[i] + b[i - 1]) * HALF;
}
""",
    "other.cc": '#include "relax.hpp"\nvoid other(double *a, double *b, int n) { relax(b, a, n); }\n',
    "app.cc": """\
#include <cstdio>
#include "relax.hpp"
#define HALF 0.5
#include "parts/blur.inc"
double weight = 0.3;
static double a[999], b[999];
void other(double *, double *, int);
int main()
{
    for (int i = 0; i < 999; i++)
        a[i] = i % 7;
    relax(a, b, 999);
    other(a, b, 999);
    blur(a, b, 999);
    std::printf("%.9g\\n", a[77] + b[33]);
}
""",
    "none.c": "int none;\n",
    "Makefile": "app: app.o other.o\n\tc++ -o $@ $^\n%.o: %.cc\n\tc++ -O2 -g -c $<\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_sources_that_include_a_file(folder: Path) -> None:
    """By themselves or through others; files that nobody includes are left out."""
    app, other, relax, blur = (folder / n for n in ("app.cc", "other.cc", "relax.hpp", "parts/blur.inc"))
    inclusions = Inclusions(folder)
    assert inclusions.sources(folder / "sizes.h") == inclusions.sources(relax) == [app, other]
    assert inclusions.sources(blur) == [app]
    assert inclusions.sources(folder / "Makefile") == []
    # The guard of a header is closed.
    (folder / "relax.hpp").write_text('#ifndef RELAX\n#define RELAX\n#include "sizes.h"\n#endif\n')
    text, folders = Inclusions(folder).before(folder / "sizes.h", app)
    assert text.decode().split() == ["#include", "<cstdio>", "#ifndef", "RELAX", "#define", "RELAX", "#endif"]
    assert folders == [folder, folder]
    assert sources_below(folder) == [app, folder / "none.c", other, blur, relax, folder / "sizes.h"]


@needs.cc
@needs.make
@needs.namespaces
@pytest.mark.integration
def test_their_loops_are_recorded_as_parts_of_a_source(folder: Path, tmp_path: Path) -> None:
    """Where several sources have one, where it is no C by its name, and where it needs what stands before it."""
    application = Rebuilt(folder=folder, build="make", command=("./app",), here=folder)
    relax, blur = folder / "relax.hpp", folder / "parts/blur.inc"
    compiled, run_s = as_it_is(application, [relax, blur], tmp_path / "specs" / "generated")
    assert {path: (how.language, how.part_of) for path, how in compiled.items()} == {
        relax: ("c++", folder / "app.cc"),
        blur: ("c++", folder / "app.cc"),
    }
    for path, loops in ((relax, (6, 7)), (blur, (3,))):
        region = Region(source=path, loops=loops, share=0.5)
        spec = next(region_specs(region, application, tmp_path / "specs", compiled[path], run_s=run_s))
        assert spec.refused == ()
        assert spec.path is not None
        assert spec.line == loops[0]
