"""What stands for NVIDIA's headers, precompiled: clang parses it once in a process for all sources with equal flags.

What a source's tree is printed of leaves out declarations of a precompiled header, nearly all that there would be.

Source: https://clang.llvm.org/docs/PCHInternals.html
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path

from tuner.core.scratch import ScratchFolder
from tuner.evaluators.host.search_words import without_paths
from tuner.spec.reading.clang_forks import run_clang

__all__ = ["CUDA_WORDS", "INCLUDED", "SEARCHED", "precompiled"]

CUDA_WORDS = (
    *("--cuda-host-only", "-nocudainc", "-nocudalib", "-nostdinc++", "-fdeclspec", "-std=c++17"),
    "-ferror-limit=0",
)
"""Options for every reading of CUDA."""
_PACKAGES = tuple(map(package_files, ("tuner.evaluators.emulation", "tuner.evaluators.cuda")))
SEARCHED = tuple(word for place in _PACKAGES for word in ("-I", str(place.joinpath("include"))))
"""Folders with what NVIDIA's headers declare."""
_HEADER = "tuner_reading.h"
INCLUDED = ("-include", _HEADER)
"""Options that put it before a source as text."""
_LOCK = threading.Lock()


def precompiled(clang: str, flags: Sequence[str]) -> tuple[str, ...]:
    """Options that put it before a source, precompiled; as text where clang does not take it so.

    Args:
        clang: its path.
        flags: of the source; those that name files or folders play no part.
    """
    with _LOCK:
        # Each process has its own: a fork may live longer than its parent, which removes what it made.
        return _made(os.getpid(), clang, without_paths(flags))[0]


@cache
def _made(_process: int, clang: str, flags: tuple[str, ...]) -> tuple[tuple[str, ...], ScratchFolder]:
    folder = ScratchFolder("headers")
    header, place = Path(SEARCHED[1], _HEADER), Path(folder.name, "headers.pch")
    words = [*CUDA_WORDS, *flags, *SEARCHED, "-w", "-c", "-Xclang", "-emit-pch", "-x", "cuda", str(header)]
    status, *_ = run_clang(clang, [*words, "-o", str(place)], folder.name)
    return ("-Xclang", "-include-pch", "-Xclang", str(place)) if status == 0 else INCLUDED, folder
