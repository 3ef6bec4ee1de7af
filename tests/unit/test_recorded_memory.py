"""Arguments of which nothing is said but their addresses: recorded with the application's memory, replayed in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pytest

from tuner.core.errors import SpecError
from tuner.core.types import VerifyPolicy
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.rebuilt_recording import record_rebuilt
from tuner.driver.applications.recorded_specs import RecordReport
from tuner.driver.applications.region_specs import region_specs
from tuner.driver.check import check_spec
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.host.bundles import memory_spans
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.host.outputs import Failure, judge_output
from tuner.evaluators.host.reference import BaselineFailed, Reference
from tuner.evaluators.verification import expect
from tuner.evaluators.workloads import Workload, make_planned, plan_workloads
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.applications import Region
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec

PAGE = 4096
PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
struct cell { int n; double *v; struct cell *next; };
struct grid { int rows, columns; double **row; struct cell *cells; };
struct weights { double of[4]; const double *further; };
static double *scale;
static const double factors[2] = {0.5, 2};
static double relax(struct grid *g, struct weights w, double *sum, int times)
{
    for (int t = 0; t < times; t++) {
        for (int i = 1; i < g->rows; i++)
            for (int j = 0; j < g->columns; j++)
                g->row[i][j] = w.of[j % 4] * g->row[i - 1][j] + scale[i] * w.further[j % 2];
        for (struct cell *c = g->cells; c; c = c->next)
            for (int k = 0; k < c->n; k++) *sum += c->v[k] * g->row[k][1];
    }
    return *sum;
}
int main(void)
{
    struct grid g = {20, 22, malloc(20 * sizeof(double *)), NULL};
    struct weights w = {{1, 2, 3, 4}, factors};
    double sum = 0;
    scale = malloc(20 * sizeof *scale);
    for (int i = 0; i < 20; i++) {
        scale[i] = i;
        g.row[i] = malloc((22 + i % 3) * sizeof(double));
        for (int j = 0; j < 22; j++) g.row[i][j] = i * j % 17;
    }
    for (int i = 0; i < 5; i++) {
        struct cell *c = malloc(sizeof *c);
        *c = (struct cell){i, malloc((i + 1) * sizeof(double)), g.cells};
        for (int k = 0; k < i; k++) c->v[k] = k;
        g.cells = c;
    }
    for (int r = 0; r < 3; r++) w.of[0] = relax(&g, w, &sum, 2) > 0;
    printf("%.17g %.17g\\n", sum, g.row[10][10]);
    return 0;
}
"""
LISTS = """\
#include <stdio.h>
#include <stdlib.h>
struct item { long value; struct item *next; };
int main(void)
{
    struct item **lists = calloc(50, sizeof *lists);
    long total = 0;
    for (int i = 0; i < 50; i++)
        for (int k = 0; k < 40; k++) {
            struct item *one = malloc(sizeof *one);
            *one = (struct item){i + k, lists[i]};
            lists[i] = one;
        }
    for (int r = 0; r < 400; r++)
        for (int i = 0; i < 50; i++)
            for (struct item *one = lists[i]; one; one = one->next) total += one->value ^ r;
    printf("%ld\\n", total);
    return 0;
}
"""


def written(folder: Path, text: str, entry: str | None, loop: int | None = None) -> LoadedSpec:
    """The first spec of a program's function or loop, by address."""
    (folder / "app.c").write_text(text)
    made = first_spec(folder / "app.c", entry=entry, loop=loop, by_address=True, compiler="gcc -O2")
    (folder / "spec.yaml").write_text(made.text)
    (spec,) = load_spec(folder / "spec.yaml")
    return spec


def recorded(folder: Path, spec: LoadedSpec) -> RecordReport:
    """Its recordings in the program."""
    application = Rebuilt(
        folder=folder, here=folder, build=f"gcc -O2 -g {folder}/app.c -o app", command=("./app",)
    )
    return record_rebuilt(spec, application, instances=2, silent=True, output=folder / "recorded.yaml")


