"""What ``tuner check`` prints: lists in lines of their own, and of the baseline only what is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from smaller_problem import smaller_problem

from tuner.cli.text import print_check
from tuner.core.errors import SpecError
from tuner.driver.check import CheckReport, check_spec
from tuner.driver.overflow import with_values_in_range
from tuner.spec.first.init import first_spec
from tuner.spec.load import load_spec


def checked(path: Path, capsys: pytest.CaptureFixture[str], **space: object) -> str:
    document = yaml.safe_load(path.read_text())
    document["space"] |= space
    path.write_text(yaml.safe_dump(document))
    (spec,) = load_spec(path)
    print_check(check_spec(spec, faults=False))
    return capsys.readouterr().out


@pytest.mark.integration
def test_a_baseline_with_passes_of_its_own_is_not_called_clangs(
    scale_spec: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path: Path = scale_spec()
    said = checked(path, capsys, passes={"base": "function(sroa,instcombine)", "max_edits": 4})
    assert "the pipeline of passes.base, not that of clang -O3" in said
    assert "is that of" not in said


@pytest.mark.integration
def test_each_loop_has_a_line(scale_spec: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    path: Path = scale_spec()
    loops = "".join(f"    for (int i = 0; i < n; i++) b[i] += {k}.0f * a[i];\n" for k in range(6))
    source = path.with_suffix(".c")
    source.write_text(
        source.read_text().replace("    for", f"    for (int i = 0; i < n; i++) b[i] = 0;\n{loops}    for", 1)
    )
    text = checked(path, capsys)
    assert "the baseline's code is that of clang -O3" in text
    said = text.splitlines()
    at = next(i for i, line in enumerate(said) if line.startswith("  loops"))
    assert "; line" not in said[at]
    assert said[at + 1].startswith(f"{'':15}line ")


@pytest.mark.integration
def test_one_size_alone_is_said_to_be_one(
    scale_spec: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A candidate that drops an odd tail is right at an even size."""
    path: Path = scale_spec()
    document = yaml.safe_load(path.read_text())
    for verify, said in (
        ({}, True),
        ({"assume": ["n >= 1"]}, False),
    ):
        path.write_text(yaml.safe_dump(document | {"verify": verify}))
        assert ("only; what is wrong at other sizes passes" in checked(path, capsys)) is said


def test_a_target_that_clang_does_not_know_says_what_would_be_right(
    scale_spec: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path: Path = scale_spec()
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"target": "pentium9"}))
    with pytest.raises(SpecError, match=r"pentium9.*; write native, or a name as -march takes it"):
        checked(path, capsys)


def test_all_that_is_printed_of_a_part_is_in_the_json() -> None:
    """A kernel that builds and does not verify has two lines about its baseline."""
    said = [("baseline", "builds, 3 bytes"), ("clang", "the same"), ("baseline", "does not verify")]
    facts = CheckReport(name="k", ok=False, lines=said).to_json()["facts"]
    assert facts == {"baseline": "builds, 3 bytes; does not verify", "clang": "the same"}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("helper", "reason"),
    [
        ("static inline float twice(float x) { return x + x; }", ""),
        ("static inline float twice(float x) { static float y; y = x; return x + y; }", "twice keeps values"),
        (
            "#pragma STDC FENV_ACCESS ON\nstatic inline float twice(float x) { return x + x; }",
            "twice is no other function that can be known beside #pragma STDC FENV_ACCESS ON",
        ),
    ],
)
def test_functions_that_hide_loops_are_named(
    scale_spec: Callable[..., Path], capsys: pytest.CaptureFixture[str], helper: str, reason: str
) -> None:
    """A run on such a kernel found nothing, and nobody said why."""
    path: Path = scale_spec()
    source = path.with_suffix(".c")
    text = source.read_text()
    (path.parent / "twice.h").write_text(f"#ifndef TWICE_H\n#define TWICE_H\n{helper}\n#endif\n")
    hidden = text.replace("a[i]", "twice(a[i])")
    assert hidden != text
    source.write_text('#include "twice.h"\n' + hidden)
    said = " ".join(checked(path, capsys, source={"evolve": True}).split())
    assert ("loops that call twice stay as they are" in said) == bool(reason)
    assert reason in said


SHORTEST = """\
void shortest(int n, int *path)
{
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                if (path[i * n + k] + path[k * n + j] < path[i * n + j])
                    path[i * n + j] = path[i * n + k] + path[k * n + j];
}
"""


@pytest.mark.integration
def test_whole_numbers_that_overflow_are_told_and_left_out_of_first_specs(tmp_path: Path) -> None:
    source, path = tmp_path / "shortest.c", tmp_path / "shortest.yaml"
    source.write_text(SHORTEST)
    first = first_spec(source, folder=tmp_path)
    first = replace(first, text=smaller_problem(first.text))
    assert "randint: [-1000, 1000]" in first.text
    path.write_text(first.text)
    (spec,) = load_spec(path)
    assert "signed whole numbers overflow in shortest" in "".join(check_spec(spec, faults=0).warnings)
    written = with_values_in_range(first, path)
    assert "randint: [0, 1000]" in written.text
    path.write_text(written.text)
    (spec,) = load_spec(path)
    assert "overflow" not in "".join(check_spec(spec, faults=0).warnings)
