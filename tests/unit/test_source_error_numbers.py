"""Functions of mathematics that are taken to set no error number: declared so, and then no more called by compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import needs
import pytest
from same_results import program_of

from tuner.spaces.source.edits import Refused, apply_edit
from tuner.spaces.source.identity import structure_digest
from tuner.spaces.source.operators import OPERATORS
from tuner.spaces.source.regions import Program

ROOTS = "void f(float *a, int n)\n{{\n    for (int i = 0; i < n; i++)\n        a[i] = {};\n}}\n"


def program(value: str, *, above: str = "", language: str = "c") -> Program:
    return program_of(f"{above}{ROOTS.format(value)}", "f", language)


def edited(read: Program) -> str:
    return apply_edit(read, {"op": "ignore_errno", "function": "f"}).sources()[0].text


def calls(text: str, compiler: str, suffix: str, folder: Path) -> bool:
    """Whether code for a text calls a root of the library."""
    source = folder / f"f{suffix}"
    source.write_text(text)
    made = subprocess.run(
        [compiler, "-O3", "-S", "-o", "-", str(source)], capture_output=True, text=True, check=True
    ).stdout
    return "sqrtf" in made


@needs.gcc
def test_gcc_calls_no_root_that_sets_no_error_number(tmp_path: Path) -> None:
    read = program("1.0f / sqrtf(a[i])", above="#include <math.h>\n")
    given = read.sources()[0].text
    assert calls(given, "gcc", ".c", tmp_path)
    assert not calls(edited(read), "gcc", ".c", tmp_path)


@needs.cxx
def test_a_root_of_cpp_for_floats_becomes_that_of_c(tmp_path: Path) -> None:
    read = program("1.0f / std::sqrt(a[i])", above="#include <cmath>\n", language="c++")
    made = edited(read)
    assert 'extern "C" float sqrtf(float) __attribute__((const));' in made
    assert calls(read.sources()[0].text, "c++", ".cpp", tmp_path)
    assert not calls(made, "c++", ".cpp", tmp_path)


def test_each_function_is_declared_with_its_own_type() -> None:
    made = edited(program("powf(a[i], 2.0f) + (float)exp(sqrt(a[i])) + fabsf(a[i])"))
    assert [line for line in made.splitlines() if "const))" in line] == [
        "double exp(double) __attribute__((const));",
        "float powf(float, float) __attribute__((const));",
        "double sqrt(double) __attribute__((const));",
    ]


@pytest.mark.parametrize(
    ("value", "above", "language", "why"),
    [
        pytest.param("fabsf(a[i])", "", "c", "no further function", id="none that sets it"),
        pytest.param(
            "sqrtf(a[i])",
            "int fetestexcept(int);\n",
            "c",
            "floating-point exceptions",
            id="exceptions looked at",
        ),
        pytest.param(
            "pow(a[i], 2)", "double pow(double, int);\n", "c", "no further function", id="declared by it"
        ),
        pytest.param(
            "std::sqrt(a[i])",
            "namespace sim { float sqrtf(float); }\n",
            "c++",
            "no further",
            id="a name that is taken",
        ),
        pytest.param("std::hypot(a[i], a[i], a[i])", "", "c++", "no further function", id="of three numbers"),
        pytest.param("sqrtf(a[i])", "extern int errno;\n", "c", "reads errno", id="read by the program"),
        pytest.param(
            "sqrtf(a[i])",
            "static float sqrtf(float x) { return x; }\n",
            "c",
            "no further function",
            id="the project's own",
        ),
    ],
)
def test_other_calls_stay(value: str, above: str, language: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        edited(program(value, above=above, language=language))


def test_it_is_told_once_and_is_another_variant() -> None:
    read = program("sqrtf(a[i])")
    made = apply_edit(read, {"op": "ignore_errno", "function": "f"})
    assert structure_digest(made) != structure_digest(read)
    assert not list(OPERATORS["ignore_errno"].sites(made.functions["f"], False))
    assert list(OPERATORS["ignore_errno"].sites(read.functions["f"], False)) == [
        {"assumes": ["errno is not read"]}
    ]


def test_functions_of_c_are_declared_beside_classes_alone() -> None:
    method = ROOTS.format("std::sqrt(a[i]) * w")
    inside = f"namespace sim {{\nstruct S {{\n    float w;\n{method}}};\n}}\n"
    with pytest.raises(Refused, match="inside a class"):
        edited(program_of(inside, "f", "c++"))
    behind = f"namespace sim {{\nstruct S {{ float w; }};\n{ROOTS.format('std::sqrt(a[i])')}}}\n"
    assert 'extern "C" float sqrtf' in edited(program_of(behind, "f", "c++"))
