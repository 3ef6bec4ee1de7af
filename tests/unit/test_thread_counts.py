"""Threads of the tuner's own libraries, and of programs that it runs for the user."""

from __future__ import annotations

import os

import pytest

from tuner.core.thread_counts import (
    THREAD_VARIABLES,
    given_environment,
    limit_own_threads,
    threads_of_programs,
)

CORES = len(os.sched_getaffinity(0))


def test_programs_are_told_what_the_user_says_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.core.thread_counts._limited", set())
    for name in THREAD_VARIABLES:
        monkeypatch.setenv(name, "5")
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    limit_own_threads()
    assert os.environ["OMP_NUM_THREADS"] == "1"
    given = given_environment()
    assert "OMP_NUM_THREADS" not in given
    assert given["OPENBLAS_NUM_THREADS"] == "3"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert given_environment()["OMP_NUM_THREADS"] == "2"


@pytest.mark.parametrize(
    ("said", "threads"), [("", CORES), ("0", CORES), ("1", 1), ("1,4", 1), ("100000", CORES), ("many", CORES)]
)
def test_programs_have_as_many_threads_as_the_user_says(
    said: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.core.thread_counts._limited", set())
    monkeypatch.setenv("OMP_NUM_THREADS", said)
    assert threads_of_programs() == threads
