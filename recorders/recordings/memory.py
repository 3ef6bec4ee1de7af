"""Memory of this process, read through the kernel: what is not mapped is an error, not the end of the process."""

from __future__ import annotations

import struct

import numpy as np

from tuner.core.errors import MachineError, SpecError

__all__ = ["in_a_row", "pointer_at", "read"]

_MOST_AT_ONCE = 64 << 20
_POINTER = struct.Struct("<Q")


def read(address: int, size: int, name: str = "an array") -> bytes:
    """Bytes that lie at an address.

    Args:
        address: where they begin.
        size: how many.
        name: of what lies there.

    Raises:
        MachineError: the array is shorter than the spec says.
    """
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            # Much is not read where the end is not there.
            memory.seek(address + max(size - 1, 0))
            memory.read(1)
            memory.seek(address)
            parts = []
            while size:
                part = memory.read(min(size, _MOST_AT_ONCE))
                if not part:
                    break
                parts.append(part)
                size -= len(part)
    except (OSError, ValueError, OverflowError):
        size = -1
    if size:
        raise MachineError(
            f"{name} is shorter than the spec says, or leads to no memory", "correct its shape in the spec"
        )
    return b"".join(parts)


def pointer_at(address: int, name: str) -> int:
    """The address that lies at an address.

    Raises:
        MachineError: nothing does.
        SpecError: a null pointer, of what ``name`` is.
    """
    (found,) = _POINTER.unpack(read(address, _POINTER.size))
    if not found:
        raise SpecError(f"{name} is a null pointer")
    return int(found)


def in_a_row(address: int, rows: int, size: int, name: str) -> int:
    """Where the rows of an array begin whose addresses lie at an address.

    Args:
        address: of the first row's address.
        rows: how many.
        size: bytes of one.
        name: of the array.

    Raises:
        MachineError: there are not as many addresses.
        SpecError: the rows do not lie one behind the other.
    """
    places = np.frombuffer(read(address, rows * _POINTER.size, name), np.uint64)
    if not places.size or (np.diff(places) != np.uint64(size)).any() or not places[0]:
        raise SpecError(f"the rows of {name} do not lie one behind the other")
    return int(places[0])
