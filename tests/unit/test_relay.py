"""The relay beside the workers of a node: what it gathers and hands out, who is gone, who gets in."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuner.evaluators.executors import relay as relays
from tuner.evaluators.executors.relay import Link, Relay, knock, pack, serve, unpack

Said = list[tuple[object, bytes | None]]


@pytest.fixture
def relay() -> Iterator[Relay]:
    made = Relay()
    try:
        yield made
    finally:
        made.close()


def gather(relay: Relay, count: int) -> Said:
    """So many answers, in order."""
    found: Said = []
    while len(found) < count:
        more = unpack(relay.collect(60.0))
        assert more, "the relay had nothing to tell for a minute"
        found += more
    return found


@contextlib.contextmanager
def workers(relay: Relay, count: int, answer: Callable[[bytes], bytes | None]) -> Iterator[None]:
    """Threads in the place of processes, all of which have come."""

    def work(place: int) -> None:
        serve(knock(relay.door, place, b"hello"), answer)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    assert sorted(gather(relay, count), key=str) == [(i, b"hello") for i in range(count)]
    yield
    relay.close()
    for thread in threads:
        thread.join()


def test_buffered_answers_come_at_once(relay: Relay) -> None:
    answered = threading.Semaphore(0)

    def answer(data: bytes) -> bytes:
        answered.release()
        return data.upper()

    with workers(relay, 5, answer):
        relay.send(pack([([i], b"job%d" % i) for i in range(5)]))
        for _ in range(5):
            answered.acquire()
        found = gather(relay, 5)
        assert sorted(found, key=str) == [(i, b"JOB%d" % i) for i in range(5)]


def test_an_answer_waits_for_no_other(relay: Relay) -> None:
    """A device that takes an hour keeps none of the others waiting."""
    never = threading.Event()

    def answer(data: bytes) -> bytes:
        if data == b"slow":
            never.wait()
        return data

    with workers(relay, 2, answer):
        relay.send(pack([([0], b"slow"), ([1], b"fast")]))
        assert unpack(relay.collect(60.0)) == [(1, b"fast")]
        never.set()
        assert gather(relay, 1) == [(0, b"slow")]


def test_messages_to_a_worker_keep_their_order(relay: Relay) -> None:
    with workers(relay, 2, lambda data: None if data == b"baseline" else data):
        relay.send(pack([([0, 1], b"baseline"), *(([i % 2], b"%d" % i) for i in range(20))]))
        found = gather(relay, 20)
        for place in (0, 1):
            assert [d for p, d in found if p == place] == [b"%d" % i for i in range(place, 20, 2)]


def test_a_large_message_waits_for_nobodys_work(relay: Relay) -> None:
    """What no socket's buffer holds waits for its worker, and others get theirs."""
    busy, go_on = threading.Event(), threading.Event()

    def answer(data: bytes) -> bytes:
        if data == b"wait":
            busy.set()
            go_on.wait()
        return b"%d" % len(data)

    with workers(relay, 2, answer):
        relay.send(pack([([0], b"wait")]))
        busy.wait()
        relay.send(pack([([0], bytes(20_000_000)), ([1], b"small")]))
        assert gather(relay, 1) == [(1, b"5")]
        go_on.set()
        assert gather(relay, 2) == [(0, b"4"), (0, b"20000000")]


def test_messages_behind_a_large_one_keep_their_order(relay: Relay) -> None:
    sizes = [20_000_000, 3, 1_000_000, 0, 5]
    with workers(relay, 1, lambda data: b"%d" % len(data)):
        for size in sizes:
            relay.send(pack([([0], bytes(size))]))
        assert gather(relay, len(sizes)) == [(0, b"%d" % size) for size in sizes]


def test_who_has_more_to_do_may_wait_for_others(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker 1 has nothing more to do, so its answer is told at once, and with it the one that was held back."""
    monkeypatch.setattr(relays, "GATHER_PART", 1e12)
    monkeypatch.setattr(relays, "GATHER_MOST_S", 600.0)
    # It looks so often in that time: within 10 ms.
    monkeypatch.setattr(relays, "_LOOKS", 60_000)
    told, begun, go_on = threading.Event(), threading.Event(), threading.Event()

    def answer(data: bytes) -> bytes:
        if data == b"b":
            told.wait()
        if data == b"c":
            begun.set()
            go_on.wait()
        if data == b"other":
            begun.wait()
        return data

    with workers(relay, 2, answer):
        relay.send(pack([([0], b"a"), ([0], b"b"), ([0], b"c"), ([1], b"other")]))
        assert gather(relay, 1) == [(0, b"a")]
        told.set()
        assert unpack(relay.collect(60.0)) == [(0, b"b"), (1, b"other")]
        go_on.set()
        assert gather(relay, 1) == [(0, b"c")]


def test_nothing_to_tell_is_told_when_the_time_is_over(relay: Relay) -> None:
    assert unpack(relay.collect(0.01)) == []


KILLED = """
import os, signal, sys
from tuner.evaluators.executors.relay import Door, knock
link = knock(Door(path=sys.argv[1], key=bytes.fromhex(sys.argv[2])), 7, b"hello")
link.receive()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_is_killed_is_told_of_once(relay: Relay) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, relay.door.path, relay.door.key.hex()])
    assert gather(relay, 1) == [(7, b"hello")]
    relay.send(pack([([7], b"die"), ([8], b"nobody of that number")]))
    assert gather(relay, 1) == [(7, None)]
    relay.send(pack([([7], b"too late")]))
    assert unpack(relay.collect(0.01)) == []
    assert process.wait() == -signal.SIGKILL


def test_a_worker_ends_when_its_relay_does(relay: Relay) -> None:
    with workers(relay, 1, lambda data: data):
        relay.close()
    assert not Path(relay.door.path).exists()


@pytest.mark.parametrize(
    "first",
    [b"x" * 40, b"", b"\0" * 8 + b"?" * 32, b"y" * 1_000_000],
    ids=["other key", "nothing", "other key of the right length", "too much"],
)
def test_who_does_not_know_the_key_stays_outside(relay: Relay, first: bytes) -> None:
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    plain.settimeout(30)
    plain.connect(relay.door.path)
    link = Link(plain)
    sender = threading.Thread(target=_send_anyhow, args=(link, first))
    sender.start()
    with workers(relay, 1, lambda data: data):
        relay.send(pack([([0], b"a")]))
        assert gather(relay, 1) == [(0, b"a")]
        sender.join()
        assert link.receive() is None
    link.close()


def _send_anyhow(link: Link, first: bytes) -> None:
    with contextlib.suppress(OSError):
        link.send(first)


def test_others_cannot_enter_the_folder(relay: Relay) -> None:
    assert Path(relay.door.path).parent.stat().st_mode & 0o077 == 0
    assert "key" not in repr(relay.door)
