"""Loops over containers of C++, as functions that take plain arrays, and put back where they stood."""

from __future__ import annotations

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
#include <vector>
struct Body { double x; int id; };
struct Grid { std::vector<float> cells; int n; std::vector<Body> bodies; };
using Numbers = std::vector<double>;
static Numbers kept(8, 1.5);
static double twice(double x) { return 2 * x; }
static void grow(Numbers &numbers) { numbers.push_back(1); }
static void enlarge() { kept.push_back(2); }
static Grid all;
static void more() { all.n++; }
"""
PROGRAM = (
    "#include <array>\n#include <cstdio>\n#include <memory>\n"
    + HEAD
    + """\
static double work(const Numbers &u, Numbers &w, Grid &g, const Grid *h, std::unique_ptr<int[]> &p)
{
    std::array<double, 4> few = {1, 2, 3, 4};
    double sum = 0;
    for (unsigned i = 0; i + 1 < u.size(); i++) { // LOOP
        w[i] = twice(u[i + 1]) + kept[i & 7];
        g.cells[i] += h->cells[i] + p[i];
        g.bodies[i].x = few[i & 3] * g.n + few.size();
        sum += w[i] + g.bodies[i].id;
    }
    return sum;
}
int main()
{
    Numbers u(50, 2), w(50);
    Grid g = {std::vector<float>(50, 1), 3, std::vector<Body>(50)}, h = g;
    std::unique_ptr<int[]> p(new int[50]());
    for (int i = 0; i < 50; i++) { u[i] = i % 7; p[i] = i % 5; g.bodies[i].id = i; }
    double sum = work(u, w, g, &h, p);
    for (int i = 0; i < 50; i++) printf("%g %g %g\\n", w[i], g.cells[i], g.bodies[i].x);
    printf("%g\\n", sum);
}
"""
)


SMALL = HEAD.replace("#include <vector>\n", SMALL_VECTOR)


def loop(head: str, body: str, *, before: str = "") -> str:
    """A function with a loop."""
    round_ = f"for (int i = 0; i < n; i++) {{ // LOOP\n        {body}\n    }}"
    return f"{SMALL}void around({head})\n{{\n    {before}\n    {round_}\n}}\n"


@cache
def outlined_program() -> Outlined:
    return outlined(PROGRAM, "work")


@pytest.mark.integration
def test_elements_and_sizes_are_arguments() -> None:
    made = outlined_program()
    head = made.opening.partition("\n")[0]
    for parameter in (
        *("const double *u_data", "unsigned long u_size", "double *w_data", "double *kept_data"),
        *("float *g_cells_data", "int *p_data", "Body *g_bodies_data", "double *few_data"),
        *("unsigned long few_size", "int g_n", "const Grid *h"),
    ):
        assert parameter in head
    assert "w_data[i] = twice(u_data[i + 1]) + kept_data[i & 7];" in made.text
    assert "i + 1 < u_size;" in made.text
    # A pointer may lead nowhere where the loop does not follow it.
    assert "h_cells" not in made.text
    assert "float *g_cells_data = g.cells.data();" in made.call
    assert made.text.count("\n") == PROGRAM.count("\n") + made.opening.count("\n") + made.closing.count(
        "\n"
    ) + 2 + (made.call.count("\n"))
    assert Outlined.from_json(made.to_json(), PROGRAM) == made


CHANGES = [
    (
        "twice(u_data[i + 1])",
        "(u_data[i + 1] + u_data[i + 1])",
        "w[i] = (u[i + 1] + u[i + 1]) + kept[i & 7];",
    ),
    (
        "g_cells_data[i] +=",
        "g_cells_data[i] = g_cells_data[i] +",
        "g.cells[i] = g.cells[i] + h->cells[i] + p[i];",
    ),
    ("i + 1 < u_size", "i < u_size - 1", "i < u.size() - 1;"),
    ("twice(u_data[i + 1])", "twice(*(u_data + i + 1))", "const double *u_data = u.data();"),
]


@needs.cc
@pytest.mark.integration
def test_the_program_computes_what_it_did_and_gets_its_containers_back(tmp_path: Path) -> None:
    """Changes are shown as they would be written; the program has all but the last, or the last, in it."""
    made = outlined_program()
    assert made.put_back(made.text) == PROGRAM
    several, last = made.text, made.text.replace(*CHANGES[-1][:2])
    for before, after, _ in CHANGES[:-1]:
        several = several.replace(before, after)
    several, last = made.put_back(several), made.put_back(last)
    assert all(shown in several for _, _, shown in CHANGES[:-1])
    assert CHANGES[-1][2] in last
    assert "work_loop" not in several + last
    wanted = ran(tmp_path, PROGRAM)
    assert wanted != ""
    for changed in (made.text, several, last):
        assert ran(tmp_path, changed) == wanted


NESTED = (
    "#include <stdio.h>\n"
    + SMALL_VECTOR
    + """\
