"""The contract of every backend, for CUDA over a stand-in for the driver."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import cuda_stand_in as stand_in
import needs
from by_path import load

contract = load("contract/test_backend_contract.py")
case, ready = contract.case, contract.ready


@needs.cc
class TestCudaStandIn(contract.BackendContract):  # type: ignore[misc, name-defined]
    """Kernels are called on the host; all the rest is as on a card."""

    @staticmethod
    def make_case() -> Any:
        """One kernel with an inout argument, two problems."""
        folder = Path(tempfile.mkdtemp(prefix="tuner-cuda-"))
        good = stand_in.GOOD
        texts = [
            good,
            good.replace("a * x[i] + y[i]", "y[i] + x[i] * a"),
            good.replace("i = 0", "i = 1"),
            good.replace(";", ""),
        ]
        task = stand_in.make_task(good)
        requests = [stand_in.request(i, text) for i, text in enumerate(texts)]
        return contract.Case(
            backend=stand_in.StandInBackend(folder),
            task=task,
            baseline=requests[0],
            same=requests[1],
            wrong=requests[2],
            broken=requests[3],
        )
