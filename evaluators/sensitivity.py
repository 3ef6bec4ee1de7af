"""Whether a verification could catch anything: checks of the workloads and expectations themselves, for ``check``.

Looks at arrays only; its findings are warnings in plain words, never a verdict on a candidate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.types import VerifyPolicy
from tuner.evaluators.verification import Expectation, compare, judge, same_bytes
from tuner.evaluators.workloads import Workload

__all__ = ["check_expectations", "nothing_compared"]

Array = NDArray[Any]

_PIECE = 1 << 20


def check_expectations(
    workloads: Sequence[Workload], expectations: Sequence[Mapping[str, Expectation]], policy: VerifyPolicy
) -> list[str]:
    """What would let a wrong kernel pass, one line for each output and weakness.

    Found are outputs for which all zeros pass on every workload, outputs that are one constant throughout, outputs
    that stay the same for different inputs of a size, outputs that an input passes for unchanged, and outputs of
    which nothing is compared.

    Args:
        workloads: the verification's.
        expectations: for each workload its outputs by name.
        policy: the tolerances.
    """
    warnings = []
    for name in expectations[0] if expectations else ():
        rows = [(w, e[name]) for w, e in zip(workloads, expectations, strict=True)]
        if all(_passes_as(_member(w, name), e, policy) for w, e in rows):
            # Members of structures that are only read are no outputs; no role says so.
            continue
        if not any(judge(_native(w, e), e, policy).compared for w, e in rows):
            warnings.append(f"nothing of output {name!r} is compared: it is empty or never finite")
            continue
        if all(compare(np.zeros_like(_native(w, e)), e, policy) is None for w, e in rows):
            warnings.append(f"an output {name!r} of nothing but zeros would pass")
        elif all(_constant(e) for _, e in rows):
            warnings.append(f"output {name!r} is one and the same value throughout")
        if _unmoved(rows):
            warnings.append(f"output {name!r} is the same for different inputs: a stored answer would pass")
        warnings += _identities(name, rows, policy)
    return warnings


def nothing_compared(
    workloads: Sequence[Workload], expectations: Sequence[Mapping[str, Expectation]], policy: VerifyPolicy
) -> str:
    """Why a baseline is none although it runs: no element of any output is looked at, so whatever a candidate gives
    would pass. Empty where one is, and where there is no output.

    A recorded launch that changed nothing has none: what is left alone is verified there.
    """
    looked = [
        judge(_native(workload, expectation), expectation, policy).compared
        for workload, outputs in zip(workloads, expectations, strict=True)
        for expectation in outputs.values()
    ]
    if not looked or any(looked):
        return ""
    return "nothing is compared: what is expected has no finite element; look at reference and inputs"


def _native(workload: Workload, expectation: Expectation) -> Array:
    """The expected values in the output's own type."""
    array = workload.numbers.get(expectation.name)
    if array is None:
        return expectation.values
    with np.errstate(over="ignore", invalid="ignore"):
        return expectation.values.astype(array.dtype, copy=False)


def _member(workload: Workload, name: str) -> Array | None:
    """What a member of structures was before; ``None`` for an array of numbers."""
    return None if name in workload.arrays else workload.numbers.get(name)


def _constant(expectation: Expectation) -> bool:
    flat = expectation.values.reshape(-1)
    pieces = (flat[at : at + _PIECE] for at in range(0, flat.size, _PIECE))
    return flat.size > 1 and all(bool(np.all(piece == flat[0])) for piece in pieces)


def _unmoved(rows: Sequence[tuple[Workload, Expectation]]) -> bool:
    """Whether there are different workloads of one size and none of them moves the output."""
    by_size: dict[tuple[tuple[str, int], ...], list[tuple[Workload, Array]]] = defaultdict(list)
    for workload, expectation in rows:
        by_size[tuple(sorted(workload.problem.sizes.items()))].append((workload, expectation.values))
    groups = [group for group in by_size.values() if len(group) > 1]
    if not all(same_bytes(group[0][1], values) for group in groups for _, values in group[1:]):
        return False
    return any(_differ(group[0][0], other) for group in groups for other, _ in group[1:])


def _differ(one: Workload, other: Workload) -> bool:
    """Whether two workloads have different inputs; those of what was recorded may be the same."""
    return any(not same_bytes(array, other.arrays[name]) for name, array in one.arrays.items())


def _identities(name: str, rows: Sequence[tuple[Workload, Expectation]], policy: VerifyPolicy) -> list[str]:
    warnings = []
    for argument in rows[0][0].numbers:
        if argument == name:
            # An inout argument that nothing changes.
            text = f"output {name!r} left untouched would pass"
        else:
            text = f"input {argument!r} unchanged would pass as output {name!r}"
        if all(_passes_as(w.numbers.get(argument), e, policy) for w, e in rows) and any(
            w.numbers[argument].any() for w, _ in rows
        ):
            warnings.append(text)
    return warnings


def _passes_as(array: Array | None, expectation: Expectation, policy: VerifyPolicy) -> bool:
    if array is None or array.shape != expectation.values.shape:
        return False
    if array.dtype.kind == "c" and expectation.values.dtype.kind != "c":
        return False
    return compare(array, expectation, policy) is None
