"""The commands as real processes that begin in milliseconds: forked from one that has imported them already.

What a process sees is as from a shell: words, folder, environment, its own standard files and exit status.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["GUESSED", "finding", "run_python", "run_tuner"]

GUESSED = "TUNER_TESTS_GUESSED"
"""A variable with which first specs keep the sizes that are guessed."""

_LONGEST_S = 300.0
_MOST_BYTES = 1 << 20
_IMPORTED = (
    "tuner.cli.main",
    "tuner.cli.tuning",
    "tuner.driver.check",
    "tuner.search.auto",
    "tuner.search.surrogate",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.special",
)


def run_tuner(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``tuner`` with these words.

    Args:
        words: of the command line.
        cwd: the folder it runs in; this process's own where left out.

    Raises:
        subprocess.TimeoutExpired: it did not end; it has been killed.
    """
    return _run({"words": [str(word) for word in words]}, cwd)


def run_python(text: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a program of Python in a folder, as ``python -c`` does; raises as :func:`run_tuner` does."""
    return _run({"words": ["-c"], "text": text}, cwd)


def _run(what: dict[str, Any], cwd: Path | None) -> subprocess.CompletedProcess[str]:
    request = {**what, "folder": str(cwd or Path.cwd()), "environment": dict(os.environ)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        channel = _server(os.environ.get("PYTHONPATH"))
        socket.send_fds(channel, [json.dumps(request).encode()], [out.fileno(), errors.fileno()])
        pid = _number(channel)
        try:
            status = _number(channel)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            _number(channel)
            raise subprocess.TimeoutExpired(what["words"], _LONGEST_S) from None
        texts = [_text(file.fileno()) for file in (out, errors)]
    return subprocess.CompletedProcess(what["words"], status, *texts)


def _number(channel: socket.socket) -> int:
    answer = channel.recv(64)
    assert answer, "the process that begins commands has ended"
    return int(answer)


def _text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode()


@cache
def _server(path: str | None) -> socket.socket:
    """A channel to the process that forks, with this path of modules, which ends when it is closed."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with there:
        process = subprocess.Popen(
            [sys.executable, __file__, str(there.fileno())],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
    here.settimeout(_LONGEST_S)

    def end() -> None:
        here.close()
        process.wait()

    atexit.register(end)
    return here


def _serve(channel: socket.socket) -> None:
    """Answers requests one after another with a process's number and then its status."""
    for name in _IMPORTED:
        importlib.import_module(name)
    from tuner.evaluators.sandbox.support import probe

    # What the kernel can do is the same for all of them.
    probe()
    # What is shared stays shared: a collection in a child would copy every page that has an object.
    gc.freeze()
    while True:
        data, files, _, _ = socket.recv_fds(channel, _MOST_BYTES, 2)
        if not data:
            return
        child = os.fork()
        if child == 0:
            channel.close()
            _become(json.loads(data), files)
            return
        for descriptor in files:
            os.close(descriptor)
        channel.send(str(child).encode())
        _, ended = os.waitpid(child, 0)
        channel.send(str(os.waitstatus_to_exitcode(ended)).encode())


def _become(request: dict[str, Any], files: list[int]) -> None:
    from tuner.cli.main import main
    from tuner.driver import first_sizes

    for descriptor, place in zip(files, (1, 2), strict=True):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if GUESSED in os.environ:
        first_sizes._TRIED = 0
    if "text" in request:
        sys.argv, sys.path[0] = request["words"], ""
        exec(compile(request["text"], "<string>", "exec"), {"__name__": "__main__"})
        sys.exit()
    main(request["words"])


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))


def finding(part: str) -> dict[str, Any]:
    """What ``tuner doctor`` says of a part of the machine."""
    done = run_tuner("doctor", "--json")
    (found,) = [each for each in json.loads(done.stdout)["findings"] if each["part"] == part]
    return dict(found)
