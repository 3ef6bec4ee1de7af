"""Messages between a driver and the workers of one node, many in one: a relay beside the workers gathers and hands out.

A message of a cluster costs its sender and its receiver a millisecond, a write to a socket of the same machine a
hundredth. So the driver talks to one relay a node: what it has to say to any workers there goes as one message, and
what they have answered since it last asked comes back as one. An answer that leaves its worker without work is told at
once; one whose worker goes on with its next message may wait for others a small part of the time that the worker takes.

Sockets are in a folder that only this user can enter, and who connects has to know a key. May not know of jobs or Ray.
"""

from __future__ import annotations

import hmac
import math
import os
import pickle
import secrets
import selectors
import socket
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.core.scratch import ScratchFolder

__all__ = ["Door", "Link", "Relay", "knock", "pack", "serve", "unpack"]

_HEAD = struct.Struct("!Q")
_FIRST = struct.Struct("!q")
_KEY_BYTES = 32
_PATH_BYTES = 100
"""Of a socket's path the system takes 108."""

_READ_BYTES = 1 << 16
"""More than this the allocator asks the system for, at each read."""

STUCK_S = 30.0
"""How long one that has not said who it is is waited for."""

GATHER_MOST_S = 0.02
GATHER_PART = 0.25
"""How long an answer may wait for others: this part of the time that its worker takes for one, and no longer."""

_LOOKS = 4
"""How often it is looked meanwhile: a relay that wakes up for each answer takes longer for it than its worker does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """Where the workers of a node find their relay.

    Attributes:
        path: of the socket.
        key: that opens it.
    """

    path: str
    key: bytes = field(repr=False)


class Link:
    """Whole messages over a socket, several in one read; one thread may send while another receives.

    Args:
        plain: connected, blocking; closed with the link.
    """

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain
        self._read = bytearray()
        self._sending = threading.Lock()
        self._unsent: deque[bytes] = deque()

    def fileno(self) -> int:
        """For selectors."""
        return self._plain.fileno()

    def send(self, data: bytes) -> None:
        """Sends one message.

        Raises:
            OSError: the other end is gone.
        """
        self._plain.sendall(_HEAD.pack(len(data)) + data)

    def push(self, data: bytes) -> None:
        """Sends one message without waiting: what the other end does not take now a thread sends when it does.

        Raises:
            OSError: the other end is gone.
        """
        framed = _HEAD.pack(len(data)) + data
        with self._sending:
            if self._unsent:
                self._unsent.append(framed)
                return
            try:
                sent = self._plain.send(framed, socket.MSG_DONTWAIT)
            except BlockingIOError:
                sent = 0
            if sent == len(framed):
                return
            self._unsent.append(framed[sent:])
        threading.Thread(target=self._send_rest, daemon=True).start()

    def receive(self, most_bytes: int | None = None) -> bytes | None:
        """The next message; ``None`` where the other end is gone, stuck, or says too much."""
        while True:
            message = self._next()
            if message is not None:
                return message
            if most_bytes is not None and self._announced() > most_bytes:
                return None
            if not self._take_in(0):
                return None

    def received(self) -> list[bytes] | None:
        """The messages that are there whole after one read, without waiting; ``None`` where the other end is gone."""
        if not self._take_in(socket.MSG_DONTWAIT):
            return None
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def patience(self, seconds: float | None) -> None:
        """How long the other end may take for a part of a message; ``None``: for ever."""
        self._plain.settimeout(seconds)

    def hang_up(self) -> None:
        """Both ends see the end of it; for another thread than the one that receives."""
        try:
            self._plain.shutdown(socket.SHUT_RDWR)
        except OSError:
            """It was gone before."""

    def close(self) -> None:
        """Safe to call twice."""
        self._plain.close()

    def _announced(self) -> int:
        return int(_HEAD.unpack_from(self._read)[0]) if len(self._read) >= _HEAD.size else -1

    def _next(self) -> bytes | None:
        end = _HEAD.size + self._announced()
        if end < _HEAD.size or len(self._read) < end:
            return None
        message = bytes(memoryview(self._read)[_HEAD.size : end])
        del self._read[:end]
        return message

    def _take_in(self, flags: int) -> bool:
        try:
            data = self._plain.recv(_READ_BYTES, flags)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._read += data
        return bool(data)

    def _send_rest(self) -> None:
        try:
            while True:
                self._plain.sendall(self._unsent[0])
                with self._sending:
                    self._unsent.popleft()
                    if not self._unsent:
                        return
        except OSError:
            self.hang_up()


def pack(entries: Sequence[tuple[object, bytes | None]]) -> bytes:
    """Several messages as one."""
    return pickle.dumps(list(entries), protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> list[tuple[object, bytes | None]]:
    """The inverse of :func:`pack`; only for what the same user's processes made."""
    found = pickle.loads(data)
    assert isinstance(found, list)
    return found


