"""Runs an unmodified application with a library of ours before its own, and reads what that library left behind.

The application's output, input and exit status stay its own. What is read is bytes from a process that may have
crashed at any point: what is not whole is left out and said so.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tuner.core.errors import MachineError, UsageError
from tuner.core.thread_counts import given_environment

__all__ = [
    "LOADED",
    "SEVERAL_THREADS",
    "Application",
    "InPlace",
    "KernelUse",
    "Ran",
    "read_logs",
]

LOADED = ("program", "linked", "opened")
"""How a file came into a process: as its executable, as a library that this is linked with, or loaded by itself."""

SEVERAL_THREADS = "calls of several threads at once"
"""Why such a call is not recorded; none but the first of them is timed."""

_COUNTERS = struct.Struct("<QQ")
_CALLS = struct.Struct("<QQQQ")
"""Of calls of one kind: how it is made, signature, how many, nanoseconds; why they cannot be recorded follows."""
_CALLS_BYTES = 256
_SOURCES_ASKED = {"PYOPENCL_NO_CACHE": "1", "CUPY_CACHE_IN_MEMORY": "1"}
"""What makes libraries build programs from source as at their first run, not from binaries that they kept."""
_DECIMAL = re.compile(r"\d+(\.\d+)?")


@dataclass(slots=True, kw_only=True)
class KernelUse:
    """What an application launched of one kernel of one program.

    Attributes:
        name: of the kernel.
        program: hash of the program with its options; kernels of one name in two programs differ in it.
        launches: how many.
        seconds: all of them together, each with everything before and after it finished.
        refused: why launches cannot be recorded, with how many.
        signatures: launches and seconds by signature.
        timed: how many launches were timed: not those that come while another thread is in one, nor those that are
            too short for it.
    """

    name: str
    program: str
    launches: int = 0
    seconds: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)
    signatures: dict[str, tuple[int, float]] = field(default_factory=dict)
    timed: int = 0

    def count(self, signature: str, seconds: float, why: str, launches: int = 1) -> None:
        """Launches more, with the reason why they cannot be recorded, if any."""
        self.launches += launches
        self.seconds += seconds
        self.timed += launches if seconds or not why else 0
        if why:
            self.refused[why] = self.refused.get(why, 0) + launches
        count, total = self.signatures.get(signature, (0, 0.0))
        self.signatures[signature] = (count + launches, total + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlace:
    """Launches of one kernel: those with another in its place, and those that stayed as they were."""

    replaced: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """An application that has ended.

    Attributes:
        status: its exit status; negative for a signal.
        wall_s: from start to end.
        processor_s: processor time of its processes that have ended.
        seen: whether any process of it called what the library stands before.
        kernels: in order of their time, longest first.
        lost: launches that should have been recorded and could not, and why.
        problems: kernels that could not be put in place, each with a reason.
        in_place: what became of the launches of each that was, by the name of its counters.
        loaded: the files of its processes where a list was asked for, each with how it came to be there: one of
            :data:`LOADED`.
    """

    status: int
    wall_s: float
    seen: bool
    processor_s: float = 0.0
    kernels: tuple[KernelUse, ...] = ()
    lost: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    in_place: Mapping[str, InPlace] = field(default_factory=dict)
    loaded: Mapping[Path, str] = field(default_factory=dict)

    @property
    def replaced(self) -> int:
        """Launches with another kernel in place, of all kernels."""
        return sum(one.replaced for one in self.in_place.values())

    @property
    def left(self) -> int:
        """Launches of such kernels that stayed as they were."""
        return sum(one.left for one in self.in_place.values())

    @property
    def ended_badly(self) -> str:
        """How it ended where that was no success; else empty."""
        if self.status < 0:
            return f"was ended by {signal.Signals(-self.status).name}"
        return f"ended with exit status {self.status}" if self.status else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A command to run with libraries before its own.

    Attributes:
        command: the words.
        libraries: what is loaded before everything else; none to run it as it is.
        silent: whether its standard output is thrown away.
        aside: whether its standard output goes to standard error.
        around: words of a command that runs the words behind it; the libraries are not loaded into that.
        bound: whether it finds at its start all functions that it calls: finding one later writes to its variables.
    """

    command: tuple[str, ...]
    libraries: tuple[Path, ...] = ()
    silent: bool = False
    aside: bool = False
    around: tuple[str, ...] = ()
    bound: bool = False

    def run(self, folder: Path, variables: Mapping[str, str]) -> Ran:
        """Runs it to its end.

        Args:
            folder: for what the library writes; must exist and be empty.
            variables: further environment variables.

        Raises:
            UsageError: there is no such command.
            MachineError: the path of a library cannot be told to the dynamic linker.
        """
        for library in self.libraries:
            if re.search(r"[\s:]", str(library)):
                cure = "set XDG_CACHE_HOME and TMPDIR to folders without"
                raise MachineError(
                    f"{library} cannot be loaded: a space or colon ends its path for ld.so", cure
                )
        # The application may go to another folder before it writes.
        out = {"TUNER_RECORD_OUT": str(folder.resolve())}
        own = {**variables, **out, **({"LD_BIND_NOW": "1"} if self.bound else {})}
        if self.libraries:
            before = os.environ.get("LD_PRELOAD", "")
            own["LD_PRELOAD"] = ":".join([*map(str, self.libraries), *([before] if before else [])])
        environment, command = {**_SOURCES_ASKED, **given_environment()}, self.command
        if self.around:
            command = (*self.around, "env", *(f"{name}={value}" for name, value in own.items()), *command)
        else:
            environment |= own
        output = subprocess.DEVNULL if self.silent else sys.stderr.fileno() if self.aside else None
        begin, used_s = time.perf_counter(), _processor_s()
        try:
            done = subprocess.run(command, env=environment, stdout=output, check=False)
        except FileNotFoundError:
            raise UsageError(f"there is no command {self.command[0]!r}", "check its path") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"{self.command[0]!r} cannot be run: {reason}", "name a program") from None
        ran = read_logs(folder, done.returncode, time.perf_counter() - begin)
        return replace(ran, processor_s=_processor_s() - used_s)


