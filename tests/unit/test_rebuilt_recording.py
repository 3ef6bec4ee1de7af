"""Calls recorded in an application that was built for it: loops, static functions, those that use global variables."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import numpy as np
import pytest
from pages import block, run
from typer.testing import CliRunner

from tuner.cli.main import app
from tuner.core.errors import TunerError, UsageError
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.rebuilt_recording import record_rebuilt
from tuner.driver.applications.recorded_specs import RecordReport
from tuner.driver.check import check_spec
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

pytestmark = [*needs.cc, *needs.namespaces, pytest.mark.integration]

PROGRAM = """\
#include <stdio.h>
#include <stdlib.h>
static double A[6][5];
static double *row;
static float scale = 0.5f;
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 5;
    double *x = malloc(n * sizeof *x), sum = 100;
    row = calloc(6, sizeof *row);
    for (int i = 0; i < n; i++)
        x[i] = i - 2;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++)
            A[i][j] = 10 * i + j;
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < n; j++)
                A[i][j] += x[j] * scale;
            row[i] += A[i][0];
            sum += row[i];
        }
        scale += 1;
    }
    printf("%g\\n", sum);
    return 3;
}
"""
LINE = 17
CXX = """\
#include <stdio.h>
static double weights[3];
namespace far {
struct grid { int nx; double *v; };
static inline double half(double x) { return 0.5 * x; }
static inline void smooth(grid *g)
{
    for (int i = 1; i < g->nx; i++)
        g->v[i] += half(g->v[i - 1]) * weights[i % 3];
}
double run(int n)
{
    double *a = new double[n];
    for (int i = 0; i < n; i++) a[i] = 1;
    for (int i = 0; i < 3; i++) weights[i] = i + half(i);
    grid g{n, a};
    smooth(&g);
    return a[n - 1];
}
}
int main() { printf("%g\\n", far::run(40)); }
"""


def recorded(
    folder: Path,
    spec: Path,
    build: str,
    *,
    instances: int = 2,
    output: str | None = "recorded.yaml",
    **more: object,
) -> RecordReport:
    made = {"command": ("./app",), "here": folder, **more}
    (loaded,) = load_spec(spec)
    return record_rebuilt(
        loaded,
        Rebuilt(folder=folder, build=build, **made),  # type: ignore[arg-type]
        instances=instances,
        aside=True,
        output=None if output is None else spec.with_name(output),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.c").write_text(PROGRAM)
    return folder


def spec_of(folder: Path, *, loop: int = LINE, passes: str = "# passes: {") -> Path:
    path = folder.parent / "spec.yaml"
    text = first_spec(folder / "app.c", folder=folder.parent, loop=loop).text
    path.write_text(text.replace("passes: {", passes).replace("evolve: true", "evolve: false"))
    return path


def test_a_loop_is_recorded_with_its_variables(folder: Path) -> None:
    """By a compiler that is the tuner's own, which a spec need not name."""
    report = recorded(folder, spec_of(folder), f"{find_toolchain().clang} -O3 {folder}/app.c -o app")
    assert not [note for note in report.notes if "compiler" in note]
    assert "compiler:" not in report.specs[0].read_text()
    assert report.ran.status == 3
    assert sorted(path.name for path in folder.iterdir()) == ["app.c"]
    (loaded,) = load_spec(report.specs[0])
    names = [argument.name for argument in loaded.task.own_arguments]
    before: dict[str, list[object]] = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            for number, (which, argument) in enumerate(zip(names, loaded.task.own_arguments, strict=True)):
                held = file.recording.arguments[number]
                data = held.value if held.kind == "scalar" else file.before(number)
                before.setdefault(which, []).append(np.frombuffer(data, argument.dtype).tolist())
    given = [[10.0 * i + j for j in range(5)] for i in range(6)]
    later = [[a + 0.5 * (j - 2) for j, a in enumerate(row)] for row in given]
    assert before["A"] == [np.ravel(given).tolist(), np.ravel(later).tolist()]
    assert before["scale"] == [[0.5], [1.5]]
    assert before["n"] == [[5], [5]]
    assert before["x"] == [[-2.0, -1.0, 0.0, 1.0, 2.0]] * 2
    assert before["sum_at"][0] == [100.0]


