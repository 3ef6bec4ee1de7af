"""Loops as kernels: made functions of their own by the compiler, and put back where they were."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from made_values import LOOP, made_function
from outlined_loops import SMALL_VECTOR

import tuner
from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BuildRequest, Resolved, Source
from tuner.driver.check import check_spec
from tuner.driver.ensure import ensure
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.evaluators.host.backend import symbol_of
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.outlined import Outlined
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_recorded, load_spec
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
#define N 48
#define EACH(i, n) for (i = 0; i < (n); i++)
#define ADD(x, by) x += by

struct pair { int low, high; };
static double held = 2;

static double work(int n, double given[n][n + 1], const double *other) {
    double sum = 0, local[4][N], *place = &held;
    static int calls;
    int i, j, last = 0;
    struct pair seen = {n, 0};
    typedef float small[3];
    small few = {1, 2, 3};
    EACH(i, n) local[i & 3][i % N] = i;                           // LINE macro
    #pragma clang loop unroll(disable)
    for (i = 0; i < n; i++) {                                     // LINE nest
        for (j = 0; j <= n; j++) {
            given[i][j] += other[i * (n + 1) + j] * local[i & 3][j % N] + few[j % 3];
            sum += given[i][j];
        }
        last = i; calls++;
        *place += 1e-3;
        if (seen.low > i) seen.low = i - 3;
        seen.high = i;
    }
    while (last > 3) last -= 2;                                   // LINE while
    do ADD(sum, last--); while (last > 0);                        // LINE do
    for (i = 0; i < n; i++)                                       // LINE search
        if (given[i][0] > 40 + n)
            goto found;
    sum += 1;
found:
    for (int r = 0; r < 3; r++) {
        int first;
        for (j = 0; j < n; j++) {                                 // LINE carried
            if (r == 0) first = j;
            sum += first;
        }
    }
    return sum + i + seen.low * 100 + seen.high + calls;
}

int main(void) {
    double a[20][21], b[20 * 21];
    for (int i = 0; i < 20 * 21; i++) { a[i / 21][i % 21] = i % 13; b[i] = i % 7; }
    for (int n = 5; n <= 20; n += 5) printf("%.12g %.12g\\n", work(n, (void *)a, b), held);
    return 0;
}
"""
KERNEL = """\
#define ROWS 40
float table[ROWS][ROWS];

/* Not to be called: it never ends. */
int forever(float *out, int n)
{
    float scale = 2;
    for (;;) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < ROWS; j++)
                out[i * ROWS + j] = table[j][i % ROWS] * scale;
        scale += 1;
    }
}
"""
SPEC = """
kernel: {source: k.c, entry: forever, loop: 9}
problem: {n: 40}
arguments:
  - {name: out, dtype: float32, shape: [n, 40], role: output}
  - {name: n, dtype: int32, value: n}
  - {name: scale, dtype: float32, value: 2}
  - {name: table, global: true, dtype: float32, shape: [40, 40]}
space: {source: {evolve: true}, passes: off}
verify: {problems: [{n: 7}]}
"""


def reader_of(text: str, *, suffix: str = "c", flags: tuple[str, ...] = ()) -> SourceReader:
    language = "c" if suffix == "c" else "c++"
    return SourceReader(files=(Source(name=f"k.{suffix}", text=text),), language=language, flags=flags)


def outlined(text: str, entry: str, mark: str, *, suffix: str = "c") -> Outlined:
    """The loop in the line that a mark stands in."""
    line = next(i for i, each in enumerate(text.splitlines(), 1) if mark in each)
    return outline(reader_of(text, suffix=suffix), entry, line)


def ran(folder: Path, text: str) -> bytes:
    """What a program writes."""
    (folder / "k.c").write_text(text)
    command = ["cc", "-O1", "-w", "-ffp-contract=off", "k.c", "-o", "k"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True).stdout


def spec_in(folder: Path, text: str = SPEC) -> Path:
    (folder / "k.c").write_text(KERNEL)
    (folder / "k.yaml").write_text(text)
    return folder / "k.yaml"


@needs.cc
@pytest.mark.parametrize("mark", ["macro", "nest", "while", "do", "search", "carried"])
def test_a_program_does_the_same_with_a_loop_in_a_function_of_its_own(mark: str, tmp_path: Path) -> None:
    made = outlined(PROGRAM, "work", f"LINE {mark}")
    assert ran(tmp_path, made.text) == ran(tmp_path, PROGRAM) != b""
    assert made.put_back(made.text) == PROGRAM


def test_parameters_are_what_the_loop_uses() -> None:
    (head,) = (
        line for line in outlined(PROGRAM, "work", "LINE nest").opening.splitlines() if "work_" in line
    )
    assert head == (
        "void work_loop19(int n, const double *other, double *place, double given[n][n + 1], double *R sum_at, "
        "double local[R 4][N], int *calls_at, int *R i_at, int *R last_at, struct pair *R seen_at, float few[R 3])"
    ).replace("N]", "48]").replace("R ", "__restrict__ ")


