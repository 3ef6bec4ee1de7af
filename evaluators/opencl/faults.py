"""Notes where a kernel on the host's processor faulted, so that the tuner can name the argument. A hint, never proof.

The handler is Python code that the faulting thread runs: pyopencl lets go of the interpreter while kernels run.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import struct
from typing import Any

__all__ = ["Guard"]

_SA_SIGINFO = 0x4
_CODE, _ADDRESS = 8, 16
# Of ucontext_t on x86-64: the stack pointer, and the page fault's error code, whose bit 1 says "write".
_STACK, _ERROR = 160, 192
_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Action(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Guard:
    """Installs the handler; the signal takes its usual course afterwards.

    Args:
        page: descriptor of the memory file that the tuner reads: six words (signal, code, address, stack, whether
            memory had run out, whether it was a write).
    """

    def __init__(self, page: int) -> None:
        self._page = mmap.mmap(page, mmap.PAGESIZE)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._x86 = platform.machine() == "x86_64"
        # Kept for as long as the C library may call it.
        self._handler = _HANDLER(self._note)

    def install(self) -> None:
        """After the driver, which may have handlers of its own."""
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE):
            action = _Action()
            action.handler = ctypes.cast(self._handler, ctypes.c_void_p).value
            action.flags = _SA_SIGINFO
            self._libc.sigaction(int(number), ctypes.byref(action), None)

    def _note(self, number: int, info: Any, context: Any) -> None:
        # Threads that fault at the same time wait here for the interpreter: only the first one's fault is noted, and
        # only then does the signal end the process, by faulting again.
        if any(self._page[:8]):
            return
        stack = _word(context + _STACK) if self._x86 else 0
        writes = _word(context + _ERROR) >> 1 & 1 if self._x86 else 0
        code = ctypes.c_int.from_address(info + _CODE).value
        words = struct.pack("6q", 0, code, _word(info + _ADDRESS), stack, 0, writes)
        self._page[: len(words)] = words
        self._page[:8] = struct.pack("q", number)
        action = _Action()
        self._libc.sigaction(number, ctypes.byref(action), None)


def _word(at: int) -> int:
    return ctypes.c_int64.from_address(at).value
