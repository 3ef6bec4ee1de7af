"""Builds a kernel with another compiler (gcc, icx, …) for comparison. May not run what it makes.

The compiler is the user's own and named by the user; it runs with the user's PATH and nothing else of the environment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from tuner.core.types import Build, Kernel, Status, Value
from tuner.evaluators.host.exposing import exposed
from tuner.evaluators.host.frontend import Source, first_error, macro_flags
from tuner.evaluators.host.objects import Object
from tuner.evaluators.host.toolchain import find_toolchain

__all__ = ["build_with", "run_compiler"]

_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inc", "")
_TIMEOUT_S = 120.0


def build_with(kernel: Kernel, command: Sequence[str], macros: Mapping[str, Value]) -> Build:
    """One object of all sources; whatever goes wrong is a status.

    Args:
        kernel: its sources as given, entry and folders.
        command: the compiler with its flags, split into words.
        macros: ``-DNAME=value``.
    """
    # The project's own clang need not be on the path.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(find_toolchain().clang).parent)])
    program = shutil.which(command[0], path=path)
    if program is None:
        return Build(status=Status.BUILD_ERROR, message=f"{command[0]} is not installed")
    files = [f for f in kernel.compiled().files if PurePath(f.name).suffix not in _HEADERS]
    with tempfile.TemporaryDirectory(prefix="tuner-other-") as scratch:
        for file in exposed(kernel.compiled(), kernel.entry).files:
            (Path(scratch) / PurePath(file.name).name).write_text(file.text, encoding="utf-8")
        # Several files become one object by a partial link, as the loader takes one.
        how = ["-c"] if len(files) == 1 else ["-r", "-nostdlib"]
        names = [PurePath(f.name).name for f in files]
        words = [program, *command[1:], *macro_flags(macros), *Source.of(kernel).search_words]
        status, output = run_compiler([*words, *how, *names, "-o", "out.o"], scratch)
        code = (Path(scratch) / "out.o").read_bytes() if status is Status.OK else b""
    if status is not Status.OK:
        return Build(status=status, message=output)
    try:
        parsed = Object(code)
    except ValueError as error:
        return Build(status=Status.BUILD_ERROR, message=f"the object cannot be used: {error}")
    if kernel.entry not in parsed.exports:
        message = f'the object exports no {kernel.entry}: a C++ function has to be extern "C" to be compared'
        return Build(status=Status.BUILD_ERROR, message=message)
    digest = hashlib.sha256(code).hexdigest()
    return Build(status=Status.OK, code=code, digest=digest, key=digest, features=parsed.features())


def run_compiler(words: Sequence[str], folder: str) -> tuple[Status, str]:
    """Runs a user's compiler in a folder: what became of it, and the first error or how it failed."""
    environment = {"LC_ALL": "C", "TMPDIR": folder, "PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Status.TIMED_OUT, f"{words[0]} took longer than {_TIMEOUT_S:g} s"
    except OSError as error:
        return Status.BUILD_ERROR, f"{words[0]} does not start: {error.strerror}"
    if done.returncode != 0:
        return Status.BUILD_ERROR, first_error(done.stderr)
    return Status.OK, ""
