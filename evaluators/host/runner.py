"""Runs loaded object code on bundles in one child: attaching memory, calling, and saying how a child ended.

Neither compares outputs nor judges times.
"""

from __future__ import annotations

import array
import os
import random
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tuner.core.errors import MachineError
from tuner.core.types import Status
from tuner.evaluators.host.bundles import Bundle, OutputMemory
from tuner.evaluators.host.child import (
    ALONE,
    ATTACH,
    FINISHED,
    LEFT,
    LOADED,
    MAPPED,
    MESSAGE_BYTES,
    MISSING,
    OPEN,
    REFUSED,
    RUN,
)
from tuner.evaluators.host.layout import PAGE, Region, variable_place
from tuner.evaluators.host.objects import Object, unknown_calls
from tuner.evaluators.host.process import Child, Ended, Exit, Fault, TimedOut, Zygote
from tuner.evaluators.host.readings import Readings
from tuner.evaluators.python_reference import RETURN
from tuner.evaluators.sandbox.syscalls import name_of

__all__ = ["FILLED_BYTES_PER_S", "Attached", "CandidateFailed", "Limits", "Runner", "words_of"]

_START_S = 20.0
_PATIENCE = 4
_LONG_S = 10.0
FILLED_BYTES_PER_S = 1e8
"""What a busy machine maps and fills of a bundle at least."""
_PROGRESS = 3
_MOST_NAMED = 5
_NEAR_STACK_BYTES = 1 << 16
_SPACE = (0x1000_0000_0000, 0x5000_0000_0000)
_OPAQUE_UIDS = 0x7000_0000
_LEFT_TEAM = "a thread of its team has not come back after the call"
_MEANINGS = {
    **dict.fromkeys(
        ("clone", "clone3", "fork", "vfork"), "starts a process, or a thread beyond measure.threads"
    ),
    **dict.fromkeys(("execve", "execveat"), "starts a program"),
    **dict.fromkeys(("socket", "socketpair", "connect", "bind"), "opens a connection"),
    **dict.fromkeys(("open", "openat", "creat"), "opens a file for writing"),
    **dict.fromkeys(("write", "writev", "sendto", "sendmsg"), "writes to the result channel"),
    **dict.fromkeys(("read", "readv", "recvfrom", "recvmsg"), "reads a descriptor of the harness"),
    **dict.fromkeys(("mmap", "mprotect", "pkey_mprotect"), "changes code or the protection of memory"),
    **dict.fromkeys(("kill", "tkill", "tgkill"), "signals another process"),
    **dict.fromkeys(
        ("ptrace", "process_vm_readv", "process_vm_writev"), "reaches into the memory of another process"
    ),
}


