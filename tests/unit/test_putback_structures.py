"""C and C++ functions that take structures, recorded from applications that make them, and winners in their place."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from applications import with_library

import tuner
from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Status
from tuner.driver.applications.applying import run_with
from tuner.driver.applications.in_place import FunctionWinner
from tuner.driver.applications.recording import record_spec
from tuner.driver.applications.winners import check_layout, check_pointers, function_winner
from tuner.evaluators.host.backend import HostBackend
from tuner.recorders.recordings.format import RecordingFile
from tuner.spec.load import LoadedSpec, load_spec

HEADER = """
struct box { double w[3]; int lo; };
struct chunk { char tag; int nx; double *u; struct box in; struct box *far; double **rows; double total; short ny; };
"""
KERNEL = """
#include "chunk.h"
void step(struct chunk *c, double dt) {
    double sum = 0;
    for (int j = 0; j < c->ny; j++)
        for (int i = 0; i < c->nx; i++) {
            c->u[j * c->nx + i] += dt * c->in.w[1] + c->far->lo;
            sum += c->u[j * c->nx + i] * c->rows[j][i];
        }
    c->total += sum;
}
"""
SPEC = """\
kernel: {source: SOURCE, entry: ENTRY}
problem: {nx: 6, ny: 4}
arguments:
  - name: c
    struct: struct chunk
    members:
      - {name: nx, dtype: int32, value: nx}
      - {name: u, dtype: float64, shape: [ny, nx], role: inout}
      - name: in
        by: value
        members: [{name: w, dtype: float64, shape: [3], by: value}]
      - name: far
        members: [{name: lo, dtype: int32, value: 2}]
      - {name: rows, dtype: float64, shape: [ny, nx], rows: pointers}
      - {name: total, dtype: float64, value: 0, role: inout}
      - {name: ny, dtype: int16, value: ny}
  - {name: dt, dtype: float64, value: 0.5}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
REFERENCE = """
#include "chunk.h"
namespace far { void step(chunk &c, double dt) {
    for (int i = 0; i < c.nx * c.ny; i++) c.u[i] += dt * c.in.w[1] + c.far->lo;
    c.total += c.rows[0][0];
} }
"""
MAIN = """
#include "chunk.h"
#ifdef __cplusplus
namespace far { void step(chunk &, double); }
extern "C" int printf(const char *, ...);
#define STEP(c) far::step(c, 0.5)
#else
void step(struct chunk *, double);
int printf(const char *, ...);
#define STEP(c) step(&(c), 0.5)
#endif
double values[64], weights[64];
double *rows[8];
struct box there = {{0, 0, 0}, 3};
int main(void) {
    struct chunk c = {'x', 6, values, {{1, 2, 3}, 7}, &there, rows, 1, 4};
    for (int i = 0; i < 64; i++) values[i] = i, weights[i] = 1;
    for (int j = 0; j < 8; j++) rows[j] = weights + 6 * j;
    BODY
    printf("%g %g\\n", values[0], c.total);
    return 0;
}
"""


def application(
    folder: Path, body: str, *, suffix: str = "c", kernel: str = KERNEL, main: str = MAIN
) -> list[str]:
    """An application whose kernel is in a library."""
    (folder / "chunk.h").write_text(HEADER)
    (folder / f"step.{suffix}").write_text(kernel)
    (folder / f"main.{suffix}").write_text(main.replace("BODY", body))
    return with_library(folder, f"step.{suffix}", main=f"main.{suffix}")


def spec(folder: Path, *, more: str = "", suffix: str = "c", text: str = SPEC) -> LoadedSpec:
    """The spec of the kernel in a folder."""
    entry = "step"
    if suffix != "c":
        entry = "far::step"
        text = text.replace("struct: struct chunk", "struct: chunk\n    by: value")
    text = text.replace("SOURCE", f"step.{suffix}").replace("ENTRY", entry)
    (folder / f"step{len(more)}.yaml").write_text(text + more)
    (loaded,) = load_spec(folder / f"step{len(more)}.yaml")
    return loaded


