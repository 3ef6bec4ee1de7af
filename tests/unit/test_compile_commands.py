"""First specs with macros, folders and dialect of a project's own build."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest

from tuner.core.errors import UsageError
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.first.compile_commands import LIST_FILE, Compiled, compiled_as
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec

KERNEL = """\
#include "size.h"
void scale(real *restrict a, const real *b, int n) { for (int i = 0; i < n; i++) a[i] = b[i] * WIDTH; }
"""
HEADER = """\
#if !defined(FAST) || __STDC_VERSION__ < 201112L
#error not as built
#endif
typedef REAL real;
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "src/k.c": KERNEL,
        "inc/size.h": HEADER,
        "build/more": "'-DREAL=unsigned char' -DWIDTH=3\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def listed(project: Path, *commands: str, place: str = "build") -> Path:
    entries = [{"directory": str(project / "build"), "command": c, "file": "../src/k.c"} for c in commands]
    path = project / place / LIST_FILE
    path.write_text(json.dumps(entries))
    return path


@pytest.mark.parametrize("place", ["build", ".", "src"])
def test_a_file_is_read_as_the_project_compiles_it(place: str, project: Path) -> None:
    listed(project, "gcc -DFAST @more -I../inc -std=gnu11 -O2 -g -fPIC -o k.o -c ../src/k.c", place=place)
    first = first_spec(project / "src" / "k.c", define=["EXTRA=2"])
    (project / "src" / "k.yaml").write_text(first.text)
    (spec,) = load_spec(project / "src" / "k.yaml")
    assert [a.dtype for a in spec.task.arguments] == ["uint8", "uint8", "int32"]
    assert spec.task.kernel.include == ("../inc",)
    assert spec.tunables.flags["macros"] == ("-DFAST '-DREAL=unsigned char' -DWIDTH=3 -std=gnu11 -DEXTRA=2",)
    assert "# check: macros, folders and dialect are those of " in first.text


def test_words_are_taken_that_say_what_the_source_means(project: Path) -> None:
    words = [
        "cc",
        "-D",
        "A=b c",
        "-UB",
        "-isystem",
        "/sys",
        "-include",
        "../inc/size.h",
        "-Wall",
        "-funsigned-char",
    ]
    words += [
        "-march=native",
        "-O3",
        "-I",
        ".",
        "-fwrapv",
        "-iquote../inc",
        "-ffunction-sections",
        "-c",
        "../src/k.c",
    ]
    entry = {"directory": str(project / "build"), "arguments": words, "file": str(project / "src" / "k.c")}
    (project / LIST_FILE).write_text(json.dumps([entry]))
    found = compiled_as(project / "src" / "k.c")
    assert found is not None
    assert found.flags == ("-DA=b c", "-UB", "-include", "size.h", "-funsigned-char", "-fwrapv")
    assert found.include == (Path("/sys"), project / "inc", project / "build")


def test_the_first_of_several_ways_is_taken_and_said(project: Path) -> None:
    one = "gcc -DFAST @more -I../inc -std=c11 -c ../src/k.c"
    listed(project, one, one + " -O3", one + " -DOTHER")
    assert (
        "build/compile_commands.json, of 3 ways there the first" in first_spec(project / "src" / "k.c").text
    )
    (project / "src" / "other.c").write_text(KERNEL)
    assert compiled_as(project / "src" / "other.c") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file"),
        ("{", "is no list of compile commands"),
        ('[{"file": "k.c"}]', "is no list of compile commands: no list of entries with file and directory"),
        ("[]", "does not have k.c"),
        ('[{"directory": "DIR/build", "file": "../src/k.c", "command": "cc @absent"}]', "cannot be read"),
        ('[{"directory": "DIR/build", "file": "../src/k.c", "command": "cc \'"}]', "cannot be read"),
    ],
)
def test_a_list_that_does_not_help_is_refused_in_one_line(text: str | None, said: str, project: Path) -> None:
    path = project / "named.json"
    if text is not None:
        path.write_text(text.replace("DIR", str(project)))
    with pytest.raises(UsageError, match=said) as refused:
        first_spec(project / "src" / "k.c", commands=path)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("name", ["gcc", "clang"])
