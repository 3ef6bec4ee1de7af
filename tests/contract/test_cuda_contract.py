"""The contract of every backend, for CUDA over a stand-in for the driver."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

import needs


def load(path: Path) -> Any:
    """A module of the tests, by its path."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    found.loader.exec_module(module)
    return module


HERE = Path(__file__).parent
contract = load(HERE / "test_backend_contract.py")
stand_in = load(HERE.parent / "stand_ins" / "cuda_stand_in.py")
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
