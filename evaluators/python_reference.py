"""Runs the user's Python functions (references and initialisers) in a process of their own, and checks what they give.

The user's file is never imported into the tuner. Values travel as ``.npy`` files in a private folder, never as
pickles, and sizes are checked before anything is loaded. The process's own side is
:mod:`tuner.evaluators.python_child`.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuner.core.dtypes import numpy_dtype, separate_members
from tuner.core.errors import BaselineError, Place, SpecError, TunerError
from tuner.core.thread_counts import THREAD_VARIABLES
from tuner.core.types import ArgumentRole, Task
from tuner.evaluators.sandbox.environment import worker_environment

if TYPE_CHECKING:
    from tuner.evaluators.workloads import Workload

__all__ = ["RETURN", "Call", "call_function", "call_initialiser", "run_reference"]

Array = NDArray[Any]

RETURN = "return"
"""The name under which a kernel's returned value is found among its outputs."""

_TIMEOUT_S = 120.0
_MAX_RANK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a user's function.

    Attributes:
        arrays: offered by name.
        scalars: offered by name, as Python numbers.
        optional: names among both that are passed only where the function asks for them by name; ``**keywords``
            do not get them.
    """

    arrays: Mapping[str, Array]
    scalars: Mapping[str, int | float]
    optional: frozenset[str] = frozenset()


def run_reference(
    task: Task,
    workloads: Sequence[Workload],
    *,
    timeout_s: float = _TIMEOUT_S,
    memory_bytes: int | None = None,
) -> list[dict[str, Array]]:
    """Expected outputs of workloads by the Python reference, one process for all of them.

    The function may ask for any argument of the kernel by name (floating arrays come as float64, complex ones as
    complex128, integers as they are, scalars as Python numbers, also those passed by pointer) and for the problem's
    sizes. A structure is one object with its members as attributes, and an output in it is returned under its full
    name, such as ``"c.energy"``. A function with ``**keywords`` gets every input, inout and scalar.

    Args:
        task: with a reference of kind ``python``.
        workloads: what to call it on, in order.
        timeout_s: seconds of wall time for all calls together.
        memory_bytes: limit of the process's private memory; three quarters of the machine's when left out.

    Returns:
        For each workload the values of every output and inout argument by name, and :data:`RETURN` where the
        kernel returns a value: float64, complex128, or integers where the function gave integers.

    Raises:
        SpecError: the file or the function is missing, the function raises, or gives something else.
        BaselineError: the process died, or took too long.
    """
    reference = task.verify.reference
    path = Path(task.kernel.folder, reference.file)
    outputs = {a.name: a for a in task.arguments if a.role in (ArgumentRole.OUTPUT, ArgumentRole.INOUT)}
    calls = [_reference_call(task, workload) for workload in workloads]
    answers = call_function(
        path, reference.function, calls, timeout_s=timeout_s, memory_bytes=memory_bytes, keyed=True
    )
    origin = f"{path.name}:{reference.function}"
    results = []
    for workload, answer in zip(workloads, answers, strict=True):
        wanted = {n: () if a.by_pointer else workload.arrays[n].shape for n, a in outputs.items()}
        kinds = {name: numpy_dtype(a.dtype) for name, a in outputs.items()}
        if task.kernel.returns is not None:
            wanted[RETURN], kinds[RETURN] = (), np.dtype(task.kernel.returns)
        for name in sorted(set(answer) - set(wanted)):
            raise SpecError(f"{origin} returns {name!r}, no output of the kernel", _outputs_hint(wanted))
        given: dict[str, Array] = {}
        for name, extents in wanted.items():
            given |= _output(origin, name, answer, extents, kinds[name])
        single = {n for n, a in outputs.items() if a.by_pointer}
        results.append({n: values.reshape(1) if n in single else values for n, values in given.items()})
    return results


def call_initialiser(path: Path, function: str, *, sizes: Mapping[str, int], seed: int) -> Array:
    """The array that an initialiser returns.

    It is called with those sizes that it asks for by name (all of them with ``**keywords``), and with ``seed``
    where it asks for it.

    Raises:
        SpecError, BaselineError: as :func:`run_reference`.
    """
    call = Call(arrays={}, scalars={**sizes, "seed": seed}, optional=frozenset({"seed"}))
    return call_function(path, function, [call], keyed=False)[0][""]


def call_function(
    path: Path,
    function: str,
    calls: Sequence[Call],
    *,
    keyed: bool,
    timeout_s: float = _TIMEOUT_S,
    memory_bytes: int | None = None,
) -> list[dict[str, Array]]:
    """Calls a function of a Python file in a fresh process, once for each of ``calls``.

    Args:
        path: the file; its folder can be imported from.
        function: a name in it.
        calls: the arguments of each call.
        keyed: whether a dict of arrays by name is expected, or one array (found under the empty name).
        timeout_s: seconds of wall time for all calls together.
        memory_bytes: limit of the process's private memory; three quarters of the machine's when left out.

    Raises:
        SpecError, BaselineError: as :func:`run_reference`.
    """
    if not path.is_file():
        raise SpecError(f"{path} is missing", "the file is looked up beside the kernel")
    limit = memory_bytes or 3 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    with tempfile.TemporaryDirectory(prefix="tuner-reference-") as name:
        folder = Path(name)
        request = {
            "file": str(path.resolve()),
            "function": function,
            "keyed": keyed,
            "memory_bytes": limit,
            "parent": os.getpid(),
            "calls": [_write_call(folder, i, call) for i, call in enumerate(calls)],
        }
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        tail = _run(folder, f"{path.name}:{function}", timeout_s)
        return _read_answers(folder, f"{path.name}:{function}", len(calls), tail, limit)


def _reference_call(task: Task, workload: Workload) -> Call:
    pointed = {a.name: workload.arrays[a.name].item() for a in task.arguments if a.by_pointer}
    own = {a.name for a in task.arguments if a.passing != "wrapper"}
    arrays = {n: _widened(array) for n, array in workload.arrays.items() if n in own and n not in pointed}
    given = {n: v for n, v in {**workload.scalars, **pointed}.items() if n in own}
    unseen = {a.name for a in task.arguments if a.role in (ArgumentRole.OUTPUT, ArgumentRole.SCRATCH)}
    sizes = {n: v for n, v in workload.problem.sizes.items() if n not in arrays and n not in given}
    return Call(arrays=arrays, scalars={**sizes, **given}, optional=frozenset(unseen | set(sizes)))


def _widened(array: Array) -> Array:
    if array.dtype.kind in "biu":
        return array
    # A signalling NaN among the inputs is quiet afterwards, and no warning to anyone.
    with np.errstate(invalid="ignore"):
        return array.astype(_wider(array.dtype))


def _wider(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type with float64 for all floating numbers, also of members."""
    if dtype.names is not None:
        return np.dtype([(name, _wider(dtype[name])) for name in dtype.names])
    if dtype.subdtype is not None:
        return np.dtype((_wider(dtype.base), dtype.shape))
    return np.dtype({"f": np.float64, "c": np.complex128}.get(dtype.kind, dtype))


