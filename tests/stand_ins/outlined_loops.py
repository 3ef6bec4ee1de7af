"""Loops of programs in C++ as functions of their own, and what such programs print."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tuner.core.types import Source
from tuner.spaces.source.outlined import Outlined
from tuner.spec.reading.outlining import outline
from tuner.spec.reading.signature import SourceReader

__all__ = ["MARK", "SMALL_VECTOR", "marked_line", "outlined", "ran"]

MARK = "// LOOP"


def marked_line(text: str, mark: str = MARK) -> int:
    """The line with the mark, from 1."""
    return next(i for i, each in enumerate(text.splitlines(), 1) if mark in each)


SMALL_VECTOR = """\
#include <stddef.h>
namespace std {
template <class T> class vector {
    T *first;
    size_t count;
public:
    explicit vector(size_t n = 0, const T &value = T()) : first(new T[n]), count(n) {
        for (size_t i = 0; i < n; i++) first[i] = value;
    }
    size_t size() const { return count; }
    T *data() { return first; }
    const T *data() const { return first; }
    T *begin() { return first; }
    T *end() { return first + count; }
    const T *begin() const { return first; }
    const T *end() const { return first + count; }
    T &operator[](size_t i) { return first[i]; }
    const T &operator[](size_t i) const { return first[i]; }
    void push_back(const T &value);
};
template <> class vector<bool> {
public:
    struct reference { reference &operator=(bool); };
    reference operator[](size_t i);
    size_t size() const;
    const bool *begin() const;
    const bool *end() const;
};
}
"""
"""What is asked of the standard's vector where each reading of its header takes a second; how it grows is not known."""


def outlined(text: str, entry: str, mark: str = MARK) -> Outlined:
    """The marked loop of a function."""
    reader = SourceReader(files=(Source(name="k.cc", text=text),), language="c++")
    return outline(reader, entry, marked_line(text, mark))


def ran(folder: Path, text: str) -> str:
    """What a program prints."""
    (folder / "k.cc").write_text(text)
    subprocess.run(["c++", "-O1", "-w", "k.cc", "-o", "k"], cwd=folder, check=True)
    return subprocess.run([folder / "k"], capture_output=True, check=True, text=True).stdout
