"""Loading specs: what a good one becomes, and one message with a place for every mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import BaselineError, SpecError, TunerError
from tuner.core.types import ArgumentRole
from tuner.spaces.passes import Catalogue
from tuner.spec.load import LoadedSpec, load_recorded, load_spec

KERNEL = """\
#include "scale.h"
#ifndef TILE
#define TILE 8
#endif
void scale(const float *src, float *dst, int n, float by)
{
    for (int i = 0; i < n; i++)
        dst[i] = FACTOR * by * src[i];
}
static void hidden(int n) { (void)n; }
void other(int n);
"""

SPEC = """\
kernel:
  source: scale.c
  entry: scale
problem: {n: 1024}
arguments:
  - {name: src, dtype: float32, shape: [n], init: {uniform: [-1, 1]}}
  - {name: dst, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
  - {name: by, dtype: float32, value: 1e-1}
space:
  parameters:
    TILE: [8, 16, 32]
    UNROLL: {low: 1, high: 8, log: true, default: 2}
  constraints: ["TILE % UNROLL == 0"]
  flags: {math: ["", "-ffast-math"]}
  passes: off
verify:
  rtol: 1e-5
  problems: [{n: 67}]
  assume: ["n >= 3"]
search:
  strategy: random
  seed: 7
  budget: {evaluations: 20, minutes: 0.5}
"""

Load = Callable[..., LoadedSpec]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Writes and loads the spec, changed by pairs of old and new text."""

    def do(*changes: tuple[str, str], kernel: str = KERNEL) -> LoadedSpec:
        text = SPEC
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "scale.c").write_text(kernel)
        (tmp_path / "scale.h").write_text("#define FACTOR 2.0f\n")
        (tmp_path / "reference.py").write_text(
            "def scale(src, dst, n, by):\n    return {'dst': 2 * by * src}\n"
        )
        (tmp_path / "spec.yaml").write_text(text)
        (loaded,) = load_spec(tmp_path / "spec.yaml")
        return loaded

    return do


def test_a_good_spec_becomes_a_task(load: Load) -> None:
    spec = load()
    task = spec.task
    assert (spec.name, spec.index, task.backend, task.target, task.kernel.language) == (
        "scale",
        0,
        "host",
        "native",
        "c",
    )
    assert [a.role for a in task.arguments] == [
        ArgumentRole.INPUT,
        ArgumentRole.OUTPUT,
        ArgumentRole.INPUT,
        ArgumentRole.INPUT,
    ]
    assert task.arguments[3].value is not None
    assert task.arguments[3].value.evaluate({}) == 0.1
    assert task.arguments[0].initial.kind == "uniform"
    assert [p.sizes for p in task.verify.problems] == [{"n": 67}]
    assert (task.verify.rtol, task.verify.atol) == (1e-5, 1e-6)
    assert (spec.search.strategy, spec.search.seed, spec.search.evaluations, spec.search.minutes) == (
        "random",
        7,
        20,
        0.5,
    )
    assert spec.task_with(seed=9).seed == 9
    assert set(spec.files) == {"scale.c", "scale.h"}
    assert [f.name for f in task.kernel.variant.files] == ["scale.c", "scale.h"]


def test_the_space(load: Load) -> None:
    spec = load()
    assert not spec.wants_passes
    space = spec.space(None)
    assert space.default() == {"TILE": 8, "UNROLL": 2, "math": ""}
    assert space.count() == 24
    assert space.resolve(space.default()).macros == {"TILE": 8, "UNROLL": 2}


def test_passes_are_on_by_default_and_need_a_catalogue_when_asked_for(load: Load) -> None:
    listing = "Module passes:\n  globaldce\nFunction passes:\n  gvn\n  sroa\n"
    catalogue = Catalogue.from_listing(listing, "function(sroa,gvn)", "23").to_json()
    absent = load(("  passes: off\n", ""))
    assert absent.wants_passes
    assert absent.space(None).passes is None
    passes = absent.space(catalogue).passes
    assert passes is not None
    assert (passes.base, passes.max_edits) == ("default<O3>", 40)
    asked = load(("passes: off", "passes: {base: 'function(gvn)', max_edits: 3}"))
    passes = asked.space(catalogue).passes
    assert passes is not None
    assert (passes.base, passes.max_edits) == ("function(gvn)", 3)
    with pytest.raises(SpecError, match=r"spec.yaml:16:3: this backend has no passes"):
        asked.space(None)
    with pytest.raises(SpecError, match=r"spec.yaml:16"):
        load(("passes: off", "passes: {base: 'function(nonsense)'}")).space(catalogue)


