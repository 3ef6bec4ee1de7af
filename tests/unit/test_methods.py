"""Methods of C++ classes as kernels: their object is the argument ``this``, whose members the spec lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from tuner.core.errors import SpecError, TunerError
from tuner.core.types import Kernel, Source, Variant
from tuner.driver.check import check_spec
from tuner.search.cooking import Attempt, edit_at
from tuner.search.opening import opened
from tuner.spaces.source.edits import apply_edit
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_spec

FIELD = """
namespace phys {
struct Base { int n; };
class Field : public Base {
    double *a_, *next_; const double *b_; float scale[3]; int steps = 0;
  public:
    double norm() const { double s = 0; for (int i = 0; i < n; i++) s += a_[i] * b_[i]; return s * scale[1]; }
    Field &advance(const Field &o, int m) { for (int i = 0; i < m; i++) a_[i] += o.a_[i]; steps++; return *this; }
    void smooth(double dt);
    static void fill(double *x, int k);
    void idle(double *x, int k);
    void all() { for (int i = 0; i < n; i++) one(i); }
    void one(int i) { this->a_[i] *= 2; }
    virtual ~Field() {}
};
void Field::smooth(double dt)
{
    for (int j = 1; j < n - 1; j++)
        for (int i = 1; i < n - 1; i++)
            next_[i * n + j] = a_[i * n + j] + dt * (a_[(i + 1) * n + j] + a_[(i - 1) * n + j]);
}
void Field::fill(double *x, int k) { for (int i = 0; i < k; i++) x[i] = i; }
void Field::idle(double *x, int k) { for (int i = 0; i < k; i++) x[i] = 2 * i; }
}
"""


def spec(folder: Path, method: str, source: str = FIELD) -> tuple[str, LoadedSpec]:
    """The first spec of a method, at small sizes."""
    (folder / "field.cpp").write_text(source)
    made = first_spec(folder / "field.cpp", entry=method)
    text = made.text if made.at_scale is None else made.at_scale(0.01, None)
    (folder / "field.yaml").write_text(text)
    (loaded,) = load_spec(folder / "field.yaml")
    return text, loaded


def interchanged(loaded: LoadedSpec) -> str:
    """The file with the loops of its method interchanged."""
    program = read_program(loaded.task.kernel)
    edit = edit_at(program, "interchange", next(iter(program.functions)), {"loops": ["j", "i"]})
    return apply_edit(program, edit).sources()[0].text


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("norm", {"this": ["n", "a_", "b_", "scale"]}),
        ("advance", {"this": ["a_", "steps"], "o": ["a_"], "m": []}),
        ("smooth", {"this": ["n", "next_", "a_"], "dt": []}),
        ("fill", {"x": [], "k": []}),
        ("all", {"this": ["n", "a_"]}),
    ],
)
@pytest.mark.integration
def test_methods_have_first_specs_that_check(
    tmp_path: Path, method: str, arguments: dict[str, list[str]]
) -> None:
    """Also private and inherited members, other objects of the class, and methods that need no object."""
    text, loaded = spec(tmp_path, f"phys::Field::{method}")
    listed = {
        one["name"]: [member["name"] for member in one.get("members", [])]
        for one in yaml.safe_load(text)["arguments"]
    }
    assert listed == arguments
    report = check_spec(loaded, faults=1)
    assert report.ok
    assert report.faults is not None
    assert not report.faults.missed


@pytest.mark.integration
def test_an_object_that_a_method_does_not_use_is_passed_all_the_same(tmp_path: Path) -> None:
    source = (
        "struct A { void idle(double *x, int k); int unused; };\n" + FIELD[FIELD.index("void Field::idle") :]
    )
    text, loaded = spec(tmp_path, "A::idle", source.replace("Field::", "A::").replace("}\n}", "}"))
    assert [one["name"] for one in yaml.safe_load(text)["arguments"]] == ["this", "x", "k"]
    assert check_spec(loaded, faults=False).ok


def test_operators_know_the_arrays_that_members_lead_to(tmp_path: Path) -> None:
    _, loaded = spec(tmp_path, "phys::Field::smooth")
    made = interchanged(loaded).partition("Field::smooth")[2]
    assert made.index("for (int i = 1") < made.index("for (int j = 1")


def test_members_that_are_given_another_place_are_not_known(tmp_path: Path) -> None:
    swapped = FIELD.replace(
        "}\nvoid Field::fill", "    double *t = a_; a_ = next_; next_ = t;\n}\nvoid Field::fill"
    )
    assert swapped != FIELD
    _, loaded = spec(tmp_path, "phys::Field::smooth", swapped)
    with pytest.raises(Refused, match="a_ is not declared"):
        interchanged(loaded)


@pytest.mark.integration
def test_methods_that_cannot_be_entries_are_one_line_each(tmp_path: Path) -> None:
    text, _ = spec(tmp_path, "phys::Field::norm")
    (tmp_path / "field.yaml").write_text(text.replace("name: b_", "name: c_"))
    with pytest.raises(SpecError, match="has no member 'c_'"):
        load_spec(tmp_path / "field.yaml")
    (tmp_path / "field.yaml").write_text(text.replace("phys::Field\n", "phys::Base\n"))
    with pytest.raises(SpecError, match="has no member"):
        load_spec(tmp_path / "field.yaml")


def test_a_function_of_the_same_name_is_another_kernel(tmp_path: Path) -> None:
    """The method stands behind it, with the longer name."""
    source = """
    struct Box { int n; double *u; void scale(double by); };
    void scale(int n, double *u, double by) { for (int i = 0; i < n; i++) u[i] *= by; }
    void Box::scale(double by) { for (int i = 0; i < n; i++) u[i] /= by; }
    """
    for name, label in (("scale", "scale"), ("Box::scale", "Box::scale")):
        _, loaded = spec(tmp_path, name, source)
        assert list(read_program(loaded.task.kernel).functions) == [label]


@pytest.mark.integration
def test_in_c_an_argument_may_be_called_this(tmp_path: Path) -> None:
    source = """
    struct box { int n; double *u; };
    void scale(struct box *this, double by) { for (int i = 0; i < this->n; i++) this->u[i] *= by; }
    """
    (tmp_path / "box.c").write_text(source)
    made = first_spec(tmp_path / "box.c")
    assert made.at_scale is not None
    (tmp_path / "box.yaml").write_text(made.at_scale(0.01, None))
    (loaded,) = load_spec(tmp_path / "box.yaml")
    assert check_spec(loaded, faults=False).ok


ACCESSOR = """
struct List { double *first; double at(int i) const { return first[i]; } };
class Grid {
public:
    int nx, ny;
    double *u, *v;
    void relax(double w);
private:
    double at(int i, int j) const { return u[i * ny + j]; }
};
void Grid::relax(double w)
{
    for (int i = 1; i < nx - 1; i++)
        for (int j = 1; j < ny - 1; j++)
            v[i * ny + j] = (1 - w) * at(i, j) + w * 0.25 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1));
}
"""


def test_a_method_may_call_others_of_its_object(tmp_path: Path) -> None:
    """Of its class, not of another that has the name."""
    text, _ = spec(tmp_path, "relax", ACCESSOR)
    assert "{name: u, dtype: float64, shape: [nx, ny], init: normal}" in text
    assert "{name: v, dtype: float64, shape: [nx, ny], role: output}" in text


def test_a_method_that_nothing_is_known_of_is_not_followed(tmp_path: Path) -> None:
    declared = ACCESSOR.replace("const { return u[i * ny + j]; }", "const;")
    with pytest.raises(TunerError, match="argument this of relax points to structures"):
        spec(tmp_path, "relax", declared)


def laid_open(text: str, entry: str) -> tuple[list[str], str]:
    """What opened the way for operators, and the function's text then."""
    variant = Variant(files=(Source(name="grid.cpp", text=text),))
    kernel = Kernel(name="relax", entry=entry, language="c++", variant=variant, folder=".")
    program = read_program(kernel)
    attempt = Attempt(program=program, edits=(), rng=np.random.default_rng(0), reassociate=False)
    found = opened(attempt, {})
    if found is None:
        return [], text
    return [edit["op"] for edit in found.edits], found.program.sources()[0].text


