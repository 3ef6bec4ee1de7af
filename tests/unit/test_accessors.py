"""Loops that reach arrays through methods of C++ classes, as functions that take the arrays, and put back."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import needs
import pytest
from outlined_loops import SMALL_VECTOR, marked_line, outlined, ran

from tuner.driver.check import check_spec
from tuner.spaces.source.outlined import Outlined
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

HEAD = """\
#include <cstdio>
#include <vector>
typedef double real;
class Mesh {
public:
    explicit Mesh(int n) : m_x(n, 1), m_nodes(4 * n), m_n(n) {}
    real &x(int i) { return m_x[i]; }
    int *nodes(int i) { return &m_nodes[4 * i]; }
    int *first(int i) { return m_nodes.data() + i; }
    int &n() { return m_n; }
    real twice(int i) { return 2 * m_x[i]; }
    virtual real &other(int i) { return m_x[i]; }
    real copied(int i) { return m_x[i]; }
    real hidden(int i) const { return m_y[i]; }
    real &rounded(int i) { return m_x[(int)(i * m_h) + 1]; }
    real &cut(int i) { return m_x[(unsigned char)(i + 1)]; }
    int place(int i) const { return (int)(i * m_h); }
    int index(short i) const { return 2 * i + m_n; }
    real &same(int) { return m_x[0]; }
    real &counted(int i) { m_n++; return m_x[i]; }
    void grow() { m_x.push_back(0); }
private:
    std::vector<real> m_x, m_y;
    std::vector<int> m_nodes;
    double m_h = 0.5;
    int m_n;
};
template <typename T> class Matrix {
public:
    Matrix(int rows, int columns) : data(rows * columns), m_columns(columns) {}
    T &operator()(int i, int j) { return data[i * m_columns + j]; }
    const T &operator()(int i, int j) const { return data[i * m_columns + j]; }
    T &operator[](int i) { return data[i]; }
private:
    std::vector<T> data;
    int m_columns;
};
static double sum(Mesh &mesh) { return mesh.x(0) + mesh.x(1); }
"""
SMALL = HEAD.replace("#include <cstdio>\n#include <vector>\n", SMALL_VECTOR)
PROGRAM = (
    HEAD
    + """\
