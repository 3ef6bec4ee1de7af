"""``compiler:``: the compiler of the user's own build makes the baseline and every candidate."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from spec_files import spec_in

import tuner
from tuner.api import tune_spec
from tuner.core.errors import SpecError, TunerError
from tuner.core.types import BASELINE, Build, BuildRequest, Resolved, Source, Variant
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.outcome.export import export
from tuner.evaluators.host.assembly import CannotLoad, reached, without_variable
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.objects import Object
from tuner.spaces.source.edits import EditRefused, apply_edits
from tuner.spaces.source.regions import read_program
from tuner.spec.first.init import first_spec
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

COMPILERS = ["clang -O2", pytest.param("gcc -O3 -Wall -Werror -g -flto", marks=needs.gcc)]
KERNEL = """\
#include <stdio.h>
#include <stdlib.h>
#ifdef __clang__
#define COST_NS 3000
#else
#define COST_NS 1000
#endif
void tuner_work(long long ns);
static double table[4][4];
double given[4] = {1, 2, 3};
extern double *moved;
__attribute__((constructor)) static void first(void) { puts("loaded"); }
static double twice(double x) { return 2 * x; }
double mix(const double *a, double *b, int n)
{
    double t = 0;
    tuner_work(COST_NS);
    for (int i = 0; i < n; i++) {
        b[i] = twice(a[i]) + table[i & 3][1] * given[i & 3] + moved[i & 3];
        t += b[i];
    }
    return t;
}
int main(void)
{
    double x[4] = {0};
    table[0][1] = getenv("HOME") != NULL;
    printf("%g\\n", mix(x, x, 4));
    return 0;
}
double *moved;
"""
SPEC = """\
kernel: {source: mix.c, entry: mix, returns: float64}
problem: {n: 64}
arguments:
  - {name: a, dtype: float64, shape: [n], init: normal}
  - {name: b, dtype: float64, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
  - {name: table, global: true, dtype: float64, shape: [4, 4], init: normal}
  - {name: given, global: true, dtype: float64, shape: [4], init: normal}
  - {name: moved, global: pointer, dtype: float64, shape: [4], init: normal}
space:
  source: {evolve: true}
search: {budget: {evaluations: 4}}
"""


def written(
    folder: Path, compiler: str, *, text: str = KERNEL, more: str = "", spec: str = SPEC
) -> LoadedSpec:
    return spec_in(folder, "mix.c", text, f"{spec}compiler: {compiler}\n{more}")


def built(spec: LoadedSpec, *texts: str) -> list[Build]:
    """Candidates with other texts, after the baseline."""
    task = spec.task
    resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
    with closing(HostBackend().prepare(task, workers=1)) as evaluation:
        first = BuildRequest(trial=BASELINE, variant=task.kernel.variant, resolved=resolved)
        (baseline,) = evaluation.build([first])
        assert baseline.status == "ok", baseline.message
        variants = [Variant(files=(Source(name="mix.c", text=text),)) for text in texts]
        requests = [replace(first, trial=1 + i, variant=variant) for i, variant in enumerate(variants)]
        return list(evaluation.build(requests))


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.integration
def test_code_is_the_compilers_and_globals_are_arguments(tmp_path: Path, compiler: str) -> None:
    spec = written(tmp_path, compiler)
    report = check_spec(spec, faults=1)
    lines = dict(report.lines)
    assert report.ok, report.lines
    assert lines["compiler"].startswith(f"command {compiler}, version ")
    # A call takes 25 us on the virtual clock, and what the code says.
    assert lines["time"].startswith("0.028 ms" if compiler.startswith("clang") else "0.026 ms")
    assert "passes" not in lines


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_candidate_has_and_reaches_no_more_than_the_baseline(tmp_path: Path, compiler: str) -> None:
    """Its object has what the kernel uses; it calls nothing else, and reads no file of the user's."""
    (tmp_path / "kernel").mkdir()
    secret = tmp_path / "secret"
    secret.write_text("int secret;\n")
    spec = written(tmp_path / "kernel", compiler)
    stealing = KERNEL.replace("t += b[i];", "t += b[i] + stolen[i];")
    incbin = f'__asm__(".section .rodata\\nstolen: .incbin \\"{secret}\\"\\n.text");'
    same, calling, including, assembling = built(
        spec,
        KERNEL,
        KERNEL.replace("double t = 0;\n", 'double t = 0; puts("x");\n', 1),
        f'#include "{secret}"\nchar stolen[64];\n{stealing}',
        f"{incbin}\nextern char stolen[];\n{stealing}",
    )
    made = Object(same.code)
    assert made.exports == {"mix"}
    assert made.imports <= {"tuner_work", "table", "given", "moved", "_GLOBAL_OFFSET_TABLE_"}
    assert not made.runs_at_load
    assert (calling.status, "puts" in calling.message) == ("refused", True)
    for candidate in (including, assembling):
        assert candidate.status == "build_error", candidate
        assert "secret" in candidate.message


@needs.gcc
@pytest.mark.integration
def test_a_run_stands_and_its_script_builds_the_winner(tmp_path: Path) -> None:
    spec = written(tmp_path, "gcc -O3 -g -flto")
    result = tune_spec(spec, Options(settings={"choose_processes": 2, "confirm_processes": 4}), out=tmp_path)
    assert tuner.replay(result.path, rebuild=True).clean
    files = {path.name: path for path in export(result.path, tmp_path / "out")}
    assert "pipeline.txt" not in files
    assert "\ngcc -O3 -g -flto -c mix.c -o rebuilt-mix.o\n" in files["build.sh"].read_text()


def test_a_macro_that_a_flag_defines_is_known_where_the_source_is_read(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "scale.h").write_text("#define SCALED(x) ((x) * SCALE)\n")
    text = '#include "scale.h"\n' + KERNEL.replace("2 * x", "SCALED(x)")
    spec = written(tmp_path, "clang -O2 -DSCALE=2 -Iinside", text=text)
    assert "* 2" in spec.task.kernel.preprocessed[0].files[0].text
    again = load_recorded(spec.text, spec.files, folder=str(tmp_path))
    assert again.task.kernel.compiler == spec.task.kernel.compiler
    assert again.task.kernel.compiler is not None
    assert again.task.kernel.compiler.family == "clang"
    assert again.digest == spec.digest, "a record needs no compiler"


def test_a_warning_that_is_an_error_of_clang_s_is_left_out_where_the_source_is_read(tmp_path: Path) -> None:
    """By the compiler's own flag or one of the spec's: gcc only warns of it."""
    text = f"{KERNEL}\nint *other(long *p) {{ return p; }}\n"
    option = "-Wno-incompatible-pointer-types"
    written(tmp_path, f"clang -O2 {option}", text=text)
    flags = SPEC.replace("space:\n", f"space:\n  flags: {{macros: [{option}]}}\n")
    written(tmp_path, "clang -O2", text=text, spec=flags)
    with pytest.raises(TunerError, match="incompatible pointer types"):
        written(tmp_path, "clang -O2", text=text)


@pytest.mark.integration
def test_headers_that_flags_name_lie_in_the_kernels_folders(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "scale.h").write_text("#define SCALED(x) ((x) * 2)\n")
    spec = SPEC.replace("entry: mix,", "entry: mix, include: [inside],")
    flags = "{ahead: ['-include scale.h'], macros: ['-imacros scale.h'], math: ['', '-O1 -ffast-math']}"
    spec = spec.replace("space:\n", f"space:\n  flags: {flags}\n")
    loaded = written(tmp_path, "clang -O2", text=KERNEL.replace("2 * x", "SCALED(x)"), spec=spec)
    assert check_spec(loaded, faults=False).ok


@pytest.mark.parametrize(
    ("compiler", "more", "said"),
    [
        ("nosuch-compiler -O3", "", "mix.yaml:13:11: nosuch-compiler is not installed"),
        ("clang -O3 mix.c", "", "'mix.c' is no compiler flag"),
        ("clang -c -O3", "", "-c says what is made of a file; leave it out"),
        ("clang --no-such-option", "", "the compiler does not take its flags: .*no-such-option"),
        ('"clang \'unbalanced"', "", "cannot be split into words"),
        ('" "', "", "the command is empty; for example gcc -O3"),
        ("clang -O3", "target: x86-64-v3\n", "the compiler's own flags say the processor; write -march"),
    ],
)
def test_a_compiler_that_cannot_be_is_a_spec_error(
    tmp_path: Path, compiler: str, more: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        written(tmp_path, compiler, more=more)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "space:\n",
            'space:\n  passes: {base: "default<O3>"}\n',
            "mix.yaml:11:.*orders of passes are those of LLVM",
        ),
        ("space:\n", 'space:\n  flags: {v: ["", "-fno-such-flag"]}\n', "mix.yaml:11:.*no-such-flag"),
        ("entry: mix,", "entry: mix, openmp: true,", "clang is not told to heed OpenMP's directives"),
        ("  source: {evolve: true}\n", "  source: {evolve: false}\n", "there is nothing to tune"),
    ],
)
def test_a_spec_that_asks_a_compiler_for_more_is_an_error(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        written(tmp_path, "clang -O3", spec=SPEC.replace(before, after))


@needs.gcc
def test_gcc_is_asked_in_its_own_pragmas(tmp_path: Path) -> None:
    text = KERNEL.replace("twice(a[i])", "a[i]").replace("t += b[i];", "")
    program = read_program(written(tmp_path, "gcc -O3", text=text).task.kernel)
    for op, args, pragma in (
        ("unroll", {"loop": "i", "count": 4}, "#pragma GCC unroll 4"),
        ("vectorize", {"loop": "i"}, "#pragma GCC ivdep"),
    ):
        made = apply_edits(program, [{"op": op, "function": "mix", **args}])
        assert pragma in made.variant.files[0].text, op
    # It takes nothing between a directive of OpenMP and its loop, nor does clang.
    under = (
        KERNEL.replace("twice(a[i])", "a[i]")
        .replace("t += b[i];", "")
        .replace("for (", "\n#pragma omp simd\nfor (")
    )
    program = read_program(written(tmp_path, "gcc -O3", text=under).task.kernel)
    for op, args in (("unroll", {"loop": "i", "count": 4}), ("vectorize", {"loop": "i"})):
        with pytest.raises(EditRefused, match="a directive of OpenMP stands before loop i"):
            apply_edits(program, [{"op": op, "function": "mix", **args}])


ASSEMBLER = """\
\t.text
\t.globl\tentry
\t.section\t.text.entry,"ax",@progbits
\t.type\tentry, @function
entry:
\tmovq\tA(%rip), %rax
\tleaq\t8+_ZL1B(%rip), %rdx
\tcall\tused@PLT
\taddsd\t.LC1(%rip), %xmm0
\tret
\t.size\tentry, .-entry
\t.section\t.text.used,"ax",@progbits
used:
\tret
\t.section\t.text.main,"ax",@progbits
\t.globl\tmain
main:
\tcall\tprintf@PLT
\t.section\t.init_array,"aw"
\t.quad\tmain
\t.globl\tA
\t.section\t.data.A,"aw"
\t.align 32
\t.type\tA, @object
\t.size\tA, 16
A:
\t.long\t1
\t.zero\t12
\t.local\t_ZL1B
\t.comm\t_ZL1B,24,16
\t.set\t.LC1,.LC0+8
\t.section\t.rodata
.LC0:
\t.zero\t16
\t.section\t.note.GNU-stack,"",@progbits
"""


def test_a_text_keeps_what_its_entry_reaches() -> None:
    (text,) = reached([ASSEMBLER], "entry")
    assert "used:" in text
    assert ".set\t.LC1, .LC0+8" in text
    assert ".LC0:" in text
    assert "main" not in text
    assert "init_array" not in text
    assert "A:" in text
    assert ".note.GNU-stack" in text
    with pytest.raises(CannotLoad, match="defines no function missing"):
        reached([ASSEMBLER], "missing")


def test_a_variable_is_left_to_the_harness() -> None:
    text = without_variable(without_variable(ASSEMBLER, "A", 16), "B", 24)
    assert "A:" not in text
    assert ".size\tA" not in text
    assert ".comm" not in text
    assert "leaq\t8+B(%rip)" in text
    assert "_ZL1B" not in text
    assert without_variable(text, "elsewhere", 8) == text
    with pytest.raises(CannotLoad, match="A has 16 bytes in the source, and 8 in the spec"):
        without_variable(ASSEMBLER, "A", 8)
    with pytest.raises(CannotLoad, match="more than 64 bytes"):
        without_variable(ASSEMBLER.replace(".align 32", ".align 128"), "A", 16)
    with pytest.raises(CannotLoad, match="every thread has its own A"):
        without_variable(ASSEMBLER.replace(".data.A", ".tdata.A"), "A", 16)


@needs.cxx
@needs.gcc
def test_cxx_is_read_with_the_standard_library_of_the_build(tmp_path: Path) -> None:
    """What includes too little compiles with one library and not with another, and their classes differ."""
    source = tmp_path / "scale.cc"
    source.write_text(
        "#include <cstddef>\n#ifndef __GLIBCXX__\n#error another library\n#endif\n"
        "void scale(double *x, int n) { for (int i = 0; i + 1 < n; i++) x[i] += x[i + 1]; }\n"
    )
    spec = tmp_path / "scale.yaml"
    first = first_spec(source, compiler="g++ -O2", folder=tmp_path)
    spec.write_text(first.text)
    assert "stdlib" not in first.text
    (loaded,) = load_spec(spec)
    assert check_spec(loaded, faults=False).ok
    commands = [
        {"directory": str(tmp_path), "file": "scale.cc", "command": "clang -stdlib=libstdc++ -c scale.cc"}
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(commands))
    assert "-stdlib=libstdc++" in first_spec(source, folder=tmp_path).text
