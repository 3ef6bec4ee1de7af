"""Runs compilers on text that nobody has looked at, several at once, confined and within limits.

What a run of a compiler may read is fixed for the thread that starts it, so there are threads for each choice of
folders. May not run what comes out.
"""

from __future__ import annotations

import re
import signal
import subprocess
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import ParamSpec, TypeVar

from tuner.core.errors import MachineError
from tuner.core.scratch import ScratchFolder
from tuner.core.types import Status
from tuner.evaluators.sandbox.compiling import LIMITS, kill_group
from tuner.evaluators.sandbox.confine import confine_builder, set_limits

__all__ = ["PRINTED", "CompilerRuns", "first_error"]

_T = TypeVar("_T")
_P = ParamSpec("_P")
_POOLS_KEPT = 4
_TRIES = 5
PRINTED = "standard output"
"""The file beside a run's own in which its standard output is."""
_ERROR = re.compile(r"^(.*?(?:fatal )?[Ee]rror: .*)$", re.MULTILINE)
_MOST_SHOWN = 300
_BUG = re.compile(r"PLEASE submit a bug report|internal compiler error")


class CompilerRuns:
    """Runs compilers in threads that the kernel confines with all that they start.

    Args:
        programs: by their paths; the first is run where a run names none.
        read: what every run may read beside the programs' own installations and the system's.
        workers: how many at once.
        timeout_s: wall time of one run.
        environment: variables of every run, beside the locale and the folder for temporary files.
    """

    def __init__(
        self,
        programs: Sequence[str],
        *,
        read: Sequence[str] = (),
        workers: int = 1,
        timeout_s: float = 30.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._programs = tuple(programs)
        # Two levels up from a compiler are its libraries and headers.
        self._read = (*(str(Path(program).parents[1]) for program in programs), *read)
        self._workers = max(1, workers)
        self._timeout_s = timeout_s
        self._environment = dict(environment or {})
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._lock = threading.Lock()
        self._scratch = ScratchFolder("compiler")
        self._threads: OrderedDict[tuple[str, ...], ThreadPoolExecutor] = OrderedDict()

    def close(self) -> None:
        """Ends all runs; safe to call twice."""
        self._closed = True
        with self._lock:
            for process in self._running:
                kill_group(process)
        while self._threads:
            self._threads.popitem()[1].shutdown()
        self._scratch.cleanup()

    def folder(self) -> tempfile.TemporaryDirectory[str]:
        """A folder of its own in which a run may write."""
        return tempfile.TemporaryDirectory(dir=self._scratch.name)

    def start(
        self, read: Iterable[str], work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Callable[[], _T]:
        """Starts a piece of work in a thread whose runs can read these folders too; what comes back waits for it.

        Raises:
            MachineError: when waited for: the kernel refuses to confine it.
        """
        future = self._pool(read).submit(work, *args, **kwargs)

        def result() -> _T:
            try:
                return future.result()
            except BrokenExecutor as error:
                raise MachineError(
                    "compilers cannot be confined: the kernel refuses it", "tuner doctor says more"
                ) from error

        return result

    def _pool(self, folders: Iterable[str]) -> ThreadPoolExecutor:
        read = tuple(sorted({str(Path(folder).resolve()) for folder in folders}))
        if read not in self._threads:
            if len(self._threads) >= _POOLS_KEPT:
                self._threads.popitem(last=False)[1].shutdown()
            self._threads[read] = ThreadPoolExecutor(
                self._workers, "compiler", initializer=self._confine, initargs=(read,)
            )
        self._threads.move_to_end(read)
        return self._threads[read]

    def _confine(self, read: Sequence[str]) -> None:
        confine_builder(read=[*self._read, *read], write=[self._scratch.name])

    def run(
        self, words: Sequence[str], folder: str, *, program: str = "", timeout_s: float | None = None
    ) -> tuple[Status, str]:
        """Runs a program in a folder, in a thread of :meth:`start`'s: ``ok`` with what it said, or how it failed.

        What is killed from outside is started again: a compiler that takes too much meets a limit first.

        Args:
            words: behind the program.
            folder: that it runs in and may write to.
            program: another one than the first.
            timeout_s: wall time, in the place of what all runs have.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        for _ in range(_TRIES):
            status, output = self._run_once([program or self._programs[0], *words], folder, limit_s)
            if status is not Status.LOST or self._closed:
                break
        return status, output

    def _run_once(self, command: Sequence[str], folder: str, limit_s: float) -> tuple[Status, str]:
        name = PurePath(command[0]).name
        with open(Path(folder) / PRINTED, "wb") as printed:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**self._environment, "LC_ALL": "C", "TMPDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        set_limits(LIMITS, process=process.pid)
        with self._lock:
            self._running.add(process)
        try:
            _, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            kill_group(process)
            process.communicate()
            return Status.TIMED_OUT, f"{name} took longer than {limit_s:.3g} s"
        finally:
            with self._lock:
                self._running.discard(process)
        output = errors.decode("utf-8", "replace")
        if process.returncode == 0:
            return Status.OK, output
        if process.returncode == -signal.SIGKILL:
            return Status.LOST, f"{name} was killed from outside"
        if process.returncode < 0 or _BUG.search(output):
            return Status.CRASHED, f"{name} crashed: {first_error(output)}"
        return Status.BUILD_ERROR, output


def first_error(output: str) -> str:
    """The first error line of a compiler's output."""
    found = _ERROR.search(output)
    text = found[1] if found else output.strip().split("\n")[0]
    return text[:_MOST_SHOWN] or "the compiler failed and said nothing"
