"""The space of configurations: parameters and flags under constraints, and pass pipelines beside them.

May not decide what to try next, nor compile or run anything.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tuner.core.errors import SpecError
from tuner.core.expressions import Expression
from tuner.core.types import Configuration, Resolved, Value
from tuner.spaces.checks import holds
from tuner.spaces.encoding import Encoder
from tuner.spaces.listing import Listing
from tuner.spaces.parameters import Kind, Parameter
from tuner.spaces.passes import PassSpace
from tuner.spaces.solver import ROW_LIMIT, Component, components

__all__ = ["PASSES", "Space"]

PASSES = "passes"
"""The name under which a configuration holds its pipeline."""

_WALK = 64
_NEAREST = 32


class Space:
    """What can be tuned. Immutable; listing the valid combinations happens once, when it is made.

    Args:
        parameters: the tunables.
        constraints: expressions over parameters, flag groups (as text) and sizes that must all hold. One that
            cannot be computed for a configuration (a division by zero) rules it out.
        flags: choices by group; a choice is one text of any number of flags, the baseline's first.
        passes: the pass pipelines; ``None`` where passes are off.
        sizes: problem sizes that constraints may name.
        only: the keys (:meth:`key`) that alone may be tried, all of them valid; ``None`` for every valid one.

    Attributes:
        dimensions: parameters, then flag groups as unordered parameters.

    Raises:
        SpecError: names that collide or are unknown, or no valid configuration at all.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        constraints: Sequence[Expression] = (),
        *,
        flags: Mapping[str, Sequence[str]] | None = None,
        passes: PassSpace | None = None,
        sizes: Mapping[str, int] | None = None,
        only: Collection[tuple[int, ...]] | None = None,
    ) -> None:
        self.parameters = tuple(parameters)
        self.constraints = tuple(constraints)
        self.flags = {name: tuple(choices) for name, choices in (flags or {}).items()}
        self.passes = passes
        self.sizes = dict(sizes or {})
        self.dimensions = (*self.parameters, *(_group(name, texts) for name, texts in self.flags.items()))
        self._check_names()
        self._only = None if only is None else frozenset(only)
        domains = {d.name: d.values for d in self.dimensions}
        if self._only is None:
            self._components = components(domains, self.constraints, self.sizes)
        elif not self._only:
            raise SpecError(
                "the space is empty: nothing of what may be tried is valid", "relax the constraints"
            )
        else:
            self._components = [Component.of_rows(domains, np.array(sorted(self._only), dtype=np.int64))]
        self.encoder = Encoder(self.dimensions)
        self._column = {d.name: i for i, d in enumerate(self.dimensions)}
        self._touching = {
            d.name: tuple(c for c in self.constraints if d.name in c.names) for d in self.dimensions
        }

    def _check_names(self) -> None:
        seen: dict[str, str] = dict.fromkeys(self.sizes, "a size")
        seen[PASSES] = "the name of the pass pipeline"
        for kind, names in (("a parameter", [p.name for p in self.parameters]), ("a flag group", self.flags)):
            for name in names:
                if name in seen:
                    raise SpecError(f"{name!r} is {kind} and also {seen[name]}", "rename one")
                seen[name] = kind
        for constraint in self.constraints:
            unknown = sorted(constraint.names - (set(seen) - {PASSES}))
            if unknown:
                known = ", ".join(sorted(set(seen) - {PASSES})) or "none"
                raise SpecError(
                    f"unknown name {unknown[0]!r} in constraint {constraint.text!r}", f"known names: {known}"
                )

    @property
    def product_size(self) -> int:
        """Combinations of parameters and flags without constraints, exactly."""
        return math.prod(len(d.values) for d in self.dimensions)

    def count(self) -> int | None:
        """Valid combinations of parameters and flags, exactly; ``None`` where finding them all takes too long."""
        if any(part.rows is None for part in self._components):
            return None
        return math.prod(len(part.rows) for part in self._components if part.rows is not None)

    def default(self) -> dict[str, Value]:
        """The baseline's configuration; constraints need not hold for it (see :meth:`explain`)."""
        return self._with_passes({d.name: d.default for d in self.dimensions}, None)

    def is_valid(self, configuration: Configuration) -> bool:
        """Whether every value is in range and every constraint holds."""
        return not self.explain(configuration)

    def explain(self, configuration: Configuration) -> str:
        """Why a configuration is not valid, one line; empty when it is."""
        for dimension in self.dimensions:
            if dimension.name not in configuration:
                return f"{dimension.name} has no value"
            value = configuration[dimension.name]
            if dimension.find(value) is None:
                return f"{dimension.name} = {value!r} is out of range; allowed: {dimension.describe()}"
        for name in configuration:
            if name not in self._column and (name != PASSES or self.passes is None):
                return f"{name!r} is not in the space"
        env = self._environment(configuration)
        for constraint in self.constraints:
            try:
                if constraint.evaluate(env):
                    continue
            except SpecError as error:
                return str(error)
            values = ", ".join(f"{n} = {env[n]!r}" for n in sorted(constraint.names))
            return f"{constraint.text!r} does not hold" + (f" with {values}" if values else "")
        if self._only is not None and self.key(configuration) not in self._only:
            return "it is not among the configurations that may be tried"
        if self.passes is not None:
            text = configuration.get(PASSES)
            if not isinstance(text, str):
                return "passes has no value"
            return self.passes.explain(text)
        return ""

    def restricted(self, configurations: Iterable[Configuration]) -> Space:
        """The same space with those of these configurations alone that are valid in it; pipelines stay free.

        Raises:
            SpecError: none is.
        """
        listing = self.listing()
        keys = set()
        for configuration in configurations:
            found = [d.find(configuration.get(d.name)) for d in self.dimensions]
            key = tuple(p for p in found if p is not None)
            if len(key) < len(found):
                continue
            if (
                listing.row(key) is not None
                if listing is not None
                else self._allowed(self._of_key(key), None)
            ):
                keys.add(key)
        return Space(
            self.parameters,
            self.constraints,
            flags=self.flags,
            passes=self.passes,
            sizes=self.sizes,
            only=keys,
        )

    def resolve(self, configuration: Configuration) -> Resolved:
        """Sorts values by what takes them.

        Raises:
            SpecError: a value is missing or out of range. Constraints are not looked at.
        """
        plain = self.normalise(configuration)
        flags: list[str] = []
        for group in self.flags:
            flags += shlex.split(str(plain[group]))
        pipeline = str(plain[PASSES]) if self.passes is not None else None
        return Resolved(
            macros={p.name: plain[p.name] for p in self.parameters if p.macro},
            scalars={p.name: plain[p.name] for p in self.parameters if not p.macro},
            flags=tuple(flags),
            pipeline=pipeline,
        )

    def normalise(self, configuration: Configuration) -> dict[str, Value]:
        """The same configuration in plain Python values (no NumPy scalars), in the order of the dimensions.

        Raises:
            SpecError: a value is missing or out of range.
        """
        passes = configuration.get(PASSES)
        return self._with_passes(
            self._from_key(self.key(configuration)), passes if isinstance(passes, str) else None
        )

    def key(self, configuration: Configuration) -> tuple[int, ...]:
        """The positions of the values (parameters, then flags; not the pipeline): equal for equal choices.

        Raises:
            SpecError: a value is missing or out of range.
        """
        positions = []
        for dimension in self.dimensions:
            if dimension.name not in configuration:
                raise SpecError(f"{dimension.name} has no value", f"allowed: {dimension.describe()}")
            positions.append(dimension.position(configuration[dimension.name]))
        return tuple(positions)

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        *,
        exclude: Collection[tuple[int, ...]] = (),
        passes: str | None = None,
    ) -> list[dict[str, Value]]:
        """Different valid configurations; fewer than ``count`` only when there are no more.

        Uniform over all valid combinations of parameters and flags, also over those too many to list, as long as
        each group of parameters that constraints tie together can be listed or sampled by rejection; see
        :meth:`tuner.spaces.solver.Component.sample` for the rest.

        Args:
            rng: source of all randomness.
            count: how many.
            exclude: keys (:meth:`key`) that may not come; give a set.
            passes: pipeline of all of them; the base when ``None``.
        """
        chosen: dict[tuple[int, ...], None] = {}
        drawn, allowed = 0, 1000 + 20 * count
        total = self.count()
        listed = math.inf if total is None or total > ROW_LIMIT else total
        # Of a space that is used up nothing new can be drawn; what is left after all is listed below.
        while len(chosen) < count and drawn < allowed and len(chosen) + len(exclude) < listed:
            batch = min(1 << 14, 2 * (count - len(chosen)) + 8)
            for row in self._draw(rng, batch).tolist():
                key = tuple(row)
                if len(chosen) < count and key not in chosen and key not in exclude:
                    chosen[key] = None
            drawn += batch
        if len(chosen) < count:
            for key in self._remaining(rng, exclude):
                if len(chosen) == count:
                    break
                chosen[key] = None
        return [self._with_passes(self._from_key(key), passes) for key in chosen]

    def neighbours(
        self, configuration: Configuration, rng: np.random.Generator | None = None
    ) -> list[dict[str, Value]]:
        """Valid configurations one step away, with the same pipeline.

        A step changes one dimension (the nearest valid value up and down where values are ordered, any other
        otherwise) or swaps the values of two. Where no step is valid the nearest listed configurations come.

        Args:
            configuration: all values in range; constraints need not hold.
            rng: shuffles the answer; without it the order is fixed.

        Raises:
            SpecError: a value is missing or out of range.
        """
        key = self.key(configuration)
        found = dict.fromkeys(itertools.chain(self._steps(key), self._swaps(key)))
        keys = list(found) or self._nearest(key)
        if rng is not None:
            keys = [keys[i] for i in rng.permutation(len(keys))]
        passes = configuration.get(PASSES)
        text = passes if isinstance(passes, str) else None
        return [self._with_passes(self._from_key(k), text) for k in keys]

    @cached_property
    def _listing(self) -> Listing | None:
        total = self.count()
        if total is None or total > ROW_LIMIT:
            return None
        return Listing.join(self.dimensions, self._components)

    def listing(self) -> Listing | None:
        """All valid combinations of parameters and flags; ``None`` above two million."""
        return self._listing

    def _with_passes(self, values: dict[str, Value], text: str | None) -> dict[str, Value]:
        if self.passes is not None:
            values[PASSES] = self.passes.base if text is None else text
        return values

    def _of_key(self, key: Sequence[int]) -> dict[str, Value]:
        return self.sizes | self._from_key(key)

    def _from_key(self, key: Sequence[int]) -> dict[str, Value]:
        return {d.name: d.values[p] for d, p in zip(self.dimensions, key, strict=True)}

    def _environment(self, configuration: Configuration) -> dict[str, Value]:
        env: dict[str, Value] = dict(self.sizes)
        for dimension in self.dimensions:
            env[dimension.name] = dimension.values[dimension.position(configuration[dimension.name])]
        return env

    def _draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        parts = [part.sample(rng, count) for part in self._components]
        least = min((len(part) for part in parts), default=count)
        rows = np.zeros((least, len(self.dimensions)), dtype=np.int64)
        for part, drawn in zip(self._components, parts, strict=True):
            rows[:, [self._column[n] for n in part.names]] = drawn[:least]
        return rows

    def _remaining(
        self, rng: np.random.Generator, exclude: Collection[tuple[int, ...]]
    ) -> Iterable[tuple[int, ...]]:
        """What is left when random draws hit nothing new, in random order."""
        listing = self.listing()
        if listing is None:
            return
        for row in rng.permutation(len(listing)).tolist():
            key = tuple(listing.indices[row].tolist())
            if key not in exclude:
                yield key

    def _allowed(self, env: Mapping[str, Value], changed: Collection[str] | None) -> bool:
        """Whether the constraints hold that name something changed; all of them for ``None``."""
        if changed is None:
            return all(holds(c, env) for c in self.constraints)
        touched = dict.fromkeys(itertools.chain.from_iterable(self._touching[name] for name in changed))
        return all(holds(c, env) for c in touched)

    def _open(self, key: tuple[int, ...]) -> bool:
        return self._only is None or key in self._only

    def _steps(self, key: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        env = self._of_key(key)
        valid = self._allowed(env, None)
        for i, dimension in enumerate(self.dimensions):
            size, here = len(dimension.values), key[i]
            if dimension.ordered:
                ways: list[Iterable[int]] = [
                    range(here + 1, min(size, here + 1 + _WALK)),
                    range(here - 1, max(-1, here - 1 - _WALK), -1),
                ]
            else:
                ways = [(other,) for other in range(size) if other != here]
            changed = (dimension.name,) if valid else None
            for way in ways:
                for position in way:
                    moved = (*key[:i], position, *key[i + 1 :])
                    if self._open(moved) and self._allowed(
                        env | {dimension.name: dimension.values[position]}, changed
                    ):
                        yield moved
                        break

    def _swaps(self, key: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
        env = self._of_key(key)
        valid = self._allowed(env, None)
        for i, j in itertools.combinations(range(len(key)), 2):
            first, second = self.dimensions[i], self.dimensions[j]
            if first.ordered != second.ordered or first.kind is Kind.BOOLEAN:
                continue
            to_first = first.find(second.values[key[j]])
            to_second = second.find(first.values[key[i]])
            if to_first is None or to_second is None or to_first == key[i]:
                continue
            changes = {first.name: first.values[to_first], second.name: second.values[to_second]}
            if self._allowed(env | changes, tuple(changes) if valid else None):
                swapped = list(key)
                swapped[i], swapped[j] = to_first, to_second
                if self._open(tuple(swapped)):
                    yield tuple(swapped)

    def _nearest(self, key: tuple[int, ...]) -> list[tuple[int, ...]]:
        listing = self.listing()
        if listing is None:
            return []
        here = self.encoder.encode(np.array([key], dtype=np.int64))
        distance = np.abs(listing.encoded - here).sum(axis=1)
        order = np.argsort(distance, kind="stable")[: _NEAREST + 1]
        keys = [tuple(listing.indices[i].tolist()) for i in order]
        return [k for k in keys if k != key][:_NEAREST]


def _group(name: str, texts: Sequence[str]) -> Parameter:
    if not texts:
        raise SpecError(f"flag group {name!r} has no choices", 'list at least one; "" is no flag')
    if len(set(texts)) != len(texts):
        raise SpecError(f"flag group {name!r} lists a choice twice", "choices must differ")
    for text in texts:
        try:
            shlex.split(text)
        except ValueError as error:
            raise SpecError(
                f"flag group {name!r}: {text!r} cannot be split ({error})", "close the quotes"
            ) from None
    return Parameter(name=name, kind=Kind.CATEGORICAL, values=tuple(texts), default=texts[0], macro=False)
