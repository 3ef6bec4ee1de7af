"""Times that several runs of one kernel share: what was built and timed once is not built and timed again.

Runs that differ in how they search try many of the same codes. With a table all of them see the same numbers, so that a
difference between them is one of the search, and only new code costs time. What is new is built, verified and timed for
real. The machine's drift is left in the times: a disturbed look at the baseline would make everything after it seem
fast. Controls and confirmations answer with the times of the search, so a run over a table claims nothing.
"""

from __future__ import annotations

import hashlib
import pickle
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tuner.core.protocols import Backend, BaselineReport, Evaluation, Session
from tuner.core.types import (
    BASELINE,
    Build,
    BuildRequest,
    Measurement,
    Resolved,
    Status,
    Task,
    Variant,
    Verdict,
)

__all__ = ["SharedTimes", "Table"]

SEARCH = "search"
_FAULTS = (Status.LOST, Status.REFUSED)
"""What may be the machine's doing is not kept."""


class Table:
    """A file of pickled values by the digest of their keys.

    Attributes:
        new: values put there since it was opened, by kind.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path)
        # What a killed machine loses is timed again.
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value BLOB)")
        self.new: dict[str, int] = {}

    def get(self, kind: str, *key: object) -> Any:
        """``None`` where there is none."""
        row = self._file.execute("SELECT value FROM kept WHERE key = ?", (_digest(kind, key),)).fetchone()
        return None if row is None else pickle.loads(row[0])

    def put(self, value: object, kind: str, *key: object) -> None:
        """In the file when this returns, for whoever reads it next."""
        with self._file:
            self._file.execute(
                "INSERT OR REPLACE INTO kept VALUES (?, ?)", (_digest(kind, key), pickle.dumps(value))
            )
        self.new[kind] = self.new.get(kind, 0) + 1

    def close(self) -> None:
        """Safe to call twice."""
        self._file.close()


def _digest(kind: str, key: Sequence[object]) -> str:
    return f"{kind} {hashlib.sha256(repr(key).encode()).hexdigest()}"


@dataclass(slots=True, kw_only=True)
class _Kept:
    """What is known of one code: its verdict, and the rounds of each problem."""

    verdict: Verdict
    rounds: dict[int, list[Measurement]] = field(default_factory=dict)


class SharedTimes:
    """A :class:`tuner.core.protocols.Backend` that asks another one only for what a table does not have.

    Args:
        inner: builds, verifies and times what is new.
        table: of all runs.
    """

    def __init__(self, inner: Backend, table: Table) -> None:
        self._inner, self._table = inner, table
        self._real: dict[str, _Real] = {}
        self.name = inner.name

    def environment(self, target: str) -> Mapping[str, Any]:
        """The other's."""
        return self._inner.environment(target)

    def check_flags(self, flags: Sequence[str]) -> None:
        """As the other does."""
        self._inner.check_flags(flags)

    def pass_catalogue(self, target: str = "native") -> Mapping[str, Any] | None:
        """The other's."""
        return self._inner.pass_catalogue(target)

    def prepare(self, task: Task, *, workers: int) -> _SharedEvaluation:
        """Nothing is started before something is new. Runs with other seeds share one evaluation and its inputs."""
        name = repr(replace(task, seed=0, kernel=replace(task.kernel, folder="")))
        if name not in self._real:
            # One kernel after the other: no more than one has workers.
            self._stop()
            self._real[name] = _Real(lambda: self._inner.prepare(task, workers=workers))
        return _SharedEvaluation(name, self._real[name], self._table)

    def close(self) -> None:
        """Ends what was started."""
        self._stop()
        self._table.close()

    def _stop(self) -> None:
        while self._real:
            self._real.popitem()[1].close()


