"""What is printed of a winner with many edits and sizes: what is worth something first, the rest in short."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from product_runs import KERNEL, SPEC, backend

from tuner.api import Result
from tuner.cli.winner_text import NAMED, WIDTH, print_winner
from tuner.core.types import Status
from tuner.driver.options import Options
from tuner.driver.outcome.outcome import Outcome
from tuner.driver.outcome.result import Summary
from tuner.driver.plan.ablation import Worth
from tuner.driver.runs import begin
from tuner.spec.load import load_spec

FEW = {"choose_processes": 2, "confirm_processes": 4}


@cache
def evolved() -> Summary:
    """Of a run over variants."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "product.c").write_text(KERNEL)
        (Path(folder) / "product.yaml").write_text(SPEC)
        (spec,) = load_spec(Path(folder) / "product.yaml")
        options = Options(seed=2, workers=2, evaluations=80, settings=FEW)
        found = begin(spec, Path(folder) / "a.run", options, backend=backend(process_noise=0.001)).summary
    assert found.improved
    assert found.evolution is not None
    return found


def worth(name: str, ratio: tuple[float, float, float] | None = None, **more: Any) -> Worth:
    return Worth(item={"kind": "parameter", "name": name}, **{"status": Status.OK, "ratio": ratio, **more})


def with_sizes(values: dict[str, Any], *worths: Worth) -> Summary:
    """A winner that sets these, and what is known of each."""
    found = evolved()
    best = replace_configuration(found.best, {**found.baseline.proposal.configuration, **values})
    return replace(found, best=best, ablation=worths, simplest=None, evolution=None)


def replace_configuration(trial: Any, values: dict[str, Any]) -> Any:
    return replace(trial, proposal=replace(trial.proposal, configuration=values))


def printed(summary: Summary, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_winner(summary)
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= WIDTH for line in lines)
    return lines


@pytest.mark.integration
def test_sizes_that_are_worth_something_come_first_and_the_rest_is_folded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = {f"ROWS_{n}": n for n in range(10)}
    summary = with_sizes(
        {**sizes, "WIDTH": 4},
        worth("ROWS_1", (1.07, 1.02, 1.12)),
        worth("ROWS_2", (12.2, 11.6, 12.8)),
        worth("ROWS_3", (0.98, 0.93, 1.03)),
        worth("ROWS_4", (1.005, 1.002, 1.008)),
        worth("ROWS_5", (1.0, 1.0, 1.0), same_code=True),
        worth("ROWS_6", (1.03, 0.98, 1.08)),
        worth("ROWS_7", None, status=Status.WRONG_RESULT),
        worth("ROWS_8", None, status=Status.PRUNED),
        worth("WIDTH", (0.8, 0.7, 0.9)),
    )
    assert printed(summary, capsys) == [
        "  ROWS_7     7  (without it wrong_result)",
        "  ROWS_2     2  (without it 12.20 times as long [11.60, 12.80])",
        "  ROWS_1     1  (without it 1.07 times as long [1.02, 1.12])",
        "  WIDTH      4  (without it 0.80 times as long [0.70, 0.90])",
        "  ROWS_0     0",
        "  ROWS_8     8",
        "  ROWS_9     9",
        "  no gain    from 4 others, each taken back: 0.98 to 1.03 times as long, none surely over 1%; "
        "1 changes no code",
        "             ROWS_3 3, ROWS_4 4, ROWS_5 5, ROWS_6 6",
    ]


@pytest.mark.integration
def test_sizes_of_which_nothing_is_known_are_one_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """The spec's own settings keep their lines; a few sizes have theirs, too."""
    few = printed(with_sizes({"WIDTH": 4, "TILE_I": 32}), capsys)
    assert few == ["  WIDTH      4", "  TILE_I     32"]
    first, *rest = printed(with_sizes({"WIDTH": 4, **{f"TILE_{n}": n for n in range(NAMED + 9)}}), capsys)
    assert first == "  WIDTH      4"
    text = " ".join(line.strip() for line in rest)
    assert text.startswith("sizes      TILE_0 0, TILE_1 1, ")
    assert text.endswith(f"TILE_{NAMED - 1} {NAMED - 1} and 9 more; --json has all of them")
    assert len(rest) < 5


@pytest.mark.integration
def test_the_json_has_every_setting_and_worth(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = {f"ROWS_{n}": n for n in range(9)}
    worths = [
        replace(w, item={**w.item, "change": "", "at": None, "also": "", "value": 1, "back": 2})
        for w in (worth(name, (1.0, 0.9, 1.1)) for name in sizes)
    ]
    value = with_sizes(sizes, *worths).to_json(run="", kernel="", backend="", device="")
    assert sizes.items() <= value["best"]["configuration"].items()
    assert [w["name"] for w in value["ablation"]] == list(sizes)


@pytest.mark.integration
def test_edits_come_by_what_they_are_worth(capsys: pytest.CaptureFixture[str]) -> None:
    lineage = evolved().evolution
    assert lineage is not None
    edits = tuple({"op": f"op{n}", "loop": "i"} for n in range(12))
    gains: tuple[float | None, ...] = (None, 1.2, float("inf"), 3.4, 1.3, *(None,) * 7)
    intervals = (None, (1.1, 1.3), None, (3.0, 3.9), (0.9, 1.9), *(None,) * 7)
    found = replace(lineage, variant=7, edits=edits, gains=gains, intervals=intervals, left_out=2)
    summary = replace(with_sizes({}), evolution=found)
    assert printed(summary, capsys) == [
        "  source     variant 7: 12 edits; 2 that did not pay were left out",
        "             op2(i) (needed)",
        "             op3(i) (without it 3.40 times as long [3.00, 3.90])",
        "             op1(i) (without it 1.20 times as long [1.10, 1.30])",
        "             op4(i) (without it 1.30 times as long [0.90, 1.90])",
        "             not weighed: op0(i), op5(i), op6(i), op7(i), op8(i), op9(i), op10(i), op11(i)",
    ]
    plain = replace(found, gains=(None,) * 12, intervals=(None,) * 12)
    (line,) = printed(
        replace(summary, evolution=replace(plain, edits=edits[:2], gains=(), intervals=())), capsys
    )
    assert line == "  source     variant 7: op0(i), op1(i); 2 that did not pay were left out"


@pytest.mark.integration
def test_a_real_winner_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(evolved(), capsys)[0].startswith("  source     variant ")


def test_a_notebook_s_card_folds_alike() -> None:
    sizes = {f"ROWS_{n}": n for n in range(5)}
    tiles = {f"TILE_{n}": n for n in range(5)}
    worths = [worth(name, (1.0, 0.9, 1.1)) for name in sizes]
    summary = with_sizes({**sizes, **tiles, "WIDTH": 4}, *worths, worth("WIDTH", (2.0, 1.9, 2.1)))
    outcome = Outcome(
        path=None, kernel="k", backend="b", device="d", summary=summary, failed=False, interrupted=False
    )
    shown = re.findall(r"<code>(.*?)</code>", Result(outcome)._repr_html_())
    assert shown == [
        *("WIDTH", "4"),
        *("sizes", ", ".join(f"TILE_{n} {n}" for n in range(5))),
        *("no gain of their own", ", ".join(f"ROWS_{n} {n}" for n in range(5))),
    ]