@dataclass(slots=True, eq=False)
class _Worker:
    """One end of the relay.

    Attributes:
        link: to it.
        given: messages that it was sent; written by the thread that sends.
        answered: of them; this and the others are written by the thread that collects.
        answered_s: when it last answered.
        took_s: between its last two answers; 0 where it had nothing to do in between.
    """

    link: Link
    given: int = 0
    answered: int = 0
    answered_s: float = 0.0
    took_s: float = 0.0
    went_on: bool = False

    def answers(self, count: int) -> float:
        """Notes so many answers; gives the seconds that they may wait: none where it is without work now."""
        now = time.monotonic()
        self.took_s = (now - self.answered_s) / count if self.went_on else 0.0
        self.answered_s = now
        self.answered += count
        self.went_on = self.given > self.answered
        return min(GATHER_PART * self.took_s, GATHER_MOST_S) if self.went_on else 0.0


class Relay:
    """Beside the workers of a node: hands out what the driver sends and gathers what they answer.

    :meth:`send` and :meth:`collect` are called by a thread each.
    """

    def __init__(self) -> None:
        self._folder = ScratchFolder("relay", parent=_short_folder())
        self.door = Door(path=f"{self._folder.name}/relay", key=secrets.token_bytes(_KEY_BYTES))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.door.path)
        self._listener.listen(1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._workers: dict[int, _Worker] = {}

    def where(self) -> Door:
        """What the workers of this node have to know."""
        return self.door

    def send(self, packed: bytes) -> None:
        """Hands out messages in order, and waits for nobody to take one.

        Args:
            packed: pairs of workers' numbers (a list) and a message for each of them; one who is gone gets nothing,
                which :meth:`collect` tells.
        """
        for places, data in unpack(packed):
            assert isinstance(places, list)
            assert data is not None
            for place in places:
                worker = self._workers.get(place)
                if worker is None:
                    continue
                worker.given += 1
                try:
                    worker.link.push(data)
                except OSError:
                    worker.link.hang_up()

    def collect(self, timeout_s: float) -> bytes:
        """All that was answered since the last call, packed; waits for something, or for the time to be over.

        Where all whose answers are there have more to do, it waits for others a little longer, and looks now and then
        whether one has come that may not wait.

        Returns:
            Pairs of a worker's number and its message; ``None`` for the message where the worker is gone. The first of
            each is what it said when it came.
        """
        found: list[tuple[object, bytes | None]] = []
        until_s = nap_s = math.inf
        while True:
            ready = self._selector.select(timeout_s)
            for key, _ in ready:
                answers, patience_s = self._heard(key)
                found += answers
                if answers:
                    until_s = min(until_s, time.monotonic() + patience_s)
                    nap_s = min(nap_s, patience_s / _LOOKS)
            # Whoever has no right to be here is no answer.
            if not found and ready:
                continue
            left_s = until_s - time.monotonic() if found else 0.0
            if left_s <= 0:
                return pack(found)
            time.sleep(min(nap_s, left_s))
            timeout_s = 0.0

    def close(self) -> None:
        """Hangs up on all workers and removes the socket."""
        for worker in self._workers.values():
            worker.link.hang_up()
            worker.link.close()
        self._listener.close()
        self._selector.close()
        self._folder.cleanup()

    def _heard(self, key: selectors.SelectorKey) -> tuple[list[tuple[object, bytes | None]], float]:
        """Who came, or what a worker says, and how many seconds that may wait."""
        if key.fileobj is self._listener:
            return self._let_in(), 0.0
        place = key.data
        worker = self._workers[place]
        messages = worker.link.received()
        if messages is None:
            self._selector.unregister(worker.link)
            del self._workers[place]
            worker.link.close()
            return [(place, None)], 0.0
        patience_s = worker.answers(len(messages)) if messages else 0.0
        return [(place, message) for message in messages if message], patience_s

    def _let_in(self) -> list[tuple[object, bytes | None]]:
        plain, _ = self._listener.accept()
        plain.settimeout(STUCK_S)
        link = Link(plain)
        first = link.receive(most_bytes=_FIRST.size + _KEY_BYTES)
        said = None if first is None or not self._known(first) else link.receive()
        if first is None or said is None:
            link.close()
            return []
        link.patience(None)
        place = int(_FIRST.unpack_from(first)[0])
        self._workers[place] = _Worker(link=link)
        self._selector.register(link, selectors.EVENT_READ, data=place)
        return [(place, said)]

    def _known(self, first: bytes) -> bool:
        return len(first) == _FIRST.size + _KEY_BYTES and hmac.compare_digest(
            first[_FIRST.size :], self.door.key
        )


def knock(door: Door, place: int, said: bytes) -> Link:
    """A worker's end of its link.

    Args:
        door: of the node's relay.
        place: the worker's number, which no other had.
        said: what the driver is to hear first.

    Raises:
        OSError: there is no relay.
    """
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    plain.connect(door.path)
    link = Link(plain)
    link.send(_FIRST.pack(place) + door.key)
    link.send(said)
    return link


def serve(link: Link, answer: Callable[[bytes], bytes | None]) -> None:
    """Answers messages one after the other until the relay is gone.

    Args:
        link: closed at the end.
        answer: the reply to a message; ``None``: only the relay hears that it was taken.
    """
    try:
        while (message := link.receive()) is not None:
            link.send(answer(message) or b"")
    except ConnectionError:
        """Nobody hears the reply."""
    finally:
        link.hang_up()
        link.close()


def _short_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) < _PATH_BYTES - 40 else "/tmp"
