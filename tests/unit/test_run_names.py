"""Runs by the record, by its name among those of the usual folder, and the latest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.cli.run_names import run_record


def test_a_run_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_record("latest") == Path("latest")
    runs = Path("tuner-runs")
    runs.mkdir()
    for age, name in enumerate(("k-2.run", "k-1.run", "other.txt")):
        (runs / name).touch()
        os.utime(runs / name, (1e9 - age, 1e9 - age))
    assert run_record("k-1") == run_record("k-1.run") == run_record("tuner-runs/k-1.run") == runs / "k-1.run"
    assert run_record("latest") == runs / "k-2.run"
    assert run_record("k-3") == Path("k-3")
    # What is there and no record hides none; what leads nowhere is none.
    Path("latest").mkdir()
    (runs / "k-9.run").symlink_to("nowhere")
    assert run_record("latest") == runs / "k-2.run"
    Path("latest").rmdir()
    Path("latest").touch()
    assert run_record("latest") == Path("latest")