def test_variables_of_the_loop_alone_stay_in_it() -> None:
    made = outlined(PROGRAM, "work", "LINE nest")
    assert "    int j;\n" in made.opening
    assert "first_at" in outlined(PROGRAM, "work", "LINE carried").opening


def test_first_values_are_those_that_the_program_sets() -> None:
    assert outlined(PROGRAM, "work", "LINE nest").values == {
        **dict.fromkeys(("sum", "sum_at", "last", "last_at"), "0")
    }
    text = """
    void f(double *a, int m) {
        int j = 9, n = 3, k; double by = -2.5;
        n = 4 * (10 - 2) / 3; k = m; m = -1;
        for (int t = 0; t < 5; t++) {
            j = -1;
            for (int i = 0; i < n; i++) { j++; k++; a[j] = by * m * k; }
        }
    }
    """
    values = outline(reader_of(text), "f", 7).values
    assert {name: values.get(name) for name in ("j", "n", "k", "m", "by")} == {
        "j": "-1",
        "n": "10",
        "k": None,
        "m": "-1",
        "by": "-2.5",
    }


@pytest.mark.integration
def test_objects_of_classes_are_handed_on_as_they_are() -> None:
    text = """
#include <vector>
namespace app {
struct grid { std::vector<double> cells; int reads; double &cell_of(int i) { reads++; return cells[i]; } };
void step(grid &g, const grid &old, int n) {
    std::vector<double> sums(4);
    double most = 0;
    for (int i = 0; i < n; i++) {
        g.cell_of(i) += old.cells[i]; sums[i & 3] += old.cells[i];
        if (g.cell_of(i) > most) most = g.cell_of(i);
    }
    g.cell_of(0) = most + sums[0];
}
}
"""
    text = text.replace("#include <vector>\n", SMALL_VECTOR)
    made = outlined(text, "app::step", "int i = 0; i < n", suffix="cc")
    assert made.entry.startswith("app::step_loop")
    assert made.opening.startswith(
        f"void {made.entry.removeprefix('app::')}(grid &g, const grid &old, int n, double *sums_data, "
        "double *__restrict__ most_at)"
    )


KEPT = """\
#include <stdio.h>
static int next(int n) {
    static int last = 7;
    extern int all;
    int before = last;
    for (int i = 0; i < n; i++) { last = i * 2; all = i + last; before += last; }
    return before;
}
int main(void) {
    extern int all;
    for (int n = 3; n < 6; n++) printf("%d %d\\n", next(n), all);
    return 0;
}
int all;
"""


