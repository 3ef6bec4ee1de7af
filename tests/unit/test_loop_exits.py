"""Loops as kernels that return from their function, and what they use of register variables and complex numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest

from tuner.core.errors import UsageError
from tuner.core.types import Source
from tuner.driver.check import check_spec
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.outlined import Outlined
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

PROGRAM = """\
#include <stdio.h>
enum kind { NONE, SOME, ALL };
static int seen, returned;

static int find(const double *x, int n, double least) {
    int i, passed = 0;
    double sum = 0;
    for (i = 0; i < n; i++) {                                     // LINE int
        sum += x[i];
        if (x[i] > least) return i * 100 + passed + (int)sum;
        passed++;
    }
    return -i - passed - (int)sum;
}
static _Bool any(const double *x, int n, double least) {
    while (n-- > 0) if (x[n] > least) return 1;                   // LINE bool
    return 0;
}
static void count(const double *x, int n, double least) {
    for (int i = 0; i < n; seen++, i++)                           // LINE void
        if (x[i] > least) return;
    seen += 1000;
}
static const double *place(const double *x, int n, double least) {
    do {                                                          // LINE pointer
        if (*x > least) return x;
        x++;
    } while (--n);
    return 0;
}
static enum kind kind(const int *keys, int n, int key) {
    for (int i = 0; i < n; i++)                                   // LINE enum
        if (keys[i] == key) return i + 1 < n ? SOME : ALL;
    return NONE;
}
static double ends(double *x) {
    register int i = 2, j;
    register double by = 0.5;
    for (;;) {                                                    // LINE endless
        i++;
        for (j = 0; j < 3; j++) x[j] *= by;
        by *= 1.25;
        if (i > 7) return by + i;
    }
}
static double registers(double *x, int n) {
    register int i, last = n;
    register double sum = 0;
    for (i = 0; i < n; i++) { sum += x[i]; last--; }              // LINE register
    for (i = 1; i < n; i++)                                       // LINE label
        if ((sum += x[i]) > 9 && last < 2) goto out;
    sum = -sum;
out:
    return sum + i * 10 + last * 100;
}
static double complex_numbers(int n) {
    double _Complex c = 0.25 + 0.5i, z = 0;
    register float _Complex by = 0.75f;
    const double _Complex fixed = 0.125i;
    for (int i = 0; i < n; i++) z = z * z * by + c + fixed;       // LINE complex
    return __real__ (z + c) + 100 * __imag__ (z * by);
}

int main(void) {
    double x[6] = {1, 2, 3, 4, 5, 6};
    int keys[3] = {3, 5, 7};
    for (int least = 0; least < 8; least++) {
        const double *at = place(x, 6, least);
        count(x, 6, least);
        printf("%d %d %d %d %d\\n", find(x, 6, least), any(x, 6, least), seen, at ? (int)(at - x) : -1,
               kind(keys, 3, least));
    }
    printf("%.12g %.12g %.12g\\n", registers(x, 6), ends(x), complex_numbers(5) + x[1] + returned);
    return 0;
}
"""
FUNCTIONS = {
    "int": "find",
    "bool": "any",
    "void": "count",
    "pointer": "place",
    "enum": "kind",
    "endless": "ends",
    "register": "registers",
    "label": "registers",
    "complex": "complex_numbers",
}
GUARDED = """\
#include <stdio.h>
struct guard {
    int &count;
    explicit guard(int &n) : count(n) {}
    guard(const guard &) = delete;
    ~guard() { printf("%d\\n", count); }
};
static int work(const double *x, int n) {
    static int calls;
    int count = 0, other = 0;
    guard here(count);
    for (int i = 0; i < n; i++) {
        count++, other++, calls += 10;
        if (x[i] > 2) return other + calls;
    }
    return -other - calls;
}
int main() {
    double x[4] = {1, 2, 3, 4};
    printf("%d %d\\n", work(x, 2), work(x, 4));
}
"""


def outlined(text: str, entry: str, mark: str, *, suffix: str = "c") -> Outlined:
    """The loop in the line that a mark stands in."""
    line = next(i for i, each in enumerate(text.splitlines(), 1) if mark in each)
    language = "c" if suffix == "c" else "c++"
    reader = SourceReader(files=(Source(name=f"k.{suffix}", text=text),), language=language)
    return outline(reader, entry, line)


def said(folder: Path, text: str, *command: str, suffix: str = "c") -> bytes:
    """What a program writes that a command compiles."""
    (folder / f"k.{suffix}").write_text(text)
    words = [*command, "-w", "-ffp-contract=off", f"k.{suffix}", "-o", "k"]
    subprocess.run(words, cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the program prints as it is."""
    folder = tmp_path_factory.mktemp("given")
    return {optimised: said(folder, PROGRAM, "cc", optimised) for optimised in ("-O0", "-O2")}


