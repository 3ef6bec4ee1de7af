"""Random streams derived by name, so that a draw depends on what it is for and never on what came before."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["seed_for", "stream"]


def seed_for(seed: int, role: str, number: int = 0) -> int:
    """A 63-bit seed for one purpose of one run.

    Args:
        seed: the run's seed.
        role: what the stream is for, for example ``"ask"`` or ``"inputs"``.
        number: which of that role's streams: the proposal, the process, the problem.
    """
    data = hashlib.sha256(f"{seed}\x00{role}\x00{number}".encode()).digest()
    return int.from_bytes(data[:8], "little") >> 1


def stream(seed: int, role: str, number: int = 0) -> np.random.Generator:
    """A NumPy generator (Philox, counter based) for one purpose of one run; arguments as :func:`seed_for`."""
    return np.random.Generator(np.random.Philox(key=seed_for(seed, role, number)))
