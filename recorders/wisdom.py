"""Wisdom files: the best known configuration of a kernel by device and problem size, for applications that choose.

Standard library only, so that reading one costs an application nothing. May not tune or judge. The format is described
in ``docs/putting-back.md``; the idea of such files and of the nearest size as a fallback is that of FFTW and of Kernel
Launcher (Heldens and van Werkhoven, 2023).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.core.errors import MachineError, UsageError
from tuner.core.files import write_atomically
from tuner.core.types import Value

__all__ = ["Entry", "Wisdom", "distance", "wisdom"]

FORMAT = "tuner-wisdom"
VERSION = 2
REACH = 1.0
"""Distance beyond which the default is taken: every size within a factor of two."""

_MOST_BYTES = 64 << 20
_ENTRY_KEYS = {
    *("device", "problem", "untold", "configuration", "speedup", "time_s", "baseline_s", "launch", "run"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is best on one device for one problem.

    Attributes:
        device: as the run's result names it.
        problem: the sizes by name.
        untold: arguments that may carry a size and that no number of ``problem`` stands for.
        configuration: one value for every tunable.
        speedup: over the default, with its 95% interval; ones where the default is best.
        time_s, baseline_s: seconds of one call with it and with the default; ``None`` where not known.
        launch: geometry of that problem: ``grid``, ``block``, ``shared_bytes``; empty for a function.
        run: name of the run record that it comes from.
    """

    device: str
    problem: Mapping[str, int]
    configuration: Mapping[str, Value]
    speedup: tuple[float, float, float] = (1.0, 1.0, 1.0)
    time_s: float | None = None
    baseline_s: float | None = None
    launch: Mapping[str, Any] = field(default_factory=dict)
    run: str = ""
    untold: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        value, low, high = self.speedup
        return {
            "device": self.device,
            "problem": dict(self.problem),
            "untold": list(self.untold),
            "configuration": dict(self.configuration),
            "speedup": {"value": value, "ci95": [low, high]},
            "time_s": self.time_s,
            "baseline_s": self.baseline_s,
            "launch": dict(self.launch),
            "run": self.run,
        }

    @property
    def place(self) -> tuple[str, tuple[tuple[str, int], ...]]:
        """Device and problem: a file has one entry for each."""
        return self.device, tuple(sorted(self.problem.items()))

    @property
    def _order(self) -> tuple[float, str, str]:
        time_s = math.inf if self.time_s is None else self.time_s
        return time_s, self.run, json.dumps(self.to_json(), sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What :meth:`Wisdom.select` answers.

    Attributes:
        configuration: to be used.
        how: ``exact`` (this problem was tuned), ``nearest`` (one within reach was, or one of which not every size is
            told) or ``default``.
        entry: where it comes from; ``None`` for the default.
        distance: of that entry's problem; infinite for the default.
    """

    configuration: Mapping[str, Value]
    how: str
    entry: Entry | None = None
    distance: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Wisdom:
    """One file.

    Attributes:
        kernel: its name.
        backend: of the runs.
        source: digest of the kernel's source as given: entries of another one mean nothing.
        default: the configuration of the source as given.
        entries: one for each device and problem.
        reach: distance beyond which the default is taken; 1 is every size within a factor of two.
    """

    kernel: str
    backend: str
    source: str
    default: Mapping[str, Value]
    entries: tuple[Entry, ...] = ()
    reach: float = REACH

    @classmethod
    def load(cls, path: str | Path) -> Wisdom:
        """Reads a file.

        Raises:
            UsageError: there is none, or it is no wisdom file or a damaged one.
        """
        place = Path(path)
        try:
            if place.stat().st_size > _MOST_BYTES:
                raise UsageError(f"{place} is too large for a wisdom file", "name another")
            data = json.loads(place.read_text(encoding="utf-8"), parse_constant=_no_constant)
        except OSError as error:
            raise UsageError(f"{place} cannot be read: {error.strerror}", "tuner export writes one") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{place} is no JSON", "tuner export writes one") from None
        return cls.from_json(data, origin=str(place))

    @classmethod
    def from_json(cls, data: Any, *, origin: str = "wisdom") -> Wisdom:
        """The inverse of :meth:`to_json`.

        Raises:
            UsageError: it is none, or of another version.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise UsageError(f"{origin} is no wisdom file", "tuner export writes one")
        if data.get("version") != VERSION:
            raise UsageError(
                f"{origin} has version {data.get('version')!r}, not {VERSION}", "remove it and export again"
            )
        try:
            return cls(
                kernel=_text(data["kernel"]),
                backend=_text(data["backend"]),
                source=_text(data["source"]),
                default=_values(data["default"]),
                entries=tuple(_entry(e) for e in _list(data["entries"])),
                reach=_number(data["reach"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{origin} is damaged: {error}", "export it again") from None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; equal wisdom gives equal text."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "kernel": self.kernel,
            "backend": self.backend,
            "source": self.source,
            "reach": self.reach,
            "default": dict(self.default),
            "entries": [e.to_json() for e in sorted(self.entries, key=lambda e: e.place)],
        }

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all.

        Raises:
            MachineError: it cannot be written.
        """
        place = Path(path)
        text = json.dumps(self.to_json(), indent=2, allow_nan=False) + "\n"
        try:
            write_atomically(place, text.encode())
        except OSError as error:
            raise MachineError(
                f"{place} cannot be written: {error.strerror}", "name another folder"
            ) from None

    def merged(self, other: Wisdom) -> Wisdom:
        """Both files in one; where both know a device and problem, the entry with the shorter time.

        Raises:
            UsageError: they are about different kernels or sources.
        """
        for name in ("kernel", "backend", "source"):
            if getattr(self, name) != getattr(other, name):
                raise UsageError(
                    f"wisdom of another {name}: {getattr(self, name)!r} and {getattr(other, name)!r}",
                    "keep a file for each",
                )
        best: dict[Any, Entry] = {}
        for entry in (*self.entries, *other.entries):
            known = best.get(entry.place)
            if known is None or entry._order < known._order:
                best[entry.place] = entry
        entries = tuple(best[place] for place in sorted(best))
        return replace(self, entries=entries, reach=min(self.reach, other.reach))

    def select(self, device: str | None, problem: Mapping[str, int]) -> Choice:
        """The configuration to use.

        Args:
            device: as an entry names it; ``None`` where the file knows one device only.
            problem: a value for every size that entries name; further ones are ignored.

        Returns:
            The entry of this problem, else the nearest within reach, else the default: also on a device that is not
            in the file.

        Raises:
            UsageError: no device is named and the file has several, or a size is missing.
        """
        known = sorted({e.device for e in self.entries})
        if device is None and len(known) > 1:
            raise UsageError(f"the wisdom of {self.kernel} has {len(known)} devices", f"name one: {known}")
        candidates = [e for e in self.entries if device is None or e.device == device]
        ranked = sorted(((distance(e.problem, problem), e.place, e) for e in candidates), key=lambda r: r[:2])
        if not ranked or ranked[0][0] > self.reach:
            return Choice(configuration=self.default, how="default")
        far, _, entry = ranked[0]
        how = "exact" if far == 0 and not entry.untold else "nearest"
        return Choice(configuration=entry.configuration, how=how, entry=entry, distance=far)


def distance(known: Mapping[str, int], asked: Mapping[str, int]) -> float:
    """The largest ratio of two sizes, in powers of two; infinite where one of them is not positive and they differ.

    Raises:
        UsageError: a size of ``known`` is not among the asked.
    """
    missing = sorted(known.keys() - asked.keys())
    if missing:
        raise UsageError(f"the problem has no size {missing[0]!r}", f"give {', '.join(sorted(known))}")
    far = 0.0
    for name, size in known.items():
        if size == asked[name]:
            continue
        if size <= 0 or asked[name] <= 0:
            return math.inf
        # Sizes that differ never count as the same, however large they are.
        far = max(far, abs(math.log2(size) - math.log2(asked[name])), 1e-12)
    return far


def wisdom(path: str | Path, problem: Mapping[str, int], *, device: str | None = None) -> Choice:
    """The configuration that a wisdom file has for a problem.

    Args:
        path: the file.
        problem: a value for every size that its entries name; further ones are ignored.
        device: as an entry names it; needed where the file knows several.

    Returns:
        A choice: its ``configuration``; ``how``: ``exact``, ``nearest`` or ``default``; the ``entry`` behind it;
        the ``distance`` of that entry's problem.

    Raises:
        UsageError: there is no such file, it is none, or a device or a size is missing.
    """
    return Wisdom.load(path).select(device, problem)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise TypeError(f"{value!r} is no number of at least 0")
    return float(value)


def _values(value: Any) -> dict[str, Value]:
    if not isinstance(value, dict) or not all(isinstance(v, int | float | str) for v in value.values()):
        raise TypeError(f"{value!r} is no configuration")
    return value


def _entry(data: Any) -> Entry:
    if not isinstance(data, dict) or data.keys() != _ENTRY_KEYS:
        raise TypeError("an entry does not have the keys of one")
    problem = data["problem"]
    if not isinstance(problem, dict) or not all(type(v) is int for v in problem.values()):
        raise TypeError(f"{problem!r} is no problem")
    low, high = _list(data["speedup"]["ci95"])
    if not isinstance(data["launch"], dict):
        raise TypeError(f"{data['launch']!r} is no launch")
    return Entry(
        device=_text(data["device"]),
        problem=problem,
        untold=tuple(_text(name) for name in _list(data["untold"])),
        configuration=_values(data["configuration"]),
        speedup=(_number(data["speedup"]["value"]), _number(low), _number(high)),
        time_s=None if data["time_s"] is None else _number(data["time_s"]),
        baseline_s=None if data["baseline_s"] is None else _number(data["baseline_s"]),
        launch=data["launch"],
        run=_text(data["run"]),
    )
