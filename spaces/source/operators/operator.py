"""What an operator is, where it may be tried, and how it reads an edit's arguments.

An operator is a pure function from a function's tree and an edit's arguments to another tree. It raises
:class:`Refused` where it does not apply. May not draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ParamSpec, TypeVar

from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.syntax import Decl, For, Function
from tuner.spaces.source.walks import offered, statements

__all__ = [
    "DEVICE",
    "HOST",
    "Args",
    "Operator",
    "Site",
    "all_loops",
    "argument",
    "argument_list",
    "attempt",
    "declarations_where",
    "find_loop",
    "for_each_loop",
    "knowing_members",
    "loop_of",
    "loops_where",
    "opener",
    "reassociating",
    "require_leave",
    "where_it_applies",
]

P = ParamSpec("P")
T = TypeVar("T")

Args = Mapping[str, Any]
"""An edit's own part: plain JSON."""

Site = dict[str, Any]
"""Arguments of an edit that is worth trying."""

Sites = Callable[[Function, bool], Iterable[Site]]

HOST = ("c", "c++")
"""Languages of functions that are called."""

DEVICE = ("opencl", "cuda")
"""Languages of kernels that are launched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One kind of source transformation.

    Attributes:
        apply: function and arguments to the changed function; raises :class:`Refused`. What it says of itself names
            the arguments that an edit has.
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
        blocks: whether it takes the iterations of its first loop in blocks, with the loop's directive of OpenMP on the
            loop over the blocks.
        members: whether it knows members of structures, which one that goes by elements of arrays would take wrongly.
        hides: whether it is right where a name is declared again although it already means something.
    """

    apply: Callable[[Function, Args], Function] = field(kw_only=False)
    sites: Sites = field(kw_only=False)
    summary: str = field(kw_only=False)
    name: str = ""
    checked: bool = True
    raw: bool = False
    opens: bool = False
    languages: tuple[str, ...] = ("c", "c++", "opencl", "cuda")
    openmp: bool = False
    blocks: bool = False
    members: bool = False
    hides: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.apply.__name__)


knowing_members = partial(Operator, members=True)
"""An operator that is right where members of structures are read."""

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


def require_leave(args: Args, what: str) -> None:
    """Refuses an edit that may not add up in another order, with ``what`` it would do."""
    if args.get("reassociate") is not True:
        raise Refused(what)


def all_loops(function: Function) -> list[For]:
    """All loops that may be changed, outer ones first."""
    return [s for s in offered(function.body) if isinstance(s, For)]


def find_loop(function: Function, key: str) -> For:
    """A loop by its key."""
    for loop in all_loops(function):
        if loop.key == key:
            return loop
    raise Refused(f"there is no loop {key!r}")


def loop_of(function: Function, args: Args, name: str = "loop") -> For:
    """The loop whose key is an argument of an edit."""
    return find_loop(function, argument(args, name))


def attempt(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """What a call gives; nothing where it is refused."""
    try:
        return call(*args, **kwargs)
    except Refused:
        return None


def where_it_applies(apply: Callable[[Function, Args], Function], *assumes: str) -> Sites:
    """Sites of an operator without arguments: one, with what it assumes, of each function that it is not refused on."""

    def sites(function: Function, _: bool) -> Iterator[Site]:
        if attempt(apply, function, {}) is not None:
            yield {"assumes": list(assumes)} if assumes else {}

    return sites


def for_each_loop(sites_of: Callable[[Function, For], Iterable[Site]]) -> Sites:
    """Sites of an operator from those of one loop, which has no more of them once something is refused."""

    def sites(function: Function, _: bool) -> Iterator[Site]:
        for loop in all_loops(function):
            with suppress(Refused):
                yield from sites_of(function, loop)

    return sites


def loops_where(asked: Callable[[Function, For], object], **further: object) -> Sites:
    """Sites of an operator on one loop: those loops of which something holds, and is not refused."""
    return for_each_loop(
        lambda function, loop: [{"loop": loop.key, **further}] if asked(function, loop) else []
    )


def declarations_where(asked: Callable[[Decl], object], name: str, **further: object) -> Sites:
    """Sites of an operator on one local: those of which something holds, each by its name as an argument."""

    def sites(function: Function, _: bool) -> Iterator[Site]:
        for stmt in statements(function.body):
            if isinstance(stmt, Decl) and asked(stmt):
                yield {name: stmt.name, **further}

    return sites


def reassociating(sites: Sites) -> Sites:
    """Sites of an operator that adds up in another order: none where that is not allowed."""
    return lambda function, reassociate: sites(function, True) if reassociate else ()
