"""Kernels that find their arrays and numbers in global variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import BASELINE, BuildRequest, Resolved, Source, Status, Task, Variant, Verdict
from tuner.driver.check import check_spec
from tuner.evaluators.host.backend import HostBackend, symbol_of
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import init_spec
from tuner.spec.load import LoadedSpec, load_spec

TEXT = """
typedef float number;
number a[ROWS][COLS] __attribute__((aligned(64)));
static number b[ROWS][COLS];
int steps = 3;
double total;
static const float weights[2] = {0.5f, 0.25f};
volatile int seen[4];
double *elsewhere;

void add(int n) {
    for (int t = 0; t < steps; t++)
        for (int j = 0; j < COLS; j++)
            for (int i = 0; i < n; i++)
                a[i][j] += b[i][j] * weights[t & 1];
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i][0];
    total = sum;
}
"""
SPEC = """
kernel: {source: k.FILE, entry: add}
problem: {n: 33}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: a, global: true, dtype: float32, shape: [33, 20], role: inout}
  - {name: b, global: true, dtype: float32, shape: [33, 20]}
  - {name: steps, global: true, dtype: int32, value: 3}
  - {name: total, global: true, dtype: float64, value: 0, role: output}
space: {source: {evolve: true}, passes: off}
verify: {problems: [{n: 7}]}
"""


def spec_of(folder: Path, *changes: tuple[str, str], suffix: str = "c") -> LoadedSpec:
    (folder / f"k.{suffix}").write_text(TEXT.replace("ROWS", "33").replace("COLS", "20"))
    text = SPEC.replace("FILE", suffix)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "k.yaml").write_text(text)
    return load_spec(folder / "k.yaml")[0]


@pytest.fixture
def evaluation(tmp_path: Path) -> Iterator[tuple[Task, HostEvaluation]]:
    task = spec_of(tmp_path).task
    made = HostBackend().prepare(task, workers=1)
    yield task, made
    made.close()


def verdicts(given: tuple[Task, HostEvaluation], changes: Sequence[tuple[str, str]]) -> list[Verdict]:
    """What is said of variants, each with one change of the source."""
    task, evaluation = given
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    text = task.kernel.variant.files[0].text
    texts = [text, *(text.replace(old, new) for old, new in changes)]
    assert all(changed != text for changed in texts[1:])
    requests = [
        BuildRequest(trial=i, variant=Variant(files=(Source(name="k.c", text=t),)), resolved=resolved)
        for i, t in enumerate(texts)
    ]
    first = evaluation.build(requests[:1])[0]
    report = evaluation.set_baseline(first, resolved)
    assert report.status is Status.OK, report.message
    found = []
    for build in evaluation.build(requests[1:]):
        assert build.status is Status.OK, build.message
        session = evaluation.open(build, resolved, purpose="search", number=0)
        found.append(session.verify())
        session.close()
    return found


@pytest.mark.integration
@pytest.mark.parametrize("suffix", ["c", "cc"])
def test_changes_of_global_variables_are_verified(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.driver.faults.MOST_FAULTS", 2)
    report = check_spec(spec_of(tmp_path, suffix=suffix))
    assert report.ok, report.lines
    number, _, planted, *_ = dict(report.lines)["faults"].split()
    assert int(number) == int(planted) == 2


@pytest.mark.integration
def test_variables_are_guarded_and_compared_as_arrays_are(
    evaluation: tuple[Task, HostEvaluation],
) -> None:
    good, past, before, writes, missed, other = verdicts(
        evaluation,
        [
            ("sum = 0;", "sum = 0; sum += 0;"),
            ("total = sum;", "total = sum; if (n == 33) (&a[0][0])[20 * n] = 0;"),
            ("total = sum;", "total = sum + (&b[0][0])[-400];"),
            ("total = sum;", "total = sum; b[0][0] = 0;"),
            ("total = sum;", ""),
            ("t & 1", "0"),
        ],
    )
    assert good.status is Status.OK, good.message
    assert past.status is Status.WRONG_RESULT
    assert "writes byte 1 past the end of a in" in past.message
    assert (before.status, "before the start of b" in before.message) == (Status.CRASHED, True), before
    assert (writes.status, writes.message.split(" in ")[0]) == (
        Status.WRONG_RESULT,
        "SIGSEGV: writes to input b",
    )
    assert missed.status is Status.WRONG_RESULT
    assert missed.message.startswith("total[0] is nan")
    assert other.status is Status.WRONG_RESULT
    assert other.message.startswith("a[")


def test_every_call_finds_its_own_values(evaluation: tuple[Task, HostEvaluation]) -> None:
    task, made = evaluation
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    build = made.build([BuildRequest(trial=BASELINE, variant=task.kernel.variant, resolved=resolved)])[0]
    assert made.set_baseline(build, resolved).status is Status.OK
    session = made.open(build, resolved, purpose="search", number=0)
    assert session.verify().status is Status.OK
    measured = session.measure(problem=0, calls=6)
    session.close()
    # Outputs are compared after every window, and what is added to is as it was before each.
    assert measured.status is Status.OK, measured.message
    assert len(measured.times_s) == 6
    assert np.isfinite(measured.times_s).all()


def test_operators_see_the_arrays_of_the_file(tmp_path: Path) -> None:
    kernel = spec_of(tmp_path).task.kernel
    function = read_program(kernel).functions["add"]
    assert {d.name: d.type for d in function.variables} == {"a": "float", "b": "float", "weights": "float"}
    site = {"loops": ["j", "i"]}
    assert site in list(OPERATORS["interchange"].sites(function, False))
    OPERATORS["interchange"].apply(function, site)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("name: b,", "name: c,"), "'c' is no global variable of k.c"),
        (("float32, shape: [33, 20]}", "float64, shape: [33, 20]}"), "but the spec says float64"),
        (("float32, shape: [33, 20]}", "float32, shape: [33, 21]}"), "but the spec gives 693 elements"),
        (("float32, shape: [33, 20]}", "float32, shape: [n, 20]}"), "the global 'b' has the size 'n'"),
        (("name: b,", "name: weights,"), "which nothing can write"),
        (("name: b,", "name: elsewhere,"), "the global 'elsewhere' is the pointer `double *` in the source"),
        (
            ("value: 0, role: output}", "value: 0, role: output}\n  - {name: m, dtype: int32, value: 1}"),
            "argument 'm' stands behind a global",
        ),
        (("dtype: int32, value: 3", "by: pointer, dtype: int32, value: 3"), "'steps' cannot be global"),
    ],
)
def test_a_variable_that_the_source_does_not_have_is_refused(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as error:
        spec_of(tmp_path, change)
    assert message in str(error.value)
    assert error.value.place is not None


POINTED = """
#include <stdlib.h>
static double (*u)[COLS] = (double (*)[COLS])malloc(sizeof(double) * 40 * COLS);
double *line;
bool timed;
static int shift;
static double scale(double x) { return x * line[0] + shift; }
void step(int n) {
    if (timed) abort();
    for (int j = 0; j < COLS; j++)
        for (int i = 1; i < n; i++)
            u[i][j] = u[i - 1][j] + scale(line[j]);
}
"""


@pytest.mark.integration
def test_pointers_lead_to_arguments(tmp_path: Path) -> None:
    (tmp_path / "k.cc").write_text(POINTED.replace("COLS", "20"))
    text = init_spec(tmp_path / "k.cc", entry="step")
    for line in (
        "{name: u, global: pointer, dtype: float64, shape: [40, 20], role: inout,",
        "{name: line, global: pointer, dtype: float64, shape: [20],",
        "{name: timed, global: true, dtype: bool, value: 0}",
        "{name: shift, global: true, dtype: int32, value: 1}",
    ):
        assert line in text
    assert "problem: {n: 40}" in text
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    # What is computed when the file is loaded is computed by nobody, and imports nothing.
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    function = read_program(spec.task.kernel).functions["step"]
    assert {d.name: d.type for d in function.variables} == {"u": "double *", "line": "double *"}


@pytest.mark.parametrize(
    ("name", "what"), [("u", "true"), ("timed", "pointer")], ids=["is a pointer", "is none"]
)
def test_a_pointer_is_called_one(name: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "k.cc").write_text(POINTED.replace("COLS", "20"))
    text = init_spec(tmp_path / "k.cc", entry="step")
    kind = "pointer" if what == "true" else "true"
    text = text.replace(f"name: {name}, global: {kind}", f"name: {name}, global: {what}")
    (tmp_path / "k.yaml").write_text(text)
    with pytest.raises(SpecError, match=f"write global: {kind}"):
        load_spec(tmp_path / "k.yaml")


def test_a_first_spec_lists_what_a_kernel_and_its_callees_use(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        TEXT.replace("ROWS", "33").replace("COLS", "20")
        + "static void clear(void) { for (int i = 0; i < 4; i++) b[i][i] = elsewhere[0]; }\n"
        + "void both(void) { clear(); a[0][0] = b[0][0]; }\n"
    )
    text = init_spec(tmp_path / "k.c", entry="both")
    assert "{name: a, global: true, dtype: float32, shape: [33, 20], role: output}" in text
    assert "{name: b, global: true, dtype: float32, shape: [33, 20], role: inout," in text
    assert "{name: elsewhere, global: pointer, dtype: float64, shape: [1]," in text
    assert "weights" not in text
    (tmp_path / "k.yaml").write_text(text)
    assert load_spec(tmp_path / "k.yaml")


SCRATCH = """static double x, y, *p, c = 2;
static double a[64], b[64];
static double other(int i) { x = a[i]; return x * y; }
void f(int n)
{
    for (int i = 0; i < n; i++) {
        x = b[i] * c;
        y = x + 1;
        a[i] = x * y;
    }
}
"""


@pytest.mark.parametrize(
    ("before", "after", "listed"),
    [
        ("", "", "y"),
        ("y = x + 1;", "", "y"),
        ("return x * y;", "return x;", ""),
        ("return x * y;", "y = x++; return y;", ""),
        ("x = a[i]; ", "", "xy"),
        ("return x * y;", "y = 1; p = &x; return *p * y;", "x"),
        ("return x * y;", "if (i) y = 1; return y;", "y"),
        ("static double x, y", "double x; static double y", "xy"),
        ("return x * y;", "void f(int); y = 1; f(i); return y;", "xy"),
    ],
)
def test_scratch_of_a_file_is_no_argument(before: str, after: str, listed: str, tmp_path: Path) -> None:
    """What no function gets from another one; compilers store none of it."""
    (tmp_path / "k.c").write_text(SCRATCH.replace(before, after))
    text = init_spec(tmp_path / "k.c", entry="f")
    assert [name for name in "xy" if f"name: {name}, global" in text] == list(listed)
    assert "name: c, global: true" in text


def test_no_winner_takes_the_place_of_a_function_with_variables(tmp_path: Path) -> None:
    kernel = spec_of(tmp_path).task.kernel
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    with (
        HostCompiler(find_toolchain()) as compiler,
        pytest.raises(UsageError, match="finds a in a global variable"),
    ):
        symbol_of(compiler, kernel, resolved)


KEPT = """
static double counted(double x) { static int calls; return x + calls++; }
double k(const double *a, int n)
{
    static const double by[2] = {1, 2};
    static double acc;
    for (int i = 0; i < n; i++) acc += by[i & 1] * counted(a[i]);
    return acc;
}
"""


def test_what_a_function_keeps_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KEPT)
    text = init_spec(tmp_path / "k.c", entry="k")
    says = "keeps its value from call to call, and no argument stands for it"
    assert f"# check: the static variable acc of k (line 6, `double`) {says}\n" in text
    assert f"# check: the static variable calls of counted (line 2, `int`) {says}\n" in text
    assert "by of k" not in text
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert f"kernel: the static variable acc of k (line 6, `double`) {says}" in spec.notices


@pytest.mark.integration
def test_a_baseline_that_keeps_a_value_says_so(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(KEPT)
    (tmp_path / "k.yaml").write_text(init_spec(tmp_path / "k.c", entry="k"))
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=0)
    assert not report.ok
    assert any("a `static` variable of a function is no argument" in text for _, text in report.lines)
    assert any("static variable acc" in text for text in report.warnings)
