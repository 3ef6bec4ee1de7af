"""Which C and C++ functions of an application could be recorded, by what its files say: the list of a host application.

Looks at the executable and at the libraries that its processes loaded; runs none of them. Which of them took the time
is known where the application was sampled.
"""

from __future__ import annotations

import ctypes
import functools
import shutil
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, UsageError
from tuner.evaluators.host.patching import movable_head
from tuner.recorders.recordings.executables import code_of, object_file
from tuner.recorders.recordings.lines import lines_of
from tuner.recorders.recordings.samples import Samples

__all__ = ["MOST_LISTED", "HostFunction", "HostFunctions", "host_functions"]

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
_NAMELESS = "code without a name, as strip leaves it"
_MAIN = "it is the whole program: tuner init FILE --loop LINE tunes one of its loops"
_LIBRARY = "of the C++ library"
_UNSEEN = "calls of it within its library are not seen"
_KINDS = {
    "static": "static: tuner init tunes it where it stands",
    "shared": "inline or of a template: tuner init tunes instances where they stand",
}
_STARTS = ("main", "_start")
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
        samples: how often a thread was found in its own code, not in what it calls.
        lines: where in sources, by path and line, how often each; those that took most first, where the file says so.
    """

    name: str
    symbol: str
    file: Path
    size_bytes: int
    refused: str = ""
    samples: int = 0
    lines: tuple[tuple[str, int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "symbol": self.symbol,
            "file": str(self.file),
            "size_bytes": self.size_bytes,
            "refused": self.refused,
            "samples": self.samples,
            "lines": [{"file": file, "line": line, "samples": n} for file, line, n in self.lines],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFunctions:
    """Functions of an application's own code, those that took most time first, then those with most code.

    Attributes:
        listed: the first of them, each with what was found out.
        further: how many more there are.
        libraries: how often a thread was found in code of other files, those with most first.
    """

    listed: tuple[HostFunction, ...] = ()
    further: int = 0
    libraries: Mapping[Path, int] = field(default_factory=dict)


def host_functions(loaded: Mapping[Path, str], command: str, samples: Samples) -> HostFunctions:
    """The functions that could be recorded, and all others of the application's own in which time was spent.

    Args:
        loaded: files of the application's processes, each with how it came there.
        command: the word that names the program: of no other executable functions can be recorded.
        samples: where the application's threads were found.
    """
    named = Path(shutil.which(command) or command).resolve()
    files = {path: found for path in loaded if (found := object_file(path)) is not None}
    own = {path for path in files if not str(path).startswith(_SYSTEM)} or ({named} & files.keys())
    imported = frozenset[str]().union(*(files[path].imported for path in own))
    functions: dict[str, tuple[HostFunction, bytes]] = {}
    looked = {path: count for path, count in samples.places.items() if path in own and not _is_language(path)}
    times = {path: _by_function(path, count) for path, count in looked.items()}
    known = {path: lines_of(path, count.keys()) for path, count in looked.items()}
    for path, file in files.items():
        if _is_language(path) or (path not in own and loaded[path] != "linked"):
            continue
        for one in file.defined:
            if not _may_be_a_kernel(one.symbol, sampled=one.symbol in times.get(path, ())):
                continue
            # Of a library that nobody is linked with, nobody's imports tell what is called.
            if loaded[path] == "linked" and not (one.exported and one.symbol in imported):
                continue
            if loaded[path] == "opened" and not one.exported:
                continue
            elsewhere = loaded[path] == "program" and path != named
            sampled = times.get(path, {}).pop(one.symbol, _Sampled())
            function = HostFunction(
                name=_demangled(one.symbol),
                symbol=one.symbol,
                file=path,
                size_bytes=len(one.code),
                refused=_ELSEWHERE if elsewhere else "",
                samples=sampled.samples,
                lines=sampled.lines(known.get(path, {})),
            )
            functions.setdefault(one.symbol, (function, one.code if path == named else b""))
    rows = [*functions.values(), *((one, b"") for one in _others(times, known))]
    rows.sort(key=lambda pair: (-pair[0].samples, -pair[0].size_bytes, pair[0].symbol))
    outside = {path: count.total() for path, count in samples.places.items() if path not in looked}
    return HostFunctions(
        listed=tuple(_judged(*pair) for pair in rows[:MOST_LISTED]),
        further=max(0, len(rows) - MOST_LISTED),
        libraries=dict(sorted(outside.items(), key=lambda item: (-item[1], item[0]))),
    )


@dataclass(slots=True)
class _Sampled:
    """A function in whose code threads were found: how often and where, bytes of code, and of what kind it is."""

    samples: int = 0
    size: int = 0
    kind: str = ""
    places: Counter[int] = field(default_factory=Counter)

    def lines(self, known: Mapping[int, tuple[str, int]]) -> tuple[tuple[str, int, int], ...]:
        """Those that took most first."""
        count: Counter[tuple[str, int]] = Counter()
        for address, times in self.places.items():
            if address in known:
                count[known[address]] += times
        return tuple((file, line, times) for (file, line), times in count.most_common())


def _by_function(path: Path, count: Mapping[int, int]) -> dict[str, _Sampled]:
    """By symbol; parts that a compiler cut off with it."""
    codes = code_of(path)
    starts = [code.start for code in codes]
    found: dict[str, _Sampled] = {}
    for address, times in count.items():
        at = bisect_right(starts, address) - 1
        code = codes[at] if at >= 0 and address < codes[at].end else None
        # `work.constprop.0`, `work.cold`, `work._omp_fn.0`: what the compiler made of `work`.
        symbol = "" if code is None else code.symbol.partition(".")[0] or code.symbol
        one = found.setdefault(symbol, _Sampled(kind="" if code is None else code.kind))
        if code is not None and code.symbol == symbol:
            one.size, one.kind = code.end - code.start, code.kind
        one.samples += times
        one.places[address] += times
    return found


def _others(
    times: Mapping[Path, Mapping[str, _Sampled]], known: Mapping[Path, Mapping[int, tuple[str, int]]]
) -> Iterator[HostFunction]:
    """Functions with samples that cannot be recorded, each with the reason."""
    for path, functions in times.items():
        for symbol, one in functions.items():
            yield HostFunction(
                name=_demangled(symbol) or "(no name)",
                symbol=symbol,
                file=path,
                size_bytes=one.size,
                refused=_why_not(symbol, one.kind),
                samples=one.samples,
                lines=one.lines(known[path]),
            )


def _why_not(symbol: str, kind: str) -> str:
    if not symbol:
        return _NAMELESS
    if symbol in _STARTS:
        return _MAIN
    return _LIBRARY if symbol.startswith(_STANDARD) else _KINDS.get(kind, _UNSEEN)


def _may_be_a_kernel(symbol: str, *, sampled: bool) -> bool:
    """Names that begin with an underscore are mostly a compiler's own, unless time was spent there."""
    if symbol in _STARTS or symbol.startswith(_STANDARD):
        return False
    return sampled or symbol.startswith("_Z") or not symbol.startswith("_")


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