SEARCHES = """\
#include <stdio.h>
static int most[13] = {3, 7}, table[13][512], taken[512];
static int fits(int i, int j)
{
    register int k, looked = 100;
    for (k = 0; k <= most[i]; k++) {
        looked++;
        if (table[i][k] && taken[j + k]) return looked;
    }
    return k - looked;
}
int main(void)
{
    table[0][2] = table[1][5] = taken[12] = 1;
    printf("%d %d\\n", fits(0, 10), fits(0, 11));
    return 0;
}
"""


def test_a_loop_that_returns_is_recorded_with_what_it_returns(tmp_path: Path) -> None:
    """Once it does, once it does not; the size by which the first spec bounds values is 0 there."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.c").write_text(SEARCHES)
    report = recorded(folder, spec_of(folder, loop=6), f"cc -O2 {folder}/app.c -o app")
    (loaded,) = load_spec(report.specs[0])
    assert loaded.task.kernel.returns == "int32"
    names = [argument.name for argument in loaded.task.own_arguments]
    found = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            found.append(np.frombuffer(file.after(names.index("returned_at")), np.int32).tolist())
    assert sorted(found) == [[0], [1]]
    assert 0 in [problem.sizes["i"] for problem in loaded.task.problems]
    checked = check_spec(loaded, faults=False)
    assert checked.ok, checked.lines[-1]


def test_a_loop_of_a_static_function_of_a_namespace_is_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.cpp").write_text(
        "#include <stdio.h>\nnamespace far {\nstatic bool any(const float *x, int n, float least) {\n"
        "    for (int i = 0; i < n; i++)\n        if (x[i] > least) return true;\n    return false;\n}\n}\n"
        'int main() { float x[3] = {1, 2, 3}; printf("%d\\n", far::any(x, 3, 2)); }\n'
    )
    spec = tmp_path / "spec.yaml"
    text = first_spec(folder / "app.cpp", folder=tmp_path, loop=4).text
    assert "entry: far::any, loop: 4, returns: bool" in text
    spec.write_text(text.replace("passes: {", "# passes: {"))
    report = recorded(folder, spec, f"c++ -O2 {folder}/app.cpp -o app")
    assert len(report.recordings) == 1
    (loaded,) = load_spec(report.specs[0])
    assert loaded.task.kernel.returns == "bool"


def test_a_static_function_of_a_cxx_program_that_a_script_runs(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "work.cpp").write_text(CXX)
    (tmp_path / "run.sh").write_text("#!/bin/sh\nexec build/app\n")
    (tmp_path / "run.sh").chmod(0o755)
    spec = tmp_path / "spec.yaml"
    text = first_spec(tmp_path / "src" / "work.cpp", folder=tmp_path, entry="far::smooth").text
    spec.write_text(text.replace("passes: {", "# passes: {"))
    build = f"mkdir -p build && c++ -O2 {tmp_path}/src/work.cpp -o build/app"
    report = recorded(tmp_path, spec, build, command=("./run.sh",))
    assert len(report.recordings) == 1
    (loaded,) = load_spec(report.specs[0])
    assert loaded.task.problems[0].sizes["nx"] == 40
    checked = check_spec(loaded, faults=False)
    assert checked.ok, checked.lines[-1]


BLOCKS = """\
#include <stdlib.h>
#include <unistd.h>
static float table[40];
void work(int n, const float *a, float *b, const float *c, float *d, float *e)
{
    for (int i = 0; i < n; i++) {
        b[i] += a[i];
        d[i] = c[i] + e[i];
    }
}
int main(void)
{
    float *both = malloc(30 * sizeof *both), *more = realloc(calloc(8, 4), 9 * sizeof *more), *aligned = 0;
    if (posix_memalign((void **)&aligned, 64, 64 * sizeof *aligned)) return 1;
    free(malloc(100));
    float stack[8];
    for (int i = 0; i < 30; i++) both[i] = i;
    for (int i = 0; i < 9; i++) more[i] = -i;
    for (int i = 0; i < 64; i++) aligned[i] = 1;
    for (int i = 0; i < 8; i++) stack[i] = 2;
    if (!fork()) _exit(!malloc(10));
    work(4, both, both + 20, table + 5, aligned, more);
    work(4, both, both + 20, stack, aligned, more);
    return 0;
}
"""


def test_arrays_reach_as_far_as_their_blocks(tmp_path: Path) -> None:
    """Whatever the spec says; what lies on the stack is as it says.

    And back to where the block begins, where no other array lies in it.
    """
    (tmp_path / "app.c").write_text(BLOCKS)
    spec = tmp_path / "spec.yaml"
    arguments = "\n".join(
        f"  - {{name: {name}, dtype: float32, shape: [{shape}], role: {role}}}"
        for name, shape, role in (
            *(("a", "n + 500", "input"), ("b", "2", "inout"), ("c", "n", "input")),
            *(("d", "n", "output"), ("e", "n", "inout")),
        )
    )
    spec.write_text(
        "kernel: {source: app.c, entry: work}\nproblem: {n: 4}\narguments:\n"
        f"  - {{name: n, dtype: int32, value: n}}\n{arguments}\nspace: {{passes: off, source: {{evolve: true}}}}\n"
    )
    report = recorded(tmp_path, spec, f"cc -O2 {tmp_path}/app.c -o app", instances=3)
    found = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            found.append([one.size_bytes // 4 for one in file.recording.arguments[1:]])
    assert sorted(found) == [[20, 10, 4, 64, 9], [20, 10, 40, 64, 9]]
    (loaded,) = load_spec(report.specs[0])
    sizes = [problem.sizes for problem in loaded.task.problems]
    shapes = [[a.shape[0].integer(s) for a in loaded.task.arguments if a.shape] for s in sizes]
    assert sorted(shapes) == sorted(found)


MIDDLE = """\
#include <stdio.h>
#include <stdlib.h>
struct table { int n; const float *at; };
static struct { char name[16]; double sums[8]; } state = {"a large number", {1}};
static float table[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
void work(int n, const struct table *t, const int *which, int *middle, double *sums)
{
    for (int i = 0; i < n; i++) sums[i] += t->at[which[i]];
    for (int i = 0; i < n; i++)
        for (int k = -2; k < 3; k++) middle[k] += t->at[which[i]];
}
int main(void)
{
    struct table t = {9, table + 4};
    int *all = calloc(8, sizeof *all);
    int which[8] = {-4, 4, -3, 3, -2, 2, 0, 1};
    work(8, &t, which, all + 3, state.sums);
    work(3, &t, which + 5, all + 2, state.sums);
    printf("%d %d\\n", all[1], all[5]);
    return 0;
}
"""


def test_pointers_into_the_middle_of_arrays_lead_there_in_replays(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text(MIDDLE)
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "kernel: {source: app.c, entry: work}\nproblem: {n: 8}\narguments:\n"
        "  - {name: n, dtype: int32, value: n}\n"
        "  - {name: t, struct: struct table, members: [{name: at, dtype: float32, shape: [n]}]}\n"
        "  - {name: which, dtype: int32, shape: [n], init: zeros}\n"
        "  - {name: middle, dtype: int32, shape: [n], role: inout, init: zeros}\n"
        "  - {name: sums, dtype: float64, shape: [n], role: inout}\n"
        "space: {passes: off, source: {evolve: true}}\n"
    )
    report = recorded(tmp_path, spec, f"cc -O1 -g {tmp_path}/app.c -o app", instances=3)
    before = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            before.append([one.before // 4 for one in file.recording.arguments[1:]])
    assert sorted(before) == [[4, 0, 2, 4], [4, 0, 3, 4]]
    (loaded,) = load_spec(report.specs[0])
    checked = check_spec(loaded, faults=1)
    assert checked.ok, checked.lines[-1]
    assert not [line for line in checked.lines if "left untouched" in line]
    assert checked.faults is not None
    assert checked.faults.caught == 1


PACKS = """\
#include <stdio.h>
#include <stdlib.h>
static char *pack(const short *in, int n, char *out)
{
    int held = 0;
    for (int i = 0; i < n; i++)
        if (i % 2) *out++ = (char)(held | (in[i] & 15)); else held = (in[i] & 15) << 4;
    return out;
}
int main(void)
{
    short *in = calloc(60, sizeof *in);
    char *out = malloc(70);
    for (int i = 0; i < 60; i++) in[i] = i * 7;
    char *end = pack(in, 20, pack(in, 60, out));
    printf("%d %d\\n", (int)(end - out), end[-1]);
    return 0;
}
"""


def test_a_pointer_that_a_loop_moves_for_what_follows_leads_as_far_as_its_array(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text(PACKS)
    spec = tmp_path / "spec.yaml"
    spec.write_text(first_spec(tmp_path / "app.c", folder=tmp_path, loop=6).text)
    report = recorded(tmp_path, spec, "cc -O1 -g -o app app.c", instances=2)
    places = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            places.append(
                [(one.size_bytes, one.before) for one in file.recording.arguments if one.size_bytes > 8]
            )
    assert sorted(places) == [[(120, 0), (70, 0)], [(120, 0), (70, 30)]]
    assert len(load_spec(report.specs[0])[0].task.problems) == 2


FILLS = """\
#include <stdio.h>
static double all[64];
static void fill(int n, double x, double *y)
{
    for (int i = 0; i < n; i++)
        y[i] = x * i;
}
int main(void)
{
    for (int k = 0; k < 2; k++)
        fill(16 * k, k + 0.5, all);
    printf("%g\\n", all[3]);
    return 0;
}
"""


def test_a_call_of_size_0_that_changes_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text(FILLS)
    spec = tmp_path / "spec.yaml"
    spec.write_text(first_spec(tmp_path / "app.c", folder=tmp_path, loop=5).text)
    recorded(tmp_path, spec, "cc -O1 -o app app.c")
    (loaded,) = load_spec(tmp_path / "recorded.yaml")
    assert [p.sizes["n"] for p in loaded.task.problems] == [16]
    assert any("left out, as a call of size 0 that changes nothing" in note for note in loaded.notices)


SHIFTED = """\
#include <stdio.h>
#include <stdlib.h>
static const int n = 20;
static double *m, *s;
static void sums(int r)
{
    for (int j = 0; j < n; j++) {
        double t = 0;
        for (int i = 0; i < n; i++)
            t += m[i * n + j];
        s[j] = t + r;
    }
}
int main(void)
{
    m = calloc(400, sizeof *m), s = calloc(20, sizeof *s);
    for (int r = 1; r > -2; r--)
        sums(r);
    printf("%g\\n", s[3]);
    return 0;
}
"""


def test_a_number_that_is_no_size_does_not_shape_arrays_that_were_recorded(tmp_path: Path) -> None:
    """A spec takes it for their size; it is 1, 0 and below."""
    (tmp_path / "app.c").write_text(SHIFTED)
    spec = tmp_path / "spec.yaml"
    made = first_spec(tmp_path / "app.c", folder=tmp_path, loop=7).text
    spec.write_text(re.sub(r"shape: \[\d+\]", "shape: [r]", made))
    recorded(tmp_path, spec, "cc -O1 -o app app.c", instances=3)
    (loaded,) = load_spec(tmp_path / "recorded.yaml")
    assert sorted(p.sizes["r"] for p in loaded.task.problems) == [-1, 0, 1]
    extents = [
        [a.shape[0].integer(p.sizes) for a in loaded.task.arguments if a.shape] for p in loaded.task.problems
    ]
    assert extents == [[400, 20]] * 3


SAME = """\
#include <stdlib.h>
#include <malloc.h>
void *own_malloc(size_t);
void helper(int, double *);
static void smooth(int n, double *v)
{
    for (int i = 1; i < n; i++) v[i] += v[i - 1];
}
int main(void)
{
    double *v = own_malloc(40 * sizeof *v), *w = malloc(10 * sizeof *w);
    for (int i = 0; i < 40; i++) v[i] = 1;
    for (int i = 0; i < 10; i++) w[i] = 1;
    for (int k = 0; k < 5000; k++) smooth(k < 2500 ? 40 : 20, v);
    smooth(9, w);
    helper(10, w);
    if (malloc_usable_size(w) != 80) return 1;
    free(v), free(w);
    return 0;
}
"""
OTHER = """\
static void smooth(int n, double *v)
{
    for (int i = 0; i < n; i++) v[i] *= 2;
}
void helper(int n, double *v) { smooth(n, v); }
"""
ALLOCATOR = """\
#include <stddef.h>
static char heap[1 << 26], *at = heap;
static void *take(size_t n)
{
    size_t *p = (size_t *)__atomic_fetch_add(&at, (n + 31) & ~(size_t)15, __ATOMIC_RELAXED);
    *p = n;
    return p + 2;
}
void *own_malloc(size_t n) { return take(n); }
void *malloc(size_t n) { return take(n); }
void *calloc(size_t n, size_t m) { return take(n * m); }
size_t malloc_usable_size(void *p) { return ((size_t *)p)[-2]; }
void *realloc(void *p, size_t n)
{
    char *from = p, *to = take(n);
    for (size_t i = 0; p && i < n && i < malloc_usable_size(p); i++) to[i] = from[i];
    return to;
}
void free(void *p) { if (p && ((char *)p < heap || (char *)p >= heap + sizeof heap)) __builtin_trap(); }
"""


def test_of_one_name_the_kernel_is_meant_and_the_allocator_stays(tmp_path: Path) -> None:
    """A static function of another file has its name; every call is counted; memory is the application's own."""
    for file, text in (("app.c", SAME), ("other.c", OTHER), ("own.c", ALLOCATOR)):
        (tmp_path / file).write_text(text)
    spec = tmp_path / "spec.yaml"
    spec.write_text(first_spec(tmp_path / "app.c", folder=tmp_path, entry="smooth").text)
    library = "cc -O1 -fno-builtin -fPIC -shared own.c -o libown.so"
    program = f"cc -O1 -fno-builtin -fcf-protection other.c app.c -o app -L. -lown -Wl,-rpath,{tmp_path}"
    report = recorded(tmp_path, spec, f"{library} && {program}", instances=3)
    assert report.ran.status == 0
    (use,) = report.ran.kernels
    assert use.launches == 5001
    assert sorted(count for count, _ in use.signatures.values()) == [1, 2500, 2500]
    sums = {}
    for path in report.recordings:
        with RecordingFile(path) as file:
            v = np.frombuffer(file.after(1), np.float64)
            sums[len(v)] = v.tolist()
    assert sums[10] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]


