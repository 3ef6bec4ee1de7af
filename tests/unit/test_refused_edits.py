"""A run that found nothing in the source says that operators refused most edits of it, and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from product_runs import KERNEL, SPEC, backend
from spec_files import spec_in

from tuner.api import Result, load
from tuner.cli.text import LONGEST_LINE, print_result
from tuner.core.types import Resolved, Variant
from tuner.driver.audit import audit
from tuner.driver.check import check_spec
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.outcome.refused_edits import describe_refusals
from tuner.driver.runs import begin
from tuner.search.edit_survey import survey
from tuner.spaces.source.regions import read_program
from tuner.spec.load import load_spec

GOTO = """
void product(const float *a, const float *b, float *c, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0.0f;
            int k = 0;
        again:
            sum += a[i * n + k] * b[k * n + j];
            if (++k < n)
                goto again;
            c[i * n + j] = sum;
        }
}
"""

WHILE = """
void product(const float *a, const float *b, float *c, int n)
{
    int i = 0;
    while (i < n * n) {
        c[i] = a[i] * b[i];
        i++;
        if (c[0] < 0)
            break;
    }
}
"""


def ran(folder: Path, kernel: str) -> Outcome:
    spec = spec_in(folder, "product.c", kernel, SPEC)

    def same(variant: Variant, resolved: Resolved) -> float:
        return 1.0

    options = Options(seed=1, workers=2, evaluations=20)
    found = backend(of_variant=same, seconds=lambda _: 1e-3)
    return begin(spec, folder / "a.run", options, backend=found)


def said(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What is printed of the refusals."""
    print_result(Result(outcome))
    lines = capsys.readouterr().out.splitlines()
    begins = [n for n, line in enumerate(lines) if line.startswith("  refused ")]
    if not begins:
        return []
    rest = lines[begins[0] + 1 :]
    return [lines[begins[0]], *(rest[:1] if rest[0].startswith("   ") else [])]


@pytest.mark.integration
def test_the_text_in_the_way_is_said_with_its_loops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nearly every edit of loops around a goto is refused: the two lines say how many, by what and at which loops."""
    outcome = ran(tmp_path, GOTO)
    found = outcome.to_json()["refusals"]
    assert found["refused"] > 0.6 * found["tried"] > 0
    assert found["reasons"][0]["count"] >= found["reasons"][-1]["count"] > 0
    assert {"i", "j"} & set(found["reasons"][0]["loops"])
    lines = said(outcome, capsys)
    assert 1 <= len(lines) <= 2
    assert f"{found['refused']} of {found['tried']} edits" in lines[0]
    assert "again:" in lines[0]
    assert "loop j" in lines[0]
    assert audit(tmp_path / "a.run", backend=backend()).differences == []
    assert load(tmp_path / "a.run").to_json()["refusals"] == found


@pytest.mark.integration
def test_a_source_without_a_loop_to_change_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no place for any edit, nothing was refused either: the text that nothing can read is named."""
    outcome = ran(tmp_path, WHILE)
    found = outcome.to_json()["refusals"]
    assert (found["tried"], found["refused"]) == (0, 0)
    (line,) = said(outcome, capsys)
    assert "while (i < n * n)" in line
    assert len(line) <= LONGEST_LINE


@pytest.mark.integration
def test_nothing_is_said_where_operators_had_enough_to_try(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A product of matrices takes most edits: that none of them pays is no matter of refusals."""
    outcome = ran(tmp_path, KERNEL)
    assert not outcome.summary.improved
    assert "refusals" not in outcome.to_json()
    assert said(outcome, capsys) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOTO, "loop i holds a label: 'again: sum"),
        (GOTO, "line 8"),
        (WHILE, "holds a `while` loop"),
        (KERNEL, ""),
    ],
)
def test_a_check_says_it_before_anything_is_tuned(text: str, words: str, tmp_path: Path) -> None:
    spec = spec_in(tmp_path, "product.c", text, SPEC)
    lines = check_spec(spec, backend=backend(), faults=False).lines
    said = " ".join(line for name, line in lines if name == "refused")
    assert words in said if words else not said


def test_a_source_of_which_every_edit_applies_has_no_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = "    for (int i = 0; i < n; i++)\n        c[i] = a[i] + b[i];\n"
    outcome = ran(tmp_path, KERNEL[: KERNEL.index("    for")] + loop + "}\n")
    found = outcome.summary.refusals
    assert found is not None
    assert (found["refused"], found["reasons"]) == (0, [])
    assert not said(outcome, capsys)


def test_where_every_edit_is_taken_nothing_is_said(tmp_path: Path) -> None:
    """A run that finds no gain asks for these words, too."""
    (tmp_path / "product.c").write_text(
        "void product(const float *restrict a, const float *restrict b, float *restrict c, int n)\n"
        "{ for (int i = 0; i < 64; i++) c[i] += 2 * a[i]; }\n"
    )
    (tmp_path / "product.yaml").write_text(SPEC)
    (spec,) = load_spec(tmp_path / "product.yaml")
    found = survey(read_program(spec.task.kernel), reassociate=False, values={})
    assert found["tried"]
    assert not found["refused"]
    assert describe_refusals(found) == []


@pytest.mark.parametrize(
    ("head", "body", "said"),
    [
        (
            "#include <complex.h>\n",
            "for (int i = 0; i < n * n; i++) c[i] = creal(a[i] + 2 * I);",
            "product holds text that is no plain C: '(__extension__ 1.0iF)'",
        ),
        (
            "",
            "struct { long s; int lo; } st = {0, 1 << 30}; while (n > st.lo) c[n--] = a[0] + b[0];",
            "product holds a list of values: '{0, 1 << 30}'",
        ),
        (
            "enum kind { SOLID, FLUID };\nstruct cell { enum kind kind; float x; };\nstatic struct cell p[9];\n",
            "for (int i = 0; i < 9; i++) for (int j = 0; j < n; j++) c[j] += p[i].kind == FLUID ? a[j] : b[j];",
            "holds a member of a union, or one whose type or structure is not known: 'p[i].kind'",
        ),
        (
            "",
            "for (int i = 0; i < n; i++) {\n#if ALL\nc[i] = a[i]; }\n#else\nc[i] = b[i]; }\n#endif\n"
            "#include <limits.h>\n",
            "a directive: '#if ALL",
        ),
    ],
    ids=["imaginary unit", "first values", "enumeration", "braces in conditionals"],
)
def test_the_very_part_that_is_not_known_is_named(tmp_path: Path, head: str, body: str, said: str) -> None:
    signature = "void product(const float *a, const float *b, float *c, int n)"
    (tmp_path / "product.c").write_text(f"{head}{signature}\n{{\n{body}\n}}\n")
    (tmp_path / "product.yaml").write_text(SPEC)
    (spec,) = load_spec(tmp_path / "product.yaml")
    program = read_program(spec.task.kernel)
    assert said in "\n".join(describe_refusals(survey(program, reassociate=False, values={})))
