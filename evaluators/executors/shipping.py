"""The files that a task names, for machines that do not share a file system with the driver.

Sources are in the task itself; this is about recordings, data files, Python functions and folders of headers.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tuner.core.files import write_atomically
from tuner.core.types import Task

__all__ = ["collect", "place"]

MOST_BYTES = 4 << 30
"""Of one task; a node gets it once."""

_HEADERS = {".h", ".hh", ".hpp", ".cuh", ".inc", ".cl", ".clh"}


def collect(task: Task) -> dict[str, bytes]:
    """The files that the task needs beside its sources, by their names relative to the kernel's folder.

    Files that are not there are left out: whoever needs them says so.
    """
    folder = Path(task.kernel.folder)
    found: dict[str, bytes] = {}
    total = 0
    for name in dict.fromkeys(_names(task, folder)):
        path = folder / name
        if Path(name).is_absolute() or not path.is_file():
            continue
        total += path.stat().st_size
        if total > MOST_BYTES:
            break
        found[name] = path.read_bytes()
    return found


def place(task: Task, files: dict[str, bytes]) -> Task:
    """The task as this machine can use it: as it is where the folder holds these files, else with a copy of them."""
    folder = Path(task.kernel.folder)
    if not files or all(_same(folder / name, data) for name, data in files.items()):
        return task
    name = hashlib.sha256()
    for key in sorted(files):
        name.update(key.encode() + b"\0" + hashlib.sha256(files[key]).digest())
    copy = _own_folder() / name.hexdigest()[:32]
    for key, data in files.items():
        if not _same(copy / key, data):
            write_atomically(copy / key, data)
    return replace(task, kernel=replace(task.kernel, folder=str(copy)))


def _own_folder() -> Path:
    """This user's folder for copies; a new one where somebody else could write into that, who may have come first."""
    folder = Path(tempfile.gettempdir()) / f"remix-tuner-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    return Path(tempfile.mkdtemp(prefix="remix-tuner-files-"))


def _names(task: Task, folder: Path) -> Iterator[str]:
    for argument in task.arguments:
        options = {} if argument.initial is None else argument.initial.options
        for key in ("path", "file"):
            if isinstance(options.get(key), str):
                yield options[key]
        yield from options.get("paths", ())
    if task.verify.reference.file:
        yield task.verify.reference.file
    for include in task.kernel.include:
        for path in sorted((folder / include).rglob("*")):
            if path.suffix in _HEADERS and path.is_relative_to(folder):
                yield str(path.relative_to(folder))


def _same(path: Path, data: bytes) -> bool:
    try:
        return path.stat().st_size == len(data) and path.read_bytes() == data
    except OSError:
        return False
