"""Sweeps that run one behind the other: how far each has to stay behind, and by how much strips of them lean.

What it finds are the smallest lags and slope for which no dependence goes backwards along the rows. May not change a
tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tuner.spaces.source.dependence import Dependences
from tuner.spaces.source.kinds import Refused
from tuner.spaces.source.operators.bounds import add, upper_end
from tuner.spaces.source.scan import Leaf
from tuner.spaces.source.syntax import Comment, Expr, For, Number, Stmt

__all__ = ["MOST", "Sweep", "lagging", "require_forward", "slope_of", "sweeps_of"]

MOST = 4
"""Rows that a sweep stays behind, or strips lean for a step, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One statement among those that are run in strips.

    Attributes:
        stmt: itself.
        loop: the same where it is a loop over rows; ``None`` where it runs once, at one row.
        at: its place in the body that holds it.
        shift: by how many rows it stays behind; of a statement that runs once, its row.
    """

    stmt: Stmt
    loop: For | None
    at: int
    shift: int

    @property
    def range(self) -> tuple[Expr, Expr]:
        """The first row and the one after the last, shifted."""
        loop = self.loop
        if loop is None:
            return Number(str(self.shift)), Number(str(self.shift + 1))
        shift = Number(str(self.shift))
        return add(loop.start, shift), add(upper_end(loop), shift)

    @property
    def row(self) -> str:
        """Its row, shifted, as part of an order."""
        return str(self.shift) if self.loop is None else f"{self.loop.key}+{self.shift}"


def sweeps_of(body: Sequence[Stmt], rows: Sequence[str], shifts: Sequence[int]) -> tuple[Sweep, ...]:
    """The statements of a body.

    Args:
        body: of a loop over time, or loops that follow each other.
        rows: keys of those that go over rows.
        shifts: one for each statement, comments apart.

    Raises:
        Refused: not all of ``rows`` are there.
    """
    places = [(at, s) for at, s in enumerate(body) if not isinstance(s, Comment)]
    loops = [s if isinstance(s, For) and s.key in rows else None for _, s in places]
    if sorted(f.key for f in loops if f is not None) != sorted(rows):
        raise Refused(f"{', '.join(rows)} are not all loops of one body")
    return tuple(
        Sweep(stmt=s, loop=loop, at=at, shift=shift)
        for (at, s), loop, shift in zip(places, loops, shifts, strict=True)
    )


def require_forward(found: Dependences, sweeps: Mapping[int | str, Sweep], before: str = "") -> None:
    """Refuses an order in which a dependence goes from a later strip to an earlier one."""
    reason = found.backward(lambda leaf: f"{before}{_sweep_of(leaf, sweeps).row}")
    if reason:
        raise Refused(f"{reason} (backwards along the rows)")


def lagging(found: Dependences, sweeps: Sequence[Sweep], time: str = "") -> list[Sweep]:
    """The sweeps with the smallest shifts that keep their dependences within one step of time.

    Raises:
        Refused: there are none.
    """
    kept: list[Sweep] = []
    for sweep in sweeps:
        for shift in range(MOST + 1):
            tried = [*kept, replace(sweep, shift=shift)]
            known = {s.loop.key if not time and s.loop is not None else s.at: s for s in tried}

            def row(leaf: Leaf, known: Mapping[int | str, Sweep] = known) -> str:
                at = leaf.position[2] if time else leaf.position[1]
                return known[at].row if at in known else ""

            if not found.backward(row, within=time):
                kept = tried
                break
        else:
            raise Refused("no shift keeps the dependences")
    return kept


def slope_of(found: Dependences, time: str, sweeps: Mapping[int | str, Sweep]) -> int:
    """The smallest slope that keeps every dependence."""
    for slope in range(MOST + 1):
        ahead = f"{slope}*{time}+"

        def row(leaf: Leaf, ahead: str = ahead) -> str:
            return f"{ahead}{_sweep_of(leaf, sweeps).row}"

        if not found.backward(row):
            return slope
    raise Refused("no slope keeps the dependences")


def _sweep_of(leaf: Leaf, sweeps: Mapping[int | str, Sweep]) -> Sweep:
    """The sweep that a statement lies in: by its place in the loop over time, else by the key of its own loop."""
    at = leaf.position
    return sweeps[at[1]] if at[1] in sweeps else sweeps[at[2]]
