"""Why regions of an application are not tuned, in one line each."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from tuner.driver.applications.app_regions import as_it_is
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.region_specs import RegionSpec, region_specs
from tuner.recorders.recordings.capture import Ran
from tuner.spec.applications import Region


def first_of(folder: Path, source: str, *loops: int, build: str) -> RegionSpec:
    """What becomes of loops of an application."""
    application = Rebuilt(folder=folder, build=build, command=("./app",), here=folder)
    path, specs = folder / source, folder / "tuner-app"
    compiled, run_s = as_it_is(application, [path], specs / "generated")
    return next(
        region_specs(
            Region(source=path, loops=loops, share=0.5), application, specs, compiled[path], run_s=run_s
        )
    )


def test_a_region_of_an_earlier_text_is_to_be_written_anew(tmp_path: Path) -> None:
    """Once for all of its loops, and before anything is built."""
    (tmp_path / "app.c").write_text(
        "void f(int n, int *a)\n{\n    for (int i = 0; i < n; i++)\n        a[i] = i;\n}\n"
    )
    application = Rebuilt(folder=tmp_path, build="false", command=("./app",), here=tmp_path)
    region = Region(source=tmp_path / "app.c", loops=(2, 3, 4))
    (spec,) = region_specs(region, application, tmp_path / "specs", None, run_s=1.0)
    assert spec.refused == (
        "app.c:2: no loop begins at lines 2, 4 of app.c as it is now; have the regions written anew: tuner app init",
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
unsigned a[9000];
int main(void)
{
    draw();
    for (int i = 0; i < 9000; i++)
        a[i] = draw() >> 8;
    printf("%u\\n", a[7]);
}
""")
    spec = first_of(tmp_path, "app.c", 7, build="cc -O2 -g app.c draw.c -o app")
    line, with_memory = spec.refused
    assert spec.path is None
    what = "no argument can stand for the variable state: the end of the file cannot name it, or something else has"
    cure = "its name, so it is not recorded; pass it to the function; does not verify"
    assert line.startswith(f"app.c:7: {what} {cure}")
    assert with_memory.startswith(
        "app.c:7, with the memory around it: state is a variable that the end of the"
    )


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_a_region_that_changes_nothing_is_not_tuned(tmp_path: Path) -> None:
    """A kernel that does nothing would pass, and be the fastest of all."""
    (tmp_path / "app.c").write_text("""\
#include <stdio.h>
int main(void)
{
    double a[9000];
    for (int i = 0; i < 9000; i++) a[i] = i;
    for (int i = 0; i < 9000; i++)
        if (a[i] > 9000) a[i] = 100;
    printf("%g\\n", a[7]);
}
""")
    spec = first_of(tmp_path, "app.c", 6, build="cc -O2 -g app.c -o app")
    assert spec.path is None
    assert [line for line in spec.refused if line.endswith("a kernel that does nothing would pass")]


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_a_loop_of_a_template_is_refused_once_with_what_may_stand_in_its_place(tmp_path: Path) -> None:
    """The overload beside it is tuned."""
    half = "for (int i = 1; i < n; i++)\n        a[i] = a[i] / 2 + a[i - 1];\n"
    (tmp_path / "half.hpp").write_text(f"""\
template <class T> inline void half(T *a, int n)
{{
    {half}}}
inline void half(float *a, int n)
{{
    {half}}}
""")
    (tmp_path / "app.cc").write_text("""\
#include <stdio.h>
#include "half.hpp"
static float a[9000] = {8};
static double b[9000] = {8};
int main()
{
    for (int i = 0; i < 9; i++) { half(a, 9000); half(b, 8999 + i % 2); }
    printf("%g %g\\n", a[7], b[7]);
}
""")
    build = "c++ -O1 -g app.cc -o app"
    (line,) = first_of(tmp_path, "half.hpp", 3, build=build).refused
    assert line == (
        "half.hpp:3: the loop at line 3 stands in the template half, of which programs have several instances; "
        "write a half beside it that is no template, for the types that are hot"
    )
    spec = first_of(tmp_path, "half.hpp", 8, build=build)
    assert (spec.refused, spec.line, spec.calls) == ((), 8, 9)


NESTED = """\
#include <stdio.h>
#include <stdlib.h>
struct node { double value; struct node *next; };
int main(void)
{
    struct node *first = 0;
    double *a = calloc(90, sizeof(double));
    for (int i = 0; i < 9; i++) {
        struct node *made = malloc(sizeof *made);
        made->value = i, made->next = first, first = made;
    }
    for (struct node *p = first; p; p = p->next) {
        for (int i = 0; i < 90; i++)
            a[i] += p->value;
        p->value += a[3];
    }
    printf("%g %g\\n", a[7], first->value);
}
"""
TOO_SHORT = (
    "app.c:13: a call takes 50 ns, of which a run makes 9: calling it apart and timing it takes more; a loop around it "
    "can be tuned"
)


@needs.cc
@needs.namespaces
@pytest.mark.integration
@pytest.mark.parametrize(
    ("call_s", "found"),
    [(50e-9, [(12, True)]), (5e-6, [(12, True), (13, False)]), (50e-6, [(13, False)])],
    ids=["shorter than timing it", "short", "long"],
)
def test_a_loop_with_short_calls_is_tuned_by_what_is_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_s: float, found: list[tuple[int, bool]]
) -> None:
    """With the application's memory, where no spec describes the loop around it. How long calls take is made up."""

    def share_of(ran: Ran, sampled: float, run_s: float) -> tuple[float, float, float]:
        return sampled, call_s if ran.kernels[0].launches > 1 else 1e-3, 1.0

    monkeypatch.setattr("tuner.driver.applications.region_specs.share_of", share_of)
    (tmp_path / "app.c").write_text(NESTED)
    application = Rebuilt(folder=tmp_path, build="cc -O2 -g app.c -o app", command=("./app",), here=tmp_path)
    region = Region(source=tmp_path / "app.c", loops=(12, 13), share=0.9)
    specs = list(region_specs(region, application, tmp_path / "specs", None, run_s=1.0))
    assert [(one.line, one.by_address) for one in specs] == found
    assert (TOO_SHORT in specs[0].refused) == (call_s < 1e-7)
