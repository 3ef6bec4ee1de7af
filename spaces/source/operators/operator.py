"""What an operator is, and how it reads an edit's arguments.

An operator is a pure function from a function's tree and an edit's arguments to another tree. It raises
:class:`Refused` where it does not apply. May not draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.syntax import Function

__all__ = ["DEVICE", "HOST", "Args", "Operator", "argument", "argument_list", "opener", "where_it_applies"]

Args = Mapping[str, Any]
"""An edit's own part: plain JSON."""

HOST = ("c", "c++")
"""Languages of functions that are called."""

DEVICE = ("opencl", "cuda")
"""Languages of kernels that are launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of source transformation.

    Attributes:
        apply: function and arguments to the changed function; raises :class:`Refused`.
        sites: arguments worth trying on a function, without a promise that they apply; the flag says whether
            floating-point sums may be added up in another order.
        summary: what it does, for people.
        name: in edits; that of ``apply`` by default.
        checked: whether a dependence analysis, or the kind of change itself, shows that results stay the same;
            else only the verification stands between a wrong candidate and the search.
        raw: whether it changes statements without any idea behind it, so that it is worth few tries.
        opens: whether it only makes way for other operators, so that it is proposed with them and never alone.
        languages: that it writes.
        openmp: it puts directives of OpenMP; for kernels that are built with it, and offered to no others.
        members: whether it knows members of structures, which one that goes by elements of arrays would take wrongly.
    """

    apply: Callable[[Function, Args], Function] = field(kw_only=False)
    sites: Callable[[Function, bool], Iterable[dict[str, Any]]] = field(kw_only=False)
    summary: str
    name: str = ""
    checked: bool = True
    raw: bool = False
    opens: bool = False
    languages: tuple[str, ...] = ("c", "c++", "opencl", "cuda")
    openmp: bool = False
    members: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.apply.__name__)


opener = partial(Operator, opens=True, members=True)
"""An operator that makes way for others, and knows members of structures."""


def argument(args: Args, name: str, kind: type = str) -> Any:
    """One argument of an edit."""
    value = args.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Refused(f"the edit's {name!r} is {value!r}")
    return value


def argument_list(args: Args, name: str) -> list[str]:
    """A list of words."""
    value = args.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
        raise Refused(f"the edit's {name!r} is {value!r}")
    return value


def where_it_applies(
    apply: Callable[[Function, Args], Function], *assumes: str
) -> Callable[[Function, bool], Iterator[dict[str, Any]]]:
    """Sites of an operator without arguments: one, with what it assumes, of each function that it is not refused on."""

    def sites(function: Function, _: bool) -> Iterator[dict[str, Any]]:
        try:
            apply(function, {})
        except Refused:
            return
        yield {"assumes": list(assumes)} if assumes else {}

    return sites
