"""Launch geometry in numbers: blocks, threads of a block and shared bytes of one configuration. May not launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Configuration, Launch, Value

__all__ = ["Geometry", "geometry"]

MAX_DIMENSION = (1 << 31) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """What a launch is given.

    Attributes:
        grid: blocks (work-groups) along x, y, z.
        block: threads of a block along x, y, z.
        shared_bytes: dynamic shared (local) memory of a block.
        offset: number of the first work-item along x, y, z.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    offset: tuple[int, int, int] = (0, 0, 0)

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.block[0] * self.block[1] * self.block[2]


def geometry(launch: Launch, configuration: Configuration, sizes: Mapping[str, int]) -> Geometry:
    """Computes the geometry of one configuration on one problem.

    A device's own limits (1,024 threads, 48 KiB and so on) are the backend's to check.

    Args:
        launch: the expressions.
        configuration: values of the tunables.
        sizes: the problem's sizes.

    Raises:
        SpecError: not one to three dimensions, a number that is not whole or below 1 (below 0 for shared bytes), or
            one that no launch can take.
    """
    env: dict[str, Value] = {**sizes, **configuration}
    shared = 0
    if launch.shared_bytes is not None:
        shared = _whole("shared_bytes", launch.shared_bytes, env, least=0)
    offset = [_whole("offset", part, env, least=0) for part in launch.offset]
    first, second, third = (*offset, 0, 0, 0)[:3]
    return Geometry(
        grid=_three("grid", launch.grid, env),
        block=_three("block", launch.block, env),
        shared_bytes=shared,
        offset=(first, second, third),
    )


def _three(what: str, parts: tuple[Expression, ...], env: Mapping[str, Value]) -> tuple[int, int, int]:
    if not 1 <= len(parts) <= 3:
        raise SpecError(f"launch: {what} has {len(parts)} dimensions", "give one, two or three")
    axes = [_whole(f"{what}.{axis}", part, env, least=1) for axis, part in zip("xyz", parts, strict=False)]
    x, y, z = (*axes, 1, 1)[:3]
    return x, y, z


def _whole(what: str, part: Expression, env: Mapping[str, Value], *, least: int) -> int:
    try:
        value = part.integer(env)
    except SpecError as error:
        raise SpecError(f"launch: {what}: {error.message}", error.hint) from None
    if not least <= value <= MAX_DIMENSION:
        used = ", ".join(f"{name} = {env[name]!r}" for name in sorted(part.names))
        raise SpecError(
            f"launch: {what} is {value} ({part.text!r}" + (f" with {used})" if used else ")"),
            f"it must be at least {least}" if value < least else f"it can be at most {MAX_DIMENSION}",
        )
    return value