def _write_call(folder: Path, number: int, call: Call) -> dict[str, Any]:
    files = {}
    for position, (name, array) in enumerate(call.arrays.items()):
        files[name] = f"in-{number}-{position}.npy"
        np.save(folder / files[name], array, allow_pickle=False)
    # JSON has no infinities, and text keeps every digit.
    scalars = {n: [type(v).__name__, repr(v)] for n, v in call.scalars.items()}
    return {"arrays": files, "scalars": scalars, "optional": sorted(call.optional)}


def _environment() -> dict[str, str]:
    # One thread of BLAS: sums in a fixed order, so that expected values are the same in every run.
    single = dict.fromkeys(THREAD_VARIABLES, "1")
    return {**worker_environment(), **single, "PYTHONDONTWRITEBYTECODE": "1"}


def _run(folder: Path, origin: str, timeout_s: float) -> str:
    """Runs the process to its end and returns the last line of what it printed as an error."""
    log = folder / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            # -P: a file in the working folder must not stand in for one of Python's own modules.
            [sys.executable, "-P", "-m", "tuner.evaluators.python_child", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
            env=_environment(),
        )
        try:
            if not _ended(process, timeout_s):
                raise BaselineError(
                    f"{origin} took longer than {timeout_s:g} s",
                    "use smaller verify.problems or a faster reference",
                )
        finally:
            # Also after a clean end: what the user's code left running ends with it.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
            status = process.wait()
    lines = log.read_bytes()[-4096:].decode("utf-8", "replace").strip().splitlines()
    if status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return lines[-1] if lines else f"exit status {status}"


