"""Sweeps that follow each other, cut into strips that are run together: fusion with shift, and time tiling by skewing.

Several sweeps over rows become one loop over strips of rows, in which each sweep runs some rows behind the one before
it. With a loop over time around them, the strips lean by some rows for each step, so that a strip can go through
several steps while it is in cache. What a sweep does to a row stays as it was. May not judge what is fast.

Sources: Wolfe, "More iteration space tiling" (1989), for skewing; Manjikian and Abdelrahman, "Fusion of loops for
parallelism and locality" (1997), for the shifts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tuner.spaces.source.kinds import is_unsigned
from tuner.spaces.source.operators.base import (
    Args,
    Keys,
    Refused,
    Site,
    all_loops,
    analyse,
    argument,
    argument_list,
    body_of,
    counter_type,
    define,
    find_loop,
    for_each_loop,
    fresh_name,
    knowing_members,
    parameters,
    replace_statement,
    sibling_after,
)
from tuner.spaces.source.operators.bounds import add, extreme, maximum, minimum, subtract, upper_end
from tuner.spaces.source.operators.loops.lags import (
    MOST,
    Sweep,
    lagging,
    require_forward,
    slope_of,
    sweeps_of,
)
from tuner.spaces.source.operators.simple_loops import require_simple_loop, simple_loop
from tuner.spaces.source.places import place_of
from tuner.spaces.source.syntax import (
    Assign,
    Binary,
    Comment,
    Decl,
    Expr,
    For,
    Function,
    Name,
    Number,
    Stmt,
    Ternary,
)
from tuner.spaces.source.walks import names_in, subtrees, written_names

__all__ = ["OPERATORS"]

_STRIPS = (1, 2, 4, 8, 16, 32, 64)
_LONG_STRIPS = (64, 128, 256, 512, 1024, 2048, 4096)
_STEPS = (1, 2, 3, 4, 6, 8, 16, 32)
_MOST_SWEEPS = 8


def fuse_shifted(function: Function, args: Args) -> Function:
    """Runs loops that follow each other strip by strip, each some iterations behind.

    Takes ``loops``, neighbours from the first; as many ``shifts``; one of ``parameters``: iterations in a strip.
    """
    loops = _neighbours(function, argument_list(args, "loops"))
    sweeps = sweeps_of(loops, argument_list(args, "loops"), _shifts(args, len(loops)))
    _require_alike(function, sweeps)
    require_forward(analyse(function, loops, args), {f.key: s for f, s in zip(loops, sweeps, strict=True)})
    made, (strip,) = define(function, args, 1)
    cut = _Cut.of(made, sweeps, strip)
    strips = cut.over(cut.clipped(loops, Name(cut.front)), Number("0"))
    return replace_statement(made, loops[0], [strips], also=loops[1:])


def skew(function: Function, args: Args) -> Function:
    """Takes strips of rows through several steps of a loop over time, leaning by some rows for each step.

    Takes ``loop``, over time; ``rows``, the loops in it that go over rows; ``shifts``, one for each statement in it:
    rows behind, or of one that is not among ``rows`` the row where it runs; ``slope``: rows for each step; two of
    ``parameters``: steps, rows in a strip.
    """
    time = simple_loop(function, args)
    slope = argument(args, "slope", int)
    if not 0 <= slope <= MOST:
        raise Refused(f"a slope of {slope} is too much")
    sweeps = sweeps_of(time.body, argument_list(args, "rows"), _shifts(args, len(body_of(time))))
    _require_alike(function, sweeps, time)
    require_forward(analyse(function, [time], args), {s.at: s for s in sweeps}, f"{slope}*{time.key}+")
    made, (steps, strip) = define(function, args, 2)
    cut = _Cut.of(made, sweeps, strip)
    block = fresh_name(made, f"{time.var}_block")
    kind, end = counter_type(function, time), upper_end(time)
    lean = subtract(Name(cut.front), _times(slope, Binary("-", Name(time.var), Name(block))))
    here = Decl(f"const {kind}", fresh_name(made, f"{cut.front}_t"), (), lean)
    late = _times(slope, Binary("-", steps, Number("1")))
    inner = replace(
        time,
        type=kind,
        start=Name(block),
        op="<",
        limit=minimum(add(Name(block), steps), end),
        body=(here, *cut.clipped(time.body, Name(here.name))),
    )
    blocks = For(Keys(made).new(block), kind, block, time.start, "<", end, steps, (cut.over((inner,), late),))
    return replace_statement(made, time, [blocks])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What emitting strips needs.

    Attributes:
        sweeps: that are run in strips.
        front: the counter of the loop over strips.
        key: that loop's.
        type: of all counters.
        strip: rows in a strip.
        once: a counter for what runs once, and its loops' keys.
    """

    sweeps: tuple[Sweep, ...]
    front: str
    key: str
    type: str
    strip: Expr
    once: str
    keys: tuple[str, ...]

    @classmethod
    def of(cls, function: Function, sweeps: Sequence[Sweep], strip: Expr) -> _Cut:
        rows = [s.loop for s in sweeps if s.loop is not None]
        front, once = (fresh_name(function, f"{rows[0].var}_{what}") for what in ("front", "once"))
        keys = Keys(function)
        return cls(
            sweeps=tuple(sweeps),
            front=front,
            key=keys.new(front),
            type=counter_type(function, rows[0]),
            strip=strip,
            once=once,
            keys=tuple(keys.new(once) for _ in range(sweeps[-1].at + 1)),
        )

    def over(self, body: tuple[Stmt, ...], late: Expr) -> For:
        """The loop over strips, from the first row of any sweep to the last one and ``late`` more."""
        low = extreme([s.range[0] for s in self.sweeps], smallest=True)
        high = extreme([s.range[1] for s in self.sweeps], smallest=False)
        return For(self.key, self.type, self.front, low, "<", add(high, late), self.strip, body)

    def clipped(self, body: Sequence[Stmt], front: Expr) -> tuple[Stmt, ...]:
        """A body of sweeps with the rows of one strip."""
        rest = list(self.sweeps)
        return tuple(s if isinstance(s, Comment) else self._rows(rest.pop(0), front) for s in body)

    def _rows(self, sweep: Sweep, front: Expr) -> For:
        loop = sweep.loop
        if loop is None:
            key = self.keys[sweep.at]
            row = Number(str(sweep.shift))
            loop = For(key, self.type, self.once, row, "<", add(row, Number("1")), Number("1"), (sweep.stmt,))
            begin = front
        else:
            begin = subtract(front, Number(str(sweep.shift)))
        end = minimum(upper_end(loop), add(begin, self.strip))
        return replace(loop, type=self.type, start=maximum(loop.start, begin), op="<", limit=end)


