"""Memory files are sealed, also when the kernel needs a moment."""

from __future__ import annotations

import os
import threading

import pytest

from tuner.core.errors import MachineError
from tuner.evaluators.host.sealed import memory_file, seal, sealed_file


def held_file() -> tuple[int, int, int]:
    """A memory file one page of which a pipe holds: the file, and the pipe's ends."""
    descriptor = memory_file("held")
    os.write(descriptor, b"x" * 8192)
    reader, writer = os.pipe()
    assert os.splice(descriptor, writer, 4096, offset_src=0) == 4096
    return descriptor, reader, writer


def close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def test_a_sealed_file_keeps_its_content_and_takes_no_other() -> None:
    descriptor = sealed_file("content", [b"one", memoryview(b"two")])
    assert os.pread(descriptor, 100, 0) == b"onetwo"
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    close(descriptor)


def test_a_page_that_is_held_for_a_moment_only_delays_the_seal() -> None:
    descriptor, reader, writer = held_file()
    drain = threading.Timer(0.5, os.read, (reader, 4096))
    drain.start()
    seal(descriptor)
    drain.join()
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    close(descriptor, reader, writer)


def test_a_page_that_is_never_let_go_is_an_error_of_the_machine() -> None:
    descriptor, reader, writer = held_file()
    with pytest.raises(MachineError, match="could not be sealed"):
        seal(descriptor, patience_s=0.2)
    close(descriptor, reader, writer)
