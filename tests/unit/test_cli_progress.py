"""What a running tuner shows: folded from the events of real runs, at any width, with nothing that is not so."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_runs as made
import pytest
from rich.console import Console

from tuner.api import Result, load
from tuner.cli.figures import Figures, clock, sparkline
from tuner.cli.progress import LiveProgress, PlainProgress, panel, progress
from tuner.cli.text import print_result
from tuner.driver.options import Options
from tuner.driver.outcome.result import Lineage
from tuner.driver.runs import begin, resume
from tuner.driver.work.engine import Interruption
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, dict[str, Any]]]:
    path = made.simulated_run(tmp_path_factory.mktemp("progress"), evolve=True, evaluations=40)
    with RunRecord.read(path) as record:
        return [(e.kind, {**e.body, "trial": e.trial}) for e in record.events()]


def folded(events: list[tuple[str, dict[str, Any]]], count: int | None = None) -> Figures:
    figures = Figures()
    for kind, body in events[:count]:
        figures.take(kind, body)
    return figures


def drawn(figures: Figures, columns: int) -> str:
    out = io.StringIO()
    Console(file=out, width=columns, color_system=None).print(panel(figures, columns))
    return out.getvalue()


def test_a_run_without_trials_has_no_list_of_them() -> None:
    """What is printed while the baseline is built."""
    assert Figures().candidates() == "0 codes"


@pytest.mark.integration
def test_figures_are_the_records(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Counts, the best and the claim at the end are what the events say."""
    figures = folded(events)
    trials = [b for k, b in events if k == "trial" and not b["again"]]
    assert figures.total == len(trials)
    assert figures.statuses.total() == len(trials)
    best = min((b["score"], b["trial"]) for b in trials if b["status"] == "ok" and not b["raced"])
    assert (figures.best_score, figures.best_trial) == best
    assert figures.phase == "done"
    assert figures.in_flight == {}
    verdict = next(b for k, b in reversed(events) if k == "verdict")
    assert figures.claimed == tuple(verdict["speedup"])
    assert figures.curve == sorted(figures.curve)
    assert figures.variants == sum(
        k == "variant" and b["made"] is not None and b["purpose"] == "propose" for k, b in events
    )


@pytest.mark.parametrize("columns", [24, 40, 80, 200])
@pytest.mark.integration
def test_the_panel_fits(events: list[tuple[str, dict[str, Any]]], columns: int) -> None:
    """At every moment of the run and on every terminal: no line is longer than the terminal is wide."""
    for count in range(1, len(events) + 1, 7):
        text = drawn(folded(events, count), columns)
        assert max(len(line) for line in text.splitlines()) <= columns


@pytest.mark.integration
def test_the_panel_says_what_goes_on(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Baseline, best, line, statuses, workers; and while confirming how many processes there were."""
    middle = drawn(folded(events, len(events) // 2), 100)
    for part in (
        "product · simulated",
        "evaluations",
        "not confirmed yet",
        "baseline",
        "2 compile workers",
        "█",
    ):
        assert part in middle
    choice = next(i for i, (k, _) in enumerate(events) if k == "choice")
    assert "confirming: fresh process 3 of about 24" in drawn(folded(events, choice + 4), 100)
    assert "confirmed" in drawn(folded(events), 100)


def test_money_is_shown_where_it_is_spent(events: list[tuple[str, dict[str, Any]]]) -> None:
    """And not otherwise."""
    figures = folded(events)
    assert "spent" not in drawn(figures, 100)
    for number in range(2):
        figures.take("consult", {"number": number, "over": None})
    assert "2 requests to models" in figures.at_work()
    figures.take("reply", {"call": 0, "prompt_tokens": 1200, "completion_tokens": 34, "usd": 0.0123})
    assert "1 request to models" in figures.at_work()
    assert "1 calls, 1,234 tokens, $0.0123 spent" in drawn(figures, 100)


def test_a_name_is_no_markup(events: list[tuple[str, dict[str, Any]]]) -> None:
    """Brackets in a kernel's name are brackets."""
    figures = folded(events, 3)
    figures.name = "[red]conv<float>[/red]"
    assert "[red]conv<float>[/red]" in drawn(figures, 100)


def test_the_live_display_leaves_nothing_behind(events: list[tuple[str, dict[str, Any]]]) -> None:
    """It is gone when the run is over, so that the result stands alone."""
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True)
    with LiveProgress(console) as live:
        for kind, body in events:
            live.event(kind, body)
    assert "product" in out.getvalue()
    assert out.getvalue().endswith(("\x1b[2K", "\x1b[?25h"))


