"""Device memory at recorded addresses, shared by all sets of a worker that need the same: one is in it at a time.

Maps and copies; it launches nothing. Standard library only, as its process is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tuner.evaluators.cuda.driver import Driver, DriverError, Function

__all__ = ["Pinned", "PinnedMemory"]

_NOT_FOUND = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """One set's part: stretches as offset in the slab, bytes, address; what it holds at first; what a call left."""

    stretches: tuple[tuple[int, int, int], ...]
    granules: tuple[tuple[int, int], ...]
    golden: int
    result: int

    def address(self, offset: int) -> int:
        """Where a byte of the slab lies on the device."""
        for begin, size, address in self.stretches:
            if begin <= offset < begin + size:
                return address + offset - begin
        raise ValueError(f"no stretch holds byte {offset}")


class PinnedMemory:
    """What is mapped, and which set is in it.

    Args:
        driver: with an open context.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._mapped: dict[tuple[int, int], tuple[int, int]] = {}
        self._resident: Pinned | None = None

    def make(self, stretches: Sequence[dict[str, Any]], size: int, function: Function | None) -> Pinned:
        """Memory for a set of ``size`` bytes.

        Raises:
            DriverError: an address is taken, a variable is gone or has shrunk, or memory is short.
        """
        placed, granules = [], []
        for stretch in stretches:
            address = stretch["address"]
            if stretch["variable"]:
                assert function is not None
                address, room = self._driver.variable(function, stretch["variable"])
                if room < stretch["size"]:
                    raise DriverError(_NOT_FOUND, f"{stretch['variable']} is smaller", "cuModuleGetGlobal")
            else:
                granule = (stretch["mapped"][0], stretch["mapped"][1])
                self._hold(granule)
                granules.append(granule)
            placed.append((stretch["offset"], stretch["size"], address))
        return Pinned(
            stretches=tuple(placed),
            granules=tuple(granules),
            golden=self._driver.allocate(size),
            result=self._driver.allocate(size),
        )

    def enter(self, pinned: Pinned, restore: Sequence[tuple[int, int]]) -> None:
        """Brings a set into place: all of it, or where it is there already only what ``restore`` names."""
        if self._resident is pinned:
            for offset, size in restore:
                self._driver.copy(pinned.address(offset), pinned.golden + offset, size)
            return
        for offset, size, address in pinned.stretches:
            self._driver.copy(address, pinned.golden + offset, size)
        self._resident = pinned

    def keep(self, pinned: Pinned) -> None:
        """Keeps what a call has left, before another set takes its place."""
        for offset, size, address in pinned.stretches:
            self._driver.copy(pinned.result + offset, address, size)

    def free(self, pinned: Pinned) -> None:
        """Gives a set's memory back."""
        if self._resident is pinned:
            self._resident = None
        self._driver.free(pinned.golden)
        self._driver.free(pinned.result)
        for granule in pinned.granules:
            handle, users = self._mapped[granule]
            if users > 1:
                self._mapped[granule] = (handle, users - 1)
            else:
                del self._mapped[granule]
                self._driver.unmap(*granule, handle)

    def _hold(self, granule: tuple[int, int]) -> None:
        handle, users = self._mapped.get(granule, (0, 0))
        if not users:
            handle = self._driver.map_at(*granule)
        self._mapped[granule] = (handle, users + 1)
