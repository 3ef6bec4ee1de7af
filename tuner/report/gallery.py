"""The runs that a server shows: finds them, follows each, and says when there is something new to draw."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from tuner.core.errors import UsageError
from tuner.driver.audit import AuditReport
from tuner.driver.records import SUFFIX
from tuner.report.data import audit_or_reason, collect, statistics_of
from tuner.report.follow import Follower

__all__ = ["Gallery", "LiveRun"]

GROWTH = 1.5
"""Importance and associations take seconds: while a run goes on they wait until it has so many times the trials."""

FIRST_STATISTICS = 24


class LiveRun:
    """One record that may be growing. Safe to ask from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._follower = Follower(self._path)
        self._statistics: dict[str, Any] = {"importance": None, "passes": None}
        self._counted = 0
        self._drawn = ""
        self._data: dict[str, Any] | None = None
        self._audited: AuditReport | str | None = None
        self._auditing: threading.Thread | None = None

    def data(self, seen: str) -> dict[str, Any] | None:
        """The page's data with its ``stamp``; ``None`` where the reader with the stamp ``seen`` has it already.

        Raises:
            RecordError, AuditError: the record went away or is damaged.
        """
        with self._lock:
            if self._follower.replaced:
                self._begin()
            self._follower.update()
            if not self._follower.begun:
                return None
            ended = self._follower.state.end is not None
            if ended and self._auditing is None:
                # The audit takes as long as the proposals took; the page does not wait for it.
                self._auditing = threading.Thread(target=self._audit, args=(self._follower,), daemon=True)
                self._auditing.start()
            # One look: the audit may end while the data are put together.
            audited = self._audited
            stamp = f"{self._follower.stamp}.{int(ended)}.{int(audited is not None)}"
            if stamp == seen:
                return None
            if stamp != self._drawn or self._data is None:
                self._count(ended)
                found = collect(self._follower, audited=audited, statistics=self._statistics)
                self._data, self._drawn = {**found, "stamp": stamp}, stamp
            return self._data

    def _count(self, ended: bool) -> None:
        count = len(self._follower.finished)
        due = count >= max(FIRST_STATISTICS, GROWTH * self._counted)
        if due or (ended and count != self._counted):
            self._statistics = statistics_of(self._follower)
            self._counted = count

    def _audit(self, follower: Follower) -> None:
        found = audit_or_reason(follower)
        if follower is self._follower:
            self._audited = found


class Gallery:
    """The records at a place: one file, or all of a folder, those that come later included.

    Raises:
        UsageError: there is nothing at that place.
        RecordError: the one file is no run record.
    """

    def __init__(self, place: Path) -> None:
        if not place.exists():
            raise UsageError(f"there is nothing at {place}", "name a run record or a folder of them")
        self._place = place
        self._lock = threading.Lock()
        self._runs: dict[str, LiveRun] = {}
        if not place.is_dir():
            self._runs[place.name] = LiveRun(place)

    def names(self) -> list[str]:
        """The records' names, the newest first."""
        if not self._place.is_dir():
            return [self._place.name]
        found = []
        for path in self._place.glob(f"*{SUFFIX}"):
            try:
                found.append((path.stat().st_mtime, path.name))
            except FileNotFoundError:
                # A run whose baseline failed takes its record away.
                continue
        return [name for _, name in sorted(found, reverse=True)]

    def run(self, name: str) -> LiveRun | None:
        """The record of that name; ``None`` where there is none.

        Raises:
            RecordError: it is no run record.
        """
        if name not in self.names():
            return None
        with self._lock:
            if name not in self._runs:
                self._runs[name] = LiveRun(self._place / name)
            return self._runs[name]
