"""Runs of clang as forks of one that waits: the same answers as of processes of their own, whatever befalls it."""

from __future__ import annotations

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuner.core.errors import MachineError
from tuner.evaluators.host.toolchain import find_toolchain
from tuner.spec.reading import clang_forks
from tuner.spec.reading.clang_forks import run_clang

GOOD = "int f(int n) { return n + 1; }\n"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    for name, text in {
        "good.c": GOOD,
        "wrong.c": "int f(void) { return n; }\n",
        "crash.c": "#pragma clang __debug crash\n",
        "a name with 'quotes'.cc": "template <class T> T g(T t) { return t; }\n",
    }.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)


def own_process(words: list[str], folder: str) -> tuple[int, bytes, bytes]:
    command = [find_toolchain().clang, *words]
    done = subprocess.run(command, cwd=folder, env={"LC_ALL": "C"}, capture_output=True, check=False)
    return done.returncode, done.stdout, done.stderr


def waiting() -> list[int]:
    """Processes of this one that are a clang without any word."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status, words = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if status.rpartition(")")[2].split()[1] == str(os.getpid()) and words.count(b"\0") == 1:
                found += [int(entry.name)] if b"clang" in words else []
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["-E", "-dD", "good.c"],
        ["-fsyntax-only", "wrong.c"],
        ["-fsyntax-only", "a name with 'quotes'.cc"],
        ["-c", "-o", "-", "-emit-llvm", "-S", "good.c"],
        ["-no-such-option", "good.c"],
        ["-E", "missing.c"],
        [],
    ],
)
def test_a_run_is_one_of_a_process_of_its_own(words: list[str], folder: str) -> None:
    assert run_clang(find_toolchain().clang, words, folder) == own_process(words, folder)


def test_a_clang_that_crashes_ends_its_run_alone(folder: str) -> None:
    clang = find_toolchain().clang
    run_clang(clang, ["-fsyntax-only", "good.c"], folder)
    before = waiting()
    status, _, said = run_clang(clang, ["-fsyntax-only", "crash.c"], folder)
    assert status != 0
    assert b"PLEASE submit a bug report" in said
    assert run_clang(clang, ["-fsyntax-only", "good.c"], folder) == (0, b"", b"")
    assert waiting() == before


def test_one_that_is_killed_is_replaced(folder: str) -> None:
    clang = find_toolchain().clang
    for _ in range(3):
        assert run_clang(clang, ["-fsyntax-only", "good.c"], folder) == (0, b"", b"")
        for pid in waiting():
            os.kill(pid, signal.SIGKILL)


def test_threads_and_forks_get_their_own_answers(folder: str) -> None:
    clang = find_toolchain().clang
    for number in range(24):
        Path(folder, f"{number}.c").write_text(f"int f{number};\n")

    def text(number: int) -> bytes:
        return run_clang(clang, ["-E", "-P", f"{number}.c"], folder)[1]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(text, range(24))) == [b"int f%d;\n" % number for number in range(24)]
    child = os.fork()
    if child == 0:
        os._exit(0 if [text(n) for n in range(8)] == [b"int f%d;\n" % n for n in range(8)] else 1)
    assert [text(number) for number in range(24)] == [b"int f%d;\n" % number for number in range(24)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_no_clang_or_never_answers_is_told(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clang_forks, "_TIMEOUT_S", 0.2)
    hanging = Path(folder, "clang")
    hanging.write_text("#!/bin/sh\nexec sleep 1000\n")
    hanging.chmod(0o755)
    for path in (str(hanging), f"{folder}/not-there", f"{folder}/good.c"):
        with pytest.raises(MachineError, match="clang does not answer"):
            run_clang(path, ["-E", "good.c"], folder)
