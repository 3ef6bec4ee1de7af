"""``tune_kernel`` with the argument names of Kernel Tuner, for scripts that are written for it.

Follows the documentation of Kernel Tuner 1.x (https://kerneltuner.github.io/kernel_tuner): the arguments of
``tune_kernel`` in the common cases, and the shape of what it returns. What is not supported is refused by name. The
work is done by :mod:`tuner.api` on a spec that is kept, so that the run can be repeated without the script.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.api import Result, tune_spec
from tuner.compat.kernel_tuner_results import ErrorConfig, as_results, cache_of
from tuner.compat.kernel_tuner_spec import BLOCK_NAMES, Call, write_spec
from tuner.core.errors import BaselineError, UsageError
from tuner.core.files import write_atomically
from tuner.driver.options import Options
from tuner.spec.load import load_spec
from tuner.spec.yaml_places import suggestion

__all__ = ["ErrorConfig", "tune_kernel", "write_kernel_spec"]

_STRATEGIES = {"brute_force": "exhaustive", "random_sample": "random", "bayes_opt": "surrogate"}
_OWN = (
    *("auto", "exhaustive", "evolution", "random", "surrogate"),
    *("optuna-tpe", "optuna-cmaes", "skopt-gp", "skopt-forest"),
)
_OPTIONS = ("max_fevals", "time_limit")
_UNSUPPORTED = {
    "verify": "give answer and atol",
    "defines": "write #define into the source, or give single values in tune_params",
    "smem_args": "declare shared memory inside the kernel",
    "cmem_args": "pass the values as an argument",
    "texmem_args": "pass the values as an argument",
    "compiler": "the source is built by clang, NVRTC or the OpenCL driver",
    "log": "the run record holds everything",
    "simulation_mode": "tuner import reads a cache, and tune searches it",
    "parallel": "candidates are timed one at a time; tuner tune --executor ray uses several devices",
    "observers": "only time is measured",
    "objective": "only time is measured",
    "objective_higher_is_better": "only time is measured",
    "objectives": "only time is measured",
}
_MEANINGLESS = {"device": 0, "platform": 0, "verbose": False}

Row = dict[str, Any]


def tune_kernel(
    kernel_name: str,
    kernel_source: str | Path | Sequence[str | Path],
    problem_size: int | str | Sequence[int | str],
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    grid_div_x: Sequence[str] | None = None,
    grid_div_y: Sequence[str] | None = None,
    grid_div_z: Sequence[str] | None = None,
    restrictions: str | Sequence[str] | None = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    lang: str | None = None,
    compiler_options: Sequence[str] | None = None,
    iterations: int | None = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    strategy: str | None = None,
    strategy_options: Mapping[str, Any] | None = None,
    cache: str | Path | None = None,
    metrics: Mapping[str, Callable[[Row], Any]] | None = None,
    seed: int | None = None,
    *,
    out: str | Path = "tuner-runs",
    **more: Any,
) -> tuple[list[Row], dict[str, Any]]:
    """Tunes a kernel as Kernel Tuner's function of this name does.

    Args:
        kernel_name: the function.
        kernel_source: its text or its file; of several files the first holds it, and the others are compiled with it.
        problem_size: along each dimension; a text may name tunables.
        arguments: NumPy arrays and scalars, in call order.
        tune_params: values by name; each is a macro of the source.
        grid_div_x: what the problem's size is divided by for the grid, tunables or expressions; the block's size
            when left out. ``grid_div_y``, ``grid_div_z`` alike.
        restrictions: expressions that have to hold, as text.
        answer: the expected value of each argument after the call, ``None`` for those not looked at. Without it the
            first configuration's output is what the others must give.
        atol: allowed absolute error where ``answer`` is given.
        lang: ``C``, ``OpenCL`` or ``CUDA``; from the source when left out.
        compiler_options: flags of every build.
        iterations: timed calls of a candidate at least; candidates that are clearly worse get fewer.
        block_size_names: the tunables that give the block's size; ``block_size_x``, ``_y``, ``_z`` when left out.
        quiet: print nothing.
        strategy: ``brute_force`` (also when left out), ``random_sample``, ``bayes_opt``, or a searcher of this package.
        strategy_options: ``max_fevals``; ``time_limit`` in seconds.
        cache: JSON file to write the results to in Kernel Tuner's format; it may not exist yet.
        metrics: functions of a result, added to it by name.
        seed: of every random stream.
        out: folder for the run record and the spec.
        more: Kernel Tuner's other arguments, which are refused by name.

    Returns:
        ``(results, env)``. A result holds the tunables, ``time`` (median, ms), ``times`` (ms), ``compile_time``,
        ``verification_time`` and ``benchmark_time`` (ms); where a candidate failed ``time`` is an
        :class:`ErrorConfig`. ``env`` holds ``device_name``, ``best_config`` (the result that was confirmed in fresh
        processes, else the first one), ``speedup`` and its ``speedup_ci95``, the ``run`` record and the ``spec``.

    Raises:
        UsageError: an argument that is not supported or cannot be; one line names it.
        SpecError: tunables, restrictions or arguments that do not fit the kernel.
        BaselineError: the first configuration does not build, or its output is not ``answer``.
        MachineError: there is no device.
    """
    _refuse(more)
    if iterations is not None and (isinstance(iterations, bool) or iterations < 1):
        raise UsageError(f"iterations is {iterations!r}", "give a whole number of at least 1")
    for metric, function in (metrics or {}).items():
        if not callable(function):
            raise UsageError(
                f"the metric {metric!r} is {function!r}",
                "give a function of a result: lambda p: 1 / p['time']",
            )
    target = _cache_path(cache)
    budget = _budget(strategy_options, tune_params)
    searcher = _searcher(strategy)
    spec = write_kernel_spec(
        kernel_name, kernel_source, problem_size, arguments, tune_params,
        grid_div=(grid_div_x, grid_div_y, grid_div_z), restrictions=restrictions, answer=answer, atol=atol, lang=lang,
        compiler_options=compiler_options, block_size_names=block_size_names, folder=Path(out) / "kernel_tuner",
    )  # fmt: skip
    settings: dict[str, Any] | None = None
    if iterations is not None:
        # As many as were asked for, however long a call takes.
        settings = {"rounds_calls": (-(-iterations // 2), iterations, iterations), "enough_s": 1e9}
    (loaded,) = load_spec(spec)
    options = Options(strategy=searcher, seed=seed, settings=settings, **budget)
    result = tune_spec(loaded, options, out=Path(out))
    if result.outcome.failed:
        raise BaselineError(result.outcome.summary.message, f"tuner check {spec} says more")
    results, env = as_results(result, list(tune_params), metrics or {})
    env["spec"] = str(spec)
    if target is not None:
        text = json.dumps(cache_of(results, env, kernel_name, problem_size, tune_params), indent=1)
        write_atomically(target, (text + "\n").encode())
    if not quiet:
        _print_best(result, env["best_config"], tune_params)
    return results, env


def write_kernel_spec(
    kernel_name: str,
    kernel_source: str | Path | Sequence[str | Path],
    problem_size: int | str | Sequence[int | str],
    arguments: Sequence[Any],
    tune_params: Mapping[str, Sequence[Any]],
    *,
    grid_div: tuple[Sequence[str] | None, ...] = (None, None, None),
    restrictions: str | Sequence[str] | None = None,
    answer: Sequence[Any] | None = None,
    atol: float = 1e-6,
    lang: str | None = None,
    compiler_options: Sequence[str] | None = None,
    block_size_names: Sequence[str] | None = None,
    target: str | None = None,
    folder: str | Path,
) -> Path:
    """The spec of a call of :func:`tune_kernel`, written with its source and arrays into a folder of its own.

    Args:
        grid_div: ``grid_div_x``, ``grid_div_y``, ``grid_div_z``.
        target: an architecture, for example ``sm_90``; this machine's device when left out.
        folder: where that folder is made; it is named after the kernel and what the call says.

    Returns:
        The YAML file; ``tuner check`` and ``tune`` take it.

    Raises:
        UsageError, SpecError: as :func:`tune_kernel`.
    """
    names = tuple(block_size_names or ())
    for name in names:
        if name not in tune_params:
            hint = suggestion(name, list(tune_params), "list it")
            raise UsageError(f"block_size_names has {name!r}, which is no tunable", hint)
    call = Call(
        name=kernel_name,
        source=kernel_source,
        problem=(problem_size,) if isinstance(problem_size, int | str) else tuple(problem_size),
        arguments=tuple(arguments),
        tunables={name: tuple(values) for name, values in tune_params.items()},
        divisors=tuple(None if d is None else tuple(map(str, d)) for d in grid_div),
        blocks=(*names, *BLOCK_NAMES[len(names) :]),
        restrictions=_texts(restrictions),
        answer=None if answer is None else tuple(answer),
        atol=atol,
        language=lang,
        options=tuple(compiler_options or ()),
        target=target,
    )
    return write_spec(call, Path(folder))


def _refuse(more: Mapping[str, Any]) -> None:
    known = list(inspect.signature(tune_kernel).parameters)
    for name, value in more.items():
        if name in _MEANINGLESS:
            if value != _MEANINGLESS[name]:
                raise UsageError(
                    f"tune_kernel: {name}={value!r} is not supported here",
                    f"leave {name} out; tuner doctor lists devices",
                )
        elif name in _UNSUPPORTED:
            if value not in (None, False):
                raise UsageError(f"tune_kernel: {name} is not supported here", _UNSUPPORTED[name])
        else:
            hint = suggestion(name, known, "see docs/kernel-tuner.md")
            raise UsageError(f"tune_kernel has no argument {name!r}", hint)


def _texts(restrictions: Any) -> tuple[str, ...]:
    given = (
        [restrictions]
        if isinstance(restrictions, str) or callable(restrictions)
        else list(restrictions or ())
    )
    for item in given:
        if not isinstance(item, str):
            raise UsageError(
                "restrictions has a function, and a spec holds text only" if callable(item)
                else f"restrictions has {item!r}",
                'write it as text, for example "block_size_x * block_size_y <= 1024"',
            )  # fmt: skip
    return tuple(given)


def _searcher(strategy: str | None) -> str:
    name = strategy or "brute_force"
    if name in _STRATEGIES:
        return _STRATEGIES[name]
    if name in _OWN:
        return name
    raise UsageError(f"the strategy {name!r} is not there", "one of " + ", ".join([*_STRATEGIES, *_OWN]))


def _budget(options: Mapping[str, Any] | None, tunables: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    given = dict(options or {})
    for name in given:
        if name not in _OPTIONS:
            raise UsageError(
                f"the strategy option {name!r} is not supported here", "one of " + ", ".join(_OPTIONS)
            )
    evaluations, seconds = given.get("max_fevals"), given.get("time_limit")
    size = math.prod(len(values) for values in tunables.values())
    if evaluations is None and seconds is None:
        evaluations = max(1, size)
    return {"evaluations": evaluations, "minutes": None if seconds is None else seconds / 60}


def _cache_path(cache: str | Path | None) -> Path | None:
    if cache is None:
        return None
    path = Path(cache)
    path = path if path.suffix == ".json" else path.with_name(f"{path.name}.json")
    if path.exists():
        raise UsageError(
            f"the cache {path} exists already, and results are not taken from one",
            "name another file; tuner import makes a space that can be searched of it",
        )
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the cache", "make it first")
    return path


def _print_best(result: Result, best: Row, tunables: Mapping[str, Any]) -> None:
    shown = ", ".join(f"{name}={best[name]}" for name in tunables)
    low, high = result.speedup_interval
    print("best performing configuration:")
    print(f"{shown}, time={best['time']:.3g}ms")
    if result.improved:
        print(
            f"{result.speedup:.3f} times faster than the first, 95% interval {low:.3f} to {high:.3f}, confirmed"
        )
    else:
        print("no other was confirmed to be faster than the first")
    print(f"run record: {result.path}")
