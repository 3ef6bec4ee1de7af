"""What a record holds, in forms that tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tuner.recorders.record import RunRecord


def events(path: Path) -> list[tuple[str, int | None, Any]]:
    with RunRecord.read(path) as record:
        return [(e.kind, e.trial, e.body) for e in record.events()]


def decided(path: Path) -> dict[int | None, list[tuple[str, Any]]]:
    """Events by trial, without clock readings, what a kill leaves behind, and attempts that a kill cut short."""
    timing = ("clock_s", "cost_s", "ask_s", "seen", "wall_s")
    kept: dict[int | None, list[tuple[str, Any]]] = {}
    for kind, trial, body in events(path):
        if kind in ("resume", "interrupt"):
            continue
        own = kept.setdefault(trial, [])
        if kind == "abandoned":
            own.clear()
            continue
        own.append((kind, {k: v for k, v in body.items() if k not in timing}))
    return kept
