"""What code may be worth by what the code of other kernels' variants was worth."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.cost_models.code_worth import Coded, code_worths

COLUMNS = ("branches", "loads", "vector_bits")


def run(size: float, rng: np.random.Generator, count: int = 20) -> Coded:
    """Variants of a kernel of some size: wide vectors are good, whatever else there is."""
    base = {"branches": 4.0 * size, "loads": 10.0 * size, "vector_bits": 32.0}
    codes = []
    for _ in range(count):
        wide = bool(rng.random() < 0.5)
        numbers = (rng.random() * 8 * size, rng.random() * 20 * size, 512.0 if wide else 32.0)
        codes.append((numbers, 1.0 if wide else 0.1))
    return Coded(baseline=base, columns=COLUMNS, codes=codes)


def test_code_that_moved_like_good_ones_elsewhere_is_worth_more() -> None:
    """However large the kernels were."""
    rng = np.random.default_rng(0)
    known = [run(1.0, rng), run(30.0, rng)]
    baseline = {"branches": 800.0, "loads": 2000.0, "vector_bits": 32.0}
    narrow = {"branches": 500.0, "loads": 2500.0, "vector_bits": 32.0}
    values = code_worths(baseline, [narrow, {**narrow, "vector_bits": 512.0}], known)
    assert values is not None
    assert values[1] > 0.7 > 0.4 > values[0]
    again = code_worths(baseline, [narrow, {**narrow, "vector_bits": 512.0}], known)
    assert again is not None
    assert values.tolist() == again.tolist()


def test_features_that_one_side_lacks_say_nothing() -> None:
    """Other compilers have other features."""
    rng = np.random.default_rng(0)
    known = [run(1.0, rng)]
    baseline = {"loads": 20.0, "spills": 3.0, "vector_bits": 32.0}
    variants = [{"loads": 20.0, "spills": 0.0, "vector_bits": 512.0}, {"loads": 20.0, "vector_bits": 32.0}]
    values = code_worths(baseline, variants, known)
    assert values is not None
    assert np.all(np.isfinite(values))
    assert values[0] > values[1]


@pytest.mark.parametrize("what", ["no runs", "few variants", "no features", "no variants"])
def test_nothing_is_said_by_nothing(what: str) -> None:
    rng = np.random.default_rng(0)
    known = {"no runs": [], "few variants": [run(1.0, rng, 3)]}.get(what, [run(1.0, rng)])
    baseline = {} if what == "no features" else {"loads": 20.0}
    variants = [] if what == "no variants" else [{"loads": 10.0}]
    assert code_worths(baseline, variants, known) is None