@needs.cc
def test_variables_that_outlive_the_function_keep_what_the_loop_makes_of_them(tmp_path: Path) -> None:
    """Each round gives them a value, and nothing of the function asks for it behind the loop."""
    made = outlined(KEPT, "next", "i < n")
    assert ran(tmp_path, made.text) == ran(tmp_path, KEPT) != b""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("for (int i = 0; i < n; i++) x[i] = __func__[i];", "asks for the name of its function"),
        (
            "double t[8]; for (int i = 0; i < n; i++) x[i] += sizeof t + t[i];",
            "asks for the size or the address of t",
        ),
        ("goto in; for (int i = 0; i < n; i++) { in: x[0]++; }", "a goto leads into the loop"),
        ("struct own { int a; } s = {1}; for (int i = 0; i < n; i++) x[i] = s.a;", "it uses s, `struct own`"),
        (
            "n++; double t[n]; n = 3; for (int i = 0; i < n; i++) x[i] = t[i];",
            "an extent of t is n, which changes",
        ),
        ("volatile int v = 2; for (int i = 0; i < n; i++) x[i] = v;", "it uses v, `volatile int`"),
        ("switch (n) { case 1: for (int i = 0; i < n; i++) { case 2: x[0]++; } }", "does not compile"),
    ],
)
def test_a_loop_that_cannot_leave_its_function_is_refused(body: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        outline(reader_of(f"int f(int n, double *x) {{\n{body}\nreturn 0; }}\n"), "f", 2)


@needs.cc
def test_assertions_of_a_loop_say_their_place_only_where_they_fail(tmp_path: Path) -> None:
    text = """\
#include <assert.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int sum = 0;
    for (int i = 0; i < argc; i++) { assert(argv[i]); sum += argv[i][0] > 0; }
    printf("%d\\n", sum);
}
"""
    made = outline(reader_of(text), "main", 5)
    assert "assert(argv[i]);" in made.opening + made.text
    assert ran(tmp_path, made.text) == ran(tmp_path, text) == b"1\n"


def test_the_lines_of_loops_are_named_where_none_begins() -> None:
    with pytest.raises(UsageError) as refused:
        outline(reader_of(KERNEL), "forever", 4)
    assert refused.value.message == "no loop of forever begins at line 4"
    assert refused.value.hint == "its loops begin at lines 8, 9, 10"


@pytest.mark.integration
def test_a_loop_is_checked_and_told_of_by_the_lines_of_the_file(tmp_path: Path) -> None:
    (spec,) = load_spec(spec_in(tmp_path))
    report = check_spec(spec, faults=4)
    assert report.ok, report.lines
    facts = dict(report.lines)
    assert spec.name == "forever_loop9"
    assert facts["source"].startswith("may change: forever_loop9;")
    assert {line.split(":")[0] for line in facts["loops"].split("; ")} <= {"line 9", "line 10", "line 11"}
    number, _, planted, *_ = facts["faults"].split()
    assert int(number) == int(planted) > 3


@pytest.mark.integration
def test_a_run_puts_its_winner_where_the_loop_was(tmp_path: Path) -> None:
    spec = spec_in(tmp_path)
    result = tuner.tune(spec, evaluations=4, seed=1, out=tmp_path / "runs")
    (tmp_path / "k.c").unlink()
    out = tmp_path / "out"
    written = export(result.path, out)
    assert not [path for path in written if path.suffix == ".o"]
    text = (out / "k.c").read_text()
    patches = [path for path in written if path.suffix == ".patch"]
    assert bool(patches) == (text != KERNEL)
    assert "forever_loop9" not in text
    reader_of(text).functions("forever")


def test_a_changed_loop_is_put_back_with_what_has_to_stand_above_its_function() -> None:
    made = outline(reader_of(KERNEL), "forever", 9)
    loop = made.text[made.text.index(made.opening) + len(made.opening) :].removesuffix(made.closing + "\n")
    changed = made.text.replace(
        made.opening, "#ifndef TILE\n#define TILE 8\n#endif\n" + made.opening
    ).replace(loop, "int m = n / TILE * TILE;\n        for (int i = 0; i < m; i++) table[0][0] = out[i];")
    put = made.put_back(changed)
    assert put == KERNEL.replace("/* Not", "#ifndef TILE\n#define TILE 8\n#endif\n\n/* Not").replace(
        KERNEL[KERNEL.index("for (int i") : KERNEL.index("        scale += 1")],
        "{\n            int m = n / TILE * TILE;\n            for (int i = 0; i < m; i++) table[0][0] = out[i];\n"
        "        }\n",
    )
    # What returns or takes something else cannot stand there.
    for old, new in (("= out[i];", "= out[i]; return;"), ("float scale)\n{", "float scale, int m)\n{")):
        other = changed.replace(old, new)
        assert made.put_back(other) == other != changed


def test_a_record_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = load_spec(spec_in(tmp_path))
    monkeypatch.setattr("tuner.spec.reading.signature.SourceReader.functions", None)
    again = load_recorded(spec.text, spec.files, folder=str(tmp_path))
    assert again.task.kernel == spec.task.kernel
    assert (again.loop, again.digest) == (spec.loop, spec.digest)


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("loop: 9", "loop: 7", "no loop of forever begins at line 7", (2, 45)),
        (
            "k.c, entry: forever",
            "k.c, entry: other",
            "k.c has no function with a body of the name 'other'",
            (2, 43),
        ),
        ("loop: 9", "loop: 0", "kernel.loop is 0", (2, 45)),
    ],
)
def test_a_spec_with_a_wrong_loop_is_refused_with_its_place(
    old: str, new: str, message: str, place: tuple[int, int], tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(spec_in(tmp_path, SPEC.replace(old, new)))
    assert refused.value.message.startswith(message)
    assert refused.value.place is not None
    assert (refused.value.place.line, refused.value.place.column) == place


def test_a_loop_is_no_object_and_no_function_of_an_application(tmp_path: Path) -> None:
    (spec,) = load_spec(spec_in(tmp_path))
    with pytest.raises(UsageError, match="the kernel is a loop of forever"):
        ensure(spec, tmp_path / "k.o", Options())
    space = spec.space(None)
    with pytest.raises(UsageError, match="forever_loop9 is a loop"):
        symbol_of(HostCompiler(find_toolchain()), spec.task.kernel, space.resolve(space.default()))


@pytest.mark.integration
def test_a_first_spec_of_a_loop_checks_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KERNEL)
    first = first_spec(tmp_path / "k.c", folder=tmp_path, loop=9)
    (tmp_path / "k.yaml").write_text(first.text)
    assert "kernel: {source: k.c, entry: forever, loop: 9}" in first.text
    (spec,) = load_spec(tmp_path / "k.yaml")
    shapes = {a.name: [e.text for e in a.shape or ()] for a in spec.task.arguments}
    assert shapes == {"n": [], "scale": [], "out": ["n", "40"], "table": ["40", "40"]}
    assert check_spec(spec, faults=False).ok
    with pytest.raises(UsageError, match="no loop begins at line 3"):
        first_spec(tmp_path / "k.c", folder=tmp_path, loop=3)
    with pytest.raises(UsageError) as refused:
        first_spec(tmp_path / "k.c", folder=tmp_path, loop=11)
    assert refused.value.hint == "the loops around it begin at lines 8, 9, 10"


