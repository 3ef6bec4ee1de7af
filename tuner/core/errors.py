"""The exceptions of the project.

A candidate's failure is never an exception: it is a :class:`tuner.core.types.Status` on its trial. Exceptions
are for the user's mistakes, the machine's faults and our own::

    TunerError
    ├── SpecError          the spec, an expression, an argument of a call: exit status 2
    ├── UsageError         the command line or a library call: exit status 2
    ├── BaselineError      the kernel as given does not build or verify: exit status 3
    ├── AuditError         a record does not say what it should: exit status 4
    ├── RecordError        a run record cannot be read, written or locked: exit status 2
    ├── MachineError       a tool, a device or a permission is missing on this machine: exit status 2
    │   └── FullDiskError  there is no room on a disk, for whatever comes next either: exit status 2
    └── PluginError        a backend, searcher, proposer or observer of a third party failed: exit status 2
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "AuditError",
    "BaselineError",
    "FullDiskError",
    "MachineError",
    "Place",
    "PluginError",
    "RecordError",
    "SpecError",
    "TunerError",
    "UsageError",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a user's file a mistake stands; lines and columns count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


class TunerError(Exception):
    """An error that a person can act on.

    Args:
        message: what is wrong, one line.
        hint: what would be right, one line; may be empty.
        place: where in the user's file.
    """

    exit_status = 1

    def __init__(self, message: str, hint: str = "", *, place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place

    def __str__(self) -> str:
        text = self.message if self.place is None else f"{self.place}: {self.message}"
        return f"{text}; {self.hint}" if self.hint else text

    def at(self, place: Place) -> TunerError:
        """The same error with a place, unless it has one already."""
        if self.place is not None:
            return self
        return type(self)(self.message, self.hint, place=place)


class SpecError(TunerError, ValueError):
    """The spec or something that it names is wrong."""

    exit_status = 2


class UsageError(TunerError, ValueError):
    """A command or a library call was given something that it cannot take."""

    exit_status = 2


class BaselineError(TunerError):
    """The kernel as given does not build, run or verify, so there is nothing to compare with."""

    exit_status = 3


class AuditError(TunerError):
    """A record differs from what its own events say."""

    exit_status = 4


class RecordError(TunerError):
    """A run record cannot be opened, read, written or locked."""

    exit_status = 2


class MachineError(TunerError, OSError):
    """A tool, a device or a permission is missing on this machine."""

    exit_status = 2

    def __str__(self) -> str:
        return TunerError.__str__(self)


class FullDiskError(MachineError):
    """A disk has no room; nothing else that writes there is worth a try."""


class PluginError(TunerError):
    """A third party's backend, searcher, proposer or observer raised an exception, or returned what it may not."""

    exit_status = 2
