"""What a verification would take of memory is reckoned before anything is made, and refused where it cannot be had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.errors import MachineError
from tuner.driver.check import check_spec
from tuner.evaluators import memory
from tuner.evaluators.memory import available_bytes, needed_bytes
from tuner.evaluators.workloads import plan_workloads
from tuner.spec.load import LoadedSpec, load_spec

SpecWriter = Callable[..., Path]


def needed(spec: LoadedSpec, *, doubled: bool = False) -> int:
    plans = plan_workloads(spec.task, {}, purpose="search", number=0)
    return needed_bytes(spec.task, plans, {}, doubled=doubled)


def test_arrays_beyond_memory_are_refused_before_allocation(
    scale_spec: SpecWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own killer took the tuner, without a word, after a minute and a half."""
    (spec,) = load_spec(scale_spec())
    monkeypatch.setattr(memory, "available_bytes", lambda: needed(spec, doubled=True) - 1)
    with pytest.raises(MachineError) as refused:
        check_spec(spec, faults=False)
    assert refused.value.message.startswith("verifying at n=4096 takes ")
    assert "are free" in refused.value.message
    assert refused.value.hint.startswith("make the problem smaller")


def test_arrays_within_memory_are_made(scale_spec: SpecWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec,) = load_spec(scale_spec())
    monkeypatch.setattr(memory, "available_bytes", lambda: 4 * needed(spec, doubled=True))
    assert check_spec(spec, faults=False).ok


@pytest.mark.integration
def test_a_machine_that_does_not_say_is_trusted(
    scale_spec: SpecWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (spec,) = load_spec(scale_spec())
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    assert check_spec(spec, faults=False).ok


@pytest.mark.integration
@given(n=st.integers(1, 1 << 36), doubled=st.booleans())
def test_it_grows_with_the_arrays(n: int, doubled: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "k.c").write_text("void k(const float *x, float *y, long n) { }")
    (folder / "k.yaml").write_text(
        f"kernel: {{source: k.c, entry: k}}\nproblem: {{n: {n}}}\narguments:\n"
        "  - {name: x, dtype: float32, shape: [n], init: normal}\n"
        "  - {name: y, dtype: float32, shape: [n], role: output}\n"
        "  - {name: n, dtype: int64, value: n}\n"
    )
    (spec,) = load_spec(folder / "k.yaml")
    plans = len(plan_workloads(spec.task, {}, purpose="search", number=0))
    assert needed(spec, doubled=doubled) == plans * 4 * n * (8 if doubled else 5)


def test_the_machine_says_what_is_free() -> None:
    assert (available_bytes() or 0) > 1 << 20