def test_plain_lines_where_there_is_no_terminal(
    events: list[tuple[str, dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One for each phase, on stderr."""
    with PlainProgress() as plain:
        for kind, body in events:
            plain.event(kind, body)
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
    for phase in ("searching", "choosing", "confirming", "done"):
        assert f"product: {phase}" in said.err


def test_sparklines() -> None:
    """Thinned to the width, never wider; one value is a flat line."""
    assert sparkline([], 10) == ""
    assert sparkline([3.0], 10) == "▁"
    assert sparkline([1.0, 2.0, 4.0], 3)[-1] == "█"
    assert len(sparkline([1.0 + i for i in range(1000)], 37)) == 37
    assert clock(0) == "0:00"
    assert clock(3599.9) == "59:59"


def test_a_resumed_run_shows_what_it_had(tmp_path: Path) -> None:
    """The best and the counts of before the interruption are there from the first moment on."""
    (tmp_path / "product.c").write_text(made.KERNEL)
    text = made.SPEC.replace("EVOLVE", "false").replace(
        'passes: {base: "default<O3>", max_edits: 10}', "passes: off"
    )
    (tmp_path / "product.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "product.yaml")
    backend = SimulatedBackend(seconds=lambda r: 1e-3 / int(r.macros["WIDTH"]))
    interruption = Interruption()

    class Watch:
        def __init__(self) -> None:
            self.figures = Figures()
            self.totals: list[int] = []
            self.phases: list[str] = []

        def event(self, kind: str, body: Any) -> None:
            self.figures.take(kind, body)
            self.phases.append(self.figures.phase)
            self.totals.append(self.figures.total)
            if self.figures.total == 4:
                interruption.set()

    first, second = Watch(), Watch()
    options = Options(evaluations=8, strategy="random", workers=1)
    begin(spec, tmp_path / "a.run", options, backend=backend, observers=[first], interruption=interruption)
    resume(tmp_path / "a.run", backend=backend, observers=[second])
    with RunRecord.read(tmp_path / "a.run") as record:
        trials = sum(1 for _ in record.events(kind="trial"))
    assert second.figures.total == trials > first.figures.total
    assert second.totals[: len(first.totals)] == first.totals
    at = second.phases.index("interrupted")
    assert second.phases[at - 1] == second.phases[at + 1] == "searching"
    assert second.figures.best_score <= first.figures.best_score


def test_a_run_that_ended_before_its_baseline_shows_no_time(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (spec,) = load_spec(scale_spec())
    stop = Interruption()
    stop.set()
    begin(
        spec,
        tmp_path / "early.run",
        Options(seed=1),
        backend=SimulatedBackend(seconds=lambda _: 1e-3),
        interruption=stop,
    )
    print_result(load(tmp_path / "early.run"))
    printed = capsys.readouterr().out
    assert "interrupted" in printed
    assert "nan" not in printed


@pytest.mark.parametrize(("term", "panel_"), [("dumb", False), ("xterm-256color", True)])
def test_a_panel_only_where_a_cursor_can_be_moved(
    term: str, panel_: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a dumb terminal a panel would never be drawn, and nothing be said for the whole run."""
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert isinstance(progress(), LiveProgress if panel_ else PlainProgress)


def test_budgets_stay_in_one_line(events: list[tuple[str, dict[str, Any]]]) -> None:
    figures = folded(events)
    for columns in (60, 80, 120):
        budget = [line for line in drawn(figures, columns).splitlines() if "budget" in line]
        assert len(budget) == 1
        assert str(figures.evaluations_limit) in budget[0]


def test_one_worker_is_no_workers(events: list[tuple[str, dict[str, Any]]]) -> None:
    figures = folded(events, 12)
    figures.workers = 1
    assert "1 compile worker " in drawn(figures, 100)


def short_run(spec: Path, path: Path, evaluations: int) -> Result:
    (loaded,) = load_spec(spec)
    backend = SimulatedBackend(seconds=lambda _: 1e-3)
    begin(loaded, path, Options(seed=1, evaluations=evaluations), backend=backend)
    return load(path)


def test_a_budget_that_is_over_with_the_baseline_says_that_nothing_was_tried(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = short_run(scale_spec(), tmp_path / "short.run", 1)
    print_result(result)
    printed = capsys.readouterr().out
    assert "nothing was tried: the budget was over with the baseline" in printed
    assert "no improvement found" not in printed
    assert "nothing was tried" in result._repr_html_()


def test_variants_that_earlier_runs_advise_are_not_left_out_of_the_count(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = short_run(scale_spec(), tmp_path / "a.run", 2)
    advised = Lineage(total=3, failed=1, left_out=0, variant=0, edits=(), by={})
    summary = replace(result.outcome.summary, evolution=advised)
    print_result(Result(replace(result.outcome, summary=summary)))
    expected = "variants   3 of the source: as given, and what earlier runs advise, 1 of which failed"
    assert expected in capsys.readouterr().out


def test_a_small_gain_is_not_printed_as_an_interval_from_one(
    scale_spec: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = short_run(scale_spec(), tmp_path / "a.run", 2)
    summary = replace(result.outcome.summary, improved=True, speedup=(1.0213, 1.0037, 1.0392))
    print_result(Result(replace(result.outcome, summary=summary)))
    assert "1.02 times faster than the baseline, 95% interval 1.0037 to 1.0392" in capsys.readouterr().out