@pytest.mark.integration
@needs.cc
@needs.namespaces
def test_memory_behind_pointers_is_replayed_at_its_addresses(tmp_path: Path) -> None:
    """Rows of different lengths, a list, a structure by value, constants, a global pointer, a sum on the stack."""
    spec = written(tmp_path, PROGRAM, "relax")
    assert [(a.name, a.passing) for a in spec.task.own_arguments] == [
        *(("g", "address"), ("w", "address"), ("sum", "address")),
        *(("times", "argument"), ("scale", "global")),
    ]
    assert "struct: struct weights, by: address, dtype: float64" in spec.text.replace('"', "")
    report = recorded(tmp_path, spec)
    assert len(report.recordings) == 2
    with RecordingFile(report.recordings[0]) as file:
        pieces = {one.name: one for one in file.recording.arguments if one.place}
        assert {"heap", "stack", "variables", "constants"} <= set(pieces)
        assert file.recording.inner
    (loaded,) = load_spec(report.specs[0])
    memory = [a for a in loaded.task.arguments if a.passing == "memory"]
    assert {a.dtype for a in memory if a.role.value == "inout"} == {"float64"}
    assert all(begin % PAGE == 0 and size % PAGE == 0 for begin, size in memory_spans(loaded.task))
    checked = check_spec(loaded, faults=1)
    assert checked.ok, checked.lines[-1]
    assert checked.faults is not None
    assert checked.faults.caught == 1
    application_changed_more(loaded)


def application_changed_more(loaded: LoadedSpec) -> None:
    """A replay that leaves alone what the application changed is none."""
    plan = plan_workloads(loaded.task, {}, purpose="search", number=0)[0]
    made = make_planned(loaded.task, plan, {})
    given = [{name: array.copy() for name, array in made.outputs.items()}]

    def settle(workload: Workload) -> None:
        Reference(loaded.task, has_double=False).settle(
            given, given, lambda _: [None], [workload], [True], rerun=lambda _: [], other=None, call_s=0.0
        )

    settle(made)
    other = {name: array.copy() for name, array in made.outputs.items()}
    word = int(np.flatnonzero(other["recorded heap"] == made.arrays["recorded heap"])[0])
    other["recorded heap"][word] = 1e-300
    with pytest.raises(BaselineFailed, match="the application changed"):
        settle(replace(made, outputs=other))


ALLOCATES = """\
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    double **rows = malloc(4 * sizeof *rows);
    for (int i = 0; i < 4; i++) rows[i] = calloc(30 + i, sizeof **rows);
    for (int r = 0; r < 6; r++) {
        double *scratch[2] = {malloc(500 + 1000 * r), malloc(40)};
        for (int i = 0; i < 4; i++) { scratch[0][i] = i + r; rows[i][r] += 2 * scratch[0][i]; }
        free(scratch[0]), free(scratch[1]);
    }
    printf("%g\\n", rows[3][5]);
    return 0;
}
"""


@pytest.mark.integration
@needs.cc
@needs.namespaces
def test_what_an_allocator_writes_into_the_heap_is_no_part_of_a_result(tmp_path: Path) -> None:
    """A replay's own has its lists elsewhere; what a library of OpenMP knows of its threads is another such."""
    spec = written(tmp_path, ALLOCATES, "main", loop=7)
    (loaded,) = load_spec(recorded(tmp_path, spec).specs[0])
    checked = check_spec(loaded, faults=0)
    assert checked.ok, checked.lines[-1]