INSIDE = """
class Field {
    int n, m; double *a, *b;
  public:
    double get(int i, int j) const { return a[i * m + j]; }
    void step()
    {
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < m - 1; j++)
                b[i * m + j] = 0.25 * (get(i - 1, j) + get(i + 1, j));
    }
};
"""


def test_operators_see_into_methods_of_the_same_object() -> None:
    alone = ACCESSOR[ACCESSOR.index("class Grid") :]
    for text, entry, calls in ((alone, "Grid::relax", 4), (INSIDE, "Field::step", 2)):
        ops, shown = laid_open(text, entry)
        assert ops == ["inline_call"] * calls
        assert "at(i" not in shown.partition("Grid::relax")[2]
        assert "get(i - 1" not in shown


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("double at(int i, int j) const {", "double at(int i, int j) {"),
        ("double at(int i, int j) const {", "virtual double at(int i, int j) const {"),
        ("private:", "private:\n    double at(int i) const { return u[i]; }"),
        ("for (int i = 1; i < nx", "double *u = v;\n    for (int i = 1; i < nx"),
        ("class Grid {", "template <class T> class Grid {"),
    ],
    ids=["may change members", "virtual", "overloaded", "hidden", "template"],
)
def test_methods_that_may_mean_something_else_stay_calls(given: str, taken: str) -> None:
    alone = ACCESSOR[ACCESSOR.index("class Grid") :]
    assert given in alone
    ops, _ = laid_open(alone.replace(given, taken), "Grid::relax")
    assert "inline_call" not in ops


@pytest.mark.integration
def test_a_method_of_an_instance_of_a_class_template(tmp_path: Path) -> None:
    text = (
        "namespace ns {\ntemplate <typename T, int N> class Stencil {\n  public:\n"
        "    T at(const T *in, int i) const { return w_[0] * in[i] + w_[N - 1] * in[i + 1]; }\n"
        "    void apply(const T *in, T *out) const;\n  private:\n    int n_;\n    T w_[N];\n};\n"
        "template <typename T, int N> void Stencil<T, N>::apply(const T *in, T *out) const\n"
        "{\n    for (int i = 0; i < n_ - 1; i++) out[i] = at(in, i);\n}\n}\n"
        "template class ns::Stencil<float, 3>;\n"
    )
    (tmp_path / "k.cpp").write_text(text)
    for entry in ("ns::Stencil<float, 3>::apply", "ns::Stencil<double, 2>::apply"):
        made = first_spec(tmp_path / "k.cpp", entry=entry).text
        dtype, count = ("float32", 3) if "float" in entry else ("float64", 2)
        assert f'entry: "{entry}"' in made
        assert f"name: w_, dtype: {dtype}, shape: [{count}], init: normal, by: value" in made
        assert f"name: in, dtype: {dtype}, shape: [n_]" in made
        (tmp_path / "k.yaml").write_text(made)
        (loaded,) = load_spec(tmp_path / "k.yaml")
    found = check_spec(loaded)
    assert found.ok
    assert found.faults is not None
    assert found.faults.missed == ()
    assert set(read_program(loaded.task.kernel).functions) == {"Stencil<T, N>::apply"}
