"""Numbers of a machine from a run's record, and earlier runs on the likest machine first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.cost_models.library import Entry, Library
from tuner.cost_models.machines import apart, machine_features

HOST = {
    "device": "a processor",
    "cores": 8,
    "caches": {"l1_bytes": 32768, "l2_bytes": 1048576, "last_level_bytes": None},
    "cpu_features": "+sse2,+avx,+avx2,-avx512f",
    "sandbox": {"landlock": 7},
}
LIGHT = {"problems": [{"bandwidth_bytes_per_s": 2e10, "operations_per_s": 1e11, "bound_s": 1.0}]}


def test_a_processor() -> None:
    assert machine_features(HOST, LIGHT) == {
        "machine_cores": 8.0,
        "machine_l1_bytes": 32768.0,
        "machine_l2_bytes": 1048576.0,
        "machine_vector_bits": 256.0,
        "machine_bandwidth_bytes_per_s": 2e10,
        "machine_operations_per_s": 1e11,
    }
    assert "machine_operations_per_s" not in machine_features(HOST, None)
    assert machine_features({**HOST, "cpu_features": "+sse2,+avx512f"}, None)["machine_vector_bits"] == 512.0


def test_a_card_says_what_its_driver_says() -> None:
    card = {"gpu": {"multiprocessors": 108, "name": "card", "ecc": True, "clock_hz": 1.4e9}}
    assert machine_features(card, None) == {
        "machine_gpu_clock_hz": 1.4e9,
        "machine_gpu_multiprocessors": 108.0,
    }


def test_unknown_machine_features_are_left_out() -> None:
    assert machine_features({}, None) == {}
    assert apart({}, {"machine_cores": 2.0}) == 0.0
    assert apart({"machine_cores": 2.0}, {"machine_cores": 2.0}) == 0.0
    assert apart({"machine_cores": 2.0}, {"machine_cores": 4.0}) == pytest.approx(0.6931, abs=1e-4)


def test_of_equal_code_the_likest_machine_comes_first(tmp_path: Path) -> None:
    own = Entry(
        kernel="own",
        backend="host",
        language="c",
        device="this",
        features={"text_bytes": 100.0},
        names=("TILE",),
        best=(({"TILE": 8}, -0.1),),
        edits=(),
        speedup=1.1,
        machine={"machine_cores": 8.0},
    )
    library = Library(tmp_path)
    for cores in (64.0, 1.0, 6.0, 8.0):
        library.add(replace(own, device=f"{cores:g} cores", machine={"machine_cores": cores}))
    assert [e.device for e, _ in library.nearest(own)] == ["8 cores", "6 cores", "1 cores"]
    assert Entry.from_json(own.to_json()) == own
    with pytest.raises(ValueError, match="machine"):
        Entry.from_json({name: value for name, value in own.to_json().items() if name != "machine"})
