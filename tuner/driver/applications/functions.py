"""Functions of an application's own code: what a spec says of one, and the libraries that stand before it.

May not run the application.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files as package_files
from pathlib import Path

from tuner.core.errors import UsageError
from tuner.core.passing import Layout
from tuner.core.types import Resolved, Task
from tuner.evaluators import registry as backends
from tuner.evaluators.host.patching import movable_head
from tuner.evaluators.host.shared import shared_library
from tuner.recorders.recordings.c_text import is_address
from tuner.recorders.recordings.executables import OwnFunction, own_function, variables_of
from tuner.recorders.recordings.function import Interposed, OwnHead
from tuner.spec.load import LoadedSpec

__all__ = ["as_given", "function_library", "function_of", "head_of"]

_IDENTIFIER = re.compile(r"(?!wrapper_function$|__)[A-Za-z_]\w*")
_LEAST_ARRAY, _MOST_ARRAYS = 16, 4096
"""Bytes of the smallest of an executable's variables that a pointer is looked for in, and how many of them."""
_NAME = re.compile(r"[^A-Za-z0-9_.-]+")


def as_given(spec: LoadedSpec) -> Resolved:
    """The configuration of the source as given.

    Raises:
        SpecError: the spec's space is wrong.
    """
    backend = backends.create(spec.task.backend)
    space = spec.space(backend.pass_catalogue(spec.task.target) if spec.wants_passes else None)
    return space.resolve(space.default())


def function_of(task: Task, symbol: str, layout: Layout, command: Sequence[str] = ()) -> Interposed:
    """The function that a task describes.

    Args:
        task: with arguments in call order.
        symbol: its name in the application's object code.
        layout: of the structures that it takes.
        command: the application; where its executable defines the function, that one is meant.

    Raises:
        UsageError: it does, and the function is such that nothing can be put before it; or the spec gives arguments by
            their addresses alone.
        MachineError: there is no LLVM to look at it with.
    """
    unknown = next((a.name for a in task.own_arguments if is_address(a)), None)
    if unknown is not None:
        cure = "put the winner into the source: tuner ab RUN --build COMMAND, tuner export RUN -o FOLDER"
        raise UsageError(
            f"what {unknown} leads to is not known here, so no call can be looked at before it", cure
        )
    found = own_function(command[0], symbol) if command else None
    return Interposed(
        entry=task.kernel.function,
        symbol=symbol,
        arguments=task.own_arguments,
        passed=task.kernel.passed,
        layout=layout,
        returns=task.kernel.returns,
        sizes=task.problems[0].sizes,
        own=None if found is None else head_of(found, task.kernel.function),
    )


def head_of(function: OwnFunction, name: str) -> OwnHead:
    """How a function of an executable is stood before, with the arrays among the executable's variables.

    Raises:
        UsageError: its first bytes cannot be moved for certain.
        MachineError: there is no LLVM to look at it with.
    """
    head = movable_head(function.code, name)
    variables = {place for places in variables_of(function.path).values() for place in places}
    arrays = sorted((v for v in variables if v[1] >= _LEAST_ARRAY), key=lambda v: -v[1])[:_MOST_ARRAYS]
    return OwnHead(
        path=str(function.path),
        address=function.address,
        first=function.code[: head.size],
        moved=head.moved,
        targets=head.targets,
        variables=tuple(sorted(arrays)),
    )


def function_library(text: str, name: str, symbol: str) -> Path:
    """The library of a text of :mod:`tuner.recorders.recordings`, made where it is missing.

    Args:
        text: what follows ``common.c`` and ``captures.c``.
        name: for the file.
        symbol: of the function that it stands before. Where the text has a name of its own like that, its own is
            another one: both would be one in object code.

    Raises:
        MachineError: it cannot be made.
    """
    folder = package_files("tuner.recorders.recordings")
    common = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("common.c", "captures.c"))
    whole = "\n".join((*common, text))
    own = not re.search(rf"\b(?:extern|EXPORT)\b[^;{{]*\b{re.escape(symbol)}\s*\(", whole)
    renamed = f"#define {symbol} tuner_own_{symbol}\n" if own and _IDENTIFIER.fullmatch(symbol) else ""
    return shared_library(f"{renamed}{whole}", _NAME.sub("_", name))
