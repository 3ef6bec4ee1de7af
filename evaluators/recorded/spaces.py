"""Recorded spaces: what became of each measured configuration, and the common format they are kept in.

The format is ``kernel-space-1``: parameters with their values, one row a configuration, repeats in milliseconds. May
not measure anything, nor know which configurations a search may propose.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tuner.core.errors import SpecError
from tuner.core.types import Status, Value

__all__ = ["ENERGY", "FORMAT", "RecordedSpace", "Row", "key_of", "positive", "values_seen"]

FORMAT = "kernel-space-1"

ENERGY = ("nvml_energy", "ps_energy", "energy")
"""Under which names energies in joules are recorded, the first that is there counts."""

_LETTERS = {
    "o": Status.OK,
    "c": Status.BUILD_ERROR,
    "r": Status.CRASHED,
    "t": Status.TIMED_OUT,
    "w": Status.WRONG_RESULT,
    "m": Status.OUT_OF_RESOURCES,
    "x": Status.REFUSED,
}
_LEGEND = {
    "o": "ok",
    "c": "compile failed",
    "r": "run failed",
    "t": "timed out",
    "w": "wrong result",
    "m": "out of resources",
    "x": "refused",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration.

    Attributes:
        status: what became of it.
        times_s: seconds of single repeats; empty unless the status is ``ok``.
        compile_s: what compiling it took.
        run_s: what verifying and timing it took.
        energy_j: of one run, where it was recorded.
    """

    status: Status
    times_s: tuple[float, ...] = ()
    compile_s: float = 0.0
    run_s: float = 0.0
    energy_j: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpace:
    """All that is known of one kernel on one device.

    Attributes:
        kernel: its name.
        device: where it was measured; empty when the source does not say.
        parameters: values by name, in the order of the source.
        rows: by :func:`key_of` of the values in the parameters' order.
        restrictions: expressions over parameters; ``None`` when the source does not give them.
        source: where it comes from; plain JSON.
    """

    kernel: str
    device: str
    parameters: Mapping[str, tuple[Value, ...]]
    rows: Mapping[tuple[str, ...], Row] = field(repr=False)
    restrictions: tuple[str, ...] | None = None
    source: Mapping[str, Any] = field(default_factory=dict)

    def row(self, configuration: Mapping[str, Value]) -> Row | None:
        """What became of a configuration, or ``None`` for one that was not measured."""
        if any(name not in configuration for name in self.parameters):
            return None
        return self.rows.get(key_of(configuration[name] for name in self.parameters))

    def configurations(self) -> list[tuple[dict[str, Value], Row]]:
        """Every row with its values, in order."""
        values = {name: {_word(v): v for v in choices} for name, choices in self.parameters.items()}
        return [
            ({name: values[name][word] for name, word in zip(self.parameters, key, strict=True)}, row)
            for key, row in self.rows.items()
        ]

    @property
    def has_energy(self) -> bool:
        """Whether everything that worked has an energy."""
        worked = [row for row in self.rows.values() if row.status is Status.OK]
        return bool(worked) and all(row.energy_j is not None for row in worked)

    def to_text(self) -> str:
        """The space in its own format; times to seven digits."""
        positions = {
            name: {_word(v): i for i, v in enumerate(values)} for name, values in self.parameters.items()
        }
        letters = {status: letter for letter, status in _LETTERS.items()}
        rows = list(self.rows.items())
        times = [[_short(1e3 * t) for t in row.times_s] for _, row in rows]
        return json.dumps(
            {
                "format": FORMAT,
                "kernel": self.kernel,
                "device": self.device,
                "time_unit": "ms",
                "source": dict(self.source),
                "params": {name: list(values) for name, values in self.parameters.items()},
                "restrictions": None if self.restrictions is None else list(self.restrictions),
                "status_legend": _LEGEND,
                "cfg": [[positions[n][w] for n, w in zip(positions, key, strict=True)] for key, _ in rows],
                "status": "".join(letters[row.status] for _, row in rows),
                "time": [_short(sum(t) / len(t)) if t else None for t in times],
                "times": times,
                "compile_ms": [_short(1e3 * row.compile_s) for _, row in rows],
                "verify_ms": [0.0] * len(rows),
                "bench_ms": [_short(1e3 * row.run_s) for _, row in rows],
                **self._metrics(),
            },
            separators=(",", ":"),
        )

    def _metrics(self) -> dict[str, Any]:
        energies = [row.energy_j for row in self.rows.values()]
        return {} if all(e is None for e in energies) else {"metrics": {"energy": energies}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RecordedSpace:
        """The inverse of :meth:`to_text`.

        Raises:
            SpecError: something is missing or does not fit together.
        """
        try:
            parameters = {str(name): tuple(values) for name, values in data["params"].items()}
            # As :func:`key_of` has them; each value is one of many rows.
            words = [key_of(values) for values in parameters.values()]
            count = len(data["cfg"])
            spent = [
                [float(x or 0.0) for x in data.get(name) or [0.0] * count]
                for name in ("compile_ms", "verify_ms", "bench_ms")
            ]
            metrics = data.get("metrics") or {}
            energies = next((metrics[name] for name in ENERGY if name in metrics), [None] * count)
            rows = {}
            for i, positions in enumerate(data["cfg"]):
                key = tuple([word[p] for word, p in zip(words, positions, strict=True)])
                status = _LETTERS[data["status"][i]]
                repeats = data["times"][i] or [data["time"][i]]
                rows[key] = Row(
                    status=status,
                    times_s=tuple(1e-3 * float(t) for t in repeats) if status is Status.OK else (),
                    compile_s=1e-3 * spent[0][i],
                    run_s=1e-3 * (spent[1][i] + spent[2][i]),
                    energy_j=positive(energies[i]) if status is Status.OK else None,
                )
            restrictions = data.get("restrictions")
            return cls(
                kernel=str(data["kernel"]),
                device=str(data.get("device") or ""),
                parameters=parameters,
                rows=rows,
                restrictions=None if restrictions is None else tuple(map(str, restrictions)),
                source=data.get("source") or {},
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise SpecError(
                f"the recorded space does not hold together ({type(error).__name__}: {error})",
                f"the format is {FORMAT}; make it with tuner import",
            ) from None


def positive(value: Any) -> float | None:
    """A number above 0, or ``None`` for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0.0 < value < float("inf")
    return float(value) if good else None


def key_of(values: Any) -> tuple[str, ...]:
    """Values as text, so that 1, 1.0 and ``true`` do not mix but equal values of one kind meet."""
    return tuple(_word(v) for v in values)


def _word(value: Value) -> str:
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


def _short(value: float) -> float:
    return float(f"{value:.7g}")


def values_seen(configurations: Sequence[Mapping[str, Value]]) -> dict[str, tuple[Value, ...]]:
    """Parameters with the values that occur, numbers ascending."""
    found: dict[str, dict[str, Value]] = {}
    for configuration in configurations:
        for name, value in configuration.items():
            found.setdefault(name, {}).setdefault(_word(value), value)
    made: dict[str, tuple[Value, ...]] = {}
    for name, by_word in found.items():
        values = list(by_word.values())
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        made[name] = tuple(sorted(values, key=float) if numeric else values)
    return made
