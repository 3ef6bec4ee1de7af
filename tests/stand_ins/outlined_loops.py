"""Loops of programs in C++ as functions of their own, and what such programs print."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tuner.core.types import Source
from tuner.spaces.source.outlined import Outlined
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

__all__ = ["MARK", "marked_line", "outlined", "ran"]

MARK = "// LOOP"


def marked_line(text: str, mark: str = MARK) -> int:
    """The line with the mark, from 1."""
    return next(i for i, each in enumerate(text.splitlines(), 1) if mark in each)


def outlined(text: str, entry: str, mark: str = MARK) -> Outlined:
    """The marked loop of a function."""
    reader = SourceReader(files=(Source(name="k.cc", text=text),), language="c++")
    return outline(reader, entry, marked_line(text, mark))


def ran(folder: Path, text: str) -> str:
    """What a program prints."""
    (folder / "k.cc").write_text(text)
    subprocess.run(["c++", "-O1", "-w", "k.cc", "-o", "k"], cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True, text=True).stdout
