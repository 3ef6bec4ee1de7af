"""Who makes the next variant: gain per cost, every arm tried, what is dear less often."""

from __future__ import annotations

from collections import Counter

from tuner.search.bandit import CostBandit


def draws(worth: dict[str, tuple[float, float]], count: int) -> Counter[str]:
    """How often each arm is used whose proposals gain and cost the same each time."""
    bandit, used = CostBandit(list(worth)), Counter[str]()
    for _ in range(count):
        arm = bandit.choose(list(worth), {})
        used[arm] += 1
        bandit.tell(arm, *worth[arm])
    return used


def test_models_that_gain_more_are_used_more() -> None:
    used = draws({"model": (0.4, 1.0), "remix": (0.05, 1.0)}, 100)
    assert used["model"] > 2 * used["remix"] > 0


def test_of_equal_gains_the_cheaper_is_used_more() -> None:
    used = draws({"dear": (0.2, 8.0), "cheap": (0.2, 1.0), "remix": (0.02, 1.0)}, 200)
    assert used["cheap"] > 3 * used["dear"] > 0


def test_every_arm_is_tried() -> None:
    assert set(draws({f"m{i}": (0.0, 1.0) for i in range(6)}, 12)) == {f"m{i}" for i in range(6)}


def test_failures_count_as_nothing_gained() -> None:
    bandit = CostBandit(["a", "b"])
    for _ in range(5):
        bandit.tell("a", None, 1.0)
        bandit.tell("b", 0.1, 1.0)
    assert bandit.choose(["a", "b"], {}) == "b"
    assert bandit.choose(["a"], {}) == "a"


def test_pending_calls_count_as_used() -> None:
    bandit = CostBandit(["a", "b"])
    assert bandit.choose(["a", "b"], {}) == "a"
    assert bandit.choose(["a", "b"], {"a": 1}) == "b"
