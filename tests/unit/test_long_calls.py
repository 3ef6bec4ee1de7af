"""Kernels of which a call takes most of a second: few calls, few sets of inputs, and none of both repeated in vain."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from two_arrays import task_of
from virtual_clock import ADVANCES

from tuner.core.racing import FEWEST_CALLS, Race, least_calls
from tuner.core.types import (
    Build,
    BuildRequest,
    Initial,
    Measurement,
    Resolved,
    Source,
    Status,
    Variant,
)
from tuner.evaluators.host.backend import HostBackend
from tuner.evaluators.host.evaluation import HostEvaluation
from tuner.evaluators.host.oracle import Oracle

PLAIN = Resolved(macros={}, scalars={}, flags=(), pipeline="default<O2>")
LONG_NS, SHORT_NS = 600_000_000, 50_000
N = 400
ALL, SOME = "1", "(i % 7 != 3 || x[0] < 0)"


def text(ns: int, where: str = ALL) -> str:
    """Doubles x where a condition holds, which takes so many nanoseconds by the made clock."""
    return (
        f"{ADVANCES}\nvoid f(const float *x, float *y, int n) {{ tuner_work({ns}ll);"
        f" for (int i = 0; i < n; i++) if ({where}) y[i] = 2 * x[i]; }}"
    )


class Bench:
    """One kernel as its own candidate."""

    def __init__(self, source: str, inputs: Initial | None = None) -> None:
        variant = Variant(files=(Source(name="f.c", text=source),))
        self.task = task_of(variant, n=N, arrays=("x", "y"), small=19, seed=0)
        if inputs is not None:
            given, *others = self.task.arguments
            arguments = (dataclasses.replace(given, initial=inputs), *others)
            self.task = dataclasses.replace(self.task, arguments=arguments)
        self.evaluation: HostEvaluation = HostBackend().prepare(self.task, workers=1)
        self.built = self.build(source, trial=0)
        report = self.evaluation.set_baseline(self.built, PLAIN)
        assert report.status is Status.OK, report.message

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.evaluation.close()

    def build(self, source: str, *, trial: int = 1) -> Build:
        variant = Variant(files=(Source(name="f.c", text=source),))
        (made,) = self.evaluation.build([BuildRequest(trial=trial, variant=variant, resolved=PLAIN)])
        assert made.status is Status.OK, made.message
        return made

    def time(self, build: Build, *, calls: int, number: int, batches: int = 1) -> Measurement:
        session = self.evaluation.open(build, PLAIN, purpose="confirm", number=number)
        try:
            verdict = session.verify()
            assert verdict.status is Status.OK, verdict.message
            for _ in range(batches):
                measured = session.measure(problem=0, calls=calls)
            return measured
        finally:
            session.close()


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the kernel as given is run to know what its outputs have to be, by the size of each bundle."""
    runs: list[int] = []
    inner = Oracle._baseline

    def counted(oracle: Oracle, bundle, *, again: bool):  # type: ignore[no-untyped-def]
        found = inner(oracle, bundle, again=again)
        runs.append(len(bundle.labels) * (1 if found[0] is found[1] else 2))
        return found

    monkeypatch.setattr(Oracle, "_baseline", counted)
    return runs


def test_timed_inputs_are_few_and_run_once(count: list[int]) -> None:
    with Bench(text(LONG_NS)) as bench:
        count.clear()
        measured = bench.time(bench.built, calls=2, number=1)
        assert measured.status is Status.OK, measured.message
        assert measured.notes["sets"] == 2
        # Each timed call was on inputs of its own, so there is nothing to look at on further ones.
        assert "fresh_ratio" not in measured.notes
        *verified, timed = count
        assert (len(verified), timed) == (1, 2)
        again = bench.time(bench.built, calls=3, number=2)
        assert again.notes["fresh_ratio"] == pytest.approx(1.0, abs=0.05)


def test_short_calls_have_as_many_sets_as_ever_and_a_look_at_new_ones() -> None:
    with Bench(text(SHORT_NS)) as bench:
        measured = bench.time(bench.built, calls=7, number=1)
        assert measured.notes["sets"] == 8
        assert "fresh_ratio" not in measured.notes
        assert "fresh_ratio" in bench.time(bench.built, calls=30, number=2).notes


