"""Whether the outputs that a stopped child has left are right. Reads memory; runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.types import VerifyPolicy
from tuner.evaluators.accepted_outputs import AcceptedOutputs
from tuner.evaluators.host.bundles import POISON, Bundle, OutputMemory, equal_bits, holds
from tuner.evaluators.host.expected import Expected
from tuner.evaluators.verification import Comparison, same_bytes

__all__ = ["Failure", "check_entries", "judge_output"]

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first wrong output: a line for people and plain JSON."""

    message: str
    detail: Mapping[str, Any]


def check_entries(
    bundle: Bundle,
    memory: OutputMemory,
    numbers: Sequence[int],
    *,
    policy: VerifyPolicy,
    accepted: AcceptedOutputs,
    strays: bool,
) -> tuple[Failure | None, float]:
    """Compares every output of some entries.

    Args:
        bundle: with expectations.
        memory: the child's outputs; the child stands still.
        numbers: which entries.
        policy: the tolerances.
        accepted: outputs that have passed before.
        strays: also look for writes beside the buffers; the memory was poisoned before the run.

    Returns:
        What is wrong first, and the largest error in units of the allowance.
    """
    worst = 0.0
    for number in numbers:
        entry = bundle.layout.entries[number]
        label = bundle.labels[entry.inputs]
        for name, got in bundle.outputs_of(number, memory).items():
            key = (bundle.key, entry.inputs, name)
            expected = bundle.expected[entry.inputs][name]
            found = judge_output(key, got, expected, policy=policy, accepted=accepted)
            if isinstance(found, Failure):
                detail = {"workload": label, **found.detail}
                return Failure(message=f"{found.message} in {label}", detail=detail), worst
            worst = max(worst, found.worst)
        for region in entry.regions if strays else ():
            if region.buffer.role not in ("output", "inout", "return"):
                continue
            at = memory.stray(region)
            if at is not None:
                side = "past the end" if at >= 0 else "before the start"
                away = at + 1 if at >= 0 else -at
                text = f"out of bounds: writes byte {away} {side} of {region.buffer.name} in {label}"
                return Failure(
                    message=text, detail={"workload": label, "argument": region.buffer.name}
                ), worst
    return None, worst


def judge_output(
    key: tuple[Any, ...],
    got: Array,
    expected: Expected,
    *,
    policy: VerifyPolicy,
    accepted: AcceptedOutputs,
) -> Comparison | Failure:
    """Compares one output; elements that the baseline leaves alone must hold what they held, or the poison.

    Args:
        key: names the expectation and the policy; its last part is the output's name.
        got: what the candidate left.
        expected: of it.
        policy: the tolerances.
        accepted: outputs that have passed before.
    """
    name = str(key[-1])
    if expected.untouched is not None:
        left = holds(got, POISON) if expected.kept is None else equal_bits(got, expected.kept)
        written = ~left & expected.untouched
        if written.any():
            index = [int(i) for i in np.argwhere(written)[0]]
            text = f"writes {name}[{', '.join(map(str, index))}], which the kernel as given leaves alone"
            return Failure(message=text, detail={"argument": name, "index": index})
        got = got.copy()
        got[expected.untouched] = 0
    if expected.baseline is not None and same_bytes(got, expected.baseline):
        return Comparison(mismatch=None, worst=0.0, compared=got.size)
    comparison = accepted.judge(key, got, expected.expectation, policy)
    if comparison.mismatch is not None:
        return Failure(message=comparison.mismatch.message, detail=comparison.mismatch.detail())
    return comparison
