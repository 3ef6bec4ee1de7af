"""What a spec allows and hardly means is said, once each, and refused nowhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.core.errors import BaselineError, SpecError
from tuner.spec.load import load_spec

KERNEL = "void k(const float *x, float *y, int n) { for (int i = 0; i < n; i += 1) y[i] = x[i] * WIDTH; }\n"

SPEC = """\
kernel: {source: k.c, entry: k}
problem: {n: 64}
arguments:
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: output}
  - {name: n, dtype: int32, value: n}
space:
"""


@pytest.fixture
def notices(tmp_path: Path) -> Callable[[str], tuple[str, ...]]:
    """The notices of a spec with some space."""

    def load(space: str) -> tuple[str, ...]:
        (tmp_path / "k.c").write_text(KERNEL)
        path = tmp_path / "k.yaml"
        path.write_text(SPEC + space)
        return load_spec(path)[0].notices

    return load


def test_a_parameter_that_the_source_names_is_no_doubt(notices: Callable[[str], tuple[str, ...]]) -> None:
    assert notices("  parameters: {WIDTH: [1, 2]}\n") == ()


def test_a_parameter_that_nothing_names(notices: Callable[[str], tuple[str, ...]]) -> None:
    (line,) = notices("  parameters: {WIDTH: [1, 2], WIDHT: [1, 2]}\n")
    assert line.startswith("space.parameters.WIDHT: nothing in source, flags or arguments names it")


def test_a_parameter_named_by_a_flag_is_used(notices: Callable[[str], tuple[str, ...]]) -> None:
    assert notices('  parameters: {WIDTH: [1], W: [1, 2]}\n  flags: {a: ["", "-DX=W"]}\n') == ()


def test_a_flag_that_sets_a_parameter(notices: Callable[[str], tuple[str, ...]]) -> None:
    (line,) = notices('  parameters: {WIDTH: [1, 2]}\n  flags: {a: ["", "-DW=1 -DWIDTH=3"]}\n')
    assert line == "space.flags.a: '-DW=1 -DWIDTH=3' sets WIDTH, which is a parameter as well; rename one"


def test_a_baseline_that_a_constraint_rules_out(notices: Callable[[str], tuple[str, ...]]) -> None:
    (line,) = notices('  parameters: {WIDTH: [1, 2, 4]}\n  constraints: ["WIDTH > 1"]\n')
    assert "'WIDTH > 1' does not hold for the baseline (WIDTH = 1)" in line


def test_a_constraint_that_cannot_be_computed(notices: Callable[[str], tuple[str, ...]]) -> None:
    (line,) = notices('  parameters: {WIDTH: [1, 2, 0]}\n  constraints: ["8 / WIDTH > 1"]\n')
    assert "cannot be computed for 1 of 3 combinations (division by zero" in line


def test_directives_of_openmp_are_ignored_aloud(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(SPEC + "  parameters: {WIDTH: [1, 2]}\n")
    source = tmp_path / "k.c"
    source.write_text("#pragma omp declare simd\n" + KERNEL.replace("for", "\n  #pragma omp simd\n  for"))
    assert load_spec(path)[0].notices == ()
    source.write_text(KERNEL.replace("for", "\n#  pragma omp  parallel for\n  for"))
    (line,) = load_spec(path)[0].notices
    assert line.startswith("k.c:2: '# pragma omp parallel for' is ignored, and the baseline is one thread's")
    assert "openmp: true" in line


def test_openmps_header_is_told_where_to_stand(tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(SPEC + "  parameters: {WIDTH: [1, 2]}\n")
    (tmp_path / "k.c").write_text("#include <omp.h>\n" + KERNEL)
    with pytest.raises(BaselineError) as caught:
        load_spec(path)
    assert "openmp: true" in caught.value.hint
    assert "#ifdef _OPENMP" in caught.value.hint


def test_a_level_that_llvm_does_not_have_is_refused_before_anything_is_built(
    notices: Callable[[str], tuple[str, ...]], tmp_path: Path
) -> None:
    notices('  parameters: {WIDTH: [1]}\n  passes: {base: "default<O9>"}\n')
    (spec,) = load_spec(tmp_path / "k.yaml")
    from tuner.evaluators.host.backend import HostBackend

    with pytest.raises(SpecError, match=r"k.yaml:9:3: .*default<O9>.* they are <O0>, <O1>"):
        spec.space(HostBackend().pass_catalogue())