class _Real:
    """The evaluation behind the table, started when it is needed."""

    def __init__(self, prepare: Callable[[], Evaluation]) -> None:
        self._prepare = prepare
        self._evaluation: Evaluation | None = None
        self._request: BuildRequest | None = None
        self._baseline: Build | None = None
        self._report: BaselineReport | None = None

    def remember(self, request: BuildRequest) -> None:
        """How the baseline is built."""
        self._request = self._request or request

    def evaluation(self) -> Evaluation:
        """With the baseline built in it, which says what a candidate may import."""
        if self._evaluation is None:
            assert self._request is not None
            self._evaluation = self._prepare()
            (self._baseline,) = self._evaluation.build([self._request])
        return self._evaluation

    def report(self) -> BaselineReport:
        """Of the baseline, set once."""
        evaluation = self.evaluation()
        if self._report is None:
            assert self._baseline is not None
            assert self._request is not None
            self._report = evaluation.set_baseline(self._baseline, self._request.resolved)
        return self._report

    def open(self, build: Build, resolved: Resolved) -> Session:
        """A session once the baseline is set."""
        self.report()
        return self.evaluation().open(build, resolved, purpose=SEARCH, number=0)

    def close(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None


class _SharedEvaluation:
    """A :class:`tuner.core.protocols.Evaluation` over a table."""

    times = True
    objectives = ("time", "size")

    def __init__(self, name: str, real: _Real, table: Table) -> None:
        self.name, self.real, self.table = name, real, table
        self.baseline = ""

    def build(self, requests: Sequence[BuildRequest]) -> list[Build]:
        """Only what was never built is compiled."""
        found: list[Build] = []
        for request in requests:
            if request.trial == BASELINE:
                self.real.remember(request)
            key = (self.name, request.variant.digest, request.resolved, request.trial == BASELINE)
            made = self.table.get("build", *key)
            if made is None:
                (made,) = self.real.evaluation().build([request])
                self.table.put(made, "build", *key)
            found.append(made)
        return found

    def build_with(self, command: Sequence[str], resolved: Resolved) -> Build:
        """The other's."""
        return self.real.evaluation().build_with(command, resolved)

    def set_baseline(self, build: Build, resolved: Resolved) -> BaselineReport:
        """The first run's, so that all size their batches alike."""
        self.baseline = build.key
        made: BaselineReport | None = self.table.get("baseline", self.name)
        if made is None:
            made = self.real.report()
            if made.status not in _FAULTS:
                self.table.put(made, "baseline", self.name)
        return made

    def remarks(self, build: Build, resolved: Resolved, variant: Variant | None = None) -> Mapping[str, str]:
        """The other's."""
        return self.real.evaluation().remarks(build, resolved, variant)

    def open(self, build: Build, resolved: Resolved, *, purpose: str, number: int) -> _SharedSession:
        """A session that opens a real one only for what is new."""
        return _SharedSession(self, build, resolved, final=purpose != SEARCH)

    def close(self) -> None:
        """What was started stays for the next run."""


class _SharedSession:
    """A :class:`tuner.core.protocols.Session` over a table; ``final`` ones time nothing that was timed before."""

    def __init__(self, of: _SharedEvaluation, build: Build, resolved: Resolved, *, final: bool) -> None:
        self._of, self._build, self._resolved, self._final = of, build, resolved, final
        self._key = (of.name, build.key)
        self._kept: _Kept | None = of.table.get("code", *self._key)
        self._session: Session | None = None
        self._done: dict[int, int] = {}

    def verify(self) -> Verdict:
        if self._kept is None:
            verdict = self._started()
            if verdict.status in _FAULTS:
                return verdict
            self._kept = _Kept(verdict=verdict)
            self._of.table.put(self._kept, "code", *self._key)
        return self._kept.verdict

    def measure(self, *, problem: int, calls: int) -> Measurement:
        assert self._kept is not None
        known = self._kept.rounds.setdefault(problem, [])
        control = self._build.key == self._of.baseline and self._session is None
        if known and (self._final or control):
            # All that is known of it: a control then says of the baseline what its own trial said, whenever it comes.
            return replace(known[0], times_s=tuple(t for one in known for t in one.times_s))
        number = self._done.get(problem, 0)
        self._done[problem] = number + 1
        if number < len(known):
            return known[number]
        if self._session is None:
            verdict = self._started()
            if verdict.status is not Status.OK:
                return Measurement(status=verdict.status, problem=problem, message=verdict.message)
        assert self._session is not None
        made = self._session.measure(problem=problem, calls=calls)
        if made.status not in _FAULTS:
            known.append(made)
            self._of.table.put(self._kept, "code", *self._key)
        return made

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _started(self) -> Verdict:
        self._session = self._of.real.open(self._build, self._resolved)
        return self._session.verify()
