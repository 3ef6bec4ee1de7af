"""The benchmark of advice: one table of times for many runs, and figures over kernels and seeds."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from product_runs import KERNEL, SPEC, backend

from tuner.core.types import Resolved, Status, Variant
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.spec.load import load_spec

# No user meets a benchmark.
pytestmark = pytest.mark.integration

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
KERNEL_FILE = "product.c"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _shared_times  # type: ignore[import-not-found]

    return _shared_times


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import _advice_figures  # type: ignore[import-not-found]

    monkeypatch.setattr(_advice_figures, "DRAWS", 200)
    return _advice_figures


class Counted:
    """How often the backend behind the table was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, what: str) -> None:
        self.asked[what] += 1


def tuned(folder: Path, name: str, made: object, seed: int = 1, **settings: int) -> list[float | None]:
    """The scores of a run's trials."""
    place = folder / name
    place.mkdir(parents=True)
    (place / KERNEL_FILE).write_text(KERNEL)
    (place / "product.yaml").write_text(SPEC)
    (spec,) = load_spec(place / "product.yaml")
    begin(
        spec, place / "a.run", Options(seed=seed, evaluations=14, workers=1, settings=settings), backend=made
    )  # type: ignore[arg-type]
    with RunRecord.read(place / "a.run") as record:
        state, _, _ = open_state(record)
    return [state.trials[n].score for n in state.finished]


def test_timed_variants_are_not_timed_again(shared: ModuleType, tmp_path: Path) -> None:
    """A second run of the same search, in another process as it were, starts nothing and sees the same times."""
    table = tmp_path / "times.sqlite"
    first, again, other = Counted(), Counted(), Counted()
    one = shared.SharedTimes(backend(on_event=first), shared.Table(table))
    found = tuned(tmp_path, "one", one)
    one.close()
    assert first.asked["build"] > 1
    two = shared.SharedTimes(backend(on_event=again), shared.Table(table))
    assert tuned(tmp_path, "two", two) == found
    assert not again.asked
    three = shared.SharedTimes(backend(on_event=other), shared.Table(table))
    assert tuned(tmp_path, "three", three, seed=2)
    assert other.asked["build"] > 0
    two.close()


def test_runs_over_a_table_find_what_runs_without_one_find(shared: ModuleType, tmp_path: Path) -> None:
    """Nothing but noise tells them apart."""
    quiet = {"process_noise": 0.0, "call_noise": 0.0}
    plain = tuned(tmp_path, "plain", backend(**quiet))
    table = shared.Table(tmp_path / "times.sqlite")
    over = tuned(tmp_path, "over", shared.SharedTimes(backend(**quiet), table))
    assert over == pytest.approx(plain)


def test_controls_say_what_the_baselines_trial_said(shared: ModuleType, tmp_path: Path) -> None:
    """Else the moments at which they come move all scores, and equal searches part."""
    made = shared.SharedTimes(backend(call_noise=0.2), shared.Table(tmp_path / "times.sqlite"))
    for name in ("one", "two"):
        tuned(tmp_path, name, made, control_every=2)
        with RunRecord.read(tmp_path / name / "a.run") as record:
            state, _, _ = open_state(record)
        assert len(state.controls) > 2
        assert len(set(state.controls)) == 1


def test_a_wrong_result_stays_wrong(shared: ModuleType, tmp_path: Path) -> None:
    def wrong(variant: Variant, resolved: Resolved) -> float | Status:
        return Status.WRONG_RESULT if variant.edits else 1.0

    made = shared.SharedTimes(backend(of_variant=wrong), shared.Table(tmp_path / "times.sqlite"))
    first, again = tuned(tmp_path, "one", made), tuned(tmp_path, "two", made)
    assert first == again
    assert None in first


def runs_of(scores: ModuleType, arm: str, needed: dict[str, list[int]], budget: int = 20) -> list[object]:
    """Runs that reach -1 after so many evaluations; more than the budget: never."""
    return [
        scores.Tried(
            kernel=kernel,
            arm=arm,
            seed=seed,
            scores=[-1.0 if i >= count else -0.5 for i in range(1, budget + 1)],
        )
        for kernel, counts in needed.items()
        for seed, count in enumerate(counts)
    ]


