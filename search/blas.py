"""Linear algebra on one thread. May not change the setting beyond a ``with`` block.

Several threads cost more than they bring on matrices of a few hundred rows (ten times on two busy cores), and sums that
are split differently round differently, so that a replay on another number of cores would find other proposals.
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, cast

__all__ = ["one_thread"]


def one_thread() -> AbstractContextManager[Any]:
    """A block in which the BLAS libraries loaded so far use one thread each."""
    return cast("AbstractContextManager[Any]", _controller().limit(limits=1, user_api="blas"))


@lru_cache(maxsize=1)
def _controller() -> Any:
    # Both bring a library of their own, which has to be there when the controller looks around.
    importlib.import_module("numpy.linalg")
    importlib.import_module("scipy.linalg")
    return importlib.import_module("threadpoolctl").ThreadpoolController()
