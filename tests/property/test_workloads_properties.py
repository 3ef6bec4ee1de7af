from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.evaluators.sparse import random_csr


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 40), st.integers(1, 40), st.data(), st.floats(0, 10), st.integers(0, 2**32))
def test_every_sparse_matrix_is_well_formed(
    rows: int, columns: int, data: st.DataObject, skew: float, seed: int
) -> None:
    nonzeros = data.draw(st.integers(0, rows * columns))
    pointers, indices = random_csr(
        rows, columns, nonzeros=nonzeros, skew=skew, rng=np.random.default_rng(seed)
    )
    assert pointers.shape == (rows + 1,)
    assert indices.shape == (nonzeros,)
    assert pointers[0] == 0
    assert pointers[-1] == nonzeros
    for row in range(rows):
        part = indices[pointers[row] : pointers[row + 1]]
        assert (np.diff(part) > 0).all()
        assert ((part >= 0) & (part < columns)).all()


def test_columns_of_a_row_are_drawn_evenly() -> None:
    counts = np.zeros(10, np.int64)
    rng = np.random.default_rng(5)
    for _ in range(400):
        _, indices = random_csr(6, 10, nonzeros=30, skew=0, rng=rng)
        counts += np.bincount(indices, minlength=10)
    assert counts.sum() == 12000
    assert abs(counts - 1200).max() < 150