def _times(factor: int, value: Expr) -> Expr:
    if not factor:
        return Number("0")
    return value if factor == 1 else Binary("*", Number(str(factor)), value)


def _shifts(args: Args, count: int) -> list[int]:
    found = args.get("shifts")
    if not isinstance(found, list) or len(found) != count or not all(type(s) is int for s in found):
        raise Refused(f"the edit's 'shifts' are {found!r} for {count} statements")
    if not all(0 <= s <= MOST for s in found):
        raise Refused(f"shifts of {found!r} are too much")
    return found


def _neighbours(function: Function, keys: Sequence[str]) -> list[For]:
    """Loops by keys, each of which follows the one before it."""
    found = [find_loop(function, keys[0])]
    for key in keys[1:]:
        after = sibling_after(function, found[-1])
        if not isinstance(after, For) or after.key != key:
            raise Refused(f"loop {key} does not follow {found[-1].key}")
        found.append(after)
    if len(found) < 2:
        raise Refused("it takes two loops or more")
    return found


def _require_alike(function: Function, sweeps: Sequence[Sweep], time: For | None = None) -> None:
    """Refuses sweeps that do not count alike, or whose ranges change on the way."""
    loops = [s.loop for s in sweeps if s.loop is not None]
    if not loops or len(sweeps) > _MOST_SWEEPS:
        raise Refused(f"{len(loops)} loops of {len(sweeps)} statements are too few or too many")
    if any(isinstance(s.stmt, Decl) for s in sweeps):
        raise Refused("a variable is declared between the loops")
    changed = written_names(tuple(s.stmt for s in sweeps)) | ({time.var} if time is not None else set())
    for loop in loops:
        require_simple_loop(function, loop)
        if not changed.isdisjoint(names_in((loop.start, loop.limit))):
            raise Refused(f"the bounds of loop {loop.key} are not the same all the time")
    kinds = {counter_type(function, f) for f in (*loops, *([time] if time is not None else []))}
    if len(kinds) > 1:
        raise Refused("the loops count in different types")
    if is_unsigned(kinds.pop()):
        raise Refused("the loops count in an unsigned type")


