"""Calls of the C library that Python's own modules lack, with errors as exceptions."""

from __future__ import annotations

import ctypes
import os
from typing import Any

__all__ = ["libc", "prctl", "syscall", "unshare"]

libc = ctypes.CDLL(None, use_errno=True)
"""The C library of this process."""

libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: Any) -> int:
    """One system call.

    Raises:
        OSError: with the kernel's number.
    """
    result: int = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        _raise("system call")
    return result


def prctl(option: int, *arguments: Any) -> int:
    """``prctl``, its missing arguments 0; raises as :func:`syscall`."""
    padded = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    padded += [ctypes.c_ulong(0)] * (4 - len(padded))
    result: int = libc.prctl(ctypes.c_int(option), *padded)
    if result < 0:
        _raise("prctl")
    return result


def unshare(flags: int) -> None:
    """``unshare``; raises as :func:`syscall`."""
    if libc.unshare(ctypes.c_int(flags)) < 0:
        _raise("unshare")


def _raise(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