def _ended(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Whether it ends in time, told at once: ``Popen.wait`` with a limit looks every 50 ms, half of a short call."""
    descriptor = os.pidfd_open(process.pid)
    try:
        watched = select.poll()
        watched.register(descriptor, select.POLLIN)
        return bool(watched.poll(1e3 * timeout_s))
    finally:
        os.close(descriptor)


def _read_answers(folder: Path, origin: str, count: int, tail: str, limit: int) -> list[dict[str, Array]]:
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise BaselineError(
            f"{origin} ended without a result ({tail})", f"its memory limit is {limit / 2**30:.1f} GiB"
        ) from None
    if not isinstance(result, dict):
        raise BaselineError(
            f"{origin} ended without a result ({tail})", "call the function by hand with small arrays"
        )
    if "error" in result:
        raise _reported(result)
    answers = result.get("answers")
    if not isinstance(answers, list) or len(answers) != count:
        raise BaselineError(
            f"{origin} ended without a result ({tail})", "call the function by hand with small arrays"
        )
    return [{str(n): _load(folder / Path(f).name, origin, limit) for n, f in a.items()} for a in answers]


def _reported(result: Mapping[str, Any]) -> TunerError:
    place = None
    if result.get("file"):
        place = Place(file=str(result["file"]), line=int(result.get("line", 0)))
    return SpecError(str(result["error"]), str(result.get("hint", "")), place=place)


def _load(path: Path, origin: str, limit: int) -> Array:
    try:
        with path.open("rb") as stream:
            version = np.lib.format.read_magic(stream)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(stream)
        size = math.prod(shape) * dtype.itemsize
        if len(shape) > _MAX_RANK or dtype.hasobject or size > min(limit, path.stat().st_size):
            raise BaselineError(
                f"{origin} gave an array that cannot be read back", "return plain NumPy arrays of numbers"
            )
        values: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BaselineError(
            f"{origin} gave an array that cannot be read back ({error})",
            "return plain NumPy arrays of numbers",
        ) from None
    return np.ascontiguousarray(values).reshape(shape)


def _outputs_hint(wanted: Mapping[str, tuple[int, ...]]) -> str:
    return "return a dict with " + ", ".join(repr(name) for name in wanted)


def _output(
    origin: str, name: str, answer: Mapping[str, Array], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> dict[str, Array]:
    """What a function gives for one output; of structures one array for each member."""
    if name not in answer:
        raise SpecError(
            f"{origin} does not return {name!r}", _outputs_hint({**dict.fromkeys(answer, ()), name: ()})
        )
    values = answer[name]
    if values.shape != shape:
        raise SpecError(
            f"{origin} returns {name!r} with shape {list(values.shape)}", f"the kernel's has {list(shape)}"
        )
    given, wanted = separate_members(name, values), separate_members(name, np.empty(0, dtype))
    if given.keys() != wanted.keys():
        members = ", ".join(each.removeprefix(f"{name}.") for each in wanted)
        hint = f"structures with {members}" if dtype.names else "an array of numbers"
        raise SpecError(f"{origin} returns {name!r} with other members", f"the kernel's are {hint}")
    return {each: _numbers(origin, each, given[each], wanted[each].dtype.kind) for each in wanted}


def _numbers(origin: str, name: str, values: Array, kind: str) -> Array:
    if values.dtype.kind == "c" and kind != "c":
        raise SpecError(f"{origin} returns complex numbers for {name!r}", "the kernel's output is real")
    if values.dtype.kind not in "biufc":
        raise SpecError(f"{origin} returns no numbers for {name!r}", "return plain NumPy arrays of numbers")
    if values.dtype.kind in "iub" and kind in "iub":
        return values
    return values.astype(np.complex128 if kind == "c" else np.float64)