@needs.cc
@pytest.mark.parametrize("mark", list(FUNCTIONS))
def test_a_program_does_the_same_with_the_loop_in_a_function(
    given: dict[str, bytes], mark: str, tmp_path: Path
) -> None:
    made = outlined(PROGRAM, FUNCTIONS[mark], f"LINE {mark}")
    for optimised in ("-O0", "-O2"):
        assert said(tmp_path, made.text, "cc", optimised) == given[optimised] != b""
    assert made.put_back(made.text) == PROGRAM
    assert made.call.count("\n") == PROGRAM[made.begin : made.end].count("\n")


def test_objects_of_classes_see_what_a_loop_made_before_it_returned(tmp_path: Path) -> None:
    made = outlined(GUARDED, "work", "i < n", suffix="cc")
    (head,) = (line for line in made.opening.splitlines() if "work_loop" in line)
    assert head == (
        "int work_loop12(const double *x, int n, int &calls, int &count, int *__restrict__ other_at, "
        "int *__restrict__ returned_at)"
    )
    words = [str(find_toolchain().clang), "-fno-exceptions"]
    given = said(tmp_path, GUARDED, *words, suffix="cc")
    assert said(tmp_path, made.text, *words, suffix="cc") == given != b""


def test_a_parameter_says_whether_the_loop_returned() -> None:
    made = outlined(PROGRAM, "find", "LINE int")
    # The file has a variable of the name that the call would have for it.
    assert "int returned_ = 0; int returned_value = find_loop8(" in made.call
    assert "if (returned_) return returned_value;\n" in made.call
    assert made.opening.endswith("    *returned_at = 1;\n    ")
    assert made.closing.endswith("    *returned_at = 0;\n    return 0;\n}")
    assert outlined(PROGRAM, "count", "LINE void").closing == "\n    *returned_at = 0;\n}"


@pytest.mark.parametrize(
    ("loop", "ends"),
    [
        ("for (;;) { for (;;) break; switch (n) { case 1: break; } if (n++ > 8) return n; }", False),
        ("while (1) if (n++ > 8) return n;", False),
        ("do { if (n++ > 8) return n; if (n == 4) break; } while (1);", True),
        ("do { if (n++ > 8) return n; } while (0);", True),
        ("for (; n < 9;) { if (n++ > 8) return n; }", True),
    ],
)
def test_behind_a_loop_that_never_ends_the_function_returns(loop: str, ends: bool) -> None:
    """Compilers warn where a function may end without its value."""
    made = outlined(f"int f(int n)\n{{\n{loop}\nreturn 2;\n}}\n", "f", loop)
    assert ("returned_at" in made.opening) == ends
    assert made.call.endswith(
        " if (returned) return returned_value; }" if ends else "; return returned_value; }"
    )


