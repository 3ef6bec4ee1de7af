"""The search benchmark over a small recorded space: strategies, needles, the cache, and its figures."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.core.types import Status
from tuner.evaluators.recorded.spaces import RecordedSpace, Row, key_of

# No user meets a benchmark.
pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
A, B = (16, 32, 48, 64, 96, 128), (1, 2, 4, 8)


def space(best):
    rows = {}
    for a, b in itertools.product(A, B):
        time_s = 1e-3 * (2.0 + abs(a - 64) / 512 + abs(b - 4) / 64)
        if (a, b) == (96, 8) and best is not None:
            time_s = best
        failed = a * b == 1024
        rows[key_of((a, b))] = Row(
            status=Status.CRASHED if failed else Status.OK,
            times_s=() if failed else (time_s,),
            compile_s=1.0,
            run_s=0.1,
        )
    parameters = {"A": A, "B": B}
    return RecordedSpace(kernel="k", device="d", parameters=parameters, rows=rows, restrictions=())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "k__plain.json").write_text(space(None).to_text())
    (tmp_path / "spaces" / "k__needle.json").write_text(space(1e-3).to_text())
    return tmp_path


def run(script, folder, *arguments):
    """What a process would have said, by a call of its ``main``."""
    command = [str(ROOT / "benchmarks" / script), "--spaces", str(folder / "spaces"), *arguments]
    out, errors = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        patch.syspath_prepend(ROOT / "benchmarks")
        patch.setattr(sys, "argv", command)
        try:
            status = importlib.import_module(Path(script).stem).main()
        except SystemExit as ended:
            status = ended.code
    return subprocess.CompletedProcess(command, status, out.getvalue(), errors.getvalue())


def test_strategies_needles_and_the_cache(folder):
    arguments = ["--seeds", "3", "--budgets", "5,12", "--cache", str(folder / "cache")]
    arguments += ["--strategies", "surrogate,random,surrogate-without-local", "--plot", str(folder / "p.svg")]
    first = run("search.py", folder, *arguments, "--json")
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout)
    row = result["strategies"]["surrogate"]
    assert row["spaces"]["k__needle"]["needle"]
    assert not row["spaces"]["k__plain"]["needle"]
    assert row["without_needles"]["12"] == row["spaces"]["k__plain"]["fraction"]["12"][0]
    assert set(result["paired"]) == {"random", "surrogate-without-local"}
    kept = {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()}
    again = run("search.py", folder, *arguments)
    assert "all but needles" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in (folder / "cache").iterdir()} == kept
    assert (folder / "p.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("surrogate-without-luck", "no part 'luck'"),
        ("surogate", "did you mean 'surrogate'"),
        ("best:effort", "unknown family 'best'"),
    ],
)
def test_a_strategy_that_is_not_there_is_named_before_anything_runs(folder, strategy, said):
    strategies = f"surrogate,{strategy}"
    done = run("search.py", folder, "--strategies", strategies, "--cache", str(folder / "c"))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_kept_results_of_longer_searches_are_reused(folder):
    arguments = ["--cache", str(folder / "c"), "--no-score", "--match", "plain"]
    run("search.py", folder, *arguments, "--seeds", "2", "--budgets", "12", "--strategies", "random")
    (kept,) = (folder / "c").glob("*.json")
    first = json.loads(kept.read_text())
    arguments += ["--slow-seeds", "2", "--slow-budget", "4", "--json"]
    few = [*arguments, "--seeds", "7", "--budgets", "4,8", "--strategies", "random,skopt-gp"]
    result = json.loads(run("search.py", folder, *few).stdout)
    more = json.loads(kept.read_text())
    assert len(more) == 7
    assert {seed: more[seed] for seed in first} == first
    slow = result["strategies"]["skopt-gp"]
    assert list(slow["fraction"]) == ["4"]
    assert slow["spaces"]["k__plain"]["seeds"] == 2
    assert list(result["paired"]["skopt-gp"]) == ["4"]
    assert (folder / "c" / "search.svg").is_file()
    many = [*arguments, "--seeds", "3", "--budgets", "12", "--strategies", "random"]
    assert run("search.py", folder, *many).returncode == 0
    last = json.loads(kept.read_text())
    assert {seed: last[seed] for seed in ("0", "1", "6")} == {seed: more[seed] for seed in ("0", "1", "6")}
    assert last["2"][0][: len(more["2"][0])] == more["2"][0]


def test_made_up_spaces_need_no_data_and_come_out_the_same(folder):
    arguments = ["--spaces", "made", "--match", "reduction__wide", "--no-score", "--seeds", "1"]
    arguments += ["--budgets", "10", "--strategies", "random", "--json"]
    texts = []
    for name in "ab":
        done = run("search.py", folder, *arguments, "--cache", str(folder / name))
        assert done.returncode == 0, done.stderr
        (path,) = (folder / name / "made").iterdir()
        texts.append(path.read_text())
        assert list(json.loads(done.stdout)["strategies"]["random"]["spaces"]) == ["made-reduction__wide"]
    assert texts[0] == texts[1]
    status = json.loads(texts[0])["status"]
    assert 0.02 < 1 - status.count("o") / len(status) < 0.3


def test_warm_starts_are_compared_with_cold_ones_and_with_copying(folder):
    done = run("search_warm.py", folder, "--seeds", "2", "--budgets", "3,6", "--json")
    assert done.returncode == 0, done.stderr
    pairs = json.loads(done.stdout)["pairs"]
    assert set(pairs) == {"k__plain->k__needle", "k__needle->k__plain"}
    assert set(pairs["k__plain->k__needle"]) == {"cold", "warm", "copied"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--budgets", "x"], "argument --budgets: invalid _budgets value: 'x'"),
        (["--seeds", "0"], "argument --seeds: invalid _whole_number value: '0'"),
        (["--match", "zzz"], "no complete recorded space in made whose name contains zzz; leave out --match"),
    ],
)
def test_options_that_cannot_be(tmp_path, words, why):
    done = run("search.py", tmp_path, "--spaces", "made", "--cache", str(tmp_path), *words)
    assert done.returncode == 2
    assert why in done.stderr
