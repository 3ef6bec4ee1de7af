"""All valid configurations of a space as one array, for searchers that look at every one. May not grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuner.core.types import Value
from tuner.spaces.encoding import Encoder
from tuner.spaces.parameters import Parameter
from tuner.spaces.solver import Component

__all__ = ["Listing"]


class Listing:
    """Valid configurations (parameters and flags, no pipeline) in ascending order of their positions.

    Attributes:
        indices: ``[n, d]`` positions of values, ``uint16`` or ``uint32``; columns as the space's dimensions.
    """

    def __init__(self, dimensions: Sequence[Parameter], indices: npt.NDArray[np.integer]) -> None:
        self._dimensions = tuple(dimensions)
        self.indices = indices
        self.indices.flags.writeable = False

    @classmethod
    def join(cls, dimensions: Sequence[Parameter], parts: Sequence[Component]) -> Listing:
        """Every combination of the components' rows; all components must be listed."""
        lengths = [len(part.rows) for part in parts if part.rows is not None]
        total = math.prod(lengths)
        widest = max((len(d.values) for d in dimensions), default=1)
        dtype = np.uint16 if widest <= 1 << 16 else np.uint32
        indices = np.zeros((total, len(dimensions)), dtype=dtype)
        column = {d.name: i for i, d in enumerate(dimensions)}
        each = total
        for part in parts:
            assert part.rows is not None
            each //= len(part.rows)
            pick = np.tile(np.repeat(np.arange(len(part.rows)), each), total // (each * len(part.rows)))
            for j, name in enumerate(part.names):
                indices[:, column[name]] = part.rows[pick, j]
        if len(parts) > 1:
            indices = indices[_order(indices, [len(d.values) for d in dimensions])]
        return cls(dimensions, indices)

    def __len__(self) -> int:
        return len(self.indices)

    def configuration(self, row: int) -> dict[str, Value]:
        """The configuration of one row."""
        positions = self.indices[row].tolist()
        return {d.name: d.values[p] for d, p in zip(self._dimensions, positions, strict=True)}

    def row(self, key: Sequence[int]) -> int | None:
        """The row with these positions, or ``None`` when they are not valid."""
        return self._rows.get(np.asarray(key, dtype=self.indices.dtype).tobytes())

    @cached_property
    def encoded(self) -> npt.NDArray[np.float64]:
        """``[n, columns]``, as :class:`tuner.spaces.encoding.Encoder` does it."""
        table = Encoder(self._dimensions).encode(self.indices)
        table.flags.writeable = False
        return table

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(self.indices)}


def _order(indices: npt.NDArray[np.integer], sizes: Sequence[int]) -> npt.NDArray[np.intp]:
    if math.prod(sizes) < 1 << 62:
        code = np.zeros(len(indices), dtype=np.int64)
        for i, size in enumerate(sizes):
            code = code * size + indices[:, i]
        return np.argsort(code, kind="stable")
    return np.lexsort(indices.T[::-1])
