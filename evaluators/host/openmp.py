"""Where LLVM's OpenMP run-time library (libomp) and its header are, and how a kernel's team of threads is set up.

The environment variable ``TUNER_OPENMP`` names the library's file; :func:`find_openmp` is the only place that reads
it. May not load the library.

Source: the OpenMP specification 5.2, chapter 21 (environment variables); LLVM's OpenMP run-time reference.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tuner.core.errors import MachineError
from tuner.evaluators.host.toolchain import Toolchain, wheel_files

__all__ = ["as_if_openmp", "find_openmp", "team_variables"]

_VARIABLE = "TUNER_OPENMP"
_WHEELS = ("cmeel-libomp", "intel-openmp")
_FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/opt/intel/oneapi/compiler/latest/lib",
)
_NAME = re.compile(r"lib(omp|iomp5)(-\d+)?\.so(\.\d+)*$")
_NEEDED_TEXT = (
    "__kmpc_fork_call __kmpc_push_num_threads __kmpc_global_thread_num __kmpc_for_static_init_4 "
    "__kmpc_dispatch_init_4 __kmpc_dispatch_next_4 __kmpc_dispatch_deinit __kmpc_reduce_nowait __kmpc_barrier "
    "omp_get_thread_num omp_get_num_threads omp_set_num_threads kmp_set_blocktime"
)
_NEEDED = _NEEDED_TEXT.split()
_HINT = (
    "pip install 'remix-tuner[openmp]', or apt-get install libomp5-19, or name the file of a libomp of LLVM 19 or "
    f"newer in {_VARIABLE}"
)
_SPECIFICATION = 202011
"""What clang 23 says that it honours: year and month of the specification."""

_ELF_HEADER = struct.Struct("16sHHIQQQIHHHHHH")
_ELF_PART = struct.Struct("IIQQQQQQ")
_SHARED, _LOADED = 3, 1

_OWN_HEADER = Path(__file__).parent / "include" / "openmp"

_SPIN_MS = 200
"""How long a thread looks for work before it sleeps: the library's own default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMp:
    """One library.

    Attributes:
        library: its path.
        include: the folder of its ``omp.h``, or of the project's own.
        version: of its package or its LLVM; ``unknown`` where neither tells.
        digest: SHA-256 of its bytes.
    """

    library: str
    include: str
    version: str
    digest: str


def find_openmp(toolchain: Toolchain, environment: Mapping[str, str] | None = None) -> OpenMp:
    """Finds the library: the one that is named, clang's own, one from PyPI, the newest of the system.

    Args:
        toolchain: whose clang makes the calls.
        environment: variables, ``os.environ`` where left out.

    Raises:
        MachineError: there is none, or none that is whole and has what this clang calls.
    """
    variables = os.environ if environment is None else environment
    named = variables.get(_VARIABLE, "")
    if named and not Path(named).is_file():
        raise MachineError(f"{_VARIABLE} names {named}, which is no file", _HINT)
    unfit = ""
    for path, version in _named(named) if named else _everywhere(toolchain):
        stat = path.stat()
        digest, fault = _examined(path, stat.st_size, stat.st_mtime_ns)
        if not fault:
            return OpenMp(
                library=str(path), include=str(_header(path)), version=version or "unknown", digest=digest
            )
        unfit = unfit or f"the OpenMP library {path} {fault.format(clang=toolchain.version)}"
    raise MachineError(unfit or "there is no OpenMP run-time library (libomp) here", _HINT)


def as_if_openmp() -> list[str]:
    """Flags with which a source is only read: its conditionals are as with OpenMP, its loops plain.

    The header is the project's own: others rely on the directives that they have.
    """
    return [f"-D_OPENMP={_SPECIFICATION}", "-idirafter", str(_OWN_HEADER)]


