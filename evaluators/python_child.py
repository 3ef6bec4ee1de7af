"""The process in which a user's Python function runs (``python -m tuner.evaluators.python_child FOLDER``).

Reads ``request.json`` in the folder, calls the function, leaves ``result.json`` and ``.npy`` files. Answers with a
message for everything that the user's code does wrong; a crash of the process is the parent's to report. Not to be
imported by the tuner.
"""

from __future__ import annotations

import ctypes
import importlib.util
import inspect
import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tuner.evaluators.sandbox.confine import set_limits

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1


class _Refused(Exception):
    """What the user's file did wrong: message, hint, line."""

    def __init__(self, message: str, hint: str = "", *, line: int = 0) -> None:
        super().__init__(message)
        self.message, self.hint, self.line = message, hint, line


def main(folder: Path) -> None:
    """Serves one request and returns; the result is in the folder."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    _confine(int(request["memory_bytes"]), int(request["parent"]))
    path = Path(request["file"])
    result: dict[str, Any]
    try:
        function = _load_function(path, request["function"])
        answers = []
        for number, call in enumerate(request["calls"]):
            answers.append(_serve(function, call, folder, path=path, number=number, keyed=request["keyed"]))
        result = {"answers": answers}
    except _Refused as error:
        result = {"error": error.message, "hint": error.hint, "file": str(path), "line": error.line}
    unfinished = folder / "result.part"
    unfinished.write_text(json.dumps(result), encoding="utf-8")
    unfinished.rename(folder / "result.json")


def _confine(memory_bytes: int, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
    # Private writable memory, not addresses: libraries reserve far more of those than they use.
    set_limits({resource.RLIMIT_DATA: memory_bytes, resource.RLIMIT_CORE: 0})


def _guarded(path: Path, action: Callable[[], Any]) -> Any:
    """Runs the user's code; whatever it raises becomes a message with the line in the user's file."""
    try:
        return action()
    except MemoryError:
        raise _Refused(f"{path.name} ran out of memory") from None
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
        line = (frames[-1].lineno or 0) if frames else 0
        if isinstance(error, SyntaxError) and error.filename == str(path):
            line = error.lineno or 0
        text = str(error).splitlines()
        message = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
        raise _Refused(message, line=line) from None


def _load_function(path: Path, name: str) -> Callable[..., Any]:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("user_reference", path)
    if spec is None or spec.loader is None:
        raise _Refused(f"{path.name} is not a Python file", "its name has to end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["user_reference"] = module
    _guarded(path, lambda: spec.loader.exec_module(module))  # type: ignore[union-attr]
    function = getattr(module, name, None)
    if not callable(function):
        present = [n for n, v in vars(module).items() if inspect.isfunction(v) and not n.startswith("_")]
        raise _Refused(f"{path.name} has no function {name!r}", f"it has {', '.join(present) or 'none'}")
    return function  # type: ignore[no-any-return]


def _serve(
    function: Callable[..., Any],
    call: Mapping[str, Any],
    folder: Path,
    *,
    path: Path,
    number: int,
    keyed: bool,
) -> dict[str, str]:
    keywords = _keywords(function, call, folder, path)
    value = _guarded(path, lambda: function(**keywords))
    line = _line(function)
    if keyed and not isinstance(value, Mapping):
        raise _Refused(
            f"{_name(function)} returned {type(value).__name__}",
            "return a dict of outputs by name",
            line=line,
        )
    values = dict(value) if keyed else {"": value}
    files = {}
    for position, (name, item) in enumerate(values.items()):
        array = _guarded(path, partial(np.asarray, item))
        if array.dtype.kind not in "biufc" and array.dtype.names is None:
            what = f"{name!r} is" if keyed else "its value is"
            raise _Refused(f"{_name(function)}: {what} no array of numbers", line=line)
        files[str(name)] = f"out-{number}-{position}.npy"
        np.save(folder / files[str(name)], array, allow_pickle=False)
    return files


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", "the function"))


def _line(function: Callable[..., Any]) -> int:
    return int(getattr(getattr(function, "__code__", None), "co_firstlineno", 0))


def _keywords(
    function: Callable[..., Any], call: Mapping[str, Any], folder: Path, path: Path
) -> dict[str, Any]:
    kinds: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": lambda text: text == "True"}
    scalars = {name: kinds[kind](text) for name, (kind, text) in call["scalars"].items()}
    names = [*call["arrays"], *scalars]
    # Members of a structure belong to one object.
    offered = list(dict.fromkeys(_root(name) for name in names))
    parameters = _guarded(path, lambda: inspect.signature(function)).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    line = _line(function)
    for p in parameters:
        missing = p.name not in offered and p.default is p.empty
        if p.kind is p.POSITIONAL_ONLY or (p in named and missing):
            raise _Refused(
                f"{_name(function)} asks for {p.name!r}, which there is not",
                f"there are {', '.join(offered)}",
                line=line,
            )
    roots = {p.name for p in named}
    taken = {name for name in names if _root(name) in roots}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        taken |= set(names) - set(call["optional"])
    values = {
        name: np.load(folder / f, allow_pickle=False) for name, f in call["arrays"].items() if name in taken
    }
    return _with_objects({**values, **{name: value for name, value in scalars.items() if name in taken}})


def _root(name: str) -> str:
    return name.partition(".")[0]


def _with_objects(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name, those of ``c.box.nx`` as attributes of an object ``c``."""
    made: dict[str, Any] = {}
    for name, value in values.items():
        *outer, last = name.split(".")
        at = made
        for part in outer:
            at = vars(at.setdefault(part, SimpleNamespace()))
        at[last] = value
    return made


if __name__ == "__main__":
    main(Path(sys.argv[1]))
