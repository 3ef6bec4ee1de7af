"""Objects of third parties: where they are named, and that what one raises is one error that says whose fault it is.

May not know what the objects are for; may not swallow anything but a failure to close after another failure.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar, cast

from tuner.core.errors import PluginError, TunerError

__all__ = ["TRACEBACK", "Returns", "entry_points", "guarded", "loading"]

TRACEBACK = "TUNER_TRACEBACK"
"""The environment variable with which commands print where an error comes from."""

_OWN = "tuner"
_LONGEST = 300
_PARTS = frozenset({"prepare", "open"})
"""Methods whose results are objects of the same party."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Returns:
    """What a method has to return.

    Attributes:
        kind: its class, or that of each element.
        many: whether it is a list.
        each: whether that has an element for each one of the first argument.
        none: whether it may be ``None``.
        wrong: says what else is wrong with a value of that class, given the arguments; empty where nothing is.
    """

    kind: type
    many: bool = False
    each: bool = False
    none: bool = False
    wrong: Callable[[Any, Sequence[Any]], str] | None = None

    def lacking(self, value: object, arguments: Sequence[Any]) -> str:
        """What is wrong with a value; empty where nothing is."""
        if value is None and self.none:
            return ""
        wanted = f"a list of {self.kind.__name__}" if self.many else f"a {self.kind.__name__}"
        if self.many and not isinstance(value, list | tuple):
            return f"a {type(value).__name__} in the place of {wanted}"
        found: Sequence[object] = cast("Sequence[object]", value) if self.many else [value]
        odd = [type(one).__name__ for one in found if not isinstance(one, self.kind)]
        if odd:
            return f"a {odd[0]} in the place of a {self.kind.__name__}"
        if self.each and arguments and len(found) != len(arguments[0]):
            return f"{len(found)} results for {len(arguments[0])}"
        return "" if self.wrong is None else self.wrong(value, arguments)


def guarded(made: T, label: str, returns: Mapping[str, Returns]) -> T:
    """An object of a third party behind a guard; one of the project's own as it is, since its faults are ours.

    Args:
        made: any object.
        label: what it is called, for example ``backend mine``.
        returns: what its methods return, by their names; those of its parts too.
    """
    if type(made).__module__.partition(".")[0] == _OWN or isinstance(made, _Guard):
        return made
    names = [name for name in dir(made) if not name.startswith("_")]
    # On the class, where Python looks for what a runtime protocol asks for.
    kind = type(_Guard.__name__, (_Guard,), {name: _passed_on(name) for name in names})
    return cast("T", kind(made, label, returns))


class _Guard:
    """Stands before an object: passes everything on, and turns what it raises into a ``PluginError``."""

    def __init__(self, made: Any, label: str, returns: Mapping[str, Returns]) -> None:
        self._made, self._label, self._returns = made, label, returns

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._get(name)

    def __repr__(self) -> str:
        return repr(self._made)

    def __reduce__(self) -> tuple[Any, ...]:
        return guarded, (self._made, self._label, dict(self._returns))

    def _get(self, name: str) -> Any:
        try:
            value = getattr(self._made, name)
        except AttributeError:
            raise
        except Exception as error:
            raise _fault(error, self._label, name) from error
        return functools.partial(self._call, value, name) if callable(value) else value

    def _call(self, method: Any, name: str, *arguments: Any, **named: Any) -> Any:
        failing = sys.exc_info()[1] is not None
        try:
            found = method(*arguments, **named)
        except TunerError:
            # Its own errors say more than any made here.
            raise
        except Exception as error:
            if failing and name == "close":
                # What failed before is what a person has to know of.
                return None
            raise _fault(error, self._label, name) from error
        if name in self._returns:
            lacking = self._returns[name].lacking(found, arguments)
            if lacking:
                raise PluginError(f"{self._label}: {name} returned {lacking}", _HINT)
        return guarded(found, self._label, self._returns) if name in _PARTS else found


def entry_points(*, group: str) -> metadata.EntryPoints:
    """As :func:`importlib.metadata.entry_points`, which reads a file of each installed package at each call.

    They are read again where a folder that packages are looked for in has changed.
    """
    return _entry_points(group, tuple((folder, _changed(folder)) for folder in sys.path))


@functools.lru_cache(maxsize=8)
def _entry_points(group: str, folders: tuple[tuple[str, int], ...]) -> metadata.EntryPoints:
    return metadata.entry_points(group=group)


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _passed_on(name: str) -> property:
    return property(lambda self: self._get(name))


@contextmanager
def loading(label: str, what: str) -> Iterator[None]:
    """Importing and making what an entry point names; what cannot be imported is for the caller to say.

    Args:
        label: as :func:`guarded` takes it.
        what: the entry point's value.

    Raises:
        PluginError: in the place of any exception that is neither the project's own nor of an import.
    """
    try:
        yield
    except (TunerError, ImportError):
        raise
    except Exception as error:
        if what.partition(".")[0] == _OWN:
            raise
        raise _fault(error, label, what) from error


_HINT = f"the fault is in that package; {TRACEBACK}=1 prints the traceback"


def _fault(error: Exception, label: str, what: str) -> PluginError:
    text = " ".join(str(error).split())[:_LONGEST]
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return PluginError(f"{label}: {what} raised {said}{place}", _HINT)
