"""How many threads the tuner's own libraries have; commands of the user's are told what the user says and no more."""

from __future__ import annotations

import os

__all__ = ["THREAD_VARIABLES", "given_environment", "limit_own_threads", "threads_of_programs"]

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ONE = "1"
_limited: set[str] = set()
"""What :func:`limit_own_threads` has set; whoever sets it again afterwards says something else than one."""


def limit_own_threads() -> None:
    """Gives the libraries that this process and its workers load one thread each, where the user says nothing else.

    Threads of OpenBLAS would disturb timing and make proposals depend on the machine's core count.
    """
    missing = [name for name in THREAD_VARIABLES if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, _ONE))
    _limited.update(missing)


def given_environment() -> dict[str, str]:
    """The environment that the user gave this process, for commands of the user's."""
    return {name: value for name, value in os.environ.items() if name not in _limited or value != _ONE}


def threads_of_programs() -> int:
    """How many threads a program with OpenMP has that is started with :func:`given_environment`."""
    first = given_environment().get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = len(os.sched_getaffinity(0))
    return min(int(first), cores) if first.isdecimal() and int(first) else cores