def test_figures_compare_means_over_seeds(scores: ModuleType) -> None:
    runs = runs_of(scores, "alone", {"a": [4, 8], "b": [10, 20], "c": [99, 99]})
    runs += runs_of(scores, "helped", {"a": [2, 4], "b": [5, 10], "c": [10, 10]})
    found = scores.figures(runs, 20)
    assert found["arms"]["helped"]["mean of ratios"][0] == pytest.approx(0.5)
    assert found["arms"]["helped"]["ratio of means"][0] == pytest.approx(
        (3 + 7.5 + 10) / (6 + 15 + 20), abs=1e-3
    )
    assert found["arms"]["helped"]["by kernel"]["c"] == [10.0, 20.0]
    assert (found["arms"]["alone"]["reached"], found["arms"]["alone"]["runs"]) == (4, 6)
    assert found["arms"]["alone"]["mean of ratios"] == [1.0, 1.0, 1.0]
    _, low, high = found["arms"]["helped"]["ratio of means"]
    assert low <= 0.5 <= high


def test_arms_are_compared_seed_by_seed(scores: ModuleType) -> None:
    """A seed that only one of them has does not count; an arm that differs by seeds only has an interval."""
    runs = runs_of(scores, "alone", {"a": [4, 8, 12], "b": [3, 9, 15]})
    runs += runs_of(scores, "misled", {"a": [4, 8], "b": [3, 9]})
    runs += runs_of(scores, "control", {"a": [12, 4, 8], "b": [9, 15, 3]})
    found = scores.figures(runs, 20)
    assert found["arms"]["misled"]["mean of ratios"] == [1.0, 1.0, 1.0]
    value, low, high = found["arms"]["control"]["ratio of means"]
    assert low < value == 1.0 < high


def test_the_goal_is_the_best_of_all_runs(scores: ModuleType) -> None:
    """Of whatever arm: who alone finds the best is near it, the others are not."""
    runs = [
        scores.Tried(kernel="a", arm="alone", seed=0, scores=[-0.5, -1.0]),
        scores.Tried(kernel="a", arm="alone", seed=1, scores=[-0.5, -0.96]),
        scores.Tried(kernel="a", arm="misled", seed=0, scores=[-0.5, -0.9]),
    ]
    assert scores.goals(runs, 0.25)["a"] == pytest.approx(-1.0 + math.log(1.25))
    goal = scores.goals(runs)["a"]
    assert goal == pytest.approx(-1.0 + math.log(1.05))
    assert [scores.needed(run, goal, 2) for run in runs] == [2, 2, 2]
    arms = scores.figures(runs, 2)["arms"]
    assert (arms["misled"]["reached"], arms["alone"]["reached"]) == (0, 2)


Command = Callable[..., int]


@pytest.fixture
def command(scores: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The benchmark by its words; its exit status."""
    import advice  # type: ignore[import-not-found]

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["advice.py", *words])
        status: int = advice.main()
        return status

    return run


def test_figures_of_finished_runs_by_rule(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, arm, after in (("alone", "alone", 3), ("misled", "misled", 4), ("misled-new", "misled", 3)):
        (tmp_path / place).mkdir()
        row = {"kernel": "gemm", "arm": arm, "seed": 0, "advised": 1}
        row["scores"] = [0.0 if i < after else -1.0 for i in range(1, 9)]
        (tmp_path / place / "gemm-0.json").write_text(json.dumps(row))
    figures = ["--folder", str(tmp_path), "--evaluations", "8", "--figures", "--json"]
    for rule, ratio in (((), 4 / 3), (("--rule", "new"), 1.0)):
        assert command(*figures, *rule) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["arms"]["misled"]["mean of ratios"][0] == pytest.approx(ratio, abs=1e-3)


def test_figures_of_nothing_are_one_line(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--folder", str(tmp_path), "--figures") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(tmp_path) in said
