"""What pure functions of immutable trees gave, kept for the last trees by identity.

To compare or hash a tree costs as much as to walk it; the same tree, not an equal one, comes back all the time, because
transformations share what they leave as it is. May not be used on anything that can change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar

__all__ = ["Kept", "kept_by_identity"]

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[V]):
    """Values under keys, the last used ``size`` to ``2 * size`` of them.

    What a key's identities belong to has to be held by the value, or an identity may come back as another object's.

    Args:
        size: how many values may be new since older ones were let go.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[Any, V] = {}
        self._old: dict[Any, V] = {}

    def get(self, key: Any) -> V | None:
        """The value, or ``None`` where there is none or it was let go."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Any, value: V) -> None:
        """Keeps a value."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = value


def kept_by_identity(size: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Decorates a pure function of one immutable object.

    Args:
        size: as of :class:`Kept`.
    """

    def wrap(function: Callable[[K], V]) -> Callable[[K], V]:
        kept: Kept[tuple[K, V]] = Kept(size)

        def call(node: K) -> V:
            found = kept.get(id(node))
            if found is not None:
                return found[1]
            value = function(node)
            kept.put(id(node), (node, value))
            return value

        return update_wrapper(call, function)

    return wrap