def test_a_compiler_other_than_clang_is_named(name: str, project: Path) -> None:
    if name == "gcc" and not needs.links("gcc"):
        pytest.skip("gcc is missing")
    program = find_toolchain().clang if name == "clang" else "gcc"
    rest = "-DFAST @more -I../inc -std=gnu11 -O2 -g -fno-plt -o k.o -c ../src/k.c"
    listed(project, f"ccache {program} {rest}")
    text = first_spec(project / "src" / "k.c").text
    named = name == "gcc"
    assert ("compiler: gcc -O2 -fno-plt  " in text) == named
    for word in ("passes:", "vectors:"):
        assert (word in text) == (not named)
    (project / "src" / "k.yaml").write_text(text)
    (spec,) = load_spec(project / "src" / "k.yaml")
    compiler = spec.task.kernel.compiler
    assert (compiler.command if compiler else ()) == (("gcc", "-O2", "-fno-plt") if named else ())


@needs.cc
@pytest.mark.parametrize(("word", "threads"), [("-O2", False), ("-fopenmp", True)])
def test_directives_of_openmp_count_where_they_do_in_the_build(
    word: str, threads: bool, project: Path
) -> None:
    source = project / "src" / "k.c"
    source.write_text(KERNEL.replace("{ for", "{\n#pragma omp parallel for\n for"))
    listed(project, f"gcc -DFAST @more -I../inc -std=gnu11 {word} -c ../src/k.c")
    text = first_spec(source).text
    assert ("openmp: true" in text) == threads
    assert "compiler: gcc" in text
    (project / "src" / "k.yaml").write_text(text)
    assert load_spec(project / "src" / "k.yaml")[0].notices == ()


def test_a_compiler_that_is_not_there_is_said(project: Path) -> None:
    listed(project, "/far/gcc -DFAST @more -I../inc -std=gnu11 -O2 -c ../src/k.c")
    text = first_spec(project / "src" / "k.c").text
    assert "# check: the build's compiler is left out, /far/gcc -O2: /far/gcc is not installed\n" in text
    assert "passes:" in text


def test_a_compiler_that_a_person_names_is_written(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        KERNEL.replace('#include "size.h"', "#define WIDTH 3").replace("real", "float")
    )
    command = f"{find_toolchain().clang} -O2 -fno-math-errno"
    text = first_spec(tmp_path / "k.c", compiler=command).text
    (tmp_path / "k.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert spec.task.kernel.compiler is not None
    assert list(spec.task.kernel.compiler.command) == command.split()
    assert "flags:" not in text
    assert not spec.wants_passes


@pytest.mark.parametrize(
    ("file", "compiler", "said"),
    [
        ("k.c", "", "--compiler is empty"),
        ("k.c", "gcc '", "cannot be split into words"),
        ("k.c", "absent-cc -O2", "absent-cc is not installed"),
        ("k.c", "CLANG -c", "-c says what is made of a file"),
        ("k.c", "CLANG -fno-such-thing", "the compiler does not take its flags"),
        ("k.cl", "gcc -O2", "for C and C\\+\\+"),
    ],
)
def test_a_compiler_that_cannot_be_named_is_refused(
    file: str, compiler: str, said: str, tmp_path: Path
) -> None:
    text = "void f(float *a, int n)\n{\nfor (int i = 0; i < n; i++) a[i] *= 2;\n}\n"
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageError, match=said) as refused:
        first_spec(tmp_path / file, compiler=compiler.replace("CLANG", find_toolchain().clang))
    assert "\n" not in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    ("command", "optimised"),
    [
        ("gcc -g", False),
        ("/usr/bin/x86_64-linux-gnu-g++-12", False),
        ("clang -O3 -O0", False),
        ("cc -Og", False),
        ("cc -O", True),
        ("cc -O0 -Ofast", True),
        ("icx", True),
        ("nvc -fast", True),
        ("", True),
    ],
)
def test_whether_the_build_asks_for_fast_code(command: str, optimised: bool) -> None:
    assert Compiled(list=None, include=(), flags=(), command=tuple(command.split())).optimised == optimised
