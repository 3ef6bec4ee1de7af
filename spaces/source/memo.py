"""What pure functions of immutable trees gave, kept for the last trees by identity.

To compare or hash a tree costs as much as to walk it; the same tree, not an equal one, comes back all the time, because
transformations share what they leave as it is. May not be used on anything that can change.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar, cast

__all__ = ["Kept", "kept_by_identity", "kept_or_raised"]

K = TypeVar("K")
V = TypeVar("V")
E = TypeVar("E", bound=Exception)


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


def kept_or_raised(
    kept: Kept[tuple[Any, V | E]], key: Any, held: Any, compute: Callable[[], V], error: type[E]
) -> V:
    """What is kept under a key, or is computed and kept then; an exception that it ends with is raised each time.

    Args:
        kept: by key.
        key: with identities of objects in it.
        held: those objects, kept as well so that their identities stay theirs.
        compute: the value.
        error: the exception that is kept.
    """
    found = kept.get(key)
    if found is None:
        try:
            found = (held, compute())
        except error as raised:
            # A new one, without what it was raised from.
            found = (held, type(raised)(*raised.args))
        kept.put(key, found)
    if isinstance(found[1], error):
        raise type(found[1])(*found[1].args)
    return cast("V", found[1])


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