def team_variables(threads: int) -> dict[str, str]:
    """What the library reads when it makes the team: nothing of the user's environment reaches it.

    Where there are as many processors as threads, each thread stays on a core of its own and looks for work there;
    where there are fewer, a thread that looked for work would keep the others from theirs.
    """
    fits = threads <= len(os.sched_getaffinity(0))
    return {
        "OMP_NUM_THREADS": str(threads),
        # A team of more is cut down to this; none of its own can be made later.
        "OMP_THREAD_LIMIT": str(threads),
        "OMP_DYNAMIC": "false",
        "OMP_MAX_ACTIVE_LEVELS": "1",
        "OMP_PROC_BIND": "spread" if fits else "false",
        **({"OMP_PLACES": "cores"} if fits else {}),
        "OMP_TARGET_OFFLOAD": "disabled",
        "OMP_TOOL": "disabled",
        "KMP_BLOCKTIME": str(_SPIN_MS if fits else 0),
        "KMP_WARNINGS": "0",
        # Threads for tasks that are handed to devices: there are none here.
        "LIBOMP_USE_HIDDEN_HELPER_TASK": "0",
    }


def _named(path: str) -> Iterator[tuple[Path, str]]:
    yield Path(path).resolve(), _llvm_of(Path(path).resolve())


def _everywhere(toolchain: Toolchain) -> Iterator[tuple[Path, str]]:
    for folder in dict.fromkeys((Path(toolchain.clang).parents[1] / "lib", Path(toolchain.library).parent)):
        for path in _files(folder):
            yield path, toolchain.version
    for name, wheel, file in wheel_files(_WHEELS):
        path = Path(str(wheel.locate_file(file)))
        if _NAME.match(path.name) and path.is_file():
            yield path.resolve(), f"{wheel.version} ({name})"
    installed = [(int(_llvm_of(folder)), folder) for folder in Path("/usr/lib").glob("llvm-[0-9]*/lib")]
    for number, folder in sorted(installed, reverse=True):
        for path in _files(folder):
            yield path, str(number)
    for text in (str(Path(sys.prefix) / "lib"), *_FOLDERS):
        for path in _files(Path(text)):
            yield path, _llvm_of(path)


def _files(folder: Path) -> list[Path]:
    try:
        found = [path.resolve() for path in folder.iterdir() if _NAME.match(path.name) and path.is_file()]
    except OSError:
        return []
    return sorted(set(found), key=lambda path: (not path.name.startswith("libomp"), path.name))


def _llvm_of(path: Path) -> str:
    found = re.search(r"/llvm-(\d+)(/|$)", str(path))
    return found[1] if found else ""


@lru_cache(maxsize=8)
def _examined(path: Path, size: int, changed_ns: int) -> tuple[str, str]:
    """SHA-256 of a file, and why it is of no use: no library, or the first name that it should have and has not."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view:
            missing = next((n for n in _NEEDED if view.find(b"\0%s\0" % n.encode()) < 0), "")
            fault = "" if _is_whole(view) else "is no whole shared library for this machine"
            if missing:
                fault = f"lacks {missing}, which clang {{clang}} calls"
            return hashlib.sha256(view).hexdigest(), fault
    except (OSError, ValueError) as error:
        raise MachineError(f"{path} cannot be read: {error}", _HINT) from None


def _is_whole(view: mmap.mmap) -> bool:
    """Whether a file is a library of this processor and nothing of what it has loaded is cut off.

    To load one that is cut off ends the process that does. Source: the ELF-64 object file format, version 1.5.
    """
    with Path("/proc/self/exe").open("rb") as program:
        mine = program.read(_ELF_HEADER.size)
    if len(view) < _ELF_HEADER.size or view[:6] != mine[:6]:
        return False
    head = _ELF_HEADER.unpack_from(view)
    kind, machine, start, size, count = head[1], head[2], head[5], head[9], head[10]
    if (kind, machine) != (_SHARED, _ELF_HEADER.unpack(mine)[2]) or start + size * count > len(view):
        return False
    parts = (_ELF_PART.unpack_from(view, start + size * number) for number in range(count))
    return all(part[2] + part[5] <= len(view) for part in parts if part[0] == _LOADED)


def _header(library: Path) -> Path:
    """The folder of the library's own ``omp.h``: beside it, in LLVM's headers, or the project's where there is none."""
    top = library.parent.parent
    places = [
        top / "include",
        library.parent.parent / "opt" / "compiler" / "include",
        *sorted((library.parent / "clang").glob("*/include")),
    ]
    return next((place for place in places if (place / "omp.h").is_file()), _OWN_HEADER)