def _fuse_sites(function: Function, _: bool) -> Iterator[Site]:
    for run in _runs(function):
        for count in sorted({2, len(run)}):
            for first in range(len(run) - count + 1):
                yield from _fusion(function, run[first : first + count])


def _fusion(function: Function, loops: Sequence[For]) -> Iterator[Site]:
    keys = [f.key for f in loops]
    with suppress(Refused):
        sweeps = sweeps_of(loops, keys, [0] * len(keys))
        _require_alike(function, sweeps)
        shifts = [s.shift for s in lagging(analyse(function, loops, {}), sweeps)]
        yield {"loops": keys, "shifts": shifts, "parameters": parameters(function, _strip(loops[0]))}


def _strip(loop: For) -> tuple[str, Sequence[int], int]:
    values, default = (_STRIPS, 8) if _has_rows(loop) else (_LONG_STRIPS, 512)
    return f"STRIP_{loop.var}", values, default


def _runs(function: Function) -> list[list[For]]:
    """Loops by one that follow each other."""
    found: list[list[For]] = []
    seen: set[int] = set()
    for loop in all_loops(function):
        run: list[For] = []
        after: Stmt | None = loop
        while isinstance(after, For) and id(after) not in seen and _is_whole(after):
            if run and _has_rows(after) != _has_rows(loop):
                break
            run.append(after)
            seen.add(id(after))
            after = sibling_after(function, after)
        if len(run) > 1:
            found.append(run)
    return found


def _is_whole(loop: For) -> bool:
    """Whether a loop counts upwards by one and is no part of a strip or tile already."""
    return loop.by_one and loop.upward and not any(isinstance(e, Ternary) for e in (loop.start, loop.limit))


def _has_rows(loop: For) -> bool:
    return any(isinstance(s, For) for s in loop.body)


@for_each_loop
def _skew_sites(function: Function, time: For) -> Iterator[Site]:
    loops = [s for s in time.body if isinstance(s, For) and _is_whole(s)]
    loops = [f for f in loops if _has_rows(f)] or loops
    if not loops or not time.by_one or _is_subscript(time):
        return
    rows = [f.key for f in loops]
    require_simple_loop(function, time)
    sweeps = sweeps_of(time.body, rows, [0] * len(body_of(time)))
    _require_alike(function, sweeps, time)
    found = analyse(function, [time], {})
    sweeps = tuple(lagging(found, sweeps, time.key))
    slope = slope_of(found, time.key, {s.at: s for s in sweeps})
    shifts = [s.shift for s in sweeps]
    # Without any they are plain tiles, which have an operator of their own.
    if slope or any(shifts):
        sizes = parameters(function, (f"STEPS_{time.var}", _STEPS, 4), _strip(loops[0]))
        yield {"loop": time.key, "rows": rows, "shifts": shifts, "slope": slope, "parameters": sizes}


def _is_subscript(time: For) -> bool:
    """Whether a loop goes on to other elements instead of going over the same ones again."""
    targets = (n.target for n in subtrees(time.body) if isinstance(n, Assign))
    return any(time.var in names_in((place_of(t).outer, place_of(t).inner)) for t in targets)


OPERATORS = (
    knowing_members(
        fuse_shifted, _fuse_sites, "runs neighbouring loops strip by strip, each some iterations behind"
    ),
    knowing_members(skew, _skew_sites, "takes leaning strips of rows through several steps of time"),
)