def built(loaded: LoadedSpec, before: str, after: str, *, file: int = 0) -> Build:
    """A candidate whose source says something else."""
    files = list(loaded.task.kernel.variant.files)
    assert before in files[file].text
    files[file] = replace(files[file], text=files[file].text.replace(before, after))
    variant = replace(loaded.task.kernel.variant, files=tuple(files))
    evaluation = HostBackend().prepare(loaded.task, workers=1)
    try:
        resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
        (build,) = evaluation.build([BuildRequest(trial=1, variant=variant, resolved=resolved)])
    finally:
        evaluation.close()
    return build


def winner(loaded: LoadedSpec) -> FunctionWinner:
    """One that can be told from the application's own function."""
    build = built(loaded, "dt * c", "100 + dt * c")
    assert build.status is Status.OK, build.message
    space = loaded.space(None)
    found = HostBackend().replacement(loaded.task, build.code, space.resolve(space.default()))
    return function_winner(found, loaded)


def total(capfd: pytest.CaptureFixture[str]) -> list[float]:
    """What the application has printed."""
    return [float(word) for word in capfd.readouterr().out.split()]


TWICE = "STEP(c); STEP(c);"


@pytest.mark.integration
@pytest.mark.parametrize("suffix", ["c", "cc"])
def test_calls_are_recorded_with_what_the_members_hold_and_lead_to(tmp_path: Path, suffix: str) -> None:
    command = application(tmp_path, TWICE, suffix=suffix, kernel=KERNEL if suffix == "c" else REFERENCE)
    report = record_spec(command, spec(tmp_path, suffix=suffix), instances=2)
    values = []
    for path in report.recordings:
        with RecordingFile(path) as file:
            assert [a.kind for a in file.recording.arguments] == [
                *("scalar", "buffer", "buffer", "scalar", "buffer", "buffer", "scalar", "scalar")
            ]
            held = [np.frombuffer(file.before(n), "f8").tolist() for n in (1, 2, 4, 5)]
            after = np.frombuffer(file.after(1), "f8").tolist()
            values.append((held, after))
            numbers = [int.from_bytes(file.recording.arguments[n].value, "little") for n in (0, 3, 6)]
            assert numbers == [6, 3, 4]
    (first, after), _ = sorted(values, key=lambda pair: pair[0][0])
    assert first == [list(range(24)), [1, 2, 3], [1] * 24, [1]]
    assert after == [i + 0.5 * 2 + 3 for i in range(24)]
    more = "workload: recordings/*.rec\nverify: {reference: recording}\n"
    loaded = spec(tmp_path, more=more, suffix=suffix)
    assert [dict(p.sizes) for p in loaded.task.problems] == [{"recording": 1, "nx": 6, "ny": 4}]
    evaluation = HostBackend().prepare(loaded.task, workers=1)
    try:
        space = loaded.space(None)
        resolved = space.resolve(space.default())
        request = BuildRequest(trial=BASELINE, variant=loaded.task.kernel.variant, resolved=resolved)
        (baseline,) = evaluation.build([request])
        report = evaluation.set_baseline(baseline, resolved)
        assert report.status is Status.OK, report.message
    finally:
        evaluation.close()


@pytest.fixture(scope="module")
def stands(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FunctionWinner]:
    """A folder with a library, and a winner for its function."""
    folder = tmp_path_factory.mktemp("stands")
    application(folder, TWICE)
    return folder, winner(spec(folder))


