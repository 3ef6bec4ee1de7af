"""When an output counts as right. Compares arrays; it runs nothing and knows nothing of processes.

The rule: with r the expected value and c the candidate's, c passes when

    |c - r| <= max(atol * rms(r) + rtol * |r|, 4 * the baseline's own largest error)

where that error is, of outputs of few elements, the largest on inputs like these (:mod:`tuner.evaluators.rounding`);
rms is taken over the finite values of r in those elements that the kernel changes (in all where it changes
none), so that what else lies in the array does not decide what passes. Where both are integers
(or booleans) c has to equal r. NaN and infinities: with finite r, a c that is not finite always fails. Where r is not
finite, the policy ``excluded`` compares nothing (such inputs were promised not to occur), and ``propagate`` wants NaN
for NaN and the infinity of the same sign for an infinity (for complex numbers: anything that is not finite). Where r
is finite but the baseline itself is not (an overflow that only the wider type avoids) the baseline's value is the
expected one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.errors import UsageError
from tuner.core.types import VerifyPolicy

__all__ = ["Comparison", "Expectation", "compare", "expect", "judge", "own_error", "same_bytes"]

Array = NDArray[Any]

OWN_ERROR_FACTOR = 4.0
"""How many times the baseline's own largest error a candidate may be off."""