using Rows = std::vector<std::vector<double>>;
static void add(Rows &c, const Rows &a)
{
    for (unsigned i = 0; i < a.size(); i++) // LOOP
        for (unsigned j = 0; j < a[0].size(); j++) c[i][j] += 2 * a[i][j];
}
int main()
{
    Rows a(7), c(7);
    for (int i = 0; i < 7; i++) { a[i] = std::vector<double>(5, 3); c[i] = std::vector<double>(5); }
    for (int i = 0; i < 35; i++) c[i / 5][i % 5] = i;
    add(c, a);
    Rows none;
    add(none, none);
    for (int i = 0; i < 35; i++) printf("%g\\n", c[i / 5][i % 5]);
}
"""
)


@needs.cc
@pytest.mark.integration
def test_containers_of_containers_are_pointers_to_their_rows(tmp_path: Path) -> None:
    made = outlined(NESTED, "add")
    assert (
        "(unsigned long a_size, unsigned long a_0_size, double **c_rows, const double **a_rows)"
        in made.opening
    )
    assert "c_rows[i][j] += 2 * a_rows[i][j];" in made.text
    assert "unsigned long a_0_size = a.size() <= 0 ? 0 : a[0].size();" in made.call
    changed = made.text.replace("c_rows[i][j] +=", "c_rows[i][j] = c_rows[i][j] +")
    text = made.put_back(changed)
    assert "for (unsigned j = 0; j < a[0].size(); j++) c[i][j] = c[i][j] + 2 * a[i][j];" in text
    wanted = ran(tmp_path, NESTED)
    assert wanted == ran(tmp_path, made.text) == ran(tmp_path, text) != ""


RANGES = (
    "#include <stdio.h>\n"
    + SMALL_VECTOR
    + """\
