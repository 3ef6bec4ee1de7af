"""What is reached from one thing to the next, in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["reachable"]


def reachable(starts: Iterable[str], follow: Callable[[str], Iterable[str]]) -> set[str]:
    """The names that some lead to, these included."""
    found, waiting = set[str](), list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += follow(name)
    return found
