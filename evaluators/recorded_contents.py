"""What recordings hold of buffers, read once for all workloads that are made of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuner.recorders.recordings.format import RecordingFile

__all__ = ["recorded_bytes"]

_LIMIT_BYTES = 512 << 20
"""Of all contents that are kept. Unpacking one takes several times as long as copying it."""

_kept: OrderedDict[Hashable, NDArray[np.uint8]] = OrderedDict()
_lock = threading.Lock()


def recorded_bytes(path: Path, argument: int, *, after: bool) -> NDArray[np.uint8]:
    """A by-value argument's bytes, or what a buffer held before the launch or after it.

    Args:
        path: of the recording; a file that has changed since it was last read is read again.
        argument: its number; one that the recording has not raises as a buffer without contents.
        after: the launch rather than before it.

    Returns:
        Bytes that nobody may write to: the next one to ask gets the same.

    Raises:
        UsageError: no recording, a damaged one, or no such buffer.
    """
    try:
        state = path.stat()
    except OSError:
        return _read(path, argument, after=after)
    key = path, state.st_ino, state.st_mtime_ns, state.st_size, argument, after
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    found = _read(path, argument, after=after)
    with _lock:
        if found.nbytes <= _LIMIT_BYTES:
            _kept[key] = found
        while sum(each.nbytes for each in _kept.values()) > _LIMIT_BYTES:
            _kept.popitem(last=False)
    return found


def _read(path: Path, argument: int, *, after: bool) -> NDArray[np.uint8]:
    with RecordingFile(path) as file:
        arguments = file.recording.arguments
        value = arguments[argument].value if argument < len(arguments) else b""
        data: bytes | memoryview = value or (file.after if after else file.before)(argument)
    found = np.frombuffer(data, np.uint8)
    found.flags.writeable = False
    return found