@pytest.mark.parametrize("word", ["off", "'off'", "no", "false"])
def test_every_way_of_switching_passes_off(load: Load, word: str) -> None:
    assert not load(("passes: off", f"passes: {word}")).wants_passes


MISTAKES = [
    # Keys and types.
    (("  entry: scale", "  entyr: scale"), 3, "unknown key 'entyr' in kernel; did you mean 'entry'?"),
    (("  entry: scale\n", ""), 2, "kernel has no 'entry'"),
    (("search:", "serach:"), 21, "did you mean 'search'?"),
    (("  seed: 7", "  sead: 7"), 23, "did you mean 'seed'?"),
    (("problem: {n: 1024}", "problem: {n: 1024}\nbudget: {minutes: 1}"), 5, "it belongs into 'search'"),
    (("seed: 7", "seed: seven"), 23, "search.seed is 'seven'; it must be a whole number"),
    (("seed: 7", "seed: -1"), 23, "search.seed is -1; it must be at least 0"),
    (("seed: 7", "seed: 7.5"), 23, "whole number"),
    (("rtol: 1e-5", "rtol: .nan"), 18, "verify.rtol is nan"),
    (("rtol: 1e-5", "rtol: small"), 18, "it must be a number"),
    (("minutes: 0.5", "minutes: 0"), 24, "search.budget.minutes is 0; it must be over 0"),
    (("evaluations: 20", "evaluations: 0"), 24, "at least 1"),
    (("role: output", "role: outptu"), 7, "arguments[1].role is 'outptu'; did you mean output?"),
    (("dtype: float32, shape: [n], role", "dtype: float, shape: [n], role"), 7, "did you mean float32?"),
    (("role: output", "role: out"), 7, "arguments[1].role is 'out'; did you mean output?"),
    (("{uniform: [-1, 1]}", "random"), 6, "arguments[0].init is 'random'; did you mean uniform?"),
    (("  rtol: 1e-5", "  reference: orignal"), 18, "verify.reference is 'orignal'; did you mean original?"),
    (
        ("shape: [n], role", "shape: [TILE], role"),
        7,
        "'TILE' is a parameter, and a shape may only name sizes",
    ),
    (("problem: {n: 1024}", "problem: {n: big}"), 4, "problem.n is 'big'; it must be a whole number"),
    (("problem: {n: 1024}", "problem: {n: 0}"), 4, "at least 1"),
    (("problem: {n: 1024}", "problem: {2n: 4}"), 4, "cannot be a name"),
    (("problem: {n: 1024}", "problem: 3"), 4, "it must be a mapping"),
    (("problem:", "measure: 3\nproblem:"), 4, "it must be a mapping of keys"),
    (("TILE: [8, 16, 32]", "TILE: []"), 12, "is empty; give at least 1"),
    (("TILE: [8, 16, 32]", "TILE: 8"), 12, "a list, or {low: 1, high: 8}"),
    (("TILE: [8, 16, 32]", "TILE: [[8]]"), 12, "is no value"),
    (("TILE: [8, 16, 32]", "TILE: [8, 8]"), 12, "listed twice"),
    (("TILE: [8, 16, 32]", "TILE: {low: 9}"), 12, "has no high"),
    (("TILE: [8, 16, 32]", "TILE: {low: 9, high: 3}"), 12, "swap them"),
    (("TILE: [8, 16, 32]", "TILE: {values: [1, 2], low: 3}"), 12, "values and low"),
    (("TILE: [8, 16, 32]", "TILE: {values: [1, 2], default: 3}"), 12, "default 3 is out of range"),
    (("TILE: [8, 16, 32]", "passes: [8, 16, 32]"), 12, "'passes' cannot name a parameter"),
    (("TILE: [8, 16, 32]", "not: [8, 16, 32]"), 12, "a word of the expression language"),
    (("passes: off", "passes: none"), 16, "write off"),
    (("passes: off", "passes: {max_edits: 0}"), 16, "at least 1"),
    (("passes: off", "passes: {maxedits: 4}"), 16, "did you mean 'max_edits'?"),
    (("  strategy: random", "  strategy: radnom"), 22, "did you mean 'random'?"),
    # Expressions.
    (('["TILE % UNROLL == 0"]', '["TIEL % UNROLL == 0"]'), 14, "unknown name 'TIEL'"),
    (('["TILE % UNROLL == 0"]', '["TILE % UNROLL = 0"]'), 14, "compare with =="),
    (('["TILE % UNROLL == 0"]', '["__import__(1)"]'), 14, "constraints[0]"),
    (("shape: [n], init", "shape: [m], init"), 6, "unknown name 'm' in 'm'"),
    (("shape: [n], init", "shape: [n / 3], init"), 6, "not a whole number with n = 1024"),
    (("shape: [n], init", "shape: [n - 1024], init"), 6, "has the shape [0] with n = 1024; at least 1"),
    (("shape: [n], init", "shape: [n - 100], init"), 6, "with n = 67"),
    (("shape: [n], init", "shape: [n ** 6], init"), 6, "GiB"),
    (
        ("shape: [n], init", "shape: [TILE], init"),
        6,
        "'TILE' is a parameter, and a shape may only name sizes",
    ),
    (("shape: [n], init", "shape: [m], init"), 6, "unknown name 'm'"),
    (("shape: [n], init", "shape: [], init"), 6, "is empty"),
    (("value: n}", "value: k}"), 8, "unknown name 'k'"),
    (("value: n}", "value: n ** 4}"), 8, "n"),
    (("value: n}", "value: true}"), 8, "is no expression"),
    # Arguments.
    (("name: dst", "name: src"), 7, "two arguments are called 'src'"),
    (("shape: [n], role: output", "role: output"), 7, "neither shape nor value"),
    (("value: n}", "value: n, shape: [n]}"), 8, "both shape and value"),
    (("value: n}", "value: n, role: output}"), 8, "cannot have role"),
    (("role: output", "role: output, init: normal"), 7, "has an init"),
    ((", role: output", ""), 5, "no argument is an output"),
    (("{uniform: [-1, 1]}", "{uniform: [1, -1]}"), 6, "swap the ends"),
    (("{uniform: [-1, 1]}", "{unifrom: [1, -1]}"), 6, "did you mean uniform?"),
    (("{uniform: [-1, 1]}", "{uniform: [1]}"), 6, "give [low, high]"),
    (("{uniform: [-1, 1]}", "{uniform: {low: 1, hihg: 2}}"), 6, "did you mean 'high'?"),
    (("{uniform: [-1, 1]}", "randint"), 6, "needs its numbers"),
    (("{uniform: [-1, 1]}", "permutation"), 6, "cannot fill float32"),
    (("{uniform: [-1, 1]}", "{file: none.npy}"), 6, "cannot be read"),
    (("{uniform: [-1, 1]}", "{python: reference.py}"), 6, "write file.py:function"),
    (("{uniform: [-1, 1]}", "{python: reference.py:make}"), 6, "no function 'make'"),
    # Names that mean two things.
    (("    TILE: [8", "    n: [8"), 12, "a parameter and also a size"),
    (("    TILE: [8", "    dst: [8"), 12, "would replace an argument"),
    (("    TILE: [8", "    scale: [8"), 12, "would replace the function"),
    (("flags: {math:", "flags: {UNROLL:"), 15, "a flag group and also a parameter"),
    (("flags: {math:", "flags: {passes:"), 15, "'passes' cannot name a flag group"),
    (("problem: {n: 1024}", "problem: {n: 1024, not: 3}"), 4, "it is reserved"),
    # Flags.
    (('"-ffast-math"', '"-ffast-math", ""'), 15, "listed twice"),
    (('"-ffast-math"', '"fast"'), 15, "flags begin with -"),
    (('"-ffast-math"', '"-D\'x"'), 15, "cannot be split"),
    (('"-ffast-math"', '"-fopenmp"'), 15, "OpenMP"),
    # Verification.
    (("problems: [{n: 67}]", "problems: [{m: 67}]"), 19, "unknown size 'm'"),
    (("problems: [{n: 67}]", "problems: [{n: 2}]"), 19, "'n >= 3' does not hold with n = 2"),
    (('assume: ["n >= 3"]', 'assume: ["n >= 3000"]'), 20, "does not hold with n = 1024"),
    (('assume: ["n >= 3"]', 'assume: ["m >= 3"]'), 20, "unknown name 'm'"),
    (("  rtol: 1e-5", "  reference: {python: reference.py:scaled}"), 18, "did you mean 'scale'?"),
    (("  rtol: 1e-5", "  reference: {python: missing.py:scale}"), 18, "cannot be read"),
    # Files and the function.
    (("source: scale.c", "source: scael.c"), 2, "did you mean 'scale.c'?"),
    (("source: scale.c", "source: scale.f90"), 2, "language of 'scale.f90' is unknown"),
    (("source: scale.c", "source: scale.c\n  sources: [./scale.c]"), 3, "two sources are called"),
    (("entry: scale", "entry: sclae"), 3, "did you mean 'scale'?"),
    (("entry: scale", "entry: hidden"), 5, "hidden takes 1 arguments, the spec lists 4"),
    (("entry: scale", "entry: other"), 3, "declared in scale.c but not defined"),
    (("entry: scale", "entry: 'scale<float>'"), 3, "templates are not available"),
    (("  - {name: by, dtype: float32, value: 1e-1}\n", ""), 5, "scale takes 4 arguments, the spec lists 3"),
    (
        ("name: n, dtype: int32, value: n", "name: n, dtype: int32, shape: [n], init: zeros"),
        8,
        "gives a shape",
    ),
    (("shape: [n], init: {uniform: [-1, 1]}", "value: 3"), 6, "a pointer, but the spec gives a value"),
    (
        ("dtype: int32, value: n", "dtype: int64, value: n"),
        8,
        "is `int` in the source, but the spec says int64",
    ),
    (("float32, shape: [n], role", "float64, shape: [n], role"), 7, "write float32"),
    (("{uniform: [-1, 1]}}", "normal, role: inout}"), 6, "const, but its role is inout"),
    (("entry: scale", "entry: scale\n  returns: float32"), 4, "returns nothing"),
    # Not in this version, or not on this backend.
    (("problem:", "launch: {grid: [1], block: [1]}\nproblem:"), 4, "no launch geometry"),
    (("problem:", "backend: cuda\nproblem:"), 4, "the cuda backend takes CUDA, not c"),
    (("problem:", "backend: hots\nproblem:"), 4, "did you mean 'host'?"),
    (("problem:", "workload: 'recordings/*.rec'\nproblem:"), 4, "no recording fits 'recordings/*.rec'"),
    (("entry: scale", "entry: scale\n  link: [libx.so]"), 4, "not available in this version"),
    (("  rtol: 1e-5", "  reference: recording"), 18, "reference is recording, and there is none"),
    (("problem:", "compare: ['']\nproblem:"), 4, "compare[0] is empty"),
    (("problem:", "objective: energy\nproblem:"), 4, "objective is 'energy'"),
]


