"""For build scripts: an object file that is tuned once and then reused."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuner.core.canonical import digest, digest_json
from tuner.core.errors import BaselineError, RecordError, UsageError
from tuner.core.files import write_atomically
from tuner.core.protocols import Backend
from tuner.driver.opening import open_state
from tuner.driver.options import Options
from tuner.driver.outcome.export import best_object
from tuner.driver.outcome.outcome import outcome
from tuner.driver.records import has_ended
from tuner.driver.runs import begin, resume
from tuner.driver.state.version import of_another
from tuner.driver.work.environment import toolchain
from tuner.evaluators import registry as backends
from tuner.recorders.record import RunRecord
from tuner.spec.load import LoadedSpec

__all__ = ["ensure"]


def ensure(
    spec: LoadedSpec, out: Path, options: Options, *, offline: bool = False, backend: Backend | None = None
) -> Path:
    """Makes sure that ``out`` is the tuned object of the spec for this toolchain and this processor.

    The record stands beside it as ``<out>.run``, the key of what it was tuned for as ``<out>.json``. Two builds at
    once wait for each other. A run that was killed is gone on with.

    Raises:
        UsageError: ``out`` is a folder; ``offline`` is set and no finished run for this key is there.
        BaselineError: the kernel as given does not build or verify.
    """
    if out.is_dir():
        raise UsageError(f"{out} is a folder", "name the object file, for example kernel.o in it")
    if spec.loop is not None:
        raise UsageError(
            f"the kernel is a loop of {spec.loop.function}, of which no object can be linked",
            "put the winner into the source: tuner tune, then tuner export RUN -o FOLDER",
        )
    backend = backends.given(backend, spec.task.backend)
    key = digest_json({"spec": spec.digest, "environment": toolchain(backend, spec.task)})
    record, note = Path(f"{out}.run"), Path(f"{out}.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    with _locked(Path(f"{out}.lock")):
        if _fresh(out, note, key):
            return out
        if not _finished(record, key):
            if offline:
                raise UsageError(
                    f"{out} is not tuned for this source, toolchain and processor",
                    "tune it once without offline",
                )
            _tune(spec, record, options, key, backend)
        with RunRecord.read(record) as opened:
            state, _, _ = open_state(opened)
            code = best_object(opened, state, outcome(record, state).summary.best.number)
        write_atomically(out, code)
        described = {"key": key, "object": digest(code), "run": record.name}
        write_atomically(note, (json.dumps(described, indent=2) + "\n").encode())
    return out


def _tune(spec: LoadedSpec, record: Path, options: Options, key: str, backend: Backend) -> None:
    start = _start_for(record, key)
    # What another version began nobody can go on with.
    if start is not None and not of_another(start):
        result = resume(record, backend=backend)
    else:
        for old in (record, Path(f"{record}.sha256")):
            old.unlink(missing_ok=True)
        result = begin(spec, record, options, backend=backend)
    if result.failed:
        raise BaselineError(result.summary.message, "tuner check says more")
    if result.interrupted:
        raise UsageError("the run was interrupted", "call again to go on with it")


def _fresh(out: Path, note: Path, key: str) -> bool:
    try:
        described: dict[str, Any] = json.loads(note.read_text())
        return bool(described["key"] == key and described["object"] == digest(out.read_bytes()))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _finished(record: Path, key: str) -> bool:
    if _start_for(record, key) is None:
        return False
    with RunRecord.read(record) as opened:
        return has_ended(opened)


def _start_for(record: Path, key: str) -> Mapping[str, Any] | None:
    """The body of a record's first event, where there is such a record for this key."""
    if not record.exists():
        return None
    try:
        with RunRecord.read(record) as opened:
            start = next(iter(opened.events(kind="start")), None)
    except RecordError:
        return None
    if start is None:
        return None
    own = digest_json({"spec": start.body["spec_digest"], "environment": start.body["environment"]})
    return start.body if own == key else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
