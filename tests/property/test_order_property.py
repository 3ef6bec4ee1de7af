"""Properties of the order in which what is built is timed: for any costs, any guesses and any turn of events."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tuner.core.types import Proposal, Stage
from tuner.driver.plan.ordering import DOOMED, chosen, rank
from tuner.driver.state.judged import AUDIT, KEEP, Judged
from tuner.driver.state.order import MOST_LOOKS, PAYS, WORTH, Order
from tuner.driver.state.trials import TrialState

COSTS = st.floats(min_value=1e-4, max_value=1e3)
CHANCES = st.floats(min_value=0.0, max_value=1.0)
JUDGED = st.builds(Judged, verdict=st.sampled_from([KEEP, AUDIT]), place=CHANCES, failing=CHANCES)


def trials(judged: list[Judged | None]) -> list[TrialState]:
    made = []
    for number, one in enumerate(judged, 1):
        trial = TrialState(number=number, proposal=Proposal(configuration={}, origin="test"))
        if one is not None:
            trial.judged[Stage.BUILD.value] = one
        made.append(trial)
    return made


@given(st.lists(st.none() | JUDGED, min_size=1, max_size=12))
def test_nobody_who_waits_stands_before_the_one_chosen(judged: list[Judged | None]) -> None:
    ready = trials(judged)
    assert chosen(ready, follows=False) is ready[0]
    found = chosen(ready, follows=True)
    if any(one is None for one in judged):
        # What has no features cannot be ranked: it counts as the best place, behind those drawn evenly.
        assert found.judged.get(Stage.BUILD.value) is None or rank(found.judged["build"]) <= (
            True,
            False,
            0.0,
        )
        return
    own = found.judged[Stage.BUILD.value]
    for one in judged:
        assert one is not None
        assert rank(own) <= rank(one)
        if one.verdict == AUDIT:
            assert own.verdict == AUDIT
        elif own.verdict != AUDIT and own.failing > DOOMED:
            assert one.failing > DOOMED


@given(COSTS, COSTS)
def test_no_more_is_built_ahead_than_is_expected_to_save_time(code_s: float, run_s: float) -> None:
    order = known(code_s, run_s)
    looks = order.looks
    assert 1.0 <= looks <= MOST_LOOKS
    for n, runs, codes in WORTH:
        pays = codes * code_s + runs * run_s <= PAYS * (code_s + run_s)
        assert n != looks or pays
        assert n <= looks or not pays
    assert known(2 * code_s, run_s).looks <= looks
    assert known(code_s, 2 * run_s).looks >= looks
    order.follows = False
    assert order.looks == 1.0


@given(COSTS, COSTS, st.integers(min_value=1, max_value=64))
def test_beside_devices_as_many_are_found_as_devices_leave_time_for(
    code_s: float, run_s: float, devices: int
) -> None:
    order = known(code_s, run_s)
    order.beside = devices
    assert 1.0 <= order.looks <= MOST_LOOKS
    if 1.0 < order.looks < MOST_LOOKS:
        assert math.isclose(order.looks * order.code_s, order.run_s / devices)


def known(code_s: float, run_s: float) -> Order:
    order = Order(follows=True)
    order.sought(code_s)
    order.built("a")
    order.ran(run_s)
    # What a code took is forgotten as new ones come; the first of both counts alike.
    order._find_s, order._run_s = code_s, run_s
    return order


@given(
    st.lists(st.sampled_from(["code", "known", "timed", "doubted", "followed"]), max_size=200), COSTS, COSTS
)
def test_what_is_found_ahead_never_falls_below_nothing(steps: list[str], code_s: float, run_s: float) -> None:
    order, codes, led = Order(), 0, 0
    for number, step in enumerate(steps):
        order.sought(code_s)
        if step == "code":
            order.built(f"{number}")
            codes += 1
        elif step == "known" and order.codes:
            order.built(next(iter(order.codes)))
        elif step == "timed":
            led += order.looks > 1.0
            order.taken()
            order.ran(run_s)
        else:
            order.follows = step == "followed"
        assert 0.0 <= order.spare <= codes
    assert len(order.codes) == codes
    assert order.led == led