@pytest.mark.parametrize(("change", "line", "says"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_one_message_with_place_and_cure(load: Load, change: tuple[str, str], line: int, says: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(change)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert caught.value.hint
    assert caught.value.place is not None
    assert Path(caught.value.place.file).name == "spec.yaml"
    assert caught.value.place.line == line


def test_arguments_in_another_order(load: Load) -> None:
    lines = SPEC.splitlines(keepends=True)
    swapped = (lines[5] + lines[6], lines[6] + lines[5])
    with pytest.raises(SpecError, match="'dst' is out of order; in call order: src, dst, n, by"):
        load(swapped)


def test_nothing_to_tune(load: Load) -> None:
    with pytest.raises(SpecError, match="there is nothing to tune"):
        load(
            (
                "    TILE: [8, 16, 32]\n    UNROLL: {low: 1, high: 8, log: true, default: 2}\n",
                "    TILE: [8]\n",
            ),
            ('  constraints: ["TILE % UNROLL == 0"]\n  flags: {math: ["", "-ffast-math"]}\n', ""),
        )


def test_an_empty_space_points_at_the_constraints(load: Load) -> None:
    spec = load(("TILE % UNROLL == 0", "TILE < UNROLL - 8"))
    with pytest.raises(SpecError, match=r"spec\.yaml:14:3: "):
        spec.space(None)


def test_a_kernel_that_does_not_compile(load: Load) -> None:
    with pytest.raises(BaselineError, match=r"spec\.yaml:2:\d+: the kernel does not compile: scale\.c:8: "):
        load(kernel=KERNEL.replace("FACTOR * by", "FACTER * by"))


def test_the_default_macros_decide_what_clang_sees(load: Load) -> None:
    kernel = KERNEL.replace("void scale(", "#if TILE == 8\nvoid scale(").replace(
        "static void", "#endif\nstatic void"
    )
    load(kernel=kernel)
    with pytest.raises(SpecError, match="has no function 'scale'"):
        load(("TILE: [8, 16, 32]", "TILE: {values: [8, 16], default: 16}"), kernel=kernel)


def test_several_problems(load: Load) -> None:
    spec = load(
        ("problem: {n: 1024}", "problems: [{n: 1024, weight: 3}, {n: 64}]"),
        ("TILE % UNROLL == 0", "n % (TILE * UNROLL) == 0"),
    )
    assert [(p.sizes, p.weight) for p in spec.task.problems] == [({"n": 1024}, 3.0), ({"n": 64}, 1.0)]
    # 64 decides: TILE * UNROLL divides both.
    space = spec.space(None)
    assert space.count() == 2 * sum(64 % (t * u) == 0 for t in (8, 16, 32) for u in (1, 2, 4, 8))
    with pytest.raises(SpecError, match="'m' is not in every problem"):
        load(("problem: {n: 1024}", "problems: [{n: 1024}, {n: 64, m: 3}]"))
    with pytest.raises(SpecError, match="both problem and problems"):
        load(("problem: {n: 1024}", "problem: {n: 1}\nproblems: [{n: 1024}]"))


def test_a_run_time_parameter_is_no_macro(load: Load) -> None:
    spec = load(
        (
            "    UNROLL: {low: 1, high: 8, log: true, default: 2}",
            "    LIMIT: {low: 5, high: 9, macro: false}",
        ),
        ("TILE % UNROLL == 0", "TILE > LIMIT"),
        ("value: 1e-1", "value: LIMIT / 2"),
    )
    resolved = spec.space(None).resolve(spec.space(None).default())
    assert (resolved.macros, resolved.scalars) == ({"TILE": 8}, {"LIMIT": 5})


def test_a_python_reference_is_kept_with_the_sources(load: Load) -> None:
    spec = load(("  rtol: 1e-5", "  reference: {python: reference.py:scale}"))
    reference = spec.task.verify.reference
    assert (reference.kind, reference.file, reference.function) == ("python", "reference.py", "scale")
    assert "def scale" in spec.files["reference.py"]


def test_data_files_count_in_the_digest(load: Load, tmp_path: Path) -> None:
    change = ("{uniform: [-1, 1]}", "{file: data.bin}")
    one_size = ("  problems: [{n: 67}]\n", "")
    (tmp_path / "data.bin").write_bytes(bytes(4096))
    first = load(change, one_size)
    (tmp_path / "data.bin").write_bytes(b"\1" * 4096)
    assert load(change, one_size).digest != first.digest
    with pytest.raises(SpecError, match=r"takes 268 bytes, data.bin has 4096 with n = 67"):
        load(change)
    assert len(first.files["data.bin.sha256"]) == 64


def test_the_digest_ignores_comments_and_sees_sources(load: Load) -> None:
    plain = load()
    assert load(("problem:", "# a comment\nproblem:")).digest == plain.digest
    assert load(("seed: 7", "seed: 8")).digest != plain.digest
    assert load(kernel=KERNEL + "/* x */\n").digest != plain.digest


def test_several_kernels_share_keys(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text("void one(float *a) { a[0] += 1; }\nvoid two(float *a) { a[0] += 2; }\n")
    spec = tmp_path / "two.yaml"
    spec.write_text(
        "arguments: [{name: a, dtype: float32, shape: [1], role: inout}]\n"
        "search: {seed: 3}\n"
        "kernels:\n"
        "  - kernel: {source: two.c, entry: one}\n"
        "  - {kernel: {source: two.c, entry: two}, search: {seed: 4}}\n"
        "  - kernel: {source: two.c, entry: one}\n"
    )
    loaded = load_spec(spec)
    assert [(s.name, s.index, s.search.seed) for s in loaded] == [
        ("one", 0, 3),
        ("two", 1, 4),
        ("one-2", 2, 3),
    ]
    again = load_recorded(loaded[1].text, loaded[1].files, folder=str(tmp_path), index=1)
    assert (again.name, again.digest, again.task) == (loaded[1].name, loaded[1].digest, loaded[1].task)
    spec.write_text(spec.read_text().replace("entry: two}, search: {seed: 4", "entry: two}, search: {sed: 4"))
    with pytest.raises(SpecError, match=r"two\.yaml:5:\d+: unknown key 'sed' in search; did you mean 'seed'"):
        load_spec(spec)
    spec.write_text("kernels: []\n")
    with pytest.raises(SpecError, match="kernels is no list"):
        load_spec(spec)
    spec.write_text("kernels: [3]\n")
    with pytest.raises(SpecError, match=r"kernels\[0\] is no mapping"):
        load_spec(spec)


def test_a_record_needs_no_file_system(load: Load, tmp_path: Path) -> None:
    spec = load(("  rtol: 1e-5", "  reference: {python: reference.py:scale}"))
    for file in tmp_path.iterdir():
        file.unlink()
    again = load_recorded(spec.text, spec.files, folder=str(tmp_path))
    assert again.task == spec.task
    assert again.digest == spec.digest
    assert again.files == spec.files
    assert again.space(None).count() == spec.space(None).count()
    with pytest.raises(SpecError, match="no kernel 1"):
        load_recorded(spec.text, spec.files, folder=str(tmp_path), index=1)
    with pytest.raises(SpecError, match=r"there is no file 'scale\.c'"):
        load_recorded(spec.text, {}, folder=str(tmp_path))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: p / "none.yaml", "there is no file"),
        (lambda p: p, "cannot be read"),
        (lambda p: _write(p / "bad.yaml", b"\xff\xfe\x00"), "not UTF-8"),
        (lambda p: _write(p / "list.yaml", b"- a\n"), "the file is a list"),
    ],
)
def test_files_that_are_no_specs(tmp_path: Path, make: Callable[[Path], Path], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        load_spec(make(tmp_path))


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_misspelt_file_is_suggested(load: Load, tmp_path: Path) -> None:
    load()
    with pytest.raises(TunerError, match=r"did you mean 'spec\.yaml'"):
        load_spec(tmp_path / "spce.yaml")


def test_cpp_namespaces_overloads_and_types(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(
        "#include <stdint.h>\n"
        "typedef float real;\n"
        "namespace a { int f(int x) { return x; }\n"
        "long f(const real *in, uint8_t *out, int32_t n) {\n"
        "  for (int i = 0; i < n; i++) out[i] = in[i] > 0;\n"
        "  return n; } }\n"
        "namespace b { void f(int) {} }\n"
    )
    text = (
        "kernel: {source: k.cpp, entry: 'a::f', returns: int64}\n"
        "problem: {n: 64}\n"
        "arguments:\n"
        "  - {name: in, dtype: float32, shape: [n]}\n"
        "  - {name: out, dtype: uint8, shape: [n], role: output}\n"
        "  - {name: n, dtype: int32, value: n}\n"
    )
    spec = tmp_path / "k.yaml"
    spec.write_text(text)
    (loaded,) = load_spec(spec)
    assert (loaded.name, loaded.task.kernel.language, loaded.task.kernel.returns) == ("a_f", "c++", "int64")
    spec.write_text(text.replace("in, dtype: float32", "in, dtype: float64"))
    with pytest.raises(
        SpecError, match="`const real \\*` in the source, but the spec says float64; write float32"
    ):
        load_spec(spec)
    spec.write_text(text.replace("returns: int64", "returns: int32"))
    with pytest.raises(SpecError, match="returns `long`, but the spec says int32"):
        load_spec(spec)


def test_sources_in_folders_and_header_search(tmp_path: Path) -> None:
    for folder in ("src", "inc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "k.c").write_text(
        '#include "near.h"\n#include "far.h"\nvoid k(float *a) { a[0] = NEAR + FAR; }\n'
    )
    (tmp_path / "src" / "near.h").write_text("#define NEAR 1\n")
    (tmp_path / "inc" / "far.h").write_text("#define FAR 2\n")
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: src/k.c, entry: k, include: [inc]}\n"
        "arguments: [{name: a, dtype: float32, shape: [1], role: output}]\n"
    )
    (spec,) = load_spec(tmp_path / "k.yaml")
    assert set(spec.files) == {"src/k.c", "src/near.h", "inc/far.h"}
    assert spec.task.kernel.include == ("inc", "src")
    assert [f.name for f in spec.task.kernel.variant.files] == ["k.c", "near.h"]


def test_all_that_a_result_depends_on_is_in_the_digest(tmp_path: Path) -> None:
    """`tuner ensure` would else hand out the object of an earlier header."""
    for folder in ("src", "inc/deep"):
        (tmp_path / folder).mkdir(parents=True)
    texts = {
        "src/k.c": "#include <far.h>\n#include <math.h>\nvoid k(float *a) { a[0] = FAR; }\n",
        "inc/far.h": "#include <deep/er.h>\n#define FAR DEEP\n",
        "inc/deep/er.h": "#define DEEP 1\n",
        "ref.py": "import math, helper\nfrom part import inner\n\ndef f(a):\n    return {'a': inner.ONE}\n",
        "helper.py": "NONE = 0\n",
        "part/__init__.py": "",
        "part/inner.py": "ONE = 1\n",
    }
    (tmp_path / "part").mkdir()
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "k.yaml").write_text(
        "kernel: {source: src/k.c, entry: k, include: [inc]}\n"
        "arguments: [{name: a, dtype: float32, shape: [1], role: output}]\n"
        "verify: {reference: {python: 'ref.py:f'}}\n"
    )
    (first,) = load_spec(tmp_path / "k.yaml")
    assert set(first.files) == set(texts)
    assert [f.name for f in first.task.kernel.variant.files] == ["k.c"]
    for name in texts:
        (tmp_path / name).write_text(texts[name] + "\n")
        (changed,) = load_spec(tmp_path / "k.yaml")
        assert changed.digest != first.digest, name
        (tmp_path / name).write_text(texts[name])


