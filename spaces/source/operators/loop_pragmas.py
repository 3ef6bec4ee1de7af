"""What a compiler is asked for a loop, in the words of the one that builds the kernel.

gcc takes no name of a macro for a number here, so what is asked of it has numbers of its own.

Source: Clang language extensions, "Extensions for loop hint optimizations"; GCC manual, "Loop-Specific Pragmas".
"""

from __future__ import annotations

from tuner.core.compilers import CLANG, GCC
from tuner.spaces.source.syntax import For, Function

__all__ = [
    "asks_unrolling",
    "fully_unrolled",
    "independent",
    "is_fully_unrolled",
    "is_under_directive",
    "of_width",
]

_FULL = {CLANG: ("clang loop unroll(full)",), GCC: ("GCC unroll 256",)}
"""gcc unrolls whole a loop of no more rounds."""
_INDEPENDENT = {CLANG: ("clang loop vectorize(assume_safety)",), GCC: ("GCC ivdep",)}


def fully_unrolled(function: Function) -> tuple[str, ...]:
    """To write every round of a loop out; nothing where the compiler cannot be asked."""
    return _FULL.get(function.compiler, ())


def is_fully_unrolled(loop: For) -> bool:
    """Whether a compiler is asked to write every round of a loop out."""
    return any(pragma == "unroll" or (pragma,) in _FULL.values() for pragma in loop.pragmas)


def asks_unrolling(loop: For) -> bool:
    """Whether a compiler is asked to unroll a loop in any way."""
    return any("unroll" in pragma for pragma in loop.pragmas)


def is_under_directive(loop: For) -> bool:
    """Whether a directive of OpenMP stands before a loop: compilers take nothing between the two."""
    return any(pragma.split()[:1] == ["omp"] for pragma in loop.pragmas)


def independent(function: Function) -> tuple[str, ...]:
    """That no round of a loop waits for what another writes; nothing where the compiler cannot be told."""
    return _INDEPENDENT.get(function.compiler, ())


def of_width(function: Function, width: str, interleaved: str) -> tuple[str, ...]:
    """For vectors of a width, several of them at a time; nothing where the compiler chooses by itself.

    Args:
        function: of the loop.
        width: elements of a vector, a number or a name.
        interleaved: vectors at a time, likewise.
    """
    if function.compiler != CLANG:
        return ()
    return (f"clang loop vectorize_width({width}) interleave_count({interleaved})",)
