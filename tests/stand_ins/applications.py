"""Applications of tests: compiled as they are, and a failure of the test where they do not compile."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import needs
import pytest

from tuner.evaluators.host.toolchain import find_toolchain

__all__ = ["AXPY", "AXPY_SPEC", "FLAGS", "compiled", "with_library"]

FLAGS = ("-w", "-O1", "-fno-builtin")


def compiled(
    *words: object, compiler: str = "", flags: Sequence[str] = FLAGS, folder: Path | None = None
) -> None:
    """Compiles and links, by the tuner's clang where no compiler is named; skips only where nothing links a program."""
    needs.c_library()
    command = [compiler or find_toolchain().clang, *flags, *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{shlex.join(command)}\n{done.stderr}")


def with_library(
    folder: Path,
    source: str,
    *,
    main: str = "main.c",
    program: str = "app",
    flags: Sequence[str] = FLAGS,
    links: Sequence[str] = (),
) -> list[str]:
    """The command of an application that calls functions of a library, each made of one source in a folder.

    The library of ``axpy.c`` is ``libaxpy.so``, beside the application.
    """
    library = folder / f"lib{Path(source).stem}.so"
    compiled("-shared", "-fPIC", "-o", library, folder / source, flags=flags)
    compiled("-o", folder / program, folder / main, f"-Wl,-rpath,{folder}", library, *links, flags=flags)
    return [str(folder / program)]


AXPY = """
void axpy(int n, float a, const float *x, float *y) {
    for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}
"""

AXPY_SPEC = """\
kernel: {source: axpy.c, entry: axpy}
problem: {n: 16}
arguments:
  - {name: n, dtype: int32, value: n}
  - {name: a, dtype: float32, value: 1.0}
  - {name: x, dtype: float32, shape: [n]}
  - {name: y, dtype: float32, shape: [n], role: inout}
space: {flags: {vector: ["", "-fno-vectorize"]}, passes: off}
"""
