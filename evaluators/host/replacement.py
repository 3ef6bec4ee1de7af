"""What a winner of the host backend needs to know of an application that it is put into."""

from __future__ import annotations

from tuner.core.errors import UsageError
from tuner.core.types import Kernel, Resolved, Status
from tuner.evaluators.host import frontend as front
from tuner.evaluators.host.compiler import HostCompiler
from tuner.evaluators.host.exposing import is_static
from tuner.evaluators.host.flags import sort_flags
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.symbols import entry_symbol

__all__ = ["USUAL_LIBRARIES", "symbol_of"]

USUAL_LIBRARIES = ("libm.so.6", "libmvec.so.1", "libgcc_s.so.1")
"""What every candidate may call; an application need not have loaded them."""


def symbol_of(compiler: HostCompiler, kernel: Kernel, resolved: Resolved) -> str:
    """What the kernel's entry is called in object code: a C++ function has its mangled name there.

    Args:
        compiler: that makes the object.
        kernel: as given.
        resolved: a configuration that it builds with.

    Raises:
        UsageError: the source does not build here, or has no such function or several; it uses global variables, or is
            a loop.
    """
    name = kernel.function
    if kernel.alone:
        raise UsageError(
            f"{name} is a loop, which no application calls",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if is_static(kernel.variant, name):
        raise UsageError(
            f"{name} is static in its file, so nothing from outside can take its place",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if kernel.variables:
        raise UsageError(
            f"{name} finds {kernel.variables[0].name} in a global variable, which is unknown outside of its file",
            "put the winner into the source: tuner ab RUN --build, tuner export RUN -o FOLDER",
        )
    if kernel.language == "c":
        return name
    if kernel.wrapped and not kernel.flattened:
        raise UsageError(
            f"{kernel.wrapped} is a template: an application calls its own instance of it, or has it inlined",
            'record and replace an extern "C" function that calls it',
        )
    flags = sort_flags(resolved.flags, folder=kernel.folder)
    status, output, code = compiler.front.object_of(front.Source.of(kernel), flags, resolved.macros)
    if status is not Status.OK:
        said = output.strip().split("\n")[0]
        raise UsageError(f"the source of {name} does not compile here: {said}", "correct it")
    symbol = entry_symbol(Object(code).exports, name)
    if symbol is None:
        raise UsageError(
            f"the source has no function {name!r} that others can call, or several of that name",
            "name it with its namespaces, such as space::name",
        )
    return symbol
