"""Builds that are watched: by which commands they compile a file, and what specs and runs are told of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import needs
import pytest

from tuner.core.errors import MachineError, UsageError
from tuner.driver.applications.builds import PLAIN, Rebuilt, tree_with
from tuner.driver.applications.seen_compilers import with_compiler
from tuner.driver.applications.watched_builds import build_watched
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.first.compile_commands import (
    Compiled,
    is_compiler,
    makes_code,
    sorted_words,
    without_launchers,
)

MAKEFILE = """\
CC = cc
CFLAGS = -O2 -g -Wall -MMD -MFapp.d -DX=1 -Iinc -std=gnu11 -fno-plt
app: app.o other.o
	$(CC) -o $@ $^ -lm
%.o: src/%.c
	$(CC) $(CFLAGS) -c $< -o $@
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.10)
project(app C)
set(CMAKE_C_FLAGS "-fno-plt")
add_executable(app src/app.c src/other.c)
"""
FILES = {
    "Makefile": MAKEFILE,
    "CMakeLists.txt": CMAKE,
    "src/app.c": "int other(void); int main(void) { return other(); }\n",
    "src/other.c": "int other(void) { return 0; }\n",
    "words": "-O2 src/app.c '-DB=b c'\n",
    # Where the path has it first, it is found in the place of the one that it calls.
    "tools/cc": '#!/bin/sh\nPATH=${PATH#*:} cc -fno-plt "$@"\n',
    "tools/cc-like": '#!/bin/sh\nexec cc -fno-plt "$@"\n',
    "tools/ccache": '#!/usr/bin/env sh\nexec "$@"\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.startswith("tools/") else 0o644)
    return folder


def watched(folder: Path, build: str, *names: str) -> dict[str, Compiled]:
    sources = [folder / name for name in names or ("src/app.c",)]
    application = Rebuilt(folder=folder, build=build, command=("./app",), here=folder)
    scratch = folder.parent / "scratch"
    scratch.mkdir()
    texts = {source.relative_to(folder).as_posix(): source.read_bytes() for source in sources}
    with tree_with(application, scratch / "copy", texts) as tree:
        found = build_watched(tree, application, PLAIN, sources, scratch)
    return {path.relative_to(folder).as_posix(): compiled for path, compiled in found.items()}


@needs.cc
@needs.namespaces
@pytest.mark.parametrize(
    ("build", "command", "ways"),
    [
        ("cc -O3 src/app.c src/other.c -o app -lm", "cc -O3", 1),
        ("cc -E src/app.c; cc -M src/app.c; cc -fsyntax-only src/app.c; cc -O1 -c src/app.c", "cc -O1", 1),
        ("cc -c -O1 src/app.c; cc -c -O2 src/app.c; cc -c -O2 $PWD/src/../src/app.c", "cc -O1", 2),
        ("for n in 1 2 3; do cc -O$n -DN=$n src/*.c -o app$n; done; cp app2 app; mv app3 app", "cc -O1", 3),
        ("for n in 1 2; do cc -O$n src/*.c -o app; mv app app$n; done", "cc -O1", 2),
        ("cc -O1 src/*.c -o other; cc -O2 src/*.c -o app", "cc -O2", 2),
        (
            "mkdir a b; cc -O1 -c src/app.c -o a/app.o; cc -O2 -c src/app.c -o b/app.o; cc src/o*.c b/*.o -o app",
            "cc -O2",
            2,
        ),
        ("cd src && `command -v cc` -O1 -c app.c", "CC -O1", 1),
        ("cc -c @words", "cc -O2", 1),
        ("ln -s src far && cc -c -O1 far/app.c", "cc -O1", 1),
        ("tools/ccache cc -O2 -c src/app.c", "cc -O2", 1),
        ("tools/cc-like -O2 -c src/app.c", "cc -fno-plt -O2", 1),
        ("PATH=$PWD/tools:$PATH sh -c 'cc -O2 -c src/app.c'", "DIR/tools/cc -O2", 1),
        ("cc -O2 -c src/other.c; cp src/app.c app.c; cc -c app.c", None, 0),
        ("env -i `command -v cc` -v 2>&1; env -i PATH=$PATH cc -c src/app.c", None, 0),
        ("true", None, 0),
    ],
)
def test_a_command_that_compiles_a_file_is_seen(
    build: str, command: str | None, ways: int, folder: Path
) -> None:
    found = watched(folder, build)
    if command is None:
        assert not found
        return
    absolute = command.replace("DIR", str(folder)).replace("CC", shutil.which("cc") or "")
    assert found["src/app.c"].command == tuple(absolute.split())
    assert found["src/app.c"].ways == ways
    assert found["src/app.c"].flags == (
        ("-DB=b c",) if "@words" in build else ("-DN=1",) if "-DN" in build else ()
    )


@needs.cc
@needs.make
@needs.namespaces
def test_files_that_make_compiles_abreast(folder: Path) -> None:
    found = watched(folder, "make -j2", "src/app.c", "src/other.c")
    assert sorted(found) == ["src/app.c", "src/other.c"]
    for compiled in found.values():
        assert compiled == Compiled(
            list=None,
            include=(folder / "inc",),
            flags=("-DX=1", "-std=gnu11"),
            command=("cc", "-O2", "-fno-plt"),
        )


@needs.cc
@needs.make
@needs.namespaces
@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is missing: pip install cmake")
@pytest.mark.integration
def test_a_project_of_cmake(folder: Path) -> None:
    found = watched(folder, "cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build")
    program, *flags = found["src/app.c"].command
    assert os.path.isabs(program)
    assert flags == ["-fno-plt", "-O3"]
    assert found["src/app.c"].flags == ("-DNDEBUG",)


@needs.namespaces
def test_a_file_that_is_a_link_is_another_one_in_the_copy(folder: Path, tmp_path: Path) -> None:
    own, link = tmp_path / "own.c", folder / "src" / "app.c"
    own.write_bytes(link.read_bytes())
    own.chmod(0o444)
    link.unlink()
    link.symlink_to(own)
    before = own.stat()
    application = Rebuilt(folder=folder, build="", command=("./app",), here=folder)
    with tree_with(application, tmp_path / "copy", {"src/app.c": b"other"}) as tree:
        assert tree.run(["cat", "src/app.c"]).output == b"other"
    assert own.read_bytes() == FILES["src/app.c"].encode()
    assert (own.stat().st_mode, own.stat().st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


@needs.cc
@needs.namespaces
@pytest.mark.parametrize("place", ["../../build", "linked"])
def test_a_build_outside_of_the_copy_is_refused(folder: Path, place: str) -> None:
    """It would leave objects of the copy's sources to the user. What lies beside the folder cannot be written to."""
    (folder.parent.parent / "build").mkdir(exist_ok=True)
    (folder / "linked").symlink_to("../../build")
    with pytest.raises(
        UsageError, match=f"the build has written .*, outside of {folder}, of which a copy is made"
    ):
        watched(folder, f"cc -c src/app.c -o {place}/app.o")


