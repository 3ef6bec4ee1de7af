"""Functions in Python files that a spec names: that they are there. May not run them."""

from __future__ import annotations

import ast

from tuner.spec.sources import Reader
from tuner.spec.yaml_places import Path, View, suggestion

__all__ = ["check_python_function"]


def check_python_function(file: str, function: str, view: View, path: Path, read: Reader) -> str:
    """A Python file has a function of that name; it is parsed, not run.

    Returns:
        The file's text.

    Raises:
        SpecError: no such file, no Python, no such function.
    """
    try:
        text = read(file)
    except (OSError, ValueError) as error:
        raise view.error(
            path,
            f"{file!r} cannot be read: {getattr(error, 'strerror', None) or error}",
            "paths are relative to the spec",
        ) from None
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise view.error(path, f"{file!r} is not Python: {file}{line}: {error.msg}", "correct it") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise view.error(path, f"{file!r} is not Python: {error}", "correct it") from None
    functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    if function not in functions:
        hint = suggestion(function, functions, "it has " + (", ".join(functions[:8]) or "no functions"))
        raise view.error(path, f"{file!r} has no function {function!r}", hint)
    return text