def _processor_s() -> float:
    """Of children that have been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def read_logs(folder: Path, status: int, wall_s: float) -> Ran:
    """What the library wrote down of an application that ended with a status after a while."""
    uses: dict[tuple[str, str], KernelUse] = {}
    lost: list[str] = []
    problems: list[tuple[str, str]] = []
    loaded: dict[Path, str] = {}
    logs = sorted(folder.glob("log-*"))
    for call, launches in _counted_calls(folder):
        _count(uses, call, launches)
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            kind, *words = line.split("\t")
            if kind == "launch" and len(words) == 5 and _DECIMAL.fullmatch(words[3]):
                _count(uses, words)
            elif kind == "lost" and words:
                lost.append(words[0])
            elif kind == "problem" and len(words) == 2:
                problems.append((words[0], words[1]))
            elif kind == "file" and len(words) == 2 and words[0] in LOADED and words[1].startswith("/"):
                # At its end a process names all of them again.
                loaded.setdefault(Path(words[1]), words[0])
    if any(folder.glob("launch-*.part")):
        lost.append("the application ended in the launch that was being recorded")
    return Ran(
        status=status,
        wall_s=wall_s,
        seen=bool(logs),
        kernels=tuple(sorted(uses.values(), key=lambda use: (-use.seconds, use.name))),
        lost=tuple(lost),
        problems=tuple(dict.fromkeys(problems)),
        in_place=_counters(folder),
        loaded=loaded,
    )


def _counted_calls(folder: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """What ``call_counts.c`` leaves: of each kind of call the words of a launch, and how many there were."""
    for file in sorted(folder.glob("calls-*")):
        # Empty where there was no room for it.
        data = file.read_bytes() or bytes(_CALLS_BYTES)
        entries = [data[at : at + _CALLS_BYTES] for at in range(0, len(data), _CALLS_BYTES)]
        name, *kinds = (entry[_CALLS.size :].split(b"\0")[0].decode(errors="replace") for entry in entries)
        for entry, why in zip(entries[1:], kinds, strict=True):
            _, signature, calls, nanoseconds = _CALLS.unpack_from(entry)
            if calls:
                yield (name, "0", f"{signature:016x}", f"{nanoseconds / 1e9:.9f}", why), calls


def _count(uses: dict[tuple[str, str], KernelUse], words: Sequence[str], launches: int = 1) -> None:
    name, program, signature, seconds, why = words
    use = uses.setdefault((name, program), KernelUse(name=name, program=program))
    use.count(signature, float(seconds), why, launches)


def _counters(folder: Path) -> dict[str, InPlace]:
    """By name, over all processes."""
    found: dict[str, InPlace] = {}
    for file in sorted(folder.glob("counters-*")):
        name = file.name.split("-", 2)[-1]
        replaced, left = _COUNTERS.unpack(file.read_bytes()[: _COUNTERS.size].ljust(_COUNTERS.size, b"\0"))
        before = found.get(name, InPlace())
        found[name] = InPlace(replaced=before.replaced + replaced, left=before.left + left)
    return found
