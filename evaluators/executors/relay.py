"""Messages between a driver and the workers of one node, many in one: a relay beside the workers gathers and hands out.

A message of a cluster costs its sender and its receiver a millisecond, a write to a socket of the same machine a
hundredth. So the driver talks to one relay a node: what it has to say to any workers there goes as one message, and
what they have answered since it last asked comes back as one. Nothing waits to make a message larger: an answer that
comes while the driver asks is sent at once, and only what comes while it is busy travels together.

Sockets are in a folder that only this user can enter, and who connects has to know a key. May not know of jobs or Ray.
"""

from __future__ import annotations

import hmac
import os
import pickle
import queue
import secrets
import selectors
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Door", "Link", "Relay", "knock", "pack", "serve", "unpack"]

_HEAD = struct.Struct("!Q")
_FIRST = struct.Struct("!q")
_KEY_BYTES = 32
_PATH_BYTES = 100
"""Of a socket's path the system takes 108."""

STUCK_S = 30.0
"""How long one that takes or gives half a message is waited for."""


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
    """Whole messages over a socket; one thread may send while another receives."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain

    def fileno(self) -> int:
        """For selectors."""
        return self._plain.fileno()

    def send(self, data: bytes) -> None:
        """Sends one message.

        Raises:
            OSError: the other end is gone, or takes nothing.
        """
        self._plain.sendall(_HEAD.pack(len(data)) + data)

    def receive(self, most_bytes: int | None = None) -> bytes | None:
        """The next message; ``None`` where the other end is gone, stuck, or says too much."""
        try:
            head = self._take(_HEAD.size)
            size = -1 if head is None else _HEAD.unpack(head)[0]
            if size < 0 or (most_bytes is not None and size > most_bytes):
                return None
            return self._take(size)
        except OSError:
            return None

    def hang_up(self) -> None:
        """Both ends see the end of it; for another thread than the one that receives."""
        try:
            self._plain.shutdown(socket.SHUT_RDWR)
        except OSError:
            """It was gone before."""

    def close(self) -> None:
        """Safe to call twice."""
        self._plain.close()

    def _take(self, size: int) -> bytes | None:
        data = bytearray(size)
        view, got = memoryview(data), 0
        while got < size:
            count = self._plain.recv_into(view[got:])
            if not count:
                return None
            got += count
        return bytes(data)


def pack(entries: Sequence[tuple[object, bytes | None]]) -> bytes:
    """Several messages as one."""
    return pickle.dumps(list(entries), protocol=pickle.HIGHEST_PROTOCOL)


def unpack(data: bytes) -> list[tuple[object, bytes | None]]:
    """The inverse of :func:`pack`; only for what the same user's processes made."""
    found = pickle.loads(data)
    assert isinstance(found, list)
    return found


class Relay:
    """Beside the workers of a node: hands out what the driver sends and gathers what they answer.

    :meth:`send` and :meth:`collect` are called by a thread each.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="remix-tuner-", dir=_short_folder()))
        self.door = Door(path=str(self._folder / "relay"), key=secrets.token_bytes(_KEY_BYTES))
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.door.path)
        self._listener.listen(1024)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._links: dict[int, Link] = {}

    def where(self) -> Door:
        """What the workers of this node have to know."""
        return self.door

    def send(self, packed: bytes) -> None:
        """Hands out messages in order.

        Args:
            packed: pairs of workers' numbers (a list) and a message for each of them; one who is gone gets nothing,
                which :meth:`collect` tells.
        """
        for places, data in unpack(packed):
            assert isinstance(places, list)
            assert data is not None
            for place in places:
                link = self._links.get(place)
                if link is None:
                    continue
                try:
                    link.send(data)
                except OSError:
                    link.hang_up()

    def collect(self, timeout_s: float) -> bytes:
        """All that was answered since the last call, packed; waits for something, or for the time to be over.

        Returns:
            Pairs of a worker's number and its message; ``None`` for the message where the worker is gone. The first of
            each is what it said when it came.
        """
        found: list[tuple[object, bytes | None]] = []
        while True:
            ready = self._selector.select(timeout_s)
            for key, _ in ready:
                if key.fileobj is self._listener:
                    found += self._let_in()
                else:
                    found.append(self._take(key.data))
            # Whoever has no right to be here is no answer.
            if found or not ready:
                return pack(found)

    def close(self) -> None:
        """Hangs up on all workers and removes the socket."""
        for link in self._links.values():
            link.hang_up()
            link.close()
        self._listener.close()
        self._selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _let_in(self) -> list[tuple[object, bytes | None]]:
        plain, _ = self._listener.accept()
        plain.settimeout(STUCK_S)
        link = Link(plain)
        first = link.receive(most_bytes=_FIRST.size + _KEY_BYTES)
        said = None if first is None or not self._known(first) else link.receive()
        if first is None or said is None:
            link.close()
            return []
        place = int(_FIRST.unpack_from(first)[0])
        self._links[place] = link
        self._selector.register(link, selectors.EVENT_READ, data=place)
        return [(place, said)]

    def _known(self, first: bytes) -> bool:
        return len(first) == _FIRST.size + _KEY_BYTES and hmac.compare_digest(
            first[_FIRST.size :], self.door.key
        )

    def _take(self, place: int) -> tuple[object, bytes | None]:
        link = self._links[place]
        data = link.receive()
        if data is None:
            self._selector.unregister(link)
            del self._links[place]
            link.close()
        return place, data


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

    A thread takes messages in meanwhile: a relay that hands out a large one waits for nobody's work.

    Args:
        link: closed at the end.
        answer: the reply to a message; ``None``: there is none.
    """
    messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def listen() -> None:
        while (message := link.receive()) is not None:
            messages.put(message)
        messages.put(None)

    threading.Thread(target=listen, daemon=True).start()
    try:
        while (message := messages.get()) is not None:
            reply = answer(message)
            if reply is not None:
                link.send(reply)
    except ConnectionError:
        """Nobody hears the reply."""
    finally:
        link.hang_up()
        link.close()


def _short_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) < _PATH_BYTES - 40 else "/tmp"
