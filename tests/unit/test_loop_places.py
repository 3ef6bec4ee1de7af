"""Loops as functions where copies, macros and names could change what a program does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest
from outlined_loops import SMALL_VECTOR

from tuner.core.errors import UsageError
from tuner.core.source_text import source_bytes, source_text
from tuner.core.types import Source
from tuner.spaces.source.outlined import Outlined
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

FILE = """\
#include <alloca.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
typedef double row[4];
typedef char small;
struct more {{ int n; int rest[]; }};
struct two {{ int a, b[3]; }};
enum {{ SIZE = 5 }};
#define FIRST x++; for (int i = 0; i < n; i++) s += x
#define BLOCK(count) for (int i = 0; i < count; i++) {{
#define END }}
int s_at = 3, counted, *kept;
jmp_buf place;
int of(const int *p) {{ return *p; }}
int one(int x) {{ return x + 1; }}
int two(int x) {{ return x * 2; }}
int count(void) {{ return ++counted + 4; }}
{functions}
int main(void) {{
    double a[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}, b[8] = {{4, 3, 2, 1}}, m[2][4] = {{{{1, 2}}, {{3}}}};
    printf("%d\\n", {call});
    return 0;
}}
"""
SAME = {
    "a pointer to rows that moves": """
int f(int n) { double t[n][n], (*p)[n] = t; int s = 0;
  for (int i = 0; i < n * n; i++) t[i / n][i % n] = i;
  for (int i = 0; i < n - 1; i++) { s += (*p)[1]; p++; } // LINE
  return s + (*p)[0] * 1000; }""",
    "values that each round gives, or had before": """
int f(int n) { int given, before, again, left, s = 0; before = 3; again = left = 1;
  for (int r = 0; r < 3; r++) {
    s += again;
    for (int i = r; i < n; i++) { given = i * 2; s += given + before; before += given; again = i; left = s; } // LINE
  }
  return s + left; }""",
    "a constant whose address is given": """
int f(int n) { const int k = 4; int s = 0;
  for (int i = 0; i < n; i++) s += of(&k); // LINE
  return s; }""",
    "an array by a name of its type": """
int f(int n) { row a = {0};
  for (int i = 0; i < n; i++) a[i & 3] += i; // LINE
  return a[0] + a[1]; }""",
    "functions by pointers": """
int f(int n) { int (*t[2])(int) = {one, two}, (*g)(int) = one, s = 0;
  for (int i = 0; i < n; i++) { s += t[i & 1](i) + g(i); g = t[i & 1]; } // LINE
  return s + g(1000); }""",
    "a name that a parameter would take": """
int f(int n) { int s = 0;
  for (int i = 0; i < n; i++) s += s_at; // LINE
  return s; }""",
    "pragmas above a comment": """
int f(int n) { int s = 0;
  #pragma clang loop \\
    unroll(disable)
  // Not too large.
  for (int i = 0; i < n; i++) s += i; // LINE
  return s; }""",
    "pragmas between directives of their own": """
int f(int n) { int s = 0;
#ifdef SIZE
  #pragma GCC ivdep
#elif defined(alloca)
  #pragma clang loop unroll(disable)
#endif

  for (int i = 0; i < n; i++) s += i; // LINE
  return s; }""",
    "statements between directives, before its own": """
int f(int n) { int s = 0;
#ifdef FIRST // always
    s += 3;
  #ifndef SIZE
    s += 5;
  #endif
  #pragma omp parallel for \\
      reduction(+: s)
#endif /* FIRST */
  for (int i = 0; i < n; i++) // LINE
    s += i;
  return s; }""",
    "directives between others": """
int f(int n) { int s = 0;
#ifdef FIRST
    // s += 3;
  #ifndef SIZE
  #pragma omp target
  #endif
  #pragma omp parallel for reduction(+: s)
#endif
  for (int i = 0; i < n; i++) // LINE
    s += i;
  return s; }""",
    "a body between directives": """
int f(int n) { int s = 0;
  for (int i = 0; i < n; i++) // LINE
#if defined(FIRST) /* #if */
    s += i;
#elif defined(OTHER)
    s += 2 * i;
#if 1
    s++;
#endif
#endif // FIRST
  return s; }""",
    "its ends between directives": """
