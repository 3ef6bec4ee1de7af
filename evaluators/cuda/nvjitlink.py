"""nvJitLink through its C interface: finding the library, and PTX to a cubin with the assembler's log.

Needs no GPU and no driver. Assembles in the process that calls it, which therefore is a worker that may die
(:mod:`tuner.evaluators.cuda.pass_worker`). Standard library only.

Source: nvJitLink documentation, CUDA 12 and 13.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from tuner.evaluators.cuda.nvrtc import library_file

__all__ = ["NvJitLink", "NvJitLinkError", "find_nvjitlink"]

_NAMES = ("libnvJitLink.so.13", "libnvJitLink.so.12")
_WHEEL_FOLDERS = ("cu13/lib", "nvjitlink/lib", "cu12/lib")
_INPUT_PTX = 2


class NvJitLinkError(Exception):
    """The assembler refuses the text or an option; the text is its log."""


def find_nvjitlink() -> str:
    """Path of libnvJitLink: the pip wheel's, else a toolkit's; empty where there is none."""
    return library_file(_WHEEL_FOLDERS, _NAMES)


class NvJitLink:
    """The loaded library.

    Args:
        path: of libnvJitLink.

    Raises:
        OSError: it cannot be loaded.
        AttributeError: it is none.
    """

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        self._lib.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def assemble(self, ptx: str, *, name: str, options: Sequence[str]) -> tuple[bytes, str]:
        """A cubin, and what the assembler says with ``-Xptxas=-v``.

        Args:
            ptx: one module.
            name: what messages call it.
            options: nvJitLink's, the architecture (``-arch=sm_90``) among them.

        Raises:
            NvJitLinkError: with the log.
        """
        handle = ctypes.c_void_p()
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        if self._lib.nvJitLinkCreate(ctypes.byref(handle), ctypes.c_uint32(len(options)), given):
            raise NvJitLinkError(f"nvJitLink {self.version} refuses the options {' '.join(options)}")
        try:
            data = ptx.encode()
            size = ctypes.c_size_t(len(data))
            failed = self._lib.nvJitLinkAddData(handle, _INPUT_PTX, data, size, name.encode())
            failed = failed or self._lib.nvJitLinkComplete(handle)
            if failed:
                said = self._log(handle, "Error").strip()
                raise NvJitLinkError(said or f"nvJitLink {self.version} says {failed} and no reason")
            return self._cubin(handle), self._log(handle, "Info")
        finally:
            self._lib.nvJitLinkDestroy(ctypes.byref(handle))

    def _cubin(self, handle: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._lib.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        if not size.value or self._lib.nvJitLinkGetLinkedCubin(handle, buffer):
            raise NvJitLinkError("nvJitLink gives no cubin")
        return buffer.raw

    def _log(self, handle: ctypes.c_void_p, kind: str) -> str:
        size = ctypes.c_size_t()
        getattr(self._lib, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        getattr(self._lib, f"nvJitLinkGet{kind}Log")(handle, buffer)
        return buffer.value.decode("utf-8", "replace")
