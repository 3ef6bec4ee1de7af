"""``tuner app``: an application from its build to a patch for it, and the file that describes it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from loops_with_winners import LINES, PROGRAM, run_of
from pages import block, run
from typer.testing import CliRunner

from tuner.cli.main import app
from tuner.core.errors import FullDiskError, SpecError, TunerError
from tuner.driver.applications.app_regions import as_it_is, built_by
from tuner.driver.applications.builds import Rebuilt
from tuner.driver.applications.host_functions import HostFunction, HostFunctions
from tuner.driver.applications.hot_regions import HotRegions, hot_regions, stale
from tuner.driver.applications.listing import Listing
from tuner.driver.applications.region_specs import RegionSpec, region_specs
from tuner.driver.applications.tuned_regions import (
    Compared,
    Tuned,
    TunedRegion,
    headers_folder,
    read_tuned,
    work_folder,
)
from tuner.driver.outcome.export import export
from tuner.recorders.recordings.capture import Ran
from tuner.spec.applications import ApplicationFile, Region, application_text, load_application
from tuner.spec.first.compile_commands import Compiled

HOT = """\
static double scale(double x) { return x * 0.5; }
static double twice(double x)
{
    return scale(x) + scale(x);
}
double deep(int n)
{
    return n < 2 ? n : deep(n - 1) + deep(n - 2);
}
void sweep(int n, int m, double *a)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            a[i * m + j] = twice(a[i * m + j]);
}
void clear(int n, double *a)
{
    for (int i = 0; i < n; i++)
        a[i] = 0;
}
int main(void)
{
    double a[4];
    sweep(2, 2, a);
    clear(4, a);
    return deep(3) > 0;
}
"""


def found(
    folder: Path,
    lines: dict[int, int],
    text: str = HOT,
    *,
    name: str = "hot.c",
    seen: dict[Path, Compiled] | None = None,
    least: float = 0.05,
) -> HotRegions:
    """The hot regions of a source that was looked at so often at its lines."""
    path = folder / name
    if text:
        path.write_text(text)
    samples = Counter(lines)
    one = HostFunction(
        name="any",
        symbol="any",
        file=folder / "app",
        size_bytes=1,
        samples=samples.total(),
        lines=tuple((str(path), line, n) for line, n in samples.items()),
    )
    listing = Listing(
        ran=Ran(status=0, wall_s=1.0, seen=True, kernels=()), own=HostFunctions(listed=(one,)), samples=100
    )
    return hot_regions(listing, folder, seen or {}, least=least, most=4)


def test_lines_belong_to_the_loops_around_them(tmp_path: Path) -> None:
    regions = found(tmp_path, {12: 5, 13: 10, 14: 45, 18: 3, 19: 30, 24: 7}).regions
    assert [(one.name, one.loops, round(one.share, 2)) for one in regions] == [
        ("hot.c:12", (12, 13), 0.6),
        ("hot.c:18", (18,), 0.33),
    ]
    assert regions[0].most == pytest.approx(2.5)


def test_a_loop_that_was_found_is_known_by_its_text(tmp_path: Path) -> None:
    """Lines that a person wrote are taken as they are."""
    path = tmp_path / "hot.c"
    (region,) = found(tmp_path, {14: 45}).regions
    inner, own = replace(region, loops=(13,)), replace(region, digest="")
    path.write_text(HOT.replace("; j++)", ";  j++)").replace("a[i] = 0", "a[i] = 1"))
    assert stale(region, None) == stale(inner, None) == ""
    path.write_text(HOT.replace("i < n; i++)\n        for", "i < n; ++i)\n        for"))
    assert stale(region, None) == "the loop at line 12 of hot.c is another now than when it was found"
    assert stale(own, None) == ""
    path.write_text("\n" + HOT)
    assert stale(own, None) == "no loop begins at line 12 of hot.c as it is now"


def test_a_full_disk_is_told_once_and_not_of_each_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hot.c").write_text(HOT)
    rebuilt = Rebuilt(folder=tmp_path, build="true", command=("./app",), here=tmp_path)

    def full(*words: object, **more: object) -> None:
        raise FullDiskError("the recording cannot be written")

    monkeypatch.setattr("tuner.driver.applications.region_specs.record_rebuilt", full)
    region = Region(source=tmp_path / "hot.c", loops=(12, 13))
    with pytest.raises(FullDiskError):
        next(region_specs(region, rebuilt, tmp_path / "specs", None, run_s=1.0))


def test_functions_without_a_loop_stand_for_the_loops_that_call_them(tmp_path: Path) -> None:
    """Through several functions, and beside the loop's own lines."""
    (region,) = found(tmp_path, {1: 40, 14: 20}).regions
    assert (region.loops, region.share) == ((12, 13), pytest.approx(0.6))


