"""The library of finished runs: what is kept, what is near, what is tried first, what is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tuner.core.types import Resolved
from tuner.cost_models.library import Entry, Library, adapted, distance, library_folder
from tuner.driver.audit import audit
from tuner.driver.options import Options
from tuner.driver.runs import begin
from tuner.recorders.record import RunRecord
from tuner.spaces.parameters import Parameter
from tuner.spaces.space import Space
from tuner.spec.load import load_spec
from tuner.testing import SimulatedBackend

ENTRY = Entry(
    kernel="stencil",
    backend="host",
    language="c",
    device="a processor",
    features={"ir_loads_count": 8.0, "ir_stores_count": 1.0},
    names=("TILE", "UNROLL"),
    best=(({"TILE": 32, "UNROLL": 4}, -0.7), ({"TILE": 16, "UNROLL": 4}, -0.6)),
    edits=(),
    speedup=2.0,
)


def space() -> Space:
    return Space([Parameter.choice("TILE", [8, 16, 32]), Parameter.choice("WIDTH", [1, 2])])


def seconds(resolved: Resolved) -> float:
    return (
        1e-3
        * (0.5 if int(resolved.macros["STEP"]) == 16 else 1.0)
        * (1 + int(resolved.macros["WIDTH"]) / 100)
    )


def misled(resolved: Resolved) -> float:
    return (
        1e-3
        * (3.0 if int(resolved.macros["STEP"]) == 16 else 1.0)
        * (1 + int(resolved.macros["WIDTH"]) / 100)
    )


def test_entries_read_back_and_damage_is_passed_over(tmp_path: Path) -> None:
    library = Library(tmp_path / "library")
    assert library.entries() == []
    assert library.add(ENTRY)
    assert library.add(ENTRY)  # the same again is the same file
    (tmp_path / "library" / "broken.json").write_text("{")
    (tmp_path / "library" / "newer.json").write_text(json.dumps(ENTRY.to_json() | {"version": 99}))
    (tmp_path / "library" / "strange.json").write_text('{"version": 1, "best": 3}')
    assert library.entries() == [ENTRY]


def test_a_folder_that_cannot_be_written_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not Library(tmp_path / "file").add(ENTRY)
    assert Library(tmp_path / "file").entries() == []


def test_near_is_alike_in_code(tmp_path: Path) -> None:
    library = Library(tmp_path)
    alike = replace(ENTRY, kernel="near", features={"ir_loads_count": 9.0, "ir_stores_count": 1.0})
    far = replace(ENTRY, kernel="far", features={"ir_loads_count": 900.0, "ir_calls_count": 70.0})
    other = replace(ENTRY, kernel="other", language="cuda")
    for entry in (far, other, alike):
        library.add(entry)
    assert [entry.kernel for entry, _ in library.nearest(ENTRY)] == ["near"]
    assert distance(ENTRY, ENTRY) == 0
    assert distance(ENTRY, alike) < distance(ENTRY, far)
    bare = replace(ENTRY, features={})
    assert distance(bare, replace(bare, names=("TILE", "OTHER"))) == pytest.approx(2 / 3)


def test_fitting_settings_are_taken_over_and_others_default() -> None:
    second = replace(ENTRY, best=(({"TILE": 999}, -0.1), ({"WIDTH": 2}, -0.05)))
    assert adapted(space(), [ENTRY, second], 9) == [
        ({"TILE": 32, "WIDTH": 1}, 0),
        ({"TILE": 16, "WIDTH": 1}, 0),
        ({"TILE": 8, "WIDTH": 2}, 1),
    ]
    assert adapted(space(), [ENTRY, second], 1) == [({"TILE": 32, "WIDTH": 1}, 0)]


@pytest.mark.integration
def test_a_second_run_tries_first_what_the_first_found(
    scale_spec: Callable[..., Path], tmp_path: Path
) -> None:
    (spec,) = load_spec(scale_spec(evaluations=60))
    options = Options(seed=1, workers=1, library=tmp_path / "library")
    backend = SimulatedBackend(seconds=seconds)
    first = begin(spec, tmp_path / "a.run", options, backend=backend)
    assert first.summary.improved
    assert first.summary.recalled == ()
    again = begin(spec, tmp_path / "b.run", replace(options, seed=2), backend=backend)
    assert again.summary.recalled is not None
    assert [source["kernel"] for source in again.summary.recalled] == ["scale"]
    assert again.path is not None
    with RunRecord.read(again.path) as record:
        events = list(record.events())
    scores = {e.trial: e.body["score"] for e in events if e.kind == "trial"}
    tried = [n for n, origin in origins(events).items() if origin == "library"]
    assert tried[0] <= 2
    assert scores[tried[0]] < -0.5
    assert audit(again.path).clean
    alone = begin(spec, tmp_path / "c.run", replace(options, library=None), backend=backend)
    assert alone.summary.recalled is None


def origins(events: Sequence[Any]) -> dict[int, str]:
    asks = [e.body for e in events if e.kind == "ask"]
    return {body["first"] + i: p["origin"] for body in asks for i, p in enumerate(body["proposals"])}


@pytest.mark.integration
def test_a_misleading_library_costs_one_trial(scale_spec: Callable[..., Path], tmp_path: Path) -> None:
    (spec,) = load_spec(scale_spec(evaluations=60))
    options = Options(seed=1, workers=1, library=tmp_path / "library")
    begin(spec, tmp_path / "a.run", options, backend=SimulatedBackend(seconds=seconds))
    found = begin(spec, tmp_path / "b.run", options, backend=SimulatedBackend(seconds=misled))
    assert found.path is not None
    with RunRecord.read(found.path) as record:
        events = list(record.events())
    (recall,) = [e.body for e in events if e.kind == "recall"]
    assert 1 <= len(recall["firsts"]) <= 3
    # The first that disappoints is the last.
    assert list(origins(events).values()).count("library") == 1
    assert audit(found.path).clean


def test_the_folder_follows_the_user(tmp_path: Path) -> None:
    assert library_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/remix-tuner/library")
    assert library_folder({"HOME": "/home/me"}) == Path("/home/me/.local/share/remix-tuner/library")