def test_thread_local_variables_and_several_of_one_function_are_refused(folder: Path) -> None:
    source = folder / "app.c"
    source.write_text(PROGRAM.replace("static float scale", "static __thread float scale"))
    with pytest.raises(UsageError, match="scale is thread-local"):
        recorded(folder, spec_of(folder), "cc app.c -o app")
    source.write_text(
        "static void f(int n, float *v) { v[n] = 1; }\nint MAIN(void) { float v[1]; f(0, v); return 0; }\n"
    )
    spec = folder.parent / "spec.yaml"
    spec.write_text(first_spec(source, folder=folder.parent, entry="f").text)
    with pytest.raises(UsageError, match="app has f several times"):
        recorded(folder, spec, "cc -DMAIN=g -c app.c -o g.o && cc -DMAIN=main app.c g.o -o app")


REFUSED = (
    ("false", "./app", "'false' fails with the kernel as a function of its own with status 1"),
    ("cc -O2 app.c -o app && strip app", "./app", "no program that .* makes has the function main_loop17"),
    ("cc -O2 app.c -o app", "true", "'true' never called 'main_loop17'"),
    ("cc -fPIC -shared app.c -o libapp.so", "true", "main_loop17 is in libapp.so, which is no dynamic"),
)


def test_regions_that_cannot_be_recorded_are_one_line_each(folder: Path) -> None:
    spec = spec_of(folder)
    for build, command, why in REFUSED:
        with pytest.raises(UsageError, match=why):
            recorded(folder, spec, build, command=(command,))
        assert not (folder.parent / "recordings").exists()
    other = folder.parent / "other"
    other.mkdir()
    with pytest.raises(UsageError, match=r"no app\.c below .* has the text"):
        recorded(other, spec, "true")


