"""A copy of a folder in which an application is built and run as if it were the folder itself.

Its commands see the copy under the folder's own path (a mount namespace of their own), since builds write absolute
paths down; the folder stays as it is, and so does what lies beside it. May not decide what is built.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tuner.core.errors import FullDiskError, MachineError, UsageError
from tuner.core.thread_counts import given_environment

__all__ = ["RUNS_FOLDER", "WORK_FOLDER", "Tree", "TreeRun", "busy"]

RUNS_FOLDER = "tuner-runs"
"""Where runs are kept unless said otherwise."""
WORK_FOLDER = "tuner-app"
"""Beside an application's file: specs, recordings and runs of its regions."""
_LEFT_OUT = (".git", ".hg", ".svn", WORK_FOLDER, RUNS_FOLDER)
_INSIDE = """
copy=$1 tree=$2 folder=$3 beside=$4; shift 4
[ -z "$beside" ] || mount --rbind "$beside" "$beside" 2>/dev/null || beside=
while [ "$1" != -- ]; do [ -z "$beside" ] || mount --rbind "$1" "$1" 2>/dev/null; shift; done; shift
mount --bind "$copy" "$tree" || exit
[ -z "$beside" ] || mount -o remount,bind,ro "$beside" 2>/dev/null
cd "$folder" && exec "$@"
"""
"""The folder beside is made read-only last, which what is mounted in it by then is not. Some file systems refuse it."""
_UNSHARE = ("unshare", "--user", "--map-current-user", "--keep-caps", "--mount")
_SHOWN_BYTES = 400
_ERROR = re.compile(r"[^\n]*\berror: [\s\S]*")
_LEAST_BUSY = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRun:
    """One command's end: its exit status (a signal's number below 0), seconds, processor time, and what it wrote.

    ``files`` are those that it wrote below the folder, where these were looked for.
    """

    status: int
    wall_s: float
    processor_s: float
    output: bytes
    errors: bytes
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def undisturbed_s(self) -> float:
        """As far as that is known, what it takes where nothing else wants its processor."""
        return self.wall_s * busy(self.processor_s, self.wall_s)

    @property
    def said(self) -> str:
        """The end of what it wrote, in one line."""
        text = (self.errors.strip() or self.output.strip()).decode("utf-8", "replace")
        return " ".join(text[-_SHOWN_BYTES:].split())

    @property
    def failure(self) -> str:
        """The first error that a compiler printed, or the end of what was written, in one line."""
        found = _ERROR.search(self.errors.decode("utf-8", "replace"))
        return self.said if found is None else " ".join(found[0][:_SHOWN_BYTES].split())


def busy(processor_s: float, wall_s: float) -> float:
    """The part of a run's time in which it had a processor; 1 also where its processes' own time is not known.

    That of processes that their parents do not wait for is not.
    """
    part = processor_s / wall_s
    return min(1.0, part) if part >= _LEAST_BUSY else 1.0


def _left_out(folder: str, names: Sequence[str]) -> set[str]:
    """The history of versions, records of tuning, and what a copy cannot have: pipes, sockets, devices."""
    kinds = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
    special = {n for n, m in kinds.items() if not (stat.S_ISREG(m) or stat.S_ISDIR(m) or stat.S_ISLNK(m))}
    return special | set(_LEFT_OUT) & kinds.keys()


