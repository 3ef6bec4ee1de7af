"""The host's compiler as a whole, with the real clang and libLLVM: what is built, what is refused, what it costs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tuner.core.errors import SpecError
from tuner.core.types import Build, BuildRequest, Kernel, Resolved, Source, Status, Value, Variant
from tuner.evaluators.host.clang_itself import baseline_differs
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.toolchain import find_toolchain

SCALE = """
void scale(float *restrict y, const float *restrict x, int n) {
  for (int i = 0; i < n; i++) y[i] = FACTOR * x[i];
}
"""
MATMUL = """
void mm(const float *restrict a, const float *restrict b, float *restrict c, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float s = 0;
      for (int k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j];
      c[i * n + j] = s;
    }
}
"""
SOFTMAX = """
#include <math.h>
#include <string.h>
static const float weight[5] = {1, 2, 3, 4, 5};
static float largest(const float *x, int n) {
  float m = -INFINITY;
  for (int i = 0; i < n; i++) m = fmaxf(m, x[i]);
  return m;
}
void softmax(const float *x, float *y, int n) {
  float m = largest(x, n), s = 0;
  memset(y, 0, sizeof(float) * n);
  for (int i = 0; i < n; i++) s += y[i] = expf(x[i] - m);
  for (int i = 0; i < n; i++) y[i] /= s * weight[i % 5];
}
"""
STENCIL = """
template <int U> static void go(const float *s, float *d, int nx, int ny) {
  for (int j = 1; j < ny - 1; j++)
    for (int i = 1; i < nx - 1; i++) d[j * nx + i] = U * (s[j * nx + i - 1] + s[(j + 1) * nx + i]);
}
void stencil(const float *s, float *d, int nx, int ny) { go<3>(s, d, nx, ny); }
namespace deep { void stencil5(float *d) { d[0] = 5; } }
"""
HISTOGRAM = """
int histogram(const unsigned char *x, unsigned *h, int n) {
  for (int i = 0; i < n; i++) switch (x[i]) {
      case 0: h[0]++; break;
      case 1: h[3] += 2; break;
      case 2: h[5] *= 3; break;
      case 3: h[1] ^= i; break;
      case 9: h[9] = 0; break;
      default: h[x[i]]++;
    }
  return n;
}
"""


@pytest.fixture(scope="module")
def compiler() -> Iterator[HostCompiler]:
    with HostCompiler(find_toolchain(), workers=2) as made:
        yield made


def kernel(
    text: str, entry: str, *, name: str = "k.c", more: Sequence[Source] = (), folder: str = ""
) -> Kernel:
    language = "c" if name.endswith(".c") else "c++"
    variant = Variant(files=(Source(name=name, text=text), *more))
    return Kernel(name=entry, entry=entry, language=language, variant=variant, folder=folder)


def request(
    of: Kernel,
    flags: str = "",
    pipeline: str | None = None,
    scalars: dict[str, Value] | None = None,
    **macros: Value,
) -> BuildRequest:
    resolved = Resolved(macros=macros, scalars=scalars or {}, flags=tuple(flags.split()), pipeline=pipeline)
    return BuildRequest(trial=1, variant=of.variant, resolved=resolved)


def one(
    compiler: HostCompiler, of: Kernel, flags: str = "", pipeline: str | None = None, **macros: Value
) -> Build:
    return compiler.build(of, [request(of, flags, pipeline, **macros)])[0]


KERNELS = {
    "mm": (MATMUL, "mm", "mm.c"),
    "softmax": (SOFTMAX, "softmax", "softmax.c"),
    "stencil": (STENCIL, "stencil", "stencil.cc"),
    "histogram": (HISTOGRAM, "histogram", "histogram.c"),
}


@pytest.mark.parametrize(
    ("which", "flags"),
    [
        *((name, flags) for name in KERNELS for flags in ("", "-ffast-math")),
        ("softmax", "-ffast-math -fveclib=libmvec"),
        ("stencil", "-fno-vectorize"),
        ("mm", "-fno-slp-vectorize"),
        ("histogram", "-fno-unroll-loops"),
        ("mm", "-march=x86-64-v3 -mtune=znver3"),
        ("stencil", "-mllvm -unroll-count=4"),
        ("softmax", "-mcmodel=large"),
    ],
)
def test_default_o3_is_the_code_of_clang_o3(compiler: HostCompiler, which: str, flags: str) -> None:
    text, entry, name = KERNELS[which]
    found = baseline_differs(compiler, kernel(text, entry, name=name), flags.split())
    assert found.same, found.message


def test_a_build_says_what_it_made(compiler: HostCompiler) -> None:
    of = kernel(MATMUL, "mm")
    build = compiler.build(of, [request(of)], texts=True)[0]
    assert build.status is Status.OK
    assert Object(build.code).exports == {"mm"}
    assert len(build.digest) == len(build.key) == 64
    assert build.features["text_bytes"] > 50
    assert build.features["ir_loads_count"] > 1
    assert {"frontend", "parse", "passes", "codegen"} <= build.seconds.keys()
    assert "define" in build.artifacts["ir"]
    assert "mm:" in build.artifacts["assembly"]
    assert one(compiler, of).digest == build.digest


def test_results_are_in_order_and_do_not_depend_on_the_worker(compiler: HostCompiler) -> None:
    of = kernel(SCALE, "scale")
    requests = [request(of, FACTOR=n) for n in (3, 5, 3, 7, 5)]
    keys = [b.key for b in compiler.build(of, requests)]
    assert keys[0] == keys[2]
    assert keys[1] == keys[4]
    assert len(set(keys)) == 3
    with HostCompiler(find_toolchain(), workers=1) as alone:
        assert [b.digest for b in alone.build(of, requests)] == [
            b.digest for b in compiler.build(of, requests)
        ]


def test_names_and_comments_make_no_difference_and_scalars_do(compiler: HostCompiler) -> None:
    first = one(compiler, kernel(SOFTMAX, "softmax"))
    text = "/* other */ " + SOFTMAX.replace("largest", "biggest").replace("weight", "factors")
    second = one(compiler, kernel(text, "softmax", name="other.c"))
    assert first.key == second.key
    of = kernel(SCALE, "scale")
    a, b = compiler.build(of, [request(of, scalars={"S": s}, FACTOR=1) for s in (1, 2)])
    assert a.digest == b.digest
    assert a.key != b.key


def test_constants_in_tables_make_a_difference(compiler: HostCompiler) -> None:
    changed = SOFTMAX.replace("4, 5}", "4, 6}")
    assert one(compiler, kernel(SOFTMAX, "softmax")).key != one(compiler, kernel(changed, "softmax")).key


def test_calls_of_different_functions_make_a_difference(compiler: HostCompiler) -> None:
    text = "float NAME(float); void k(float *x) { *x = NAME(*x); }"
    of = kernel(text, "k")
    assert one(compiler, of, NAME="sinf").key != one(compiler, of, NAME="cosf").key


def test_no_vectorize_removes_vector_code(compiler: HostCompiler) -> None:
    of = kernel(SCALE, "scale")
    assert one(compiler, of, FACTOR=3).features["ir_vector_width_bits"] >= 128
    plain = one(compiler, of, "-fno-vectorize -fno-slp-vectorize", FACTOR=3)
    assert plain.features["ir_vector_width_bits"] == 0
    assert plain.features["ir_vector_instructions_count"] == 0


def test_veclib_makes_libmvec_calls(compiler: HostCompiler) -> None:
    of = kernel(SOFTMAX, "softmax")
    build = one(compiler, of, "-ffast-math -fveclib=libmvec")
    assert build.status is Status.OK
    assert any(n.startswith("_ZGV") and n.endswith("expf") for n in Object(build.code).imports)
    assert not any(n.startswith("_ZGV") for n in Object(one(compiler, of, "-ffast-math").code).imports)


def test_march_is_honoured(compiler: HostCompiler) -> None:
    of = kernel(SCALE, "scale")
    narrow = compiler.build(of, [request(of, "-march=x86-64", FACTOR=3)], texts=True)[0]
    wide = compiler.build(
        of, [request(of, "-march=x86-64-v4 -mprefer-vector-width=512", FACTOR=3)], texts=True
    )[0]
    assert "ymm" not in narrow.artifacts["assembly"]
    assert "zmm" in wide.artifacts["assembly"]


def test_a_named_target_and_a_wrong_one() -> None:
    toolchain = find_toolchain()
    with HostCompiler(toolchain, "x86-64-v2") as old:
        of = kernel(SCALE, "scale")
        build = old.build(of, [request(of, FACTOR=3)], texts=True)[0]
        assert "ymm" not in build.artifacts["assembly"]
        assert old.environment()["cpu"] == "x86-64-v2"
    with pytest.raises(SpecError, match="target 'pentium9'"):
        HostCompiler(toolchain, "pentium9")


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.integration
def test_headers_are_there_on_a_bare_machine_too(bare: bool) -> None:
    text = "#include <math.h>\n#include <stdlib.h>\n#include <string.h>\n#include <stdint.h>\n#include <limits.h>\n"
    text += "#include <assert.h>\n#include <immintrin.h>\n"
    text += (
        "void k(float *x) { x[0] = isnan(x[1]) ? M_PI : expf(x[2]) + fabsf(x[3]); memset(x + 4, 0, 16); }\n"
    )
    plus = "#include <cmath>\n#include <cstdint>\n#include <cstring>\n#include <cstdlib>\n"
    plus += "void k(float *x, std::size_t n) { x[n] = std::exp(x[0]) + std::abs(x[1]) + std::fmax(x[2], 1.0f); }\n"
    with HostCompiler(find_toolchain(), bare=bare) as compiler:
        c, cxx = one(compiler, kernel(text, "k")), one(compiler, kernel(plus, "k", name="k.cc"))
    assert (c.status, c.message) == (Status.OK, "")
    assert (cxx.status, cxx.message) == (Status.OK, "")
    assert Object(cxx.code).imports == {"expf"}


def test_several_files_are_one_module(compiler: HostCompiler, tmp_path: Path) -> None:
    (tmp_path / "shared.h").write_text("#define TWO 2\n")
    helper = Source(name="helper.c", text='#include "own.h"\nfloat helper(float x) { return MUCH * x; }\n')
    header = Source(name="own.h", text="#define MUCH 3\nfloat helper(float);\n")
    text = '#include "own.h"\n#include "shared.h"\nvoid k(float *x) { *x = TWO * helper(*x); }\n'
    build = one(compiler, kernel(text, "k", more=[helper, header], folder=str(tmp_path)))
    assert build.status is Status.OK, build.message
    assert Object(build.code).imports == frozenset()


def test_files_that_clash_are_a_build_error(compiler: HostCompiler) -> None:
    twice = Source(name="b.c", text="void k(float *x) { *x = 1; }")
    build = one(compiler, kernel("void k(float *x) { *x = 2; }", "k", more=[twice]))
    assert build.status is Status.BUILD_ERROR
    assert "link" in build.message


@pytest.mark.parametrize("entry", ["stencil", "deep::stencil5"])
def test_cpp_entries_are_found_by_their_plain_name(compiler: HostCompiler, entry: str) -> None:
    build = one(compiler, kernel(STENCIL, entry, name="s.cc"))
    assert build.status is Status.OK, build.message
    assert entry in Object(build.code).exports


def test_a_missing_entry_names_what_is_there(compiler: HostCompiler) -> None:
    build = one(compiler, kernel(SCALE, "scaled"), FACTOR=1)
    assert build.status is Status.BUILD_ERROR
    assert "scaled" in build.message
    assert "defines: scale" in build.message


def test_errors_of_clang_keep_file_and_line(compiler: HostCompiler) -> None:
    build = one(compiler, kernel("void k(float *x) {\n  x[0] = nowhere;\n}\n", "k", name="bad.c"))
    assert build.status is Status.BUILD_ERROR
    assert build.message.startswith("bad.c:2:10: error: use of undeclared identifier")
    assert "nowhere" in build.artifacts["compiler"]


def test_a_wrong_flag_of_a_candidate_is_a_build_error(compiler: HostCompiler) -> None:
    build = one(compiler, kernel(SCALE, "scale"), "-O2", FACTOR=1)
    assert build.status is Status.BUILD_ERROR
    assert "-O2" in build.message


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("-mllvm -no-such-option", "no such option"),
        ("-mllvm -unroll-count=many", "invalid for uint"),
        ("-mavx9000", "unknown argument"),
        ("-std=c++99", "invalid value"),
    ],
)
def test_flags_that_clang_or_llvm_refuse(compiler: HostCompiler, flags: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        compiler.check_flags(flags.split())


def test_llvm_options_of_one_candidate_do_not_reach_another(compiler: HostCompiler) -> None:
    of = kernel(HISTOGRAM, "histogram")
    before = one(compiler, of)
    changed = one(compiler, of, "-mllvm -unroll-count=3")
    assert changed.status is Status.OK, changed.message
    assert changed.key != before.key
    assert one(compiler, of).digest == before.digest


def test_unknown_passes_are_a_clean_error(compiler: HostCompiler) -> None:
    build = one(compiler, kernel(MATMUL, "mm"), pipeline="function(nosuch)")
    assert build.status is Status.BUILD_ERROR
    assert "nosuch" in build.message


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [("function(loop(licm))", "LICMPass"), ("function(trigger-crash-function)", "SIGABRT")],
)
def test_a_pass_that_ends_the_process_is_named(compiler: HostCompiler, pipeline: str, said: str) -> None:
    of = kernel(MATMUL, "mm")
    builds = compiler.build(of, [request(of, pipeline=p) for p in (pipeline, None, pipeline)])
    assert [b.status for b in builds] == [Status.CRASHED, Status.OK, Status.CRASHED]
    assert said in builds[0].message
    assert builds[0].message == builds[2].message


def test_a_compiler_that_hangs_is_stopped() -> None:
    of = kernel(MATMUL, "mm")
    slow = request(of, "-mllvm -unroll-count=20000 -mllvm -unroll-threshold=100000000")
    # On a busy machine the one that ends may need more than the shorter time.
    for timeout_s in (0.5, 20.0):
        with HostCompiler(find_toolchain(), timeout_s=timeout_s) as hasty:
            stopped, good = hasty.build(of, [slow, request(of)])
        if good.status is not Status.TIMED_OUT:
            break
    assert stopped.status in (Status.TIMED_OUT, Status.OUT_OF_RESOURCES)
    assert good.status is Status.OK, good.message


@pytest.mark.integration
def test_a_compiler_that_eats_memory_is_stopped() -> None:
    table = kernel("char t[SIZE] = {1}; void k(float *x) { *x = t[(int)*x]; }", "k")
    with HostCompiler(find_toolchain(), memory_bytes=640 << 20, timeout_s=60) as small:
        huge, big, tiny = small.build(table, [request(table, SIZE=n) for n in (1 << 30, 80 << 20, 64)])
    assert huge.status is Status.OUT_OF_RESOURCES, huge
    assert big.status is Status.BUILD_ERROR
    assert "80 MiB" in big.message
    assert tiny.status is Status.OK


def test_imports_beyond_the_baseline_are_refused(compiler: HostCompiler) -> None:
    of = kernel("int system(const char *); void k(float *x) { *x = system(0); }", "k")
    build = one(compiler, of)
    assert build.status is Status.REFUSED
    assert "system" in build.message
    assert build.code == b""
    assert compiler.build(of, [request(of)], allowed_imports={"system"})[0].status is Status.OK
    assert compiler.build(of, [request(of)], allowed_imports=None)[0].status is Status.OK


def test_code_that_runs_at_load_is_refused(compiler: HostCompiler) -> None:
    text = (
        "int rand(void); static int n; __attribute__((constructor)) static void start(void) { n = rand(); }"
    )
    text += " void k(float *x) { *x = n; }"
    build = one(compiler, kernel(text, "k"))
    assert build.status is Status.REFUSED
    assert "loaded" in build.message


def test_text_of_the_project_itself(compiler: HostCompiler) -> None:
    build = compiler.build_text('int puts(const char *); int h(void) { return puts("a"); }', entry="h")
    assert build.status is Status.OK
    assert "puts" in Object(build.code).imports


def test_the_double_build_computes_in_double(compiler: HostCompiler) -> None:
    of = kernel(SOFTMAX, "softmax")
    build = compiler.build_double(of, macros={}, flags=["-ffast-math"])
    assert build.status is Status.OK, build.message
    assert "exp" in Object(build.code).imports
    assert "expf" not in Object(build.code).imports


def test_the_double_build_may_fail_without_an_error(compiler: HostCompiler) -> None:
    text = "#include <immintrin.h>\nvoid k(float *x) { _mm_storeu_ps(x, _mm_set1_ps(1)); }"
    assert compiler.build_double(kernel(text, "k"), macros={}).status is Status.BUILD_ERROR
