"""The modules beside a Python file of the user's that it imports: what it computes depends on them too.

Reads and parses; may not run anything.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from tuner.spec.sources import Reader

__all__ = ["with_imported"]

_MOST = 100


def with_imported(file: str, text: str, read: Reader) -> dict[str, str]:
    """A Python file and those that it imports from its own folder, each with what it imports in turn, by name.

    Args:
        file: relative to the spec.
        text: of the file.
        read: how others are read; what cannot be read comes from elsewhere, or Python says that it is missing.
    """
    folder, files, waiting = posixpath.dirname(file), {file: text}, [text]
    while waiting and len(files) < _MOST:
        for module in _imports(waiting.pop()):
            place = module.replace(".", "/")
            for name in (f"{place}.py", f"{place}/__init__.py"):
                path = posixpath.join(folder, name)
                if path in files:
                    break
                try:
                    files[path] = read(path)
                except (OSError, ValueError):
                    continue
                waiting.append(files[path])
                break
    return files


def _imports(text: str) -> Iterator[str]:
    """Names of modules; of `a.b` also `a`, and of `from a import b` also `a.b`, which may be a module."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in found:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))
