"""The most that a core does: bytes a second by how much is walked over, floating-point operations and cycles a second.

Measured by small C kernels that go the way of any candidate: compiled in a worker, run in the sandbox, timed under the
lane. Kept by processor and compiler in the user's cache folder. May not time anything in this process.

Source: the roofline model, Williams, Waterman and Patterson (CACM 52(4), 2009).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError
from tuner.core.expressions import parse
from tuner.core.protocols import Backend, Peaks
from tuner.core.types import (
    BASELINE,
    Argument,
    ArgumentRole,
    BuildRequest,
    Initial,
    Kernel,
    MeasurePolicy,
    Problem,
    Resolved,
    Source,
    Status,
    Task,
    Variant,
    VerifyPolicy,
)
from tuner.evaluators.host.toolchain import cache_folder, write_fact
from tuner.evaluators.lane import cache_sizes

__all__ = ["host_peaks"]

_VERSION = 3
_CALLS = 9
_WALKED = 1 << 26
"""Bytes of one timed call, so that the call itself does not count."""

_CHAINS = 12
_LANES = 64
_ROUNDS = 1 << 18
_DTYPES = {"float32": "float", "float64": "double"}

_WALK = """
typedef float wide __attribute__((vector_size(64), aligned(4)));
void walk(const float *restrict a, float *restrict out, long n, long rounds) {
    wide s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
    for (long r = 0; r < rounds; r++) {
        for (long i = 0; i + 64 <= n; i += 64) {
            s0 += *(const wide *)(a + i);
            s1 += *(const wide *)(a + i + 16);
            s2 += *(const wide *)(a + i + 32);
            s3 += *(const wide *)(a + i + 48);
        }
        __asm__ volatile("" ::: "memory");
    }
    *(wide *)out = s0 + s1 + s2 + s3;
}
"""
_COMPUTE = """
typedef TYPE wide __attribute__((vector_size(64), aligned(4)));
#pragma clang fp contract(fast)
void compute(const TYPE *restrict a, TYPE *restrict out, long rounds) {
    wide b = *(const wide *)a, c = b * b, s[CHAINS];
    for (int k = 0; k < CHAINS; k++) s[k] = b + (TYPE)k;
    for (long r = 0; r < rounds; r++) {
#pragma clang loop unroll(full)
        for (int k = 0; k < CHAINS; k++) s[k] = s[k] * b + c;
    }
    wide all = s[0];
    for (int k = 1; k < CHAINS; k++) all += s[k];
    *(wide *)out = all;
}
"""


_CHAIN = """
void chain(const float *restrict a, float *restrict out, long rounds) {
    long x = rounds, y = rounds | 1;
    for (long r = 0; r < rounds; r++) {
#pragma clang loop unroll(full)
        for (int k = 0; k < LINKS; k++) {
            x += y;
            __asm__ volatile("" : "+r"(x), "+r"(y));
        }
    }
    for (int k = 0; k < 64; k++) out[k] = a[k] + (float)(x & 1);
}
"""
"""Additions that wait for each other, of two registers: each takes one cycle."""

_LINKS = 64


def host_peaks(
    backend: Backend, target: str, threads: int, *, measure: bool, virtual: bool = False
) -> Peaks | None:
    """Peaks of ``threads`` cores, each taken to be as fast as one alone; ``None`` where they are not known yet.

    Args:
        backend: the host's.
        target: of the spec.
        threads: of the kernel.
        measure: also where that takes seconds.
        virtual: whether the backend's clock is a made one, whose peaks are kept apart.

    Raises:
        MachineError: the small kernels cannot be built or timed here, or others disturb them.
    """
    environment = backend.environment(target)
    facts = {name: environment[name] for name in ("device", "cpu", "caches", "llvm", "target")}
    kind = "virtual-peaks" if virtual else "peaks"
    path = cache_folder() / f"{kind}-{digest_json([_VERSION, facts])[:16]}.json"
    found = _read(path)
    if found is None:
        if not measure:
            return None
        found = _measure(backend, target)
        write_fact(path, json.dumps(found))
    return Peaks(
        bandwidths=tuple((int(size), threads * float(rate)) for size, rate in found["bandwidths"]),
        operations={name: threads * float(rate) for name, rate in found["operations"].items()},
        clock_hz=float(found["clock_hz"]),
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
        return {
            "bandwidths": list(found["bandwidths"]),
            "operations": dict(found["operations"]),
            "clock_hz": float(found["clock_hz"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _measure(backend: Backend, target: str) -> dict[str, Any]:
    caches = cache_sizes()
    sizes = sorted(
        {
            caches.l1_bytes // 2,
            caches.l2_bytes // 2,
            caches.last_level_bytes // 2,
            4 * caches.last_level_bytes,
        }
    )
    sizes = [min(size, 1 << 28) // 256 * 256 for size in sizes]
    problems = [{"n": size // 4, "rounds": max(1, _WALKED // size)} for size in sizes]
    floats = _argument("a", "float32", "n")
    times = _times(backend, target, "walk", _WALK, [floats, *_rest("float32", "n", "rounds")], problems)
    walked = [4 * p["n"] * p["rounds"] for p in problems]
    rates = [amount / time_s for amount, time_s in zip(walked, times, strict=True)]
    # A larger piece of memory is never walked faster than a smaller one: what looks so is noise.
    for i in range(len(rates) - 2, -1, -1):
        rates[i] = max(rates[i], rates[i + 1])
    operations = {}
    for dtype, name in _DTYPES.items():
        text = _COMPUTE.replace("TYPE", name).replace("CHAINS", str(_CHAINS))
        arguments = [_argument("a", dtype, str(_LANES)), *_rest(dtype, "rounds")]
        (time_s,) = _times(backend, target, "compute", text, arguments, [{"rounds": _ROUNDS}])
        lanes = 64 // (4 if dtype == "float32" else 8)
        operations[dtype] = 2.0 * _CHAINS * lanes * _ROUNDS / time_s
    arguments = [_argument("a", "float32", str(_LANES)), *_rest("float32", "rounds")]
    text = _CHAIN.replace("LINKS", str(_LINKS))
    (chain_s,) = _times(backend, target, "chain", text, arguments, [{"rounds": _ROUNDS}])
    return {
        "bandwidths": [list(pair) for pair in zip(sizes, rates, strict=True)],
        "operations": operations,
        "clock_hz": _LINKS * _ROUNDS / chain_s,
    }


def _argument(name: str, dtype: str, length: str) -> Argument:
    half = Initial(kind="uniform", options={"low": 0.1, "high": 0.5})
    return Argument(name=name, dtype=dtype, shape=(parse(length),), initial=half)


def _rest(dtype: str, *scalars: str) -> list[Argument]:
    output = Argument(name="out", dtype=dtype, shape=(parse(str(_LANES)),), role=ArgumentRole.INOUT)
    return [output, *(Argument(name=name, dtype="int64", value=parse(name)) for name in scalars)]


def _times(
    backend: Backend,
    target: str,
    entry: str,
    text: str,
    arguments: list[Argument],
    problems: list[dict[str, int]],
) -> list[float]:
    """The shortest call on each problem, in seconds."""
    with tempfile.TemporaryDirectory(prefix="tuner-peaks-") as folder:
        source = Source(name=f"{entry}.c", text=text)
        variant = Variant(files=(source,))
        task = Task(
            kernel=Kernel(name=entry, entry=entry, language="c", variant=variant, folder=folder),
            backend=backend.name,
            target=target,
            arguments=tuple(arguments),
            problems=tuple(Problem(sizes=sizes) for sizes in problems),
            verify=VerifyPolicy(rtol=1e-2),
            measure=MeasurePolicy(),
        )
        evaluation = backend.prepare(task, workers=1)
        try:
            resolved = Resolved(macros={}, scalars={}, flags=(), pipeline=None)
            (build,) = evaluation.build([BuildRequest(trial=BASELINE, variant=variant, resolved=resolved)])
            _require(build.status, build.message)
            report = evaluation.set_baseline(build, resolved)
            _require(report.status, report.message)
            session = evaluation.open(build, resolved, purpose="search", number=0)
            try:
                verdict = session.verify()
                _require(verdict.status, verdict.message)
                times = []
                for number in range(len(problems)):
                    measured = session.measure(problem=number, calls=_CALLS)
                    _require(measured.status, measured.message)
                    _require_quiet(measured.notes.get("disturbed"))
                    times.append(min(measured.times_s))
                return times
            finally:
                session.close()
        finally:
            evaluation.close()


def _require(status: Status, message: str) -> None:
    if status is not Status.OK:
        raise MachineError(
            f"this machine's peaks cannot be measured ({status}: {message})",
            "the run goes on without the speed of light; tuner doctor says what this machine lacks",
        )


def _require_quiet(disturbed: Sequence[str] | None) -> None:
    """Peaks are kept for good, and one that is too low refuses honest candidates."""
    if disturbed:
        raise MachineError(
            f"this machine's peaks cannot be measured while it does other things ({disturbed[0]})",
            "the run goes on without the speed of light; tuner check measures it on a quiet machine",
        )
