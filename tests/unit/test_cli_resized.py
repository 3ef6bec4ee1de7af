"""A terminal that is narrowed and widened while a run is shown: one panel stands, and nothing of it in the end.

The tuner's display runs in a process of its own on a real pseudo-terminal; what it writes is shown by a small
terminal that wraps its lines anew when it is resized, as terminals of today do.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHILD = """
import pickle, select, sys
from tuner.cli.progress import LiveProgress

events = pickle.load(open(sys.argv[1], "rb"))
print("before the run", file=sys.stderr)
with LiveProgress() as live:
    for kind, body in events:
        live.event(kind, body)
    # A signal just before a read that waits for ever would be seen after it only.
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        pass
print("after the run", file=sys.stderr)
"""

EVENTS = [
    (
        "start",
        {
            "settings": {"evaluations": 40, "minutes": None, "batch": 2, "weights": [1.0]},
            "environment": {"backend": {"device": "A processor"}},
            "name": "product",
            "backend": "host",
        },
    ),
]
PART = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])")


class Terminal:
    """Rows of text and a cursor; where it is narrowed, long rows are broken, or cut off."""

    def __init__(self, columns: int, *, cuts: bool) -> None:
        self.columns = columns
        self._cuts = cuts
        self.lines = [""]
        self.at = (0, 0)

    def write(self, text: str) -> None:
        for match in PART.finditer(text):
            argument, command, home, down, letter = match.groups()
            row, column = self.at
            if command == "A":
                self.at = (max(0, row - int(argument or 1)), column)
            elif command == "K":
                self.lines[row] = ""
            elif home:
                self.at = (row, 0)
            elif down:
                self.at = (row + 1, 0)
                self.lines += [""] * (row + 2 - len(self.lines))
            elif letter:
                line = self.lines[row].ljust(column)
                self.lines[row] = line[:column] + letter + line[column + 1 :]
                self.at = (row, column + 1)

    def narrow(self, columns: int) -> None:
        """Breaks rows that are longer than the screen is wide now; the cursor stays with its letter."""
        self.columns = columns
        if self._cuts:
            self.lines = [line[:columns] for line in self.lines]
            self.at = (self.at[0], min(self.at[1], columns - 1))
            return
        before, (row, column), self.lines = self.lines, self.at, []
        for number, line in enumerate(before):
            first = len(self.lines)
            self.lines += [line[at : at + columns] for at in range(0, max(1, len(line)), columns)]
            if number == row:
                down = min(column, max(0, len(line) - 1)) // columns
                self.at = (first + down, column - columns * down)

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()]


class Display:
    """The process, its terminal, and what that shows."""

    def __init__(self, process: subprocess.Popen[bytes], leader: int, terminal: Terminal) -> None:
        self.process = process
        self.terminal = terminal
        self._leader = leader

    def until(self, so: Callable[[list[str]], bool]) -> list[str]:
        """Reads until the screen is so; ends with an assertion where the process has no more to say."""
        while not so(self.terminal.shown()):
            ready, _, _ = select.select([self._leader], [], [], 120)
            assert ready, self.terminal.shown()
            try:
                read = os.read(self._leader, 65536)
            except OSError:
                read = b""
            assert read, self.terminal.shown()
            while not _whole(read):
                read += os.read(self._leader, 1)
            self.terminal.write(read.decode())
        return self.terminal.shown()

    def resize(self, columns: int) -> None:
        if columns < self.terminal.columns:
            self.terminal.narrow(columns)
        self.terminal.columns = columns
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)


def _whole(read: bytes) -> bool:
    """Whether no letter and no escape sequence is cut in two."""
    try:
        text = read.decode()
    except UnicodeDecodeError:
        return False
    return not re.search(r"\x1b(\[[\d;?]*)?$", text)


@contextmanager
def display(folder: Path, columns: int, *, cuts: bool) -> Iterator[Display]:
    (folder / "events").write_bytes(pickle.dumps(EVENTS))
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    left_out = {"COLUMNS", "LINES", "NO_COLOR", "TMUX", "STY", "XTERM_VERSION"}
    environment = {k: v for k, v in os.environ.items() if k not in left_out} | {"TERM": "xterm-256color"}
    if cuts:
        environment["XTERM_VERSION"] = "XTerm(390)"
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder / "events")],
        stdin=subprocess.PIPE,
        stdout=follower,
        stderr=follower,
        env=environment,
    )
    os.close(follower)
    try:
        yield Display(process, leader, Terminal(columns, cuts=cuts))
    finally:
        process.kill()
        process.communicate()
        os.close(leader)


def one_panel(columns: int) -> Callable[[list[str]], bool]:
    """One panel of this width under what stood before."""

    def so(shown: list[str]) -> bool:
        panel = shown[1:]
        return (
            shown[:1] == ["before the run"]
            and sum("╭" in line for line in shown) == 1
            and panel[0][0] + panel[0][-1] == "╭╮"
            and panel[-1][0] + panel[-1][-1] == "╰╯"
            and {len(line) for line in panel} == {columns}
        )

    return lambda shown: len(shown) > 2 and so(shown)


@pytest.mark.parametrize("cuts", [False, True], ids=["wraps", "cuts"])
def test_one_panel_at_any_width(tmp_path: Path, cuts: bool) -> None:
    with display(tmp_path, 100, cuts=cuts) as opened:
        opened.until(one_panel(100))
        for columns in (60, 31, 80, 45, 90):
            opened.resize(columns)
            shown = opened.until(one_panel(columns))
            assert any("now" in line for line in shown)
        assert opened.process.stdin is not None
        opened.process.stdin.write(b"\n")
        opened.process.stdin.close()
        opened.process.stdin = None
        assert opened.until(lambda s: "after the run" in s) == ["before the run", "after the run"]
        assert opened.process.wait() == 0
