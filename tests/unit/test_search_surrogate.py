"""The searcher ``surrogate`` and what it is made of."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from tuner.core.expressions import parse
from tuner.core.protocols import Observation
from tuner.core.streams import stream
from tuner.core.types import Proposal, Status
from tuner.search import gaussian
from tuner.search.conformance import Landscape, check_adopt, invented
from tuner.search.domain import Domain
from tuner.search.features import Features, alignment, products
from tuner.search.gaussian import Hyper, Posterior, fit, log_improvement, normal_scores
from tuner.search.registry import create
from tuner.search.surrogate_search import SurrogateSearcher
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space


def kernel_like():
    return Space(
        [
            Parameter.choice("BX", list(range(16, 257, 16))),
            Parameter.choice("BY", [1, 2, 4, 8, 16]),
            Parameter.choice("TX", [1, 2, 3, 4]),
            Parameter.choice("ORDER", ["row", "column", "tiled"]),
            Parameter.choice("PAD", [False, True]),
        ],
        [parse("BX * BY <= 1024"), parse("TX * BY <= 32")],
    )


def score(configuration):
    c = configuration
    value = 0.5 * abs(math.log2(c["BX"] * c["BY"]) - 8) + 0.3 * abs(c["TX"] - 3)
    value += {"row": 0.2, "column": 0.6, "tiled": 0.0}[c["ORDER"]] + (0.1 if c["PAD"] else 0.0)
    return value + (0.0 if c["BX"] % 64 == 0 else 0.4)


def found(name, seed, *, trials=40, failing=0.0):
    run = invented(
        lambda s: create(name, s),
        kernel_like(),
        trials=trials,
        seed=seed,
        landscape=Landscape(failing=failing, score=score),
    )
    return min(o.score for o in run[1:] if o.score is not None)


@pytest.mark.integration
def test_it_beats_random_search_by_far():
    ours = [found("surrogate", seed) for seed in range(3)]
    random = [found("random", seed, trials=160) for seed in range(3)]
    assert np.mean(ours) < np.mean(random)
    assert np.median(ours) <= 0.1


@pytest.mark.integration
def test_a_fifth_of_failures_does_not_stop_it():
    assert np.median([found("surrogate", seed, trials=60, failing=0.2) for seed in range(3)]) <= 0.3


def late_failures(seed):
    searcher = create("surrogate", kernel_like())
    failed = []
    for trial in range(70):
        (proposal,) = searcher.ask(1, stream(seed, "ask", trial))
        c = proposal.configuration
        bad = c["BX"] * c["BY"] > 300
        failed.append(bad)
        status = Status.OUT_OF_RESOURCES if bad else Status.OK
        seen = Observation(trial=trial, proposal=proposal, status=status, score=None if bad else score(c))
        searcher.tell([seen])
    return sum(failed[40:])


@pytest.mark.integration
def test_failures_are_avoided_once_they_are_seen():
    assert np.median([late_failures(seed) for seed in range(3)]) < 15


@pytest.mark.integration
def test_a_space_with_a_million_points_is_searched_whole_or_in_part_and_adopts():
    space = Space([Parameter.integer(f"A{i}", low=1, high=18) for i in range(5)])
    assert len(space.listing()) > 1_000_000

    searcher = create("surrogate", space)
    best = math.inf
    for trial in range(45):
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        value = sum(abs(v - 11) for v in proposal.configuration.values()) / 10
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=value)])
        best = min(best, value)
    assert best <= 1.0
    check_adopt(lambda s: create("surrogate", s), space, trials=16)


@pytest.mark.integration
def test_after_a_hundred_trials_it_still_adopts():
    check_adopt(lambda s: create("surrogate", s), kernel_like(), trials=110)


def test_batches_are_spread():
    searcher = create("surrogate", kernel_like())
    for trial in range(12):
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        searcher.tell([Landscape(score=score).observe(trial, proposal)])
    batch = searcher.ask(8, stream(0, "ask", 12))
    assert len({tuple(sorted(p.configuration.items())) for p in batch}) == 8
    assert all(p.rivals for p in batch)


def observed(scores):
    return [
        Observation(
            trial=i, proposal=Proposal(configuration=c, origin="there"), status=Status.OK, score=scores(c)
        )
        for i, c in enumerate(kernel_like().sample(stream(7, "source"), 120))
    ]


def warm_run(source, seed, trials):
    searcher = SurrogateSearcher(kernel_like())
    if source is not None:
        searcher.warm_start(source)
    best = []
    for trial in range(trials):
        (proposal,) = searcher.ask(1, stream(seed, "ask", trial))
        value = score(proposal.configuration)
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=value)])
        best.append(min([value, *best[-1:]]))
    return best


def test_a_warm_start_from_a_like_kernel_helps_at_once():
    source = observed(lambda c: 2.0 * score(c) + 0.05 * c["TX"] + 3.0)
    warm = np.mean([warm_run(source, seed, 3)[-1] for seed in range(5)])
    cold = np.mean([warm_run(None, seed, 3)[-1] for seed in range(5)])
    assert warm < 0.7 * cold


@pytest.mark.integration
def test_a_misleading_source_is_overcome():
    source = observed(lambda c: -score(c))
    assert np.median([warm_run(source, seed, 45)[-1] for seed in range(3)]) <= 0.1


def test_a_source_of_another_space_is_ignored():
    searcher = SurrogateSearcher(kernel_like())
    strange = Proposal(configuration={"NO": 1}, origin="there")
    searcher.warm_start([Observation(trial=0, proposal=strange, status=Status.OK, score=1.0)])
    assert len(searcher.ask(2, stream(0, "ask", 0))) == 2


def test_alignment_is_told_only_where_the_rank_does_not():
    assert alignment(Parameter.choice("A", [16, 32, 48, 64])).tolist() == pytest.approx(
        [2 / 3, 5 / 6, 2 / 3, 1.0]
    )
    assert alignment(Parameter.choice("A", [1, 2, 4, 8])) is None
    assert alignment(Parameter.choice("A", [1, 3, 5])) is None
    assert alignment(Parameter.choice("A", [0, 1, 2])) is None
    assert alignment(Parameter.choice("A", ["x", "y", "z"])) is None
    assert alignment(Parameter.choice("A", [0.5, 1.0, 2.0])) is None


def test_products_of_constraints_become_columns():
    assert products(["(A * B + 3) * C < 9", "A * B < 4", "max(B * C, 2) < 3"], "ABC") == [
        ("A", "B"),
        ("B", "C"),
    ]
    plain = Features(Domain(Space(kernel_like().parameters)))
    assert Features(Domain(kernel_like())).width == plain.width + 2


def test_unordered_values_are_equally_far_apart():
    domain = Domain(Space([Parameter.choice("A", ["x", "y", "z"])]))
    rows = Features(domain).encode(domain.rows)
    apart = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    assert apart == pytest.approx(1.0 - np.eye(3))


def test_normal_scores_are_ranks_and_equal_for_equals():
    made = normal_scores(np.array([5.0, 1.0, 1.0, 1e9]))
    assert made[1] == made[2] < made[0] < made[3]
    assert made[3] == pytest.approx(norm.ppf(3.5 / 4))


def test_log_improvement_is_the_logarithm_of_the_integral_also_far_out():
    gaps = np.array([2.0, 0.0, -3.0, -8.0, -30.0])
    made = log_improvement(-gaps, np.ones(5), 0.0)
    exact = gaps[:3] * norm.cdf(gaps[:3]) + norm.pdf(gaps[:3])
    assert made[:3] == pytest.approx(np.log(exact))
    assert made[3] == pytest.approx(math.log(norm.pdf(-8) - 8 * norm.sf(8)), abs=0.1)
    assert np.isfinite(made).all()
    assert (np.diff(made) < 0).all()


def test_the_gradient_of_the_posterior_is_right():
    rng = np.random.default_rng(0)
    columns, targets = rng.random((20, 3)), rng.normal(size=20)
    groups = np.array([0, 0, 1])
    apart = np.zeros((2, 400))
    np.add.at(apart, groups, ((columns.T[:, :, None] - columns.T[:, None]) ** 2).reshape(3, -1))
    weights = np.where(np.arange(20) < 5, 10.0, 1.0)
    theta = np.array([-0.5, 0.3, -2.0, 0.2])
    given = (apart, targets, weights, np.array([0.4, -1.0, -4.0, 0.0]))
    _, slope = gaussian._objective(theta, *given)
    numeric = approx_fprime(theta, lambda t: gaussian._objective(t, *given)[0], 1e-6)
    assert slope == pytest.approx(numeric, rel=1e-3, abs=1e-3)


def test_fitting_finds_which_column_matters():
    rng = np.random.default_rng(1)
    columns = rng.random((60, 2))
    made = fit(columns, np.array([0, 1]), np.sin(9 * columns[:, 0]), np.zeros(60, dtype=bool), Hyper.prior(2))
    assert made.rates[0] > 5 * made.rates[1]


def test_a_column_of_which_nothing_is_seen_keeps_the_length_scale_that_is_expected():
    columns = np.column_stack([np.linspace(0, 1, 6), np.full(6, 0.5)])
    targets, rough, groups = np.sin(5 * columns[:, 0]), np.zeros(6, dtype=bool), np.array([0, 1])
    wanted = np.array([-1.5, 1.0])
    start = Hyper.prior(2, scales=wanted)
    assert start.scales == pytest.approx(wanted)
    made = fit(columns, groups, targets, rough, start, expected=wanted)
    assert made.scales[1] == pytest.approx(1.0, abs=0.02)
    assert fit(columns, groups, targets, rough, start).scales[1] == pytest.approx(0.0, abs=0.02)


def test_equal_scores_and_constant_columns_break_nothing():
    columns = np.zeros((8, 2))
    hyper = fit(columns, np.array([0, 1]), np.zeros(8), np.zeros(8, dtype=bool), Hyper.prior(2))
    posterior = Posterior(hyper, np.array([0, 1]), np.zeros((3, 2)), 20)
    posterior.begin(columns, np.zeros(8, dtype=bool))
    posterior.add(np.zeros(2))
    mean, deviation = posterior.predict(np.zeros(9))
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()


@pytest.mark.parametrize("warm", [False, True])
def test_a_search_that_begins_with_many_failures_goes_on(warm):
    searcher = SurrogateSearcher(kernel_like())
    if warm:
        searcher.warm_start(observed(score))
    for trial in range(75):
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        failed = trial < 62
        status = Status.CRASHED if failed else Status.OK
        value = None if failed else score(proposal.configuration)
        searcher.tell([Observation(trial=trial, proposal=proposal, status=status, score=value)])


def test_of_a_warm_start_every_trial_counts_once_and_equal_configurations_by_their_best():
    source = observed(score)
    twice = [*source, *(o for o in observed(lambda c: score(c) + 5.0))]
    first, second = SurrogateSearcher(kernel_like()), SurrogateSearcher(kernel_like())
    first.warm_start(source)
    second.warm_start(twice)
    asked = [s.ask(1, stream(0, "ask", 0))[0].configuration for s in (first, second)]
    assert asked[0] == asked[1] == min(source, key=lambda o: o.score).proposal.configuration


def test_a_source_of_partly_other_cards_moves_on_from_a_cluster_that_is_bad_here():
    source = observed(lambda c: score(c) - (0.3 if c["ORDER"] == "row" else 0.0))
    here = [warm_run(source, seed, 8)[-1] for seed in range(4)]
    cold = [warm_run(None, seed, 8)[-1] for seed in range(4)]
    assert np.mean(here) < np.mean(cold)


def test_several_sources_are_weighed_together():
    searcher = SurrogateSearcher(kernel_like())
    searcher.warm_start(observed(lambda c: score(c) + 1.0))
    searcher.warm_start(observed(lambda c: -score(c)))
    best = math.inf
    for trial in range(30):
        (proposal,) = searcher.ask(1, stream(0, "ask", trial))
        value = score(proposal.configuration)
        searcher.tell([Observation(trial=trial, proposal=proposal, status=Status.OK, score=value)])
        best = min(best, value)
    assert best <= 0.2


@pytest.mark.parametrize("strategy", ["surrogate", "auto"])
def test_a_fifth_of_failures_neither_repeats_nor_stalls_until_the_space_is_done(strategy):
    space = Space(
        [
            Parameter.choice("A", list(range(8))),
            Parameter.choice("B", [1, 2, 4, 8]),
            Parameter.choice("C", ["x", "y"]),
        ]
    )
    searcher, seen = create(strategy, space), set()
    for trial in range(64):
        proposals = searcher.ask(1, stream(3, "ask", trial))
        assert len(proposals) == 1
        c = proposals[0].configuration
        key = tuple(c.items())
        assert key not in seen
        seen.add(key)
        failed = hash_of(c) % 5 == 0
        status = Status.CRASHED if failed else Status.OK
        value = None if failed else c["A"] / 8 + c["B"] / 16
        searcher.tell([Observation(trial=trial, proposal=proposals[0], status=status, score=value)])
    assert searcher.ask(1, stream(3, "ask", 64)) == []


def hash_of(configuration):
    return configuration["A"] * 7 + configuration["B"] * 3 + len(configuration["C"])