@pytest.mark.integration
@needs.cc
@needs.namespaces
def test_a_region_that_no_spec_describes_is_recorded_with_the_memory_around_it(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text(LISTS)
    region = Region(source=tmp_path / "app.c", loops=(15, 16), share=0.9)
    application = Rebuilt(
        folder=tmp_path, here=tmp_path, build=f"gcc -O2 -g {tmp_path}/app.c -o app", command=("./app",)
    )
    folder = tmp_path / "specs"
    folder.mkdir()
    first = next(region_specs(region, application, folder, None, run_s=1.0))
    assert first.path is not None
    assert first.path.name == "app-15-memory-recorded.yaml"
    assert len(first.refused) == 2


def test_a_first_spec_with_a_static_array_of_whole_numbers_can_be_read(tmp_path: Path) -> None:
    text = "struct s { double *x; };\nstatic int n[4];\nvoid work(struct s *p) { p->x[n[1]++] = 1; }\n"
    spec = written(tmp_path, text, "work")
    assert [(a.name, a.dtype) for a in spec.task.own_arguments if a.passing == "global"] == [("n", "int32")]


STATIC = """\
#include <math.h>
#include <stdio.h>
struct part { double *from, *to; struct part *next; };
static double zeros[2000], out[2000];
static struct part parts[2000];
static void walk(struct part *p)
{
    for (; p; p = p->next)
        *p->to = sin(*p->to) * 0.5 + *p->from;
}
int main(void)
{
    for (int k = 0; k < 2000; k++)
        parts[k] = (struct part){&zeros[k], &out[1999 - k], k ? &parts[k - 1] : 0};
    for (int t = 0; t < 3; t++) {
        walk(&parts[1999]);
        zeros[7 + t] = t;
    }
    printf("%g\\n", out[1991]);
    return 0;
}
"""


@pytest.mark.integration
@needs.cc
@needs.namespaces
def test_static_arrays_are_written_through_pointers(tmp_path: Path) -> None:
    """Of zeros by zeros, too; the first call of ``sin`` changes none of the program's variables."""
    spec = written(tmp_path, STATIC, "walk")
    assert not [a.name for a in spec.task.own_arguments if a.passing == "global"]
    build = "gcc -O2 -g -Wl,-z,lazy app.c -o app -lm"
    application = Rebuilt(folder=tmp_path, here=tmp_path, build=build, command=("./app",))
    report = record_rebuilt(spec, application, instances=2, silent=True, output=tmp_path / "recorded.yaml")
    with RecordingFile(report.recordings[0]) as file:
        numbers = {one.name: i for i, one in enumerate(file.recording.arguments)}
        assert not file.changed(numbers["variables"])
    (loaded,) = load_spec(report.specs[0])
    checked = check_spec(loaded, faults=False)
    assert checked.ok, checked.lines[-1]


def test_words_of_memory_that_the_kernel_leaves_alone_keep_their_bits() -> None:
    """An integer is next to nothing as a fraction: zeros in its place would be within any tolerance."""
    before = np.array([3, 4, 5], np.int64).view(np.float64).copy()
    before[1] = 1.0
    after = before.copy()
    after[1] = 2.0
    untouched = np.array([True, False, True])
    expectation = expect("heap", np.where(untouched, 0.0, after), before=np.where(untouched, 0.0, np.nan))
    expected = Expected(find=lambda: expectation, untouched=untouched, kept=before)

    def judged(got: np.ndarray) -> bool:
        policy = VerifyPolicy(rtol=1e-5, atol=1e-6)
        found = judge_output(("heap",), got, expected, policy=policy, accepted=AcceptedOutputs())
        return not isinstance(found, Failure)

    close = after.copy()
    close[1] += 1e-6
    zeroed = after.copy()
    zeroed[2] = 0.0
    assert judged(after)
    assert judged(close)
    assert not judged(zeroed)
    assert not judged(before)


TYPES = """\
#include <math.h>
struct node {{ double x; int n; float f; struct node *next; double v[4]; }};
static void scaled(struct node *p) {{ p->x *= 2; }}
void further(struct node *p);
void work(struct node *p, int n)
{{
    double own[4], part = 0;
    int i = 0;
    static int calls;
    {body}
}}
"""


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        ("own[0] = part; i++; p->x = sqrt(part) + own[0]; p->next->v[i] += 1;", "float64"),
        ("scaled(p);", "float64"),
        ("p->f = 1;", "float32"),
        ("p->x = 1; p->n++;", ""),
        ("p->x = 1; p->f = 1;", ""),
        ("p->x = 1; calls++;", ""),
        ("p->x = 1; further(p);", ""),
        ("p->x = 1; *p = *p->next;", ""),
        ("p->x = 1; modf(part, &own[1]);", ""),
        ("p->x = part; p->next = 0;", ""),
        ("p->x = 1; __atomic_fetch_add(&p->n, 1, __ATOMIC_RELAXED);", ""),
        ('p->x = 1; __asm__("" ::: "memory");', ""),
    ],
)
def test_a_first_spec_says_which_numbers_are_written(tmp_path: Path, body: str, dtype: str) -> None:
    (tmp_path / "app.c").write_text(TYPES.format(body=body))
    text = first_spec(tmp_path / "app.c", entry="work", by_address=True).text
    (line,) = [line for line in text.splitlines() if "by: address" in line]
    assert ("dtype" in line) == bool(dtype)
    assert dtype in line


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{name: g, by: address, shape: [4]}", "has shape"),
        ("{name: g, by: address, dtype: int32}", "write float32 or float64"),
        ("{name: g, by: address, dtype: float32}", "remove dtype"),
        ("{name: g, struct: struct grid, by: address}", "with struct: TYPE for a structure by value"),
        ("{name: g, struct: struct grid, members: [{name: rows, by: address}]}", "without members"),
    ],
)
def test_keys_that_do_not_go_with_an_address_are_refused(tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "app.c").write_text(PROGRAM)
    (tmp_path / "spec.yaml").write_text(
        f"kernel: {{source: app.c, entry: relax, returns: float64}}\narguments:\n  - {line}\n"
        "  - {name: w, struct: struct weights, by: address}\n  - {name: sum, by: address}\n"
        "  - {name: times, dtype: int32, value: 2}\n"
    )
    with pytest.raises(SpecError, match=says):
        load_spec(tmp_path / "spec.yaml")


@pytest.mark.integration
def test_without_a_recording_there_is_nothing_to_call_it_with(tmp_path: Path) -> None:
    spec = written(tmp_path, PROGRAM, "relax")
    with pytest.raises(SpecError, match="known from a recording alone"):
        check_spec(spec, faults=0)