def test_mistakes_of_the_command_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    words = ["record", str(spec_of(folder)), "--build", "cc -O2 app.c -o app", "-o", str(folder / "new.yaml")]
    refused = CliRunner().invoke(app, [*words, "--", "./app"])
    assert isinstance(refused.exception, UsageError)
    assert "lies in another folder" in refused.exception.message
    with pytest.raises(TunerError, match="--build and --tree go with a spec"):
        raise (
            CliRunner().invoke(app, ["record", "--list", "--build", "make", "--", "./app"]).exception
            or KeyError
        )


@needs.make
@pytest.mark.usefixtures("guessed_sizes")
def test_the_page(folder: Path) -> None:
    """The run checks the replay; what the last command says, for which a gain is needed, other tests look at."""
    (folder / "Makefile").write_text("app: app.c\n\t$(CC) -O2 app.c -o app\n")
    given = block("docs/recording.md", "tuner record loop.yaml")
    lines = [line.replace("120", str(LINE)).replace(" --size 1000", "") for line in given]
    said = [
        run(f"{line} --evaluations 1" if line.startswith("tune ") else line, folder) for line in lines[:3]
    ]
    assert "wrote recorded.yaml" in said[1]
    assert "next: tune recorded.yaml" in said[1]
    assert "tuner-runs/main_loop17-1.run" in said[2]
    assert lines[3].startswith("tuner ab tuner-runs/main_loop17-1.run --build make")