def test_complex_numbers_are_read_from_their_addresses() -> None:
    made = outlined(PROGRAM, "complex_numbers", "LINE complex")
    for each in ("double *__restrict__ c_at", "float *__restrict__ by_at", "double *__restrict__ fixed_at"):
        assert f"const _Complex {each}" in made.opening
    assert "*z_at = z;" in made.closing
    assert "c_at" not in made.closing


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "static int calls; for (int i = 0; i < n; i++) { calls++; if (x[i] > 3) return i; } return calls;",
            "calls, which it changes, outlives its function",
        ),
        (
            "extern int all; for (int i = 0; i < n; i++) { all++; if (x[i] > 3) return i; } return all;",
            "all, which it changes, outlives its function",
        ),
        (
            "__attribute__((cleanup(done))) int t = 0; for (int i = 0; i < n; i++) if (x[t++] > 3) return i;",
            "the end of t may ask for t",
        ),
        (
            "for (int i = 0; i < n; i++) { if (x[i] > 3) return i; if (x[i] < 0) goto out; } out:",
            "it returns, and goes to out outside of it as well",
        ),
        (
            "for (int i = 0; i < n; i++) if (x[i] > 3) return;",
            "it returns nothing from a function that returns",
        ),
    ],
)
def test_returns_that_would_lose_a_value_are_refused(body: str, reason: str) -> None:
    text = f"void done(int *t);\nint f(int n, double *x) {{\n{body}\nreturn 0; }}\n"
    reader = SourceReader(
        files=(Source(name="k.c", text=text),), language="c", flags=("-std=gnu89", "-Wno-return-type")
    )
    with pytest.raises(UsageError, match=reason):
        outline(reader, "f", 3)


@pytest.mark.parametrize("kind", ["struct pair", "long double"])
def test_types_that_no_spec_can_describe_are_not_returned(kind: str) -> None:
    text = f"""
struct pair {{ int a, b; }};
{kind} f({kind} *x, int n) {{
    for (int i = 0; i < n; i++) if (i == 7) return x[i];
    return x[0];
}}
"""
    with pytest.raises(UsageError, match=r"it returns `.*` from its function, which no spec can describe"):
        outlined(text, "f", "i < n")


def test_a_changed_loop_that_returns_is_put_back() -> None:
    made = outlined(PROGRAM, "find", "LINE int")
    changed = made.text.replace("least) return i * 100", "least) return 100 * i")
    assert changed != made.text
    assert made.put_back(changed) == PROGRAM.replace("least) return i * 100", "least) return 100 * i")
    # What names a parameter of the function alone has no meaning where the loop stood.
    other = changed.replace("passed++;", "passed++; *returned_at = 1;")
    assert other != changed
    assert made.put_back(other) == other


def test_a_first_spec_has_what_is_returned_and_whether(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(PROGRAM)
    first = first_spec(tmp_path / "k.c", folder=tmp_path, loop=8)
    (tmp_path / "k.yaml").write_text(first.text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert spec.task.kernel.returns == "int32"
    roles = {a.name: str(a.role) for a in spec.task.arguments if a.is_array}
    assert roles == {
        "x": "input",
        "i_at": "inout",
        "passed_at": "inout",
        "sum_at": "inout",
        "returned_at": "output",
    }


@pytest.mark.integration
@pytest.mark.parametrize("mark", ["bool", "pointer", "endless", "complex"])
def test_a_first_spec_checks_as_it_is(mark: str, tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(PROGRAM)
    line = next(i for i, each in enumerate(PROGRAM.splitlines(), 1) if f"LINE {mark}" in each)
    first = first_spec(tmp_path / "k.c", folder=tmp_path, loop=line)
    (tmp_path / "k.yaml").write_text(first.text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines


def test_global_complex_numbers_are_arrays_of_one(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "static double _Complex by = 2, sum;\n"
        "void f(double _Complex *a, int n) { for (int i = 0; i < n; i++) { a[i] *= by; sum += a[i]; } }\n"
    )
    (tmp_path / "k.yaml").write_text(first_spec(tmp_path / "k.c", folder=tmp_path).text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    found = {
        a.name: ([e.text for e in a.shape or ()], str(a.role)) for a in spec.task.arguments if a.is_array
    }
    assert found == {"a": (["n"], "inout"), "by": (["1"], "input"), "sum": (["1"], "inout")}