def test_functions_that_no_loop_calls_are_regions(tmp_path: Path) -> None:
    (region,) = found(tmp_path, {8: 80, 23: 10}).regions
    assert (region.name, region.loops, region.function) == ("hot.c:deep", (), "deep")


def test_functions_of_headers_stand_for_the_loops_of_sources_that_call_them(tmp_path: Path) -> None:
    """Methods too, also from templates; through another header, and from each source that has one."""
    (tmp_path / "box.h").write_text("struct Box { double v; double at(int i) const { return v + i; } };\n")
    (tmp_path / "sum.h").write_text("""\
#include "box.h"
template <class T> double sum(const T &t) {
    double s = 0;
    for (int i = 0; i < 9; i++)
        s += t.at(i);
    return s;
}
""")
    (tmp_path / "a.cc").write_text("""\
#include "sum.h"
double first(const Box *b, int n) {
    double s = sum(b[0]);
    for (int i = 0; i < n; i++) s += b[i].at(n);
    return s + b->at(2);
}
""")
    seen = {path: Compiled(list=None, include=(), flags=(), language="c++") for path in tmp_path.glob("*.*")}
    regions = found(tmp_path, {1: 50}, "", name="box.h", seen=seen).regions
    assert [(one.name, one.loops, one.share) for one in regions] == [
        ("a.cc:4", (4,), 0.5),
        ("sum.h:4", (4,), 0.5),
    ]


def test_a_header_is_read_in_the_language_of_the_source_that_includes_it(tmp_path: Path) -> None:
    text = "template <class T> T half(T x) { return x / 2; }\n" + HOT.replace("scale(x) +", "half(x) +")
    seen = {tmp_path / "hot.h": Compiled(list=None, include=(), flags=(), language="c++")}
    (region,) = found(tmp_path, {13: 50}, text, name="hot.h", seen=seen).regions
    assert region.loops == (13,)


def test_operators_of_classes_have_loops_and_stand_for_those_that_use_them(tmp_path: Path) -> None:
    text = """\
struct S { void operator()(int n, double *a) {
for (int i = 0; i < n; i++)
 a[i] = 0; } };
struct V { double x;
    V operator+(const V &o) const { return {x + o.x}; } };
void sum(V *a, int n) {
    for (int i = 1; i < n; i++)
        a[i] = a[i] + a[i - 1];
}
"""
    regions = found(tmp_path, {3: 50, 5: 40}, text, name="hot.cc").regions
    assert [(one.within, one.loops, one.share) for one in regions] == [
        ("operator()", (2,), 0.5),
        ("sum", (7,), 0.4),
    ]


def test_hot_lines_of_a_lambda_outside_of_functions_are_told_of(tmp_path: Path) -> None:
    text = "auto f = [](int n, double *a) {\nfor (int i = 0; i < n; i++)\n a[i] = 0; };\n"
    hot = found(tmp_path, {3: 50}, text, name="hot.cc")
    assert hot.regions == ()
    assert [line.partition(":")[2] for line in hot.unread] == [
        "3 is hot and in no function that can be told: write its loop as a function with a name"
    ]


