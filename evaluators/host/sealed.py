"""Memory files that nobody can change any more: how inputs and code reach a process that is not trusted.

May not know what a file holds.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Sequence

from tuner.core.errors import MachineError

__all__ = ["memory_file", "seal", "sealed_file"]

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_PATIENCE_S = 20.0


def memory_file(name: str) -> int:
    """An empty memory file that can be sealed.

    Args:
        name: shown in ``/proc``.

    Returns:
        A descriptor, closed on exec; the caller closes it.
    """
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def sealed_file(name: str, parts: Sequence[bytes | memoryview]) -> int:
    """A memory file that nobody can change any more.

    Args:
        name: shown in ``/proc``.
        parts: content, in order.

    Returns:
        A descriptor, closed on exec; the caller closes it.
    """
    descriptor = memory_file(name)
    for part in parts:
        view = memoryview(part)
        while len(view):
            view = view[os.write(descriptor, view) :]
    seal(descriptor)
    return descriptor


def seal(descriptor: int, *, patience_s: float = _PATIENCE_S) -> None:
    """Forbids all further changes; no writable mapping may exist.

    The kernel refuses with ``EBUSY`` while anything holds one of the file's pages for a moment (it moves or
    compacts memory, a pipe has taken a page), so a refusal is tried again.

    Args:
        descriptor: of a memory file.
        patience_s: how long to try, in seconds.

    Raises:
        MachineError: something held a page all that time.
    """
    deadline = time.monotonic() + patience_s
    pause = 0.01
    while True:
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            if time.monotonic() > deadline:
                raise MachineError(
                    f"a memory file could not be sealed within {patience_s:g} s: its pages are in use",
                    "try again when the machine has memory to spare",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.5)