class CandidateFailed(Exception):
    """The candidate did something that ends its trial; the detail is for the record."""

    def __init__(self, status: Status, message: str, detail: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.detail = status, message, dict(detail or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a child may take.

    Attributes:
        memory_bytes: of address space beyond what the zygote has mapped, the buffers included.
        cpu_s: seconds of processor time over its life, a backstop for the parent's own watch.
        threads: how many threads a kernel may have.
        openmp: they are a team, made before the candidate is loaded, by a library that reads these variables;
            ``None``: the kernel starts them itself.
        varies: single calls are made by teams of other sizes in turn.
    """

    memory_bytes: int
    cpu_s: int = 36_000
    threads: int = 1
    openmp: Mapping[str, str] | None = None
    varies: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Attached:
    """A bundle that a child has mapped.

    Attributes:
        variables: places of the pages of the candidate's variables.
        tried: timed calls on it so far, those that count for nothing too.
    """

    bundle: Bundle
    base: int
    memory: OutputMemory
    variables: Mapping[str, int]
    tried: int = 0

    def row(self, number: int) -> list[int]:
        """As :meth:`tuner.evaluators.host.bundles.Bundle.row`."""
        return self.bundle.row(number, self.base, self.variables)

    def find(self, address: int) -> tuple[Region, int] | None:
        """The buffer nearest to an address, and how far from it that is; see :meth:`BundleLayout.find`."""
        entry = self.bundle.layout.entries[0]
        arrays = (
            self.bundle.signature.variables - self.bundle.signature.pointers - self.bundle.signature.memory
        )
        for name, place in self.variables.items():
            if name not in arrays:
                continue
            region = entry.region(name)
            at, end = place + region.skip, place + region.span.size_bytes
            if place - PAGE <= address < end + PAGE:
                past = address - at - region.buffer.size_bytes + 1
                return region, address - at if address < at else max(0, past)
        found = self.bundle.layout.find(address - self.base)
        return None if found is None else found[1:]


def words_of(values: Sequence[int]) -> bytes:
    """64-bit words as they travel."""
    return array.array("q", values).tobytes()


class Runner:
    """One child with one candidate loaded.

    Args:
        zygote: to fork from.
        code: object code.
        symbol: the entry in it.
        limits: for the child.
        wide: whether the code takes float64 in the place of narrower types.
        seed: for the addresses.
        variables: bytes of the variables that the code imports, by name; 0 of pointers.
        memory: address and bytes of what has to lie where it lay when it was recorded.

    Raises:
        CandidateFailed: the code cannot be loaded, or (``lost``) no child can be made.
    """

    def __init__(
        self,
        zygote: Zygote,
        code: bytes,
        *,
        symbol: str,
        limits: Limits,
        wide: bool = False,
        seed: int = 0,
        variables: Mapping[str, int] | None = None,
        memory: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._limits = limits
        places = {name: variable_place(n) if n else (0, 0) for name, n in (variables or {}).items()}
        self._random = random.Random(seed)
        self._attached: list[Attached] = []
        root = os.geteuid() == 0
        self._calls = _unknown_calls(code)
        request = {
            "calls": self._calls,
            "symbol": symbol,
            "thunk": "tuner_thunk_wide" if wide else "tuner_thunk",
            "uid": _OPAQUE_UIDS + self._random.randrange(1 << 20) if root else None,
            "cpu_s": limits.cpu_s,
            "memory_bytes": limits.memory_bytes,
            "threads": limits.threads,
            "processes": _processes(limits, root),
            "openmp": dict(limits.openmp or {}),
            "variables": [[name, *place] for name, place in places.items()],
            "memory": [list(span) for span in memory],
        }
        try:
            self.child: Child = zygote.fork(code, request)
        except MachineError as error:
            raise CandidateFailed(Status.LOST, str(error)) from None
        answer = self.receive(_START_S, "loading")
        kind = _word(answer)
        if kind == REFUSED:
            self.close()
            raise CandidateFailed(Status.REFUSED, f"cannot be loaded: {answer[8:].decode(errors='replace')}")
        if kind in (OPEN, ALONE):
            self.close()
            what = "cannot be confined: " if kind == OPEN else ""
            raise CandidateFailed(Status.LOST, f"{what}{answer[8:].decode(errors='replace')}")
        _, *there = self.expect(answer, LOADED, 1 + len(places))
        self._variables = dict(zip(places, there, strict=True))
        self._idle_threads = self._threads("loading")
        self._others_s = 0.0

    @property
    def thread_limit(self) -> int:
        """Threads that the process may have after a call."""
        if self._limits.openmp is not None:
            return self._idle_threads
        return self._idle_threads + self._limits.threads - 1

    def worked_s(self, readings: Readings) -> float:
        """Processor time that the members of its team have used since it stood still; 0 where there is no team."""
        if self._limits.openmp is None:
            return 0.0
        try:
            return readings.others_s(self.child) - self._others_s
        except Ended:
            raise self.failure("a pause") from None

    def _threads(self, during: str) -> int:
        try:
            return self.child.threads()
        except Ended:
            raise self.failure(during) from None

    def receive(self, timeout_s: float, during: str) -> bytes:
        """One message of the child.

        A child that was not given half of the processor time it may take is waited for a few times as long: others,
        or a hypervisor, may have had the processor.

        Raises:
            CandidateFailed: the child died or took too long; it is gone then.
        """
        try:
            used = self.child.cpu_s()
            for _ in range(_PATIENCE if timeout_s < _LONG_S else 1):
                try:
                    return self.child.receive(timeout_s)
                except TimedOut:
                    if self.child.cpu_s() - used > 0.5 * timeout_s:
                        break
        except Ended:
            raise self.failure(during) from None
        self.close()
        raise CandidateFailed(Status.TIMED_OUT, f"no end within {timeout_s:.3g} s in {during}")

    def send(self, message: bytes, during: str, files: Sequence[int] = ()) -> None:
        """One request; raises as :meth:`receive`."""
        try:
            self.child.send(message, files)
        except Ended:
            raise self.failure(during) from None

    def expect(self, message: bytes, kind: int, words: int) -> tuple[int, ...]:
        """The words of a message of one kind and length; anything else is a forgery."""
        if len(message) == 8 * words and _word(message) == kind:
            found: tuple[int, ...] = struct.unpack(f"{words}q", message)
            return found
        self.close()
        raise CandidateFailed(Status.REFUSED, "the process sent something that only a tampered one would")

    def attach(self, bundle: Bundle) -> Attached:
        """Maps a bundle in the child; raises as :meth:`receive`."""
        low, high = (edge // PAGE for edge in _SPACE)
        base = self._random.randrange(low, high) * PAGE
        attached = Attached(bundle=bundle, base=base, memory=bundle.borrow(), variables=self._variables)
        self._attached.append(attached)
        patience_s = self._ask_to_map(attached)
        answer = self.expect(self.receive(patience_s, "mapping"), MAPPED, 2)
        if answer[1]:
            self.close()
            reason = os.strerror(answer[1])
            raise CandidateFailed(Status.OUT_OF_RESOURCES, f"its buffers cannot be mapped: {reason}")
        return attached

    def _ask_to_map(self, attached: Attached) -> float:
        """Sends what the child is to map; the seconds that it may take."""
        bundle, base = attached.bundle, attached.base
        rows = bundle.layout.rows(base)
        message = words_of([ATTACH, base, bundle.layout.space_bytes, len(rows) // 6, *rows])
        self.send(message, "mapping", [bundle.inputs, attached.memory.descriptor])
        return _START_S + bundle.layout.space_bytes / FILLED_BYTES_PER_S

    def run(self, attached: Attached, numbers: Sequence[int], limits_s: Sequence[float]) -> list[float]:
        """Calls the kernel once on each of some entries.

        Args:
            attached: the bundle.
            numbers: which entries.
            limits_s: the longest wall time of each call, seconds.

        Returns:
            Seconds of each call by the child's own clock.

        Raises:
            CandidateFailed: as :meth:`receive`.
        """
        bundle = attached.bundle
        width, took = len(attached.row(0)), []
        chunk = max(1, (MESSAGE_BYTES // 8 - 16) // width)
        for start in range(0, len(numbers), chunk):
            part = numbers[start : start + chunk]
            rows = [word for n in part for word in attached.row(n)]
            shape = [bundle.signature.words, bundle.copies, bundle.variables]
            header = [RUN, len(part), *shape, int(self._limits.varies)]
            self.send(words_of([*header, *rows]), bundle.labels[bundle.layout.entries[part[0]].inputs])
            for i, n in enumerate(part):
                label = bundle.labels[bundle.layout.entries[n].inputs]
                answer = self.expect(self.receive(limits_s[start + i], label), _PROGRESS, 3)
                took.append(max(answer[2], 0) * 1e-9)
            self.expect(self.receive(_START_S, "the end of a run"), FINISHED, 1)
        return took

    def stop(self, readings: Readings | None = None) -> None:
        """Makes the child stand still and looks at its threads.

        Args:
            readings: of their processor time so far, where that is asked for later.

        Raises:
            CandidateFailed: it is gone, or has more threads than it may.
        """
        try:
            self.child.stop()
            threads = self.child.threads()
            if readings is not None and self._limits.openmp is not None:
                self._others_s = readings.others_s(self.child)
        except Ended:
            raise self.failure("a stop") from None
        except TimedOut:
            self.close()
            raise CandidateFailed(Status.REFUSED, "the process cannot be stopped") from None
        if threads > self.thread_limit:
            self.close()
            raise CandidateFailed(
                Status.REFUSED, f"{threads - self.thread_limit} threads go on after the kernel has returned"
            )

    def resume(self) -> None:
        """Lets the child run again."""
        try:
            self.child.resume()
        except Ended:
            raise self.failure("a stop") from None

    def failure(self, during: str) -> CandidateFailed:
        """Ends the child and says why it was already gone."""
        places = list(self._attached)
        ended = self.close()
        if not ended.lost and os.WIFEXITED(ended.status) and os.WEXITSTATUS(ended.status) == MISSING:
            calls = ", ".join(self._calls[:_MOST_NAMED])
            why = f"calls what neither kernel.sources nor C's and the mathematical library define: {calls}"
            return CandidateFailed(Status.REFUSED, f"{why} in {during}")
        return _diagnose(ended, places, during)

    def close(self) -> Exit:
        """Ends the child and everything that it left; the same answer every time."""
        try:
            return self.child.end()
        finally:
            for attached in self._attached:
                attached.bundle.give_back(attached.memory)
            self._attached.clear()


@lru_cache(maxsize=64)
def _unknown_calls(code: bytes) -> list[str]:
    try:
        return sorted(unknown_calls(Object(code)))
    except ValueError:
        # The loader says what is wrong with it.
        return []


def _processes(limits: Limits, root: bool) -> int | None:
    """How many there may be; ``None``: as many as before."""
    if limits.openmp is not None:
        # None at all as soon as the team is there, and nothing of the candidate's before.
        return None
    # Counted for each user: without a user of its own only "none" is a limit for the child alone.
    return 0 if limits.threads == 1 else limits.threads if root else None


def _word(message: bytes, index: int = 0) -> int:
    if len(message) < 8 * index + 8:
        return -1
    word: int = struct.unpack_from("q", message, 8 * index)[0]
    return word


def _diagnose(ended: Exit, places: Sequence[Attached], during: str) -> CandidateFailed:
    if ended.lost:
        return CandidateFailed(Status.LOST, f"the run worker's zygote has ended in {during}")
    fault = ended.fault
    if fault is not None and fault.signal == signal.SIGSYS:
        return CandidateFailed(Status.REFUSED, f"{_forbidden(name_of(fault.address))} in {during}")
    if fault is not None and fault.no_memory:
        return CandidateFailed(Status.OUT_OF_RESOURCES, f"ran out of memory in {during}")
    if os.WIFEXITED(ended.status):
        code = os.WEXITSTATUS(ended.status)
        if code == LEFT:
            return CandidateFailed(Status.REFUSED, f"{_LEFT_TEAM} in {during}")
        return CandidateFailed(Status.CRASHED, f"ended its process with exit status {code} in {during}")
    number = os.WTERMSIG(ended.status)
    if number == signal.SIGSYS:
        return CandidateFailed(Status.REFUSED, f"makes a system call that no kernel needs in {during}")
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    if number == signal.SIGXCPU:
        return CandidateFailed(Status.TIMED_OUT, f"used up its processor time in {during}")
    if number == signal.SIGKILL:
        # A candidate that takes too much meets a limit first; whoever it was that killed, it was not the tuner.
        return CandidateFailed(Status.LOST, f"killed from outside ({name}) in {during}")
    status, why = Status.CRASHED, ""
    if fault is not None and fault.signal in (signal.SIGSEGV, signal.SIGBUS):
        status, why = _explain(fault, places)
    return CandidateFailed(status, f"{name}{': ' + why if why else ''} in {during}")


def _forbidden(call: str) -> str:
    what = _MEANINGS.get(call, "asks the system for what no kernel needs")
    return f"{what} (system call {call})"


def _explain(fault: Fault, places: Sequence[Attached]) -> tuple[Status, str]:
    verb = "writes" if fault.writes else "reads"
    if fault.address < PAGE:
        return Status.CRASHED, f"{verb} through a null pointer"
    for attached in places:
        found = attached.find(fault.address)
        if found is None:
            continue
        region, away = found
        what = "the returned value" if region.buffer.name == RETURN else region.buffer.name
        if away == 0 and region.buffer.role == "input":
            return Status.WRONG_RESULT, f"writes to input {what}"
        if away:
            side = "past the end" if away > 0 else "before the start"
            return Status.CRASHED, f"out of bounds: {verb} byte {abs(away)} {side} of {what}"
    if abs(fault.address - fault.stack) < _NEAR_STACK_BYTES:
        return Status.CRASHED, "stack overflow"
    return Status.CRASHED, f"{verb} at {fault.address:#x}"