@needs.gcc
def test_the_compiler_that_the_build_uses_is_written(folder: Path) -> None:
    spec = spec_of(folder)
    build = f"gcc -O2 -fno-plt -DTILE=4 {folder}/app.c -o app"
    report = recorded(folder, spec, build)
    said = "gcc -O2 -fno-plt -DTILE=4"
    (note,) = (note for note in report.notes if "the build" in note)
    assert note == (
        "the build compiles app.c by gcc -O2 -fno-plt with -DTILE=4: "
        f"recorded.yaml has compiler: {said}, and no orders of LLVM's passes"
    )
    (loaded,) = load_spec(report.specs[0])
    assert loaded.task.kernel.compiler is not None
    assert loaded.task.kernel.compiler.command == tuple(said.split())
    # What a spec says is kept.
    report.specs[0].write_text(report.specs[0].read_text().replace("workload:", "# workload:"))
    again = recorded(folder, report.specs[0], f"gcc -O3 {folder}/app.c -o app", output="more.yaml")
    (note,) = (note for note in again.notes if "the build" in note)
    assert note == f"the build compiles app.c by gcc -O3, {report.specs[0]} says compiler: {said}"
    # Without a copy of the spec the line is said.
    again = recorded(folder, spec, f"gcc -O2 {folder}/app.c -o app", output=None)
    assert f"write compiler: gcc -O2 into {spec} and leave out passes:" in " ".join(again.notes)