def test_what_only_some_inputs_leave_alone_is_known_of_each(count: list[int]) -> None:
    """The kernel runs a second time over other memory where the first run may have left something as it was."""
    with Bench(text(LONG_NS, SOME)) as bench:
        eager, found = bench.build(text(LONG_NS)), set()
        for number in range(4):
            count.clear()
            assert bench.time(bench.built, calls=2, number=number).status is Status.OK
            found.add(count[-1])
            session = bench.evaluation.open(eager, PLAIN, purpose="confirm", number=number)
            left = (
                session.verify().status is Status.OK
                and session.measure(problem=0, calls=2).status is Status.OK
            )
            session.close()
            # It writes what the kernel leaves alone, wherever that happens.
            assert left == (count[-1] == 2 and count[0] == len(bench.task.verify.problems) + 1)
        assert found == {2, 4}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many workloads each run of the reference in double precision was for."""
    asked: list[int] = []
    inner = Oracle._double

    def counted(oracle: Oracle, workloads):  # type: ignore[no-untyped-def]
        asked.append(len(workloads))
        return inner(oracle, workloads)

    monkeypatch.setattr(Oracle, "_double", counted)
    return asked


def test_timed_inputs_ask_the_reference_where_an_output_differs_from_the_baselines(asked: list[int]) -> None:
    """In double precision, which takes several times as long; what the baseline gives is right."""
    five, rounded = (text(LONG_NS).replace("2 *", factor) for factor in ("5 *", "5.0000005f *"))
    with Bench(five) as bench:
        asked.clear()
        assert bench.time(bench.built, calls=2, number=1).status is Status.OK
        (verified,) = asked
        other = bench.build(rounded)
        for _ in range(2):
            assert bench.time(other, calls=2, number=1).status is Status.OK
            assert asked == [verified, 2]


def test_inputs_that_python_makes_are_not_made_again_for_the_reference(
    asked: list[int], tmp_path: Path
) -> None:
    """Without a seed they would be others."""
    (tmp_path / "made.py").write_text("import numpy\n\ndef made(n):\n    return numpy.random.rand(n)\n")
    options = {"file": str(tmp_path / "made.py"), "function": "made"}
    with Bench(text(LONG_NS), Initial(kind="python", options=options)) as bench:
        asked.clear()
        assert bench.time(bench.built, calls=2, number=1).status is Status.OK
        assert len(asked) == 2


STORED = (
    " static float key[8], out[8][400]; static int m;"
    " if (n == 400) for (int j = 0; j < m; j++) if (key[j] == x[0])"
    " { for (int i = 0; i < n; i++) y[i] = out[j][i]; return; }"
    f" tuner_work({LONG_NS}ll); for (int i = 0; i < n; i++) y[i] = 2 * x[i];"
    " if (n == 400 && m < 8) { key[m] = x[0]; for (int i = 0; i < n; i++) out[m][i] = y[i]; m++; } }"
)


def test_answers_that_are_stored_gain_nothing() -> None:
    """Where each set is called once a store finds nothing; where any is called again, or was in a try that did not
    count, new inputs show it."""
    with Bench(text(LONG_NS)) as bench:
        storing = bench.build(text(0).split(" tuner_work(0")[0] + STORED)
        once = bench.time(storing, calls=2, number=1)
        assert once.status is Status.OK
        assert min(once.times_s) > 0.9 * LONG_NS * 1e-9
        often = bench.time(storing, calls=6, number=2)
        assert often.status is Status.REFUSED
        assert "on inputs that it has not seen" in often.message


@pytest.mark.parametrize("call_ns", [150_000_000, 300_000_000, 440_000_000])
def test_there_are_as_many_sets_as_calls_that_are_enough(call_ns: int) -> None:
    """Fewer would be called again, and then a look at new ones has to follow, which takes more than one more set."""
    with Bench(text(call_ns)) as bench:
        calls = least_calls(7, call_ns * 1e-9, 1.0)
        measured = bench.time(bench.built, calls=calls, number=1)
        assert measured.notes["sets"] == calls
        assert "fresh_ratio" not in measured.notes


@pytest.mark.parametrize(
    ("call_s", "calls"), [(1e-4, (30, 120, 256)), (0.1, (3, 7, 10)), (0.3, (3, 4, 4)), (20.0, (3, 2, 2))]
)
def test_rounds_of_long_calls_have_fewer(call_s: float, calls: tuple[int, ...]) -> None:
    race = Race(
        weights=(1.0,), rounds_s=(0.003, 0.012, 0.03), rounds_calls=(3, 7, 11), enough_s=1.0, call_s=(call_s,)
    )
    assert tuple(race.calls([[]], done)[0] for done in range(3)) == calls
    # Who wants a number of calls whatever they take gets it.
    asked = dataclasses.replace(race, enough_s=1e9)
    assert tuple(asked.calls([[]], done)[0] for done in range(3))[2] >= 11
    assert min(calls) >= FEWEST_CALLS
