"""Kernels that are static in their file: tuned where they stand, handed back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.core.errors import SpecError, UsageError
from tuner.core.types import Resolved, Source, Variant
from tuner.driver.check import check_spec
from tuner.evaluators.host.backend import symbol_of
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.exposing import exposed, is_static
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.first.init import init_spec
from tuner.spec.load import load_spec

PROGRAM = """
#include <stdio.h>
static inline float weight(int k) { return k ? 0.25f : 0.5f; }
static void blur(const float *in, float *out, int n);
static void __attribute__((noinline)) blur(const float *in, float *out, int n)
{
    static const float HALF = 0.5f;
    for (int i = 1; i < n - 1; i++)
        out[i] = weight(0) * in[i] + HALF * weight(1) * (in[i - 1] + in[i + 1]);
}
int main(void)
{
    float a[64] = {1.0f}, b[64];
    blur(a, b, 64);
    printf("%f", b[1]);
    return 0;
}
"""
NAMESPACED = """
namespace filters {
static inline void scale(const float *in, float *out, int n) {
    for (int i = 0; i < n; i++) out[i] = 2.0f * in[i];
}
namespace { void hidden(const float *in, float *out, int n) { scale(in, out, n); } }
void all(const float *in, float *out, int n) { scale(in, out, n); hidden(in, out, n); }
}
"""
SPEC = """
kernel: {source: FILE, entry: "ENTRY"}
problem: {n: 4000}
arguments:
  - {name: in, dtype: float32, shape: [n]}
  - {name: out, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space: {passes: off, flags: {unroll: ["", "-fno-vectorize"]}}
"""


def spec_of(folder: Path, file: str, text: str, entry: str) -> Path:
    (folder / file).write_text(text)
    path = folder / "k.yaml"
    path.write_text(SPEC.replace("FILE", file).replace("ENTRY", entry))
    return path


@pytest.mark.parametrize(
    ("file", "text", "entry"),
    [
        ("blur.c", PROGRAM, "blur"),
        ("filters.cpp", NAMESPACED, "filters::scale"),
        ("again.c", PROGRAM.replace("static void blur(const float *in, float *out, int n);", ""), "blur"),
    ],
)
def test_a_static_kernel_is_checked(file: str, text: str, entry: str, tmp_path: Path) -> None:
    (spec,) = load_spec(spec_of(tmp_path, file, text, entry))
    report = check_spec(spec, faults=False)
    assert report.ok, report.lines
    assert spec.task.kernel.variant.files[0].text == text


def test_a_first_spec_takes_the_static_function_that_leads_to_the_others(tmp_path: Path) -> None:
    (tmp_path / "blur.c").write_text(PROGRAM)
    assert "entry: blur" in init_spec(tmp_path / "blur.c")


def test_of_several_one_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text(
        "static void a(float *x, int n) { for (int i = 0; i < n; i++) x[i] = 1; }\n"
        "static void b(float *x, int n) { for (int i = 0; i < n; i++) x[i] = 2; }\n"
    )
    with pytest.raises(UsageError, match="several functions; choose with --entry: a, b"):
        init_spec(tmp_path / "two.c")
    assert "entry: b" in init_spec(tmp_path / "two.c", entry="b")


def test_entries_hidden_by_macros_or_namespaces_are_reported(tmp_path: Path) -> None:
    path = spec_of(tmp_path, "m.c", PROGRAM.replace("static void", "LOCAL void"), "blur")
    path.write_text(path.read_text() + "# macros\n")
    (tmp_path / "m.c").write_text("#define LOCAL static\n" + (tmp_path / "m.c").read_text())
    with pytest.raises(SpecError, match="hidden from other files by a macro"):
        load_spec(path)


def test_a_function_under_a_condition_that_does_not_hold_is_said(tmp_path: Path) -> None:
    (tmp_path / "off.c").write_text(f"#if 0\n{PROGRAM}\n#endif\nvoid other(float *x) {{ x[0] = 1; }}\n")
    with pytest.raises(UsageError, match="defines 'blur' only under a condition that does not hold"):
        init_spec(tmp_path / "off.c", entry="blur")


def test_nothing_from_outside_takes_its_place(tmp_path: Path) -> None:
    (spec,) = load_spec(spec_of(tmp_path, "blur.c", PROGRAM, "blur"))
    with (
        HostCompiler(find_toolchain()) as compiler,
        pytest.raises(UsageError, match="static in its file, so nothing from outside can take its place"),
    ):
        symbol_of(compiler, spec.task.kernel, Resolved(macros={}, scalars={}, flags=(), pipeline=None))


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("static void k(int *x) { static int n; x[0] = n++; }", "       void k(int *x) { static int n; x[0] = n++; }"),
        ("static inline int\nk (void) { return 1; }", "              int\nk (void) { return 1; }"),
        ("inline static int k(void) { return 1; }", "              int k(void) { return 1; }"),
        ("int k(void) { return 1; } static int j(void) { return k(); }", None),
        ("static int kk(void) { return 1; } int k(void) { return kk(); }", None),
        ("// static int k(void)\nint k(void) { return 1; }", None),
        ("static int j(int (*k)(int)) { return k(1); } int k(int x) { return x; }", None),
        ("static int o(void);\nstatic int k(void) { o(); }", "static int o(void);\n       int k(void) { o(); }"),
        ("static struct s k(int x) { return r; }", "       struct s k(int x) { return r; }"),
        ("#define inline static\ninline int k(void) {}", "#define inline static\n       int k(void) {}"),
        ("static /* don't; */ k(a) int a; { return a; }", "       /* don't; */ k(a) int a; { return a; }"),
        ("char *s = \"/*\"; static int k(void) {} /* */", "char *s = \"/*\";        int k(void) {} /* */"),
        ("/* it's; */ static k(a) int a; { return a; }", "/* it's; */        k(a) int a; { return a; }"),
        ("static __attribute__((cold)) int k(int a) {}", "       __attribute__((cold)) int k(int a) {}"),
        ("struct c { int a; static int k(int a); }; int c::k(int a) { return a; }", None),
        ("int j(void) { static int n = k(1); return n; } int k(int a) { return a; }", None),
    ],
)  # fmt: skip
def test_only_the_entrys_own_words_go(text: str, made: str | None) -> None:
    variant = Variant(files=(Source(name="k.c", text=text),))
    assert exposed(variant, "k", "c").files[0].text == (text if made is None else made)
    assert is_static(variant, "k", "c") == (made is not None)
