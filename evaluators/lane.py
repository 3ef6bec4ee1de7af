"""One timing lane for each device, shared by all tuners on the machine, and what else the machine was doing.

Only waiting and reading: it starts no processes and changes no setting of the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError

__all__ = ["CacheSizes", "TimingLane", "cache_sizes", "lane_path", "load_notes", "text_of"]

FOLDER_VARIABLE = "TUNER_LANE_FOLDER"
"""Names the folder of the lock files, which all tuners on a machine have to share."""
_FOLDER = Path("/tmp")
# Not TMPDIR: users with different ones would not meet.
_FIRST_WAIT_S, _LONGEST_WAIT_S, _NOTE_EVERY_S = 0.002, 0.02, 10.0


@dataclass(slots=True)
class _Held:
    """This process's hold on one lane: a lock among its threads, and the file's."""

    pid: int
    among_threads: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0
    descriptor: int = -1


# The kernel's lock belongs to the process, so must the record of holding it: a second lane object for the same
# device in one thread would wait for the first one for ever.
_held: dict[str, _Held] = {}
_held_guard = threading.Lock()


def lane_path(device: str, folder: Path | None = None) -> Path:
    """The file whose lock is the lane of a device; in the folder that the environment names, else in ``/tmp``."""
    if folder is None:
        folder = Path(os.environ.get(FOLDER_VARIABLE) or _FOLDER)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-")[:40]
    unique = hashlib.sha256(device.encode()).hexdigest()[:12]
    return folder / f"remix-tuner-lane-{readable}-{unique}"


class TimingLane:
    """The right to time something on a device; a context manager.

    Held by one thread of one process on the machine at a time, whoever its user is. Re-entrant within a thread.
    Waiting is fair: who has just let go queues behind those who wait. A process that dies lets go.

    Args:
        device: a name that every tuner on the machine gives to the same device, for example ``"cpu"``.
        folder: where the lock files are, see :func:`lane_path`; all users must be able to write to it.
        note: told in one line when there is waiting to do, and every ten seconds again.
        timeout_s: the longest wait in seconds; none when left out.
    """

    def __init__(
        self,
        device: str,
        *,
        folder: Path | None = None,
        note: Callable[[str], None] | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.device = device
        self._path = lane_path(device, folder)
        self._note = note
        self._timeout_s = timeout_s
        self.waited_s = 0.0
        """Seconds that the last entry waited."""

    def __enter__(self) -> TimingLane:
        """Waits for the lane.

        Raises:
            MachineError: the wait took longer than allowed, or the lock file is not what it should be.
        """
        start = time.monotonic()
        held = _hold_of(self._path)
        limit = -1.0 if self._timeout_s is None else self._timeout_s
        if not held.among_threads.acquire(timeout=limit):
            raise self._too_long()
        try:
            if held.depth == 0:
                held.descriptor = self._acquire(start)
            held.depth += 1
        except BaseException:
            held.among_threads.release()
            raise
        self.waited_s = time.monotonic() - start
        return self

    def __exit__(self, *exception: object) -> None:
        held = _hold_of(self._path)
        if held.depth == 0:
            return  # a process forked inside the block: the lane is its parent's
        held.depth -= 1
        if held.depth == 0:
            # Unlocked, not only closed: a process forked meanwhile shares the lock.
            fcntl.flock(held.descriptor, fcntl.LOCK_UN)
            os.close(held.descriptor)
            held.descriptor = -1
        held.among_threads.release()

    def _acquire(self, start: float) -> int:
        # The turnstile makes it fair: the next one waits in it, and who lets go of the lane has to pass it again.
        turnstile = self._lock(self._path.with_name(self._path.name + ".next"), start)
        try:
            return self._lock(self._path, start)
        finally:
            fcntl.flock(turnstile, fcntl.LOCK_UN)
            os.close(turnstile)

    def _lock(self, path: Path, start: float) -> int:
        pause, told = _FIRST_WAIT_S, -_NOTE_EVERY_S
        while True:
            descriptor = _open(path)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _holder(descriptor)
                os.close(descriptor)
            except OSError as error:
                os.close(descriptor)
                raise MachineError(
                    f"cannot lock {path} ({error.strerror})", "make the file writable, or remove it"
                ) from None
            else:
                if _still_there(descriptor, path):
                    return descriptor
                os.close(descriptor)
                continue
            waited = time.monotonic() - start
            if self._timeout_s is not None and waited > self._timeout_s:
                raise self._too_long()
            if self._note is not None and waited - told >= _NOTE_EVERY_S:
                told = waited
                self._note(f"waiting for the timing lane of {self.device}{holder}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT_S)

    def _too_long(self) -> MachineError:
        return MachineError(
            f"the timing lane of {self.device} was not free within {self._timeout_s:g} s",
            f"another tuner is timing; {self._path} is its lock",
        )


def _hold_of(path: Path) -> _Held:
    with _held_guard:
        held = _held.get(str(path))
        if held is None or held.pid != os.getpid():
            if held is not None and held.descriptor >= 0:
                # Inherited through a fork; closing a copy leaves the parent's lock alone.
                os.close(held.descriptor)
            held = _held[str(path)] = _Held(os.getpid())
        return held


def _open(path: Path) -> int:
    """Opens the lock file, made where it is missing; never through a link, never another kind of file."""
    # Locking needs no right to write, so the file has none to give: another user's is opened like one's own.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    denied = 0
    while True:
        try:
            descriptor = os.open(path, flags)
            break
        except FileNotFoundError:
            pass
        except OSError as error:
            if isinstance(error, PermissionError) and denied < 5:
                # Its maker may not have opened it to others yet.
                denied += 1
                time.sleep(_LONGEST_WAIT_S)
                continue
            raise MachineError(f"cannot open {path} ({error.strerror})", "remove it") from None
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444)
            # The user's mask may have taken the others' right to read.
            os.fchmod(descriptor, 0o444)
            break
        except FileExistsError:
            continue
        except OSError as error:
            raise MachineError(f"cannot make {path} ({error.strerror})", "make its folder writable") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise MachineError(f"{path} is not a plain file", "remove it")
    return descriptor


def _still_there(descriptor: int, path: Path) -> bool:
    """Whether the locked file is the one that others will find: a cleaner may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _holder(descriptor: int) -> str:
    inode = os.fstat(descriptor).st_ino
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split()
        if len(words) >= 6 and "->" not in words and words[5].rpartition(":")[2] == str(inode):
            return f" (process {words[4]} has it)"
    return ""


