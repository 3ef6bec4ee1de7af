"""A winner as machine code that an application's driver loads beside the application's own module.

Reads bytes; needs no GPU and may not load anything.
"""

from __future__ import annotations

import re

from tuner.core.errors import UsageError
from tuner.core.protocols import LoadedImage
from tuner.core.types import Resolved, Task, Value
from tuner.evaluators.cuda.cubin import kernel_symbols, variables
from tuner.evaluators.cuda.entries import entry_expression
from tuner.spaces.launch import geometry

__all__ = ["image_of"]


def image_of(task: Task, code: bytes, resolved: Resolved) -> LoadedImage:
    """What is loaded in the place of the recorded kernel.

    Args:
        task: that was tuned.
        code: of the winner's build, a cubin.
        resolved: the winner's configuration.

    Raises:
        UsageError: it is no cubin, its kernel cannot be told from others, or kernels may write to variables of it.
    """
    name = task.kernel.name
    try:
        symbols, found = kernel_symbols(code), variables(code)
    except ValueError:
        raise UsageError(f"the winner of {name} is no cubin", "tune again with this version") from None
    written = sorted(variable for variable, constant in found.items() if not constant)
    if written:
        raise UsageError(
            f"the winner of {name} has the variable {written[0]}, which kernels may write to",
            "the application's own would not follow; declare it __constant__, or pass it as an argument",
        )
    values: dict[str, Value] = {**resolved.macros, **resolved.scalars}
    launch = resolved.launch_of(task)
    return LoadedImage(
        code=code,
        symbol=_symbol(symbols, entry_expression(task.kernel.entry, values), name),
        constants=tuple(sorted(found)),
        geometries=tuple(geometry(launch, values, problem.sizes) for problem in task.problems),
    )


def _symbol(symbols: list[str], entry: str, name: str) -> str:
    """The kernel that an entry names among those of an image."""
    base = entry.partition("<")[0].strip().rpartition("::")[2]
    mangled = re.compile(rf"_Z.*(?<!\d){len(base)}{re.escape(base)}")
    same = [s for s in symbols if s == base] or [s for s in symbols if mangled.match(s)]
    if len(same) != 1 and len(symbols) != 1:
        shown = ", ".join(sorted(symbols)) or "none"
        raise UsageError(
            f"the winner of {name} has several kernels that may be {entry}: {shown}",
            "leave the others out of the source, and tune again",
        )
    return (same or symbols)[0]
