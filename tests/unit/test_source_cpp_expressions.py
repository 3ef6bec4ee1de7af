"""Conversions, functions and operators as C++ writes them: open to operators, the same results, the same spelling."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest
from same_results import STRIPS, program_of, same, variants_of

from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spaces.source.edits import EditRefused, apply_edit, apply_edits

HEAD = "#include <algorithm>\n#include <cmath>\n#include <cstddef>\n#include <limits>\n"
OPEN = {
    "static_cast": "a[i] = b[i] + static_cast<double>(i);",
    "static_cast to a type with a space": "a[i] = b[static_cast<unsigned long>(i)];",
    "static_cast of a sum, times more": "a[static_cast<std::size_t>(i + 1) * 2] = static_cast<float>(b[i] + 0.1) * 3;",
    "a type called": "a[i] = double(i) / 4 + b[std::size_t(i)] * float(0.1);",
    "a type with braces": "double t{b[i]}; a[i] = double{0.5} * t;",
    "a type of the file's own called": "a[i] = real(0.1) * b[i];",
    "an initial value in parentheses": "double t(b[i] * 2); int k(3); a[i] = t * k;",
    "functions of the library": "a[i] = std::sqrt(std::abs(b[i])) + std::fma(b[i], 2.0, 1.0) + std::pow(b[i], 2);",
    "minimum and maximum": "a[i] = std::max(b[i], std::min<double>(0.5, a[i])) + std::clamp(b[i], 0.0, 1.0);",
    "a minimum of counters": "a[i] = b[std::min(i, 7)];",
    "what a type can hold": "a[i] = b[i] / std::numeric_limits<unsigned long>::max();",
    "operators as words": "if (b[i] > 0 and not (b[i] > 1 or i == 3)) a[i] = i bitand 3;",
}
ALIKE = ("static_cast", "static_cast to a type with a space", "a minimum of counters")
"""Those whose parts others have as well: they are read, and run in those."""
BESIDE = (
    "std::vector<double> w(5);",
    "std::vector<double> x{1, 2};",
    "auto y{3};",
    "const double &z = std::max(a[0], 1.0);",
    "double u[2]{1, 2};",
)
"""Declarations of other kinds than numbers."""
CLOSED = {
    "a function that is handed out": "a[i] = std::exchange(a[i + 1], b[i]);",
    "a reference": "a[i] = static_cast<const double &>(b[i]);",
    "a member": "a[i] = std::numeric_limits<double>::digits10 + own::sqrt(b[i]);",
    "the project's own": "a[i] = sqrt(b[i]);",
}


def function(body: str) -> str:
    own = "namespace own { inline double sqrt(double x) { static double last; return last += x; } }\nusing own::sqrt;\n"
    begin = f"{HEAD}#include <utility>\n{own if 'sqrt(b[i])' in body else ''}typedef float real;\n"
    loop = f"    for (int i = 0; i < n; i++) {{\n        {body}\n    }}\n"
    return f"{begin}void f(int n, double *a, const double *b)\n{{\n{loop}}}\n"


@needs.cc
@pytest.mark.integration
@pytest.mark.parametrize("name", [name for name in OPEN if name not in ALIKE])
def test_loops_with_them_compute_the_same(name: str, tmp_path: Path) -> None:
    program = program_of(function(OPEN[name]), "f", "c++")
    made = variants_of(program, 1, chains=2)
    assert len(made) > 4
    assert not same(program, "f", made, tmp_path, trials=20)


@pytest.mark.parametrize("name", OPEN)
def test_they_are_open_and_keep_their_spelling(name: str) -> None:
    program = apply_edit(program_of(function(OPEN[name]), "f", "c++"), STRIPS)
    shown = program.sources(presentable=True)[0].text
    assert "i_tile += T" in shown
    assert OPEN[name].split("; ")[-1] in shown


@needs.cc
@pytest.mark.integration
def test_declarations_of_other_things_stay_as_they_are(tmp_path: Path) -> None:
    text = function("a[i] = b[i] * 2;").replace("#include <utility>", "#include <vector>")
    program = program_of(text.replace("    for", f"    {' '.join(BESIDE)}\n    for"), "f", "c++")
    made = variants_of(program, 1, chains=1)
    assert len(made) > 4
    assert not same(program, "f", made, tmp_path, trials=10)


@pytest.mark.parametrize("name", CLOSED)
def test_what_may_do_anything_stays_text(name: str) -> None:
    edit = {"op": "reverse", "function": "f", "loop": "i"}
    apply_edits(program_of(function("a[i] = b[i];"), "f", "c++"), [edit])
    with pytest.raises(EditRefused, match=r"loop i holds|effects that are not known"):
        apply_edits(program_of(function(CLOSED[name]), "f", "c++"), [edit])


def test_conversions_that_are_changed_stay_those_of_cpp() -> None:
    """Copies of a statement for other iterations are written anew."""
    body = "a[i] = static_cast<double>(i + 1) * double(i) + (double)i;"
    copies = {"op": "unroll_copies", "function": "f", "loop": "i", "count": 2}
    made = apply_edits(program_of(function(body), "f", "c++"), [copies])
    text = made.variant.files[0].text
    assert "static_cast<double>(i + 1 + 1) * double(i + 1) + (double)(i + 1)" in text


DEDUCED = {
    "auto x = b[i] * 2;": "double",
    "const auto x = b[i];": "const double",
    "const auto y = 1.5f, x = 2 * y;": "const float",
    "const auto y = std::sqrt(b[0]), x = -y;": "const double",
    "const auto x = i + 1;": "const int",
    "const auto x = static_cast<unsigned long>(i);": "const unsigned long",
    "const auto x = i ? 1 : 0.5;": "const double",
}
PAIR = "struct pair { double a, b; }; inline pair operator*(pair x, double y) { return {x.a * y, x.b * y}; }"
LEFT_AUTO = {
    "const auto x = b[i] > 0;": "const bool",
    "const char y = i; const auto x = y;": "const char",
    "const auto x = 'c';": "const char",
    "long double y = i; const auto x = y * b[i];": "const long double",
    "const auto *x = &b[i];": "const double *",
    "const auto x = two * 2.0;": "const pair",
}
"""What the compiler deduces where this does not."""


@needs.cc
@pytest.mark.integration
def test_deduced_types_are_those_of_the_compiler(tmp_path: Path) -> None:
    told = [HEAD]
    for number, (body, kind) in enumerate((DEDUCED | LEFT_AUTO).items()):
        text = function(f"{body} a[i] = i;").replace("typedef", f"{PAIR}\ntypedef", 1)
        text = text.replace("*b)", "*b, pair two)")
        made = apply_edits(program_of(text, "f", "c++"), [STRIPS]).variant.files[0].text
        assert f"{kind} x = " in made if body in DEDUCED else "auto" in made
        text = text.replace("a[i] = ", f"static_assert(__is_same(decltype(x), {kind})); a[i] = ")
        told.append(f"namespace case_{number} {{\n{text.removeprefix(HEAD).split(chr(10), 1)[1]}}}\n")
    file = tmp_path / "cases.cpp"
    file.write_text("".join(told))
    command = [find_toolchain().clang, "-std=c++17", "-fsyntax-only", str(file)]
    subprocess.run(command, check=True, timeout=60)


def test_counters_have_deduced_types() -> None:
    text = function("a[i] = b[i];").replace("for (int i = 0;", "for (auto i = 0;")
    made = apply_edits(program_of(text, "f", "c++"), [STRIPS]).variant.files[0].text
    assert "for (int i = i_tile;" in made
