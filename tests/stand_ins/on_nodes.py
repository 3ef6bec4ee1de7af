"""What runs on the nodes of a cluster in tests: each actor imports it, so it imports little."""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.core.types import Resolved, Status
from tuner.testing import SimulatedBackend

__all__ = ["Broken", "Held", "outcome", "scattered_s"]


def scattered_s(resolved: Resolved) -> float:
    """Seconds of a call of the kernel of the fixture ``scale_spec``; best at STEP 8 and WIDTH 5."""
    step, width = int(resolved.macros["STEP"]), int(resolved.macros["WIDTH"])
    return 1e-3 * (0.5 + 0.1 * abs(math.log2(step) - 3) + 0.05 * abs(width - 5))


def outcome(resolved: Resolved) -> Status:
    """A part of the candidates of the same kernel fails."""
    return Status.WRONG_RESULT if int(resolved.macros["WIDTH"]) == 3 else Status.OK


class Held:
    """Verifications that wait as long as a file is there; each process does some before that."""

    def __init__(self, path: Path, *, free: int = 0) -> None:
        self.path = str(path)
        self.free = free

    def __call__(self, what: str) -> None:
        if what != "verify":
            return
        self.free -= 1
        while self.free < 0 and Path(self.path).exists():
            time.sleep(0.02)


@dataclass(frozen=True, kw_only=True)
class Broken(SimulatedBackend):
    """Where no evaluation can be made; the process of the first try is gone before it can say why."""

    tried: str

    def prepare(self, task: Any, *, workers: int) -> Any:
        if not Path(self.tried).exists():
            Path(self.tried).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError("the card is on fire")
