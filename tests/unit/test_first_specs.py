"""Small files as people write them: a first spec that checks and tunes, or one line that says why not.

The files lie in ``tests/first_specs``; what is refused is named here with what the line has to say.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest
import yaml
from smaller_problem import smaller_problem
from typer.testing import CliRunner

from tuner.cli.main import app
from tuner.core.errors import BaselineError, SpecError, UsageError
from tuner.driver.check import check_spec
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec

FOLDER = Path(__file__).resolve().parents[1] / "first_specs"
FILES = sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".c", ".cpp", ".cl", ".cu"))

REFUSED = {
    "vector_reference.cpp": "a reference: `const std::vector<float> &`",
}
RUN_WITH = {".cu": needs.nvrtc, ".cl": needs.pocl}
"""What files of a kind are compiled or run with, by their suffix."""

READ = ("particles.cl", "pixels.cl", "particles.cu", "reduce_template.cu")
"""What is read, and of which others say that such kernels run: ``nbody.cl`` of ``test_init_table.py``."""

READ_TOO = (
    *("stencil3d.cl", "stencil_namespace.cu", "gemm_include.c"),
    *("convolve.c", "nbody_aos.c", "butterfly.c", "histogram.c"),
)
"""More of them, with shapes that are known: others here run with a device, a namespace, a header, and loops of C."""

LEAST = 20
"""Files that have to pass, of all: fewer would say nothing of what people have."""

UNEDITED = {"half_scale.c", "saxpy_main.cu"}
"""What is checked at the very sizes that a first spec has: one of the host, one of a device."""

SHAPES = {
    "convolve.c": {
        "image": "height, width",
        "weights": "2 * RADIUS + 1, 2 * RADIUS + 1",
        "out": "height, width",
    },
    "nbody_aos.c": {"bodies": "n, 4", "acc": "n, 3"},
    "stencil3d.cl": {"u": "nz, ny, nx", "v": "nz, ny, nx"},
    "stencil_namespace.cu": {"in": "n", "out": "n"},
    "gemm_include.c": {"a": "m, k", "b": "k, n", "c": "m, n"},
    "butterfly.c": {"x": "2 * half", "w": "half"},
    "histogram.c": {"data": "n", "bins": "256"},
    "stencil_class.cpp": {"in": "ny, nx", "out": "ny, nx"},
    "particles.cl": {"p": "n, 8"},
    "pixels.cl": {"src": "n, 4", "dst": "n, 4", "w": "n, 8", "u": "n, 2"},
    "particles.cu": {"particles": "n, 6"},
    "particles_mixed.c": {"p": "n"},
    "pointer_table.c": {"table": "rows, cols", "sums": "rows"},
    "sparse_rows.cpp": {
        "A.entry": "rows, 16",
        "A.column": "rows, 16",
        "A.diagonal": "rows, 1",
        "x.values": "rows",
    },
    "dot_references.cpp": {"x.values": "n", "result": "1", "most": "1", "finished": "1"},
}


def first(name: str, folder: Path) -> Path:
    """The first spec of a file, written where the file and its headers are copied to."""
    for path in (FOLDER / name, *FOLDER.glob("*.h")):
        shutil.copy(path, folder)
    made = first_spec(folder / name)
    for other, text in made.beside.items():
        (folder / other).write_text(text)
    spec = folder / "first.yaml"
    spec.write_text(made.text)
    return spec


def loaded(name: str, folder: Path) -> LoadedSpec:
    (spec,) = load_spec(first(name, folder))
    return spec


def quick(name: str, folder: Path) -> Path:
    """The first spec of a file, in which nothing is changed but its sizes."""
    spec = first(name, folder)
    if name not in UNEDITED:
        spec.write_text(smaller_problem(spec.read_text()))
    return spec


def passing() -> Iterator[str]:
    yield from (name for name in FILES if name not in REFUSED)


def test_most_files_have_a_first_spec() -> None:
    assert len(list(passing())) >= LEAST
    assert len(REFUSED) / len(FILES) < 0.1


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.integration
def test_refusals_are_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        first(name, tmp_path)
    assert REFUSED[name] in raised.value.message
    assert raised.value.hint.startswith("write a function that takes")
    assert "\n" not in str(raised.value)


def test_references_become_arguments(tmp_path: Path) -> None:
    """One that is only written is an output, one that is read first is both, a size is passed by its address."""
    arguments = {a.name: a for a in loaded("dot_references.cpp", tmp_path).task.arguments}
    roles = {name: str(arguments[name].role) for name in ("result", "most", "finished")}
    assert roles == {"result": "output", "most": "inout", "finished": "output"}
    assert arguments["n"].by_pointer


PASSED_ON = """
struct Body { double x, v; };
static void two(double &a, double &b) { double t = a; a = b; b = t; }
static void deeper(double &a, double &b) { two(a, b); }
static double &pick(double &a, double &b, bool first) { return first ? a : b; }
void swaps(int n, double *x, double &a) { for (int i = 0; i + 1 < n; i += 2) deeper(x[i], a); }
void picks(int n, double *x, double &a) { for (int i = 0; i < n; i++) pick(a, x[i], i & 1) += 1; }
void address(int n, const double *x, double &a) { double *p = &a; for (int i = 0; i < n; i++) *p += x[i]; }
void another(int n, double *x, double &a)
{ double &b = a; for (int i = 0; i < n; i++) { double &e = x[i]; b += e; e = 1; } }
void bodies(int n, Body *x, double &a) { for (int i = 0; i < n; i++) { Body &b = x[i]; b.x += b.v; a = b.x; } }
"""


@pytest.mark.parametrize(
    ("entry", "x", "a"),
    [
        ("swaps", "inout", "inout"),
        ("picks", "inout", "inout"),
        ("address", "input", "inout"),
        ("another", "inout", "inout"),
        ("bodies", "inout", "output"),
    ],
)
def test_references_passed_on_or_renamed(entry: str, x: str, a: str, tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(PASSED_ON)
    (tmp_path / "k.yaml").write_text(first_spec(tmp_path / "k.cpp", entry=entry).text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    roles = {one.name: str(one.role) for one in spec.task.arguments}
    shapes = {one.name: str(one.shape[0]) for one in spec.task.arguments if one.shape}
    assert (roles["x"], roles["a"]) == (x, a)
    assert shapes == {"x": "n", "a": "1"}


def test_a_part_of_the_problem_is_no_tunable(tmp_path: Path) -> None:
    """Another radius is another filter."""
    assert [p.name for p in loaded("convolve.c", tmp_path).tunables.parameters] == []


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("namespaced.cpp", "physics::energy"),
        ("reduce_template.cu", "reduce<float, ARG_BLOCK>"),
    ],
)
def test_entries(name: str, entry: str, tmp_path: Path) -> None:
    assert loaded(name, tmp_path).task.kernel.entry == entry


@pytest.mark.integration
@pytest.mark.usefixtures("guessed_sizes")
def test_a_template_gets_a_function_that_calls_it(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "template_tiled.cpp", tmp_path)
    done = CliRunner().invoke(app, ["init", str(tmp_path / "template_tiled.cpp")])
    assert done.exit_code == 0, done.output
    wrapper = (tmp_path / "template_tiled_instance.cpp").read_text()
    assert '#include "template_tiled.cpp"' in wrapper
    assert "blas::transpose<float, ARG_TILE>(in, out, rows, cols);" in wrapper
    (spec,) = load_spec(tmp_path / "template_tiled.yaml")
    assert [(p.name, p.default) for p in spec.tunables.parameters] == [("ARG_TILE", 16)]
    again = CliRunner().invoke(
        app, ["init", str(tmp_path / "template_tiled.cpp"), "-o", str(tmp_path / "b.yaml")]
    )
    assert isinstance(again.exception, UsageError)
    assert "template_tiled_instance.cpp exists already" in str(again.exception)


TUNED = ("template_tiled.cpp", "fixed_group.cl")
"""What is tuned, of which the baseline is verified as by a check."""


def has_shapes(name: str, spec: LoadedSpec) -> None:
    shapes = {a.name: ", ".join(str(e) for e in a.shape) for a in spec.task.arguments if a.shape is not None}
    assert shapes == {**shapes, **SHAPES.get(name, {})}


@pytest.mark.parametrize("name", [*READ, *(pytest.param(n, marks=pytest.mark.integration) for n in READ_TOO)])
def test_a_first_spec_has_the_shapes(name: str, tmp_path: Path) -> None:
    has_shapes(name, loaded(name, tmp_path))


@pytest.mark.integration
@pytest.mark.usefixtures("no_oclgrind")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=RUN_WITH.get(Path(n).suffix, ()))
        for n in passing()
        if n not in (*TUNED, *READ, *READ_TOO)
    ],
)
def test_a_first_spec_has_the_shapes_and_checks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    (spec,) = load_spec(quick(name, tmp_path))
    has_shapes(name, spec)
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


@pytest.mark.integration
@pytest.mark.usefixtures("no_oclgrind")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=RUN_WITH.get(Path(n).suffix, ())) for n in TUNED],
)
def test_a_first_spec_tunes(name: str, tmp_path: Path) -> None:
    from tuner.api import tune

    result = tune(quick(name, tmp_path), evaluations=1, out=tmp_path / "runs")
    assert result.to_json()["trials"]["ok"] >= 1


@pytest.mark.integration
def test_a_first_spec_elsewhere_finds_its_source_and_headers(tmp_path: Path) -> None:
    """It named the source as if it lay beside it, and headers of other folders could not be named at all."""
    source, headers, there = (tmp_path / name for name in ("src", "inc", "specs"))
    for folder in (source, headers, there):
        folder.mkdir()
    (headers / "by.h").write_text("#define BY 2\n")
    body = "(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = BY * x[i]; }\n"
    (source / "k.c").write_text('#include "by.h"\nvoid k' + body)
    (source / "t.cpp").write_text(
        '#include "by.h"\ntemplate <typename T> void t' + body.replace("float", "T")
    )
    with pytest.raises(BaselineError) as caught:
        first_spec(source / "k.c")
    assert "tuner init -I" in caught.value.hint
    for name, file in (("k.c", "../src/k.c"), ("t.cpp", "t_instance.cpp")):
        made = first_spec(source / name, folder=there, include=[headers])
        for other, text in made.beside.items():
            (there / other).write_text(text)
        spec = there / "first.yaml"
        spec.write_text(made.text)
        assert yaml.safe_load(made.text)["kernel"]["source"] == file
        (elsewhere,) = load_spec(spec)
    assert check_spec(elsewhere, faults=False).ok


@pytest.mark.integration
def test_a_header_of_a_folder_that_compilers_may_not_read(tmp_path: Path) -> None:
    """What came of it was `Permission denied` from clang, of a file that anyone could read."""
    (tmp_path / "src").mkdir()
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "by.h").write_text("#define BY 2\n")
    (tmp_path / "src" / "k.c").write_text(
        '#include "../common/by.h"\n'
        "void k(const float *x, float *y, int n) { for (int i = 0; i < n; i++) y[i] = BY * x[i]; }\n"
    )
    made = first_spec(tmp_path / "src" / "k.c")
    spec = tmp_path / "src" / "k.yaml"
    spec.write_text(made.text)
    assert "include: [../common]" in made.text
    assert check_spec(load_spec(spec)[0], faults=False).ok
    spec.write_text(made.text.replace(", include: [../common]", ""))
    with pytest.raises(
        SpecError, match=r"k.yaml:2:18: ../common/by.h is included and lies in a folder"
    ) as caught:
        load_spec(spec)
    assert "include: [../common]" in caught.value.hint
    assert "include" not in first_spec(tmp_path / "src" / "k.c", folder=tmp_path).text