def load_notes(pid: int | None = None, *, root: Path = Path("/")) -> dict[str, Any]:
    """What the machine was doing, as plain JSON; what cannot be read is left out.

    Args:
        pid: a process whose context switches count; this one when left out.
        root: where ``proc`` and ``sys`` are.

    Returns:
        ``load_1min``, ``running`` (runnable threads on the machine), ``involuntary_switches`` and
        ``voluntary_switches`` of the process so far, ``cpu_mhz`` (median over CPUs).
    """
    notes: dict[str, Any] = {}
    words = text_of(root / "proc/loadavg").split()
    if len(words) >= 4 and "/" in words[3]:
        notes["load_1min"] = float(words[0])
        notes["running"] = int(words[3].split("/")[0])
    status = text_of(root / "proc" / str(pid if pid is not None else "self") / "status")
    for key, name in (("nonvoluntary", "involuntary_switches"), ("voluntary", "voluntary_switches")):
        found = re.search(rf"^{key}_ctxt_switches:\s*(\d+)", status, re.MULTILINE)
        if found:
            notes[name] = int(found[1])
    mhz = _frequencies(root)
    if mhz:
        notes["cpu_mhz"] = sorted(mhz)[len(mhz) // 2]
    return notes


def _frequencies(root: Path) -> list[float]:
    current = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")
    mhz = [int(text) / 1000 for text in map(text_of, current) if text.strip().isdigit()]
    if mhz:
        return mhz
    return [
        float(x) for x in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", text_of(root / "proc/cpuinfo"), re.MULTILINE)
    ]


def text_of(path: Path) -> str:
    """What a file of the kernel's says; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSizes:
    """Data caches of one CPU in bytes; the defaults are guesses for a machine that does not say."""

    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    last_level_bytes: int = 32 << 20


def cache_sizes(*, root: Path = Path("/"), cpu: int | None = None) -> CacheSizes:
    """The caches of a CPU (the first that this process may run on when left out), from ``/sys``."""
    number = min(os.sched_getaffinity(0)) if cpu is None else cpu
    levels: dict[int, int] = {}
    for folder in sorted((root / f"sys/devices/system/cpu/cpu{number}/cache").glob("index[0-9]*")):
        level, size = text_of(folder / "level").strip(), _bytes(text_of(folder / "size").strip())
        if level.isdigit() and size and text_of(folder / "type").strip() in ("Data", "Unified"):
            levels[int(level)] = max(size, levels.get(int(level), 0))
    if not levels:
        return CacheSizes()
    last = levels[max(levels)]
    l1 = levels.get(1, min(levels.values()))
    return CacheSizes(l1_bytes=l1, l2_bytes=levels.get(2, last), last_level_bytes=last)


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]] if found else 0