def test_hot_code_that_cannot_be_read_is_listed(tmp_path: Path) -> None:
    hot = found(tmp_path, {3: 50}, "int f(\n")
    assert not hot.regions
    assert found(tmp_path, {}).without_lines
    (line,) = found(tmp_path, {2: 50}, "void f(void)\n{ for (;;) undeclared++; }\n").unread
    assert line.startswith("hot.c cannot be read: ")
    (tmp_path / "hot.c").unlink()
    (line,) = found(tmp_path, {3: 50}, "").unread
    assert line == f"{tmp_path}/hot.c is hot and made by the build: let it compile the source in its place"


def test_the_file_comes_back_as_it_was_written(tmp_path: Path) -> None:
    inner = tmp_path / "in: #1"
    inner.mkdir()
    given = ApplicationFile(
        path=inner / "app.yaml",
        tree=tmp_path.resolve(),
        build="make -j2 'X=a: b' # all",
        command=("./app", "a b", "yes"),
        folder=inner.resolve(),
        check='grep -q "ok: 1"',
        rtol=1e-9,
        varies=("Time: * s", 'a "b" \\ *'),
        regions=(
            Region(source=tmp_path.resolve() / "a.c", loops=(3, 4), share=0.5, digest="00012345"),
            Region(source=inner.resolve() / "b.cc", function="far::work", share=0.25),
        ),
    )
    given.path.write_text(application_text(given))
    assert load_application(given.path) == given


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("run: ./app", "the spec has no 'build'"),
        ("build: make\nrun: ./app\nbiuld: x", "'biuld'"),
        ('build: make\nrun: "\'"', "2:6: run cannot be split into words"),
        ("build: make\nrun: ./a\nregions:\n  - {source: a.c}", "4:5: regions[0] needs loops or a function"),
        ("build: make\nrun: ./a\nregions: [{source: a.c, loops: [0]}]", "regions[0].loops[0] is 0"),
        ("build: make\nrun: ./a\nrtol: -1", "rtol is -1"),
        ("build: make\nrun: ./a\nvaries: ['a *', ' * ']", "3:17: varies[1] is like any line"),
    ],
)
def test_mistakes_in_the_file_are_one_line(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "app.yaml").write_text(text)
    with pytest.raises(SpecError) as told:
        load_application(tmp_path / "app.yaml")
    assert wanted in str(told.value)


APPLICATION = """\
#include <stdio.h>
#include <stdlib.h>
#include "sizes.h"

static double x[M][M], y[M][M];

static void smooth(int n)
{
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            y[j][i] = 0.25 * (x[j][i - 1] + x[j][i + 1] + x[j - 1][i] + x[j + 1][i]);
}
int main(int count, char **words)
{
    int times = count > 1 ? atoi(words[1]) : 1600;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            x[i][j] = (i * 7 + j) % 13;
    for (int t = 0; t < times; t++)
        smooth(M - t % 2);
    printf("%.17g\\n", y[3][4] + y[M - 3][5]);
    return 0;
}
"""
MAKEFILE = """\
app: src/app.c src/sizes.h
	cc -O3 -g -Ibuild -DOTHER src/app.c -o other
	cc -O2 -g -Inowhere -Ibuild -DNDEBUG src/app.c -o app
src/sizes.h:
	mkdir -p build/made
	echo '#define M 160' > build/made/size.h
	echo '#include "made/size.h"' > src/sizes.h
"""
RUN = CliRunner()