int f(int n) { int s = 0;
#ifdef OTHER
  while (0) {
#else
  // Often.
  for (int i = 0; i < n; i++) { // LINE
#endif
    s += i;
#ifdef FIRST
  }
#endif
  return s; }""",
    "macros around it": """
int f(int n) { int s = 1;
  BLOCK(n) s += i; END // LINE
  return s; }""",
    "text that is not ASCII, line ends of two characters": """
/* \u00e4\u00df \u65e5 */
int f(int n) { const char *w = "\u00df\u20ac"; int s = 0; /* \u00e9 */ for (int i = 0; i < n; i++) // LINE \u00f1
    s += w[i];
  return s; /* \u00fc */ }""".replace("\n", "\r\n"),
    "text that is no UTF-8": source_text(
        b"""/* \xe4\xdf */
int f(int n) { const char *w = "\xdf\xe9abc"; int s = 0; /* \xe9 */ for (int i = 0; i < n; i++) // LINE \xf1
    s += w[i] * (int)sizeof "\xe9";
  return s; /* \xfc */ }"""
    ),
    "a branch of an if": """
int f(int n) { int s = 0;
  if (n > 7) s = 3;
  else for (int i = 0; i < n; i++) if (i & 1) s -= i; else s += 2 * i; // LINE
  return s; }""",
    "the head of an old function": """
int f(n, x, y) int n; double *x, *y; { int i; double s = 0;
  for (i = 0; i < n; i++) s += x[i] * y[i]; // LINE
  return s + i; }""",
    "a parameter that is an array and moves": """
int f(int n, double m[2][4]) {
  for (int i = 1; i < n - 3; i++) m++; // LINE
  return m[0][0] * 10 + n; }""",
}
REFUSED = {
    "int x = 1, *p = &x, s = 0;": ("*p += i; s += x;", "may reach x by another way"),
    "struct two x = {1, {2}}; int *p = x.b, s = 0;": (
        "p[1] += i; s += x.b[1];",
        "may reach x by another way",
    ),
    "int x = 1, s = 0;": ("kept = &x; x += i;", "may reach x by another way"),
    "static int x; int s = 0;": ("x++; if (n > 1) s += f(n - 1);", "may reach x by another way"),
    "static struct more x = {3, {1, 2, 3}}; int s = 0;": (
        "s += x.rest[i % 3];",
        "may reach x by another way",
    ),
    "int x[4], s = 0;": ("memset(&x, i, 16); s += x[2];", "the size or the address of x"),
    "double s = 0; int x[4] = {1};": ("__typeof__(x) y; y[0] = x[0]; s += y[0];", "the type of x"),
    "enum { SIZE = 7 }; int s = 0;": ("s += SIZE;", "SIZE is declared in its function"),
    "typedef int small; int s = 0;": (
        "small x = 1000; s += x;",
        "small is a type that its function declares",
    ),
    "struct two { char c; }; struct two x = {1}; int s = 0;": ("s += x.c;", "it uses x, `struct two`"),
    "int *x[8], s = 0;": ("x[i] = alloca(400); s += x[i] == 0;", "alloca, which depends on the function"),
    "int s = 0;": ("if (setjmp(place) == 0) s++;", "setjmp, which depends on the function"),
    "double x[2][count()]; int s = 0;": ("x[i & 1][0] = i; s++;", "an extent of x calls a function"),
    "int s = 0; double x[n][n]; { int n = 2; s = n; }": (
        "s += x[i][0] = i;",
        "an extent of x is n, which several variables are called",
    ),
    "int s = 0; void *leave = &&end; end:": (
        "void *to[] = {&&in, leave}; goto *to[i & 1]; in: s++;",
        "goes to a label that its function computes",
    ),
}
CLASSES = f"""\
#include <cstdio>
{SMALL_VECTOR}"""
CLASSES += """\
template <class T> void std::vector<T>::push_back(const T &value) {
  T *more = new T[count + 1];
  for (size_t i = 0; i < count; i++) more[i] = first[i];
  more[count++] = value;
  first = more; }
class Function {
  struct Any { virtual void run() = 0; };
  Any *held;
public:
  template <class L> Function(L l) {
    struct Of : Any { L l; Of(L l) : l(l) {} void run() override { l(); } };
    held = new Of(l); }
  void operator()() const { held->run(); }
};
static int caught(int n) { int i = 0; double last = 0;
  try {
    for (;; i++) { last = i; if (i == n) throw 1; } // LINE 0
  } catch (int) {}
  return i * 10 + last; }
static int reference(int n) { int x = 1, &r = x, s = 0;
  for (int i = 0; i < n; i++) { r += i; s += x; x++; } // LINE 1
  return s * 100 + x; }
static int captured(int n) { int x = 1, s = 0; Function g = [&] { x += 2; };
  for (int i = 0; i < n; i++) { g(); s += x; x++; } // LINE 2
  return s * 100 + x; }
static int pointers(int n) { int a = 1; std::vector<int *> v(3, &a); std::vector<int *> *d = &v;
  for (int i = 0; i < n; i++) { v.push_back(&a); d->push_back(&a); } // LINE 3
  return v.size(); }
static int ranged(int n) { int a[4] = {1, 2, 3, 4}, s = 0;
  for (int &x : a) { s += x; x = n; } // LINE 4
  return s * 100 + a[2]; }
static int again(int n) { static int calls;
  for (int i = 0; i < n; i++) { calls++; if (n > 1) again(n - 1); } // LINE 5
  return calls; }
static int given(int n, const int &k, int (&a)[3]) { int (&same)[3] = a;
  for (int i = 0; i < n; i++) { a[2] += k; same[1]++; } // LINE 6
  return a[1] + a[2]; }
int main() {
  int a[3] = {1, 2, 3};
  printf("%d %d %d ", caught(5), reference(5), captured(5));
  printf("%d %d %d %d\\n", pointers(5), ranged(5), again(4), given(5, 2, a));
}
"""
NAMES = ("caught", "reference", "captured", "pointers", "ranged", "again", "given")


def outlined(text: str, entry: str, mark: str, suffix: str = "c") -> Outlined:
    line = next(i for i, each in enumerate(text.split("\n"), 1) if mark in each)
    language = "c" if suffix == "c" else "c++"
    return outline(
        SourceReader(files=(Source(name=f"k.{suffix}", text=text),), language=language), entry, line
    )


def said(text: str, folder: Path, suffix: str = "c") -> bytes:
    """What a program prints."""
    (folder / f"k.{suffix}").write_bytes(source_bytes(text))
    command = ["cc" if suffix == "c" else "c++", "-O1", "-w", f"k.{suffix}", "-o", "k"]
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True).stdout


@needs.cc
@pytest.mark.parametrize("case", SAME)
def test_a_loop_does_the_same_in_a_function_of_its_own(case: str, tmp_path: Path) -> None:
    more = ", a, b" if case == "the head of an old function" else ""
    more = ", m" if case == "a parameter that is an array and moves" else more
    text = FILE.format(functions=SAME[case], call=f"f(5{more})")
    made = outlined(text, "f", "LINE")
    assert said(made.text, tmp_path) == said(text, tmp_path)
    assert made.put_back(made.text) == text


@needs.cc
def test_what_stands_before_a_loop_s_directive_stays_where_it_is(tmp_path: Path) -> None:
    case = SAME["statements between directives, before its own"]
    text = FILE.format(functions=case, call="f(5)")
    made = outlined(text, "f", "LINE")
    assert "s += 3" not in made.text.split("f_loop", 3)[-1]
    changed = made.text.replace("    s += i;\n    *", "    s += i;\n    ;\n    *")
    back = made.put_back(changed)
    assert back.count("#ifdef FIRST // always\n") == 2
    assert said(back, tmp_path) == said(text, tmp_path)
    line = made.text.split("\n").index("    s += i;") + 1
    assert made.in_given(f"k.c:{line}: x", "k.c") == f"k.c:{text.split(chr(10)).index('    s += i;') + 1}: x"


@needs.cc
def test_types_that_the_head_of_an_old_function_leaves_out_are_int(tmp_path: Path) -> None:
    function = "int f(n, m) int m[2][4]; { int i, s = 0;\n for (i = 0; i < n; i++) s += m[0][i]; // LINE\n return s; }"
    text = FILE.format(functions=function, call="n5(a, m)").replace(
        "int main", "#define n5(a, b) f(4, b)\nint main"
    )
    text = text.replace("m[2][4] = {{1, 2}, {3}}", "x[2]; int m[2][4] = {{1, 2}, {3}}")
    files, line = (Source(name="k.c", text=text),), text[: text.index("LINE")].count("\n") + 1
    made = outline(SourceReader(files=files, language="c", flags=("-Wno-implicit-int",)), "f", line)
    assert "int n" in made.opening
    assert said(made.text, tmp_path) == said(text, tmp_path)


def test_values_that_each_iteration_sets_are_no_parameters() -> None:
    """Where nothing behind the loop asks for it."""
    loop = "for (int i = 0; i < n; i++) { t = i; s += t; } // LINE"
    function = f"int f(int n) {{ int s = 0, t; t = 1;\n {loop}\n return s; }}"
    made = outlined(FILE.format(functions=function, call="f(5)"), "f", "LINE")
    assert made.opening.startswith("void f_loop")
    assert "t_at" not in made.opening
    assert "int t;" in made.opening
    # An operator may declare it where it is given its value.
    changed = made.text.replace("    int t;\n", "").replace("{ t = i;", "{ int t = i;")
    assert made.put_back(changed) == made.given.replace("{ t = i;", "{ int t = i;")


@needs.cc
@pytest.mark.parametrize(
    ("before", "behind", "head"),
    [
        ("for (int t = 0; t < 3; t++) { int k = t;", "}", "int k"),
        ("for (int t = 0; t < 3; t++) { int k = t;", "s += k; }", "int *__restrict__ k_at"),
        ("for (int k = 0; k < n; k++) {", "}", "int *__restrict__ k_at"),
        ("int k = 0; do {", "} while (k < n * n);", "int *__restrict__ k_at"),
        ("int k = 0; more: {", "} if (s < 99) goto more;", "int *__restrict__ k_at"),
        ("int k = 0, *p = &k;", "s += *p;", ""),
        ("{ int k = 0;", "} { int k = 0; s += k; }", "int k"),
    ],
)
def test_a_value_that_nothing_uses_behind_a_loop_is_all_that_it_gets(
    before: str, behind: str, head: str, tmp_path: Path
) -> None:
    loop = "for (int i = 0; i < 4; i++) { s += k; k++; } // LINE"
    function = f"int f(int n) {{ int s = 0; {before}\n {loop}\n {behind}\n return s; }}"
    text = FILE.format(functions=function, call="f(5)")
    if not head:
        with pytest.raises(UsageError, match="by another way than its name"):
            outlined(text, "f", "LINE")
        return
    made = outlined(text, "f", "LINE")
    assert head in made.opening.splitlines()[0]
    assert said(made.text, tmp_path) == said(text, tmp_path)


@pytest.mark.parametrize("before", REFUSED)
def test_a_loop_that_would_be_another_is_refused(before: str) -> None:
    body, message = REFUSED[before]
    function = f"int f(int n) {{ {before}\n for (int i = 0; i < n; i++) {{ {body} }} // LINE\n return s; }}"
    with pytest.raises(UsageError, match=message):
        outlined(FILE.format(functions=function, call="f(5)"), "f", "LINE")


def test_a_macro_with_more_than_the_loop_is_refused() -> None:
    function = "int f(int n) { int x = 0, s = 0;\n FIRST; // LINE\n return s + x; }"
    with pytest.raises(UsageError, match="is another in a function"):
        outlined(FILE.format(functions=function, call="f(5)"), "f", "LINE")


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "#ifdef SIZE\nif (n)\n#pragma omp simd\n#endif\n LOOP s += i;",
            "more than that stands between its directive",
        ),
        (
            "#pragma omp simd\n#if 1\nLOOP\n#else\n while (1)\n#endif\n s += i;",
            "more than that stands between",
        ),
        (
            "#pragma omp simd\n/* of\n two lines */\nLOOP s += i;",
            "more than that stands between its directive",
        ),
        ("#if 1\n s++; LOOP {\n#endif\n s += i; }", "it begins between directives"),
        ("LOOP { s += i;\n#if 1\n } s++;\n#endif\n", "it ends between directives"),
    ],
)
def test_a_loop_of_which_conditions_hold_a_part_is_refused(text: str, message: str) -> None:
    loop = text.replace("LOOP", "for (int i = 0; i < n; i++) /* LINE */")
    with pytest.raises(UsageError, match=message):
        outlined(f"int f(int n) {{ int s = 0;\n{loop}\n return s; }}\n", "f", "LINE")


def test_references_stand_where_no_copy_may(tmp_path: Path) -> None:
    """Each loop after the others, in a function of its own."""
    text = CLASSES
    for number, name in enumerate(NAMES):
        text = outlined(text, name, f"LINE {number}", "cc").text
        assert f"{name}_loop" in text
    assert said(text, tmp_path, "cc") == said(CLASSES, tmp_path, "cc")


METHODS = """\
#include <cstdio>
namespace sim {
struct Grid { int n; int *map; };
class Mesh {
    int n, bad; double *x; Grid *grid;
public:
    double limit;
    Mesh(int n, double *x, Grid *grid);
    void scale(double *out, Mesh &other);
    int show() const;
};
Mesh::Mesh(int n, double *x, Grid *grid) : n(n), bad(0), x(x), grid(grid), limit(0.5) {}
void Mesh::scale(double *out, Mesh &other)
{
    for (int i = 0; i < n; ++i) { // LINE
        out[grid->map[i]] += x[i] * limit;
        if (x[i] < 2)
            bad++;
        other.limit = bad;
    }
}
int Mesh::show() const
{
    int sum = 0;
    for (int i = 0; i < n; ++i) // BEHIND
        sum += bad * i;
    return sum;
}
void named_first(int n);
}
int main()
{
    double x[4] = {1, 2, 3, 0}, out[4] = {};
    int map[4] = {3, 1, 2, 0};
    sim::Grid grid = {4, map};
    sim::Mesh mesh(4, x, &grid);
    mesh.scale(out, mesh);
    std::printf("%g %g %g %d\\n", out[0], out[1], out[3], mesh.show());
}
"""


OPERATORS = """\
#include <cstdio>
struct Pair {
    double x, y;
    Pair(double x, double y) : x(x), y(y) {}
    Pair &operator+=(const Pair &o) { x += o.x; y += o.y; return *this; }
};
inline Pair operator+(const Pair &a, const Pair &b) { return Pair(a.x + b.x, a.y + b.y); }
inline Pair operator*(double s, const Pair &a) { return Pair(s * a.x, s * a.y); }
class Cells;
struct Link { Cells *cells; };
Pair operator-(const Link &a, const Pair &b);
class Cells {
public:
    int *map, n;
    Pair sum;
    void gather(const Pair *in, Pair *out) {
        for (int i = 0; i < n; i++) // CONTAINED
            out[map[i]] += 0.5 * (in[i] + in[map[i]]);
    }
    void differ(const Pair *in, Pair *out, const Link &link) {
        for (int i = 0; i < n; i++) // LINKED
            out[map[i]] += link - in[i];
    }
    void shrink(const Pair *in, Pair *out) {
        for (int i = 0; i < n; i++) // OWN
            out[map[i]] += *this & in[i];
    }
    friend Pair operator&(Cells &cells, const Pair &a) { cells.n -= a.x > 3; return a; }
};
Pair operator-(const Link &a, const Pair &b) { a.cells->n -= b.x > 4; return Pair(1 - b.x, b.y); }
int main()
{
    int map[4] = {2, 0, 3, 1};
    Pair in[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, out[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
    Cells cells = {map, 4, {0, 0}};
    cells.gather(in, out);
    cells.differ(in, out, Link{&cells});
    cells.shrink(in, out);
    for (const Pair &each : out) std::printf("%g %g\\n", each.x, each.y);
    std::printf("%d\\n", cells.n);
}
"""


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize(
    ("method", "mark", "taken"),
    [
        ("gather", "CONTAINED", "(int n, int *map"),
        ("differ", "LINKED", "int &n, int * &map"),
        ("shrink", "OWN", ""),
    ],
)
def test_members_are_copied_where_no_called_operator_reaches_them(
    method: str, mark: str, taken: str, tmp_path: Path
) -> None:
    if not taken:
        with pytest.raises(UsageError, match="uses the object that its function belongs to"):
            outlined(OPERATORS, f"Cells::{method}", mark, "cc")
        return
    made = outlined(OPERATORS, f"Cells::{method}", mark, "cc")
    assert taken in made.opening.splitlines()[0]
    assert said(made.text, tmp_path, "cc") == said(OPERATORS, tmp_path, "cc")


BODIES = METHODS[METHODS.index("void Mesh::scale") : METHODS.index("void named_first")]
IN_THE_CLASS = (
    METHODS.replace(BODIES, "")
    .replace(
        "    void scale(double *out, Mesh &other);\n    int show() const;\n", BODIES.replace("Mesh::", "")
    )
    .replace("};\nMesh::Mesh", "} /* of class */ ;\nMesh::Mesh")
)


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize("text", [METHODS, IN_THE_CLASS], ids=["behind the class", "in the class"])
def test_loops_of_methods_take_the_members_that_they_name(text: str, tmp_path: Path) -> None:
    made = outlined(text, "sim::Mesh::scale", "LINE", "cc")
    assert made.entry.startswith("sim::scale_loop")
    head = made.opening.splitlines()[0]
    assert "(int n, Grid *grid, double *x, double *out, Mesh &other, double &limit, int &bad)" in head
    assert made.put_back(made.text) == text
    behind = outlined(made.text, "sim::Mesh::show", "BEHIND", "cc")
    assert "const" in behind.opening.splitlines()[0]
    assert said(behind.text, tmp_path, "cc") == said(text, tmp_path, "cc")


@pytest.mark.parametrize(
    ("given", "changed", "message"),
    [
        ("out[grid", "this->bad += 0; out[grid", "uses the object that its function belongs to"),
        ("out[grid", "n += show() - show(); out[grid", "uses the object that its function belongs to"),
        (
            "}\nint main",
            "}\nvoid sim::Mesh::scale(double *out, Mesh &other)\n{\n",
            "outside of the namespace",
        ),
    ],
)
def test_loops_of_methods_that_are_none_of_a_plain_function(given: str, changed: str, message: str) -> None:
    text = METHODS.replace(given, changed)
    if "main" in given:
        begin, end = METHODS.index("void Mesh::scale"), METHODS.index("int Mesh::show")
        body = METHODS[begin:end]
        text = METHODS.replace(body, "").replace(
            "}\nint main", "}\n" + body.replace("Mesh::scale", "sim::Mesh::scale") + "int main"
        )
    with pytest.raises(UsageError, match=message):
        outlined(text, "sim::Mesh::scale", "LINE", "cc")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("struct T { %s } t;", "stands in the body of a class"),
        ("auto pair() { return std::pair(1, 2); }\nint s = 1;\nstruct T { %s };", "a is"),
    ],
)
def test_loops_that_have_no_place_outside_are_refused(text: str, message: str) -> None:
    made = "auto [a, b] = pair();" if "pair" in text else "int a = 0;"
    method = f"static int f(int n) {{ {made}\n for (int i = 0; i < n; i++) a += i; // LINE\n return a; }}"
    with pytest.raises(UsageError, match=message):
        outlined(f"#include <utility>\n{text % method}\n", "f", "LINE", "cc")


@needs.cc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for (int i = 0; i < n; i++) s += i;", "if (n > 0) { int i = 0; do { s += i++; } while (i < n); }"),
        ("for (int i = 0; i < n; i++) s += i;", "for (int i = 0; i < n; i++) if (i) s += i;"),
        ("for (int i = 0; i < n; i++) s += i;", "s += n * (n - 1) / 2;\n    int unused = 0;"),
        ("for (int i = 0; i < n; i++) s += i;", "int unused = s += n * (n - 1) / 2;"),
    ],
)
def test_an_else_behind_a_loop_stays_with_its_if(old: str, new: str, tmp_path: Path) -> None:
    function = f"int f(int n) {{ int s = 0;\n if (n > 2) {old} // LINE\n else s = 7;\n return s; }}"
    text = FILE.format(functions=function, call="f(5) * 100 + f(0) * 10 + f(1)")
    made = outlined(text, "f", "LINE")
    put = made.put_back(made.text.replace(old, new))
    assert new.split("\n")[0][:20] in put
    assert "f_loop" not in put
    assert said(put, tmp_path) == said(text, tmp_path)
