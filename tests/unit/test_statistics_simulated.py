"""How often the rules err, by simulating whole runs with fixed seeds: noise between processes, drift, heavy tails."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from tuner.core.claims import choose, confirm_verdict
from tuner.core.statistics import Race, log_ratio_interval, median, race

CANDIDATES = 40
RUNS = 200


@dataclass
class Machine:
    """Processes on a machine whose speed wanders; each has a speed of its own, and each of its samples too."""

    rng: np.random.Generator
    between: float
    within: float = 0.01
    tails: float = 0.05
    wander: float = 0.001
    speed: float = field(default=0.0)

    def process(self, factor: float, samples: int) -> list[float]:
        self.speed += self.rng.normal(0.0, self.wander)
        middle = math.log(factor) + self.speed + self.rng.normal(0.0, self.between)
        # Slow for its whole life: a neighbour, a page that fell badly.
        if self.rng.random() < self.tails:
            middle += self.rng.exponential(0.05)
        draws = self.rng.normal(0.0, self.within, samples)
        draws += (self.rng.random(samples) < self.tails) * self.rng.exponential(0.5, samples)
        values: list[float] = np.exp(middle + draws).tolist()
        return values

    def fresh(self, factors: dict[int, float], processes: int) -> dict[int, list[float]]:
        """Process medians, in random order within each round."""
        found: dict[int, list[float]] = {number: [] for number in factors}
        for _ in range(processes):
            for number in self.rng.permutation(list(factors)):
                found[int(number)].append(median(self.process(factors[int(number)], 15)))
        return found


def tune(machine: Machine, factors: dict[int, float]) -> tuple[str, int]:
    """A run as the design has it; trial 0 is the baseline. Returns the claim and the trial that it is about."""
    controls = [median(machine.process(1.0, 15)) for _ in range(5)]
    reference = list(controls)
    scores: dict[int, float] = {}
    for number, factor in factors.items():
        controls.append(median(machine.process(1.0, 15)))
        scores[number] = median(machine.process(factor, 15)) / (median(controls[-5:]) / median(reference))
    finalists = sorted(scores, key=lambda number: scores[number])[:5]
    chosen = choose(machine.fresh({0: 1.0} | {number: factors[number] for number in finalists}, 8))
    if chosen == 0:
        return "none", 0
    pair = {0: 1.0, chosen: factors[chosen]}
    first = machine.fresh(pair, 12)
    verdict = confirm_verdict(first[0], first[chosen])
    if verdict.claim == "extend":
        more = machine.fresh(pair, 12)
        verdict = confirm_verdict(first[0] + more[0], first[chosen] + more[chosen], look=2)
    return verdict.claim, chosen


def test_identical_code_is_rarely_claimed_to_be_faster() -> None:
    rng = np.random.default_rng(11)
    claims = 0
    for _ in range(RUNS):
        machine = Machine(
            rng=rng,
            between=rng.uniform(0.003, 0.02),
            tails=rng.choice([0.0, 0.05]),
            wander=rng.choice([0.0, 0.001, 0.003]),
        )
        claim, _ = tune(machine, dict.fromkeys(range(1, CANDIDATES + 1), 1.0))
        assert claim in ("improved", "negligible", "none")
        claims += claim in ("improved", "negligible")
    assert claims <= 10


@pytest.mark.integration
def test_choosing_and_confirming_on_the_same_samples_would_claim_much_more() -> None:
    """The reason for two sets of processes; should this fail, the simulation has lost its teeth."""
    rng = np.random.default_rng(12)
    claims = 0
    for _ in range(RUNS):
        machine = Machine(rng=rng, between=0.01, tails=0.0, wander=0.0)
        measured = machine.fresh(dict.fromkeys(range(CANDIDATES), 1.0), 8)
        chosen = choose({number: values for number, values in measured.items() if number})
        claims += log_ratio_interval(measured[0], measured[chosen], 0.95).low > 1
    assert claims > 20


@pytest.mark.parametrize("tails", [0.0, 0.05])
def test_a_gain_of_three_percent_among_forty_is_found_in_most_runs(tails: float) -> None:
    rng = np.random.default_rng(13)
    found = 0
    for _ in range(100):
        machine = Machine(rng=rng, between=0.01, tails=tails)
        factors = dict.fromkeys(range(1, CANDIDATES + 1), 1.0) | {17: 1 / 1.03}
        found += tune(machine, factors) == ("improved", 17)
    assert found >= 60


def test_a_gain_of_three_percent_once_chosen_is_nearly_always_confirmed() -> None:
    rng = np.random.default_rng(18)
    found = 0
    for _ in range(100):
        machine = Machine(rng=rng, between=0.01, tails=0.0)
        measured = machine.fresh({0: 1.0, 1: 1 / 1.03}, 12)
        found += confirm_verdict(measured[0], measured[1]).claim == "improved"
    assert found >= 95


def test_a_large_gain_is_always_found_and_its_interval_holds_it() -> None:
    rng = np.random.default_rng(14)
    for _ in range(10):
        machine = Machine(rng=rng, between=0.02)
        factors = {n: float(rng.uniform(0.9, 3.0)) for n in range(1, CANDIDATES + 1)} | {9: 0.5}
        assert tune(machine, factors) == ("improved", 9)


def test_two_looks_together_err_as_often_as_stated() -> None:
    rng = np.random.default_rng(15)
    runs, claims, covered = 4000, 0, 0
    for _ in range(runs):
        a, b = rng.lognormal(0.0, 0.01, 24).tolist(), rng.lognormal(0.0, 0.01, 24).tolist()
        verdict = confirm_verdict(a[:12], b[:12])
        if verdict.claim == "extend":
            verdict = confirm_verdict(a, b, look=2)
        assert verdict.interval is not None
        claims += verdict.claim in ("improved", "negligible")
        covered += verdict.interval.low <= 1 <= verdict.interval.high
    # 0.025, and three standard errors of that many runs.
    assert claims / runs <= 0.0325
    assert covered / runs >= 0.94


def raced(machine: Machine, slowdown: float, rounds: tuple[int, ...]) -> list[Race]:
    incumbent = machine.process(1.0, rounds[-1])
    machine.wander = 0.0
    samples = machine.process(slowdown, rounds[-1])
    return [race(samples[:count], incumbent) for count in rounds]


@pytest.mark.parametrize("within", [0.005, 0.02, 0.05])
def test_race_rarely_drops_an_equal_candidate_over_all_its_rounds(within: float) -> None:
    rng = np.random.default_rng(16)
    runs, dropped = 1500, 0
    for _ in range(runs):
        machine = Machine(rng=rng, between=rng.uniform(0.003, 0.02), within=within, tails=0.0)
        dropped += not all(result.keep for result in raced(machine, 1.0, (3, 8, 20)))
    assert dropped / runs < 0.01


def test_race_drops_what_is_twice_as_slow_at_once() -> None:
    rng = np.random.default_rng(17)
    kept = 0
    for _ in range(500):
        machine = Machine(rng=rng, between=0.02, within=0.05)
        kept += raced(machine, 2.0, (3, 20))[0].keep
    assert kept <= 5
