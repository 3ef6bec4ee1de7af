"""Messages to devices come out of their pickles as they went in, and stay frozen."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tuner.core.executors import BuildJob, Evaluated, EvaluateJob
from tuner.core.racing import Race
from tuner.core.types import Build, BuildRequest, Measurement, Resolved, Source, Status, Variant, Verdict

RESOLVED = Resolved(macros={"A": 1}, scalars={}, flags=("-O3",), pipeline=None)
RACE = Race(
    weights=(1.0,), rounds_s=(0.1,), rounds_calls=(3,), enough_s=1.0, call_s=(1e-3,), incumbent=(1.0, 2.0)
)
MEASURED = Measurement(status=Status.OK, times_s=(1.0, 2.0), notes={"cpu": 3})
BUILD = Build(status=Status.OK, code=b"code", digest="d", key="k", features={"f": 1.0})
REQUEST = BuildRequest(
    trial=3,
    variant=Variant(files=(Source(name="a.c", text="x"),), edits=({"op": "tile"},)),
    resolved=RESOLVED,
)


@pytest.mark.parametrize(
    "value",
    [
        EvaluateJob(lane=1, trial=2, build=BUILD, resolved=RESOLVED, race=RACE),
        BuildJob(requests=(REQUEST,)),
        Evaluated(verdict=Verdict(status=Status.WRONG_RESULT, detail={"index": 7}), rounds=((MEASURED,),)),
    ],
)
def test_messages_come_back_equal(value: object) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert copy.deepcopy(value) == value


@pytest.mark.parametrize("value", [None, (), (1, 2), 0])
def test_a_single_field_of_any_value_comes_back(value: Any) -> None:
    found = pickle.loads(pickle.dumps(BuildJob(requests=value)))
    assert found == BuildJob(requests=value)
    with pytest.raises(FrozenInstanceError):
        found.requests = 3
