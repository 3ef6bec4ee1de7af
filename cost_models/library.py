"""Finished runs that later ones may learn from: what was best for which kind of code, one small file each.

Kernels are near when their baselines' static features are: similar code, similar cure (Trümper et al., "Performance
embeddings", ICS 2023). May not decide that anything is good: what it finds is tried first, nothing more.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tuner.core.canonical import digest_json
from tuner.core.files import write_atomically
from tuner.core.types import Configuration, Value
from tuner.cost_models.code_worth import Code
from tuner.cost_models.machines import apart
from tuner.cost_models.promise import Kept
from tuner.spaces.space import PASSES, Space

__all__ = ["TRIED", "Entry", "Library", "adapted", "distance", "library_folder"]

TRIED = 6
"""Configurations of one earlier run that a run tries at most."""

SHARE = 0.05
"""Part of a run's evaluations that they may take."""

_KEPT = 8
_SOURCES = 3
_MOST = 500
_NEAR = 0.6
_VERSION = 1
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One finished run.

    Attributes:
        kernel: its name.
        backend, language, device: where it ran.
        features: static features of its baseline's build.
        names: of its tunables.
        best: configurations with their scores (log time over the baseline's), best first.
        edits: of the source that made the best variant.
        speedup: as confirmed.
        machine: its numbers (:mod:`tuner.cost_models.machines`).
        chosen: the configuration that won; this and what follows is empty where the source stayed as it was given.
        steps: the winner's edits for other kernels (:mod:`tuner.search.porting`).
        moves: how its variant and those before it were made, oldest first.
        structure: digest of the source as given without its names.
        shape: numbers of what stands in what in the source as given (:mod:`tuner.spaces.source.embedding`).
        variants: what was tried of the source (:data:`tuner.cost_models.promise.Kept`).
        paid: by move, what the variants that it made were worth in the mean (:func:`tuner.cost_models.promise.worth`).
        columns: names of the static features of ``codes``.
        codes: what variants were built to at their first trials, and what that was worth.
    """

    kernel: str
    backend: str
    language: str
    device: str
    features: Mapping[str, float]
    names: tuple[str, ...]
    best: tuple[tuple[Configuration, float], ...]
    edits: tuple[Mapping[str, Any], ...]
    speedup: float
    machine: Mapping[str, float] = field(default_factory=dict)
    chosen: Configuration = field(default_factory=dict)
    steps: tuple[Mapping[str, Any], ...] = ()
    moves: tuple[str, ...] = ()
    structure: str = ""
    shape: tuple[float, ...] = ()
    variants: tuple[Kept, ...] = ()
    paid: Mapping[str, float] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    codes: tuple[Code, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Entry:
        """The inverse of :meth:`to_json`.

        Raises:
            ValueError: it is of another version, or no entry.
        """
        try:
            if value["version"] != _VERSION:
                raise ValueError(f"version {value['version']}")
            return cls(
                kernel=str(value["kernel"]),
                backend=str(value["backend"]),
                language=str(value["language"]),
                device=str(value["device"]),
                features={str(k): float(v) for k, v in value["features"].items()},
                names=tuple(map(str, value["names"])),
                best=tuple((dict(c), float(s)) for c, s in value["best"])[:_KEPT],
                edits=tuple(dict(e) for e in value["edits"]),
                speedup=float(value["speedup"]),
                machine={str(k): float(v) for k, v in value["machine"].items()},
                chosen=dict(value["chosen"]),
                steps=tuple(map(_step, value["steps"])),
                moves=tuple(map(str, value["moves"])),
                structure=str(value["structure"]),
                shape=tuple(map(float, value["shape"])),
                variants=tuple((tuple(map(float, s)), float(w)) for s, w in value["variants"]),
                paid={str(k): float(v) for k, v in value["paid"].items()},
                columns=(columns := tuple(map(str, value["columns"]))),
                codes=tuple(_code(one, len(columns)) for one in value["codes"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"no entry of a library: {error}") from None


def _code(value: Sequence[Any], width: int) -> Code:
    """A build's features with its worth; raises where it has not a number for each column."""
    numbers, worth = value
    if len(numbers) != width:
        raise ValueError("a code without all of its features")
    return tuple(map(float, numbers)), float(worth)


def _step(value: Mapping[str, Any]) -> dict[str, Any]:
    """One edit as :func:`tuner.search.porting.stages_of` keeps it; raises where it is none."""
    role = value["role"]
    return {
        "op": str(value["op"]),
        "role": {
            "loops": [[float(n) for n in loop] for loop in role["loops"]],
            "array": [float(n) for n in role["array"]],
            "plain": dict(role["plain"]),
            "rest": bool(role["rest"]),
        },
        "sizes": [{"values": list(s["values"]), "best": s["best"]} for s in value["sizes"]],
        "reassociate": bool(value["reassociate"]),
    }


def library_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where the user's library is; need not exist yet."""
    variables = os.environ if environment is None else environment
    base = variables.get("XDG_DATA_HOME") or os.path.join(variables.get("HOME") or "~", ".local", "share")
    return Path(base).expanduser() / "remix-tuner" / "library"


class Library:
    """A folder of entries. Several processes may use it: files appear whole or not at all.

    Args:
        folder: need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, entry: Entry) -> bool:
        """Keeps an entry; false where the folder cannot be written, which costs the library and nothing else."""
        text = json.dumps(entry.to_json(), sort_keys=True)
        path = self._folder / f"{digest_json(entry.to_json())[:24]}{_SUFFIX}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text.encode())
            self._forget()
        except OSError:
            return False
        return True

    def entries(self) -> list[Entry]:
        """All that can be read, in the order of their names."""
        found = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                found.append(Entry.from_json(json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError):
                # Another version's, or damaged: as good as absent.
                continue
        return found

    def nearest(self, like: Entry) -> list[tuple[Entry, float]]:
        """The nearest few with their distances, nearest first, of equal code the likest machine; none that are far."""
        found = [
            (distance(like, entry), apart(like.machine, entry.machine), number, entry)
            for number, entry in enumerate(self.entries())
            if entry.backend == like.backend and entry.language == like.language and entry.best
        ]
        near = sorted(one[:3] for one in found if one[0] <= _NEAR)[:_SOURCES]
        by_number = {n: entry for *_, n, entry in found}
        return [(by_number[n], d) for d, _, n in near]

    def _forget(self) -> None:
        paths = sorted(self._folder.glob(f"*{_SUFFIX}"), key=lambda p: p.stat().st_mtime)
        for path in paths[: max(0, len(paths) - _MOST)]:
            path.unlink(missing_ok=True)


def distance(one: Entry, other: Entry) -> float:
    """From 0: how far two kernels' code is apart, in mean difference of log features.

    Where one has no features, by how many of their tunables have other names: 0 to 1.
    """
    names = sorted({*one.features, *other.features})
    pairs = [(one.features.get(n, 0.0), other.features.get(n, 0.0)) for n in names]
    pairs = [(a, b) for a, b in pairs if a > 0 or b > 0]
    if not one.features or not other.features or not pairs:
        mine, theirs = set(one.names), set(other.names)
        return 1.0 - len(mine & theirs) / max(1, len(mine | theirs))
    return sum(abs(math.log1p(max(a, 0.0)) - math.log1p(max(b, 0.0))) for a, b in pairs) / len(pairs)


def adapted(space: Space, sources: Sequence[Entry], most: int) -> list[tuple[dict[str, Value], int]]:
    """Configurations of a space after the sources' best, and which source each is of.

    The best of each source comes first, then the second best, and so on. What the space does not have is left out, what
    the source did not have stays at its default.
    """
    default = space.default()
    found: dict[str, tuple[dict[str, Value], int]] = {}
    for rank in range(TRIED):
        for number, source in enumerate(sources):
            if rank >= len(source.best) or len(found) >= most:
                continue
            made = _fitted(space, source.best[rank][0], default)
            if made != default and space.is_valid(made):
                found.setdefault(json.dumps(made, sort_keys=True), (made, number))
    return list(found.values())


def _fitted(space: Space, source: Configuration, default: Mapping[str, Value]) -> dict[str, Value]:
    made = dict(default)
    for dimension in space.dimensions:
        position = dimension.find(source.get(dimension.name))
        if position is not None:
            made[dimension.name] = dimension.values[position]
    pipeline = source.get(PASSES)
    if space.passes is not None and isinstance(pipeline, str) and space.passes.is_valid(pipeline):
        made[PASSES] = pipeline
    return made