@needs.cc
@needs.namespaces
@pytest.mark.parametrize(
    "build",
    ["cd .. && cc -c {}/src/app.c -o {}/app.o", "cc -c src/app.c -o ../../app.o && mv ../../app.o ."],
)
def test_a_build_that_leaves_nothing_outside_of_the_copy(folder: Path, build: str) -> None:
    assert watched(folder, build.format(folder, folder))


@needs.namespaces
def test_clang_is_seen_too(folder: Path) -> None:
    clang = find_toolchain().clang
    found = watched(folder, f"{clang} -O2 -c src/app.c")
    assert found["src/app.c"].command == (clang, "-O2")


@needs.cc
@needs.namespaces
def test_a_build_is_what_it_is_unwatched(folder: Path) -> None:
    """Nothing is printed, loaded or asked of any program; the notes' folder may be gone."""
    build = """
rm -r "$TUNER_BUILD_NOTES" && cc -O2 -c src/app.c >said 2>&1 && test ! -s said &&
! grep -q build-notes /proc/self/maps && echo "${LD_PRELOAD-none}" | grep -qx none
"""
    assert not watched(folder, build)


def made_of(library: Path, text: str) -> None:
    command = ["cc", "-shared", "-fPIC", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=text, text=True, check=True)


@needs.cc
@needs.namespaces
@pytest.mark.parametrize("way", ["silent", "loud", "failing", "absent"])
def test_where_programs_do_not_run_with_the_library_nothing_is_watched(
    way: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = folder.parent / "library.so"
    if way == "silent":
        made_of(library, "unsigned la_version(unsigned offered) { return 0; }")
    elif way == "failing":
        made_of(library, "__attribute__((constructor)) static void end(void) { __builtin_trap(); }")
    elif way == "loud":
        library.write_text("no library")

    def made(text: str, name: str) -> Path:
        if way == "absent":
            raise MachineError("no linker", "install one")
        return library

    monkeypatch.setattr("tuner.driver.applications.watched_builds.shared_library", made)
    assert not watched(folder, "cc -c src/app.c 2>said && test ! -s said")


@needs.cc
@needs.namespaces
def test_a_build_that_fails_says_why(folder: Path) -> None:
    with pytest.raises(UsageError, match="fails as it is with status 7: broken"):
        watched(folder, "echo broken >&2; exit 7")


def test_words_of_code_stay_with_the_compiler() -> None:
    words = (
        "./tools/gcc -O1 -march=native -o k.o -c k.c -MD -MFk.d -MT k.o -Wall -Wl,-s -g3 -ggdb -pipe -lm -L . -x c"
        " -fdiagnostics-color=always -ffile-prefix-map=a=b --param inline-unit-growth=9 -save-temps=obj -O3"
        " -mllvm -inline -fPIC -fopenmp -flto=auto -target x86_64-linux -Xlinker -z -pthread -static-libgcc"
        " -Xclang -include-pch -Xclang /b/k.pch -Xclang -include -Xclang k.hxx -Xclang -menable -isysroot r"
        " -Ofast -std=c11 -fwrapv -DA -Iinc -v -pedantic-errors -MMD -"
    )
    include, flags, command = sorted_words(words.split(), Path("/b"))
    assert include == (Path("/b/inc"),)
    assert flags == ("-std=c11", "-fwrapv", "-DA")
    assert command == (
        *("/b/tools/gcc", "-march=native", "--param", "inline-unit-growth=9", "-mllvm", "-inline", "-fPIC"),
        *(
            "-fopenmp",
            "-flto=auto",
            "--target=x86_64-linux",
            "-Xclang",
            "-menable",
            "--sysroot=/b/r",
            "-Ofast",
        ),
    )


@pytest.mark.parametrize(
    "name",
    ["gcc", "/usr/bin/g++-13", "x86_64-linux-gnu-gcc", "clang-19", "cc", "c++", "icx", "arm-none-gcc-12.2"],
)
def test_names_of_compilers(name: str) -> None:
    assert is_compiler(name)
    assert without_launchers(["/opt/ccache", name, "-c"]) == [name, "-c"]
    assert without_launchers(["sh", "./libtool", "--mode=compile", name, "-c"]) == [name, "-c"]


@pytest.mark.parametrize("name", ["cc1", "ccache", "collect2", "as", "ld", "clang-tidy", "mpicc", "distcc"])
def test_other_names(name: str) -> None:
    assert not is_compiler(name)


@pytest.mark.parametrize("word", ["-E", "-M", "-MM", "-fsyntax-only", "-cc1", "-cc1as", "-###"])
def test_commands_that_make_no_code(word: str) -> None:
    assert makes_code(["gcc", "-MD", "-c", "k.c"])
    assert not makes_code(["gcc", word, "k.c"])


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("space:\n  a: 1\n", "space:\n  a: 1\n"),
        ("space:\n  a: 1\n  passes: off\n", "space:\n  a: 1\n  passes: off\n"),
        ("space:\n  passes: {base: x}  # why\n  a: 1\n", "space:\n  a: 1\n"),
        (
            "space:\n  a: 1\n  passes:\n    base: x\n    max_edits: 4\n# of b\nb: 1",
            "space:\n  a: 1\n# of b\nb: 1",
        ),
        ("space:\n  a: 1\n  passes: {base: x,\n    max_edits: 4}", "space:\n  a: 1\n"),
        ("space: {passes: {base: x}, a: 1}\n", "space: {passes: off, a: 1}\n"),
        ("space:\n  passes:\n    base: x\nb: 1\n", "space:\n  passes: off\nb: 1\n"),
        ("b: {passes: 1}\n", "b: {passes: 1}\n"),
    ],
)
def test_a_spec_gets_a_compiler_and_loses_passes(text: str, made: str) -> None:
    assert with_compiler(text, ("gcc", "-O3")) == f"compiler: gcc -O3\n{made}"


def test_a_command_that_yaml_would_read_otherwise_is_quoted() -> None:
    assert with_compiler("", ("gcc", "-DA=b: #c")) == "compiler: \"gcc '-DA=b: #c'\"\n"