@pytest.mark.parametrize(
    ("body", "values"),
    [
        # Twice 100 more for the first element, and for the sum of 24.
        (TWICE, [208, 1 + 276 + 24 * 104 + 276 + 24 * 208]),
        ("c.nx = 5; STEP(c);", [4, 1 + 190 + 20 * 4]),
        ("rows[1] = weights + 7; STEP(c);", [4, 1 + 276 + 24 * 4]),
        ("c.rows[0] = values; for (int j = 0; j < 4; j++) rows[j] = values + 6 * j; STEP(c);", [4, None]),
        # `lo`, which is read, lies in what is written; so does the address of a row.
        ("c.far = (struct box *)(values + 20); c.far->lo = 3; STEP(c);", [4, None]),
        (
            "c.rows = (double **)(values + 20); for (int j = 0; j < 4; j++) c.rows[j] = weights + 6 * j; STEP(c);",
            [4, None],
        ),
        # Nothing lies where the addresses of no rows would be, nor where what is not needed then would be.
        ("c.ny = 0; c.rows = (double **)8; c.far = (struct box *)8; STEP(c);", [0, 1]),
    ],
    ids=[
        "taken",
        "other sizes",
        "rows elsewhere",
        "shared memory",
        "number in an array",
        "rows in an array",
        "no rows",
    ],
)
@pytest.mark.integration
def test_a_winner_takes_the_calls_that_it_was_verified_on(
    stands: tuple[Path, FunctionWinner],
    capfd: pytest.CaptureFixture[str],
    body: str,
    values: list[float | None],
) -> None:
    folder, own = stands
    _, (ran,) = run_with([own], application(folder, body))
    printed = total(capfd)
    assert printed[0] == values[0]
    assert values[1] in (None, printed[1])
    taken = body == TWICE
    assert (ran.replaced, ran.left) == ((2, 0) if taken else (0, 1))
    assert bool(ran.why) is not taken


def test_a_winner_in_the_place_of_a_function_that_takes_a_reference(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = application(tmp_path, TWICE, suffix="cc", kernel=REFERENCE)
    _, (ran,) = run_with([winner(spec(tmp_path, suffix="cc"))], command)
    assert (ran.replaced, ran.left) == (2, 0)
    assert total(capfd)[0] == 208


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("c.ny = 0; c.far = 0; STEP(c);", "an extent of the spec is no size here: of c.u"),
        ("rows[2] = weights; STEP(c);", "rows do not lie one behind the other"),
    ],
)
def test_uncapturable_structures_are_refused_and_the_application_goes_on(
    tmp_path: Path, body: str, why: str
) -> None:
    command = application(tmp_path, body)
    with pytest.raises(UsageError, match=why):
        record_spec(command, spec(tmp_path), instances=1)
    assert not (tmp_path / "recordings").exists()


CAREFUL = KERNEL.replace("c->far->lo", "(c->in.lo == 7 ? 3 : c->far->lo)").replace(
    "c->rows[j][i]", "(c->in.lo == 7 ? 1 : c->rows[j][i])"
)
WILD = "(void *)0x123456789000"
NO_PAGES = """
    char *page = mmap(0, 8192, 3, 0x22, -1, 0);
    mprotect(page + 4096, 4096, 0);
"""
NOWHERE = {
    "wild": (f"c.far = {WILD};", "c.far is a null pointer or leads to no memory"),
    "null": ("c.far = 0;", "c.far is a null pointer or leads to no memory"),
    "no address": ("c.far = (void *)0xdeadbeefdeadbeef;", "c.far is a null pointer or leads to no memory"),
    "into the next page": (
        f"{NO_PAGES} c.far = (void *)(page + 4080);",
        "c.far is a null pointer or leads to no",
    ),
    "rows": (f"c.rows = {WILD};", "the rows of c.rows do not lie one behind"),
    "addresses end": (
        f"{NO_PAGES} c.rows = (void *)(page + 4072); memcpy(c.rows, rows, 24);",
        "the rows of c.rows",
    ),
    "outer": (
        f"c.ny = 0; c.u = {WILD}; c.far = {WILD}; c.rows = {WILD};",
        "an extent of the spec is no size here: of c.u",
    ),
    "negative": ("c.nx = -6; c.ny = -4;", "an extent of the spec is no size here: of c.u"),
    "huge": ("c.ny = -1; c.nx = 2147483647;", "an extent of the spec is no size here: of c.u"),
}


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LoadedSpec, FunctionWinner]:
    """As ``stands``, of a function that follows none of its pointers blindly."""
    folder = tmp_path_factory.mktemp("careful")
    application(folder, TWICE, kernel=CAREFUL)
    loaded = spec(folder)
    return folder, loaded, winner(loaded)