struct Point { float x; int cluster; };
struct Set { std::vector<Point> all; };
static void assign(Set &set, const std::vector<Point> &centers)
{
    for (auto &p : set.all) { // LOOP
        float best = 1e30f;
        int at = 0;
        for (const auto &c :
             centers) {
            float dx = p.x - c.x;
            if (dx * dx < best) { best = dx * dx; p.cluster = at; }
            at++;
        }
    }
}
static void grow(std::vector<int> &all, std::vector<int> &some)
{
    for (int &p : some) { // GROWS
        p++;
        all.push_back(p);
    }
    for (int p : some) // VALUES
        all[p] = p;
}
static int count(const std::vector<bool> &bits)
{
    int found = 0;
    for (const auto &bit : bits) // BITS
        found += bit;
    return found;
}
int main()
{
    Set set;
    std::vector<Point> centers(3);
    for (int i = 0; i < 3; i++) centers[i] = {i * 2.f, 0};
    set.all = std::vector<Point>(20);
    for (int i = 0; i < 20; i++) set.all[i] = {i * .3f, -1};
    assign(set, centers);
    for (auto &p : set.all) printf("%d\\n", p.cluster);
}
"""
)


@needs.cc
@pytest.mark.integration
def test_loops_over_elements_count_them(tmp_path: Path) -> None:
    made = outlined(RANGES, "assign")
    assert "Point *set_all_data, const Point *centers_data)" in made.opening
    assert "float dx = set_all_data[p_at].x - centers_data[c_at].x;" in made.text
    assert made.put_back(made.text) == RANGES
    text = made.put_back(made.text.replace("1e30f", "2e30f"))
    assert "for (unsigned long p_at = 0; p_at < set.all.size(); p_at++) {" in text
    assert "set.all[p_at].cluster = at;" in text
    wanted = ran(tmp_path, RANGES)
    assert wanted == ran(tmp_path, made.text) == ran(tmp_path, text) != ""
    assert "for (int &p : some)" in outlined(RANGES, "grow", "// GROWS").text
    values = outlined(RANGES, "grow", "// VALUES")
    counts = "for (unsigned long p_at = 0; p_at < some_size; p_at++) { int p = some_data[p_at];"
    assert f"{counts}\n all_data[p] = p; }}\n" in values.text
    assert values.put_back(values.text) == RANGES
    assert "for (const auto &bit : bits)" in outlined(RANGES, "count", "// BITS").text


def test_a_name_of_the_loop_that_is_a_containers_hides_none() -> None:
    made = outlined(loop("int n, Numbers &u", "u[i] = i;"), "around")
    text = made.put_back(made.text.replace("u_data[i] = i;", "double u = i; u_data[i] = u;"))
    assert "double *u_data = u.data();" in text
    assert "double u = i; u_data[i] = u;" in text


STAY = {
    "u.push_back(1); w[i] = u[i];": "it grows",
    "other.push_back(1); w[i] = u[i]; (void)u;": "it may be what grows",
    "grow(u); w[i] = u[i];": "it is handed on",
    "w[i] = u[i]; u = other;": "it is another one",
    "enlarge(); w[i] = u[i];": "a function changes what may be it",
    "far(); w[i] = u[i];": "a function is not known",
    "w[i] = *(u.begin() + i) + u[i];": "its beginning is asked for",
    "w[i] = grid.n; more();": "a function changes a number of what may be the object",
    "w[i] = grid.n++;": "the loop changes it",
    "int &k = grid.n; k++; w[i] = grid.n;": "it has another name",
    "bits[i] = 1;": "bits are no array",
    "rows[i][0] = rows[i].size();": "rows may have several sizes",
    "rows[i][0] = 1; rows[i].push_back(1);": "a row may be another",
}


@pytest.mark.integration
def test_containers_stay_what_they_are_where_their_size_may_change() -> None:
    """Nor are those of bits or of rows plain arrays; a loop's own are no concern of functions that it calls."""
    head = (
        "int n, Numbers &u, Numbers &other, double *w, std::vector<bool> &bits, std::vector<Numbers> &rows, "
    )
    head += "Grid &grid"
    loops = [f"for (int i = 0; i < n; i++) {{ // LOOP {k}\n{body}\n}}" for k, body in enumerate(STAY)]
    own = "Numbers own(n);\nfor (int i = 0; i < n; i++) { // OWN\nenlarge(); own[i] = w[i];\n}"
    text = f"{SMALL}void far();\nvoid f({head})\n{{\n" + "\n".join([*loops, own]) + "\n}\n"
    wrong = [body for k, body in enumerate(STAY) if outlined(text, "f", f"// LOOP {k}").views]
    assert wrong == []
    assert [view.name for view in outlined(text, "f", "// OWN").views] == ["own_data"]


@needs.cc
@pytest.mark.integration
def test_a_first_spec_of_a_loop_over_vectors_checks(tmp_path: Path) -> None:
    body = "w[i] = 0;\n        for (int j = 0; j < n; j++) w[i] += u[j] * m[i * n + j];"
    path = tmp_path / "k.cc"
    path.write_text(loop("int n, const Numbers &u, const Numbers &m, Numbers &w", body))
    line = marked_line(path.read_text())
    text = first_spec(path, entry="around", loop=line).text
    assert "{name: m_data, dtype: float64, shape: [n, n]" in text
    (tmp_path / "k.yaml").write_text(text.replace("2048", "64"))
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=1)
    assert report.ok, report.lines
    assert report.faults is not None
    assert report.faults.caught == 1