static void work(Mesh &mesh, Matrix<float> &a, const Matrix<float> &b)
{
    for (int i = 0; i < mesh.n() - 1; i++) { // LOOP
        const int *at = mesh.nodes(i);
        mesh.x(i) += a(i, 2) * b(at[0], i) + mesh.x(at[1]);
        for (int j = 0; j < 5; j++) a(i + 1, j) = b(i, j) - a[j];
    }
}
int main()
{
    Mesh mesh(20);
    Matrix<float> a(20, 7), b(20, 20);
    for (int i = 0; i < 80; i++) mesh.nodes(0)[i] = (i * 7) % 20;
    for (int i = 0; i < 140; i++) a[i] = i % 9;
    for (int i = 0; i < 400; i++) b[i] = i % 11;
    work(mesh, a, b);
    for (int i = 0; i < 20; i++) printf("%g %g\\n", mesh.x(i), a(i, 3));
}
"""
)


def loop(body: str) -> str:
    """A function with a loop over a mesh and a matrix."""
    head = "void f(int n, Mesh &mesh, Matrix<float> &a, double *w)"
    return f"{SMALL}{head}\n{{\n    for (int i = 0; i < n; i++) {{ // LOOP\n        {body}\n    }}\n}}\n"


@cache
def outlined_program() -> Outlined:
    return outlined(PROGRAM, "work")


@pytest.mark.integration
def test_arrays_and_numbers_are_arguments() -> None:
    made = outlined_program()
    head = made.opening.partition("\n")[0]
    assert head == (
        "void work_loop41(int mesh_n, int *mesh_nodes, double *mesh_x, long a_stride, float *a_data, long b_stride, "
        "const float *b_data, float *a_data_)"
    )
    assert "const int *at = (&mesh_nodes[4 * (i)]);" in made.text
    assert "double *mesh_x = &mesh.x(0);" in made.call
    assert "long b_stride = &b(1, 0) - &b(0, 0);" in made.call
    assert Outlined.from_json(made.to_json(), PROGRAM) == made


PUT_BACK = (
    {
        "as it was": (
            "mesh_x[i] +=",
            "mesh_x[i] = mesh_x[i] +",
            "mesh.x(i) = mesh.x(i) + a(i, 2) * b(at[0], i)",
        ),
        "without parentheses": ("[b_stride * (i) + (j)]", "[b_stride * i + j]", "= b(i, j) -"),
        "without the pointer": ("mesh_x[at[1]]", "mesh_x[mesh_nodes[4 * i + 1]]", "mesh.x(mesh.nodes(i)[1])"),
        "a number": ("i < mesh_n - 1", "i + 1 < mesh_n", "i + 1 < mesh.n();"),
    },
    {
        "several rounds at once": (
            "[b_stride * (i) + (j)]",
            "[b_stride * (i + 1 - 1) + j + 0]",
            "= b(i + 1 - 1, j + 0)",
        ),
        "a pointer to a row": (
            "for (int j",
            "const float *row = b_data + b_stride * i;\n        for (int j",
            "const float *row = b_data + b_stride * i;",
        ),
    },
)
"""Changes that are made together, and how each is written back."""


@needs.cc
@pytest.mark.integration
def test_the_program_computes_what_it_did(tmp_path: Path) -> None:
    made = outlined_program()
    expected = ran(tmp_path, PROGRAM)
    assert made.put_back(made.text) == PROGRAM
    assert ran(tmp_path, made.text) == expected != ""
    for changes in PUT_BACK:
        text = made.text
        for before, after, _ in changes.values():
            assert before in text
            text = text.replace(before, after)
        text = made.put_back(text)
        for about, (_, _, shown) in changes.items():
            assert shown in text, about
        assert not re.search(r"\n    \{\n        \S[^\n]*;\n(?!        \S)", text)
        assert "work_loop" not in text
        assert ran(tmp_path, text) == expected


OWN = (
    "#include <stdio.h>\n"
    + SMALL_VECTOR
    + """\
class Grid {
public:
    Grid(int rows, int columns) : data(rows * columns), columns(columns), rows(rows) {}
    double &at(int i, int j) { return data[i * columns + j]; }
    double get(int i, int j) const { return data[i * columns + j]; }
    double operator()(int i, int j) const { return data[i * columns + j]; }
    double &operator()(int i, int j) { return data[i * columns + j]; }
    int size() const { return rows; }
    void shift(const Grid &a)
    {
        for (int i = 0; i < rows; i++) // INDEX
            data[index(i, 1)] += i * a.index(i, 2);
    }
    void add(const Grid &a, const Grid &b)
    {
        for (int i = 0; i < size(); i++) // LOOP
            for (int j = 0; j < columns; j++) {
                at(i, j) += a.get(i, j) * b(j, i) + get(i, j);
                (*this)(i, j) -= this->at(j, i);
            }
    }
private:
    static constexpr int first = 3;
    std::vector<double> data;
    int columns, rows;
    int index(int i, int j) const { return i * columns + 2 * j + first; }
};
int main()
{
    Grid a(9, 9), b(9, 9), c(9, 9);
    for (int i = 0; i < 81; i++) { a.at(i / 9, i % 9) = i % 5; b.at(i / 9, i % 9) = i % 7; c.at(i / 9, i % 9) = 1; }
    c.add(a, b);
    c.shift(b);
    for (int i = 0; i < 81; i++) printf("%g\\n", c.get(i / 9, i % 9));
}
"""
)


@needs.cc
@pytest.mark.integration
def test_values_of_elements_and_the_object_of_a_method_itself(tmp_path: Path) -> None:
    """What gives a value is read where the class gives the element's place, too; put back it is called as it was."""
    made = outlined(OWN, "Grid::add")
    head = made.opening.partition("\n")[0]
    assert head.count("double *") == 3
    assert "double *a_get = &const_cast<Grid &>(a).at(0, 0);" in made.call
    assert "double *b_data = &const_cast<Grid &>(b).at(0, 0);" in made.call
    expected = ran(tmp_path, OWN)
    assert ran(tmp_path, made.text) == expected != ""
    text = made.put_back(
        made.text.replace("own_at[own_stride * (i) + (j)] +=", "own_at[own_stride * i + j] += 0 +")
    )
    assert "at(i, j) += 0 + a.get(i, j) * b(j, i) + " in text
    assert "add_loop" not in text
    assert ran(tmp_path, text) == expected
    made = outlined(OWN, "Grid::shift", "// INDEX")
    assert (
        "data_data[(own_stride * (i) + 2 * (1) + own_offset)] += i * (a_stride * (i) + 2 * (2) + a_offset);"
        in made.text
    )
    assert ran(tmp_path, made.text) == expected
    text = made.put_back(
        made.text.replace("] += i *", "] += 2 * i *").replace("own_stride * (i)", "own_stride * i")
    )
    assert "long own_stride = index(1, 0) - index(0, 0);" in text
    assert "shift_loop" not in text


