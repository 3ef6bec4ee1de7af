"""NVRTC through its C interface: finding the library, and one compilation.

Needs no GPU and no driver. Compiles in the process that calls it, which therefore is a worker that may die
(:mod:`tuner.evaluators.cuda.compile_worker`). Standard library only, as that worker's start is paid for at every run.

Source: NVRTC documentation, CUDA 13.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "OWN_HEADERS",
    "Compiled",
    "Nvrtc",
    "NvrtcError",
    "find_headers",
    "find_library",
    "library_file",
    "toolkit_folders",
    "wheel_folders",
]

_NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
_WHEEL_FOLDERS = ("cu13/lib", "cuda_nvrtc/lib", "cu12/lib")
_HEADER_FOLDERS = ("cu13/include", "cuda_runtime/include", "cu12/include")
_CCCL_FOLDERS = ("cu13/include/cccl", "cuda_cccl/include", "cu12/include/cccl")
_TOOLKIT = ("/usr/local/cuda",)
OWN_HEADERS = str(Path(__file__).parent / "include" / "nvrtc")
"""Headers of C that NVRTC lacks and nvcc has, so that a source for nvcc compiles; to be searched last."""


class NvrtcError(Exception):
    """The source does not compile, or NVRTC refuses an option; the text is its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What came out: the cubin, the PTX before it, the compiler's log, and each entry's symbol."""

    cubin: bytes
    ptx: str
    log: str
    symbols: Mapping[str, str]


def find_library() -> str:
    """Path or name of libnvrtc: the pip wheel's, else a toolkit's, else the loader's; empty where there is none.

    ``CUDA_HOME`` or ``CUDA_PATH`` names a toolkit that is looked at before ``/usr/local/cuda``.
    """
    found = library_file(_WHEEL_FOLDERS, _NAMES)
    for name in _NAMES if not found else ():
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    return found


def library_file(wheel: Sequence[str], names: Sequence[str]) -> str:
    """Path of a library: in these folders of pip's wheels, else in a toolkit; empty where there is none."""
    folders = (*wheel_folders(wheel), *toolkit_folders("lib64"), *toolkit_folders("lib"))
    paths = (folder / name for folder in folders for name in names)
    return next((str(path) for path in paths if path.is_file()), "")


def find_headers() -> tuple[str, ...]:
    """The folder of the CUDA headers (``cuda_fp16.h`` and so on), if there is one, and that of CCCL.

    ``cooperative_groups.h`` and ``cuda/std`` need CCCL, a wheel of its own and from CUDA 13 on a folder of its own.
    """
    toolkits = toolkit_folders("include")
    wanted = (
        ("cuda_fp16.h", (*wheel_folders(_HEADER_FOLDERS), *toolkits)),
        ("nv/target", (*wheel_folders(_CCCL_FOLDERS), *(f / "cccl" for f in toolkits))),
    )
    found = (next((f for f in folders if (f / name).is_file()), None) for name, folders in wanted)
    return tuple(str(folder) for folder in found if folder is not None)


def wheel_folders(parts: Sequence[str]) -> list[Path]:
    """These folders in every place that NVIDIA's wheels of this environment lie in."""
    found = importlib.util.find_spec("nvidia")
    roots = list(found.submodule_search_locations or ()) if found is not None else []
    return [Path(root, part) for part in parts for root in roots]


def toolkit_folders(part: str) -> list[Path]:
    """This folder of each toolkit that may be installed, the named ones first."""
    named = [os.environ[n] for n in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(n)]
    return [Path(root, part) for root in (*named, *_TOOLKIT)]


_OVERLOADED = "cannot determine which instance of overloaded function"
_CHOICE = "template <class... T> __device__ auto tuner_kernel(void (*kernel)(T...)) -> decltype(kernel);\n"


class Nvrtc:
    """The loaded library.

    Args:
        path: of libnvrtc.

    Raises:
        OSError: it cannot be loaded.
    """

    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._lib.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        self.version = f"{major.value}.{minor.value}"

    def architectures(self) -> list[str]:
        """The architectures that it compiles for, ``sm_75`` and so on."""
        count = ctypes.c_int()
        self._check(self._lib.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        found = (ctypes.c_int * count.value)()
        self._check(self._lib.nvrtcGetSupportedArchs(found))
        return [f"sm_{number}" for number in found]

    def compile(
        self,
        text: str,
        *,
        name: str,
        headers: Mapping[str, str],
        entries: Sequence[str],
        options: Sequence[str],
    ) -> Compiled:
        """Compiles one source to a cubin.

        Args:
            text: the source; ``name`` is what messages call it.
            headers: further files by the name under which they are included.
            entries: name expressions whose symbols are wanted, which also instantiates templates.
            options: NVRTC's, the architecture (``-arch=sm_90``) among them.

        Raises:
            NvrtcError: with NVRTC's log.
        """
        try:
            symbols = {entry: entry for entry in entries}
            return self._compile(text, name=name, headers=headers, entries=symbols, options=options)
        except NvrtcError as error:
            if _OVERLOADED not in str(error):
                raise
            # A kernel called like a function that NVRTC brings, such as `norm`: only the kernel returns nothing.
            chosen = {e: e if e.startswith("&") else f"(decltype(tuner_kernel({e}))){e}" for e in entries}
            try:
                text = f"{text}\n{_CHOICE}"
                return self._compile(text, name=name, headers=headers, entries=chosen, options=options)
            except NvrtcError:
                raise error from None

    def _compile(
        self,
        text: str,
        *,
        name: str,
        headers: Mapping[str, str],
        entries: Mapping[str, str],
        options: Sequence[str],
    ) -> Compiled:
        """As :meth:`compile`; ``entries`` are NVRTC's own expressions by what they are called here."""
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(h.encode() for h in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(n.encode() for n in headers))
        self._check(
            self._lib.nvrtcCreateProgram(
                ctypes.byref(program), text.encode(), name.encode(), len(headers), texts, names
            )
        )
        try:
            for entry in entries.values():
                self._check(self._lib.nvrtcAddNameExpression(program, entry.encode()))
            given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            result = self._lib.nvrtcCompileProgram(program, len(options), given)
            log = self._text(program, "ProgramLog")
            if result:
                raise NvrtcError(log if log.strip() else self._error(result))
            return Compiled(
                cubin=self._bytes(program, "CUBIN"),
                ptx=self._text(program, "PTX"),
                log=log,
                symbols={ours: self._symbol(program, entry) for ours, entry in entries.items()},
            )
        finally:
            self._lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _symbol(self, program: ctypes.c_void_p, entry: str) -> str:
        found = ctypes.c_char_p()
        self._check(self._lib.nvrtcGetLoweredName(program, entry.encode(), ctypes.byref(found)))
        return (found.value or b"").decode()

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._lib, f"nvrtcGet{what}")(program, buffer))
        return buffer.raw

    def _text(self, program: ctypes.c_void_p, what: str) -> str:
        return self._bytes(program, what).rstrip(b"\0").decode("utf-8", "replace")

    def _error(self, result: int) -> str:
        text: bytes = self._lib.nvrtcGetErrorString(result)
        return text.decode()

    def _check(self, result: int) -> None:
        if result:
            raise NvrtcError(self._error(result))
