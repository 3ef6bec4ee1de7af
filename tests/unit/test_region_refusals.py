"""Why regions of an application are not tuned, in one line each."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.driver.applications.app_regions import as_it_is
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.region_specs import RegionSpec, region_specs
from tuner.spec.applications import Region


def first_of(folder: Path, source: str, *loops: int, build: str) -> RegionSpec:
    """What becomes of loops of an application."""
    application = Rebuilt(folder=folder, build=build, command=("./app",), here=folder)
    path, specs = folder / source, folder / "tuner-app"
    compiled, wall_s = as_it_is(application, [path], specs / "generated")
    return next(
        region_specs(
            Region(source=path, loops=loops, share=0.5), application, specs, compiled[path], wall_s=wall_s
        )
    )


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_a_replay_that_does_not_verify_names_the_parts_that_are_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "draw.c").write_text(
        "static unsigned state = 1;\nunsigned draw(void) { return state = state * 1664525 + 1013904223; }\n"
    )
    (tmp_path / "app.c").write_text("""\
#include <stdio.h>
unsigned draw(void);
unsigned a[100];
int main(void)
{
    draw();
    for (int i = 0; i < 100; i++)
        a[i] = draw() >> 8;
    printf("%u\\n", a[7]);
}
""")
    spec = first_of(tmp_path, "app.c", 7, build="cc -O2 -g app.c draw.c -o app")
    line, with_memory = spec.refused
    assert spec.path is None
    what = "no argument can stand for the variable state of a namespace or another file"
    assert line.startswith(
        f"app.c:7: {what}, so it is not recorded; pass it to the function; does not verify"
    )
    assert with_memory.startswith("app.c:7, with the memory around it: state is a variable of a namespace")


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_a_region_that_changes_nothing_is_not_tuned(tmp_path: Path) -> None:
    """A kernel that does nothing would pass, and be the fastest of all."""
    (tmp_path / "app.c").write_text("""\
#include <stdio.h>
int main(void)
{
    double a[100];
    for (int i = 0; i < 100; i++) a[i] = i;
    for (int i = 0; i < 100; i++)
        if (a[i] > 100) a[i] = 100;
    printf("%g\\n", a[7]);
}
""")
    spec = first_of(tmp_path, "app.c", 6, build="cc -O2 -g app.c -o app")
    assert spec.path is None
    assert [line for line in spec.refused if line.endswith("a kernel that does nothing would pass")]
