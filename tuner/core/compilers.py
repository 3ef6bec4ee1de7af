"""The compiler of a user's own build, where that and no other makes the code that counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CLANG", "GCC", "BuildCompiler"]

CLANG, GCC = "clang", "gcc"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCompiler:
    """A compiler as a build calls it.

    Attributes:
        command: the program and its flags, without files and without what says which output is wanted.
        family: whose pragmas it follows: ``clang`` (icx too), ``gcc``, or empty for neither.
        version: the first line of what it says of itself.
        digest: of that text and of the program's bytes.
        library: clang's flags by which it reads the same standard library of C++; none where that is clang's own.
    """

    command: tuple[str, ...]
    family: str
    version: str
    digest: str
    library: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for a record."""
        return {**asdict(self), "command": list(self.command), "library": list(self.library)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BuildCompiler:
        """What :meth:`to_json` made."""
        return cls(**{**data, "command": tuple(data["command"]), "library": tuple(data["library"])})