@pytest.mark.integration
def test_an_object_stays_where_numbers_in_its_place_do_not_compile() -> None:
    larger = "template <class T> T larger(T a, T b) { return a < b ? b : a; }\nvoid f(int n"
    text = loop("w[i] = larger(mesh.index(i), n);").replace("void f(int n", larger)
    assert outlined(text, "f").views == ()
    assert outlined(loop("w[i] = mesh.index(i) + n;"), "f").views != ()


STAY = {
    "w[i] = mesh.hidden(i);": "nothing gives the place of an element whose value is given",
    "w[i] = mesh.x(i); mesh.grow();": "the array may become another",
    "w[i] = mesh.x(i); mesh.n() = 3;": "a number changes",
    "w[i] = mesh.x(i) + sum(mesh);": "the object is handed on",
    "w[i] = mesh.twice(i);": "no element but twice its value",
    "w[i] = mesh.same(i);": "one element for all places",
    "w[i] = mesh.counted(i);": "it counts as well",
    "w[i] = mesh.other(i);": "another class may have another one",
    "w[i] = mesh.rounded(i);": "places are rounded",
    "w[i] = mesh.cut(i);": "places are cut to a byte",
    "w[i] = mesh.place(i);": "a number that is rounded",
}


@pytest.mark.integration
def test_methods_that_do_more_than_access_stay_with_the_object() -> None:
    """Of loops of one function, that the headers are read once."""
    loops = [f"for (int i = 0; i < n; i++) {{ // LOOP {k}\n{body}\n}}" for k, body in enumerate(STAY)]
    text = f"{SMALL}void f(int n, Mesh &mesh, double *w)\n{{\n" + "\n".join(loops) + "\n}\n"
    for number, body in enumerate(STAY):
        made = outlined(text, "f", f"// LOOP {number}")
        assert made.views == (), body
        assert "Mesh &mesh" in made.opening


@needs.cc
@pytest.mark.integration
def test_a_first_spec_of_a_function_over_a_mesh_has_its_largest_loop_and_checks(tmp_path: Path) -> None:
    path = tmp_path / "k.cc"
    path.write_text(loop("w[i] = 0;\n        for (int j = 0; j < 4; j++) w[i] += mesh.x(mesh.nodes(i)[j]);"))
    line = marked_line(path.read_text())
    text = first_spec(path, entry="f").text
    assert f"entry: f, loop: {line}}}" in text
    assert (
        "# check: one loop alone, as member mesh.m_x of f is a type that no spec can describe: `std::vector<real>`; "
        in text
    )
    assert "{name: mesh_nodes, dtype: int32, shape: [n, 4]" in text
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=1)
    assert report.ok, report.lines
    assert report.faults is not None
    assert report.faults.caught == 1