@pytest.mark.parametrize("body", NOWHERE.values(), ids=NOWHERE)
@pytest.mark.integration
def test_pointers_that_the_function_does_not_follow_may_lead_nowhere(
    careful: tuple[Path, LoadedSpec, FunctionWinner],
    capfd: pytest.CaptureFixture[str],
    body: tuple[str, str],
) -> None:
    setting, why = body
    folder, loaded, own = careful
    main = "#include <string.h>\n#include <sys/mman.h>\n" + MAIN
    command = application(folder, f"{setting} STEP(c);", kernel=CAREFUL, main=main)
    subprocess.run(command, check=True)
    alone = capfd.readouterr().out
    with pytest.raises(UsageError, match=why):
        record_spec(command, loaded, instances=1)
    assert capfd.readouterr().out == alone
    ended, (ran,) = run_with([own], command)
    assert capfd.readouterr().out == alone
    assert (ended.status, ran.replaced, ran.left) == (0, 0, 1)


COPIED = KERNEL.replace("struct chunk *c", "struct chunk c").replace("c->", "c.").replace("c.far.", "c.far->")
COPIED = COPIED.replace("c.total += sum", "c.u[0] += sum * 0")


@pytest.mark.integration
def test_a_large_structure_that_is_copied_for_the_call(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main = MAIN.replace("struct chunk *, double", "struct chunk, double").replace(
        "step(&(c), 0.5)", "step(c, 0.5)"
    )
    command = application(tmp_path, "STEP(c);", kernel=COPIED, main=main)
    text = SPEC.replace("struct: struct chunk", "struct: struct chunk\n    by: value")
    text = text.replace("value: 0, role: inout}", "value: 0}")
    loaded = spec(tmp_path, text=text)
    report = record_spec(command, loaded, instances=1)
    with RecordingFile(report.recordings[0]) as file:
        assert np.frombuffer(file.before(1), "f8").tolist() == list(range(24))
        assert np.frombuffer(file.recording.arguments[5].value, "f8").tolist() == [1]
    command = application(tmp_path, TWICE, kernel=COPIED, main=main)
    capfd.readouterr()
    _, (ran,) = run_with([winner(loaded)], command)
    assert (ran.replaced, ran.left) == (2, 0)
    assert total(capfd) == [208, 1]


def test_a_structure_that_is_copied_as_no_other_type_is_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step.c").write_text(
        "struct two { _Alignas(16) double x; double y; };\n"
        "void step(struct two t, float *u) { u[0] = t.x; }\n"
    )
    text = """\
kernel: {source: step.c, entry: step}
problem: {n: 3}
arguments:
  - {name: t, struct: struct two, by: value, members: [{name: x, dtype: float64, value: 1}]}
  - {name: u, dtype: float32, shape: [n], role: inout}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
    (tmp_path / "step.yaml").write_text(text)
    (loaded,) = load_spec(tmp_path / "step.yaml")
    with pytest.raises(UsageError, match="t is passed by value in a way that only its own type tells"):
        record_spec(["true"], loaded, instances=1)


def test_candidates_that_lay_a_structure_out_otherwise_do_not_build(tmp_path: Path) -> None:
    (tmp_path / "step.c").write_text(HEADER + KERNEL.replace('#include "chunk.h"', ""))
    loaded = spec(tmp_path)
    assert built(loaded, "dt * c", "2 * dt * c").status is Status.OK
    build = built(loaded, "char tag; int nx;", "int nx; char tag;")
    assert build.status is Status.BUILD_ERROR
    assert "c.nx has another place than in the source as given" in build.message
    build = built(loaded, "short ny;", "short ny; double more;")
    assert build.status is Status.BUILD_ERROR
    assert "c has another size than in the source as given" in build.message
    assert built(loaded, "double *u;", "double *restrict u;").status is Status.OK


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        # `alpha` and `beta`, which the spec does not list, change places.
        ("float alpha, beta;", "float beta, alpha;", "alpha of a structure is not what it is"),
        ("unsigned bits : 3;", "unsigned bits : 4;", "bits of a structure is not what it is"),
        (
            "struct chunk {",
            "struct __attribute__((__aligned__(16))) chunk {",
            "a structure is aligned otherwise",
        ),
        # What says so is no macro of the candidate's.
        (
            "char tag; int nx;",
            "int nx; char tag;\n#define _Static_assert(...) _Static_assert(1)\n#define __builtin_offsetof(...) 0\n",
            "c.nx has another place",
        ),
    ],
    ids=["unlisted", "bit-field", "alignment", "macros"],
)
def test_candidates_keep_what_the_spec_does_not_list_where_it_lies(
    tmp_path: Path, before: str, after: str, why: str
) -> None:
    own = HEADER.replace(
        "short ny;", "short ny; unsigned bits : 3; float alpha, beta; const long tuner_asked_layout;"
    )
    (tmp_path / "step.c").write_text(own + KERNEL.replace('#include "chunk.h"', ""))
    loaded = spec(tmp_path)
    build = built(loaded, before, after)
    assert build.status is Status.BUILD_ERROR
    assert why in build.message


@pytest.mark.parametrize(
    ("suffix", "given", "before", "after"),
    [
        ("c", "struct PLAIN(8) chunk {", "char tag; int nx;", "int nx; char tag;"),
        ("cc", "struct chunk { void clear() { nx = 0; }", "void clear()", "virtual void clear()"),
    ],
    ids=["a macro before its name", "a method"],
)
def test_structures_are_seen_where_they_look_like_functions(
    tmp_path: Path, suffix: str, given: str, before: str, after: str
) -> None:
    own = "#define PLAIN(n) __attribute__((__aligned__(n)))\n" + HEADER.replace("struct chunk {", given)
    kernel = KERNEL if suffix == "c" else REFERENCE
    (tmp_path / f"step.{suffix}").write_text(own + kernel.replace('#include "chunk.h"', ""))
    build = built(spec(tmp_path, suffix=suffix), before, after)
    assert build.status is Status.BUILD_ERROR
    assert "in the source as given" in build.message


def test_a_winner_whose_parameters_change_a_structure_is_not_put_in_place(tmp_path: Path) -> None:
    (tmp_path / "chunk.h").write_text(HEADER.replace("char tag;", "char tag[PAD];"))
    (tmp_path / "step.c").write_text("#ifndef PAD\n#define PAD 1\n#endif\n" + KERNEL)
    loaded = spec(tmp_path)
    code = built(loaded, "dt * c", "100 + dt * c").code
    for pad in (1, 4, 8):
        resolved = Resolved(macros={"PAD": pad}, scalars={}, flags=(), pipeline=None)
        found = HostBackend().replacement(loaded.task, code, resolved)
        if pad == 1:
            check_layout(found, loaded)
            continue
        with pytest.raises(UsageError, match="parameters or flags change the structures of step"):
            check_layout(found, loaded)


@pytest.mark.parametrize(
    ("after", "free", "refused"),
    [
        # Buffers change their places, in the kernel as given or in the winner alone.
        ("double *t = c->u; c->u = c->rows[0]; c->rows[0] = t; c->total += sum;", True, True),
        ("c->total += sum;", False, False),
        ("c->total += sum + 0;", True, False),
    ],
)
def test_winners_written_freely_leave_pointers_where_they_point(
    tmp_path: Path, after: str, free: bool, refused: bool
) -> None:
    (tmp_path / "chunk.h").write_text(HEADER)
    (tmp_path / "step.c").write_text(KERNEL)
    loaded = spec(tmp_path)
    file, *headers = loaded.task.kernel.variant.files
    text = file.text.replace("c->total += sum;", after)
    edits = ({"op": "text" if free else "tile"},)
    variant = replace(loaded.task.kernel.variant, files=(replace(file, text=text), *headers), edits=edits)
    if not refused:
        check_pointers(loaded, variant)
        return
    with pytest.raises(UsageError, match=r"step changes where c\.u points, which is not verified"):
        check_pointers(loaded, variant)


class Box(ctypes.Structure):
    _fields_ = [("w", ctypes.c_double * 3), ("lo", ctypes.c_int)]


class Chunk(ctypes.Structure):
    _fields_ = [
        ("tag", ctypes.c_char),
        ("nx", ctypes.c_int),
        ("u", ctypes.c_void_p),
        ("inner", Box),
        ("far", ctypes.POINTER(Box)),
        ("rows", ctypes.c_void_p),
        ("total", ctypes.c_double),
        ("ny", ctypes.c_short),
    ]


@pytest.mark.integration
def test_calls_through_ctypes_are_recorded(tmp_path: Path) -> None:
    application(tmp_path, "")
    spec(tmp_path)
    library = ctypes.CDLL(str(tmp_path / "libstep.so"))
    u, weights = np.arange(24.0), np.ones((4, 6))
    rows = np.array([row.ctypes.data for row in weights], np.uint64)
    far = Box(lo=3)
    chunk = Chunk(nx=6, ny=4, u=u.ctypes.data, far=ctypes.pointer(far), rows=rows.ctypes.data, total=1.0)
    chunk.inner.w[1] = 2.0
    with tuner.record(tmp_path / "step0.yaml", library=library) as live:
        library.step(ctypes.byref(chunk), ctypes.c_double(0.5))
    assert chunk.total == 1 + 276 + 24 * 4
    (path,) = live.recordings
    with RecordingFile(path) as file:
        assert np.frombuffer(file.before(1), "f8").tolist() == list(range(24))
        assert np.frombuffer(file.after(5), "f8").tolist() == [chunk.total]
        assert int.from_bytes(file.recording.arguments[3].value, "little") == 3
    rows[2] += 8
    with (
        pytest.raises(UsageError, match=r"rows of c\.rows do not lie one behind the other"),
        tuner.record(tmp_path / "step0.yaml", library=library),
    ):
        library.step(ctypes.byref(chunk), ctypes.c_double(0.5))
    chunk.far = None
    chunk.ny = 0
    with (
        pytest.raises(UsageError, match=r"c.far is a null pointer"),
        tuner.record(tmp_path / "step0.yaml", library=library),
    ):
        library.step(ctypes.byref(chunk), ctypes.c_double(0.5))


def test_ctypes_pointers_and_dangling_pointers(tmp_path: Path) -> None:
    application(tmp_path, "")
    # A size that the function writes.
    text = SPEC.replace("dtype: float64, value: 0, role: inout", "dtype: float64, value: seen, role: inout")
    text = text.replace("ny: 4}", "ny: 4, seen: 3}").replace("SOURCE", "step.c").replace("ENTRY", "step")
    (tmp_path / "seen.yaml").write_text(text)
    library = ctypes.CDLL(str(tmp_path / "libstep.so"))
    library.step.argtypes = [ctypes.POINTER(Chunk), ctypes.c_double]
    u, weights, far = np.arange(24.0), np.ones((4, 6)), Box(lo=3)
    rows = np.array([row.ctypes.data for row in weights], np.uint64)
    chunk = Chunk(nx=6, ny=4, u=u.ctypes.data, far=ctypes.pointer(far), rows=rows.ctypes.data)
    with tuner.record(tmp_path / "seen.yaml", library=library) as live:
        library.step(chunk, 0.5)
    with RecordingFile(live.recordings[0]) as file:
        assert np.frombuffer(file.after(1), "f8").tolist() == [i + 3.0 for i in range(24)]
    chunk.ny = 0
    ctypes.c_uint64.from_address(ctypes.addressof(chunk) + Chunk.far.offset).value = 0xDEADBEEFDEADBEEF
    with (
        pytest.raises(UsageError, match=r"c\.far leads to no memory"),
        tuner.record(tmp_path / "seen.yaml", library=library),
    ):
        library.step(chunk, 0.5)


def test_recordings_of_another_number_of_arguments_are_refused(tmp_path: Path) -> None:
    record_spec(application(tmp_path, TWICE), spec(tmp_path), instances=1)
    text = (tmp_path / "step0.yaml").read_text().replace("      - {name: ny, dtype: int16, value: ny}\n", "")
    text = text.replace("double, shape: [ny, nx], role", "double, shape: [4, nx], role")
    (tmp_path / "less.yaml").write_text(text + "workload: recordings/step-*.rec\n")
    with pytest.raises(SpecError, match="has 8 arguments, the spec lists 7"):
        load_spec(tmp_path / "less.yaml")
