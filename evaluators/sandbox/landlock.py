"""Landlock: a process gives up access to files, TCP ports, and to processes outside (Linux 5.13 and newer).

Source: the kernel's documentation, userspace-api/landlock. It holds for the calling thread and for all that it
starts. Descriptors that are already open stay usable.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.evaluators.sandbox.libc import syscall

__all__ = ["Access", "restrict", "version"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_FIRST = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_NETWORK = 0b11
_SCOPES = 0b11
# Rights that a rule on something other than a folder may name.
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What stays reachable.

    Attributes:
        read: files, and folders with all below them, to read and execute.
        write: the same, also to write and to make files in.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


@functools.cache
def version() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    try:
        return syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))
    except OSError:
        return 0


def restrict(access: Access) -> int:
    """Gives up everything that ``access`` does not name, for this thread and what it starts.

    The thread must have given up new privileges. Paths that do not exist are left out. TCP is given up from
    version 4, signals and abstract sockets to the outside from version 6.

    Returns:
        The version; 0 where there is no Landlock and nothing was done.

    Raises:
        OSError: the kernel has Landlock and refuses.
    """
    found = version()
    if not found:
        return 0
    files = _FIRST
    for least, right in ((2, _REFER), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        files |= right if found >= least else 0
    words = [files]
    if found >= 4:
        words.append(_NETWORK)
    if found >= 6:
        words.append(_SCOPES)
    attributes = struct.pack(f"{len(words)}Q", *words)
    ruleset = syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        reading = _EXECUTE | _READ_FILE | _READ_DIR
        _allow(ruleset, access.read, reading & files)
        # Devices need no ioctl for what is asked of them here.
        _allow(ruleset, access.write, files & ~_IOCTL_DEV)
        syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return found


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            allowed = rights if stat.S_ISDIR(os.fstat(handle).st_mode) else rights & _OF_FILES
            rule = struct.pack("=Qi", allowed, handle)
            syscall(_ADD, ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH), rule, ctypes.c_uint32(0))
        finally:
            os.close(handle)
