"""Which C and C++ functions of an application could be recorded, by what its files say: the list of a host application.

Looks at the executable and at the libraries that its processes loaded; runs none of them. How often a function is
called, and for how long, no file says.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, UsageError
from tuner.evaluators.host.patching import movable_head
from tuner.recorders.recordings.executables import Defined, object_file

__all__ = ["MOST_LISTED", "HostFunction", "host_functions"]

MOST_LISTED = 40
"""The most functions that are looked at closely: each takes the disassembler some time."""

_SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/")
_LANGUAGE = (
    *(
        "ld-linux",
        "libc",
        "libm",
        "libmvec",
        "libpthread",
        "libdl",
        "librt",
        "libgcc_s",
        "libstdc++",
        "libc++",
    ),
    *("libgfortran", "libquadmath", "libgomp", "libomp", "libOpenCL", "libcuda", "libpython"),
)
"""Libraries of languages, and of devices whose kernels are listed themselves."""
_ELSEWHERE = "the command has to name this program first"
_NO_KERNELS = ("_", "main")
_STANDARD = ("_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFunction:
    """A function of an application's own code.

    Attributes:
        name: as its source has it; with the types of its arguments where it is C++.
        symbol: its name in object code.
        file: the executable or library that defines it.
        size_bytes: of its code.
        refused: why it cannot be recorded; empty where it can.
    """

    name: str
    symbol: str
    file: Path
    size_bytes: int
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "symbol": self.symbol,
            "file": str(self.file),
            "size_bytes": self.size_bytes,
            "refused": self.refused,
        }


def host_functions(loaded: Mapping[Path, str], command: str) -> tuple[list[HostFunction], int]:
    """The functions, longest first, and how many more there are.

    Args:
        loaded: files of the application's processes, each with how it came there.
        command: the word that names the program: of no other executable functions can be recorded.
    """
    named = Path(shutil.which(command) or command).resolve()
    files = {path: found for path in loaded if (found := object_file(path)) is not None}
    own = {path for path in files if not str(path).startswith(_SYSTEM)} or ({named} & files.keys())
    imported = frozenset[str]().union(*(files[path].imported for path in own))
    functions: dict[str, tuple[HostFunction, bytes]] = {}
    for path, file in files.items():
        if _is_language(path) or (path not in own and loaded[path] != "linked"):
            continue
        for one in filter(_may_be_a_kernel, file.defined):
            # Of a library that nobody is linked with, nobody's imports tell what is called.
            if loaded[path] == "linked" and not (one.exported and one.symbol in imported):
                continue
            if loaded[path] == "opened" and not one.exported:
                continue
            elsewhere = loaded[path] == "program" and path != named
            function = HostFunction(
                name=_demangled(one.symbol),
                symbol=one.symbol,
                file=path,
                size_bytes=len(one.code),
                refused=_ELSEWHERE if elsewhere else "",
            )
            functions.setdefault(one.symbol, (function, one.code if path == named else b""))
    ordered = sorted(functions.values(), key=lambda pair: (-pair[0].size_bytes, pair[0].symbol))
    return [_judged(*pair) for pair in ordered[:MOST_LISTED]], max(0, len(ordered) - MOST_LISTED)


def _may_be_a_kernel(function: Defined) -> bool:
    symbol = function.symbol
    return not symbol.startswith(_STANDARD) and (
        symbol.startswith("_Z") or not symbol.startswith(_NO_KERNELS)
    )


def _is_language(path: Path) -> bool:
    name = path.name.partition(".so")[0]
    return name in _LANGUAGE or name.startswith(("ld-linux", "libpython"))


def _judged(function: HostFunction, code: bytes) -> HostFunction:
    """With the reason why a function of the executable cannot be stood before, where there is one."""
    if not code:
        return function
    try:
        movable_head(code, function.name)
    except UsageError as error:
        return replace(function, refused=error.message.partition(", and ")[2])
    except MachineError as error:
        return replace(function, refused=error.message)
    return function


def _demangled(symbol: str) -> str:
    """The name as C++ has it, where the machine's C++ library can tell."""
    demangle = _demangler() if symbol.startswith("_Z") else None
    if demangle is None:
        return symbol
    status = ctypes.c_int()
    made = demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not made:
        return symbol
    text = ctypes.string_at(made).decode("utf-8", "replace")
    _free()(made)
    return text


@functools.cache
def _demangler() -> Any:
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return demangle


@functools.cache
def _free() -> Any:
    free = ctypes.CDLL(None).free
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    return free
