"""Trials for other tools: DataFrame, Parquet, Optuna's journal, a notebook's card."""

from __future__ import annotations

import json
import math
import os
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import made_runs as made
import pytest

import tuner
from tuner.cli.main import main
from tuner.core.errors import MachineError


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuner.Result:
    result: tuner.Result = made.made_run(tmp_path_factory.mktemp("frames"), 60, few=True)
    return result


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = made.simulated_run(tmp_path_factory.mktemp("evolved"), evolve=True, evaluations=40)
    return path


def status(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.integration
def test_trials_are_a_frame_with_units_in_its_columns(recorded: tuner.Result) -> None:
    """A line for each trial; missing values are missing, not magic numbers."""
    frame, rows = recorded.trials, recorded.rows
    assert len(frame) == len(rows) == recorded.to_json()["trials"]["total"]
    assert list(frame["trial"]) == [row["trial"] for row in rows]
    assert {"time_s", "time_low_s", "time_high_s", "clock_s", "compile_s", "verify_s"} <= set(frame.columns)
    ok = frame[frame["status"] == "ok"]
    assert (ok["time_low_s"] <= ok["time_s"]).all()
    assert (ok["time_s"] <= ok["time_high_s"]).all()
    failed = frame[~frame["status"].isin(["ok", "duplicate"])]
    assert len(failed) > 0
    assert failed["time_s"].isna().all()
    assert failed["speedup"].isna().all()
    assert frame["speedup"].iloc[0] == 1.0


@pytest.mark.integration
def test_columns_have_the_types_of_their_values(recorded: tuner.Result, evolved: Path) -> None:
    """Whole numbers stay whole where some variants lack them; truths are truths; texts texts."""
    frame = recorded.trials
    assert str(frame["parameter.BLOCK_X"].dtype) == "Int64"
    assert str(frame["parameter.CACHED"].dtype) == "boolean"
    assert str(frame["parameter.LAYOUT"].dtype).startswith("str")
    own = tuner.load(evolved).trials
    tiles = [c for c in own.columns if c.startswith("parameter.") and own[c].isna().any()]
    assert tiles
    assert all(str(own[c].dtype) == "Int64" for c in tiles)


def test_several_problems_make_one_time(tmp_path: Path) -> None:
    """The weighted geometric mean over problems, as the score is; a column of choices holds one type."""
    from tuner.driver.options import Options
    from tuner.driver.runs import begin
    from tuner.spec.load import load_spec
    from tuner.testing import SimulatedBackend

    (tmp_path / "product.c").write_text(made.KERNEL)
    text = made.SPEC.replace("EVOLVE", "false").replace(
        'passes: {base: "default<O3>", max_edits: 10}', "passes: off"
    )
    text = text.replace("problem: {n: 64}", "problems: [{n: 32, weight: 3}, {n: 64, weight: 1}]")
    text = text.replace("WIDTH: [1, 2, 3, 4]", "WIDTH: [1, 2, 3, 4], SIZE: [8, auto], RATE: [1, 0.5]")
    (tmp_path / "product.yaml").write_text(text)
    (spec,) = load_spec(tmp_path / "product.yaml")
    backend = SimulatedBackend(
        seconds=lambda r: 1e-3 * int(r.macros["WIDTH"]), process_noise=0.0, call_noise=0.0
    )
    begin(spec, tmp_path / "a.run", Options(evaluations=9, strategy="random"), backend=backend)
    result = tuner.load(tmp_path / "a.run")
    for row in result.rows:
        if row["interval_s"] is not None:
            assert row["interval_s"][0] == pytest.approx(1e-3 * row["configuration"]["WIDTH"])
            assert math.exp(row["score"]) == pytest.approx(row["configuration"]["WIDTH"])
    assert set(result.trials["parameter.SIZE"]) == {"8", "auto"}
    assert set(result.trials["parameter.RATE"]) == {1.0, 0.5}


@pytest.mark.integration
def test_without_pandas_there_is_a_line_that_says_so(
    recorded: tuner.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the rows need nothing."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MachineError, match=r"pip install 'remix-tuner\[frames\]'"):
        _ = recorded.trials
    assert recorded.rows


def test_parquet_reads_back(recorded: tuner.Result, tmp_path: Path) -> None:
    """What another tool reads is the frame, types and all."""
    import pandas

    target = tmp_path / "trials.parquet"
    assert status(["show", str(recorded.path), "--parquet", str(target)]) == 0
    pandas.testing.assert_frame_equal(pandas.read_parquet(target), recorded.trials)
    assert [p.name for p in tmp_path.iterdir()] == ["trials.parquet"]
    assert status(["show", str(recorded.path), "--parquet", str(tmp_path / "no" / "folder.parquet")]) == 2


def test_without_pyarrow_nothing_is_left_behind(
    recorded: tuner.Result,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A missing package is a line, not half a file."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert status(["show", str(recorded.path), "--parquet", str(tmp_path / "trials.parquet")]) != 0
    assert "pyarrow" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def journal(path: Path, name: str) -> Any:
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return optuna.load_study(study_name=name, storage=JournalStorage(JournalFileBackend(str(path))))


def test_optuna_reads_the_journal(recorded: tuner.Result, tmp_path: Path) -> None:
    """The study's trials are the run's: numbers, values, parameters, what failed and what was dropped."""
    import optuna

    target = tmp_path / "journal.log"
    assert status(["show", str(recorded.path), "--optuna", str(target)]) == 0
    study = journal(target, "synthetic")
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    for trial, row in zip(study.trials, recorded.rows, strict=True):
        assert trial.user_attrs["trial"] == row["trial"] == trial.number
        assert trial.params == row["configuration"]
        wanted = "FAIL"
        if row["status"] in ("ok", "duplicate"):
            wanted = "PRUNED" if row["raced"] else "COMPLETE"
        assert trial.state.name == wanted
        if wanted == "COMPLETE":
            assert trial.value == pytest.approx(math.exp(-row["score"]))
    best = max(-(r["score"] or 0.0) for r in recorded.rows if r["status"] == "ok" and not r["raced"])
    assert study.best_value == pytest.approx(math.exp(best))


def test_a_journal_goes_to_the_disk_once(
    recorded: tuner.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written through for every trial, one of 100,000 trials took ten minutes."""
    real, count = os.fsync, 0

    def counted(descriptor: int) -> None:
        nonlocal count
        count += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    assert len(recorded.rows) > 20
    assert status(["show", str(recorded.path), "--optuna", str(tmp_path / "journal.log")]) == 0
    assert 0 < count < 10


@pytest.mark.integration
def test_variants_with_tunables_of_their_own_are_one_study(evolved: Path, tmp_path: Path) -> None:
    """A parameter that only some variants have is no reason to refuse; pipelines are attributes."""
    target = tmp_path / "journal.log"
    assert status(["show", str(evolved), "--optuna", str(target)]) == 0
    study = journal(target, "product")
    assert len({frozenset(t.params) for t in study.trials}) > 1
    assert all("passes" in t.user_attrs and "passes" not in t.params for t in study.trials)


def test_the_command_writes_both(
    recorded: tuner.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was written is said on stderr, so --json keeps stdout for its one object."""
    log, table = tmp_path / "journal.log", tmp_path / "trials.parquet"
    arguments = ["show", str(recorded.path), "--optuna", str(log), "--parquet", str(table)]
    assert status(arguments) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert str(log) in said.err
    assert str(table) in said.err
    assert status([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernel"] == "synthetic"
    assert status(["show", str(recorded.path), "--optuna", str(tmp_path / "no" / "journal.log")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)


def test_a_notebook_shows_the_answer(recorded: tuner.Result) -> None:
    """The speed-up, its interval, what changed, and a line; nothing that runs or loads."""
    text = recorded._repr_html_()
    low, high = recorded.speedup_interval
    assert f"{recorded.speedup:.2f}&times;" in text
    assert f"{low:.2f} to {high:.2f}" in text
    for name in recorded.outcome.summary.changes:
        assert name in text
    assert {"div", "b", "table", "svg", "polyline"} <= set(Tags(text).tags)
    assert not {"script", "img", "link", "style"} & set(Tags(text).tags)


def test_a_hostile_name_is_text_in_a_notebook(evolved: Path, tmp_path: Path) -> None:
    """What a record says never becomes markup."""
    hostile = "</div><script>alert(1)</script><img src=x onerror=alert(1)>"

    def change(kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "name": hostile} if kind == "start" else body

    target = tmp_path / "hostile.run"
    made.rewritten(evolved, target, change)
    assert not {"script", "img"} & set(Tags(tuner.load(target)._repr_html_()).tags)


def test_a_run_without_an_answer_has_a_card_too(evolved: Path, tmp_path: Path) -> None:
    """An interrupted run claims nothing."""
    target = tmp_path / "part.run"
    made.rewritten(evolved, target, lambda kind, body: body, first=12)
    assert "nothing is claimed" in tuner.load(target)._repr_html_()
