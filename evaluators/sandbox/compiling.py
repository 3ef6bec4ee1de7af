"""Runs a compiler once on text that nobody has looked at, confined and within limits.

For single runs; :class:`tuner.evaluators.host.frontend.FrontEnd` keeps threads for many. May not run what comes out.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from tuner.evaluators.sandbox.confine import confine_builder, set_limits

__all__ = ["LIMITS", "Ended", "kill_group", "run_compiler"]

LIMITS = {resource.RLIMIT_AS: 8 << 30, resource.RLIMIT_FSIZE: 1 << 30, resource.RLIMIT_CORE: 0}
"""Of every run of a compiler."""

_MOST_ERRORS = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: its status, ``None`` where it took too long, and the beginning of what it said."""

    status: int | None
    errors: str


def run_compiler(
    command: Sequence[str],
    folder: str,
    *,
    timeout_s: float,
    read: Iterable[str] = (),
    most_bytes: int = LIMITS[resource.RLIMIT_FSIZE],
) -> Ended:
    """Runs a compiler that reads its own installation, the system's programs and ``read``, and writes to ``folder``.

    The kernel confines threads and what they start, so a thread of its own does this.

    Args:
        command: the compiler by its path, and its words.
        folder: where it runs.
        timeout_s: wall time; then it is killed with all that it has started.
        read: files and folders.
        most_bytes: of a file that it writes.

    Raises:
        OSError: it does not start, or the kernel refuses to confine it.
    """
    # Two levels up from a compiler are its libraries and headers.
    own = str(Path(command[0]).parents[1])
    limits = {**LIMITS, resource.RLIMIT_FSIZE: most_bytes}
    started: list[subprocess.Popen[bytes]] = []
    ended: Future[Ended] = Future()

    def run() -> None:
        try:
            confine_builder(read=[own, *(str(Path(path).resolve()) for path in read)], write=[folder])
            ended.set_result(_run(command, folder, timeout_s, limits, started))
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=run, name="compiler", daemon=True).start()
    try:
        return ended.result()
    except BaseException:
        # Interrupted while it runs: nobody else would end it before its time is over.
        for process in started:
            kill_group(process)
        raise


def _run(
    command: Sequence[str],
    folder: str,
    timeout_s: float,
    limits: dict[int, int],
    started: list[subprocess.Popen[bytes]],
) -> Ended:
    # A file, so that its limit bounds what is kept of what is said.
    with tempfile.TemporaryFile(dir=folder) as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={"LC_ALL": "C", "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            process_group=0,
        )
        started.append(process)
        set_limits(limits, process=process.pid)
        try:
            status: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.wait()
            status = None
        errors.seek(0)
        return Ended(status=status, errors=errors.read(_MOST_ERRORS).decode("utf-8", "replace"))


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kills a process that leads a group, with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