@needs.gcc
def test_a_spec_that_cannot_have_the_compiler_stays_as_it_is(folder: Path) -> None:
    spec = spec_of(folder)
    spec.write_text(spec.read_text().replace('"-mprefer-vector-width=128"', '"-mllvm -inline-threshold=9"'))
    report = recorded(folder, spec, f"gcc -O2 {folder}/app.c -o app")
    assert "the build compiles app.c by gcc -O2, which recorded.yaml does not have: " in " ".join(
        report.notes
    )
    text = report.specs[0].read_text()
    assert "compiler:" not in text
    assert text.endswith(spec.read_text())


SHORT = """\
#include <stdio.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *time)
{
    static long nanoseconds;
    (void)which;
    nanoseconds += TICK;
    time->tv_sec = nanoseconds / 1000000000;
    time->tv_nsec = nanoseconds % 1000000000;
    return 0;
}
static double a[6];
int main(void)
{
    for (volatile int r = 0; r < 300000; r++)
        for (int i = 0; i < 6; i++)
            a[i] += i;
    printf("%g\\n", a[3]);
    return 0;
}
"""


def test_calls_that_are_far_shorter_than_looking_at_them_are_counted_alone(tmp_path: Path) -> None:
    """By the application's own clock, which goes on by so much with each look at it."""
    (tmp_path / "app.c").write_text(SHORT)
    spec = tmp_path / "spec.yaml"
    spec.write_text(first_spec(tmp_path / "app.c", folder=tmp_path, loop=16, compiler="cc -DTICK=1").text)
    for nanoseconds in (10, 1000):
        build = f"cc -O1 -rdynamic -DTICK={nanoseconds} -o app app.c"
        report = recorded(tmp_path, spec, build, output=f"{nanoseconds}.yaml")
        (use,) = report.ran.kernels
        assert use.launches == 300000
        assert use.seconds == pytest.approx(use.timed * nanoseconds * 1e-9)
        alone = [note for note in report.notes if "they are counted alone" in note]
        assert bool(alone) == (nanoseconds == 10) == (use.timed < 300000)
