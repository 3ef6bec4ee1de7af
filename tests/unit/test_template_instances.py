"""``entry: "axpy<float, WIDTH>"`` of C++ on the host: instances of templates, over their parameters and variants."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from spec_files import spec_in

from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.core.types import BuildRequest, Status
from tuner.driver.applications.recording import record_spec
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.driver.runs import begin
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

KERNEL = """
namespace far {
template <typename T, int UNROLLED>
void axpy(int n, T a, const T *x, T *__restrict y)
{
    for (int i = 0; i < n; i += UNROLLED)
        for (int j = 0; j < UNROLLED; j++)
            if (i + j < n) y[i + j] = a * x[i + j] + y[i + j];
}
template <class T> T total(int n, const T *x) { T s = 0; for (int i = 0; i < n; i++) s += x[i]; return s; }
inline void plain(int n, float *x) { for (int i = 0; i < n; i++) x[i] = 1; }
}
"""
SPEC = """\
kernel: {source: k.cpp, entry: "far::axpy<float, WIDTH>"}
problem: {n: 500}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: a, dtype: float32, value: 1.5}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: inout}
space:
  parameters: {WIDTH: [1, 2, 4]}
  passes: off
verify: {problems: [{n: 67}]}
"""


def spec_of(folder: Path, text: str = SPEC, kernel: str = KERNEL) -> LoadedSpec:
    return spec_in(folder, "k.cpp", kernel, text)


def test_each_value_of_a_parameter_is_an_instance_of_its_own(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path)
    task, space = loaded.task, loaded.space(None)
    assert (task.kernel.wrapped, task.kernel.entry) == ("far::axpy", "axpy_instance")
    assert task.kernel.variant.files[0].text == KERNEL
    assert loaded.notices == ()
    requests = [
        BuildRequest(trial=i, variant=task.kernel.variant, resolved=space.resolve({"WIDTH": width}))
        for i, width in enumerate((1, 2, 4))
    ]
    evaluation = HostBackend().prepare(task, workers=1)
    try:
        builds = evaluation.build(requests)
        report = evaluation.set_baseline(builds[0], requests[0].resolved)
        assert report.status is Status.OK, report.message
        assert report.reference == "float64"
        assert len({build.key for build in builds}) == 3
        for build, request in zip(builds, requests, strict=True):
            session = evaluation.open(build, request.resolved, purpose="search", number=0)
            try:
                assert session.verify().status is Status.OK
            finally:
                session.close()
        other = evaluation.build_with(["clang++", "-O2"], requests[0].resolved)
        assert other.status is Status.OK, other.message
    finally:
        evaluation.close()


def test_its_value_is_verified(tmp_path: Path) -> None:
    text = (
        'kernel: {source: k.cpp, entry: "far::total<double>", returns: float64}\nproblem: {n: 100}\narguments:\n'
        "  - {name: n, dtype: int32, value: n}\n  - {name: x, dtype: float64, shape: [n]}\n"
        'space: {flags: {math: ["", "-ffast-math"]}, passes: off}\n'
    )
    loaded = spec_of(tmp_path, text)
    space = loaded.space(None)
    evaluation = HostBackend().prepare(loaded.task, workers=1)
    try:
        resolved = space.resolve(space.default())
        (build,) = evaluation.build(
            [BuildRequest(trial=0, variant=loaded.task.kernel.variant, resolved=resolved)]
        )
        report = evaluation.set_baseline(build, resolved)
    finally:
        evaluation.close()
    assert report.status is Status.OK, report.message
    assert set(report.own_error) == {"return"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("axpy<float, WIDTH>", "axpi<float, WIDTH>", "has no function 'far::axpi'"),
        ("axpy<float, WIDTH>", "plain<float>", "'far::plain' is no template"),
        ("axpy<float, WIDTH>", "axpy<float>", "cannot be called as the spec says: .*no matching function"),
        ("axpy<float, WIDTH>", "axpy<floot, WIDTH>", "cannot be called as the spec says: .*floot"),
        ("axpy<float, WIDTH>", "axpy<float, WIDTH", "is no instance of a template"),
        ("axpy<float, WIDTH>", "axpy<float, WIDTH>; int x", "is no instance of a template"),
        (
            "x, dtype: float32",
            "x, dtype: float64",
            "cannot be called as the spec says: .*no matching function",
        ),
        ("x, dtype: float32", "x, dtype: complex64", "x is complex64, which C\\+\\+ writes in several ways"),
    ],
)
def test_mistakes_are_one_line_at_the_entry(tmp_path: Path, old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        spec_of(tmp_path, SPEC.replace(old, new))
    assert caught.value.place is not None
    assert caught.value.place.line == 1
    assert "\n" not in str(caught.value)


def test_a_macro_with_the_name_of_a_template_s_parameter(tmp_path: Path) -> None:
    with pytest.raises(BaselineError) as caught:
        spec_of(tmp_path, kernel=KERNEL.replace("UNROLLED", "WIDTH"))
    assert caught.value.hint.endswith("rename one of them")


def test_the_name_of_the_function_that_calls_it_is_free(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path, kernel=KERNEL + "int axpy_instance;\n")
    assert loaded.task.kernel.entry == "axpy_instance_"


@pytest.mark.integration
def test_the_template_s_own_text_evolves_and_is_exported(tmp_path: Path) -> None:
    loaded = spec_of(tmp_path, SPEC.replace("passes: off", "passes: off\n  source: {evolve: true}"))
    kernel = loaded.task.kernel
    program = read_program(kernel)
    assert set(program.functions) == {"axpy"}
    applied = apply_edits(program, [{"function": "axpy", "op": "reverse", "loop": "j"}])
    assert "j--" in applied.variant.files[0].text.replace("j -= 1", "j--")
    assert kernel.wrapper not in applied.variant.files[0].text
    begin(loaded, tmp_path / "a.run", Options(evaluations=2))
    assert load_recorded(loaded.text, loaded.files, folder=str(tmp_path)).task.kernel == kernel
    export(tmp_path / "a.run", tmp_path / "build")
    assert "far::axpy<float, WIDTH>(a0, a1, a2, a3);" in (tmp_path / "build" / "k.cpp").read_text()
    words = [find_toolchain().clang, "-fsyntax-only", "-DWIDTH=2", str(tmp_path / "build" / "k.cpp")]
    assert subprocess.run(words, check=False).returncode == 0


def test_an_application_s_own_instances_are_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="far::axpy is a template") as caught:
        record_spec(["true"], spec_of(tmp_path), instances=1)
    assert 'extern "C"' in caught.value.hint


ROWS = """
namespace far {
template <typename T, int N> void axpy(T a, const T *x, T *y, int m)
{
    for (int r = 0; r < m; r++)
        for (int i = 0; i < N; i++) y[r * N + i] += a * x[i];
}
template void axpy<double, 32>(double, const double *, double *, int);
}
"""


def first_of(folder: Path, text: str, entry: str | None = None) -> LoadedSpec:
    """The first spec of a source, as it is loaded."""
    (folder / "k.cpp").write_text(text)
    found = first_spec(folder / "k.cpp", entry=entry)
    assert not found.beside
    (folder / "k.yaml").write_text(found.text)
    (spec,) = load_spec(folder / "k.yaml")
    return spec


@pytest.mark.parametrize(
    ("entry", "dtype", "width"),
    [(None, "float64", "32"), ("far::axpy", "float64", "32"), ("far::axpy<float,4>", "float32", "4")],
)
def test_a_first_spec_has_the_instance_that_there_is_or_that_is_named(
    tmp_path: Path, entry: str | None, dtype: str, width: str
) -> None:
    spec = first_of(tmp_path, ROWS, entry)
    assert spec.task.kernel.function == "far::axpy"
    found = {a.name: (a.dtype, [str(e) for e in a.shape or ()]) for a in spec.task.arguments}
    assert found["x"] == (dtype, [width])
    assert found["y"] == (dtype, ["m", width])
    assert list(read_program(spec.task.kernel).functions) == ["axpy"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("axpy", "several instances of axpy; choose with --entry: 'axpy<double, 32>', 'axpy<float, 8>'"),
        ("axpy<float, 4>", "k.cpp makes no instance 'axpy<float, 4>'; its name with namespaces"),
    ],
)
def test_instances_are_chosen_by_their_arguments(tmp_path: Path, entry: str, says: str) -> None:
    with pytest.raises(UsageError) as raised:
        first_of(tmp_path, ROWS + "void use(float *x) { far::axpy<float, 8>(1, x, x, 2); }\n", entry)
    assert says in str(raised.value)


def test_an_instance_that_takes_references(tmp_path: Path) -> None:
    kernel = (
        "template <typename T, int N> T total(const T (&w)[N][2], T &sum, T *x, float (*y)[4], long n)\n"
        "{ for (long i = 0; i < n; i++) { x[i] *= w[i % N][1]; sum += x[i]; y[i][2] += 1; } return sum; }\n"
        "template double total<double, 3>(const double (&)[3][2], double &, double *, float (*)[4], long);\n"
    )
    (tmp_path / "k.cpp").write_text(kernel)
    made = first_spec(tmp_path / "k.cpp").text
    assert 'entry: "total<double, 3>"' in made
    assert "{name: w, dtype: float64, shape: [3, 2], init: normal}" in made
    (tmp_path / "k.yaml").write_text(made)
    assert load_spec(tmp_path / "k.yaml")
    (tmp_path / "k.yaml").write_text(made.replace("name: w, dtype: float64", "name: w, dtype: float32"))
    with pytest.raises(SpecError, match=r"cannot be called as the spec says: .*no matching"):
        load_spec(tmp_path / "k.yaml")