_CHUNK = 1 << 15
# Temporaries of a chunk stay in the second-level cache.


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What one output has to be. Make one with :func:`expect`.

    Attributes:
        name: of the argument.
        values: float64 or complex128; integers or booleans where they have to match exactly.
        own_error: the baseline's largest error, absolute and finite.
        before: what the array was before the call, of the same shape; ``None`` where all of it is written.
        rms: root mean square of the finite values, with ``before`` of those that differ from it, if any does.
        all_finite: whether every value is finite.
    """

    name: str
    values: Array
    own_error: float = 0.0
    before: InitVar[Array | None] = None
    rms: float = field(init=False)
    all_finite: bool = field(init=False)

    def __post_init__(self, before: Array | None) -> None:
        if self.values.dtype.kind not in "biufc":
            raise UsageError(f"expected values of {self.name!r} are {self.values.dtype}", "give numbers")
        if not (math.isfinite(self.own_error) and self.own_error >= 0):
            raise UsageError(f"the own error of {self.name!r} is {self.own_error}", "a finite number from 0")
        if self.values.dtype.kind in "fc":
            wide = np.float64 if self.values.dtype.kind == "f" else np.complex128
            object.__setattr__(
                self, "values", np.ascontiguousarray(self.values, wide).reshape(self.values.shape)
            )
        rms, all_finite = _scale(self.values, before)
        object.__setattr__(self, "rms", rms)
        object.__setattr__(self, "all_finite", all_finite)

    @property
    def exact(self) -> bool:
        """Whether an integer output has to be equal."""
        return self.values.dtype.kind in "biu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Why an output is wrong; value, expectation and error are those of the first wrong element.

    Attributes:
        argument: the output's name.
        index: of the element.
        value: what the candidate gave; ``expected``: what was expected.
        error: the absolute difference; ``allowed``: the largest that passes.
        wrong: how many elements are wrong; ``total``: how many there are.
    """

    argument: str
    index: tuple[int, ...]
    value: int | float | complex
    expected: int | float | complex
    error: float
    allowed: float
    wrong: int
    total: int

    @property
    def message(self) -> str:
        """One line for people."""
        place = f"{self.argument}[{', '.join(map(str, self.index))}]" if self.index else self.argument
        text = f"{place} is {_number(self.value)}, expected {_number(self.expected)}"
        if math.isfinite(self.error) and self.allowed > 0:
            text += f" within {self.allowed:.3g}"
        return f"{text} ({self.wrong} of {self.total} wrong)"

    def detail(self) -> dict[str, Any]:
        """Plain JSON; numbers that JSON does not have are text."""
        return {
            "argument": self.argument,
            "index": list(self.index),
            "value": _json_number(self.value),
            "expected": _json_number(self.expected),
            "error": _json_number(self.error),
            "allowed": _json_number(self.allowed),
            "wrong": self.wrong,
            "total": self.total,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What a comparison found.

    Attributes:
        mismatch: ``None`` for a pass.
        worst: the largest error of a finite element in units of its allowance: up to 1 for a pass; 0 where all are
            equal; infinite for a wrong element with no allowance or that is not finite.
        compared: how many elements were compared; the others are excluded by the policy.
    """

    mismatch: Mismatch | None
    worst: float
    compared: int


def own_error(reference: Array, baseline_output: Array) -> float:
    """The baseline's largest absolute error against a reference, over elements where both are finite.

    Raises:
        UsageError: the shapes differ.
    """
    _same_shape("baseline output", baseline_output.shape, reference.shape)
    worst = 0.0
    for r, b in _chunks(reference, baseline_output):
        difference = _difference(b, r)
        finite = difference[np.isfinite(difference)]
        if finite.size:
            worst = max(worst, float(finite.max()))
    return worst


def expect(
    name: str,
    reference: Array,
    baseline_output: Array | None = None,
    before: Array | None = None,
    *,
    known_error: float = 0.0,
) -> Expectation:
    """The expectation for an output of a workload.

    Args:
        name: of the argument.
        reference: float64 or complex128 from a reference in higher precision; or the baseline's own output, whose
            integers are then expected exactly. Kept as it is and not copied, but where the baseline overflowed.
        baseline_output: what the baseline gave, for its own error; none where it is itself the reference.
        before: what the array was before the call; none where all of it is written.
        known_error: the baseline's largest on inputs like these.
    """
    if baseline_output is None:
        return Expectation(name=name, values=reference, before=before)
    error, values = max(own_error(reference, baseline_output), known_error), reference
    if values.dtype.kind in "fc" and baseline_output.dtype.kind in "fc":
        overflowed = ~np.isfinite(baseline_output)
        overflowed &= np.isfinite(values)
        if overflowed.any():
            values = np.where(overflowed, baseline_output.astype(values.dtype), values)
    return Expectation(name=name, values=values, own_error=error, before=before)


def compare(got: Array, expectation: Expectation, policy: VerifyPolicy) -> Mismatch | None:
    """``None`` where an output is right by the rule above, else what is wrong; errors as :func:`judge`."""
    return judge(got, expectation, policy).mismatch


def judge(got: Array, expectation: Expectation, policy: VerifyPolicy) -> Comparison:
    """Compares one output by the rule above, in pieces that fit the cache.

    Args:
        got: the candidate's output; read once, never changed.
        expectation: of the same shape.
        policy: tolerances, and what NaN and infinities mean.

    Raises:
        UsageError: the shapes differ, or only one of the two is complex.
    """
    values = expectation.values
    _same_shape(f"output {expectation.name!r}", got.shape, values.shape)
    if got.dtype.kind == "c" and values.dtype.kind != "c":
        raise UsageError(
            f"output {expectation.name!r} is complex, its expectation is not", "give complex expected values"
        )
    exact = expectation.exact and got.dtype.kind in "biu"
    floor = OWN_ERROR_FACTOR * expectation.own_error
    base = policy.atol * expectation.rms
    start = wrong = excluded = 0
    worst, first = 0.0, -1
    for c, r in _chunks(got, values):
        if exact:
            bad, ratio = c != r, 0.0
        else:
            bad, ratio, skipped = _judge_chunk(
                c, r, (base, policy.rtol, floor), expectation.all_finite, policy
            )
            excluded += skipped
        count = int(np.count_nonzero(bad))
        if count:
            if first < 0:
                first = start + int(np.argmax(bad))
            wrong += count
            ratio = math.inf if exact else ratio
        worst = max(worst, ratio)
        start += c.size
    mismatch = None
    if wrong:
        mismatch = _mismatch(
            got, expectation, first, wrong, allowed=_allowed(expectation, policy, first, exact)
        )
    return Comparison(mismatch=mismatch, worst=worst, compared=values.size - excluded)


def _judge_chunk(
    c: Array, r: Array, terms: tuple[float, float, float], all_finite: bool, policy: VerifyPolicy
) -> tuple[NDArray[np.bool_], float, int]:
    """Which elements are wrong, the largest error in units of the allowance, how many were not compared."""
    base, rtol, floor = terms
    error = _difference(c, r)
    with np.errstate(over="ignore", invalid="ignore"):
        allowed = np.abs(r).astype(np.float64, copy=False) * rtol
        allowed += base
        # An infinite allowance would let infinities pass.
        np.clip(allowed, floor, np.finfo(np.float64).max, out=allowed)
    bad = ~(error <= allowed)
    compared: NDArray[np.bool_] | None = None
    skipped = 0
    if not all_finite:
        compared = np.isfinite(r)
        outside = ~compared
        if policy.nonfinite == "propagate":
            bad[outside] = ~_same_kind(c[outside], r[outside])
        else:
            bad[outside] = False
            skipped = int(np.count_nonzero(outside))
    if compared is not None:
        error, allowed = error[compared], allowed[compared]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = error / allowed
    # 0 / 0 is a value equal to the expected one; any other NaN is a wrong element.
    ratio[error == 0] = 0.0
    largest = float(ratio.max(initial=0.0))
    return bad, math.inf if math.isnan(largest) else largest, skipped


def _same_kind(c: Array, r: Array) -> NDArray[np.bool_]:
    if r.dtype.kind == "c":
        return ~np.isfinite(c)
    both_nan: NDArray[np.bool_] = np.isnan(c) & np.isnan(r)
    equal: NDArray[np.bool_] = both_nan | (c == r)
    return equal


def _allowed(expectation: Expectation, policy: VerifyPolicy, position: int, exact: bool) -> float:
    if exact:
        return 0.0
    r = float(abs(expectation.values.reshape(-1)[position]))
    relative = policy.rtol * r if math.isfinite(r) else 0.0
    return max(policy.atol * expectation.rms + relative, OWN_ERROR_FACTOR * expectation.own_error)


def _mismatch(got: Array, expectation: Expectation, position: int, wrong: int, *, allowed: float) -> Mismatch:
    value = got.reshape(-1)[position].item()
    expected = expectation.values.reshape(-1)[position].item()
    with np.errstate(invalid="ignore", over="ignore"):
        error = float(abs(value - expected))
    return Mismatch(
        argument=expectation.name,
        index=tuple(int(i) for i in np.unravel_index(position, got.shape)),
        value=value,
        expected=expected,
        error=error,
        allowed=allowed,
        wrong=wrong,
        total=got.size,
    )


def same_bytes(a: Array, b: Array) -> bool:
    """Whether two arrays have the same type, shape and bytes: equal NaN patterns are equal, 0.0 and -0.0 are not."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    flat_a, flat_b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    step = _CHUNK * 8
    for start in range(0, flat_a.size, step):
        x, y = flat_a[start : start + step], flat_b[start : start + step]
        if x.size % 8 == 0 and x.ctypes.data % 8 == 0 and y.ctypes.data % 8 == 0:
            x, y = x.view(np.uint64), y.view(np.uint64)
        if not np.array_equal(x, y):
            return False
    return True


def _chunks(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    flat_a, flat_b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    for start in range(0, flat_a.size, _CHUNK):
        yield flat_a[start : start + _CHUNK], flat_b[start : start + _CHUNK]


def _difference(a: Array, b: Array) -> NDArray[np.float64]:
    with np.errstate(over="ignore", invalid="ignore"):
        if a.dtype.kind == "c" or b.dtype.kind == "c":
            return np.abs(a.astype(np.complex128) - b.astype(np.complex128))
        if a.dtype.kind in "biu" and b.dtype.kind in "biu" and not (_narrow(a) and _narrow(b)):
            # float64 has no room for the difference of neighbours among large integers.
            larger, smaller = np.where(a > b, a, b), np.where(a > b, b, a)
            return (larger.astype(np.uint64) - smaller.astype(np.uint64)).astype(np.float64)
        difference = a.astype(np.float64)
        difference -= b
        return np.abs(difference, out=difference)


def _narrow(a: Array) -> bool:
    return a.dtype.itemsize <= 4


def _scale(values: Array, before: Array | None) -> tuple[float, bool]:
    """RMS of the finite values that differ from those before, else of all, and whether all are finite."""
    all_finite = all(bool(np.isfinite(piece).all()) for piece, _ in _chunks(values, values))
    rms = None if before is None else _rms(values, before)
    return _rms(values, None) or 0.0 if rms is None else rms, all_finite


def _rms(values: Array, before: Array | None) -> float | None:
    """Root mean square of the finite values that differ from those before, without overflow; ``None`` without any."""
    largest, total, count = 0.0, 0.0, 0
    for magnitude in _magnitudes(values, before):
        largest = max(largest, float(magnitude.max(initial=0.0)))
        with np.errstate(over="ignore"):
            # Not np.dot: OpenBLAS would wake its threads for it, and its sum depends on how many there are.
            total += float(np.sum(np.square(magnitude)))
        count += magnitude.size
    if largest == 0.0:
        return 0.0 if count else None
    if not 1e-140 < largest < 1e140:
        total = sum(float(np.sum(np.square(piece / largest))) for piece in _magnitudes(values, before))
        return largest * math.sqrt(total / count)
    return math.sqrt(total / count)


def _magnitudes(values: Array, before: Array | None) -> Iterator[NDArray[np.float64]]:
    for piece, earlier in _chunks(values, values if before is None else before):
        with np.errstate(over="ignore"):
            magnitude = np.abs(piece.astype(np.complex128 if piece.dtype.kind == "c" else np.float64))
        usable = np.isfinite(magnitude)
        if before is not None:
            usable &= piece != earlier
        yield magnitude if usable.all() else magnitude[usable]


def _same_shape(what: str, got: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if got != expected:
        raise UsageError(
            f"{what} has shape {list(got)}, expected {list(expected)}", "compare arrays of one shape"
        )


def _number(value: int | float | complex) -> str:
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _json_number(value: int | float | complex) -> int | float | str:
    if isinstance(value, complex) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