class Tree:
    """A copy of a folder, and a process that runs commands in it.

    Args:
        original: the folder.
        scratch: an empty folder for the copy; on a disk with room for it.

    Raises:
        UsageError: the folder cannot be copied.
        FullDiskError: there is no room for the copy.
        MachineError: the machine lets nobody mount a folder for itself.
    """

    def __init__(self, original: Path, scratch: Path) -> None:
        self.original = original.resolve()
        self._scratch = scratch
        self.copy = scratch / "tree"
        if scratch.resolve().is_relative_to(self.original):
            cure = "set TMPDIR to another folder, or name a smaller one with --tree"
            raise UsageError(f"{original} holds the folder of temporary files, where its copy is to be", cure)
        try:
            shutil.copytree(self.original, self.copy, symlinks=True, ignore=_left_out)
        except (shutil.Error, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error)[:_SHOWN_BYTES]
            if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
                reason = str(error.args[0][0][-1])
            cure = "name a smaller folder with --tree, or set TMPDIR to one with room for it"
            full = reason == os.strerror(errno.ENOSPC)
            kind = FullDiskError if full else UsageError
            raise kind(f"{original} cannot be copied to {scratch}: {reason}", cure) from None
        # In memory: on a full disk commands could not say that it is.
        self._files = [os.memfd_create(name) for name in ("input", "output", "errors")]
        runner = [sys.executable, "-I", str(Path(__file__).with_name("tree_runner.py"))]
        try:
            self._process = subprocess.Popen(
                [*self.around(self.original), *runner, *map(str, self._files)],
                pass_fds=self._files,
                env=given_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            raise MachineError("there is no command unshare", "install util-linux") from None
        if self.run(["true"]).status != 0:
            raise MachineError("commands cannot be run in a copy", "see tuner doctor")

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends what still runs in it; safe to call twice."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
        while self._files:
            os.close(self._files.pop())

    def around(self, folder: Path) -> tuple[str, ...]:
        """Words of a command that runs the words behind it in a folder below the original, which is the copy then."""
        beside = self.original.parent
        kept = _kept_writable(beside, self._scratch.resolve().parent)
        places = (self.copy, self.original, folder.resolve(), "" if kept is None else beside, *(kept or ()))
        return (*_UNSHARE, "sh", "-c", _INSIDE, "sh", *map(str, places), "--")

    def in_copy(self, path: Path) -> Path:
        """Where a file of the original, or one that is made there, lies in the copy; others are where they are."""
        whole = path.absolute()
        below = whole.is_relative_to(self.original)
        return self.copy / whole.relative_to(self.original) if below else whole

    def readable(self, file: Path) -> Path:
        """A file as it can be read in the copy, too: one of the original may be older there, or missing."""
        whole = file.resolve()
        return Path(shutil.copy(whole, self._scratch)) if whole.is_relative_to(self.original) else whole

    def run(self, command: Sequence[str], *, folder: Path | None = None, given: bytes = b"") -> TreeRun:
        """Runs a command to its end.

        Args:
            command: its words; a program's path may lie in the folder.
            folder: in which it runs, below the original; that one when left out.
            given: its standard input.

        Raises:
            UsageError: there is no such command.
            MachineError: the process that runs commands is gone.
        """
        for file, text in zip(self._files, (given, b"", b""), strict=True):
            os.truncate(file, 0)
            os.pwrite(file, text, 0)
            os.lseek(file, 0, os.SEEK_SET)
        request = {"command": list(command), "folder": str(folder or self.original)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            said = b"" if self._process.stderr is None else self._process.stderr.read()
            reason = " ".join(said.decode("utf-8", "replace").split())[-_SHOWN_BYTES:] or "it has ended"
            hint = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run it as root"
            raise MachineError(f"commands cannot be run in a copy of {self.original}: {reason}", hint)
        answer = json.loads(line)
        if "failed" in answer:
            raise UsageError(f"{command[0]!r} cannot be run: {answer['failed']}", "check its path")
        return TreeRun(
            status=answer["status"],
            wall_s=answer["wall_s"],
            processor_s=answer["processor_s"],
            output=_content(self._files[1]),
            errors=_content(self._files[2]),
        )


def _kept_writable(beside: Path, notes: Path) -> list[Path] | None:
    """What commands may write to in the folder that holds the original; ``None`` where that is everything.

    Builds keep caches in hidden folders of the home folder, and write to that of temporary files.

    Args:
        beside: the folder.
        notes: for what is noted of commands.
    """
    temporary, home = (Path(one).resolve() for one in (tempfile.gettempdir(), Path.home()))
    if beside == beside.parent or beside == temporary:
        return None
    kept = [one for one in (temporary, home, notes) if beside in one.parents]
    with os.scandir(beside) as entries:
        hidden = [one for one in entries if one.name.startswith(".") and one.is_dir(follow_symlinks=False)]
    return [*kept, *(Path(one.path) for one in hidden)]


def _content(file: int) -> bytes:
    with open(file, "rb", closefd=False) as opened:
        opened.seek(0)
        return opened.read()
