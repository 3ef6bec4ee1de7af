"""What ``gpu.py`` compares with beside nvcc: Kernel Tuner on the same space, a vendor library.

Each is used where it is installed; a rival that fails is a line in the report, never the end of the benchmark.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from tuner.core.types import Task, Value
from tuner.evaluators.cuda.compiler import geometry_of
from tuner.evaluators.workloads import Workload, make_workload
from tuner.spaces.space import Space

__all__ = ["Unavailable", "kernel_tuner_best", "library_call_s", "work_of"]

CALLS = 30
MOST_SHAPES = 4096


class Unavailable(Exception):
    """The rival is not there or cannot do this job; the text says why."""


def kernel_tuner_best(task: Task, space: Space, seconds: float) -> dict[str, Value]:
    """The configuration that Kernel Tuner's default strategy finds in the same space and time.

    Raises:
        Unavailable: it is not installed, fails, or finds nothing.
    """
    try:
        import kernel_tuner
    except ImportError:
        raise Unavailable("Kernel Tuner is not installed") from None
    workload = make_workload(task, task.problems[0], {}, seed=1)
    names = [p.name for p in space.parameters]
    shapes = _shapes(task, space)
    axes = {f"block_size_{axis}": sorted({s[1][i] for s in shapes.values()}) for i, axis in enumerate("xyz")}

    def key(values: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(values[n] for n in names)

    def allowed(values: Mapping[str, Any]) -> bool:
        shape = shapes.get(key(values))
        return shape is not None and all(values[n] == shape[1][i] for i, n in enumerate(axes))

    shared = task.launch is not None and task.launch.shared_bytes is not None
    try:
        results, _ = kernel_tuner.tune_kernel(
            task.kernel.entry,
            task.kernel.variant.files[0].text,
            lambda values: shapes[key(values)][0],
            _arguments(task, workload),
            {p.name: list(p.values) for p in space.parameters} | axes,
            grid_div_x=[],
            grid_div_y=[],
            grid_div_z=[],
            restrictions=allowed,
            lang="CUPY",
            smem_args={"size": lambda values: shapes[key(values)][2]} if shared else None,
            strategy_options={"time_limit": seconds},
            quiet=True,
        )
    except Exception as error:
        # A rival's own errors can be of any kind, and none of them may end the comparison.
        raise Unavailable(f"Kernel Tuner: {type(error).__name__}: {str(error)[:100]}") from error
    timed = [r for r in results if isinstance(r.get("time"), float | int)]
    if not timed:
        raise Unavailable("Kernel Tuner found nothing that runs")
    best = min(timed, key=lambda r: r["time"])
    return {name: best[name] for name in names}


def _shapes(task: Task, space: Space) -> dict[tuple[Any, ...], tuple[list[int], list[int], int]]:
    """Grid, block and shared bytes of every valid configuration, by its values."""
    found = {}
    listing = space.listing()
    if listing is None or len(listing) > MOST_SHAPES:
        raise Unavailable(f"Kernel Tuner: over {MOST_SHAPES} shapes")
    for row in range(len(listing)):
        configuration = {**space.default(), **listing.configuration(row)}
        resolved = space.resolve(configuration)
        shape = geometry_of(task, resolved, task.problems[0].sizes)
        values = tuple(configuration[p.name] for p in space.parameters)
        found[values] = (list(shape.grid), list(shape.block), shape.shared_bytes)
    return found


def _arguments(task: Task, workload: Workload) -> list[Any]:
    import numpy as np

    return [
        workload.arrays[a.name] if a.is_array else np.dtype(a.dtype).type(workload.scalars[a.name])
        for a in task.arguments
    ]


def library_call_s(name: str, task: Task, *, flush_bytes: int, warm: bool) -> float:
    """Median seconds of the vendor library's call for an example, timed as candidates are.

    Raises:
        Unavailable: CuPy is not installed or no library call does this job.
    """
    try:
        import cupy
    except ImportError:
        raise Unavailable("CuPy is not installed") from None
    workload = make_workload(task, task.problems[0], {}, seed=2)
    arrays = {n: cupy.asarray(a) for n, a in workload.arrays.items()}
    call = _library_call(cupy, name, arrays)
    flush = cupy.zeros(flush_bytes, dtype=cupy.uint8)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    times = []
    call()
    for _ in range(CALLS):
        cupy.cuda.Device().synchronize()
        flush.fill(0)
        if warm:
            for array in arrays.values():
                array.copy()
        start.record()
        call()
        end.record()
        cupy.cuda.Device().synchronize()
        times.append(cupy.cuda.get_elapsed_time(start, end) * 1e-3)
    return statistics.median(times)


def _library_call(cupy: Any, name: str, arrays: Mapping[str, Any]) -> Callable[[], Any]:
    if name == "matmul" and {"a", "b", "c"} <= arrays.keys():
        return lambda: cupy.matmul(arrays["a"], arrays["b"], out=arrays["c"])
    if name == "transpose" and {"matrix", "out"} <= arrays.keys():
        return lambda: cupy.copyto(arrays["out"], arrays["matrix"].T)
    if name == "reduce_sum" and "x" in arrays:
        return lambda: cupy.sum(arrays["x"])
    raise Unavailable("no library call does this job")


def work_of(name: str, task: Task) -> tuple[float, float]:
    """Floating operations and bytes of one call at least: every array once, and what the algorithm computes."""
    sizes = task.problems[0].sizes
    workload = make_workload(task, task.problems[0], {}, seed=3)
    moved = float(sum(a.nbytes for a in workload.arrays.values()))
    n = sizes.get("n", 0)
    area = sizes.get("height", 0) * sizes.get("width", 0)
    operations = {
        "matmul": 2.0 * n**3,
        "nbody": 20.0 * n**2,
        "conv2d_float_3": 2.0 * 49 * area,
        "reduce_sum": float(n),
        "softmax": 5.0 * sizes.get("rows", 0) * sizes.get("columns", 0),
    }
    return operations.get(name, 0.0), moved
