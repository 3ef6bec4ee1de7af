"""Outputs that were found right, so that an equal one needs no judging."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.types import VerifyPolicy
from tuner.evaluators.memory import available_bytes
from tuner.evaluators.verification import Comparison, Expectation, judge, same_bytes

__all__ = ["AcceptedOutputs"]

Array = NDArray[Any]

_LEAST_BYTES = 256 << 20
"""Large outputs that are dropped before they come again are judged each time, at five times the cost of comparing."""


class AcceptedOutputs:
    """Outputs that passed, so that an equal one passes by a comparison of bytes, several times faster.

    Most candidates give one of few different outputs, bit for bit. Keeps copies, the least lately used dropped first.

    Args:
        limit_bytes: of all copies together; a sixteenth of what memory is free where none is given.
        per_key: how many different outputs of one expectation are kept.
    """

    def __init__(self, *, limit_bytes: int | None = None, per_key: int = 4) -> None:
        self._limit_bytes = limit_bytes or max(_LEAST_BYTES, (available_bytes() or 0) // 16)
        self._per_key = per_key
        self._kept: OrderedDict[Hashable, list[tuple[Array, Comparison]]] = OrderedDict()
        self.held_bytes = 0
        """Bytes of the copies."""

    def judge(self, key: Hashable, got: Array, expectation: Expectation, policy: VerifyPolicy) -> Comparison:
        """As :func:`judge`.

        Args:
            key: names the expectation and the policy; equal keys must mean equal ones.
            got: the candidate's output.
            expectation: of the same shape.
            policy: as everywhere.
        """
        if expectation.all_finite and same_bytes(got, expectation.values):
            # No copy to keep, for which large ones would push others out.
            return Comparison(mismatch=None, worst=0.0, compared=got.size)
        kept = self._kept.get(key, [])
        for copy, comparison in kept:
            if same_bytes(got, copy):
                self._kept.move_to_end(key)
                return comparison
        comparison = judge(got, expectation, policy)
        if comparison.mismatch is None:
            self._keep(key, got, comparison)
        return comparison

    def _keep(self, key: Hashable, got: Array, comparison: Comparison) -> None:
        if got.nbytes > self._limit_bytes:
            return
        kept = self._kept.setdefault(key, [])
        if len(kept) >= self._per_key:
            self.held_bytes -= kept.pop(0)[0].nbytes
        kept.append((np.array(got, order="C"), comparison))
        self.held_bytes += got.nbytes
        self._kept.move_to_end(key)
        while self.held_bytes > self._limit_bytes:
            # Never the last one: it alone fits.
            _, dropped = self._kept.popitem(last=False) if len(self._kept) > 1 else (key, [kept.pop(0)])
            self.held_bytes -= sum(copy.nbytes for copy, _ in dropped)