def call(*words: object) -> str:
    done = RUN.invoke(app, ["app", *map(str, words)])
    if isinstance(done.exception, TunerError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def described(file: Path) -> RegionSpec:
    """What the command would tune of the loop at line 9."""
    application = load_application(file)
    (region,) = (one for one in application.regions if one.loops[:1] == (9,))
    rebuilt = built_by(application)
    compiled, run_s = as_it_is(rebuilt, [region.source], headers_folder(application))
    work = work_folder(application)
    return next(region_specs(region, rebuilt, work, compiled.get(region.source), run_s=run_s))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.c").write_text(APPLICATION)
    (folder / "Makefile").write_text(MAKEFILE)
    monkeypatch.chdir(folder)
    return folder


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_from_a_build_to_runs_of_its_regions(folder: Path) -> None:
    """Of a file that is compiled for two programs the way that this one has is tuned; its build makes headers."""
    pages = (block("README.md", "tuner app init"), block("docs/applications.md", "tuner app init"))
    for given in pages:
        lines = [line.replace(" --size 1000", "") for line in given]
        assert [line.split()[2] for line in lines] == ["init", "tune", "ab", "patch"]
    assert "app.c:9" in run(lines[0], folder)
    application = load_application(folder / "app.yaml")
    (region,) = [one for one in application.regions if one.loops == (9, 10)]
    assert region.share > 0.3
    assert not any((folder / made).exists() for made in ("app", "src/sizes.h", "build"))
    data = json.loads(call("tune", "--minutes", 0.1, "--json"))
    (tuned,) = [one for one in data["regions"] if one["name"].startswith("app.c:9")]
    assert tuned["refused"] == []
    spec = Path(tuned["spec"]).read_text()
    assert "compiler: cc -O2" in spec
    assert "OTHER" not in spec
    assert "workload: recordings/smooth_loop9-*.rec" in spec
    assert Path(tuned["run"]).is_file()
    assert (tuned["calls"], 0 < tuned["call_s"] < 1) == (1600, True)
    assert read_tuned(application).regions[0].run == tuned["run"]
    # What a person has changed in a first spec stays.
    own = folder / "tuner-app" / "app" / "src_app-9.yaml"
    assert "rtol: 1.0e-5" in own.read_text()
    own.write_text(own.read_text().replace("rtol: 1.0e-5", "rtol: 1.0e-7").replace("loop: 9", "loop: 7"))
    application.path.write_text(application.path.read_text().replace("[9, 10]", "[9]"))
    again = described(application.path)
    assert again.name == "app.c:9"
    assert again.path is not None
    assert again.path.name.endswith("-memory-recorded.yaml")
    assert again.refused[0].startswith("app.c:9: ")
    assert again.refused[0].endswith(f"; remove {own} to have it written anew")
    assert "rtol: 1.0e-7" in own.read_text()
    assert not (folder / "app").exists()


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_runs_that_cannot_be_compared_are_refused_before_the_work(folder: Path) -> None:
    with pytest.raises(TunerError, match="fails as it is with status"):
        call("init", "--build", "false", "--", "./app")
    with pytest.raises(TunerError, match="prints something else: line 2 is"):
        call("init", "--build", "make", "--", "sh", "-c", "./app 1; date +%N")
    with pytest.raises(TunerError, match="--varies ' \\*' is like any line"):
        call("init", "--build", "make", "--varies", " *", "--", "./app")
    counted = ("sh", "-c", "./app 1; echo 7, $(date +%N)")
    call("init", "-o", "varies.yaml", "--build", "make", "--varies", "7, *", "--", *counted)
    assert load_application(folder / "varies.yaml").varies == ("7, *",)
    with pytest.raises(TunerError, match="sh ends with status 7: no input; its standard input is empty"):
        call("init", "--build", "make", "--", "sh", "-c", "read line || { echo no input >&2; exit 7; }")
    assert not (folder / "app.yaml").exists()
    (folder / "Makefile").write_text(MAKEFILE.replace(" -g ", " "))
    assert "build it with -g" in call("init", "--build", "make", "--", "./app")
    (folder / "Makefile").write_text(MAKEFILE.replace(" -g ", " -static "))
    told = call("init", "-o", "static.yaml", "--build", "make", "--", "./app", "1")
    assert told.startswith("none of its processor time could be sampled: it has to be linked dynamically")
    assert "looked at" not in told
    with pytest.raises(TunerError, match="exists already"):
        call("init", "--build", "make", "--", "./app")
    with pytest.raises(TunerError, match="names no regions"):
        call("tune")
    with pytest.raises(TunerError, match=r"nothing of app\.yaml has been tuned"):
        call("ab")


@needs.cc
@needs.namespaces
@pytest.mark.integration
def test_a_failed_run_and_one_without_output_are_noted(folder: Path) -> None:
    """What a run writes into its folder is compared; that the build makes slow code is noted, too."""
    (folder / "Makefile").write_text(MAKEFILE.replace("-O3 ", "").replace("-O2 ", ""))
    found = json.loads(
        call("init", "--json", "--build", "make", "--", "sh", "-c", "./app >/dev/null; exit 3")
    )
    assert found["regions"]
    assert [line[:30] for line in found["notes"]] == [
        "sh ends with status 3: it says",
        "sh prints nothing and writes n",
        "app.c is compiled without opti",
    ]
    (folder / "app.yaml").write_text(
        (folder / "app.yaml").read_text().replace("/dev/null", "out; date +%N >>out")
    )
    listed = json.loads(call("list", "--json"))
    assert listed["varies"] == ["out: *"]
    assert listed["notes"][1].startswith("all that sh prints and writes differs from run to run by itself")
    words = (
        "--check",
        "test -s src/sizes.h",
        "--build",
        "make",
        "--",
        "sh",
        "-c",
        "./app >/dev/null; exit 3",
    )
    checked = json.loads(call("init", "--json", "-o", "checked.yaml", *words))
    (ended, slow) = checked["notes"]
    assert ended.startswith("sh ends with status 3:")
    assert slow == found["notes"][2]


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_a_file_that_a_program_has_in_two_ways_cannot_be_tuned(folder: Path) -> None:
    (folder / "src" / "app.c").write_text(APPLICATION.replace("0.25 *", "WEIGHT *"))
    more = "cc -O2 -g -Ibuild -DWEIGHT=0.5 -Dmain=more -c src/app.c -o more.o"
    made = MAKEFILE.replace("cc -O3 -g -Ibuild -DOTHER src/app.c -o other", more).replace(
        "NDEBUG", "WEIGHT=0.25"
    )
    (folder / "Makefile").write_text(made.replace("src/app.c -o app\n", "src/app.c more.o -o app\n"))
    source = folder.resolve() / "src" / "app.c"
    given = ApplicationFile(
        path=Path("app.yaml"),
        tree=folder.resolve(),
        build="make",
        command=("./app",),
        folder=folder.resolve(),
        regions=(Region(source=source, loops=(9, 10), share=0.9),),
    )
    given.path.write_text(application_text(given))
    assert "the build compiles app.c in 2 ways" in described(given.path).refused[0]


def tuned_application(folder: Path, build: str) -> tuple[ApplicationFile, list[TunedRegion]]:
    """An application of two loops, and runs that are said to make each of them twice as fast."""
    application = ApplicationFile(
        path=Path("app.yaml"), tree=folder, build=build, command=("./app",), folder=folder
    )
    application.path.write_text(application_text(application))
    return application, [
        TunedRegion(name=f"app.c:{line}", share=0.25, run=str(run_of(folder, line)), speedup=2.0)
        for line in LINES
    ]


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_a_winner_that_is_none_in_the_application_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build refuses a change of the second loop, with which the first one's winner has nothing to do."""
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.c").write_text(PROGRAM)
    (folder / "end").write_text("".join(PROGRAM.splitlines(keepends=True)[-8:]))
    monkeypatch.chdir(folder)
    application, regions = tuned_application(folder, "cc -O1 app.c -o app && tail -n 8 app.c | cmp - end")
    runs = [Path(one.run) for one in regions]
    Tuned(regions=tuple(regions)).write(application)
    data = json.loads(call("ab", "--pairs", 4, "--json"))
    assert data["kernels"] == [{"kernel": "main_loop13", "claim": pytest.approx(2.0, rel=0.1)}]
    tuned = read_tuned(application)
    assert [one.run for one in tuned.winners] == [str(runs[0])]
    assert "with the winners" in tuned.regions[1].refused[0]
    Tuned(regions=tuple(regions[1:])).write(application)
    with pytest.raises(TunerError, match="with the winners"):
        call("ab", "--pairs", 4)


def old_file() -> bytes:
    """The program with Latin-1 in it, a form feed, and line ends of both kinds."""
    text = PROGRAM.replace("#define", "\f#define").replace("Twice", "\xe4 Twice")
    lines = text.encode("latin-1").split(b"\n")
    return b"\n".join(line + b"\r" * (number % 3 > 0) for number, line in enumerate(lines[:-1])) + b"\n"


def keeps(made: bytes, given: bytes) -> bool:
    """Whether all lines but those of the loops are as they were."""
    lines, rest = given.split(b"\n"), iter(made.split(b"\n"))
    return all(line in rest for line in (*lines[:12], *lines[15:17], *lines[21:]))


@pytest.mark.integration
def test_exported_sources_keep_the_bytes_that_no_winner_changes(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    (folder / "app.c").write_bytes(old_file())
    export(run_of(folder, LINES[0]), tmp_path / "out")
    made = (tmp_path / "out" / "app.c").read_bytes()
    assert keeps(made, old_file())
    patch = ["patch", "--binary", "-p1", "-i", str(tmp_path / "out" / "main_loop13.patch")]
    subprocess.run(patch, cwd=folder, check=True, capture_output=True)
    assert (folder / "app.c").read_bytes() == made != old_file()


@needs.cc
@needs.namespaces
@pytest.mark.usefixtures("free_lane")
@pytest.mark.integration
def test_winners_are_compared_and_become_a_patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project" / "app"
    folder.mkdir(parents=True)
    given = old_file()
    (folder / "app.c").write_bytes(given)
    monkeypatch.chdir(folder)
    application, regions = tuned_application(folder, "cc -O1 app.c -o app")
    runs = [Path(one.run) for one in regions]
    Tuned(regions=(*regions, TunedRegion(name="app.c:8", share=0.1, refused=("it is",)))).write(application)
    with pytest.raises(TunerError, match="has not been compared with itself"):
        call("patch")
    data = json.loads(call("ab", "--pairs", 4, "--json"))
    assert data["predicted"] == pytest.approx(1 / (1 - 0.25))
    tuned = read_tuned(application)
    compared = Compared(
        runs=tuple(map(str, runs)), speedup=(data["speedup"]["value"], *data["speedup"]["ci95"])
    )
    assert tuned.compared == compared
    for low, refused in ((0.9, True), (1.1, False)):
        told = replace(compared, speedup=(1.2, low, 1.3))
        Tuned(regions=tuned.regions, compared=told).write(application)
        if refused:
            with pytest.raises(TunerError, match=r"no gain of the application was told: 1\.200 times"):
                call("patch")
    call("patch", "-o", "winners.patch")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "app.c").write_bytes((folder / "app.c").read_bytes())
    patch = ["patch", "--binary", "-p1", "-i", str(folder / "winners.patch")]
    subprocess.run(patch, cwd=copy, check=True, capture_output=True)
    call("patch", "--apply")
    applied = (folder / "app.c").read_bytes()
    assert (copy / "app.c").read_bytes() == applied != given
    assert keeps(applied, given)
    with pytest.raises(TunerError, match="has the text that"):
        call("patch", "--apply")
    # What is kept is found again with the application elsewhere.
    (folder / "app.c").write_bytes(given)
    folder.parent.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved" / "app")
    assert "+++ b/app.c" in call("patch")