def test_headers_that_a_macro_names_count(tmp_path: Path) -> None:
    files = {
        "k.c": (
            '#define CHOSEN SIZES // by default\n#define SIZES "sizes.h"\n#include CHOSEN\n#include FORM\n'
            "void k(float *a) { a[0] = SIZE + PART; }\n"
        ),
        "sizes.h": "#define DEEP <deep.h>\n#include DEEP\n",
        "inc/deep.h": "#define SIZE 4\n",
        "one.h": "#define PART 1\n",
        "two.h": "#define PART 2\n",
        "spec.yaml": (
            "kernel: {source: k.c, entry: k, include: [inc]}\n"
            "arguments: [{name: a, dtype: float32, shape: [1], role: output}]\n"
            "space: {parameters: {FORM: ['\"one.h\"', '\"two.h\"']}}\n"
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (spec,) = load_spec(tmp_path / "spec.yaml")
    assert set(spec.files) == set(files) - {"spec.yaml"}
    assert not [n for n in spec.notices if "cannot be told" in n]
    before = spec.digest
    for name in ("inc/deep.h", "two.h"):
        (tmp_path / name).write_text(files[name] + "/* changed */\n")
        (spec,) = load_spec(tmp_path / "spec.yaml")
        assert spec.digest != before, name
        before = spec.digest


def test_a_header_whose_name_is_pasted_together_is_said_to_be_unseen(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        "#define TEXT(x) #x\n#define FILE(x) TEXT(x)\n#define NAME sizes.h\n"
        "#include FILE(NAME)\nvoid k(float *a) { a[0] = 4; }\n"
    )
    (tmp_path / "sizes.h").write_text("\n")
    (tmp_path / "spec.yaml").write_text(
        "kernel: {source: k.c, entry: k}\narguments: [{name: a, dtype: float32, shape: [1], role: output}]\n"
    )
    (spec,) = load_spec(tmp_path / "spec.yaml")
    assert any(
        n.startswith("k.c: FILE is included, and which file that is cannot be told") for n in spec.notices
    )