TEXT_OF_MANY = """
static int count;
static int step(int i) { return i * 3 + count; }
extern int helper(int);
int helper(int i) { return i + 7; }
void reset(int n) { count = n; }
void other(double *a, int n) { for (int i = 0; i < n; i++) a[i] *= 3; }
int another(int n) { return helper(n); }
void kernel(int *a, int n) { for (int i = 0; i < n; i++) a[i] += step(i) + helper(i); }
int unused(int n) { return helper(n) + step(n); }
void (*table[2])(double *, int) = {other, 0};
int named(int n) { return n + 2; }
int renamed(int n) __attribute__((alias("named")));
int labels(const char *to) {
    static void *const places[] = {&&add, &&end};
    int sum = 0;
    goto *places[*to++];
add: sum++; goto *places[*to++];
end: return sum;
}
"""
SPEC_OF_MANY = """
kernel: {source: k.c, entry: kernel}
problem: {n: 100}
arguments:
  - {name: a, dtype: int32, shape: [n], role: inout, init: {randint: [0, 9]}}
  - {name: n, dtype: int32, value: n}
space: {flags: {mul: ["", "-mtune=generic"]}, passes: off}
"""


def test_code_without_a_part_in_a_loop_is_not_built_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(TEXT_OF_MANY)
    (tmp_path / "k.yaml").write_text(SPEC_OF_MANY)
    (spec,) = load_spec(tmp_path / "k.yaml")
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    request = BuildRequest(trial=0, variant=spec.task.kernel.variant, resolved=resolved)
    codes = []
    with HostCompiler(find_toolchain()) as compiler:
        for alone in (False, True):
            (build,) = compiler.build(replace(spec.task.kernel, alone=alone), [request])
            codes.append(Object(build.code))
    whole, single = codes
    everything = {
        "other",
        "another",
        "reset",
        "unused",
        "helper",
        "kernel",
        "table",
        "named",
        "renamed",
        "labels",
    }
    assert whole.exports == everything
    # Others share with the kernel what only the file sees, which bears upon its code.
    assert single.exports == everything - {"other", "another", "labels", "table"}
    assert machine_code(whole, "kernel") == machine_code(single, "kernel") != b""


def machine_code(code: Object, name: str) -> bytes:
    (symbol,) = (s for s in code.symbols if s.name == name)
    return code.sections[symbol.section].data[symbol.value : symbol.value + symbol.size]


def results_of(folder: Path, texts: list[str]) -> list[str]:
    """What programs print."""
    said = []
    for number, text in enumerate(texts):
        (folder / f"p{number}.c").write_text(text)
        subprocess.run(["cc", "-O1", "-w", f"p{number}.c", "-o", f"p{number}"], cwd=folder, check=True)
        said.append(
            subprocess.run([folder / f"p{number}"], capture_output=True, check=True, text=True).stdout
        )
    return said


@needs.cc
@pytest.mark.integration
def test_made_programs_do_the_same_with_each_loop_in_a_function_of_its_own(tmp_path: Path) -> None:
    """Whatever numbers the loops take over, hand back, or lose."""
    text = made_function(2)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if LOOP in line]
    texts = [outline(reader_of(text), "work", line).text for line in lines]
    wanted, *found = results_of(tmp_path, [text, *texts])
    assert len(wanted.splitlines()) == 5
    assert [line for line, said in zip(lines, found, strict=True) if said != wanted] == []


def test_values_that_nothing_reads_behind_a_loop_stay_in_it() -> None:
    text = """\
double work(int n, double x, double *out)
{
    double s, u, v, w = 0, kept;
    int m = n;
    for (int t = 0; t < 3; t++) {
        v = 0;
        s = 0;
        for (int i = 0; i < n; i++) { // LINE sum
            v = v + 1;
            u = v * x;
            kept = u;
            s = s + u * u;
            w += u;
            m = i;
        }
        u = s / 2;
        if (u > 3) continue;
        m = 1;
        out[t] = u + kept;
    }
    double more[m];
    return more[0] = w;
}
"""
    head = next(line for line in outlined(text, "work", "LINE sum").opening.splitlines() if "work_" in line)
    assert head == (
        "void work_loop8(int n, double x, double v, double *__restrict__ s_at, double *__restrict__ w_at, "
        "double *__restrict__ kept_at, int *__restrict__ m_at)"
    )
